/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending: a message is put together in a slot and handed to the provider. What is owed to the same
 * peer rides along. A numbered message takes a credit and is remembered until it is answered. A
 * shortage, ours or the provider's, is AGAIN; a provider that refuses for good is remembered in the
 * peer, whose endpoints fail at the next progress. Everything under tx.
 */
#include <string.h>

#include "base/copy.h"
#include "fabric/ofi/ofi.h"

/* Large messages of one endpoint under way: bounds the memory that a peer which does not read can
 * hold, and is enough for the product of bandwidth and delay of a fast network. */
#define LARGE_MOST 16

/* Let an acknowledgement ride along. Returns the half it speaks for. */
static struct ofi_half *add_ack(const struct ofi_peer *peer, struct ofi_header *header)
{
    struct orl_list *first = orl_list_head(&peer->owing);

    header->ack_ep = OFI_NO_ID;
    if (first == NULL) {
        return NULL;
    }
    struct ofi_half *half = container_of(first, struct ofi_half, owing);
    header->ack_ep = half->ep;
    header->ack_seq = half->next;
    header->ack_limit = half->next + OFI_WINDOW - half->held;
    header->refused = half->refused;
    return half;
}

static void ack_is_out(struct ofi_half *half, const struct ofi_header *header)
{
    half->told_seq = header->ack_seq;
    half->told_limit = header->ack_limit;
    half->wants_ack = false;
    if (half->ndebts == 0 && !half->wants_welcome) {
        orl_list_del(&half->owing);
        orl_list_del(&half->engine_owing);
    }
}

static size_t put_together(unsigned char *at, const struct ofi_header *header,
                           const struct ofi_parts *parts)
{
    memcpy(at, header, sizeof(*header));
    at += sizeof(*header);
    if (parts->body_bytes != 0) {
        memcpy(at, parts->body, parts->body_bytes);
        at += parts->body_bytes;
    }
    if (parts->data_bytes != 0) {
        orl_copy(at, parts->data, parts->data_bytes);
    }
    return sizeof(*header) + parts->body_bytes + parts->data_bytes;
}

static int refused(struct ofi_engine *ofi, struct ofi_peer *peer, ssize_t rc)
{
    if (rc != -FI_EAGAIN && peer->failure == 0) {
        peer->failure = (int)-rc;
    }
    /* With something under way there will be a completion, good or bad. */
    if (peer->busy == 0 || peer->failure != 0) {
        ofi_peer_suspect(ofi, peer);
    }
    return ORL_ERR_AGAIN;
}

int ofi_send(struct ofi_engine *ofi, struct ofi_peer *peer, struct ofi_header *header,
             const struct ofi_parts *parts)
{
    struct ofi_slot *slot;
    struct ofi_half *half;

    if (ofi->nsending >= ofi->send_cap || peer->failure != 0 ||
        (slot = ofi_slot_get(ofi, ofi_parts_bytes(parts))) == NULL) {
        return ORL_ERR_AGAIN;
    }
    header->cookie = peer->cookie;
    header->version = OFI_WIRE_VERSION;
    header->flags = 0;
    header->bytes = (uint32_t)(parts->body_bytes + parts->data_bytes);
    half = add_ack(peer, header);
    slot->bytes = (uint32_t)put_together(slot->data, header, parts);
    slot->peer = peer;
    ssize_t rc = fi_send(ofi->carrier, slot->data, slot->bytes, slot->desc, peer->address, slot);
    if (ORL_UNLIKELY(rc != 0)) {
        ofi_slot_put(ofi, slot);
        return refused(ofi, peer, rc);
    }
    if (ORL_UNLIKELY(peer->suspect_since != 0) && !peer->is_silent) {
        ofi_peer_heard(peer);
    }
    peer->busy++;
    ofi->nsending++;
    if (half != NULL) {
        ack_is_out(half, header);
    }
    return 0;
}

int ofi_send_numbered(struct ofi_ep *ep, struct ofi_header *header, const struct ofi_parts *parts,
                      struct fab_op *op)
{
    struct ofi_engine *ofi = ofi_of(ep->base.engine);
    bool is_large = ofi_parts_bytes(parts) > ofi->small.bytes;

    if (ep->next - ep->acked >= OFI_WINDOW || ofi_wire_ahead(ep->limit, ep->next) <= 0 ||
        (is_large && ep->large >= LARGE_MOST)) {
        return ORL_ERR_AGAIN;
    }
    header->to = ep->half;
    header->seq = ep->next;
    int status = ofi_send(ofi, ep->peer, header, parts);
    if (status != 0) {
        return status;
    }
    ep->flight[ep->next % OFI_WINDOW] = (struct ofi_flight){ .op = op, .is_large = is_large };
    ep->large += is_large;
    ep->next++;
    ofi_ep_waits(ofi, ep);
    return 0;
}

void ofi_ep_waits(struct ofi_engine *ofi, struct ofi_ep *ep)
{
    if (orl_list_is_empty(&ep->waiting)) {
        orl_list_add_tail(&ofi->waiting, &ep->waiting);
        ep->pings = 0;
        ep->ping_at = 0;
    }
}
