/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths: room for posted operations, the blocking posted operation, words for what went wrong.
 * Making and ending paths is in path_make.c, flush in flush.c, rails in rail.c. Atomics alone.
 */
#include "core/path/path.h"

#include <sched.h>

#include "base/clock.h"
#include "base/conf.h"
#include "core/path/agent.h"
#include "core/path/peer.h"
#include "core/path/progress.h"
#include "core/path/rail.h"
#include "core/path/xfer.h"

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

int core_path_done(struct core_path *path, int status)
{
    uint64_t before;

    if (!core_path_is_railed(path)) {
        status = core_rail_ended(path, 0, status);
    }
    before = atomic_fetch_sub_explicit(&path->inflight, 1, memory_order_release);
    if (before >= (uint64_t)orl_conf.inflight) {
        core_wake(); /* somebody may wait for room */
    }
    return status;
}

void core_path_post(struct core_path *path, struct fab_op *chain, uint64_t n)
{
    fab_post(path->ep, chain);
    core_path_counted(path, n);
}

/* ---------------------------------------------------------------- one operation, blocking */

const char *core_path_cause(const struct core_path *path, int status)
{
    uint32_t state = atomic_load_explicit(&path->ep->state, memory_order_acquire);

    if (status == ORL_ERR_GONE) {
        return "the memory has been released by its owner";
    }
    if (status == ORL_ERR_PEER &&
        atomic_load_explicit(&path->lost, memory_order_acquire) == CORE_PATH_LOST) {
        return path->cause;
    }
    if ((state == FAB_EP_FAILED || state == FAB_EP_STOPPING) && path->ep->status == status) {
        return path->ep->cause;
    }
    return orl_status_text(status);
}

ORL_COLD int core_path_say(struct core_path *path, int status)
{
    if (status == ORL_ERR_PEER) {
        core_path_settle(path);
        if (core_peer_check(path->rank) != 0) {
            return status;
        }
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

    run->status = core_path_done(run->path, status);
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

    core_path_settle(run->path);
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

#define SHORT_TRIES 16 /* looks at the network for room before a short put becomes an operation */

/* True when the put has left without an operation, or has failed at once. An operation is over only
 * when the peer has answered, so on a network it is worth while to wait for room. */
static bool put_short(struct core_path *path, const struct fab_op *op, int *status)
{
    const struct fab_engine *engine = path->ep->engine;
    int tries = engine->level >= FAB_LEVEL_NIC ? SHORT_TRIES : 0;

    if (op->kind != FAB_OP_PUT || op->bytes > engine->limits.put_short) {
        return false;
    }
    *status = fab_put_short(path->ep, op->rkey, op->offset, op->local, (size_t)op->bytes);
    while (*status == ORL_ERR_AGAIN && tries-- > 0) {
        (void)core_progress();
        *status = fab_put_short(path->ep, op->rkey, op->offset, op->local, (size_t)op->bytes);
    }
    if (*status == 0) {
        core_path_counted(path, 1);
    }
    return *status != ORL_ERR_AGAIN;
}

/* The caller may not come back for what it has left behind. */
static void tell_agent(const struct fab_engine *engine)
{
    if (engine->level >= FAB_LEVEL_NIC) {
        core_agent_posted(engine);
    }
}

/* One rail: the operation as it is. */
static int run_plain(struct core_path *path, const struct fab_op *op)
{
    struct run run = { .path = path };
    int status = 0;

    if (put_short(path, op, &status)) {
        tell_agent(path->ep->engine);
        return status;
    }
    run.op = *op;
    run.op.done = run_done;
    run.op.link.next = NULL;
    (void)atomic_fetch_add_explicit(&path->inflight, 1, memory_order_relaxed);
    core_path_post(path, &run.op, 1);
    return wait_for_run(&run);
}

static int run_railed(struct core_path *path, const struct fab_op *op)
{
    struct run run = { .path = path };
    struct core_xfer xfer;

    core_rails_tick(path);
    if (core_xfer_put_small(path, op)) {
        for (int r = 0; r < path->nrails; r++) {
            tell_agent(path->rail[r].engine);
        }
        return 0;
    }
    run.op = *op;
    run.op.done = run_done;
    (void)atomic_fetch_add_explicit(&path->inflight, 1, memory_order_relaxed);
    core_xfer_start(&xfer, path, &run.op);
    return wait_for_run(&run);
}

int core_path_run(struct core_path *path, const struct fab_op *op, uint64_t deadline)
{
    int status;

    if (orl_deadline_passed(deadline)) {
        return orl_fail(ORL_ERR_TIMEOUT, "the deadline passed before the operation was begun");
    }
    if (core_peer_is_failed(path->rank)) {
        return core_peer_error(path->rank);
    }
    status = core_path_is_railed(path) ? run_railed(path, op) : run_plain(path, op);
    return ORL_LIKELY(status == 0) ? 0 : core_path_say(path, status);
}
