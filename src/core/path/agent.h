/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent: one thread per process that serves what needs this process's CPU, and what it has
 * under way, while no thread of it waits in Oriel. It runs from oriel_init in a job with networks,
 * else from the first registration that peers cannot all reach by themselves; ORIEL_AGENT=off
 * forbids it.
 *
 * Without networks it parks on its futex word of the node segment, where peers wake it. With
 * networks it sleeps on descriptors: those that the engines give (fab_engine_arm), its bell for
 * peers of this host, and an eventfd for threads of this process. Callers never arm an engine: what
 * the agent finds, it tells them (core_wake). While a caller polls the agent leaves the polling to
 * it, and takes over when the last one parks.
 */
#ifndef CORE_PATH_AGENT_H
#define CORE_PATH_AGENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "fabric/fabric.h"

/* Make a thread of the library: named, all signals blocked, locks switched on. Errors: SYS. */
int core_thread_start(pthread_t *thread, const char *name, void (*run)(void)) ORL_MUST_CHECK;

/* Idempotent; does nothing under ORIEL_AGENT=off. Errors: SYS. */
int core_agent_start(void) ORL_MUST_CHECK;
void core_agent_stop(void);
bool core_agent_is_running(void);

/* How an agent with networks sleeps, if it does. */
enum core_agent_sleep {
    CORE_AGENT_AWAKE,
    CORE_AGENT_AWAY,  /* a caller polls: engines are not armed */
    CORE_AGENT_ARMED, /* until some descriptor says something */
    CORE_AGENT_IDLE   /* the same, and some engine has none and is polled rarely */
};
extern _Atomic uint32_t core_agent_sleep;

/* Wake it, if it sleeps on descriptors. */
void core_agent_ring(void);

/* Operations were posted to this engine by a caller that may not wait for them, and polled for
 * once: the agent must know of what it could not have been told by a descriptor. */
static inline void core_agent_posted(const struct fab_engine *engine)
{
    uint32_t sleep;

    /* Orders what was posted before the look; the agent's fence stands between its announcement
     * and its last look at the engines. */
    atomic_thread_fence(memory_order_seq_cst);
    sleep = atomic_load_explicit(&core_agent_sleep, memory_order_relaxed);
    if (sleep == CORE_AGENT_IDLE ||
        (sleep == CORE_AGENT_ARMED &&
         atomic_load_explicit(&engine->nwaiting, memory_order_relaxed) != 0)) {
        core_agent_ring();
    }
}

/* The calling thread no longer polls, and goes to sleep. */
static inline void core_agent_take_over(void)
{
    uint32_t sleep = atomic_load_explicit(&core_agent_sleep, memory_order_seq_cst);

    if (sleep == CORE_AGENT_AWAY || sleep == CORE_AGENT_IDLE) {
        core_agent_ring();
    }
}

#endif
