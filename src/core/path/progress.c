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
#include "base/strbuf.h"
#include "base/sys.h"
#include "core/core.h"
#include "core/path/peer.h"
#include "core/path/ping.h"

#define YIELD_NS (1 * ORL_NS_PER_MS) /* of yielding before the first park */
#define REYIELD_NS                                                              \
 (100 * ORL_NS_PER_US) /* after a wake-up that did not bring what is waited for \
                        */
#define ALONE_MIN_NS (100 * ORL_NS_PER_US) /* of a park while nobody watches the networks */
#define ALONE_MAX_NS (1 * ORL_NS_PER_MS)
#define LOOK_NS      (50 * ORL_NS_PER_MS) /* between looks at the peers' lives */
#define YIELD_EVERY  8 /* empty looks at a network to a yield, where nobody else wants the CPU */
#define CROWDED_NS   (4 * ORL_NS_PER_US) /* a yield that lasts longer has let somebody else run */
#define SPIN_PAUSES  8                   /* between two polls while spinning */
#define SPIN_SAMPLE  256                 /* pauses timed to learn what one costs */

unsigned core_spin_turns;
struct core_sleep_bounds core_sleep_bounds = { .min_ns = 1 * ORL_NS_PER_MS,
                                               .max_ns = 50 * ORL_NS_PER_MS,
                                               .away_ns = 2 * ORL_NS_PER_MS };

/* Threads in core_wait: the lowest 16 bits count those that are awake, the next 16 all, and the
 * upper half all that ever were. */
#define AWAKE  UINT64_C(1)
#define INSIDE (UINT64_C(1) << 16)
#define BEGUN  (UINT64_C(1) << 32)

static struct {
    _Alignas(ORL_CACHE_LINE) _Atomic uint32_t epoch; /* futex word of a job without node memory */
    _Atomic uint32_t parked;                         /* threads parked on it */
    _Atomic uint64_t waiters;                        /* see AWAKE */
    atomic_bool closed;
    uint64_t spin_ticks;
    atomic_bool is_crowded; /* the last yield has let somebody else run */
} state;

/* What one waiting call knows of its own past. */
struct turn {
    uint64_t began;
    uint64_t now;
    uint64_t yield_until;
    uint64_t looked;
    uint64_t warned;
    uint64_t park_ns;
    unsigned empty; /* looks */
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
    core_pings_open();
}

void core_progress_close(void)
{
    atomic_store(&state.closed, true);
    core_wake();
    core_pings_close();
}

int core_progress(void)
{
    int events = fab_progress(&core.fabric);

    /* A message may have raised what another thread has parked for. */
    if (events > 0 && core.nnetworks > 0) {
        core_wake();
    }
    return events;
}

bool core_has_poller(void)
{
    /* Ordered after the agent's announcement; see park. */
    return (atomic_load_explicit(&state.waiters, memory_order_seq_cst) & (INSIDE - 1)) != 0;
}

bool core_has_waiter(void)
{
    return (atomic_load_explicit(&state.waiters, memory_order_seq_cst) & (BEGUN - INSIDE)) != 0;
}

uint32_t core_waits_begun(void)
{
    return (uint32_t)(atomic_load_explicit(&state.waiters, memory_order_relaxed) >> 32);
}

/* ---------------------------------------------------------------- parking */

void core_wake(void)
{
    struct fab_node *node = core.node;

    /* Pairs with the fence of park_alone or fab_node_park_begin. */
    atomic_thread_fence(memory_order_seq_cst);
    if (node != NULL) {
        if (atomic_load_explicit(&node->header->nparked[FAB_CALLER], memory_order_relaxed) != 0) {
            fab_node_wake_one(node, node->local, FAB_CALLER);
        }
        return;
    }
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

/* What is known of whom the call waits for: "rank 3 on h2", with what its network does. */
static void add_peer(struct orl_strbuf *out, int rank)
{
    const char *host = core_peer_host(rank);

    orl_strbuf_addf(out, " for rank %d", rank);
    if (host != NULL) {
        orl_strbuf_addf(out, " on %s", host);
    }
    core_ping_explain(rank, out);
}

static ORL_COLD void warn(const struct core_wait *wait, const struct turn *turn)
{
    uint64_t tenths = (turn->now - turn->began) / (ORL_NS_PER_S / 10);
    struct orl_strbuf text;
    char room[512];

    orl_strbuf_init(&text, room, sizeof(room));
    if (wait->rank >= 0) {
        add_peer(&text, wait->rank);
    }
    orl_log_warn(ORL_CAT_PATH, "%s has waited %llu.%llu s%s, %llu bytes under way", wait->call,
                 (unsigned long long)(tenths / 10), (unsigned long long)(tenths % 10), room,
                 (unsigned long long)wait->bytes);
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

    if (status == 0 && wait->rank >= 0) {
        status = core_ping_look(wait->rank);
    }
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

/* In a job with networks and without an agent no wake-up tells that something has come in. */
static struct core_sleep_bounds park_bounds(void)
{
    if (core.nnetworks > 0 && !core_agent_is_running()) {
        return (struct core_sleep_bounds){ .min_ns = ALONE_MIN_NS, .max_ns = ALONE_MAX_NS };
    }
    return core_sleep_bounds;
}

/* The agent announces that it leaves the polling to callers and then looks at `waiters`; we do the
 * opposite, all of it sequentially consistent: it sees that nobody polls, or we that it sleeps. */
static void park(const struct core_wait *wait, struct turn *turn)
{
    struct core_sleep_bounds bounds = park_bounds();
    uint64_t left = orl_deadline_left(wait->deadline);
    uint64_t park_ns = turn->park_ns > bounds.min_ns ? turn->park_ns : bounds.min_ns;
    union {
        const struct core_wait *in;
        void *out;
    } arg = { .in = wait };
    bool woken;

    park_ns = park_ns < bounds.max_ns ? park_ns : bounds.max_ns;
    (void)atomic_fetch_sub_explicit(&state.waiters, AWAKE, memory_order_seq_cst);
    core_agent_take_over();
    woken = core_park(FAB_CALLER, is_moving, arg.out, left < park_ns ? left : park_ns);
    if (woken) {
        /* Where another thread polls, there is nothing to do but to look and sleep again. */
        turn->park_ns = 0;
        turn->yield_until = orl_clock_ns() + (core_has_poller() ? 0 : REYIELD_NS);
    } else {
        turn->park_ns = park_ns * 2;
    }
    (void)atomic_fetch_add_explicit(&state.waiters, AWAKE, memory_order_relaxed);
}

/* Nothing has come. On a network each look takes a system call, and so does a yield: where no other
 * wants the CPU most of them would only make the answer late. */
static void give_way(struct turn *turn)
{
    bool is_alone = core.nnetworks > 0 && !core.oversubscribed &&
                    !atomic_load_explicit(&state.is_crowded, memory_order_relaxed);

    turn->empty++;
    if (is_alone && turn->empty % YIELD_EVERY != 0) {
        return;
    }
    orl_stat_add(&core.stats, ORL_STAT_YIELDS, 1);
    (void)sched_yield();
    if (core.nnetworks > 0) {
        atomic_store_explicit(&state.is_crowded, orl_clock_ns() - turn->now > CROWDED_NS,
                              memory_order_relaxed);
    }
}

static int wait_long(const struct core_wait *wait)
{
    uint64_t now = orl_clock_ns();
    struct turn turn = {
        .began = now, .now = now, .yield_until = now + YIELD_NS, .looked = now, .warned = now
    };

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
            give_way(&turn);
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
    (void)atomic_fetch_add_explicit(&state.waiters, BEGUN + INSIDE + AWAKE, memory_order_relaxed);
    if (!spin(wait)) {
        status = wait_long(wait);
    }
    (void)atomic_fetch_sub_explicit(&state.waiters, INSIDE + AWAKE, memory_order_relaxed);
    return status;
}
