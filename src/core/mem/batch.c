/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The request form of put, get and atomics. A start goes over the operations twice: those that must
 * be posted come first, sorted by path and posted as one chain for each, so that they are under way
 * while the others, on memory that is mapped here, are done in place. Back-pressure
 * (ORIEL_INFLIGHT) is per path. oriel_run with a deadline works on copies of what it posts. No lock
 * is held.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/copy.h"
#include "base/stats.h"
#include "core/mem/mem.h"
#include "core/path/agent.h"
#include "core/path/path.h"
#include "core/path/progress.h"
#include "core/path/rail.h"
#include "core/path/req.h"
#include "core/path/xfer.h"

#define STAGE_ALIGN 64

/* A start under way. */
struct batch {
    const struct oriel_xfer *ops;
    uint64_t count;
    struct oriel_request *req;
    uint64_t deadline;
    uint32_t flags; /* ORIEL_NOWAIT, ORIEL_CRC32C */
    bool staged;    /* what is posted works on copies */
    struct core_part *parts;
    uint64_t nposted; /* parts [0, nposted) are to be posted */
    uint64_t nhere;   /* parts from the end: done in place, with a checksum */
    uint64_t sent;    /* parts posted so far */
};

/* Whether it goes through a transport. What is no remote, or too short to move anything, is dealt
 * with in place. */
static bool must_post(const struct oriel_xfer *x)
{
    return x->remote != NULL && x->remote->magic == CORE_REMOTE_MAGIC &&
           x->remote->key.direct == NULL && (x->bytes != 0 || x->kind == ORIEL_PUT_NOTIFY);
}

static void note(struct batch *batch, uint64_t index, int status, uint64_t bytes, const char *cause)
{
    core_req_note(
        batch->req,
        &(struct core_end){ .index = index, .status = status, .bytes = bytes, .cause = cause });
}

/* ---------------------------------------------------------------- parts */

static void *writable(const void *source)
{
    union {
        const void *in;
        void *out;
    } pointer = { .in = source };

    return pointer.out;
}

/* The fabric's words for a checked operation. */
static void describe(struct core_part *part, const struct oriel_xfer *x)
{
    struct fab_op *op = &part->op;

    op->bytes = x->bytes;
    op->offset = x->offset;
    op->operand = x->operand;
    op->rkey = x->remote->keys;
    op->flags = x->remote->rails;
    switch ((enum oriel_kind)x->kind) {
    case ORIEL_PUT:
        op->kind = FAB_OP_PUT;
        op->local = writable(x->src);
        break;
    case ORIEL_GET:
        op->kind = FAB_OP_GET;
        op->local = x->dst;
        break;
    case ORIEL_PUT_NOTIFY:
        op->kind = FAB_OP_PUT_NOTIFY;
        op->local = writable(x->src);
        op->notify = x->counter;
        break;
    case ORIEL_ATOMIC:
    case ORIEL_COMPARE_SWAP:
        op->kind = FAB_OP_AMO;
        op->amo = core_amo_of(x);
        op->width = (uint8_t)x->bytes;
        op->local = x->dst;
        op->compare = x->expected;
        break;
    }
}

static void fill(struct batch *batch, struct core_part *part, uint64_t index)
{
    const struct oriel_xfer *x = &batch->ops[index];

    describe(part, x);
    part->req = batch->req;
    part->index = index;
}

/* False, with the operation ended: no memory. */
static bool fill_posted(struct batch *batch, struct core_part *part, uint64_t index)
{
    struct oriel_remote *remote = batch->ops[index].remote;

    if (core_path_is_railed(remote->path)) {
        part->xfer = core_xfer_alloc();
        if (part->xfer == NULL) {
            note(batch, index, ORL_ERR_NOMEM, 0, "no memory to cut it for several rails");
            return false;
        }
    }
    fill(batch, part, index);
    part->op.done = core_part_done;
    part->op.user = part;
    part->path = remote->path;
    core_remote_hold(remote);
    part->release = core_remote_drop;
    part->held = remote;
    return true;
}

/* Ends, at once, what cannot be posted. */
static void gather(struct batch *batch)
{
    for (uint64_t i = 0; i < batch->count; i++) {
        const struct oriel_xfer *x = &batch->ops[i];

        if (!must_post(x)) {
            continue;
        }
        int status = core_xfer_check(x);
        if (status != 0) {
            note(batch, i, status, 0, NULL);
        } else if (fill_posted(batch, &batch->parts[batch->nposted], i)) {
            core_count(x);
            batch->nposted++;
        }
    }
}

static int compare_parts(const void *left, const void *right)
{
    const struct core_part *a = left;
    const struct core_part *b = right;

    if (a->path->rank != b->path->rank) {
        return a->path->rank < b->path->rank ? -1 : 1;
    }
    return a->index < b->index ? -1 : 1;
}

/* By rank; a batch to one rank, or already in order, is left as it is. */
static void sort(struct batch *batch)
{
    for (uint64_t i = 1; i < batch->nposted; i++) {
        if (batch->parts[i].path->rank < batch->parts[i - 1].path->rank) {
            qsort(batch->parts, (size_t)batch->nposted, sizeof(*batch->parts), compare_parts);
            break;
        }
    }
    for (uint64_t i = 0; i < batch->nposted; i++) {
        batch->parts[i].op.user = &batch->parts[i];
    }
}

/* How many parts from `first` on go the same way. */
static uint64_t run_length(const struct batch *batch, uint64_t first)
{
    uint64_t n = 1;

    while (first + n < batch->nposted && batch->parts[first + n].path == batch->parts[first].path) {
        n++;
    }
    return n;
}

/* ---------------------------------------------------------------- staging */

/* Work on copies: the user's buffers are then free whatever the transport still does. */
static int stage(struct batch *batch)
{
    uint64_t bytes = 0;
    unsigned char *place;

    for (uint64_t i = 0; i < batch->nposted; i++) {
        bytes += (batch->parts[i].op.bytes + STAGE_ALIGN - 1) / STAGE_ALIGN * STAGE_ALIGN;
    }
    if (bytes == 0) {
        return 0;
    }
    place = malloc((size_t)bytes);
    if (place == NULL) {
        return orl_fail(ORL_ERR_NOMEM,
                        "no memory to stage %llu bytes, which a call with a deadline needs; "
                        "oriel_start does without",
                        (unsigned long long)bytes);
    }
    batch->req->stage = place;
    for (uint64_t i = 0; i < batch->nposted; i++) {
        struct core_part *part = &batch->parts[i];

        if (part->op.kind == FAB_OP_PUT || part->op.kind == FAB_OP_PUT_NOTIFY) {
            orl_copy(place, part->op.local, (size_t)part->op.bytes);
            part->op.local = place;
        } else if (part->op.local != NULL) {
            part->user = part->op.local;
            part->op.local = place;
        }
        place += (part->op.bytes + STAGE_ALIGN - 1) / STAGE_ALIGN * STAGE_ALIGN;
    }
    return 0;
}

/* ---------------------------------------------------------------- posting */

/* An engine is driven once by whoever posts, and its agent then knows of what it could not hand
 * over: nobody may come to wait for it. */
static void push_on(const struct core_path *path)
{
    for (int r = 0; r < path->nrails; r++) {
        struct fab_engine *engine = path->rail[r].engine;

        if (engine->level >= FAB_LEVEL_NIC) {
            (void)fab_engine_progress(engine);
            core_agent_posted(engine);
        }
    }
}

static void post_railed(struct core_path *path, struct core_part *part, uint64_t n)
{
    core_rails_tick(path);
    for (uint64_t i = 0; i < n; i++) {
        core_xfer_start(part[i].xfer, path, &part[i].op);
    }
}

/* Post the next n parts, which go the same way and have room. */
static void post(struct batch *batch, uint64_t n)
{
    struct core_part *part = &batch->parts[batch->sent];
    struct core_path *path = part->path;

    batch->sent += n;
    if (core_path_is_railed(path)) {
        post_railed(path, part, n);
    } else {
        for (uint64_t i = 0; i + 1 < n; i++) {
            part[i].op.link.next = &part[i + 1].op.link;
        }
        part[n - 1].op.link.next = NULL;
        core_path_post(path, &part->op, n);
    }
    push_on(path);
}

static bool has_room(void *arg)
{
    return core_path_has_room(arg);
}

/* A dead peer's operations end, which makes room. */
static int room_alive(void *arg)
{
    struct core_path *path = arg;

    core_path_settle(path);
    (void)core_peer_check(path->rank);
    return 0;
}

static int wait_for_room(const struct batch *batch, struct core_path *path)
{
    return core_wait(&(struct core_wait){ .ready = has_room,
                                          .alive = room_alive,
                                          .arg = path,
                                          .deadline = batch->deadline,
                                          .call = "oriel_start",
                                          .rank = path->rank });
}

static int post_all(struct batch *batch)
{
    while (batch->sent < batch->nposted) {
        struct core_path *path = batch->parts[batch->sent].path;
        uint64_t room = core_path_room(path, run_length(batch, batch->sent));

        if (room != 0) {
            post(batch, room);
            continue;
        }
        int status = wait_for_room(batch, path);
        if (status != 0) {
            return status;
        }
    }
    return 0;
}

static void give_room_back(struct batch *batch, uint64_t end)
{
    uint64_t n;

    for (uint64_t i = 0; i < end; i += n) {
        n = run_length(batch, i);
        core_path_unroom(batch->parts[i].path, n);
    }
}

/* All or nothing: room for every run first. */
static int post_nowait(struct batch *batch)
{
    uint64_t n;

    for (uint64_t i = 0; i < batch->nposted; i += n) {
        struct core_path *path = batch->parts[i].path;

        n = run_length(batch, i);
        uint64_t room = core_path_room(path, n);

        if (room < n) {
            core_path_unroom(path, room);
            give_room_back(batch, i);
            return orl_fail(ORL_ERR_AGAIN,
                            "rank %d has room for %llu of %llu operations now (ORIEL_INFLIGHT is "
                            "%d)",
                            path->rank, (unsigned long long)room, (unsigned long long)n,
                            orl_conf.inflight);
        }
    }
    while (batch->sent < batch->nposted) {
        post(batch, run_length(batch, batch->sent));
    }
    return 0;
}

/* The deadline passed while some parts waited for room: these end, the others go on. */
static void end_unsent(struct batch *batch, int status)
{
    for (uint64_t i = batch->sent; i < batch->nposted; i++) {
        struct core_part *part = &batch->parts[i];

        core_req_note(batch->req,
                      &(struct core_end){ .index = part->index,
                                          .status = status,
                                          .cause = "it had to wait for room (ORIEL_INFLIGHT)",
                                          .part = part });
        part->path = NULL;
        core_part_drop(part);
    }
}

static int send(struct batch *batch)
{
    int status;

    sort(batch);
    status = batch->staged ? stage(batch) : 0;
    if (status == 0) {
        status = (batch->flags & ORIEL_NOWAIT) != 0 ? post_nowait(batch) : post_all(batch);
    }
    if (status != 0 && batch->sent != 0) {
        end_unsent(batch, status);
        return 0;
    }
    return status;
}

/* ---------------------------------------------------------------- in place */

static void do_here(struct batch *batch, uint64_t index)
{
    const struct oriel_xfer *x = &batch->ops[index];
    int status = core_xfer_check(x);
    struct core_part *part;

    if (status == 0) {
        status = core_direct_run(x);
    }
    if (status != 0 || (batch->flags & ORIEL_CRC32C) == 0) {
        note(batch, index, status, x->bytes, NULL);
        return;
    }
    part = &batch->parts[batch->req->nparts - ++batch->nhere];
    fill(batch, part, index);
    core_part_done_here(part, 0);
}

/* The deadline is looked at between operations; the first is always done. */
static void do_all_here(struct batch *batch)
{
    bool late = false;
    bool looked = false;

    for (uint64_t i = 0; i < batch->count; i++) {
        if (must_post(&batch->ops[i])) {
            continue;
        }
        late = late || (looked && orl_deadline_passed(batch->deadline));
        looked = true;
        if (late) {
            note(batch, i, ORL_ERR_TIMEOUT, 0, "the deadline passed before it was begun");
        } else {
            do_here(batch, i);
        }
    }
}

/* ---------------------------------------------------------------- start */

static ORL_COLD int no_ops(uint64_t count)
{
    return orl_fail(ORL_ERR_INVAL, "ops is NULL with a count of %llu", (unsigned long long)count);
}

static int check_call(const struct oriel_run_opts *opts)
{
    if (!core_is_open()) {
        return core_state_error();
    }
    if (opts != NULL && opts->size < sizeof(*opts)) {
        return orl_fail(ORL_ERR_INVAL,
                        "oriel_run_opts.size is %zu, not %zu; begin with ORIEL_RUN_OPTS_INIT",
                        opts->size, sizeof(*opts));
    }
    if (opts != NULL && (opts->flags & ~(ORIEL_NOWAIT | ORIEL_CRC32C)) != 0) {
        return orl_fail(ORL_ERR_INVAL,
                        "oriel_run_opts.flags is 0x%x; ORIEL_NOWAIT and ORIEL_CRC32C are known",
                        opts->flags);
    }
    return 0;
}

/* On the scale of orl_clock_ns; a negative time-out has passed already. */
static uint64_t deadline_of(const struct oriel_run_opts *opts)
{
    if (opts == NULL || opts->timeout_ns == 0) {
        return ORL_NEVER;
    }
    return opts->timeout_ns < 0 ? 0 : orl_deadline_in(opts->timeout_ns);
}

/* How many parts the batch may need. */
static uint64_t count_parts(const struct batch *batch)
{
    uint64_t n = 0;

    if ((batch->flags & ORIEL_CRC32C) != 0) {
        return batch->count;
    }
    for (uint64_t i = 0; i < batch->count; i++) {
        n += must_post(&batch->ops[i]) ? 1 : 0;
    }
    return n;
}

/* Operations that nobody looks at yet are as if their deadline had passed. */
static void open_results(const struct oriel_run_opts *opts, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        opts->results[i] = (struct oriel_result){ .error = ORL_ERR_TIMEOUT };
    }
}

static int make_request(struct batch *batch, const struct oriel_run_opts *opts)
{
    struct oriel_request *req;
    int status = (batch->flags & ORIEL_CRC32C) != 0 ? core_crc_open() : 0;

    if (status == 0) {
        status = core_req_new(batch->count, count_parts(batch), &req);
    }
    if (status != 0) {
        return status;
    }
    req->flags = batch->flags;
    req->deadline = batch->deadline;
    if (opts != NULL && opts->results != NULL) {
        open_results(opts, batch->count);
        req->results = opts->results;
    }
    batch->req = req;
    batch->parts = req->parts;
    return 0;
}

static int start(const struct oriel_xfer *ops, uint64_t count, const struct oriel_run_opts *opts,
                 bool staged, struct oriel_request **request)
{
    struct batch batch = { .ops = ops,
                           .count = count,
                           .deadline = deadline_of(opts),
                           .flags = opts == NULL ? 0 : opts->flags,
                           .staged = staged };
    int status = make_request(&batch, opts);

    if (status != 0) {
        return status;
    }
    if (count > 1) {
        orl_stat_add(&core.stats, ORL_STAT_BATCHES, 1);
    }
    if (batch.req->nparts != 0) {
        gather(&batch);
        status = send(&batch);
        if (status != 0) {
            core_req_cancel(batch.req);
            return status;
        }
    }
    do_all_here(&batch);
    core_req_started(batch.req);
    *request = batch.req;
    return 0;
}

ORL_PUBLIC int oriel_start(const struct oriel_xfer *ops, uint64_t count,
                           const struct oriel_run_opts *opts, struct oriel_request **request)
{
    int status = check_call(opts);

    if (status != 0) {
        return status;
    }
    if (ops == NULL && count != 0) {
        return no_ops(count);
    }
    if (request == NULL) {
        return orl_fail(ORL_ERR_INVAL, "request is NULL; give the address of a pointer");
    }
    return start(ops, count, opts, false, request);
}

ORL_PUBLIC int oriel_run(const struct oriel_xfer *ops, uint64_t count,
                         const struct oriel_run_opts *opts)
{
    struct oriel_request *req = NULL;
    int status = check_call(opts);
    bool staged;

    if (status != 0) {
        return status;
    }
    if (ops == NULL && count != 0) {
        return no_ops(count);
    }
    staged = deadline_of(opts) != ORL_NEVER;
    status = start(ops, count, opts, staged, &req);
    if (status != 0) {
        return status;
    }
    status = core_req_await(req, ORL_NEVER, "oriel_run");
    if (status == 0) {
        status = core_req_report(req, NULL);
    }
    if (staged) {
        core_req_land(req);
    }
    core_req_leave(req);
    return status;
}

ORL_PUBLIC int oriel_put_start(struct oriel_remote *remote, uint64_t offset, const void *src,
                               uint64_t bytes, struct oriel_request **request)
{
    struct oriel_xfer x = {
        .kind = ORIEL_PUT, .remote = remote, .offset = offset, .src = src, .bytes = bytes
    };

    return oriel_start(&x, 1, NULL, request);
}

ORL_PUBLIC int oriel_get_start(struct oriel_remote *remote, uint64_t offset, void *dst,
                               uint64_t bytes, struct oriel_request **request)
{
    struct oriel_xfer x = {
        .kind = ORIEL_GET, .remote = remote, .offset = offset, .dst = dst, .bytes = bytes
    };

    return oriel_start(&x, 1, NULL, request);
}
