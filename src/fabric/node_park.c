/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who of the node lives, and how threads sleep and are woken.
 *
 * Life. A rank locks byte `local` of the segment when it joins. The kernel drops the lock when the
 * process ends, however it ends, so a running state without the lock is the proof of a death. The
 * first to find it sets ctl.dead and wakes everybody; dead never goes back.
 *
 * Parking, the argument. The sleeper counts itself in (header, then its rank), reads the epoch,
 * fences, and looks once more for what it waits for. The waker stores, fences, and looks at the
 * counts. The fences are totally ordered: either the sleeper's second look finds the store, or the
 * waker sees the counts, bumps the epoch and wakes; a sleeper that has not gone to sleep yet is
 * then refused by the kernel because the epoch differs. Counting in starts with the header and
 * counting out ends there, so the header's count is never too low: a rank killed in between leaves
 * it too high, which costs wakers a look at one more line and nothing else.
 *
 * An agent that sleeps on descriptors has set its bell before it counts itself in, so whoever sees
 * the count sees the bell (node_bell.c). Of several wakers one rings. If that one is killed between
 * its claim and the call, the wake-up is lost; agents never sleep without a bound.
 *
 * No locks. Any thread of any rank may call.
 */
#include "fabric/node.h"

#include <limits.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"
#include "fabric/node_priv.h"

/* ---------------------------------------------------------------- life */

static bool has_left(const struct fab_node_ctl *ctl)
{
    uint32_t state = atomic_load_explicit(&ctl->state, memory_order_acquire);

    return state == FAB_RANK_FINAL || state == FAB_RANK_ABSENT;
}

/* Locks are the process's, so it never sees one of its own: two handles of one process, in tests.
 */
static bool is_this_process(const struct fab_node_ctl *ctl)
{
    pid_t me = getpid();

    return ctl->pid == me && ctl->start_time == orl_sys_pid_starttime(me);
}

static void mark_dead(struct fab_node *node, struct fab_node_ctl *ctl)
{
    uint32_t alive = 0;

    if (!atomic_compare_exchange_strong_explicit(&ctl->dead, &alive, 1, memory_order_acq_rel,
                                                 memory_order_relaxed)) {
        return;
    }
    orl_log_info(ORL_CAT_NODE, "rank %d, process %d, has ended without leaving", ctl->rank,
                 ctl->pid);
    atomic_fetch_add_explicit(&node->header->deaths, 1, memory_order_release);
    fab_node_wake(node, -1);
    /* Its threads that slept no longer do. */
    for (int who = 0; who < FAB_SLEEPERS; who++) {
        uint32_t sleepers = atomic_exchange_explicit(&ctl->parked[who], 0, memory_order_relaxed);
        atomic_fetch_sub_explicit(&node->header->nparked[who], sleepers, memory_order_relaxed);
    }
}

bool fab_node_is_alive(struct fab_node *node, int local)
{
    struct fab_node_ctl *ctl = &node->ctl[local];

    if (fab_node_is_dead(node, local)) {
        return false;
    }
    if (local == node->local || node->fd < 0 || has_left(ctl) || is_this_process(ctl) ||
        orl_sys_byte_is_locked(node->fd, (uint64_t)local)) {
        return true;
    }
    /* It left between the two looks: the state is stored before the lock is dropped. */
    if (has_left(ctl)) {
        return true;
    }
    mark_dead(node, ctl);
    return false;
}

int fab_node_check_all(struct fab_node *node)
{
    int found = 0;

    for (int i = 0; i < node->nranks; i++) {
        if (!fab_node_is_dead(node, i) && !fab_node_is_alive(node, i)) {
            found++;
        }
    }
    return found;
}

/* ---------------------------------------------------------------- parking */

uint32_t fab_node_park_begin(struct fab_node *node, enum fab_sleeper who)
{
    struct fab_node_ctl *ctl = &node->ctl[node->local];
    uint32_t epoch;

    atomic_fetch_add_explicit(&node->header->nparked[who], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&ctl->parked[who], 1, memory_order_release);
    epoch = atomic_load_explicit(&ctl->epoch[who], memory_order_acquire);
    /* Orders the counts before the caller's second look. */
    atomic_thread_fence(memory_order_seq_cst);
    return epoch;
}

void fab_node_park_cancel(struct fab_node *node, enum fab_sleeper who)
{
    atomic_fetch_sub_explicit(&node->ctl[node->local].parked[who], 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&node->header->nparked[who], 1, memory_order_release);
}

void fab_node_park_sleep(struct fab_node *node, enum fab_sleeper who, uint32_t epoch,
                         uint64_t timeout_ns)
{
    /* Whatever the reason to return, the caller looks again. */
    int st = orl_sys_futex_wait(&node->ctl[node->local].epoch[who], epoch, timeout_ns);

    (void)st;
    fab_node_park_cancel(node, who);
}

void fab_node_wake_one(struct fab_node *node, int local, enum fab_sleeper who)
{
    struct fab_node_ctl *ctl = &node->ctl[local];
    uint32_t bell = FAB_BELL_SET;

    if (atomic_load_explicit(&ctl->parked[who], memory_order_acquire) == 0) {
        return;
    }
    atomic_fetch_add_explicit(&ctl->epoch[who], 1, memory_order_release);
    if (who == FAB_AGENT &&
        (atomic_compare_exchange_strong_explicit(&ctl->bell, &bell, FAB_BELL_RUNG,
                                                 memory_order_acq_rel, memory_order_acquire) ||
         bell != FAB_BELL_OFF)) {
        if (bell == FAB_BELL_SET) {
            fab_node_ring(node, local);
        }
        return;
    }
    (void)orl_sys_futex_wake(&ctl->epoch[who], INT_MAX);
}

void fab_node_wake_slow(struct fab_node *node, int local)
{
    if (local >= 0) {
        fab_node_wake_one(node, local, FAB_CALLER);
        fab_node_wake_one(node, local, FAB_AGENT);
        return;
    }
    for (int i = 0; i < node->nranks; i++) {
        fab_node_wake_one(node, i, FAB_CALLER);
    }
}
