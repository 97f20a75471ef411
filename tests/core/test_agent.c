/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent of a job with networks: a pass, in which order; what wakes it and whom it wakes; what
 * it costs. The network is fake_net. Where sleeps are lengthened, only a wake-up can end them.
 */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "core/core.h"
#include "core/path/progress.h"
#include "core/path/req.h"
#include "oriel.h"
#include "tests/core/fake_net.h"
#include "tests/core/fake_path.h"
#include "tests/t.h"

#define LONG_NS (20 * ORL_NS_PER_S)
#define LATE_S  10.0 /* nothing takes so long unless a wake-up is lost */

TestSuite(agent, .timeout = 110);

static void only_wake_ups(void)
{
    core_sleep_bounds =
        (struct core_sleep_bounds){ .min_ns = LONG_NS, .max_ns = LONG_NS, .away_ns = LONG_NS };
}

static void begin(enum fake_arm arm)
{
    fake_open(4);
    fake_net_open(arm);
    cr_assert_eq(core_agent_start(), 0);
}

static void end(void)
{
    core_agent_stop();
    fake_net_close();
    cr_assert_eq(fake_close(), 0);
}

static uint64_t polled(void)
{
    return atomic_load_explicit(&fake_net.polled, memory_order_acquire);
}

/* Seconds until the agent has found n events. */
static double until_polled(uint64_t n)
{
    double start = t_now();

    while (polled() < n && t_now() - start < LATE_S) {
        t_sleep_ms(1);
    }
    return t_now() - start;
}

static void until_asleep(enum core_agent_sleep how)
{
    double start = t_now();

    while (atomic_load(&core_agent_sleep) != (uint32_t)how) {
        cr_assert_lt(t_now() - start, LATE_S, "the agent does not go to sleep");
        t_sleep_ms(1);
    }
}

/* ---------------------------------------------------------------- a pass */

/* Serve, arm, look again, sleep; and only what came of the look is a reason to stay awake. */
/* covers: N2 N10 */
Test(agent, a_pass_arms_looks_again_and_sleeps)
{
    uint32_t n;

    only_wake_ups();
    begin(FAKE_ARM_FD);
    until_asleep(CORE_AGENT_ARMED);
    t_sleep_ms(50);
    n = atomic_load(&fake_net.ntrace);
    cr_assert_geq(n, 3);
    cr_assert_lt(n, 100, "it was to sleep");
    cr_assert(memcmp(&fake_net.trace[n - 3], "pap", 3) == 0, "%.*s", (int)n, fake_net.trace);
    fake_net_event();
    cr_assert_lt(until_polled(1), LATE_S);
    until_asleep(CORE_AGENT_ARMED);
    t_sleep_ms(50);
    n = atomic_load(&fake_net.ntrace);
    cr_assert(memchr(fake_net.trace, 'e', n) != NULL);
    cr_assert(memcmp(&fake_net.trace[n - 3], "pap", 3) == 0, "%.*s", (int)n, fake_net.trace);
    end();
}

/* What could not be handed to the network may need another try. */
/* covers: N8 N10 N12 */
Test(agent, a_single_operation_and_then_silence)
{
    only_wake_ups();
    begin(FAKE_ARM_NONE);
    t_sleep_ms(100);
    until_asleep(CORE_AGENT_IDLE);
    for (int i = 0; i < 5; i++) {
        uint64_t looks = atomic_load(&fake_net.looks);
        double start = t_now();

        atomic_fetch_add(&fake_net.engine.nposted, 1);
        core_agent_posted(&fake_net.engine);
        while (atomic_load(&fake_net.looks) < looks + 20 && t_now() - start < LATE_S) {
            t_sleep_ms(1);
        }
        cr_assert_lt(t_now() - start, LATE_S, "it sleeps although something is under way");
        atomic_fetch_add(&fake_net.engine.ndone, 1);
        t_sleep_ms(100);
        until_asleep(CORE_AGENT_IDLE);
    }
    end();
}

/* The same with a descriptor, where a full queue is what the descriptor cannot tell. */
Test(agent, a_queue_is_tried_again)
{
    uint64_t looks;
    double start;

    only_wake_ups();
    begin(FAKE_ARM_FD);
    until_asleep(CORE_AGENT_ARMED);
    t_sleep_ms(50);
    looks = atomic_load(&fake_net.looks);
    core_agent_posted(&fake_net.engine);
    t_sleep_ms(20);
    cr_assert_eq(atomic_load(&fake_net.looks), looks, "all was taken: there is nothing to do");
    atomic_store(&fake_net.engine.nwaiting, 1);
    core_agent_posted(&fake_net.engine);
    start = t_now();
    while (atomic_load(&fake_net.looks) < looks + 50 && t_now() - start < LATE_S) {
        t_sleep_ms(1);
    }
    cr_assert_lt(t_now() - start, LATE_S);
    atomic_store(&fake_net.engine.nwaiting, 0);
    end();
}

Test(agent, every_answer_to_arm_is_served)
{
    for (int arm = FAKE_ARM_FD; arm <= FAKE_ARM_NONE; arm++) {
        begin((enum fake_arm)arm);
        for (uint64_t i = 1; i <= 20; i++) {
            t_sleep_ms((int)i);
            fake_net_event();
            cr_assert_lt(until_polled(i), LATE_S);
        }
        end();
    }
}

/* ---------------------------------------------------------------- callers */

static bool some_came(void *arg)
{
    return polled() >= *(const uint64_t *)arg;
}

static int wait_for(uint64_t n)
{
    struct core_wait wait = {
        .ready = some_came, .arg = &n, .deadline = ORL_NEVER, .call = "oriel_test_call", .rank = -1
    };

    return core_wait(&wait);
}

static void *event_later(void *arg)
{
    const struct timespec *pause = arg;

    (void)nanosleep(pause, NULL);
    fake_net_event();
    return NULL;
}

/* Event n comes so many nanoseconds from now; the caller waits for it. Seconds that took. */
static double one_round(uint64_t n, long ns)
{
    struct timespec pause = { .tv_nsec = ns };
    double start = t_now();
    pthread_t nic;

    cr_assert_eq(pthread_create(&nic, NULL, event_later, &pause), 0);
    cr_assert_eq(wait_for(n), 0);
    (void)pthread_join(nic, NULL);
    return t_now() - start;
}

/* Whatever the caller does when the event comes, spins, yields, goes to sleep or sleeps: somebody
 * sees it. Half of the rounds are near the moment at which it parks, some well after it. */
static void rounds(int n)
{
    double worst = 0;

    for (int i = 1; i <= n; i++) {
        long ns = i % 100 == 0 ? 30000000 : (i % 2 == 0 ? 900000 : 0) + i * 7919L % 400000;
        double took = one_round((uint64_t)i, ns);

        worst = took > worst ? took : worst;
        cr_assert_lt(worst, LATE_S, "round %d: a wake-up was lost", i);
    }
    cr_log_info("worst of %d rounds %.2f ms", n, worst * 1e3);
}

Test(agent, no_event_is_missed_between_polling_and_sleep)
{
    only_wake_ups();
    begin(FAKE_ARM_FD);
    rounds(3000);
    end();
}

/* While a caller polls the agent leaves the engines alone, also when it is told of events. */
Test(agent, it_stays_away_while_a_caller_polls)
{
    uint64_t arms;
    uint64_t n = 0;
    double start;

    begin(FAKE_ARM_FD);
    until_asleep(CORE_AGENT_ARMED);
    arms = atomic_load(&fake_net.arms);
    for (start = t_now(); t_now() - start < 0.2 || n < 200;) {
        (void)one_round(++n, 0);
    }
    arms = atomic_load(&fake_net.arms) - arms;
    cr_log_info("armed %llu times in %llu waits", (unsigned long long)arms, (unsigned long long)n);
    cr_assert_lt(arms, n - n / 10);
    end();
}

/* Without an agent a caller that parks looks again by itself. */
Test(agent, callers_manage_without)
{
    double cpu;
    uint64_t never = UINT64_MAX;
    struct core_wait wait = {
        .ready = some_came, .arg = &never, .deadline = 0, .call = "oriel_test_call", .rank = -1
    };

    (void)setenv("ORIEL_AGENT", "off", 1);
    only_wake_ups();
    begin(FAKE_ARM_FD);
    cr_assert_not(core_agent_is_running());
    rounds(200);
    cpu = t_cpu();
    wait.deadline = orl_deadline_in(INT64_C(1000) * 1000 * 1000);
    cr_assert_eq(core_wait(&wait), ORIEL_ERR_TIMEOUT);
    cpu = t_cpu() - cpu;
    cr_log_info("%.1f ms of CPU in 1 s of waiting without an agent", cpu * 1e3);
    cr_assert_lt(cpu, 0.25);
    end();
}

/* ---------------------------------------------------------------- cost */

static double cost_of(double seconds)
{
    double cpu = t_cpu();

    t_sleep_ms((int)(seconds * 1e3));
    return (t_cpu() - cpu) / seconds;
}

/* covers: N11 N12 REL-07 */
Test(agent, it_costs_next_to_nothing)
{
    double share;

    begin(FAKE_ARM_FD);
    t_sleep_ms(100);
    share = cost_of(2);
    cr_assert_lt(share, 0.005, "idle with a descriptor: %.2f %%", share * 100);
    end();
    begin(FAKE_ARM_NONE);
    t_sleep_ms(100);
    share = cost_of(2);
    cr_assert_lt(share, 0.01, "idle without: %.2f %%", share * 100);
    /* Under way and silent: a stopped target. */
    atomic_fetch_add(&fake_net.engine.nposted, 1);
    core_agent_posted(&fake_net.engine);
    t_sleep_ms(1500);
    share = cost_of(2);
    cr_assert_lt(share, 0.05, "something under way: %.2f %%", share * 100);
    atomic_fetch_add(&fake_net.engine.ndone, 1);
    end();
}

/* A descriptor that stays readable although nothing comes must not cost a core. */
Test(agent, a_descriptor_that_cries_wolf_is_left_alone)
{
    double share;

    begin(FAKE_ARM_FD);
    t_sleep_ms(100);
    atomic_store(&fake_net.armed, 0);
    close(fake_net.fd);
    share = cost_of(1);
    cr_assert_lt(share, 0.2, "%.2f %%", share * 100);
    fake_net_event();
    cr_assert_lt(until_polled(1), LATE_S, "it must look all the same");
    core_agent_stop();
    fake_net.fd = dup(0);
    end();
}

/* ---------------------------------------------------------------- deadlines */

/* Nobody waits, nobody tests: the request ends at its time, and settles at its own. */
/* covers: K13 */
Test(agent, a_deadline_ends_a_request_nobody_waits_for)
{
    struct fake_path fake;
    struct oriel_request *req = NULL;
    char data[64] = "";
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct oriel_xfer op = { .kind = ORIEL_PUT, .src = data, .bytes = sizeof(data) };
    double start;

    begin(FAKE_ARM_FD);
    fake_path_init(&fake, 1);
    op.remote = &fake.remote;
    opts.timeout_ns = 100 * 1000 * 1000;
    cr_assert_eq(oriel_start(&op, 1, &opts, &req), 0, "%s", oriel_error_detail());
    start = t_now();
    while (atomic_load(&req->done) == 0 && t_now() - start < LATE_S) {
        t_sleep_ms(5);
    }
    cr_assert_neq(atomic_load(&req->done), 0);
    cr_assert_geq(t_now() - start, 0.09, "early");
    cr_assert_eq(req->error, ORIEL_ERR_TIMEOUT);
    cr_assert_not(oriel_request_settled(req));
    fake_end_all(&fake, 0);
    cr_assert(oriel_request_settled(req));
    cr_assert_eq(oriel_wait(&req, NULL), ORIEL_ERR_TIMEOUT);
    end();
}

/* ---------------------------------------------------------------- registration */

static atomic_int in_reg;
static atomic_int leave_reg;

static void slow_reg(void)
{
    atomic_store(&in_reg, 1);
    while (atomic_load(&leave_reg) == 0) {
        t_sleep_ms(1);
    }
}

static void *register_memory(void *arg)
{
    (void)!fab_region_reg(arg, &fake_net.engine);
    return NULL;
}

/* Pinning takes as long as it takes; the engine is served meanwhile. */
/* covers: N20 */
Test(agent, a_registration_stops_nothing)
{
    static char memory[4096];
    struct fab_region *region;
    pthread_t pinner;

    only_wake_ups();
    begin(FAKE_ARM_FD);
    fake_net.reg = slow_reg;
    cr_assert_eq(fab_region_open(&core.fabric, memory, sizeof(memory), FAB_ACCESS_LOCAL, &region),
                 0);
    cr_assert_eq(pthread_create(&pinner, NULL, register_memory, region), 0);
    while (atomic_load(&in_reg) == 0) {
        t_sleep_ms(1);
    }
    for (uint64_t i = 1; i <= 10; i++) {
        fake_net_event();
        cr_assert_eq(wait_for(i), 0);
        cr_assert_lt(until_polled(i), LATE_S);
    }
    atomic_store(&leave_reg, 1);
    (void)pthread_join(pinner, NULL);
    fab_region_drop(region);
    end();
}
