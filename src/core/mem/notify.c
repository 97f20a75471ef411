/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting on a counter of notified puts in my memory. The counting side is in rma.c (mapped memory)
 * and in the transports. The counter's load is an acquire that pairs with the release add, so the
 * data it counts can be read afterwards.
 */
#include "core/mem/mem.h"

#include "base/clock.h"
#include "core/path/progress.h"

struct counter_wait {
    const _Atomic uint64_t *word;
    uint64_t at_least;
    uint64_t seen;
};

static bool counter_is_reached(void *arg)
{
    struct counter_wait *w = arg;
    w->seen = atomic_load_explicit(w->word, memory_order_acquire);
    return w->seen >= w->at_least;
}

/* A count may never come once a rank is dead; who would have sent it is not known here. */
static int peers_are_alive(void *arg)
{
    (void)arg;
    for (int i = 0; i < core.node->nranks; i++) {
        int rank = core.local_rank[i];
        int st = i == core.node->local ? 0 : core_peer_check(rank);
        if (st == ORL_ERR_PEER && !core_peer_has_left(rank)) {
            return st;
        }
    }
    /* Elsewhere: those that I have to do with, and whoever the launcher has called dead. */
    for (struct core_path *path = core_path_first(); path != NULL; path = path->next) {
        core_path_settle(path);
        (void)core_peer_check(path->rank);
    }
    int dead = core.nnetworks > 0 ? core_peer_any_dead() : -1;
    return dead < 0 ? 0 : core_peer_error(dead);
}

ORL_PUBLIC int oriel_counter_wait(const struct oriel_mem *mem, uint64_t offset, uint64_t at_least,
                                  int64_t timeout_ns, uint64_t *value)
{
    int st = core_mem_check(mem, offset, sizeof(uint64_t));
    if (st != 0) {
        return st;
    }
    const unsigned char *at = (const unsigned char *)mem->base + offset;
    if (((uintptr_t)at & 7) != 0) {
        return orl_fail(ORL_ERR_INVAL, "offset %llu is not aligned for a counter of 8 bytes",
                        (unsigned long long)offset);
    }
    const void *word = at;
    struct counter_wait w = { .word = word, .at_least = at_least };
    bool reached = counter_is_reached(&w);
    for (unsigned turn = 0; !reached && turn < core_spin_turns; turn++) {
        orl_cpu_pause();
        reached = counter_is_reached(&w);
    }
    if (!reached) {
        struct core_wait wait = { .ready = counter_is_reached,
                                  .alive = peers_are_alive,
                                  .arg = &w,
                                  .deadline = orl_deadline_in(timeout_ns),
                                  .call = "oriel_counter_wait",
                                  .rank = -1 };
        st = core_wait(&wait);
    }
    if (value != NULL) {
        *value = w.seen;
    }
    return st;
}
