/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The four data calls. Posted ops wait in the endpoint's queue and are cut into numbered pieces by
 * progress; the short calls add one at once. op->serial counts the pieces under way. What is known
 * to be over is refused here and does not touch the wire.
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

static size_t put_body(const struct fab_op *op)
{
    return ofi_wire_body(op->kind == FAB_OP_PUT_NOTIFY ? OFI_KIND_NOTIFY : OFI_KIND_PUT);
}

/* How much of a put goes next. What fits into one piece is never cut: its arrival may be polled. */
static uint64_t put_piece(const struct ofi_ep *ep, const struct fab_op *op)
{
    uint64_t whole = ofi_of(ep->base.engine)->room - put_body(op);
    uint64_t left = op->bytes - op->moved;
    uint64_t room = op->bytes <= whole ? whole : ofi_open_room(ep, put_body(op));

    return left < room ? left : room;
}

static struct ofi_parts put_parts(const struct fab_op *op, struct ofi_access *access,
                                  const void *src, uint64_t n)
{
    bool notifies = op->kind == FAB_OP_PUT_NOTIFY && op->moved + n == op->bytes;
    struct ofi_parts parts = { .kind = notifies ? OFI_KIND_NOTIFY : OFI_KIND_PUT,
                               .body = access,
                               .data = src,
                               .data_bytes = n };

    *access = access_of(op);
    access->operand = op->operand;
    access->other = op->notify;
    parts.body_bytes = ofi_wire_body(parts.kind);
    return parts;
}

static enum fab_try try_put(struct ofi_ep *ep, struct fab_op *op, uint64_t *bytes)
{
    uint64_t n = put_piece(ep, op);
    struct ofi_access access;
    struct ofi_parts parts =
        put_parts(op, &access, (const unsigned char *)op->local + op->moved, n);

    if (ofi_append_numbered(ep, &parts, op) != 0) {
        *bytes = 0;
        return FAB_TRY_STOP;
    }
    *bytes = n;
    op->serial++;
    op->moved += n;
    return op->moved == op->bytes ? take(ep, op) : FAB_TRY_MORE;
}

static uint64_t get_piece(const struct ofi_ep *ep, const struct fab_op *op)
{
    uint64_t left = op->bytes - op->moved;
    uint64_t room = ofi_of(ep->base.engine)->room - sizeof(struct ofi_answer);

    return left < room ? left : room;
}

/* A get's piece or an atomic: a numbered piece and a record that its answer finds. */
static enum fab_try try_request(struct ofi_ep *ep, struct fab_op *op, uint64_t *bytes)
{
    bool is_get = op->kind == FAB_OP_GET;
    uint64_t n = is_get ? get_piece(ep, op) : op->width;
    struct ofi_access access = access_of(op);
    struct ofi_parts parts = { .kind = is_get ? OFI_KIND_GET : OFI_KIND_AMO, .body = &access };

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
    parts.body_bytes = ofi_wire_body(parts.kind);
    if (ofi_append_numbered(ep, &parts, NULL) != 0) {
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

static struct ofi_parts message_parts(unsigned handler, const uint64_t *word, const void *src,
                                      size_t bytes)
{
    return (struct ofi_parts){ .kind = OFI_KIND_MESSAGE,
                               .handler = (uint8_t)handler,
                               .body = word,
                               .body_bytes = sizeof(*word),
                               .data = src,
                               .data_bytes = bytes };
}

static enum fab_try try_send(struct ofi_ep *ep, struct fab_op *op, uint64_t *bytes)
{
    struct ofi_parts parts = message_parts(op->handler, &op->operand, op->local, op->bytes);
    size_t most = ep->base.engine->limits.send_max;

    *bytes = 0;
    if (op->bytes > most) {
        return finish(ep, op,
                      orl_fail(ORL_ERR_INVAL, "a message of %llu bytes is beyond the limit of %zu",
                               (unsigned long long)op->bytes, most));
    }
    if (ofi_append_numbered(ep, &parts, op) != 0) {
        return FAB_TRY_STOP;
    }
    *bytes = op->bytes;
    op->serial = 1;
    orl_stat_add(&ep->base.engine->stats, ORL_STAT_MSGS_SENT, 1);
    orl_stat_add(&ep->base.engine->stats, ORL_STAT_MSG_BYTES, op->bytes);
    return take(ep, op);
}

/* What would overtake pulls that are not acknowledged, or what goes by messages after all, waits.
 */
static bool may_follow(const struct ofi_ep *ep, const struct fab_op *op)
{
    switch (op->kind) {
    case FAB_OP_PUT:
    case FAB_OP_PUT_NOTIFY:
        return orl_list_is_empty(&ep->bulk.again) &&
               (ep->bulk.npulls == 0 || op->bytes >= ofi_of(ep->base.engine)->facts->bulk_from);
    case FAB_OP_FLUSH:
        return orl_list_is_empty(&ep->bulk.again);
    default:
        return !ofi_large_bars(&ep->bulk);
    }
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

/* A put or get that is large enough goes by reads. FAB_TRY_STOP with *bytes not 0: this one is to
 * go by messages. */
static enum fab_try try_large(struct ofi_ep *ep, struct fab_op *op, uint64_t *bytes)
{
    bool by_messages = true;
    enum fab_try what = FAB_TRY_STOP;

    if (ofi_large_wants(ep, op)) {
        what = ofi_large_try(ep, op, &by_messages);
    }
    /* The bytes are the peer's work. */
    *bytes = by_messages && !ofi_large_bars(&ep->bulk) ? 1 : 0;
    return what == FAB_TRY_TAKEN ? take(ep, op) : what;
}

enum fab_try ofi_try(struct fab_ep *base, struct fab_op *op, uint64_t *bytes)
{
    struct ofi_ep *ep = ofi_ep_of(base);
    int status;

    if (!may_follow(ep, op)) {
        *bytes = 0;
        return FAB_TRY_STOP;
    }
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
    if (op->kind != FAB_OP_AMO && op->bytes >= ofi_of(base->engine)->facts->bulk_from) {
        enum fab_try what = try_large(ep, op, bytes);

        if (what != FAB_TRY_STOP || *bytes == 0) {
            return what;
        }
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
    struct ofi_access access;

    if (bytes > base->engine->limits.put_short) {
        return orl_fail(ORL_ERR_INVAL, "a short put of %zu bytes is beyond the limit of %zu", bytes,
                        base->engine->limits.put_short);
    }
    orl_lock(&base->engine->tx);
    bool is_barred = fab_ep_has_queue(base) || ofi_large_bars(&ep->bulk);
    int status = is_barred ? ORL_ERR_AGAIN : admit(ep, &op);
    if (status == 0) {
        struct ofi_parts parts = put_parts(&op, &access, src, bytes);

        status = ofi_append_short(ep, &parts);
    }
    orl_unlock(&base->engine->tx);
    return status;
}

static int ofi_send_short(struct fab_ep *base, unsigned handler, uint64_t word, const void *src,
                          size_t bytes)
{
    struct ofi_parts parts = message_parts(handler, &word, src, bytes);

    if (bytes > base->engine->limits.send_short) {
        return orl_fail(ORL_ERR_INVAL, "a short message of %zu bytes is beyond the limit of %zu",
                        bytes, base->engine->limits.send_short);
    }
    orl_lock(&base->engine->tx);
    int status = ORL_ERR_AGAIN;
    if (!fab_ep_has_queue(base) && !ofi_large_bars(&ofi_ep_of(base)->bulk)) {
        status = ofi_append_short(ofi_ep_of(base), &parts);
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
