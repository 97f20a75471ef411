/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one waiting function, parking, and the agent: what ends a wait, what it costs while idle, and
 * that several threads and more ranks than CPUs wait well.
 */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "core/core.h"
#include "core/path/progress.h"
#include "oriel.h"
#include "tests/core/fake_path.h"
#include "tests/t.h"

TestSuite(progress, .timeout = 60);

static atomic_int flag;

static bool flag_is_set(void *arg)
{
    (void)arg;
    return atomic_load(&flag) != 0;
}

static atomic_int looks;

static int peer_is_dead(void *arg)
{
    (void)arg;
    return atomic_fetch_add(&looks, 1) == 2 ? ORIEL_ERR_PEER : 0;
}

static int set_and_die(void *arg)
{
    (void)arg;
    atomic_store(&flag, 1);
    return ORIEL_ERR_PEER;
}

static struct core_wait wait_for_flag(uint64_t deadline)
{
    return (struct core_wait){
        .ready = flag_is_set, .deadline = deadline, .call = "oriel_test_call", .rank = 3
    };
}

static void *set_soon(void *arg)
{
    t_sleep_ms(*(int *)arg);
    atomic_store(&flag, 1);
    core_wake();
    return NULL;
}

Test(progress, what_ends_a_wait)
{
    struct core_wait wait = wait_for_flag(0);
    double begin;

    fake_open(4);
    cr_assert_eq(core_wait(&wait), ORIEL_ERR_TIMEOUT, "passed already: a single look");
    cr_assert(strstr(oriel_error_detail(), "oriel_test_call") != NULL);
    begin = t_now();
    wait.deadline = orl_deadline_in(120 * 1000 * 1000);
    cr_assert_eq(core_wait(&wait), ORIEL_ERR_TIMEOUT);
    cr_assert_geq(t_now() - begin, 0.119, "not before its time");

    wait = wait_for_flag(ORL_NEVER);
    wait.alive = peer_is_dead;
    cr_assert_eq(core_wait(&wait), ORIEL_ERR_PEER, "at the third look");
    cr_assert_eq(atomic_load(&looks), 3);
    wait.alive = set_and_die;
    cr_assert_eq(core_wait(&wait), 0, "what a peer stored before it left counts");
    wait.deadline = 0;
    cr_assert_eq(core_wait(&wait), 0, "ready is looked at first");
    cr_assert_eq(fake_close(), 0);
    atomic_store(&flag, 0);
    wait = wait_for_flag(ORL_NEVER);
    cr_assert_eq(core_wait(&wait), ORIEL_ERR_STATE, "after finalize");
}

/* A park of up to 50 ms must not delay what another thread of the process does. */
Test(progress, wake_ends_a_park)
{
    struct core_wait wait = wait_for_flag(ORL_NEVER);
    pthread_t setter;
    int ms = 300;
    double worst = 1;

    fake_open(4);
    for (int i = 0; i < 5; i++) {
        double begin = t_now();

        atomic_store(&flag, 0);
        cr_assert_eq(pthread_create(&setter, NULL, set_soon, &ms), 0);
        cr_assert_eq(core_wait(&wait), 0);
        (void)pthread_join(setter, NULL);
        worst = t_now() - begin < worst ? t_now() - begin : worst;
    }
    cr_log_info("woken %.1f ms after the store", (worst - 0.3) * 1e3);
    cr_assert_eq(fake_close(), 0);
}

/* covers: N11 P3 */
Test(progress, idle_wait_costs_next_to_nothing)
{
    struct core_wait wait = wait_for_flag(orl_deadline_in(INT64_C(2000) * 1000 * 1000));
    double cpu = t_cpu();

    fake_open(4);
    cr_assert_eq(core_wait(&wait), ORIEL_ERR_TIMEOUT);
    cpu = t_cpu() - cpu;
    cr_assert_lt(cpu, 0.02, "%.2f ms of CPU in 2 s", cpu * 1e3);
    cr_assert_eq(fake_close(), 0);
}

Test(progress, watchdog_tells_what_a_call_waits_for)
{
    char path[256];
    char text[4096] = "";
    struct core_wait wait = wait_for_flag(0);
    int fd;

    t_temp(path, sizeof(path), "watchdog");
    fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    cr_assert_geq(fd, 0);
    (void)unlink(path);
    (void)setenv("ORIEL_WATCHDOG", "200ms", 1);
    fake_open(4);
    orl_log_redirect(fd);
    wait.bytes = 4711;
    wait.deadline = orl_deadline_in(INT64_C(700) * 1000 * 1000);
    cr_assert_eq(core_wait(&wait), ORIEL_ERR_TIMEOUT);
    orl_log_close();
    cr_assert_gt(pread(fd, text, sizeof(text) - 1, 0), 0, "nothing was printed");
    cr_assert(strstr(text, "oriel_test_call has waited") != NULL, "%s", text);
    cr_assert(strstr(text, "for rank 3") != NULL, "%s", text);
    cr_assert(strstr(text, "4711 bytes") != NULL, "%s", text);
    (void)close(fd);
    orl_log_redirect(-1);
    cr_assert_eq(fake_close(), 0);
}

/* ---------------------------------------------------------------- threads */

static atomic_int turn_of;
static atomic_int finished;

static bool is_my_turn(void *arg)
{
    return atomic_load(&turn_of) == *(int *)arg;
}

static void *take_turns(void *arg)
{
    int me = *(int *)arg;

    for (int i = 0; i < 200; i++) {
        struct core_wait wait = {
            .ready = is_my_turn, .arg = &me, .deadline = ORL_NEVER, .call = "turn", .rank = -1
        };

        if (core_wait(&wait) != 0) {
            return NULL;
        }
        atomic_store(&turn_of, (me + 1) % 4);
        core_wake();
    }
    atomic_fetch_add(&finished, 1);
    return NULL;
}

Test(progress, several_threads_wait_at_once)
{
    pthread_t threads[4];
    int me[4];

    fake_open(4);
    for (int i = 0; i < 4; i++) {
        me[i] = i;
        cr_assert_eq(pthread_create(&threads[i], NULL, take_turns, &me[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    cr_assert_eq(atomic_load(&finished), 4);
    cr_assert_eq(fake_close(), 0);
}

/* ---------------------------------------------------------------- agent */

static int count_threads(void)
{
    char line[128];
    int n = -1;
    FILE *file = fopen("/proc/self/status", "r");

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "Threads: %d", &n) == 1) {
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return n;
}

Test(progress, agent_comes_once_costs_nothing_and_goes)
{
    int before = count_threads();
    double cpu;

    fake_open(4);
    cr_assert_eq(core_agent_start(), 0);
    cr_assert_eq(core_agent_start(), 0);
    cr_assert_eq(count_threads(), before + 1);
    t_sleep_ms(100);
    cpu = t_cpu();
    t_sleep_ms(2000);
    cpu = t_cpu() - cpu;
    cr_assert_lt(cpu, 0.02, "%.2f ms of CPU in 2 s", cpu * 1e3);
    core_agent_stop();
    core_agent_stop();
    cr_assert_eq(count_threads(), before);
    cr_assert_eq(fake_close(), 0);
}

Test(progress, agent_may_be_forbidden)
{
    int before = count_threads();

    (void)setenv("ORIEL_AGENT", "off", 1);
    fake_open(4);
    cr_assert_eq(core_agent_start(), 0);
    cr_assert_eq(count_threads(), before);
    core_agent_stop();
    cr_assert_eq(fake_close(), 0);
}

/* ---------------------------------------------------------------- ranks */

/* More ranks than CPUs: a wait must give the CPU away, or each of these takes milliseconds. */
static int many_barriers(int rank, void *arg)
{
    double cpu;

    (void)rank;
    (void)arg;
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    cpu = t_cpu();
    for (int i = 0; i < 2000; i++) {
        t_check_ok(oriel_barrier(ORIEL_WORLD));
    }
    /* CPU time, to which other people's load adds nothing; spinning would take a time slice. */
    cpu = (t_cpu() - cpu) / 2000;
    t_check(cpu < 500e-6);
    return 0;
}

Test(progress, eight_ranks_share_the_cpus)
{
    cr_assert_eq(t_job(8, many_barriers, NULL), 0);
}
