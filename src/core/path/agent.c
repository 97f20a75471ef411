/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent, and how the library makes threads; see agent.h. It owns nothing but its thread, an
 * eventfd and its bell.
 *
 * With networks, a turn of the agent is: serve until there has been nothing for a while; arm every
 * engine; announce the sleep; serve once more; sleep if that found nothing. The argument that no
 * wake-up is lost has three parts. Engines: what arrives after the arming makes the descriptor
 * readable, whoever polls meanwhile, and what arrived before it is found by the look after it,
 * unless some caller held the poller just then, and then the sleep is short. Peers of the host:
 * node_park.c. Threads of this process: they store what they want of it, then read
 * core_agent_sleep; it stores that, then looks for what they want, all sequentially consistent. The
 * one that changes core_agent_sleep back to AWAKE writes to the eventfd.
 *
 * However wrong all of this may go, sleeps are bounded: 50 ms while nothing is under way, far less
 * where an engine has no descriptor or could not take all of an operation.
 */
#include "core/path/agent.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/sys.h"
#include "core/core.h"
#include "core/path/progress.h"
#include "core/path/req.h"

#define QUIET_TURNS   32 /* empty turns, each with a yield, before it parks again */
#define NAP_MIN_NS    (50 * ORL_NS_PER_US)
#define NAP_POLLED_NS (1 * ORL_NS_PER_MS)  /* longest while something is under way unseen */
#define NAP_STUCK_NS  (16 * ORL_NS_PER_MS) /* longest until what an engine did not take is tried */
#define RECENT_NS     (20 * ORL_NS_PER_MS) /* after an event more are likely */
#define STALE_NS      (1000 * ORL_NS_PER_MS) /* after so long without one they are not */
#define VAIN_MAX      16 /* readable descriptors without an event, before they are left alone */
#define RINGS_FD      0  /* places in the list of what is polled */
#define BELL_FD       1

enum {
    AGENT_NONE,
    AGENT_STARTING,
    AGENT_RUNNING
};

static struct {
    _Atomic int life; /* AGENT_ */
    atomic_bool stop;
    pthread_t thread;
    int ring_fd;  /* owns; -1: without networks */
    int bell_fd;  /* borrows; -1: none */
    bool is_deaf; /* peers of this host cannot ring; the thread's once it runs */
} agent = { .ring_fd = -1, .bell_fd = -1 };

_Atomic uint32_t core_agent_sleep;

/* ---------------------------------------------------------------- threads */

struct start {
    const char *name;
    void (*run)(void);
    atomic_bool taken; /* the thread has read it */
};

static void *enter(void *arg)
{
    struct start *start = arg;
    void (*run)(void) = start->run;

    orl_sys_thread_name(start->name);
    atomic_store_explicit(&start->taken, true, memory_order_release);
    run();
    return NULL;
}

int core_thread_start(pthread_t *thread, const char *name, void (*run)(void))
{
    struct start start = { .name = name, .run = run };
    sigset_t all;
    sigset_t before;
    int error;

    /* Where locks were off, the caller is the only thread inside. */
    orl_lock_set_threaded(true);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, NULL, enter, &start);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        return orl_fail(ORL_ERR_SYS, "the thread %s could not be made: %s", name,
                        orl_os_text(error));
    }
    while (!atomic_load_explicit(&start.taken, memory_order_acquire)) {
        (void)sched_yield();
    }
    return 0;
}

/* ---------------------------------------------------------------- without networks */

static bool must_stop(void)
{
    return atomic_load_explicit(&agent.stop, memory_order_acquire);
}

static bool has_work(void *arg)
{
    (void)arg;
    return must_stop() || (!core_has_poller() && core_progress() > 0);
}

/* Until there has been nothing for a while, or a caller polls. */
static void serve(void)
{
    int quiet = 0;

    while (quiet < QUIET_TURNS && !must_stop() && !core_has_poller()) {
        if (core_progress() > 0) {
            quiet = 0;
        } else {
            quiet++;
            (void)sched_yield();
        }
    }
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Completes requests whose deadline has passed; how long until the next one's. */
static uint64_t look_at_deadlines(uint64_t now)
{
    uint64_t next = core_reqs_look(now);

    return next > now ? next - now : 0;
}

static void run_on_word(void)
{
    uint64_t park_ns = core_sleep_bounds.min_ns;

    while (!must_stop()) {
        uint64_t left = look_at_deadlines(orl_clock_ns());

        if (core_park(FAB_AGENT, has_work, NULL, least(park_ns, left))) {
            serve();
            park_ns = core_sleep_bounds.min_ns;
        } else {
            park_ns = least(park_ns * 2, core_sleep_bounds.max_ns);
        }
    }
}

/* ---------------------------------------------------------------- with networks */

struct watch {
    struct pollfd fds[2 + CORE_NETWORKS_MAX];
    nfds_t nfds;
    bool is_polled; /* some engine has no descriptor */
    bool is_stuck;  /* some engine has work that waits for its time */
    uint64_t moved; /* when there was last an event */
    uint64_t nap_ns;
    uint64_t away_ns;
    bool is_called;   /* a descriptor of an engine has ended the last sleep */
    unsigned in_vain; /* how often in a row that brought no event */
};

static void note_event(struct watch *watch)
{
    watch->moved = orl_clock_ns();
    watch->nap_ns = NAP_MIN_NS;
    watch->away_ns = core_sleep_bounds.away_ns / 4;
    watch->in_vain = 0;
}

/* One look, and more as long as something comes. */
static void serve_networks(struct watch *watch)
{
    int quiet = QUIET_TURNS - 1;

    while (quiet < QUIET_TURNS && !must_stop() && !core_has_poller()) {
        if (core_progress() > 0) {
            note_event(watch);
            quiet = 0;
        } else if (++quiet < QUIET_TURNS) {
            (void)sched_yield();
        } else {
            watch->in_vain += watch->is_called ? 1 : 0;
        }
        watch->is_called = false;
    }
}

/* A descriptor that is readable for nothing, again and again, is left alone for a nap. */
static void arm(struct watch *watch)
{
    bool is_vain = watch->in_vain >= VAIN_MAX;

    watch->nfds = agent.bell_fd >= 0 ? BELL_FD + 1 : RINGS_FD + 1;
    watch->is_polled = false;
    watch->is_stuck = is_vain;
    watch->in_vain -= is_vain ? 1 : 0;
    for (int i = 0; i < core.nnetworks; i++) {
        struct fab_engine *engine = core.network[i];
        int fd = -1;
        int status = fab_engine_arm(engine, &fd);

        if (status == 0 && !is_vain) {
            watch->fds[watch->nfds++] = (struct pollfd){ .fd = fd, .events = POLLIN };
        }
        watch->is_stuck |= status == ORL_ERR_AGAIN;
        watch->is_polled |= status != 0 && status != ORL_ERR_AGAIN;
    }
}

/* Whether something may come at any moment, as far as this process knows. */
static bool is_expectant(const struct watch *watch, uint64_t now)
{
    return now - watch->moved < RECENT_NS || core_has_waiter() || fab_is_busy(&core.fabric);
}

/* Doubles with each sleep that brought nothing, up to a limit. */
static uint64_t nap(struct watch *watch, uint64_t limit)
{
    uint64_t ns = watch->nap_ns;

    watch->nap_ns = least(ns * 2, core_sleep_bounds.max_ns);
    return least(ns, limit);
}

/* Some caller polls just now, so that a look of ours has seen nothing, or an engine has not taken
 * all there is. */
static bool is_held_up(void)
{
    for (int i = 0; i < core.nnetworks; i++) {
        if (orl_lock_is_held(&core.network[i]->poller) ||
            atomic_load_explicit(&core.network[i]->nwaiting, memory_order_relaxed) != 0) {
            return true;
        }
    }
    return false;
}

/* For how long nothing but a descriptor needs to wake the agent; asked after the last look. */
static uint64_t sleep_time(struct watch *watch, uint64_t now)
{
    uint64_t patience = now - watch->moved < STALE_NS ? 1 : 4;

    if (watch->is_polled && is_expectant(watch, now)) {
        return nap(watch, patience * NAP_POLLED_NS);
    }
    if (watch->is_stuck || is_held_up()) {
        return nap(watch, patience * NAP_STUCK_NS);
    }
    return agent.is_deaf ? nap(watch, core_sleep_bounds.max_ns) : core_sleep_bounds.max_ns;
}

/* Whether somebody of this process has rung. */
static bool sleep_for(struct watch *watch, nfds_t nfds, uint64_t ns)
{
    struct timespec time = { .tv_sec = (time_t)(ns / ORL_NS_PER_S),
                             .tv_nsec = (long)(ns % ORL_NS_PER_S) };
    int ready = ppoll(watch->fds, nfds, &time, NULL);
    bool is_rung = atomic_exchange_explicit(&core_agent_sleep, CORE_AGENT_AWAKE,
                                            memory_order_seq_cst) == CORE_AGENT_AWAKE;

    if (is_rung || (ready > 0 && watch->fds[RINGS_FD].revents != 0)) {
        eventfd_t rings;

        /* A ring that is written only now ends the next sleep at once, and is read there. */
        (void)!eventfd_read(agent.ring_fd, &rings);
    }
    for (nfds_t i = agent.bell_fd >= 0 ? BELL_FD + 1 : RINGS_FD + 1; ready > 0 && i < nfds; i++) {
        watch->is_called |= watch->fds[i].revents != 0;
    }
    return is_rung;
}

static void announce(enum core_agent_sleep how)
{
    atomic_store_explicit(&core_agent_sleep, how, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst);
}

/* A caller polls: until the last one parks, which rings, or until none has come for a while. */
static void stay_away(struct watch *watch)
{
    bool is_rung = false;
    uint32_t begun;

    do {
        begun = core_waits_begun();
        announce(CORE_AGENT_AWAY);
        if (must_stop() || (core_has_waiter() && !core_has_poller())) {
            break;
        }
        is_rung = sleep_for(watch, RINGS_FD + 1, watch->away_ns);
        watch->away_ns = least(watch->away_ns * 2, core_sleep_bounds.away_ns);
    } while (!is_rung && (core_has_poller() || core_waits_begun() != begun));
    atomic_store_explicit(&core_agent_sleep, CORE_AGENT_AWAKE, memory_order_seq_cst);
    watch->is_called = false;
}

/* The bell is found out to be useless by those who ring it. */
static void end_bell(void)
{
    fab_node_bell_end(core.node);
    if (!agent.is_deaf && fab_node_bell_is_deaf(core.node)) {
        agent.is_deaf = true;
        orl_log_info(ORL_CAT_AGENT, "a peer of this host is in another network namespace, so it "
                                    "looks for peers every 1 to 50 ms");
    }
}

static void sleep_armed(struct watch *watch)
{
    uint64_t now = orl_clock_ns();

    arm(watch);
    if (agent.bell_fd >= 0) {
        fab_node_bell_begin(core.node);
    }
    announce(watch->is_polled && !is_expectant(watch, now) ? CORE_AGENT_IDLE : CORE_AGENT_ARMED);
    if (core_progress() > 0) {
        note_event(watch);
    } else if (!must_stop()) {
        uint64_t ns = least(sleep_time(watch, now), look_at_deadlines(now));

        if (sleep_for(watch, watch->nfds, ns)) {
            watch->nap_ns = NAP_MIN_NS; /* something new is under way */
        }
    }
    atomic_store_explicit(&core_agent_sleep, CORE_AGENT_AWAKE, memory_order_seq_cst);
    if (agent.bell_fd >= 0) {
        end_bell();
    }
}

static void run_on_descriptors(void)
{
    struct watch watch = { .fds = { [RINGS_FD] = { .fd = agent.ring_fd, .events = POLLIN },
                                    [BELL_FD] = { .fd = agent.bell_fd, .events = POLLIN } },
                           .nap_ns = NAP_MIN_NS,
                           .away_ns = core_sleep_bounds.away_ns / 4,
                           .moved = orl_clock_ns() };

    while (!must_stop()) {
        if (core_has_poller()) {
            stay_away(&watch);
        }
        serve_networks(&watch);
        if (!core_has_poller()) {
            sleep_armed(&watch);
        }
    }
}

void core_agent_ring(void)
{
    if (atomic_exchange_explicit(&core_agent_sleep, CORE_AGENT_AWAKE, memory_order_seq_cst) !=
        CORE_AGENT_AWAKE) {
        (void)!eventfd_write(agent.ring_fd, 1);
    }
}

/* ---------------------------------------------------------------- its life */

/* Whether peers could ring it where they must. */
static void open_bell(void)
{
    agent.is_deaf = false;
    if (core.shm == NULL || core.node == NULL || core.node->nranks < 2) {
        return;
    }
    if (fab_node_bell_open(core.node, &agent.bell_fd) != 0) {
        agent.bell_fd = -1;
        agent.is_deaf = true;
        orl_log_info(ORL_CAT_AGENT, "looks for peers of this host every 1 to 50 ms: %s",
                     orl_last_error());
    }
}

static int open_descriptors(void)
{
    agent.ring_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (agent.ring_fd < 0) {
        return orl_fail(ORL_ERR_SYS, "the agent's eventfd could not be made: %s",
                        orl_os_text(errno));
    }
    open_bell();
    return 0;
}

static void close_descriptors(void)
{
    if (agent.bell_fd >= 0) {
        fab_node_bell_close(core.node);
    }
    if (agent.ring_fd >= 0) {
        (void)close(agent.ring_fd);
    }
    agent.bell_fd = -1;
    agent.ring_fd = -1;
}

int core_agent_start(void)
{
    int none = AGENT_NONE;
    int status = 0;

    if (orl_conf.agent == ORL_CONF_AGENT_OFF ||
        !atomic_compare_exchange_strong(&agent.life, &none, AGENT_STARTING)) {
        return 0;
    }
    atomic_store(&agent.stop, false);
    if (core.nnetworks > 0) {
        status = open_descriptors();
    }
    if (status == 0) {
        status = core_thread_start(&agent.thread, "oriel-agent",
                                   core.nnetworks > 0 ? run_on_descriptors : run_on_word);
    }
    if (status != 0) {
        close_descriptors();
    } else {
        orl_log_info(ORL_CAT_AGENT, "serves peers while this rank computes");
    }
    atomic_store(&agent.life, status == 0 ? AGENT_RUNNING : AGENT_NONE);
    return status;
}

bool core_agent_is_running(void)
{
    return atomic_load_explicit(&agent.life, memory_order_relaxed) == AGENT_RUNNING;
}

/* The thread sleeps on the word of the node, or on that of the process. */
static void wake_agent(void)
{
    if (agent.ring_fd >= 0) {
        core_agent_ring();
    } else if (core.node != NULL) {
        fab_node_wake(core.node, core.node->local);
    } else {
        core_wake();
    }
}

void core_agent_stop(void)
{
    if (!core_agent_is_running()) {
        return;
    }
    atomic_store(&agent.stop, true);
    wake_agent();
    (void)pthread_join(agent.thread, NULL);
    close_descriptors();
    atomic_store(&agent.life, AGENT_NONE);
}
