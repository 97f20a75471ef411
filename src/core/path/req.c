/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: made by batch.c, counted down by done functions (with the poller held and no other
 * lock) and by the checksum worker, waited for and freed by users (req_wait.c). Completion is
 * `done` becoming 1, once; who sees it takes the lock before it reads anything else, so that
 * whoever completed has let go. A request whose deadline passed is complete while parts still live;
 * from then on nothing of the user's but leased buffers is touched.
 */
#include "core/path/req.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/pool.h"
#include "core/path/peer.h"
#include "core/path/progress.h"
#include "core/path/xfer.h"

#define PER_CHUNK 64

static struct {
    struct orl_pool pool;
    struct orl_lock lock;         /* guards big */
    struct orl_list big;          /* requests with memory outside of the pool */
    _Atomic uint64_t outstanding; /* requests not complete */
} reqs;

int core_reqs_open(void)
{
    orl_lock_init(&reqs.lock, ORL_RANK_POOL, "requests");
    orl_list_init(&reqs.big);
    core_reqs_due_open();
    atomic_store(&reqs.outstanding, 0);
    return orl_pool_init(&reqs.pool, "requests", sizeof(struct oriel_request), ORL_CACHE_LINE,
                         PER_CHUNK, 0);
}

/* Constant from the start on: such requests are on the list. */
static bool has_memory(const struct oriel_request *req)
{
    return req->parts != &req->one || req->stage != NULL;
}

static void free_memory(struct oriel_request *req)
{
    if (req->parts != &req->one) {
        free(req->parts);
    }
    free(req->stage);
    req->parts = NULL;
    req->stage = NULL;
}

uint64_t core_reqs_close(void)
{
    uint64_t outstanding = atomic_load(&reqs.outstanding);
    struct orl_list *node;

    core_paths_stop();
    core_crc_close();
    while ((node = orl_list_pop_head(&reqs.big)) != NULL) {
        struct oriel_request *req = container_of(node, struct oriel_request, all);

        free_memory(req);
        req->magic = 0;
        orl_pool_free(&reqs.pool, req);
    }
    orl_pool_fini(&reqs.pool);
    core_reqs_due_close();
    orl_lock_fini(&reqs.lock);
    return outstanding;
}

/* ---------------------------------------------------------------- making and freeing */

static int make_parts(struct oriel_request *req, uint64_t nparts)
{
    req->nparts = nparts;
    req->parts = &req->one;
    if (nparts > 1) {
        req->parts = calloc((size_t)nparts, sizeof(struct core_part));
        if (req->parts == NULL) {
            return orl_fail(ORL_ERR_NOMEM, "no memory for %llu operations of %zu bytes each",
                            (unsigned long long)nparts, sizeof(struct core_part));
        }
    } else if (nparts == 1) {
        memset(&req->one, 0, sizeof(req->one));
    }
    return 0;
}

int core_req_new(uint64_t count, uint64_t nparts, struct oriel_request **made)
{
    struct oriel_request *req = orl_pool_alloc(&reqs.pool);
    int status;

    if (req == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for a request of %zu bytes", sizeof(*req));
    }
    memset(req, 0, offsetof(struct oriel_request, cause));
    status = make_parts(req, nparts);
    if (status != 0) {
        orl_pool_free(&reqs.pool, req);
        return status;
    }
    orl_lock_init(&req->lock, ORL_RANK_POOL, "request");
    atomic_init(&req->done, 0);
    atomic_init(&req->live, count + 1);
    req->count = count;
    req->deadline = ORL_NEVER;
    req->cause[0] = '\0';
    orl_list_init(&req->all);
    req->magic = CORE_REQ_MAGIC;
    *made = req;
    return 0;
}

static void free_request(struct oriel_request *req)
{
    core_req_undue(req);
    if (has_memory(req)) {
        orl_lock(&reqs.lock);
        orl_list_del(&req->all);
        orl_unlock(&reqs.lock);
    }
    free_memory(req);
    req->magic = 0;
    orl_lock_fini(&req->lock);
    orl_pool_free(&reqs.pool, req);
}

void core_part_drop(struct core_part *part)
{
    if (part->release != NULL) {
        part->release(part->held);
        part->release = NULL;
    }
    core_xfer_free(part->xfer);
    part->xfer = NULL;
}

void core_req_cancel(struct oriel_request *req)
{
    for (uint64_t i = 0; i < req->nparts; i++) {
        core_part_drop(&req->parts[i]);
    }
    free_request(req);
}

/* ---------------------------------------------------------------- how operations end */

/* Lock held. */
static void complete(struct oriel_request *req)
{
    req->results = NULL;
    (void)atomic_fetch_sub_explicit(&reqs.outstanding, 1, memory_order_relaxed);
    atomic_store_explicit(&req->done, 1, memory_order_release);
}

static bool is_done(const struct oriel_request *req)
{
    return atomic_load_explicit(&req->done, memory_order_acquire) != 0;
}

/* Lock held. The error of a batch is that of its first operation in order, whatever ended first. */
static void note_error(struct oriel_request *req, const struct core_end *end)
{
    const char *cause = end->cause != NULL ? end->cause : orl_last_error();

    req->failed++;
    if (req->error != 0 && req->error_index < end->index) {
        return;
    }
    req->error = end->status;
    req->error_index = end->index;
    if (req->count > 1) {
        (void)snprintf(req->cause, sizeof(req->cause), "operation %llu of %llu: %s",
                       (unsigned long long)end->index, (unsigned long long)req->count, cause);
    } else {
        (void)snprintf(req->cause, sizeof(req->cause), "%s", cause);
    }
}

/* Lock held or nothing posted, request not complete. */
static void note(struct oriel_request *req, const struct core_end *end)
{
    if (end->part != NULL) {
        end->part->ended = true;
        end->part->status = end->status;
    }
    if (end->status != 0) {
        note_error(req, end);
    } else {
        req->bytes += end->bytes;
        req->crc32c = req->count == 1 ? end->crc32c : 0;
    }
    if (req->results != NULL) {
        req->results[end->index] = (struct oriel_result){
            .error = end->status,
            .crc32c = end->status == 0 ? end->crc32c : 0,
            .bytes = end->status == 0 ? end->bytes : 0,
        };
    }
}

/* One thing less that keeps the request alive; end is NULL for the start. */
static void count_down(struct oriel_request *req, const struct core_end *end)
{
    bool completed = false;
    bool both = false;

    orl_lock(&req->lock);
    if (end != NULL && !is_done(req)) {
        note(req, end);
    }
    if (atomic_fetch_sub_explicit(&req->live, 1, memory_order_release) == 1) {
        completed = !is_done(req);
        if (completed) {
            complete(req);
        }
        req->ended |= CORE_REQ_LIB;
        both = (req->ended & CORE_REQ_USER) != 0;
    }
    orl_unlock(&req->lock);
    if (both) {
        free_request(req);
    } else if (completed) {
        core_wake();
    }
}

void core_req_note(struct oriel_request *req, const struct core_end *end)
{
    if (req->nparts == 0) {
        note(req, end); /* nothing is posted: nobody else knows the request */
    } else {
        count_down(req, end);
    }
}

void core_req_started(struct oriel_request *req)
{
    if (has_memory(req)) {
        orl_lock(&reqs.lock);
        orl_list_add_tail(&reqs.big, &req->all);
        orl_unlock(&reqs.lock);
    }
    if (req->nparts == 0) {
        /* Everything was done in place; nobody else ever knew the request. */
        atomic_store_explicit(&req->live, 0, memory_order_relaxed);
        req->results = NULL;
        req->ended = CORE_REQ_LIB;
        atomic_store_explicit(&req->done, 1, memory_order_relaxed);
        return;
    }
    (void)atomic_fetch_add_explicit(&reqs.outstanding, 1, memory_order_relaxed);
    core_req_due(req);
    count_down(req, NULL);
}

/* ---------------------------------------------------------------- parts */

static void part_end(struct core_part *part, int status, uint32_t crc32c, const char *cause)
{
    struct core_end end = { .index = part->index,
                            .status = status,
                            .crc32c = crc32c,
                            .bytes = part->op.bytes,
                            .cause = cause,
                            .part = part };

    count_down(part->req, &end);
}

static void part_hashed(struct core_crc_job *job, uint32_t crc32c)
{
    part_end(container_of(job, struct core_part, crc), 0, crc32c, NULL);
}

/* The operand of an atomic is in the operation, what others move in memory. */
static void hash(struct core_part *part)
{
    bool in_op = part->op.kind == FAB_OP_AMO;

    if (part->op.bytes == 0) {
        part_end(part, 0, 0, NULL);
        return;
    }
    part->crc.data = in_op ? (const void *)&part->op.operand : part->op.local;
    part->crc.bytes = (size_t)part->op.bytes;
    part->crc.done = part_hashed;
    core_crc_submit(&part->crc);
}

void core_part_done(struct fab_op *op, int status)
{
    struct core_part *part = op->user;
    char cause[128];

    status = core_path_done(part->path, status);
    if (status != 0) {
        (void)snprintf(cause, sizeof(cause), "%s: %s", part->path->ep->label,
                       core_path_cause(part->path, status));
    }
    core_part_drop(part);
    if (status == 0 && (part->req->flags & ORIEL_CRC32C) != 0) {
        hash(part);
    } else {
        part_end(part, status, 0, cause);
    }
}

void core_part_done_here(struct core_part *part, int status)
{
    if (status == 0 && (part->req->flags & ORIEL_CRC32C) != 0) {
        hash(part);
    } else {
        part_end(part, status, 0, NULL);
    }
}

/* ---------------------------------------------------------------- waiting for one */

/* Lock held. Whom the first operation that has not ended waits for. */
static int late_rank(const struct oriel_request *req)
{
    for (uint64_t i = 0; i < req->nparts; i++) {
        if (!req->parts[i].ended && req->parts[i].path != NULL) {
            return req->parts[i].path->rank;
        }
    }
    return -1;
}

/* The deadline given at the start has passed: complete with TIMEOUT and the counts. */
static void expire(struct oriel_request *req)
{
    orl_lock(&req->lock);
    if (!is_done(req)) {
        uint64_t ended = req->count - atomic_load_explicit(&req->live, memory_order_relaxed);
        (void)snprintf(req->cause, sizeof(req->cause),
                       "timed out after %llu of %llu operations, %llu failed, rank %d",
                       (unsigned long long)ended, (unsigned long long)req->count,
                       (unsigned long long)req->failed, late_rank(req));
        req->error = ORL_ERR_TIMEOUT;
        complete(req);
    }
    orl_unlock(&req->lock);
}

static bool await_is_over(void *arg)
{
    return is_done(arg);
}

void core_req_look(struct oriel_request *req)
{
    if (req->deadline != ORL_NEVER && !is_done(req) && orl_deadline_passed(req->deadline)) {
        expire(req);
    }
}

/* The parts lie in order of rank. */
void core_req_check_peers(struct oriel_request *req)
{
    int looked = -1;

    for (uint64_t i = 0; i < req->nparts; i++) {
        struct core_path *path = req->parts[i].path;

        if (path != NULL && path->rank != looked) {
            looked = path->rank;
            core_path_settle(path);
            (void)core_peer_check(looked);
        }
    }
}

static int await_alive(void *arg)
{
    core_req_check_peers(arg);
    return 0;
}

static int pending_rank(const struct oriel_request *req)
{
    return req->nparts == 0 || req->parts[0].path == NULL ? -1 : req->parts[0].path->rank;
}

int core_req_await(struct oriel_request *req, uint64_t deadline, const char *call)
{
    struct core_wait wait = { .ready = await_is_over,
                              .alive = await_alive,
                              .arg = req,
                              .deadline = deadline < req->deadline ? deadline : req->deadline,
                              .call = call,
                              .rank = pending_rank(req) };
    int status;

    if (is_done(req)) {
        return 0;
    }
    wait.bytes = req->nparts == 0 ? 0 : req->parts[0].op.bytes;
    status = core_wait(&wait);
    if (status == ORL_ERR_TIMEOUT) {
        core_req_look(req);
    }
    return is_done(req) ? 0 : status;
}

int core_req_report(struct oriel_request *req, struct oriel_status *status)
{
    char cause[sizeof(req->cause)];
    int error;

    orl_lock(&req->lock);
    error = req->error;
    if (error != 0) {
        memcpy(cause, req->cause, sizeof(cause));
    }
    if (status != NULL) {
        *status = (struct oriel_status){ .source = -1,
                                         .tag = -1,
                                         .error = error,
                                         .cancelled = error == ORL_ERR_CANCELED,
                                         .bytes = req->bytes,
                                         .failed = req->failed,
                                         .crc32c = req->crc32c };
    }
    orl_unlock(&req->lock);
    return error == 0 ? 0 : orl_fail(error, "%s", cause);
}

void core_req_leave(struct oriel_request *req)
{
    bool both;

    orl_lock(&req->lock);
    req->ended |= CORE_REQ_USER;
    req->results = NULL;
    both = (req->ended & CORE_REQ_LIB) != 0;
    orl_unlock(&req->lock);
    if (both) {
        free_request(req);
    }
}

/* A part that the transport still holds has not ended, so nobody writes what is read here: ended is
 * set under the lock, before. */
void core_req_land(struct oriel_request *req)
{
    for (uint64_t i = 0; i < req->nparts; i++) {
        const struct core_part *part = &req->parts[i];
        bool landed;

        orl_lock(&req->lock);
        landed = part->user != NULL && part->ended && part->status == 0;
        orl_unlock(&req->lock);
        if (landed) {
            orl_copy(part->user, part->op.local, (size_t)part->op.bytes);
        }
    }
}
