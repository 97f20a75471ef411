/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress and the one waiting function; see progress.h. A thread parks on the futex word of its
 * rank in the node segment, where peers that store something for it wake it; in a job without node
 * memory it parks on a word of this process. No locks.
 */
#include "core/path/progress.h"

#include <limits.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/stats.h"
#include "base/sys.h"
#include "core/core.h"

#define YIELD_NS (1 * ORL_NS_PER_MS) /* of yielding before the first park */
#define REYIELD_NS                                                              \
 (100 * ORL_NS_PER_US) /* after a wake-up that did not bring what is waited for \
                        */
#define PARK_MIN_NS (1 * ORL_NS_PER_MS)
#define PARK_MAX_NS (50 * ORL_NS_PER_MS)
#define LOOK_NS     (50 * ORL_NS_PER_MS) /* between looks at the peers' lives */
#define SPIN_PAUSES 8                    /* between two polls while spinning */
#define SPIN_SAMPLE 256                  /* pauses timed to learn what one costs */

unsigned core_spin_turns;

static struct {
    _Alignas(ORL_CACHE_LINE) _Atomic uint32_t epoch; /* futex word of a job without node memory */
    _Atomic uint32_t parked;                         /* threads parked on it */
    _Atomic uint32_t pollers;                        /* threads in core_wait that are awake */
    atomic_bool closed;
    uint64_t spin_ticks;
} state;

/* What one waiting call knows of its own past. */
struct turn {
    uint64_t began;
    uint64_t now;
    uint64_t yield_until;
    uint64_t looked;
    uint64_t warned;
    uint64_t park_ns;
};

static unsigned turns_in(uint64_t ns)
{
    uint64_t begin = orl_clock_ticks();
    uint64_t sample;

    for (int i = 0; i < SPIN_SAMPLE; i++) {
        orl_cpu_pause();
    }
    sample = orl_clock_ns_of_ticks(orl_clock_ticks() - begin);
    sample = sample == 0 ? 1 : sample;
    ns = ns * SPIN_SAMPLE / sample;
    return ns > UINT_MAX ? UINT_MAX : (unsigned)ns;
}

void core_progress_open(void)
{
    uint64_t spin_ns = core.oversubscribed ? 0 : orl_conf.spin_time;

    atomic_store(&state.closed, false);
    state.spin_ticks = orl_clock_ticks_of_ns(spin_ns);
    core_spin_turns = turns_in(spin_ns);
}

void core_progress_close(void)
{
    atomic_store(&state.closed, true);
    core_wake();
}

int core_progress(void)
{
    return fab_progress(&core.fabric);
}

bool core_has_poller(void)
{
    return atomic_load_explicit(&state.pollers, memory_order_relaxed) != 0;
}

/* ---------------------------------------------------------------- parking */

void core_wake(void)
{
    if (core.node != NULL) {
        fab_node_wake(core.node, core.local);
        return;
    }
    /* Pairs with the fence of park_alone, as fab_node_wake does with fab_node_park_begin. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&state.parked, memory_order_relaxed) != 0) {
        (void)atomic_fetch_add_explicit(&state.epoch, 1, memory_order_release);
        (void)orl_sys_futex_wake(&state.epoch, INT_MAX);
    }
}

static bool park_alone(core_ready_fn look, void *arg, uint64_t timeout_ns)
{
    uint32_t epoch;
    bool woken = true;

    (void)atomic_fetch_add_explicit(&state.parked, 1, memory_order_relaxed);
    epoch = atomic_load_explicit(&state.epoch, memory_order_acquire);
    atomic_thread_fence(memory_order_seq_cst);
    if (!look(arg)) {
        woken = orl_sys_futex_wait(&state.epoch, epoch, timeout_ns) == 0;
    }
    (void)atomic_fetch_sub_explicit(&state.parked, 1, memory_order_relaxed);
    return woken;
}

static bool park_on_node(enum fab_sleeper who, core_ready_fn look, void *arg, uint64_t timeout_ns)
{
    struct fab_node *node = core.node;
    uint32_t epoch = fab_node_park_begin(node, who);

    if (look(arg)) {
        fab_node_park_cancel(node, who);
        return true;
    }
    fab_node_park_sleep(node, who, epoch, timeout_ns);
    return atomic_load_explicit(&node->ctl[node->local].epoch[who], memory_order_acquire) != epoch;
}

bool core_park(enum fab_sleeper who, core_ready_fn look, void *arg, uint64_t timeout_ns)
{
    orl_stat_add(&core.stats, ORL_STAT_PARKS, 1);
    return core.node != NULL ? park_on_node(who, look, arg, timeout_ns)
                             : park_alone(look, arg, timeout_ns);
}

/* ---------------------------------------------------------------- waiting */

/* Anything that makes another turn worth while. */
static bool is_moving(void *arg)
{
    const struct core_wait *wait = arg;

    return wait->ready(wait->arg) || core_progress() > 0 || atomic_load(&state.closed);
}

static bool spin_some(const struct core_wait *wait)
{
    for (int i = 0; i < SPIN_PAUSES; i++) {
        if (wait->ready(wait->arg)) {
            return true;
        }
        orl_cpu_pause();
    }
    return false;
}

static bool spin(const struct core_wait *wait)
{
    uint64_t begin = orl_clock_ticks();
    uint64_t limit = state.spin_ticks;
    uint64_t left = orl_deadline_left(wait->deadline);

    if (limit == 0) {
        return false;
    }
    if (left != ORL_NEVER && orl_clock_ticks_of_ns(left) < limit) {
        limit = orl_clock_ticks_of_ns(left);
    }
    do {
        if (spin_some(wait)) {
            return true;
        }
        (void)core_progress();
    } while (orl_clock_ticks() - begin < limit);
    return wait->ready(wait->arg);
}

static ORL_COLD void warn(const struct core_wait *wait, const struct turn *turn)
{
    uint64_t seconds = (turn->now - turn->began) / ORL_NS_PER_S;
    uint64_t tenths = (turn->now - turn->began) / (ORL_NS_PER_S / 10) % 10;

    if (wait->rank >= 0) {
        orl_log_warn(ORL_CAT_PATH, "%s has waited %llu.%llu s for rank %d, %llu bytes under way",
                     wait->call, (unsigned long long)seconds, (unsigned long long)tenths,
                     wait->rank, (unsigned long long)wait->bytes);
    } else {
        orl_log_warn(ORL_CAT_PATH, "%s has waited %llu.%llu s, %llu bytes under way", wait->call,
                     (unsigned long long)seconds, (unsigned long long)tenths,
                     (unsigned long long)wait->bytes);
    }
}

static ORL_COLD int timed_out(const struct core_wait *wait, uint64_t began)
{
    return orl_fail(ORL_ERR_TIMEOUT, "%s did not end within its time-out (%llu us)", wait->call,
                    (unsigned long long)((orl_clock_ns() - began) / ORL_NS_PER_US));
}

/* The look at the peers' lives and the watchdog. */
static int look_around(const struct core_wait *wait, struct turn *turn)
{
    int status = wait->alive == NULL ? 0 : wait->alive(wait->arg);

    turn->looked = turn->now;
    if (orl_conf.watchdog != 0 && turn->now - turn->warned >= orl_conf.watchdog) {
        warn(wait, turn);
        turn->warned = turn->now;
    }
    if (status != 0) {
        /* What a peer stored before it left is there by now. */
        (void)core_progress();
        return wait->ready(wait->arg) ? 0 : status;
    }
    return 0;
}

static void park(const struct core_wait *wait, struct turn *turn)
{
    uint64_t left = orl_deadline_left(wait->deadline);
    uint64_t park_ns = left < turn->park_ns ? left : turn->park_ns;
    union {
        const struct core_wait *in;
        void *out;
    } arg = { .in = wait };
    bool woken;

    (void)atomic_fetch_sub_explicit(&state.pollers, 1, memory_order_relaxed);
    woken = core_park(FAB_CALLER, is_moving, arg.out, park_ns);
    (void)atomic_fetch_add_explicit(&state.pollers, 1, memory_order_relaxed);
    if (woken) {
        turn->park_ns = PARK_MIN_NS;
        turn->yield_until = orl_clock_ns() + REYIELD_NS;
    } else {
        turn->park_ns = turn->park_ns * 2 < PARK_MAX_NS ? turn->park_ns * 2 : PARK_MAX_NS;
    }
}

static int wait_long(const struct core_wait *wait)
{
    uint64_t now = orl_clock_ns();
    struct turn turn = { .began = now,
                         .now = now,
                         .yield_until = now + YIELD_NS,
                         .looked = now,
                         .warned = now,
                         .park_ns = PARK_MIN_NS };

    while (!wait->ready(wait->arg)) {
        if (atomic_load_explicit(&state.closed, memory_order_relaxed)) {
            return orl_fail(ORL_ERR_STATE, "%s was under way when the library was finalized",
                            wait->call);
        }
        int events = core_progress();
        turn.now = orl_clock_ns();
        if (turn.now >= wait->deadline) {
            return timed_out(wait, turn.began);
        }
        int status = turn.now - turn.looked >= LOOK_NS ? look_around(wait, &turn) : 0;
        if (status != 0) {
            return status;
        }
        if (events > 0) {
            turn.yield_until = turn.now + YIELD_NS;
        } else if (turn.now < turn.yield_until) {
            orl_stat_add(&core.stats, ORL_STAT_YIELDS, 1);
            (void)sched_yield();
        } else {
            park(wait, &turn);
        }
    }
    return 0;
}

int core_wait(const struct core_wait *wait)
{
    int status = 0;

    if (wait->ready(wait->arg)) {
        return 0;
    }
    if (orl_deadline_passed(wait->deadline)) {
        (void)core_progress();
        return wait->ready(wait->arg) ? 0 : timed_out(wait, orl_clock_ns());
    }
    (void)atomic_fetch_add_explicit(&state.pollers, 1, memory_order_relaxed);
    if (!spin(wait)) {
        status = wait_long(wait);
    }
    (void)atomic_fetch_sub_explicit(&state.pollers, 1, memory_order_relaxed);
    return status;
}
