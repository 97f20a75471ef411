/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths: made on first use, room for posted operations, the blocking posted operation, flush. The
 * argument for flush is in path.h. Making one is under a lock of rank PEER, which
 * does not wait for progress. Everything else is atomics.
 */
#include "core/path/path.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "core/core.h"
#include "core/path/peer.h"
#include "core/path/progress.h"

#define STOP_LIMIT_NS (5 * ORL_NS_PER_S)

static struct {
    struct orl_lock lock;
    _Atomic(struct core_path *) all; /* newest first */
    _Atomic uint64_t posted;         /* operations ever posted, over all paths */
    _Atomic uint64_t visible;        /* so many of them are known to be visible */
} paths;

static struct core_path *first_path(void)
{
    return atomic_load_explicit(&paths.all, memory_order_acquire);
}

/* ---------------------------------------------------------------- making one */

/* Leave my address in my control block: it holds what is known only once the engine is open, later
 * than the exchange of bootstrap records. */
static int publish_address(void)
{
    struct fab_node_ctl *ctl = &core.node->ctl[core.node->local];
    uint8_t blob[FAB_ADDRESS_BYTES];
    size_t bytes = sizeof(blob);
    int status = fab_engine_address(core.shm, blob, &bytes);

    if (status == 0 && bytes > sizeof(ctl->address)) {
        status =
            orl_fail(ORL_ERR_INTERNAL, "an address of shm has %zu bytes; there is room for %zu",
                     bytes, sizeof(ctl->address));
    }
    if (status != 0) {
        return status;
    }
    memcpy(ctl->address, blob, bytes);
    atomic_store_explicit(&ctl->address_bytes, (uint32_t)bytes, memory_order_release);
    return 0;
}

static bool has_address(void *arg)
{
    const struct fab_node_ctl *ctl = arg;

    return atomic_load_explicit(&ctl->address_bytes, memory_order_acquire) != 0;
}

static int rank_is_alive(void *arg)
{
    const struct fab_node_ctl *ctl = arg;

    return core_peer_check(ctl->rank);
}

/* A rank that is still inside oriel_init will have written its address in a moment. */
static int wait_for_address(int rank)
{
    struct fab_node_ctl *ctl = &core.node->ctl[core.peers[rank].local];

    return core_wait(
        &(struct core_wait){ .ready = has_address,
                             .alive = rank_is_alive,
                             .arg = ctl,
                             .deadline = orl_deadline_in((int64_t)orl_conf.boot_timeout),
                             .call = "the first contact",
                             .rank = rank });
}

int core_paths_open(void)
{
    orl_lock_init(&paths.lock, ORL_RANK_PEER, "paths");
    atomic_store(&paths.all, NULL);
    atomic_store(&paths.posted, 0);
    atomic_store(&paths.visible, 0);
    return core.shm != NULL && core.node != NULL ? publish_address() : 0;
}

/* Which engine leads to a rank. Keys in tokens are those of shm where there is shm, for my own
 * memory too, so my own path uses the same engine. */
static int engine_to(int rank, struct fab_engine **engine)
{
    *engine = core.shm;
    if (rank == core.rank && core.shm == NULL) {
        *engine = core.self;
    }
    if (*engine == NULL) {
        return orl_fail(ORL_ERR_UNSUPP, "no transport leads to rank %d; add %s to ORIEL_TRANSPORTS",
                        rank, rank == core.rank ? "self or shm" : "shm");
    }
    if (core.peers[rank].local < 0) {
        return orl_fail(ORL_ERR_UNSUPP,
                        "rank %d runs on another host; the transports of this build (%s) reach one "
                        "host only",
                        rank, fab_transports());
    }
    return rank == core.rank ? 0 : wait_for_address(rank);
}

static int address_of(int rank, struct fab_engine *engine, uint8_t *blob, size_t *bytes)
{
    const struct fab_node_ctl *ctl;

    if (rank == core.rank) {
        return fab_engine_address(engine, blob, bytes);
    }
    ctl = &core.node->ctl[core.peers[rank].local];
    *bytes = atomic_load_explicit(&ctl->address_bytes, memory_order_acquire);
    if (*bytes > sizeof(ctl->address)) {
        return orl_fail(ORL_ERR_INTERNAL, "the address of rank %d is damaged", rank);
    }
    memcpy(blob, ctl->address, *bytes);
    return 0;
}

/* Lock held. */
static int open_path(int rank, struct fab_engine *engine, struct core_path **made)
{
    uint8_t blob[FAB_ADDRESS_BYTES];
    size_t bytes = sizeof(blob);
    char label[FAB_LABEL_BYTES];
    struct core_path *path;
    int status = address_of(rank, engine, blob, &bytes);

    if (status != 0) {
        return status;
    }
    path = calloc(1, sizeof(*path));
    if (path == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for the path to rank %d, %zu bytes", rank,
                        sizeof(*path));
    }
    (void)snprintf(label, sizeof(label), "rank %d on %.16s", rank, core.host);
    path->rank = rank;
    status = fab_ep_open(engine, blob, bytes, label, &path->ep);
    if (status != 0) {
        free(path);
        return status;
    }
    path->ep->user = path;
    path->next = first_path();
    atomic_store_explicit(&paths.all, path, memory_order_release);
    atomic_store(&core.peers[rank].path, path);
    *made = path;
    return 0;
}

static int make_path(int rank, struct core_path **path)
{
    struct fab_engine *engine;
    struct core_path *known;
    int status = engine_to(rank, &engine);

    if (status != 0) {
        return status;
    }
    orl_lock(&paths.lock);
    known = atomic_load_explicit(&core.peers[rank].path, memory_order_acquire);
    if (known == NULL) {
        status = open_path(rank, engine, &known);
    }
    orl_unlock(&paths.lock);
    /* See mark() in peer.c: who marked the rank before the path was there left this to us. */
    if (known != NULL && atomic_load(&core.peers[rank].failed) != 0) {
        fab_ep_peer_gone(known->ep, "it is gone");
    }
    *path = known;
    return status;
}

int core_path_of(int rank, struct core_path **path)
{
    struct core_path *known;
    int status = core_rank_check(rank);

    if (status != 0) {
        return status;
    }
    if (core_peer_is_failed(rank)) {
        return core_peer_error(rank);
    }
    known = atomic_load_explicit(&core.peers[rank].path, memory_order_acquire);
    if (known == NULL) {
        status = make_path(rank, &known);
        if (status != 0) {
            return status;
        }
    }
    *path = known;
    return 0;
}

/* ---------------------------------------------------------------- ending them */

/* Runs the done functions of what a stopped endpoint has given back. */
static void drain(struct core_path *path, uint64_t end)
{
    while (atomic_load_explicit(&path->inflight, memory_order_acquire) != 0 &&
           !orl_deadline_passed(end)) {
        if (core_progress() == 0) {
            (void)sched_yield();
        }
    }
}

void core_paths_stop(void)
{
    uint64_t end = orl_deadline_in(STOP_LIMIT_NS);

    for (struct core_path *path = first_path(); path != NULL; path = path->next) {
        fab_ep_stop(path->ep);
    }
    for (struct core_path *path = first_path(); path != NULL; path = path->next) {
        drain(path, end);
    }
}

void core_paths_close(void)
{
    struct core_path *path = first_path();

    core_paths_stop();
    while (path != NULL) {
        struct core_path *next = path->next;

        if (core.peers != NULL) {
            atomic_store(&core.peers[path->rank].path, NULL);
        }
        fab_ep_close(path->ep);
        free(path);
        path = next;
    }
    atomic_store(&paths.all, NULL);
    orl_lock_fini(&paths.lock);
}

/* ---------------------------------------------------------------- posting */

uint64_t core_path_room(struct core_path *path, uint64_t n)
{
    uint64_t limit = (uint64_t)orl_conf.inflight;
    uint64_t taken = atomic_load_explicit(&path->inflight, memory_order_relaxed);
    uint64_t more;

    do {
        if (taken >= limit) {
            return 0;
        }
        more = n < limit - taken ? n : limit - taken;
    } while (!atomic_compare_exchange_weak_explicit(&path->inflight, &taken, taken + more,
                                                    memory_order_acquire, memory_order_relaxed));
    return more;
}

bool core_path_has_room(struct core_path *path)
{
    return atomic_load_explicit(&path->inflight, memory_order_relaxed) <
           (uint64_t)orl_conf.inflight;
}

void core_path_unroom(struct core_path *path, uint64_t n)
{
    (void)atomic_fetch_sub_explicit(&path->inflight, n, memory_order_release);
}

void core_path_done(struct core_path *path)
{
    uint64_t before = atomic_fetch_sub_explicit(&path->inflight, 1, memory_order_release);

    if (before >= (uint64_t)orl_conf.inflight) {
        core_wake(); /* somebody may wait for room */
    }
}

static void count_posted(struct core_path *path, uint64_t n)
{
    (void)atomic_fetch_add_explicit(&path->posted, n, memory_order_release);
    (void)atomic_fetch_add_explicit(&paths.posted, n, memory_order_release);
}

void core_path_post(struct core_path *path, struct fab_op *chain, uint64_t n)
{
    fab_post(path->ep, chain);
    count_posted(path, n);
}

/* ---------------------------------------------------------------- one operation, blocking */

const char *core_path_cause(const struct core_path *path, int status)
{
    uint32_t state = atomic_load_explicit(&path->ep->state, memory_order_acquire);

    if (status == ORL_ERR_GONE) {
        return "the memory has been released by its owner";
    }
    if ((state == FAB_EP_FAILED || state == FAB_EP_STOPPING) && path->ep->status == status) {
        return path->ep->cause;
    }
    return orl_status_text(status);
}

/* The words for a blocking call whose operation ended badly. */
static ORL_COLD int say(struct core_path *path, int status)
{
    if (status == ORL_ERR_PEER && core_peer_check(path->rank) != 0) {
        return status;
    }
    return orl_fail(status, "%s: %s", path->ep->label, core_path_cause(path, status));
}

/* On the stack of core_path_run until done. */
struct run {
    struct fab_op op;
    struct core_path *path;
    int status;
    _Atomic uint32_t done;
};

static void run_done(struct fab_op *op, int status)
{
    struct run *run = container_of(op, struct run, op);

    core_path_done(run->path);
    run->status = status;
    atomic_store_explicit(&run->done, 1, memory_order_release);
    core_wake(); /* run may be gone already */
}

static bool run_is_done(void *arg)
{
    struct run *run = arg;

    return atomic_load_explicit(&run->done, memory_order_acquire) != 0;
}

/* A dead peer is marked, which fails the endpoint, which ends the operation. */
static int run_alive(void *arg)
{
    struct run *run = arg;

    (void)core_peer_check(run->path->rank);
    return 0;
}

static const char *call_of(const struct fab_op *op)
{
    static const char *const names[FAB_OP_KINDS] = {
        [FAB_OP_PUT] = "oriel_put",  [FAB_OP_PUT_NOTIFY] = "oriel_put_notify",
        [FAB_OP_GET] = "oriel_get",  [FAB_OP_AMO] = "oriel_atomic",
        [FAB_OP_SEND] = "a message", [FAB_OP_FLUSH] = "oriel_flush",
    };

    return op->kind < FAB_OP_KINDS ? names[op->kind] : "an operation";
}

/* Waits as long as it takes: the operation is on the stack. */
static int wait_for_run(struct run *run)
{
    struct core_wait wait = { .ready = run_is_done,
                              .alive = run_alive,
                              .arg = run,
                              .deadline = ORL_NEVER,
                              .call = call_of(&run->op),
                              .rank = run->path->rank,
                              .bytes = run->op.bytes };

    while (core_wait(&wait) != 0) {
        (void)core_progress(); /* finalize has begun in another thread and cancels it */
        (void)sched_yield();
    }
    return run->status;
}

/* True when the put has left without an operation, or has failed at once. */
static bool put_short(struct core_path *path, const struct fab_op *op, int *status)
{
    if (op->kind != FAB_OP_PUT || op->bytes > path->ep->engine->limits.put_short) {
        return false;
    }
    *status = fab_put_short(path->ep, op->rkey, op->offset, op->local, (size_t)op->bytes);
    if (*status == 0) {
        count_posted(path, 1);
    }
    return *status != ORL_ERR_AGAIN;
}

int core_path_run(struct core_path *path, const struct fab_op *op, uint64_t deadline)
{
    struct run run = { .path = path };
    int status = 0;

    if (orl_deadline_passed(deadline)) {
        return orl_fail(ORL_ERR_TIMEOUT, "the deadline passed before the operation was begun");
    }
    if (core_peer_is_failed(path->rank)) {
        return core_peer_error(path->rank);
    }
    if (!put_short(path, op, &status)) {
        run.op = *op;
        run.op.done = run_done;
        run.op.link.next = NULL;
        (void)atomic_fetch_add_explicit(&path->inflight, 1, memory_order_relaxed);
        core_path_post(path, &run.op, 1);
        status = wait_for_run(&run);
    }
    return ORL_LIKELY(status == 0) ? 0 : say(path, status);
}

/* ---------------------------------------------------------------- flush */

enum {
    FLUSH_POSTED,
    FLUSH_DONE,
    FLUSH_LEFT
};

/* Of its own memory, so that a caller with a deadline may leave it behind. */
struct flush {
    struct fab_op op;
    struct core_path *path;
    _Atomic int state; /* FLUSH_ */
    int status;
};

static void flush_done(struct fab_op *op, int status)
{
    struct flush *flush = op->user;

    core_path_done(flush->path);
    flush->status = status;
    if (atomic_exchange_explicit(&flush->state, FLUSH_DONE, memory_order_acq_rel) == FLUSH_LEFT) {
        free(flush);
        return;
    }
    core_wake();
}

static bool flush_is_done(void *arg)
{
    struct flush *flush = arg;

    return atomic_load_explicit(&flush->state, memory_order_acquire) == FLUSH_DONE;
}

static int flush_alive(void *arg)
{
    struct flush *flush = arg;

    (void)core_peer_check(flush->path->rank);
    return 0;
}

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

int core_path_flush(struct core_path *path, uint64_t deadline)
{
    uint64_t posted = atomic_load_explicit(&path->posted, memory_order_acquire);
    struct flush *flush;
    struct core_wait wait;
    int status;

    if (is_visible(path)) {
        return 0;
    }
    orl_stat_add(&core.stats, ORL_STAT_FLUSHES, 1);
    flush = calloc(1, sizeof(*flush));
    if (flush == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for a flush, %zu bytes", sizeof(*flush));
    }
    flush->path = path;
    flush->op = (struct fab_op){ .kind = FAB_OP_FLUSH, .done = flush_done, .user = flush };
    wait = (struct core_wait){ .ready = flush_is_done,
                               .alive = flush_alive,
                               .arg = flush,
                               .deadline = deadline,
                               .call = "oriel_flush",
                               .rank = path->rank };
    (void)atomic_fetch_add_explicit(&path->inflight, 1, memory_order_relaxed);
    fab_flush(path->ep, &flush->op);
    status = core_wait(&wait);
    if (status != 0 &&
        atomic_exchange_explicit(&flush->state, FLUSH_LEFT, memory_order_acq_rel) != FLUSH_DONE) {
        return status;
    }
    status = flush->status;
    free(flush);
    if (status != 0) {
        return say(path, status);
    }
    raise_to(&path->visible, posted);
    return 0;
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

/* The first error; all paths are flushed nevertheless. */
static ORL_COLD int flush_paths(uint64_t posted)
{
    int first = 0;

    for (struct core_path *path = first_path(); path != NULL; path = path->next) {
        int status = is_visible(path) ? 0 : core_path_flush(path, ORL_NEVER);

        first = first != 0 ? first : status;
    }
    if (first == 0) {
        raise_to(&paths.visible, posted);
    }
    return first;
}

ORL_PUBLIC int oriel_flush_all(void)
{
    uint64_t posted;
    int status = 0;
    int dead;

    if (!core_is_open()) {
        return core_state_error();
    }
    atomic_thread_fence(memory_order_seq_cst);
    posted = atomic_load_explicit(&paths.posted, memory_order_acquire);
    if (posted != atomic_load_explicit(&paths.visible, memory_order_acquire)) {
        status = flush_paths(posted);
    }
    dead = core_peer_any_dead();
    return ORL_LIKELY(dead < 0 || status != 0) ? status : core_peer_error(dead);
}
