/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent, and how the library makes threads. The agent serves the engines while no thread of the
 * process waits in the library: peers that need this process's CPU (memory that only this process
 * maps) store into its rings and wake it, since it counts as parked. While a caller polls it goes
 * back to sleep at once. It owns nothing but its thread.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/conf.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/sys.h"
#include "core/core.h"
#include "core/path/progress.h"

#define PARK_MIN_NS (1 * ORL_NS_PER_MS)
#define PARK_MAX_NS (50 * ORL_NS_PER_MS)
#define QUIET_TURNS 32 /* empty turns, each with a yield, before it parks again */

enum {
    AGENT_NONE,
    AGENT_STARTING,
    AGENT_RUNNING
};

static struct {
    _Atomic int life; /* AGENT_ */
    atomic_bool stop;
    pthread_t thread;
} agent;

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

/* ---------------------------------------------------------------- the agent */

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

static void run_agent(void)
{
    uint64_t park_ns = PARK_MIN_NS;

    while (!must_stop()) {
        if (core_park(FAB_AGENT, has_work, NULL, park_ns)) {
            serve();
            park_ns = PARK_MIN_NS;
        } else {
            park_ns = park_ns * 2 < PARK_MAX_NS ? park_ns * 2 : PARK_MAX_NS;
        }
    }
}

int core_agent_start(void)
{
    int none = AGENT_NONE;
    int status;

    if (orl_conf.agent == ORL_CONF_AGENT_OFF ||
        !atomic_compare_exchange_strong(&agent.life, &none, AGENT_STARTING)) {
        return 0;
    }
    atomic_store(&agent.stop, false);
    status = core_thread_start(&agent.thread, "oriel-agent", run_agent);
    atomic_store(&agent.life, status == 0 ? AGENT_RUNNING : AGENT_NONE);
    if (status == 0) {
        orl_log_info(ORL_CAT_AGENT, "serves peers while this rank computes");
    }
    return status;
}

void core_agent_stop(void)
{
    if (atomic_load(&agent.life) != AGENT_RUNNING) {
        return;
    }
    atomic_store(&agent.stop, true);
    core_wake();
    (void)pthread_join(agent.thread, NULL);
    atomic_store(&agent.life, AGENT_NONE);
}
