/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending. Pieces for a peer are copied into its open slot, which goes to the provider in one call
 * when it is full, when progress has served what waited, or at once when the caller may not come
 * back; what is owed to the same peer rides along. A numbered piece takes a credit and is
 * remembered until it is answered. A shortage, ours or the provider's, is AGAIN; a provider that
 * refuses for good is remembered in the peer, whose endpoints fail at the next progress. Everything
 * under tx.
 */
#include <string.h>

#include "base/copy.h"
#include "fabric/ofi/ofi.h"

/* Bundles of one peer at the provider: bounds the memory that a peer which does not read can hold,
 * and is enough for the product of bandwidth and delay of a fast network. */
#define LARGE_MOST 16
/* So many short pieces, one upon the other, that the next time the first waits for the second, up
 * to so many bytes. */
#define BURST     4
#define HOLD_MOST ((uint32_t)8 << 10)
/* A piece is cut to what an open slot still has room for when that is at least a half of it. */
#define CUT_LEAST 2

/* ---------------------------------------------------------------- handing over */

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
    header->ack_seq = ofi_half_done(half);
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

/* Give a slot to the provider, with the header in front of what it has. 0 or AGAIN. */
static int hand_over(struct ofi_engine *ofi, struct ofi_peer *peer, struct ofi_slot *slot,
                     struct ofi_header *header)
{
    header->cookie = peer->cookie;
    header->version = OFI_WIRE_VERSION;
    header->bytes = slot->bytes - (uint32_t)sizeof(*header);
    struct ofi_half *half = add_ack(peer, header);
    memcpy(slot->data, header, sizeof(*header));
    ssize_t rc = fi_send(ofi->carrier, slot->data, slot->bytes, slot->desc, peer->address, slot);
    if (ORL_UNLIKELY(rc != 0)) {
        return refused(ofi, peer, rc);
    }
    if (ORL_UNLIKELY(peer->suspect_since != 0) && !peer->is_silent) {
        ofi_peer_heard(peer);
    }
    slot->peer = peer;
    peer->busy++;
    peer->large += slot->is_large;
    ofi->nsending++;
    if (half != NULL) {
        ack_is_out(half, header);
    }
    return 0;
}

static bool is_full(const struct ofi_engine *ofi, const struct ofi_peer *peer)
{
    return ofi->nsending >= ofi->send_cap || peer->failure != 0;
}

int ofi_send(struct ofi_engine *ofi, struct ofi_peer *peer, struct ofi_header *header,
             const void *body, size_t bytes)
{
    struct ofi_slot *slot;

    if (is_full(ofi, peer) || (slot = ofi_slot_get(ofi, sizeof(*header) + bytes)) == NULL) {
        return ORL_ERR_AGAIN;
    }
    if (bytes != 0) {
        memcpy(slot->data + sizeof(*header), body, bytes);
    }
    slot->bytes = (uint32_t)(sizeof(*header) + bytes);
    int status = hand_over(ofi, peer, slot, header);
    if (status != 0) {
        ofi_slot_put(ofi, slot);
    }
    return status;
}

/* ---------------------------------------------------------------- open slots */

/* Whether the open slot counts as an op that waits: whoever sleeps is woken for those. */
static void count_open(struct ofi_engine *ofi, struct ofi_peer *peer, bool counts)
{
    uint32_t old = atomic_load_explicit(&ofi->base.nwaiting, memory_order_relaxed);

    if (peer->is_counted != counts) {
        peer->is_counted = counts;
        atomic_store_explicit(&ofi->base.nwaiting, counts ? old + 1 : old - 1,
                              memory_order_relaxed);
    }
}

static int send_slot(struct ofi_engine *ofi, struct ofi_peer *peer, uint32_t flags)
{
    struct ofi_slot *slot = peer->open;

    if (slot == NULL) {
        return 0;
    }
    if (is_full(ofi, peer) || peer->large >= LARGE_MOST) {
        peer->is_stalled = peer->busy != 0;
        return ORL_ERR_AGAIN;
    }
    struct ofi_header header = { .to = slot->to,
                                 .kind = OFI_KIND_BUNDLE,
                                 .seq = slot->seq,
                                 .numbered = slot->numbered,
                                 .flags = flags };
    int status = hand_over(ofi, peer, slot, &header);
    peer->is_stalled = status != 0 && peer->busy != 0;
    if (status == 0) {
        count_open(ofi, peer, false);
        peer->is_promised = flags != 0;
        peer->open = NULL;
        orl_list_del(&peer->unsent);
    }
    return status;
}

int ofi_send_open(struct ofi_engine *ofi, struct ofi_peer *peer)
{
    return send_slot(ofi, peer, 0);
}

bool ofi_send_has_work(const struct ofi_engine *ofi)
{
    struct orl_list *it;

    orl_list_each(it, &ofi->unsent) {
        if (!container_of(it, struct ofi_peer, unsent)->is_stalled) {
            return true;
        }
    }
    return false;
}

int ofi_send_all(struct ofi_engine *ofi)
{
    struct orl_list *it;
    struct orl_list *after;
    int n = 0;

    orl_lock(&ofi->base.tx);
    orl_list_each_safe(it, after, &ofi->unsent) {
        n += ofi_send_open(ofi, container_of(it, struct ofi_peer, unsent)) == 0 ? 1 : 0;
    }
    orl_unlock(&ofi->base.tx);
    return n;
}

void ofi_open_drop(struct ofi_engine *ofi, struct ofi_peer *peer)
{
    if (peer->open != NULL) {
        count_open(ofi, peer, false);
        ofi_slot_put(ofi, peer->open);
        peer->open = NULL;
        orl_list_del(&peer->unsent);
    }
}

static size_t left_of(const struct ofi_engine *ofi, const struct ofi_slot *slot)
{
    return ofi->message_bytes - slot->bytes;
}

/* The open slot, made if need be, with so much room; numbered pieces of two endpoints do not share
 * one. NULL: none now. */
static struct ofi_slot *open_slot(struct ofi_engine *ofi, struct ofi_peer *peer, size_t bytes,
                                  uint32_t ep)
{
    struct ofi_slot *slot = peer->open;
    bool is_foreign = slot != NULL && ep != OFI_NO_ID && slot->ep != OFI_NO_ID && slot->ep != ep;

    if (slot != NULL && (is_foreign || left_of(ofi, slot) < bytes)) {
        bool is_followed = !is_foreign && ep != OFI_NO_ID && slot->ep == ep;

        if (send_slot(ofi, peer, is_followed ? OFI_FOLLOWED : 0) != 0) {
            return NULL;
        }
        slot = NULL;
    }
    if (slot != NULL) {
        return slot;
    }
    if (peer->failure != 0 || (slot = ofi_slot_get(ofi, ofi->message_bytes)) == NULL) {
        return NULL;
    }
    slot->bytes = sizeof(struct ofi_header);
    slot->ep = OFI_NO_ID;
    slot->to = 0;
    slot->seq = 0;
    slot->numbered = 0;
    peer->open = slot;
    orl_list_add_tail(&ofi->unsent, &peer->unsent);
    return slot;
}

static size_t bytes_of(const struct ofi_parts *parts)
{
    return ofi_wire_piece(parts->body_bytes + parts->data_bytes);
}

static void add(struct ofi_slot *slot, const struct ofi_parts *parts)
{
    const struct ofi_piece piece = { .bytes = (uint32_t)(parts->body_bytes + parts->data_bytes),
                                     .kind = parts->kind,
                                     .handler = parts->handler };
    unsigned char *at = slot->data + slot->bytes;

    memcpy(at, &piece, sizeof(piece));
    at += sizeof(piece);
    memcpy(at, parts->body, parts->body_bytes);
    at += parts->body_bytes;
    if (parts->data_bytes != 0) {
        orl_copy(at, parts->data, parts->data_bytes);
        at += parts->data_bytes;
    }
    /* Bodies are multiples of 8. */
    memset(at, 0, ofi_wire_piece(parts->data_bytes) - sizeof(piece) - parts->data_bytes);
    slot->bytes += (uint32_t)bytes_of(parts);
}

int ofi_append(struct ofi_engine *ofi, struct ofi_peer *peer, const struct ofi_parts *parts)
{
    struct ofi_slot *slot = open_slot(ofi, peer, bytes_of(parts), OFI_NO_ID);

    if (slot == NULL) {
        return ORL_ERR_AGAIN;
    }
    add(slot, parts);
    return 0;
}

/* ---------------------------------------------------------------- numbered pieces */

int ofi_append_numbered(struct ofi_ep *ep, const struct ofi_parts *parts, struct fab_op *op)
{
    struct ofi_engine *ofi = ofi_of(ep->base.engine);
    struct ofi_slot *slot;

    if (ep->next - ep->acked >= OFI_WINDOW || ofi_wire_ahead(ep->limit, ep->next) <= 0 ||
        (slot = open_slot(ofi, ep->peer, bytes_of(parts), ep->id)) == NULL) {
        return ORL_ERR_AGAIN;
    }
    if (slot->numbered == 0) {
        slot->ep = ep->id;
        slot->to = ep->half;
        slot->seq = ep->next;
    }
    add(slot, parts);
    slot->numbered++;
    ep->flight[ep->next % OFI_WINDOW] = op;
    ep->next++;
    ofi_ep_waits(ofi, ep);
    return 0;
}

/* The last piece of the open slot has not been added. */
static void take_back(struct ofi_ep *ep, const struct ofi_parts *parts)
{
    struct ofi_slot *slot = ep->peer->open;

    slot->bytes -= (uint32_t)bytes_of(parts);
    slot->numbered--;
    ep->next--;
    if (slot->numbered == 0) {
        slot->ep = OFI_NO_ID;
    }
    if (ep->next == ep->acked && ep->idle == UINT64_MAX) {
        orl_list_del(&ep->waiting);
    }
    if (slot->bytes == sizeof(struct ofi_header)) {
        ofi_open_drop(ofi_of(ep->base.engine), ep->peer);
    }
}

static void note_follower(struct ofi_ep *ep, bool is_first)
{
    if (is_first) {
        ep->is_burst = ep->followers >= BURST;
        ep->followers = 0;
    } else {
        ep->followers++;
    }
}

int ofi_append_short(struct ofi_ep *ep, const struct ofi_parts *parts)
{
    struct ofi_engine *ofi = ofi_of(ep->base.engine);
    bool is_first = ep->next == ep->acked;
    int status = ofi_append_numbered(ep, parts, NULL);

    if (status != 0) {
        return status;
    }
    note_follower(ep, is_first);
    const struct ofi_slot *slot = ep->peer->open;
    if (slot->seq != ep->acked) {
        /* An answer is under way, unless it waits for this. */
        count_open(ofi, ep->peer, ep->peer->is_promised);
        return 0;
    }
    if ((ep->is_burst && slot->bytes < HOLD_MOST) || ofi_send_open(ofi, ep->peer) != 0) {
        if (!ep->is_burst && is_first) {
            take_back(ep, parts);
            return ORL_ERR_AGAIN;
        }
        count_open(ofi, ep->peer, true);
    }
    return 0;
}

size_t ofi_open_room(const struct ofi_ep *ep, size_t body_bytes)
{
    const struct ofi_engine *ofi = ofi_of(ep->base.engine);
    const struct ofi_slot *slot = ep->peer->open;
    size_t whole = ofi->room - body_bytes;

    if (slot == NULL || (slot->ep != OFI_NO_ID && slot->ep != ep->id) ||
        left_of(ofi, slot) < ofi->message_bytes / CUT_LEAST) {
        return whole;
    }
    return left_of(ofi, slot) - sizeof(struct ofi_piece) - body_bytes;
}

void ofi_ep_waits(struct ofi_engine *ofi, struct ofi_ep *ep)
{
    if (orl_list_is_empty(&ep->waiting)) {
        orl_list_add_tail(&ofi->waiting, &ep->waiting);
        ep->pings = 0;
        ep->ping_at = 0;
    }
}
