/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress and the one waiting function. Whoever waits drives the engines: spin (ORIEL_SPIN_TIME;
 * zero when ranks outnumber cores), then yield on every turn, then, after about a millisecond, park
 * on this rank's futex word with a time-out that doubles from 1 to 50 ms. Every turn polls the
 * engines; every 50 ms of waiting looks whether the peers waited for still live, and the watchdog
 * (ORIEL_WATCHDOG) says what a stuck call waits for. In a job with networks a parked caller relies
 * on the agent, which sleeps on the descriptors; without an agent it sleeps a millisecond at most.
 *
 * Of several threads that wait, the one that gets an engine's poller lock polls; the others look at
 * what they wait for. Whoever makes something ready that a thread of this process may wait for
 * calls core_wake.
 */
#ifndef CORE_PATH_PROGRESS_H
#define CORE_PATH_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/clock.h"
#include "core/path/agent.h"
#include "fabric/fabric.h"

/* True when what is waited for has happened. Cheap: runs in every turn, on the waiting thread. */
typedef bool (*core_ready_fn)(void *arg);
/* 0, or the status that ends the wait: the peers it needs are looked at. Runs every 50 ms. */
typedef int (*core_alive_fn)(void *arg);

struct core_wait {
    core_ready_fn ready;
    core_alive_fn alive; /* NULL: no peer is needed */
    void *arg;
    uint64_t deadline; /* orl_deadline_in; ORL_NEVER. One that has passed: a single look */
    const char *call;  /* for messages: "oriel_barrier" */
    int rank;          /* the peer waited for, -1: several or none */
    uint64_t bytes;    /* under way, for the watchdog */
};

/* 0 when ready; TIMEOUT at the deadline; what alive returned, after one more look at ready, since a
 * peer may store and then leave; STATE once core_progress_close was called. Not from done functions
 * or handlers, and with no lock held. */
int core_wait(const struct core_wait *wait) ORL_MUST_CHECK;

/* Turns a caller may spin by itself before core_wait, in iterations of orl_cpu_pause. 0 when
 * oversubscribed. */
extern unsigned core_spin_turns;

/* Poll everything once, and tell parked threads of what a network has brought; number of events. */
int core_progress(void);

/* Something that a thread of this process may wait for has been stored. Any thread. */
void core_wake(void);

/* Sleep as that sleeper. Wait for at most this long for core_wake, or for a peer of this host that
 * woke this rank, unless look finds something. True when look did or a wake-up came. */
bool core_park(enum fab_sleeper who, core_ready_fn look, void *arg, uint64_t timeout_ns);

/* True while a thread other than the agent is in core_wait and not parked. */
bool core_has_poller(void);
/* True while one is in core_wait, parked or not. */
bool core_has_waiter(void);
/* Changes with each core_wait that did not end at once: whether callers are active. */
uint32_t core_waits_begun(void);

/* Set up from settings and topology. */
void core_progress_open(void);
/* Waits of other threads end with STATE from now on; finalize has no wait of its own left. */
void core_progress_close(void);

/* How long sleeps last when nothing wakes: callers begin with the first and double it up to the
 * second, which is the agent's bound as well; the third is the longest that the agent stays away
 * while callers poll. Tests lengthen them, so that only a wake-up can end a sleep; nothing else
 * writes them. */
struct core_sleep_bounds {
    uint64_t min_ns;
    uint64_t max_ns;
    uint64_t away_ns;
};
extern struct core_sleep_bounds core_sleep_bounds;

#endif
