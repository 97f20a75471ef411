/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peer table and who lives. Deaths are found by whoever waits for a peer, by the periodic look
 * of direct operations, by ranks of the same host, who leave word in the node segment, and for
 * other hosts by the launcher, whose word the bootstrap keeps. Marking is a compare-and-swap in the
 * peer's record; the first to mark logs and fails the endpoint.
 */
#include "core/path/peer.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/boot/boot_watch.h"

#define LOOK_PERIOD_NS (100 * ORL_NS_PER_MS)

static struct {
    _Atomic int dead;        /* a rank that died, plus 1; 0: none has */
    _Atomic uint32_t seen;   /* header.deaths when the marks were last compared */
    _Atomic unsigned told;   /* ends that the launcher has told, when last compared */
    _Atomic uint64_t looked; /* ticks of the last look at everybody */
    uint64_t period;         /* between looks, in ticks */
} watch;

int core_peers_open(void)
{
    core.peers = calloc((size_t)core.size, sizeof(*core.peers));
    if (core.peers == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for a table of %d peers, %zu bytes", core.size,
                        (size_t)core.size * sizeof(*core.peers));
    }
    for (int rank = 0; rank < core.size; rank++) {
        core.peers[rank].local = -1;
    }
    for (int local = 0; local < core.nlocal; local++) {
        core.peers[core.local_rank[local]].local = local;
    }
    watch.period = orl_clock_ticks_of_ns(LOOK_PERIOD_NS);
    atomic_store(&watch.dead, 0);
    atomic_store(&watch.seen, 0);
    atomic_store(&watch.told, 0);
    atomic_store(&watch.looked, orl_clock_ticks());
    int status = core_paths_open();
    if (status != 0) {
        free(core.peers);
        core.peers = NULL;
    }
    return status;
}

void core_peers_close(void)
{
    core_paths_close();
    free(core.peers);
    core.peers = NULL;
}

/* The control block of a rank of my host, NULL for others. */
static struct fab_node_ctl *ctl_of(int rank)
{
    int local = core.peers[rank].local;

    return core.node == NULL || local < 0 ? NULL : &core.node->ctl[local];
}

bool core_peer_has_left(int rank)
{
    struct fab_node_ctl *ctl = ctl_of(rank);

    return ctl != NULL && atomic_load_explicit(&ctl->state, memory_order_acquire) == FAB_RANK_FINAL;
}

int core_peer_any_dead(void)
{
    return atomic_load_explicit(&watch.dead, memory_order_relaxed) - 1;
}

static uint32_t state_of(const struct fab_node_ctl *ctl)
{
    return atomic_load_explicit(&ctl->state, memory_order_acquire);
}

/* A rank of this host that has ended: what its control block says, and the launcher of the way. */
static int error_of(int rank, const struct fab_node_ctl *ctl, const char *how)
{
    switch (state_of(ctl)) {
    case FAB_RANK_ABORTED:
        return orl_fail(ORL_ERR_PEER, "rank %d on %s has aborted the job with code %d: %s", rank,
                        core.host, ctl->code, ctl->words);
    case FAB_RANK_FAILED:
        return orl_fail(ORL_ERR_PEER, "rank %d on %s could not start: %s", rank, core.host,
                        ctl->words);
    default:
        return orl_fail(ORL_ERR_PEER, "rank %d on %s is gone: its process %d has ended%s", rank,
                        core.host, ctl->pid, how);
    }
}

int core_peer_error(int rank)
{
    struct fab_node_ctl *ctl = ctl_of(rank);
    struct core_end end;
    char how[64] = "";

    if (!core_peer_is_failed(rank)) {
        return 0;
    }
    if (core_peer_has_left(rank)) {
        return orl_fail(ORL_ERR_PEER, "rank %d has finalized", rank);
    }
    if (core_end_of(rank, &end)) {
        core_end_text(&end, how, sizeof(how));
    }
    if (ctl == NULL) {
        return orl_fail(ORL_ERR_PEER, "rank %d is gone%s", rank, how);
    }
    return error_of(rank, ctl, how);
}

/* The first to mark a rank fails its endpoint. The order, mark then look for the path, and in
 * core_path_of path then look for the mark, both sequentially consistent, lets neither miss the
 * other. */
static bool mark(int rank, const char *how)
{
    int32_t alive = 0;
    struct core_path *path;

    if (!atomic_compare_exchange_strong(&core.peers[rank].failed, &alive, ORL_ERR_PEER)) {
        return false;
    }
    path = atomic_load(&core.peers[rank].path);
    if (path != NULL) {
        fab_ep_peer_gone(path->ep, how);
    }
    return true;
}

void core_peer_fail(int rank, const char *how)
{
    if (mark(rank, how)) {
        atomic_store_explicit(&watch.dead, rank + 1, memory_order_relaxed);
        orl_log_warn(ORL_CAT_PEER, "rank %d is gone: %s", rank, how);
    }
}

static void peer_left(int rank)
{
    if (mark(rank, "it has finalized")) {
        orl_log_info(ORL_CAT_PEER, "rank %d has finalized", rank);
    }
}

int core_peer_check(int rank)
{
    struct fab_node_ctl *ctl = ctl_of(rank);

    if (ORL_UNLIKELY(core_peer_is_failed(rank))) {
        return core_peer_error(rank);
    }
    if (ctl == NULL || rank == core.rank) {
        return 0;
    }
    if (core_peer_has_left(rank)) {
        peer_left(rank);
    } else if (state_of(ctl) == FAB_RANK_ABORTED || state_of(ctl) == FAB_RANK_FAILED) {
        core_peer_fail(rank, "it has given up");
    } else if (!fab_node_is_alive(core.node, core.peers[rank].local)) {
        core_peer_fail(rank, "its process has ended");
    }
    return core_peer_error(rank);
}

/* Marks whomever somebody on this host has proved dead. */
static void adopt_deaths(void)
{
    uint32_t deaths = atomic_load_explicit(&core.node->header->deaths, memory_order_acquire);

    if (deaths == atomic_load_explicit(&watch.seen, memory_order_relaxed)) {
        return;
    }
    atomic_store_explicit(&watch.seen, deaths, memory_order_relaxed);
    for (int local = 0; local < core.nlocal; local++) {
        if (local != core.local && fab_node_is_dead(core.node, local)) {
            core_peer_fail(core.local_rank[local], "its process has ended");
        }
    }
}

/* Marks ranks of other hosts that have died as the launcher says; of those of this host the
 * control blocks know more. An end in good order is none: the rank may have left us before. */
static void adopt_told(void)
{
    unsigned count = core_end_count();
    unsigned told = atomic_load_explicit(&watch.told, memory_order_relaxed);
    struct core_end end;

    for (; told < count && core_end_at(told, &end); told++) {
        if (end.how != CORE_END_NORMAL && end.rank < core.size && core.peers[end.rank].local < 0) {
            char how[64];

            core_end_text(&end, how, sizeof(how));
            core_peer_fail(end.rank, how[0] != '\0' ? how + 1 : "the launcher says so");
        }
    }
    atomic_store_explicit(&watch.told, told, memory_order_relaxed);
}

void core_peer_tick(struct fab_hazard *line)
{
    uint64_t now = orl_clock_ticks();
    uint64_t looked = atomic_load_explicit(&watch.looked, memory_order_relaxed);

    if (core.node == NULL) {
        return;
    }
    /* One thread of the process does it for all. */
    if (now - line->checked >= watch.period) {
        line->checked = now;
        if (now - looked >= watch.period &&
            atomic_compare_exchange_strong_explicit(&watch.looked, &looked, now,
                                                    memory_order_relaxed, memory_order_relaxed)) {
            (void)fab_node_check_all(core.node);
        }
    }
    adopt_deaths();
    adopt_told();
}
