/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints of shared memory: the four data calls, the choice of the way to the memory of an op,
 * and direct access. Called through the tables, with the locks said in transport.h. Order: what
 * goes by messages is ordered by the ring; an access that takes effect at once waits until no
 * message of its endpoint is unanswered. Messages themselves are shm_am.c's, cross-memory copies
 * shm_copy.c's.
 */
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "fabric/shm/shm.h"

static bool has_inflight(const struct shm_ep *ep)
{
    return atomic_load_explicit(&ep->inflight, memory_order_acquire) != 0;
}

int shm_say_gone(const struct shm_ep *ep)
{
    return orl_fail(ORL_ERR_GONE, "%s: the registration has been ended by its owner",
                    ep->base.label);
}

static int say_peer_gone(const struct shm_ep *ep)
{
    return orl_fail(ORL_ERR_PEER, "%s has ended", ep->base.label);
}

static bool enter(struct shm_engine *shm, const struct fab_rkey *rkey, struct fab_hazard **line)
{
    *line = fab_hazard_of(shm->node);
    return fab_hazard_enter(*line, rkey->hazard, rkey->live, rkey->gen);
}

/* ---------------------------------------------------------------- ops, poller and tx held */

static enum fab_try finish(struct shm_ep *ep, struct fab_op *op, int status)
{
    fab_op_finish(ep->base.engine, op, status);
    return FAB_TRY_TAKEN;
}

static enum fab_try stop(uint64_t *bytes)
{
    *bytes = 0;
    return FAB_TRY_STOP;
}

/* One piece of an op on mapped memory, inside the hazard. */
static void touch(struct fab_op *op, uint64_t n)
{
    const struct fab_rkey *rkey = op->rkey;
    unsigned char *remote = rkey->direct + op->offset + op->moved;

    if (op->kind == FAB_OP_AMO) {
        fab_amo_store_old(op, fab_amo_apply(rkey->direct + op->offset, (enum fab_amo)op->amo,
                                            op->width, op->operand, op->compare));
        return;
    }
    if (op->kind == FAB_OP_GET) {
        orl_copy((unsigned char *)op->local + op->moved, remote, n);
    } else {
        fab_put_apply(remote, (const unsigned char *)op->local + op->moved, n);
    }
    op->moved += n;
    if (op->kind == FAB_OP_PUT_NOTIFY && op->moved == op->bytes) {
        (void)fab_amo_apply(rkey->direct + op->notify, FAB_AMO_ADD, 8, op->operand, 0);
    }
}

static enum fab_try try_direct(struct shm_ep *ep, struct fab_op *op, uint64_t *bytes)
{
    struct shm_engine *shm = shm_of(ep->base.engine);
    uint64_t left = op->bytes - op->moved;
    uint64_t n = left < *bytes ? left : *bytes;
    struct fab_hazard *line;

    if (!enter(shm, op->rkey, &line)) {
        *bytes = 0;
        return finish(ep, op, shm_say_gone(ep));
    }
    touch(op, n);
    fab_hazard_leave(line);
    fab_node_wake(shm->node, (int)ep->peer->local);
    *bytes = n;
    if (op->kind != FAB_OP_AMO && op->moved < op->bytes) {
        return FAB_TRY_MORE;
    }
    return finish(ep, op, 0);
}

/* The counter of a put_notify lies in private memory: an atomic by message, in the same op. */
static enum fab_try notify_by_message(struct shm_ep *ep, struct fab_op *op)
{
    uint64_t none = 0;

    return shm_request_try(ep, op, &none);
}

static enum fab_try try_cma(struct shm_ep *ep, struct fab_op *op, uint64_t *bytes)
{
    struct shm_engine *shm = shm_of(ep->base.engine);
    uint64_t left = op->bytes - op->moved;
    uint64_t n = left < *bytes ? left : *bytes;
    uint64_t moved = 0;
    int status = shm_cma_copy(shm, ep->peer, op->rkey, op->offset + op->moved,
                              (unsigned char *)op->local + op->moved, n,
                              op->kind == FAB_OP_GET ? SHM_READ : SHM_WRITE, &moved);

    if (status == ORL_ERR_AGAIN) {
        return shm_request_try(ep, op, bytes);
    }
    if (status == ORL_ERR_PEER) {
        return stop(bytes);
    }
    *bytes = moved;
    op->moved += moved;
    if (status != 0) {
        return finish(ep, op, status);
    }
    if (op->moved < op->bytes) {
        return FAB_TRY_MORE;
    }
    if (op->kind == FAB_OP_PUT_NOTIFY) {
        return notify_by_message(ep, op);
    }
    fab_node_wake(shm->node, (int)ep->peer->local);
    return finish(ep, op, 0);
}

static enum fab_try try_private(struct shm_ep *ep, struct fab_op *op, uint64_t *bytes)
{
    int status = ORL_ERR_AGAIN;

    if (op->bytes == 0 && (op->kind == FAB_OP_PUT || op->kind == FAB_OP_GET)) {
        *bytes = 0;
        return finish(ep, op, shm_rkey_is_live(op->rkey) ? 0 : shm_say_gone(ep));
    }
    /* Atomics are for the owner's CPU, and what began by messages goes on by messages. */
    if (op->kind != FAB_OP_AMO && op->moved < op->bytes && (op->flags & SHM_OP_MESSAGES) == 0) {
        status = shm_cma_ask(shm_of(ep->base.engine), ep->peer);
    }
    if (status == 0) {
        return has_inflight(ep) ? stop(bytes) : try_cma(ep, op, bytes);
    }
    if (status == ORL_ERR_PEER) {
        return stop(bytes);
    }
    if (status != ORL_ERR_AGAIN) {
        *bytes = 0;
        return finish(ep, op, status);
    }
    return shm_request_try(ep, op, bytes);
}

static enum fab_try try_send(struct shm_ep *ep, struct fab_op *op, uint64_t *bytes)
{
    struct shm_msg msg = { .kind = SHM_KIND_AM, .handler = op->handler, .header = op->operand };
    struct shm_parts parts = { .body = op->local, .body_bytes = op->bytes };

    if (op->bytes > SHM_CELL_PAYLOAD) {
        *bytes = 0;
        return finish(ep, op,
                      orl_fail(ORL_ERR_INVAL, "a message of %llu bytes is beyond the limit of %d",
                               (unsigned long long)op->bytes, SHM_CELL_PAYLOAD));
    }
    int status = ORL_ERR_AGAIN;
    if (shm_may_send(ep)) {
        status = shm_push(shm_of(ep->base.engine), ep->peer, &msg, &parts);
    }
    shm_note_room(ep, status);
    if (status == ORL_ERR_AGAIN) {
        return stop(bytes);
    }
    *bytes = op->bytes;
    return finish(ep, op, status);
}

static enum fab_try try_flush(struct shm_ep *ep, struct fab_op *op, uint64_t *bytes)
{
    if (has_inflight(ep)) {
        return stop(bytes);
    }
    *bytes = 0;
    /* Every direct store before this is visible before whatever the flush's poster does next. */
    atomic_thread_fence(memory_order_seq_cst);
    return finish(ep, op, atomic_exchange_explicit(&ep->short_status, 0, memory_order_relaxed));
}

enum fab_try shm_try(struct fab_ep *base, struct fab_op *op, uint64_t *bytes)
{
    struct shm_ep *ep = shm_ep_of(base);

    if (shm_peer_is_gone(shm_of(base->engine), ep->peer)) {
        return stop(bytes);
    }
    if (op->kind == FAB_OP_SEND) {
        return try_send(ep, op, bytes);
    }
    if (op->kind == FAB_OP_FLUSH) {
        return try_flush(ep, op, bytes);
    }
    if (op->moved == 0 && op->flags == 0) {
        int status = fab_op_check(op, (unsigned)op->rkey->word[1]);

        if (status != 0) {
            *bytes = 0;
            return finish(ep, op, status);
        }
    }
    if (op->rkey->direct == NULL) {
        return try_private(ep, op, bytes);
    }
    return has_inflight(ep) ? stop(bytes) : try_direct(ep, op, bytes);
}

/* ---------------------------------------------------------------- short calls */

/* May a short call go ahead? tx held. */
static int admit_short(struct shm_ep *ep)
{
    struct fab_ep *base = &ep->base;

    if (atomic_load_explicit(&base->state, memory_order_relaxed) != FAB_EP_READY) {
        /* The table was swapped while the caller was on its way here. */
        return orl_fail(base->status, "%s", base->cause);
    }
    if (fab_ep_has_queue(base)) {
        return ORL_ERR_AGAIN;
    }
    return shm_peer_is_gone(shm_of(base->engine), ep->peer) ? say_peer_gone(ep) : 0;
}

static int short_direct(struct shm_ep *ep, const struct fab_rkey *rkey, uint64_t offset,
                        const void *src, size_t bytes)
{
    struct shm_engine *shm = shm_of(ep->base.engine);
    struct fab_hazard *line;

    if (has_inflight(ep)) {
        return ORL_ERR_AGAIN;
    }
    if (!enter(shm, rkey, &line)) {
        return shm_say_gone(ep);
    }
    fab_put_apply(rkey->direct + offset, src, bytes);
    fab_hazard_leave(line);
    fab_node_wake(shm->node, (int)ep->peer->local);
    return 0;
}

static int short_private(struct shm_ep *ep, const struct fab_rkey *rkey, uint64_t offset,
                         const void *src, size_t bytes)
{
    struct shm_engine *shm = shm_of(ep->base.engine);
    int status = shm_cma_ask(shm, ep->peer);
    uint64_t done = 0;
    uint64_t moved = 0;

    if (status == 0 && has_inflight(ep)) {
        return ORL_ERR_AGAIN;
    }
    while (status == 0 && done < bytes) {
        /* The source is only read. */
        void *from = (void *)((uintptr_t)src + done);

        status =
            shm_cma_copy(shm, ep->peer, rkey, offset + done, from, bytes - done, SHM_WRITE, &moved);
        done += moved;
    }
    if (status == ORL_ERR_AGAIN) {
        const unsigned char *rest = (const unsigned char *)src + done;

        return shm_request_put(ep, rkey, offset + done, rest, bytes - done);
    }
    if (status == 0) {
        fab_node_wake(shm->node, (int)ep->peer->local);
    }
    return status == ORL_ERR_PEER ? say_peer_gone(ep) : status;
}

static int put_short(struct fab_ep *base, const struct fab_rkey *rkey, uint64_t offset,
                     const void *src, size_t bytes)
{
    struct shm_ep *ep = shm_ep_of(base);
    struct fab_op op = { .kind = FAB_OP_PUT, .rkey = rkey, .offset = offset, .bytes = bytes };

    if (bytes > SHM_PUT_PIECE) {
        return orl_fail(ORL_ERR_INVAL, "a short put of %zu bytes is beyond the limit of %zu", bytes,
                        SHM_PUT_PIECE);
    }
    int status = fab_op_check(&op, (unsigned)rkey->word[1]);
    if (status != 0) {
        return status;
    }
    orl_lock(&base->engine->tx);
    status = admit_short(ep);
    if (status == 0) {
        status = rkey->direct != NULL ? short_direct(ep, rkey, offset, src, bytes)
                                      : short_private(ep, rkey, offset, src, bytes);
    }
    orl_unlock(&base->engine->tx);
    return status;
}

static int send_short(struct fab_ep *base, unsigned handler, uint64_t header, const void *src,
                      size_t bytes)
{
    struct shm_ep *ep = shm_ep_of(base);
    struct shm_msg msg = { .kind = SHM_KIND_AM, .handler = (uint8_t)handler, .header = header };
    struct shm_parts parts = { .body = src, .body_bytes = bytes };

    if (bytes > SHM_LINE_PAYLOAD || handler >= FAB_HANDLERS_MAX) {
        return orl_fail(ORL_ERR_INVAL,
                        "a short message of %zu bytes for handler %u is beyond %d bytes and %d "
                        "handlers",
                        bytes, handler, SHM_LINE_PAYLOAD, FAB_HANDLERS_MAX);
    }
    orl_lock(&base->engine->tx);
    int status = admit_short(ep);
    if (status == 0) {
        status = shm_may_send(ep) ? shm_push(shm_of(base->engine), ep->peer, &msg, &parts)
                                  : ORL_ERR_AGAIN;
    }
    orl_unlock(&base->engine->tx);
    return status;
}

const struct fab_ep_ops shm_ep_ops = {
    put_short,          /* put_short */
    send_short,         /* send_short */
    fab_ep_queue,       /* post */
    fab_ep_queue_flush, /* flush */
};

/* ---------------------------------------------------------------- life */

int shm_ep_open(struct fab_engine *engine, const void *address, size_t bytes, const char *label,
                struct fab_ep **ep)
{
    struct shm_engine *shm = shm_of(engine);
    struct shm_address got;
    struct shm_peer *peer;

    memcpy(&got, address, sizeof(got) < bytes ? sizeof(got) : bytes);
    if (got.magic != SHM_MAGIC || got.zero != 0 || got.job != shm->node->header->job ||
        got.local >= (uint32_t)shm->node->nranks) {
        return orl_fail(ORL_ERR_INVAL, "these %zu bytes are not the address of a rank of this node",
                        bytes);
    }
    int status = shm_peer_find(shm, got.local, &peer);
    if (status == 0) {
        status = shm_bell_open(shm);
    }
    if (status != 0) {
        return status;
    }
    struct shm_ep *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for an endpoint of shm");
    }
    made->peer = peer;
    orl_lock(&engine->tx);
    if (peer->probe_value != got.probe_value) {
        peer->cma = SHM_CMA_UNKNOWN;
        peer->pid = got.pid;
        peer->probe_at = got.probe_at;
        peer->probe_value = got.probe_value;
    }
    orl_unlock(&engine->tx);
    fab_ep_init(&made->base, engine, &shm_ep_ops, label);
    *ep = &made->base;
    return 0;
}

void shm_ep_stop(struct fab_ep *ep, int status)
{
    orl_lock(&ep->engine->tx);
    shm_requests_drop(shm_ep_of(ep), status);
    orl_unlock(&ep->engine->tx);
}

void shm_ep_close(struct fab_ep *ep)
{
    fab_ep_fini(ep);
    free(shm_ep_of(ep));
}
