/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of shared memory, and access to a peer's private memory by messages: the origin sends a
 * request per piece, the owner checks the registration under its own hazard line, does the
 * access and owes a reply. Called from the endpoint's calls (tx) and from progress (poller). At
 * most SHM_WINDOW requests to a peer are unanswered, so what is owed is bounded and a ring that
 * is full never keeps its owner from reading the other one.
 */
#include <string.h>
#include <unistd.h>

#include "base/copy.h"
#include "base/log.h"
#include "fabric/shm/shm.h"

#define CELLS_FIRST 32 /* cells until more are needed: 256 KiB */

/* ---------------------------------------------------------------- sending, tx held */

static int open_ring(struct shm_engine *shm, struct shm_peer *peer)
{
    struct fab_node *node = shm->node;
    uint32_t me = (uint32_t)node->local;
    struct shm_ring *ring = shm_ring_at(node, peer->local, me);
    struct shm_ring *bell = shm_ring_at(node, peer->local, peer->local);
    int status = fab_node_reserve(node, ring, sizeof(*ring));

    if (status == 0) {
        status = fab_node_reserve(node, bell, sizeof(*bell));
    }
    if (status != 0) {
        return status;
    }
    fab_node_populate(node, ring, sizeof(*ring));
    shm_ring_tx_init(&peer->tx, ring);
    /* Release: who sees the bit finds the ring's page in place. */
    (void)atomic_fetch_or_explicit(&bell->bell[me / 64], UINT64_C(1) << me % 64,
                                   memory_order_release);
    return 0;
}

/* Twice the L2 cache and at least 2 MiB, so that a cell has left the reader's cache before it is
 * written again; at most what the node sets aside, and 512 MiB over all ranks. */
static uint32_t cells_max(const struct fab_node *node)
{
    uint64_t bytes = UINT64_C(2) << 20;
    uint64_t share = (UINT64_C(512) << 20) / (uint64_t)node->nranks;
    long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);

    if (l2 > 0 && (uint64_t)l2 * 2 > bytes) {
        bytes = (uint64_t)l2 * 2;
    }
    bytes = bytes < share ? bytes : share;
    bytes = bytes < node->cell_stride ? bytes : node->cell_stride;
    return (uint32_t)(bytes / SHM_CELL_BYTES);
}

static int grow_cells(struct shm_engine *shm)
{
    struct fab_node *node = shm->node;
    unsigned char *memory = node->cells + (uint64_t)node->local * node->cell_stride;
    uint32_t max = shm->has_cells ? shm->cells.max : cells_max(node);
    uint32_t limit = shm->has_cells || max < CELLS_FIRST ? max : CELLS_FIRST;
    int status = fab_node_reserve(node, memory, (uint64_t)limit * SHM_CELL_BYTES);

    if (status != 0) {
        return status;
    }
    if (!shm->has_cells) {
        shm_cells_init(&shm->cells, memory, limit, max);
        shm->has_cells = true;
    }
    shm->cells.limit = limit;
    return 0;
}

static int find_cell(struct shm_engine *shm, uint32_t to, uint32_t *cell)
{
    int status = shm->has_cells ? 0 : grow_cells(shm);

    if (status != 0) {
        return status;
    }
    *cell = shm_cells_take(&shm->cells, to);
    if (*cell == SHM_NO_CELL && shm->cells.limit < shm->cells.max) {
        uint32_t old = shm->cells.limit;

        /* No room for a larger pool is no reason to fail: the small one goes round. */
        if (grow_cells(shm) == 0) {
            shm->cells.next = old;
            *cell = shm_cells_take(&shm->cells, to);
        }
    }
    if (*cell == SHM_NO_CELL) {
        orl_stat_add(&shm->base.stats, ORL_STAT_CELLS_FULL, 1);
        return ORL_ERR_AGAIN;
    }
    return 0;
}

static int push_cell(struct shm_engine *shm, struct shm_peer *peer, const struct shm_msg *msg,
                     const struct shm_parts *parts)
{
    struct shm_msg in_cell = *msg;

    if (!shm_ring_has_room(&peer->tx, 0)) {
        orl_stat_add(&shm->base.stats, ORL_STAT_RINGS_FULL, 1);
        return ORL_ERR_AGAIN;
    }
    int status = find_cell(shm, peer->local, &in_cell.cell);
    if (status != 0) {
        return status;
    }
    in_cell.in_cell = true;
    in_cell.bytes = (uint32_t)(parts->head_bytes + parts->body_bytes);
    shm_cells_fill(&shm->cells, in_cell.cell, parts);
    if (!shm_ring_push_cell(&peer->tx, &in_cell)) {
        shm_cells_untake(&shm->cells, in_cell.cell);
        return ORL_ERR_AGAIN;
    }
    return 0;
}

int shm_push(struct shm_engine *shm, struct shm_peer *peer, const struct shm_msg *msg,
             const struct shm_parts *parts)
{
    size_t bytes = parts->head_bytes + parts->body_bytes;
    int status = peer->tx.ring != NULL ? 0 : open_ring(shm, peer);

    if (status != 0) {
        return status;
    }
    if (bytes > SHM_LINE_PAYLOAD) {
        status = push_cell(shm, peer, msg, parts);
    } else if (!shm_ring_push(&peer->tx, msg, parts)) {
        orl_stat_add(&shm->base.stats, ORL_STAT_RINGS_FULL, 1);
        status = ORL_ERR_AGAIN;
    }
    if (status != 0) {
        atomic_store_explicit(&peer->blocked, true, memory_order_relaxed);
        atomic_store_explicit(&shm->has_blocked, true, memory_order_relaxed);
        return status;
    }
    orl_stat_add(&shm->base.stats, ORL_STAT_RING_BYTES, bytes);
    if (msg->kind == SHM_KIND_AM) {
        orl_stat_add(&shm->base.stats, ORL_STAT_MSGS_SENT, 1);
        orl_stat_add(&shm->base.stats, ORL_STAT_MSG_BYTES, bytes);
    }
    fab_node_wake(shm->node, (int)peer->local);
    return 0;
}

bool shm_may_send(const struct shm_ep *ep)
{
    return ep->peer->hungry == NULL || ep->peer->hungry == ep;
}

void shm_note_room(struct shm_ep *ep, int status)
{
    struct shm_peer *peer = ep->peer;

    /* Whoever took room before it ran out has had its turn, else it would be next for ever. */
    if (status == ORL_ERR_AGAIN && peer->hungry == NULL && !ep->was_fed) {
        peer->hungry = ep;
    } else if (status != ORL_ERR_AGAIN && peer->hungry == ep) {
        peer->hungry = NULL;
    }
    ep->was_fed = status != ORL_ERR_AGAIN;
}

/* ---------------------------------------------------------------- requests, tx held */

/* What one piece is for: an op, or a short put (op NULL). */
struct piece {
    struct fab_op *op;
    unsigned char *landing; /* data of a get */
    const void *data;       /* data of a put */
    uint64_t bytes;
};

static int begin(struct shm_ep *ep, const struct shm_request *request, const struct piece *piece)
{
    struct shm_engine *shm = shm_of(ep->base.engine);
    struct shm_peer *peer = ep->peer;
    uint32_t mask = atomic_load_explicit(&peer->free_mask, memory_order_acquire);
    struct shm_msg msg = { .kind = SHM_KIND_REQUEST };
    struct shm_parts parts = { .head = request, .head_bytes = sizeof(*request) };

    if (mask == 0 || !shm_may_send(ep)) {
        return ORL_ERR_AGAIN;
    }
    unsigned i = (unsigned)__builtin_ctz(mask);
    struct shm_pending *pending = &peer->pending[i];

    /* All of it before the push: the reply may be handled by another thread at once. */
    pending->serial = ++shm->serial * SHM_WINDOW + i;
    pending->op = piece->op;
    pending->ep = ep;
    pending->local = piece->landing;
    pending->bytes = piece->bytes;
    (void)atomic_fetch_and_explicit(&peer->free_mask, ~(UINT32_C(1) << i), memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&ep->inflight, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&shm->nunanswered, 1, memory_order_relaxed);
    msg.header = pending->serial;
    if (request->want == SHM_WANT_PUT) {
        parts.body = piece->data;
        parts.body_bytes = piece->bytes;
    }
    int status = shm_push(shm, peer, &msg, &parts);
    if (status != 0) {
        *pending = (struct shm_pending){ .serial = 0 };
        (void)atomic_fetch_sub_explicit(&shm->nunanswered, 1, memory_order_relaxed);
        (void)atomic_fetch_sub_explicit(&ep->inflight, 1, memory_order_relaxed);
        (void)atomic_fetch_or_explicit(&peer->free_mask, UINT32_C(1) << i, memory_order_release);
    }
    return status;
}

/* The next piece of an op. */
static uint64_t fill_request(const struct fab_op *op, struct shm_request *request)
{
    uint64_t left = op->bytes - op->moved;
    uint64_t most = op->kind == FAB_OP_GET ? SHM_GET_PIECE : SHM_PUT_PIECE;
    uint64_t n = left < most ? left : most;

    request->slot = shm_rkey_slot(op->rkey);
    request->gen = op->rkey->gen;
    request->offset = op->offset + op->moved;
    request->operand = op->operand;
    if (op->kind == FAB_OP_AMO) {
        request->want = SHM_WANT_AMO;
        request->offset = op->offset;
        request->amo = op->amo;
        request->width = op->width;
        request->compare = op->compare;
        return op->bytes - op->moved;
    }
    request->bytes = n;
    request->want = op->kind == FAB_OP_GET ? SHM_WANT_GET : SHM_WANT_PUT;
    if (op->kind == FAB_OP_PUT_NOTIFY && op->moved + n == op->bytes) {
        request->notify = 1;
        request->compare = op->notify;
    }
    return n;
}

/* Some piece has failed: no more are begun, the op ends with the last reply. */
static enum fab_try give_up(struct shm_ep *ep, struct fab_op *op, int status)
{
    shm_note_room(ep, status);
    op->status = status;
    op->flags |= SHM_OP_TAKEN;
    if ((op->flags & SHM_OP_COUNT) == 0) {
        fab_op_finish(ep->base.engine, op, status);
    }
    return FAB_TRY_TAKEN;
}

enum fab_try shm_request_try(struct shm_ep *ep, struct fab_op *op, uint64_t *bytes)
{
    struct shm_request request = { 0 };
    struct piece piece = { .op = op };

    *bytes = 0;
    if (op->status != 0) {
        return give_up(ep, op, op->status);
    }
    if (!shm_rkey_is_live(op->rkey)) {
        return give_up(ep, op, shm_say_gone(ep));
    }
    uint64_t n = fill_request(op, &request);
    if (op->kind == FAB_OP_GET) {
        piece.landing = (unsigned char *)op->local + op->moved;
    } else if (op->kind != FAB_OP_AMO && n > 0) {
        piece.data = (const unsigned char *)op->local + op->moved;
    }
    piece.bytes = op->kind == FAB_OP_AMO ? 0 : n;
    int status = begin(ep, &request, &piece);
    shm_note_room(ep, status);
    if (status == ORL_ERR_AGAIN) {
        return FAB_TRY_STOP;
    }
    if (status != 0) {
        return give_up(ep, op, status);
    }
    op->flags = (op->flags + 1) | SHM_OP_MESSAGES;
    op->moved += n;
    *bytes = n;
    if (op->moved < op->bytes) {
        return FAB_TRY_MORE;
    }
    op->flags |= SHM_OP_TAKEN;
    return FAB_TRY_TAKEN;
}

int shm_request_put(struct shm_ep *ep, const struct fab_rkey *rkey, uint64_t offset,
                    const void *src, size_t bytes)
{
    struct shm_request request = { .want = SHM_WANT_PUT,
                                   .slot = shm_rkey_slot(rkey),
                                   .gen = rkey->gen,
                                   .offset = offset,
                                   .bytes = bytes };
    struct piece piece = { .data = src, .bytes = bytes };

    return shm_rkey_is_live(rkey) ? begin(ep, &request, &piece) : shm_say_gone(ep);
}

void shm_requests_drop(struct shm_ep *ep, int status)
{
    struct shm_peer *peer = ep->peer;

    for (unsigned i = 0; i < SHM_WINDOW; i++) {
        struct shm_pending *pending = &peer->pending[i];
        struct fab_op *op = pending->op;

        if (pending->ep != ep) {
            continue;
        }
        pending->op = NULL;
        pending->ep = NULL;
        /* An op of which not all pieces are begun is in the queue, and ends with that. */
        if (op != NULL && (--op->flags & SHM_OP_COUNT) == 0 && (op->flags & SHM_OP_TAKEN) != 0) {
            fab_op_finish(ep->base.engine, op, status);
        }
    }
    atomic_store_explicit(&ep->inflight, 0, memory_order_relaxed);
    shm_note_room(ep, status);
}

/* ---------------------------------------------------------------- replies, poller held */

static int take_reply(const struct shm_pending *pending, const struct shm_reply *reply,
                      const unsigned char *data, size_t bytes)
{
    if (reply->status != 0) {
        return orl_fail(reply->status, "%s refuses the access: %s", pending->ep->base.label,
                        orl_status_text(reply->status));
    }
    if (pending->local == NULL) {
        if (pending->op != NULL && pending->op->kind == FAB_OP_AMO) {
            fab_amo_store_old(pending->op, reply->old);
        }
        return 0;
    }
    if (reply->bytes != pending->bytes || bytes != pending->bytes) {
        return orl_fail(ORL_ERR_INTERNAL, "%s answers with %zu bytes instead of %llu",
                        pending->ep->base.label, bytes, (unsigned long long)pending->bytes);
    }
    orl_copy(pending->local, data, bytes);
    return 0;
}

static void end_piece(struct shm_engine *shm, const struct shm_pending *pending, int status)
{
    struct fab_op *op = pending->op;
    int none = 0;

    if (op == NULL) {
        (void)atomic_compare_exchange_strong_explicit(&pending->ep->short_status, &none, status,
                                                      memory_order_relaxed, memory_order_relaxed);
    } else {
        op->status = op->status != 0 ? op->status : status;
        if ((--op->flags & SHM_OP_COUNT) == 0 && (op->flags & SHM_OP_TAKEN) != 0) {
            fab_op_finish(&shm->base, op, op->status);
        }
    }
    /* Release: a direct access that sees the count is after what the piece did. */
    (void)atomic_fetch_sub_explicit(&pending->ep->inflight, 1, memory_order_release);
}

void shm_reply_arrived(struct shm_engine *shm, struct shm_peer *peer, uint64_t serial,
                       const void *data, size_t bytes)
{
    unsigned i = (unsigned)(serial % SHM_WINDOW);
    struct shm_pending *pending = &peer->pending[i];
    struct shm_reply reply;

    if (serial == 0 || pending->serial != serial || bytes < sizeof(reply)) {
        orl_log_debug(ORL_CAT_SHM, "an answer of local rank %u, %zu bytes, fits no request",
                      peer->local, bytes);
        return;
    }
    memcpy(&reply, data, sizeof(reply));
    if (pending->ep != NULL) {
        int status = take_reply(pending, &reply, (const unsigned char *)data + sizeof(reply),
                                bytes - sizeof(reply));

        end_piece(shm, pending, status);
    }
    *pending = (struct shm_pending){ .serial = 0 };
    (void)atomic_fetch_sub_explicit(&shm->nunanswered, 1, memory_order_relaxed);
    /* Release: whoever takes the entry again finds it empty. */
    (void)atomic_fetch_or_explicit(&peer->free_mask, UINT32_C(1) << i, memory_order_release);
}

/* ---------------------------------------------------------------- serving, poller held */

/* My memory that a request is about, inside the hazard. */
struct target {
    struct fab_hazard *line;
    unsigned char *base;
    uint64_t bytes;
    unsigned access;
};

static int enter_target(struct shm_engine *shm, const struct shm_request *request,
                        struct target *target)
{
    struct fab_node *node = shm->node;
    uint32_t me = (uint32_t)node->local;
    uint32_t high = atomic_load_explicit(&node->ctl[me].reg_high, memory_order_acquire);

    if (request->slot >= high || request->gen % 2 == 0) {
        return ORL_ERR_INVAL;
    }
    const struct fab_reg *reg = &node->regs[(size_t)me * FAB_REGS_MAX + request->slot];
    uint64_t word = fab_hazard_word(me, request->slot, request->gen);

    target->line = fab_hazard_of(node);
    if (!fab_hazard_enter(target->line, word, &reg->gen, request->gen)) {
        return ORL_ERR_GONE;
    }
    target->base =
        reg->direct != 0 ? node->base + reg->addr : (unsigned char *)(uintptr_t)reg->addr;
    target->bytes = reg->bytes;
    target->access = reg->access;
    return 0;
}

/* The origin has checked all this; the owner does not rely on it. */
static int check_target(const struct shm_request *request, const struct target *target)
{
    struct fab_rkey rkey = { .bytes = target->bytes, .addr = (uintptr_t)target->base };
    struct fab_op op = { .kind = FAB_OP_GET,
                         .amo = request->amo,
                         .width = request->width,
                         .bytes = request->bytes,
                         .offset = request->offset,
                         .rkey = &rkey,
                         .notify = request->compare };

    if (request->want == SHM_WANT_PUT) {
        op.kind = request->notify != 0 ? FAB_OP_PUT_NOTIFY : FAB_OP_PUT;
    } else if (request->want == SHM_WANT_AMO) {
        op.kind = FAB_OP_AMO;
    } else if (request->want != SHM_WANT_GET || request->bytes > SHM_GET_PIECE) {
        return ORL_ERR_INVAL;
    }
    return fab_op_check(&op, target->access);
}

static int serve(struct shm_engine *shm, const struct shm_request *request, const void *data,
                 uint64_t *old)
{
    struct target target;
    int status = enter_target(shm, request, &target);

    if (status != 0) {
        return status;
    }
    status = check_target(request, &target);
    if (status == 0 && request->want == SHM_WANT_AMO) {
        *old = fab_amo_apply(target.base + request->offset, (enum fab_amo)request->amo,
                             request->width, request->operand, request->compare);
    }
    if (status == 0 && request->want == SHM_WANT_PUT) {
        fab_put_apply(target.base + request->offset, data, request->bytes);
        if (request->notify != 0) {
            (void)fab_amo_apply(target.base + request->compare, FAB_AMO_ADD, 8, request->operand,
                                0);
        }
    }
    fab_hazard_leave(target.line);
    return status;
}

void shm_request_arrived(struct shm_engine *shm, struct shm_peer *peer, uint64_t serial,
                         const void *data, size_t bytes)
{
    struct shm_request request;

    if (bytes < sizeof(request) || peer->owed_count == SHM_WINDOW) {
        orl_log_error(ORL_CAT_SHM, "local rank %u sent a request of %zu bytes with %u unanswered",
                      peer->local, bytes, peer->owed_count);
        return;
    }
    memcpy(&request, data, sizeof(request));
    struct shm_owed *owed = &peer->owed[(peer->owed_head + peer->owed_count) % SHM_WINDOW];
    peer->owed_count++;
    owed->serial = serial;
    owed->old = 0;
    owed->status = 0;
    owed->is_get = request.want == SHM_WANT_GET;
    owed->get = request;
    if (request.want == SHM_WANT_PUT && request.bytes != bytes - sizeof(request)) {
        owed->status = ORL_ERR_INVAL;
    } else if (!owed->is_get) {
        owed->status =
            serve(shm, &request, (const unsigned char *)data + sizeof(request), &owed->old);
    }
}

static int pay(struct shm_engine *shm, struct shm_peer *peer, struct shm_owed *owed)
{
    struct shm_msg msg = { .kind = SHM_KIND_REPLY, .header = owed->serial };
    struct shm_reply reply = { .status = owed->status, .old = owed->old };
    struct shm_parts parts = { .head_bytes = sizeof(reply) };
    struct target target = { .line = NULL };

    if (owed->is_get) {
        reply.status = enter_target(shm, &owed->get, &target);
        if (reply.status == 0) {
            reply.status = check_target(&owed->get, &target);
        } else {
            target.line = NULL;
        }
        if (reply.status == 0) {
            reply.bytes = (uint32_t)owed->get.bytes;
            parts.body = target.base + owed->get.offset;
            parts.body_bytes = owed->get.bytes;
        }
    }
    parts.head = &reply;
    orl_lock(&shm->base.tx);
    int status = shm_push(shm, peer, &msg, &parts);
    orl_unlock(&shm->base.tx);
    if (target.line != NULL) {
        fab_hazard_leave(target.line);
    }
    return status;
}

int shm_pay_owed(struct shm_engine *shm, struct shm_peer *peer)
{
    int n = 0;

    while (peer->owed_count > 0 && pay(shm, peer, &peer->owed[peer->owed_head]) == 0) {
        peer->owed_head = (peer->owed_head + 1) % SHM_WINDOW;
        peer->owed_count--;
        n++;
    }
    return n;
}
