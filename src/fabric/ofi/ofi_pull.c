/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large transfers, the origin's side. A put tells the target where to read and is acknowledged when
 * that is done; a get asks for a loan, reads, and returns it. Either is cut into pieces of some
 * MiB. While a pull is not acknowledged nothing but pulls follows it, so order holds though the
 * target goes on. A piece that fails goes by messages, and with it all pulls behind it.
 */
#include <string.h>

#include "fabric/ofi/ofi.h"

#define PIECE      ((uint64_t)8 << 20)
#define PULLS_MOST 8 /* of an endpoint that are not acknowledged */
#define FETCH_MOST 8

void ofi_ep_large_init(struct ofi_ep *ep)
{
    orl_list_init(&ep->bulk.pulls);
    orl_list_init(&ep->bulk.fetches);
    orl_list_init(&ep->bulk.again);
    orl_list_init(&ep->bulk.resending);
}

bool ofi_large_wants(struct ofi_ep *ep, const struct fab_op *op)
{
    struct ofi_engine *ofi = ofi_of(ep->base.engine);

    return op->kind != FAB_OP_AMO && op->bytes - op->moved >= ofi->facts->bulk_from &&
           orl_list_is_empty(&ep->bulk.again) && ofi_bulk_is_ready(ofi, ep->peer);
}

static struct ofi_large_body body_of(const struct ofi_ep *ep, const struct ofi_large *large)
{
    const struct ofi_bulk *bulk = ofi_of(ep->base.engine)->bulk;

    return (struct ofi_large_body){ .slot = ofi_rkey_slot(large->op->rkey),
                                    .gen = ofi_rkey_gen(large->op->rkey),
                                    .offset = large->op->offset + large->at,
                                    .bytes = large->bytes,
                                    .mine = bulk->gen,
                                    .yours = ep->peer->far.gen,
                                    .epoch = ep->bulk.epoch };
}

static int send_pull(struct ofi_ep *ep, struct ofi_large *large)
{
    struct ofi_engine *ofi = ofi_of(ep->base.engine);
    struct fab_op *op = large->op;
    struct ofi_large_body body = body_of(ep, large);
    struct ofi_parts parts = { .kind = OFI_KIND_PULL, .body = &body, .body_bytes = sizeof(body) };

    body.from = ofi_lent_address(ofi, large->to, 0);
    body.key = fi_mr_key(large->lent.mr);
    if (op->kind == FAB_OP_PUT_NOTIFY && large->at + large->bytes == op->bytes) {
        body.notifies = 1;
        body.operand = op->operand;
        body.other = op->notify;
    }
    large->seq = ep->next;
    int status = ofi_append_numbered(ep, &parts, NULL);
    if (status == 0) {
        orl_list_add_tail(&ep->bulk.pulls, &large->of);
        ep->bulk.npulls++;
    }
    return status;
}

static int send_borrow(struct ofi_ep *ep, struct ofi_large *large)
{
    struct ofi_large_body body = body_of(ep, large);
    struct ofi_parts parts = { .kind = OFI_KIND_BORROW, .body = &body, .body_bytes = sizeof(body) };
    unsigned i = (unsigned)__builtin_ctzll(ep->idle);

    body.request = i;
    body.serial = ep->serial + 1;
    int status = ofi_append_numbered(ep, &parts, NULL);
    if (status == 0) {
        ep->serial++;
        large->request = i;
        ep->idle &= ~(UINT64_C(1) << i);
        ep->request[i] = (struct ofi_request){
            .op = large->op, .at = large->to, .serial = ep->serial, .large = large
        };
        orl_list_add_tail(&ep->bulk.fetches, &large->of);
        ep->bulk.nfetches++;
    }
    return status;
}

enum fab_try ofi_large_try(struct ofi_ep *ep, struct fab_op *op, bool *by_messages)
{
    struct ofi_engine *ofi = ofi_of(ep->base.engine);
    bool is_get = op->kind == FAB_OP_GET;
    uint64_t left = op->bytes - op->moved;
    struct ofi_large *large;

    *by_messages = false;
    if (is_get ? ep->bulk.nfetches >= FETCH_MOST || ep->idle == 0 || ep->bulk.npulls != 0
               : ep->bulk.npulls >= PULLS_MOST) {
        return FAB_TRY_STOP;
    }
    large = ofi_large_new(ofi, ep->peer);
    *by_messages = large == NULL;
    if (large == NULL) {
        return FAB_TRY_STOP;
    }
    large->ep = ep;
    large->op = op;
    large->at = op->moved;
    large->bytes = left < PIECE ? left : PIECE;
    large->to = (unsigned char *)op->local + op->moved;
    int status =
        ofi_lend(ofi, large->to, large->bytes, is_get ? FI_READ : FI_REMOTE_READ, &large->lent);
    *by_messages = status != 0;
    if (status == 0) {
        status = is_get ? send_borrow(ep, large) : send_pull(ep, large);
    }
    if (status != 0) {
        ofi_large_free(ofi, large);
        return FAB_TRY_STOP;
    }
    op->serial++;
    op->moved += large->bytes;
    return op->moved == op->bytes ? FAB_TRY_TAKEN : FAB_TRY_MORE;
}

/* ---------------------------------------------------------------- what comes back */

static void piece_over(struct ofi_engine *ofi, struct ofi_large *large, int status)
{
    struct fab_op *op = large->op;

    ofi_large_free(ofi, large);
    ofi_op_piece_over(ofi, op, status);
}

/* The piece goes by messages, when its turn has come. */
static void put_back(struct ofi_engine *ofi, struct ofi_large *large)
{
    struct ofi_ep *ep = large->ep;

    ofi_unlend(&large->lent);
    orl_list_del(&large->of);
    orl_list_add_tail(&ep->bulk.again, &large->of);
    if (orl_list_is_empty(&ep->bulk.resending)) {
        orl_list_add_tail(&ofi->bulk->resending, &ep->bulk.resending);
    }
}

static struct ofi_large *first_pull(const struct ofi_ep *ep)
{
    struct orl_list *head = orl_list_head(&ep->bulk.pulls);

    return head == NULL ? NULL : container_of(head, struct ofi_large, of);
}

void ofi_pull_acked(struct ofi_engine *ofi, struct ofi_ep *ep, uint32_t seq)
{
    struct ofi_large *large = first_pull(ep);

    if (large == NULL || large->seq != seq) {
        return;
    }
    ep->bulk.npulls--;
    if (large->status == OFI_BY_MESSAGES) {
        put_back(ofi, large);
        return;
    }
    if (large->status == 0) {
        ep->peer->far.failures = 0;
    }
    piece_over(ofi, large, large->status);
}

static struct ofi_large *find_pull(const struct ofi_ep *ep, uint32_t seq)
{
    struct orl_list *it;

    orl_list_each(it, &ep->bulk.pulls) {
        struct ofi_large *large = container_of(it, struct ofi_large, of);

        if (large->seq == seq) {
            return large;
        }
    }
    return NULL;
}

bool ofi_pull_refused(struct ofi_ep *ep, uint32_t seq, int status)
{
    struct ofi_large *large = find_pull(ep, seq);

    if (large == NULL) {
        return false;
    }
    large->status = status;
    if (status == OFI_BY_MESSAGES) {
        ofi_bulk_failed(ofi_of(ep->base.engine), ep->peer);
    } else if (status == ORL_ERR_GONE) {
        ofi_peer_note_dead(ep->peer, large->op->rkey);
    }
    return true;
}

/* ---------------------------------------------------------------- gets */

/* 0 or AGAIN. */
static int give_back(struct ofi_engine *ofi, const struct ofi_large *large)
{
    const struct ofi_answer over = { .ep = large->ep->half, .number = large->id };
    const struct ofi_parts parts = { .kind = OFI_KIND_RETURN,
                                     .body = &over,
                                     .body_bytes = sizeof(over) };

    return ofi_append(ofi, large->peer, &parts);
}

/* Its request was kept for as long as the peer must be asked when it is silent. */
static void free_request(struct ofi_ep *ep, const struct ofi_large *large)
{
    ep->idle |= UINT64_C(1) << large->request;
    if (ep->next == ep->acked && ep->idle == UINT64_MAX) {
        orl_list_del(&ep->waiting);
    }
}

void ofi_fetch_answered(struct ofi_engine *ofi, struct ofi_large *large, int status,
                        const void *data, size_t bytes)
{
    struct ofi_grant grant;

    if (status == 0 && bytes != sizeof(grant)) {
        status = ORL_ERR_INTERNAL;
    }
    if (status == 0) {
        memcpy(&grant, data, sizeof(grant));
        large->from = grant.from;
        large->key = grant.key;
        large->id = grant.loan;
        large->desc = large->lent.mr == NULL ? NULL : fi_mr_desc(large->lent.mr);
        ofi_haul_begin(ofi, large);
        return;
    }
    ofi_fetch_over(ofi, large, status);
}

void ofi_fetch_over(struct ofi_engine *ofi, struct ofi_large *large, int status)
{
    struct ofi_ep *ep = large->ep;
    struct fab_op *op = large->op;

    ep->bulk.nfetches--;
    free_request(ep, large);
    large->owes_return = large->has_begun && give_back(ofi, large) != 0;
    if (status == OFI_BY_MESSAGES) {
        ofi_bulk_failed(ofi, ep->peer);
        put_back(ofi, large);
    } else if (large->owes_return) {
        large->op = NULL;
        put_back(ofi, large);
        ofi_op_piece_over(ofi, op, status);
    } else {
        piece_over(ofi, large, status);
    }
}

/* ---------------------------------------------------------------- by messages after all */

static uint64_t fitting(const struct ofi_engine *ofi, const struct ofi_large *large, size_t body)
{
    uint64_t left = large->bytes - large->moved;
    uint64_t room = ofi->room - body;

    return left < room ? left : room;
}

static int resend_put(struct ofi_engine *ofi, struct ofi_large *large, uint64_t *n)
{
    struct fab_op *op = large->op;
    uint64_t at = large->at + large->moved;
    const struct ofi_access access = { .slot = ofi_rkey_slot(op->rkey),
                                       .gen = ofi_rkey_gen(op->rkey),
                                       .offset = op->offset + at,
                                       .operand = op->operand,
                                       .other = op->notify };
    struct ofi_parts parts = { .kind = OFI_KIND_PUT, .body = &access, .data = large->to };

    *n = fitting(ofi, large, sizeof(access));
    if (op->kind == FAB_OP_PUT_NOTIFY && at + *n == op->bytes) {
        parts.kind = OFI_KIND_NOTIFY;
    }
    parts.body_bytes = ofi_wire_body(parts.kind);
    parts.data = large->to + large->moved;
    parts.data_bytes = *n;
    return ofi_append_numbered(large->ep, &parts, op);
}

static int resend_get(struct ofi_engine *ofi, struct ofi_large *large, uint64_t *n)
{
    struct ofi_ep *ep = large->ep;
    struct fab_op *op = large->op;
    struct ofi_access access = { .slot = ofi_rkey_slot(op->rkey),
                                 .gen = ofi_rkey_gen(op->rkey),
                                 .offset = op->offset + large->at + large->moved,
                                 .serial = ep->serial + 1 };
    struct ofi_parts parts = { .kind = OFI_KIND_GET, .body = &access };

    if (ep->idle == 0) {
        return ORL_ERR_AGAIN;
    }
    *n = fitting(ofi, large, sizeof(struct ofi_answer));
    access.request = (uint32_t)__builtin_ctzll(ep->idle);
    access.length = (uint32_t)*n;
    parts.body_bytes = ofi_wire_body(parts.kind);
    int status = ofi_append_numbered(ep, &parts, NULL);
    if (status == 0) {
        ep->serial++;
        ep->idle &= ~(UINT64_C(1) << access.request);
        ep->request[access.request] = (struct ofi_request){
            .op = op, .at = large->to + large->moved, .bytes = (uint32_t)*n, .serial = ep->serial
        };
    }
    return status;
}

/* False: not all of it is out. */
static bool resend_one(struct ofi_engine *ofi, struct ofi_large *large)
{
    struct fab_op *op = large->op;
    uint64_t n = 0;

    if (large->owes_return && give_back(ofi, large) != 0) {
        return false;
    }
    large->owes_return = false;
    if (op == NULL) {
        ofi_large_free(ofi, large);
        return true;
    }
    bool is_get = op->kind == FAB_OP_GET;
    if (!is_get && large->ep->bulk.npulls != 0) {
        return false;
    }
    while (op->status == 0 && large->moved < large->bytes) {
        if ((is_get ? resend_get(ofi, large, &n) : resend_put(ofi, large, &n)) != 0) {
            return false;
        }
        op->serial++;
        large->moved += n;
    }
    piece_over(ofi, large, 0);
    return true;
}

bool ofi_resend(struct ofi_engine *ofi, struct ofi_ep *ep)
{
    struct orl_list *head;
    struct orl_link *it;

    while ((head = orl_list_head(&ep->bulk.again)) != NULL) {
        if (!resend_one(ofi, container_of(head, struct ofi_large, of))) {
            return false;
        }
    }
    /* What waits to see everything before it done waits for these too. */
    for (it = orl_fifo_peek(&ep->flushes); it != NULL; it = it->next) {
        container_of(it, struct fab_op, link)->serial = ep->next;
    }
    return true;
}

/* ---------------------------------------------------------------- the end of an endpoint */

static bool is_at_the_provider(const struct ofi_ep *ep)
{
    struct orl_list *it;

    orl_list_each(it, &ep->bulk.fetches) {
        if (container_of(it, struct ofi_large, of)->under_way != 0) {
            return true;
        }
    }
    return ep->bulk.npulls != 0;
}

static void end_all(struct ofi_engine *ofi, struct orl_list *list, int status)
{
    struct orl_list *head;

    while ((head = orl_list_head(list)) != NULL) {
        struct ofi_large *large = container_of(head, struct ofi_large, of);
        struct fab_op *op = large->op;

        ofi_large_free(ofi, large);
        if (op != NULL) {
            op->status = 0;
            ofi_op_piece_over(ofi, op, status);
        }
    }
}

void ofi_ep_large_stop(struct ofi_ep *ep, int status)
{
    struct ofi_engine *ofi = ofi_of(ep->base.engine);

    if (is_at_the_provider(ep)) {
        ofi_bulk_reset(ofi);
    }
    end_all(ofi, &ep->bulk.pulls, status);
    end_all(ofi, &ep->bulk.fetches, status);
    end_all(ofi, &ep->bulk.again, status);
    ep->bulk.npulls = 0;
    ep->bulk.nfetches = 0;
    orl_list_del(&ep->bulk.resending);
}
