/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The origin's side of what comes back: acknowledgements end numbered messages in order, answers
 * end gets and atomics, refusals spoil a put before its acknowledgement ends it. An acknowledgement
 * says how many refusals belong to it and is held until they have come, since networks without
 * order may bring it first. Poller held; each takes tx.
 */
#include <string.h>

#include "base/copy.h"
#include "fabric/ofi/ofi.h"

void ofi_op_piece_over(struct ofi_engine *ofi, struct fab_op *op, int status)
{
    if (status != 0 && op->status == 0) {
        op->status = status;
    }
    op->serial--;
    if (op->serial == 0 && (op->flags & OFI_OP_TAKEN) != 0) {
        fab_op_finish(&ofi->base, op, op->status);
    }
}

static bool is_idle(const struct ofi_ep *ep)
{
    return ep->next == ep->acked && ep->idle == UINT64_MAX;
}

/* The peer has been heard of. */
static void moved(struct ofi_ep *ep)
{
    ep->ping_at = 0;
    ep->pings = 0;
    ofi_peer_heard(ep->peer);
    if (is_idle(ep)) {
        orl_list_del(&ep->waiting);
    }
}

static void end_flushes(struct ofi_engine *ofi, struct ofi_ep *ep)
{
    while (!orl_fifo_is_empty(&ep->flushes)) {
        struct fab_op *op = container_of(orl_fifo_peek(&ep->flushes), struct fab_op, link);

        if (ofi_wire_ahead(ep->acked, (uint32_t)op->serial) < 0) {
            return;
        }
        (void)orl_fifo_pop(&ep->flushes);
        int status = ep->short_status;
        ep->short_status = 0;
        fab_op_finish(&ofi->base, op, status);
    }
}

static void advance(struct ofi_engine *ofi, struct ofi_ep *ep)
{
    if (ep->refused != ep->told_refused) {
        return;
    }
    while (ep->acked != ep->told) {
        struct ofi_flight *flight = &ep->flight[ep->acked % OFI_WINDOW];
        struct fab_op *op = flight->op;

        ep->large -= flight->is_large;
        flight->op = NULL;
        ep->acked++;
        if (op != NULL) {
            ofi_op_piece_over(ofi, op, 0);
        }
    }
    end_flushes(ofi, ep);
    moved(ep);
}

void ofi_on_ack(struct ofi_engine *ofi, const struct ofi_header *header)
{
    orl_lock(&ofi->base.tx);
    struct ofi_ep *ep = ofi_table_get(&ofi->eps, header->ack_ep);
    if (ep != NULL && ep->half != OFI_NO_ID) {
        bool is_sane = ofi_wire_ahead(ep->next, header->ack_seq) >= 0;

        if (ofi_wire_ahead(header->ack_limit, ep->limit) > 0 &&
            ofi_wire_ahead(header->ack_limit, header->ack_seq) <= OFI_WINDOW) {
            ep->limit = header->ack_limit;
        }
        if (is_sane && ofi_wire_ahead(header->ack_seq, ep->told) >= 0) {
            ep->told = header->ack_seq;
            ep->told_refused = header->refused;
        }
        advance(ofi, ep);
    }
    orl_unlock(&ofi->base.tx);
}

static struct ofi_request *find_request(struct ofi_ep *ep, const struct ofi_answer *answer)
{
    struct ofi_request *request;

    if (ep == NULL || answer->request >= OFI_REQUESTS) {
        return NULL;
    }
    request = &ep->request[answer->request];
    return request->op != NULL && request->serial == answer->serial ? request : NULL;
}

/* Of a failure; what is none of ours is a broken peer. */
static int status_of(const struct ofi_answer *answer)
{
    return answer->status < 0 && answer->status >= -ORL_STATUS_COUNT ? answer->status
                                                                     : ORL_ERR_INTERNAL;
}

/* What the answer says of the op, its data copied. */
static int take_answer(const struct ofi_request *request, const struct ofi_answer *answer,
                       const void *data, size_t bytes)
{
    if (answer->status != 0) {
        return status_of(answer);
    }
    if (request->op->kind == FAB_OP_AMO) {
        fab_amo_store_old(request->op, answer->value);
        return 0;
    }
    if (bytes != request->bytes) {
        return orl_fail(ORL_ERR_INTERNAL, "%s answered a get of %u bytes with %zu",
                        request->op->ep->label, request->bytes, bytes);
    }
    orl_copy(request->at, data, bytes);
    return 0;
}

void ofi_on_answer(struct ofi_engine *ofi, const struct ofi_header *header,
                   const struct ofi_answer *answer, const void *data)
{
    orl_lock(&ofi->base.tx);
    struct ofi_ep *ep = ofi_table_get(&ofi->eps, header->to);
    struct ofi_request *request = find_request(ep, answer);
    if (request != NULL) {
        struct fab_op *op = request->op;
        int status = take_answer(request, answer, data, header->bytes - sizeof(*answer));

        if (status == ORL_ERR_GONE) {
            ofi_peer_note_dead(ep->peer, op->rkey);
        }
        request->op = NULL;
        ep->idle |= UINT64_C(1) << answer->request;
        ofi_op_piece_over(ofi, op, status);
        moved(ep);
    }
    orl_unlock(&ofi->base.tx);
}

/* The op of a refused put, or a short one, is spoilt; its acknowledgement ends it. */
static void spoil(struct ofi_ep *ep, struct fab_op *op, int status)
{
    int *first = op == NULL ? &ep->short_status : &op->status;

    if (*first == 0) {
        *first = status;
    }
    if (op != NULL && status == ORL_ERR_GONE) {
        ofi_peer_note_dead(ep->peer, op->rkey);
    }
}

void ofi_on_refusal(struct ofi_engine *ofi, const struct ofi_header *header,
                    const struct ofi_answer *answer)
{
    orl_lock(&ofi->base.tx);
    struct ofi_ep *ep = ofi_table_get(&ofi->eps, header->to);
    bool is_mine = ep != NULL && ofi_wire_ahead(answer->seq, ep->acked) >= 0 &&
                   ofi_wire_ahead(answer->seq, ep->next) < 0;
    if (is_mine) {
        spoil(ep, ep->flight[answer->seq % OFI_WINDOW].op, status_of(answer));
        ep->refused++;
        advance(ofi, ep);
    }
    orl_unlock(&ofi->base.tx);
}

/* ---------------------------------------------------------------- the end of an endpoint */

/* A piece of an op that the transport had taken, or that still waits above. */
static void piece_stopped(struct ofi_engine *ofi, struct fab_op *op, int status)
{
    if (op != NULL) {
        op->status = 0;
        ofi_op_piece_over(ofi, op, status);
    }
}

/* Nothing of the user's is at the provider, so forgetting is enough: late answers find nobody. */
void ofi_ep_stop(struct fab_ep *base, int status)
{
    struct ofi_engine *ofi = ofi_of(base->engine);
    struct ofi_ep *ep = ofi_ep_of(base);
    struct orl_link *link;

    orl_lock(&base->engine->tx);
    for (; ep->acked != ep->next; ep->acked++) {
        piece_stopped(ofi, ep->flight[ep->acked % OFI_WINDOW].op, status);
        ep->flight[ep->acked % OFI_WINDOW].op = NULL;
    }
    ep->told = ep->acked;
    for (uint32_t i = 0; i < OFI_REQUESTS; i++) {
        piece_stopped(ofi, ep->request[i].op, status);
        ep->request[i].op = NULL;
    }
    ep->idle = UINT64_MAX;
    while ((link = orl_fifo_pop(&ep->flushes)) != NULL) {
        fab_op_finish(&ofi->base, container_of(link, struct fab_op, link), status);
    }
    orl_list_del(&ep->connecting);
    orl_list_del(&ep->waiting);
    orl_unlock(&base->engine->tx);
}
