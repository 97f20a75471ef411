/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers as endpoints know them, and how they are lost.
 */
#include "strict.h"

#include <string.h>

#define DROPPED_MAX 32
static struct st_address dropped[DROPPED_MAX];
static size_t ndropped;

static bool is_same(const struct st_address *a, const struct st_address *b)
{
    return a->bytes == b->bytes && memcmp(a->byte, b->byte, a->bytes) == 0;
}

bool st_is_dropped(const struct st_address *address)
{
    size_t i;

    for (i = 0; i < ndropped; i++) {
        if (is_same(&dropped[i], address)) {
            return true;
        }
    }
    return false;
}

struct st_peer *st_peer_find(struct st_ep *ep, const struct st_address *address)
{
    struct st_link *at;
    struct st_peer *peer;

    for (at = ep->peers.next; at != &ep->peers; at = at->next) {
        peer = st_of(at, struct st_peer, link);
        if (is_same(&peer->address, address)) {
            return peer;
        }
    }
    peer = st_alloc(sizeof *peer);
    if (peer == NULL) {
        return NULL;
    }
    peer->address = *address;
    peer->is_gone = st_is_dropped(address);
    if (fi_av_insert(ep->inner_av, address->byte, 1, &peer->inner, 0, NULL) != 1) {
        peer->is_gone = true;
    }
    st_list_add(&ep->peers, &peer->link);
    return peer;
}

void st_op_lost(struct st_op *op)
{
    if (op->peer->is_closed) {
        st_op_end(op, FI_ECONNABORTED, ST_E_CLOSED);
    } else {
        st_op_end(op, FI_EIO, ST_E_UNRESPONSIVE);
    }
}

void st_peer_gone(struct st_ep *ep, struct st_peer *peer, const char *why)
{
    struct st_link *at;
    struct st_link *after;

    if (!peer->is_gone) {
        st_say("a peer is gone: %s", why);
    }
    peer->is_gone = true;
    st_wire_purge(ep, peer);
    st_each(at, after, &ep->ops)
    {
        struct st_op *op = st_of(at, struct st_op, link);

        if (op->peer == peer) {
            st_op_lost(op);
        }
    }
}

static void drop_in(struct st_ep *ep, const struct st_address *address)
{
    struct st_link *at;

    for (at = ep->peers.next; at != &ep->peers; at = at->next) {
        struct st_peer *peer = st_of(at, struct st_peer, link);

        if (is_same(&peer->address, address)) {
            st_peer_gone(ep, peer, "dropped");
        }
    }
}

/* Endpoints of this process, whatever domain they are of. */
struct st_link st_all = { &st_all, &st_all };
struct everyone {
    struct st_link link;
    struct st_ep *ep;
};

void st_drop(const void *address, size_t bytes)
{
    struct st_address gone = { .bytes = (uint32_t)bytes };
    struct st_link *at;

    if (bytes > ST_ADDRESS_BYTES || ndropped == DROPPED_MAX) {
        return;
    }
    memcpy(gone.byte, address, bytes);
    dropped[ndropped++] = gone;
    for (at = st_all.next; at != &st_all; at = at->next) {
        struct st_ep *ep = st_of(at, struct st_ep, everywhere);

        drop_in(ep, &gone);
        st_cq_rouse(ep->domain);
    }
}
