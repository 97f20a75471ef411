/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The origin's side of what comes back: acknowledgements end numbered pieces in order, answers
 * end gets and atomics, refusals spoil a put before its acknowledgement ends it. An acknowledgement
 * says how many refusals belong to it and is held until they have come, since networks without
 * order may bring it first. Poller and tx held.
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
    /* What goes by messages after all is not there yet. */
    while (!orl_fifo_is_empty(&ep->flushes) && orl_list_is_empty(&ep->bulk.again)) {
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
        struct fab_op **flight = &ep->flight[ep->acked % OFI_WINDOW];
        struct fab_op *op = *flight;

        *flight = NULL;
        ep->acked++;
        if (op != NULL) {
            ofi_op_piece_over(ofi, op, 0);
        } else if (ep->bulk.npulls != 0) {
            ofi_pull_acked(ofi, ep, ep->acked - 1);
        }
    }
    end_flushes(ofi, ep);
    moved(ep);
}

void ofi_on_ack(struct ofi_engine *ofi, const struct ofi_header *header)
{
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
}

static struct ofi_request *find_request(struct ofi_ep *ep, const struct ofi_answer *answer)
{
    struct ofi_request *request;

    if (ep == NULL || answer->number >= OFI_REQUESTS) {
        return NULL;
    }
    request = &ep->request[answer->number];
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

void ofi_on_answer(struct ofi_engine *ofi, const struct ofi_answer *answer, const void *data,
                   size_t bytes)
{
    struct ofi_ep *ep = ofi_table_get(&ofi->eps, answer->ep);
    struct ofi_request *request = find_request(ep, answer);

    if (request == NULL) {
        return;
    }
    struct fab_op *op = request->op;
    struct ofi_large *large = request->large;
    if (large != NULL) {
        int said = answer->status > 0 ? OFI_BY_MESSAGES : answer->status;

        request->op = NULL;
        ofi_fetch_answered(ofi, large, said < 0 ? status_of(answer) : said, data, bytes);
        moved(ep);
        return;
    }
    int status = take_answer(request, answer, data, bytes);
    if (status == ORL_ERR_GONE) {
        ofi_peer_note_dead(ep->peer, op->rkey);
    }
    request->op = NULL;
    ep->idle |= UINT64_C(1) << answer->number;
    ofi_op_piece_over(ofi, op, status);
    moved(ep);
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

void ofi_on_refusal(struct ofi_engine *ofi, const struct ofi_answer *answer)
{
    struct ofi_ep *ep = ofi_table_get(&ofi->eps, answer->ep);
    bool is_mine = ep != NULL && ofi_wire_ahead(answer->number, ep->acked) >= 0 &&
                   ofi_wire_ahead(answer->number, ep->next) < 0;

    if (is_mine) {
        int status = answer->status > 0 ? OFI_BY_MESSAGES : status_of(answer);

        if (!ofi_pull_refused(ep, answer->number, status)) {
            spoil(ep, ep->flight[answer->number % OFI_WINDOW], status_of(answer));
        }
        ep->refused++;
        advance(ofi, ep);
    }
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

/* With the large transfers ended nothing of the user's is at the provider, so forgetting is enough:
 * late answers find nobody. */
void ofi_ep_stop(struct fab_ep *base, int status)
{
    struct ofi_engine *ofi = ofi_of(base->engine);
    struct ofi_ep *ep = ofi_ep_of(base);
    struct orl_link *link;

    orl_lock(&base->engine->tx);
    ofi_ep_large_stop(ep, status);
    for (; ep->acked != ep->next; ep->acked++) {
        piece_stopped(ofi, ep->flight[ep->acked % OFI_WINDOW], status);
        ep->flight[ep->acked % OFI_WINDOW] = NULL;
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
