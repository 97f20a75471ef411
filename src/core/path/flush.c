/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flush: of one path, over all its rails that carried something since the last one, and of all
 * paths at the same time. The argument is in path.h. No locks.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/stats.h"
#include "core/path/path.h"
#include "core/path/peer.h"
#include "core/path/progress.h"
#include "core/path/rail.h"

/* All paths together: so that a flush of all with nothing to do is two loads. */
static _Atomic uint64_t all_posted;
static _Atomic uint64_t all_visible;

void core_flush_open(void)
{
    atomic_store(&all_posted, 0);
    atomic_store(&all_visible, 0);
}

void core_path_counted(struct core_path *path, uint64_t n)
{
    (void)atomic_fetch_add_explicit(&path->posted, n, memory_order_release);
    (void)atomic_fetch_add_explicit(&all_posted, n, memory_order_release);
}

enum {
    FLUSH_POSTED,
    FLUSH_DONE,
    FLUSH_LEFT
};

struct flush;

struct part {
    struct fab_op op;
    struct flush *flush;
    int rail;
    uint64_t posted; /* on that rail, before the flush */
};

/* One round over the rails of a path. Of its own memory, so that a caller with a deadline may leave
 * it behind. */
struct flush {
    struct core_path *path;
    _Atomic int live;  /* parts under way, 1 more while posting */
    _Atomic int state; /* FLUSH_ */
    _Atomic int status;
    uint64_t posted; /* on the path, before the round */
    uint64_t moved;
    struct part part[];
};

static void raise_to(_Atomic uint64_t *mark, uint64_t value)
{
    uint64_t old = atomic_load_explicit(mark, memory_order_relaxed);

    while (old < value && !atomic_compare_exchange_weak_explicit(
                              mark, &old, value, memory_order_release, memory_order_relaxed)) {
    }
}

static bool is_visible(struct core_path *path)
{
    return atomic_load_explicit(&path->posted, memory_order_acquire) ==
           atomic_load_explicit(&path->visible, memory_order_acquire);
}

/* True when its caller has left it behind: it is to be freed. */
static bool count_down(struct flush *flush)
{
    if (atomic_fetch_sub_explicit(&flush->live, 1, memory_order_acq_rel) != 1) {
        return false;
    }
    if (atomic_exchange_explicit(&flush->state, FLUSH_DONE, memory_order_acq_rel) == FLUSH_LEFT) {
        return true;
    }
    core_wake();
    return false;
}

/* Of one rail among several a LINK says that all before it has been moved or reported. */
static void part_done(struct fab_op *op, int status)
{
    struct part *part = op->user;
    struct flush *flush = part->flush;
    struct core_path *path = flush->path;
    int none = 0;

    if (core_path_is_railed(path)) {
        status = core_rail_ended(path, part->rail, status);
        status = status == ORL_ERR_LINK ? 0 : status;
    }
    status = core_path_done(path, status);
    if (status != 0) {
        (void)atomic_compare_exchange_strong(&flush->status, &none, status);
    } else {
        raise_to(&path->rail[part->rail].visible, part->posted);
    }
    if (count_down(flush)) {
        free(flush);
    }
}

static bool is_over(void *arg)
{
    struct flush *flush = arg;

    return atomic_load_explicit(&flush->state, memory_order_acquire) == FLUSH_DONE;
}

static int peer_alive(void *arg)
{
    struct flush *flush = arg;

    core_path_settle(flush->path);
    (void)core_peer_check(flush->path->rank);
    return 0;
}

/* Whether a rail may hold what is not visible yet. One rail: the caller has asked already. */
static bool is_dirty(struct core_path *path, int rail, uint64_t posted)
{
    return !core_path_is_railed(path) ||
           posted != atomic_load_explicit(&path->rail[rail].visible, memory_order_acquire);
}

static void post_part(struct flush *flush, int rail, uint64_t posted)
{
    struct core_path *path = flush->path;
    struct part *part = &flush->part[rail];

    part->flush = flush;
    part->rail = rail;
    part->posted = posted;
    part->op = (struct fab_op){ .kind = FAB_OP_FLUSH, .done = part_done, .user = part };
    (void)atomic_fetch_add_explicit(&path->inflight, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&flush->live, 1, memory_order_relaxed);
    if (core_path_is_railed(path)) {
        core_rail_post(path, rail, &part->op);
    } else {
        fab_flush(path->ep, &part->op);
    }
}

/* Begin a round. NULL: no memory, with its words. */
static struct flush *start_round(struct core_path *path)
{
    int nrails = core_path_is_railed(path) ? path->nrails : 1;
    size_t bytes = sizeof(struct flush) + (size_t)nrails * sizeof(struct part);
    struct flush *flush = calloc(1, bytes);

    if (flush == NULL) {
        (void)!orl_fail(ORL_ERR_NOMEM, "no memory for a flush, %zu bytes", bytes);
        return NULL;
    }
    flush->path = path;
    atomic_init(&flush->live, 1);
    flush->moved = atomic_load_explicit(&path->moved, memory_order_acquire);
    flush->posted = atomic_load_explicit(&path->posted, memory_order_acquire);
    for (int r = 0; r < nrails; r++) {
        uint64_t posted = atomic_load_explicit(&path->rail[r].posted, memory_order_acquire);

        if (is_dirty(path, r, posted)) {
            post_part(flush, r, posted);
        }
    }
    (void)count_down(flush); /* nobody knows it yet who could leave it */
    return flush;
}

/* Wait for a round and end it. *again: something was posted anew meanwhile. */
static int end_round(struct flush *flush, uint64_t deadline, bool *again)
{
    struct core_path *path = flush->path;
    int status = core_wait(&(struct core_wait){ .ready = is_over,
                                                .alive = peer_alive,
                                                .arg = flush,
                                                .deadline = deadline,
                                                .call = "oriel_flush",
                                                .rank = path->rank });

    *again = false;
    if (status != 0 &&
        atomic_exchange_explicit(&flush->state, FLUSH_LEFT, memory_order_acq_rel) != FLUSH_DONE) {
        return status;
    }
    status = atomic_load(&flush->status);
    if (status != 0) {
        free(flush);
        return core_path_say(path, status);
    }
    *again = atomic_load_explicit(&path->moved, memory_order_acquire) != flush->moved;
    if (!*again) {
        raise_to(&path->visible, flush->posted);
    }
    free(flush);
    return 0;
}

/* The error of a small put that had left its caller, once. */
static int take_late(struct core_path *path)
{
    int late = atomic_load_explicit(&path->late, memory_order_relaxed);

    if (ORL_LIKELY(late == 0)) {
        return 0;
    }
    late = atomic_exchange(&path->late, 0);
    return late == 0 ? 0 : core_path_say(path, late);
}

/* The rounds that follow a first one. */
static int finish(struct core_path *path, struct flush *flush, uint64_t deadline)
{
    bool again;
    int status = end_round(flush, deadline, &again);

    while (status == 0 && again) {
        flush = start_round(path);
        status = flush == NULL ? ORL_ERR_NOMEM : end_round(flush, deadline, &again);
    }
    return status != 0 ? status : take_late(path);
}

int core_path_flush(struct core_path *path, uint64_t deadline)
{
    struct flush *flush;

    core_rails_tick(path);
    if (is_visible(path)) {
        return take_late(path);
    }
    orl_stat_add(&core.stats, ORL_STAT_FLUSHES, 1);
    flush = start_round(path);
    return flush == NULL ? ORL_ERR_NOMEM : finish(path, flush, deadline);
}

ORL_PUBLIC int oriel_flush(int rank)
{
    struct core_path *path;

    if (!core_is_open()) {
        return core_state_error();
    }
    if (ORL_UNLIKELY((unsigned)rank >= (unsigned)core.size)) {
        return core_rank_check(rank);
    }
    /* What was stored directly is seen before whatever this thread says next. */
    atomic_thread_fence(memory_order_seq_cst);
    if (core_peer_is_failed(rank)) {
        return core_peer_error(rank);
    }
    path = atomic_load_explicit(&core.peers[rank].path, memory_order_acquire);
    if (ORL_LIKELY(path == NULL || is_visible(path))) {
        return 0;
    }
    return core_path_flush(path, ORL_NEVER);
}

/* ---------------------------------------------------------------- all paths */

#define TOGETHER 64 /* paths whose flushes are under way at the same time */

/* Flush up to TOGETHER paths from *next on. The first error, of which the text is kept. */
static int flush_some(struct core_path **next, uint64_t deadline)
{
    struct flush *flush[TOGETHER];
    struct core_path *path = *next;
    char text[ORL_ERROR_TEXT_BYTES] = "";
    int first = 0;
    int n = 0;

    for (; path != NULL && n < TOGETHER && first == 0; path = path->next) {
        if (!is_visible(path)) {
            orl_stat_add(&core.stats, ORL_STAT_FLUSHES, 1);
            flush[n] = start_round(path);
            first = flush[n] == NULL ? ORL_ERR_NOMEM : 0;
            n += flush[n] == NULL ? 0 : 1;
        }
    }
    *next = path;
    for (int i = 0; i < n; i++) {
        int status = finish(flush[i]->path, flush[i], deadline);

        if (status != 0 && first == 0) {
            first = status;
            (void)snprintf(text, sizeof(text), "%s", orl_last_error());
        }
    }
    return first == 0 || text[0] == '\0' ? first : orl_fail(first, "%s", text);
}

int core_paths_flush(uint64_t deadline)
{
    uint64_t posted = atomic_load_explicit(&all_posted, memory_order_acquire);
    struct core_path *path = core_path_first();
    char text[ORL_ERROR_TEXT_BYTES];
    int first = 0;

    if (posted == atomic_load_explicit(&all_visible, memory_order_acquire)) {
        return 0;
    }
    while (path != NULL) {
        int status = flush_some(&path, deadline);

        if (status != 0 && first == 0) {
            first = status;
            (void)snprintf(text, sizeof(text), "%s", orl_last_error());
        }
    }
    if (first != 0) {
        return orl_fail(first, "%s", text);
    }
    raise_to(&all_visible, posted);
    return 0;
}

ORL_PUBLIC int oriel_flush_all(void)
{
    int status;
    int dead;

    if (!core_is_open()) {
        return core_state_error();
    }
    atomic_thread_fence(memory_order_seq_cst);
    status = core_paths_flush(ORL_NEVER);
    dead = core_peer_any_dead();
    return ORL_LIKELY(dead < 0 || status != 0) ? status : core_peer_error(dead);
}
