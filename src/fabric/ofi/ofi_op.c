/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The four data calls. Posted ops wait in the endpoint's queue and are cut into numbered messages
 * by progress; the short calls send one at once. op->serial counts the pieces under way. What is
 * known to be over is refused here and does not touch the wire.
 */
#include <string.h>

#include "fabric/ofi/ofi.h"

#define OFI_OP_BEGUN 2u

static enum fab_try finish(struct ofi_ep *ep, struct fab_op *op, int status)
{
    fab_op_finish(ep->base.engine, op, status);
    return FAB_TRY_TAKEN;
}

/* No piece follows: the op is over with the last one under way, or now. */
static enum fab_try take(struct ofi_ep *ep, struct fab_op *op)
{
    op->flags |= OFI_OP_TAKEN;
    return op->serial == 0 ? finish(ep, op, op->status) : FAB_TRY_TAKEN;
}

/* Whether the target may be asked. */
static int admit(const struct ofi_ep *ep, const struct fab_op *op)
{
    int status = fab_op_check(op, (unsigned)op->rkey->word[1]);

    if (status == 0 && orl_map_count(&ep->peer->dead) != 0 &&
        ofi_peer_knows_dead(ep->peer, ofi_rkey_slot(op->rkey), ofi_rkey_gen(op->rkey))) {
        status = orl_fail(ORL_ERR_GONE, "%s: the registration has been ended", ep->base.label);
    }
    return status;
}

static struct ofi_access access_of(const struct fab_op *op)
{
    return (struct ofi_access){ .slot = ofi_rkey_slot(op->rkey),
                                .gen = ofi_rkey_gen(op->rkey),
                                .offset = op->offset + op->moved };
}

static uint64_t piece_of(const struct ofi_ep *ep, const struct fab_op *op, size_t body)
{
    uint64_t left = op->bytes - op->moved;
    uint64_t room = ofi_of(ep->base.engine)->room - body;

    return left < room ? left : room;
}

static int send_put(struct ofi_ep *ep, struct fab_op *op, const void *src, uint64_t n,
                    struct fab_op *owner)
{
    struct ofi_header header = { .kind = OFI_KIND_PUT };
    struct ofi_access access = access_of(op);
    struct ofi_parts parts = {
        .body = &access, .body_bytes = sizeof(access), .data = src, .data_bytes = n
    };

    if (op->kind == FAB_OP_PUT_NOTIFY && op->moved + n == op->bytes) {
        access.notifies = 1;
        access.operand = op->operand;
        access.other = op->notify;
    }
    return ofi_send_numbered(ep, &header, &parts, owner);
}

static enum fab_try try_put(struct ofi_ep *ep, struct fab_op *op, uint64_t *bytes)
{
    uint64_t n = piece_of(ep, op, sizeof(struct ofi_access));

    if (send_put(ep, op, (const unsigned char *)op->local + op->moved, n, op) != 0) {
        *bytes = 0;
        return FAB_TRY_STOP;
    }
    *bytes = n;
    op->serial++;
    op->moved += n;
    return op->moved == op->bytes ? take(ep, op) : FAB_TRY_MORE;
}

/* A get's piece or an atomic: a numbered message and a record that its answer finds. */
static enum fab_try try_request(struct ofi_ep *ep, struct fab_op *op, uint64_t *bytes)
{
    struct ofi_header header = { .kind = op->kind == FAB_OP_GET ? OFI_KIND_GET : OFI_KIND_AMO };
    struct ofi_access access = access_of(op);
    struct ofi_parts parts = { .body = &access, .body_bytes = sizeof(access) };
    bool is_get = op->kind == FAB_OP_GET;
    uint64_t n = is_get ? piece_of(ep, op, sizeof(struct ofi_answer)) : op->width;

    *bytes = 0;
    if (ep->idle == 0) {
        return FAB_TRY_STOP;
    }
    unsigned i = (unsigned)__builtin_ctzll(ep->idle);
    access.request = i;
    access.serial = ep->serial + 1;
    access.length = (uint32_t)n;
    access.amo = op->amo;
    access.width = op->width;
    access.operand = op->operand;
    access.other = op->compare;
    if (ofi_send_numbered(ep, &header, &parts, NULL) != 0) {
        return FAB_TRY_STOP;
    }
    ep->serial++;
    ep->idle &= ~(UINT64_C(1) << i);
    ep->request[i] = (struct ofi_request){ .op = op,
                                           .at = (unsigned char *)op->local + op->moved,
                                           .bytes = (uint32_t)n,
                                           .serial = ep->serial };
    *bytes = n;
    op->serial++;
    op->moved += n;
    return !is_get || op->moved == op->bytes ? take(ep, op) : FAB_TRY_MORE;
}

static enum fab_try try_send(struct ofi_ep *ep, struct fab_op *op, uint64_t *bytes)
{
    struct ofi_header header = { .kind = OFI_KIND_MESSAGE,
                                 .handler = op->handler,
                                 .word = op->operand };
    struct ofi_parts parts = { .data = op->local, .data_bytes = op->bytes };
    size_t most = ep->base.engine->limits.send_max;

    *bytes = 0;
    if (op->bytes > most) {
        return finish(ep, op,
                      orl_fail(ORL_ERR_INVAL, "a message of %llu bytes is beyond the limit of %zu",
                               (unsigned long long)op->bytes, most));
    }
    if (ofi_send_numbered(ep, &header, &parts, op) != 0) {
        return FAB_TRY_STOP;
    }
    *bytes = op->bytes;
    op->serial = 1;
    orl_stat_add(&ep->base.engine->stats, ORL_STAT_MSGS_SENT, 1);
    orl_stat_add(&ep->base.engine->stats, ORL_STAT_MSG_BYTES, op->bytes);
    return take(ep, op);
}

static enum fab_try try_flush(struct ofi_ep *ep, struct fab_op *op, uint64_t *bytes)
{
    *bytes = 0;
    if (ep->acked == ep->next) {
        int status = ep->short_status;

        ep->short_status = 0;
        return finish(ep, op, status);
    }
    op->serial = ep->next;
    orl_fifo_push(&ep->flushes, &op->link);
    return FAB_TRY_TAKEN;
}

enum fab_try ofi_try(struct fab_ep *base, struct fab_op *op, uint64_t *bytes)
{
    struct ofi_ep *ep = ofi_ep_of(base);
    int status;

    if (op->kind == FAB_OP_SEND) {
        return try_send(ep, op, bytes);
    }
    if (op->kind == FAB_OP_FLUSH) {
        return try_flush(ep, op, bytes);
    }
    if ((op->flags & OFI_OP_BEGUN) == 0) {
        op->flags |= OFI_OP_BEGUN;
        op->serial = 0;
    }
    status = op->status != 0 ? op->status : admit(ep, op);
    if (status != 0) {
        *bytes = 0;
        op->status = status;
        return take(ep, op);
    }
    if (op->kind == FAB_OP_GET || op->kind == FAB_OP_AMO) {
        return try_request(ep, op, bytes);
    }
    return try_put(ep, op, bytes);
}

/* ---------------------------------------------------------------- short calls */

static int ofi_put_short(struct fab_ep *base, const struct fab_rkey *rkey, uint64_t offset,
                         const void *src, size_t bytes)
{
    struct ofi_ep *ep = ofi_ep_of(base);
    struct fab_op op = {
        .kind = FAB_OP_PUT, .rkey = rkey, .offset = offset, .bytes = bytes, .ep = base
    };

    if (bytes > OFI_SHORT) {
        return orl_fail(ORL_ERR_INVAL, "a short put of %zu bytes is beyond the limit of %d", bytes,
                        OFI_SHORT);
    }
    orl_lock(&base->engine->tx);
    int status = fab_ep_has_queue(base) ? ORL_ERR_AGAIN : admit(ep, &op);
    if (status == 0) {
        status = send_put(ep, &op, src, bytes, NULL);
    }
    orl_unlock(&base->engine->tx);
    return status;
}

static int ofi_send_short(struct fab_ep *base, unsigned handler, uint64_t word, const void *src,
                          size_t bytes)
{
    struct ofi_header header = { .kind = OFI_KIND_MESSAGE,
                                 .handler = (uint8_t)handler,
                                 .word = word };
    struct ofi_parts parts = { .data = src, .data_bytes = bytes };

    if (bytes > OFI_SHORT) {
        return orl_fail(ORL_ERR_INVAL, "a short message of %zu bytes is beyond the limit of %d",
                        bytes, OFI_SHORT);
    }
    orl_lock(&base->engine->tx);
    int status = ORL_ERR_AGAIN;
    if (!fab_ep_has_queue(base)) {
        status = ofi_send_numbered(ofi_ep_of(base), &header, &parts, NULL);
    }
    if (status == 0) {
        orl_stat_add(&base->engine->stats, ORL_STAT_MSGS_SENT, 1);
        orl_stat_add(&base->engine->stats, ORL_STAT_MSG_BYTES, bytes);
    }
    orl_unlock(&base->engine->tx);
    return status;
}

const struct fab_ep_ops ofi_ep_ops = {
    ofi_put_short,      /* put_short */
    ofi_send_short,     /* send_short */
    fab_ep_queue,       /* post */
    fab_ep_queue_flush, /* flush */
};
