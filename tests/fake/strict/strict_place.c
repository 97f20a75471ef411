/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a frame does at the far side: takes a receive, or memory after the checks a card makes, and
 * is answered. Bytes of RMA may be placed in two parts at two times, the later part first.
 */
#include "strict.h"

#include <string.h>

/* ---------------------------------------------------------------- completions of receivers */

static void tell_receiver(struct st_ep *ep, const struct st_arrival *arrival, struct st_recv *recv,
                          uint64_t flags, int error)
{
    const struct st_header *header = &arrival->header;
    struct st_done *done = st_alloc(sizeof *done);

    if (done == NULL) {
        return;
    }
    done->entry.flags = flags;
    done->entry.len = (size_t)header->bytes;
    if (recv != NULL) {
        done->entry.op_context = recv->context.user;
        done->entry.buf = recv->iov.iov_base;
        done->context = &recv->context;
        done->recv = recv;
    }
    if ((header->flags & FI_REMOTE_CQ_DATA) != 0) {
        done->entry.flags |= FI_REMOTE_CQ_DATA;
        done->entry.data = header->data;
    }
    done->from = st_av_index(ep->av, &arrival->peer->address);
    done->error = error;
    done->provider_error = error == 0 ? 0 : ST_E_TRUNCATED;
    st_cq_add(ep->rx, done);
}

/* NULL: it stays until one is posted. */
static struct st_recv *take_receive(struct st_ep *ep, struct st_arrival *arrival)
{
    struct st_recv *recv = st_recv_take(ep);

    if (recv == NULL) {
        arrival->is_stuck = true;
        st_counts.rnr++;
    }
    return recv;
}

static bool place_send(struct st_ep *ep, struct st_arrival *arrival)
{
    size_t bytes = (size_t)arrival->header.bytes;
    struct st_recv *recv = take_receive(ep, arrival);
    bool is_whole;

    if (recv == NULL) {
        return false;
    }
    is_whole = bytes <= recv->iov.iov_len;
    if (bytes != 0) {
        memcpy(recv->iov.iov_base, arrival->payload, is_whole ? bytes : recv->iov.iov_len);
    }
    tell_receiver(ep, arrival, recv, FI_RECV | FI_MSG, is_whole ? 0 : FI_ETRUNC);
    st_wire_answer(ep, arrival->peer, &arrival->header, is_whole ? 0 : ST_E_TRUNCATED, NULL, 0);
    return true;
}

/* ---------------------------------------------------------------- RMA */

/* Copy the part of this stage: true when all is there. Words of 8 bytes stay whole. */
static bool copy_part(struct st_ep *ep, struct st_arrival *arrival, void *to, size_t bytes)
{
    size_t half = bytes / 2 / 8 * 8 + (8 - (uintptr_t)to % 8) % 8;
    unsigned char *place = to;

    if (arrival->stage == 0 && half < bytes && half != 0 && st_random(2) == 0) {
        memcpy(place + half, arrival->payload + half, bytes - half);
        arrival->stage = 1;
        arrival->due = st_hold(ep->domain) + 1;
        st_counts.split++;
        return false;
    }
    memcpy(place, arrival->payload, arrival->stage == 0 ? bytes : half);
    return true;
}

/* Memory for it, or NULL and the answer is on its way. */
static void *reach(struct st_ep *ep, struct st_arrival *arrival, uint64_t access)
{
    const struct st_header *header = &arrival->header;
    void *place = NULL;
    int status = ST_E_UNKNOWN;

    if (st_av_index(ep->av, &arrival->peer->address) != FI_ADDR_NOTAVAIL) {
        place = st_mr_find(ep->domain, header->key, header->remote, (size_t)header->bytes, access,
                           &status);
    }
    if (place == NULL) {
        st_counts.refused++;
        st_say("RMA of a peer is refused: reason %d", status);
        st_wire_answer(ep, arrival->peer, header, status, NULL, 0);
    }
    return place;
}

static bool place_write(struct st_ep *ep, struct st_arrival *arrival)
{
    const struct st_header *header = &arrival->header;
    bool has_data = (header->flags & FI_REMOTE_CQ_DATA) != 0;
    struct st_recv *recv = NULL;
    void *to;

    if (arrival->stage < 2) {
        to = reach(ep, arrival, FI_REMOTE_WRITE);
        if (to == NULL) {
            return true;
        }
        if (!copy_part(ep, arrival, to, (size_t)header->bytes)) {
            return false;
        }
        arrival->stage = 2; /* placed; a receive may be missing still */
    }
    if (has_data && st_conf.rx_data != 0) {
        recv = take_receive(ep, arrival);
        if (recv == NULL) {
            return false;
        }
    }
    if (has_data) {
        tell_receiver(ep, arrival, recv, FI_REMOTE_WRITE | FI_RMA, 0);
    }
    st_wire_answer(ep, arrival->peer, header, 0, NULL, 0);
    return true;
}

static bool place_read(struct st_ep *ep, struct st_arrival *arrival)
{
    const void *from = reach(ep, arrival, FI_REMOTE_READ);

    if (from != NULL) {
        st_wire_answer(ep, arrival->peer, &arrival->header, 0, from, (size_t)arrival->header.bytes);
    }
    return true;
}

static bool place_answer(struct st_ep *ep, struct st_arrival *arrival)
{
    const struct st_header *header = &arrival->header;
    struct st_link *at;

    for (at = ep->ops.next; at != &ep->ops; at = at->next) {
        struct st_op *op = st_of(at, struct st_op, link);

        if (op->id != header->id || op->is_answered) {
            continue;
        }
        if (op->kind == ST_READ && header->status == 0 && header->bytes != op->bytes) {
            st_op_end(op, FI_EIO, ST_E_KEY);
            return true;
        }
        if (op->kind == ST_READ && header->status == 0 && op->bytes != 0 &&
            !copy_part(ep, arrival, op->iov[0].iov_base, op->bytes)) {
            return false;
        }
        st_op_end(op, header->status == 0 ? 0 : FI_EIO, header->status);
        return true;
    }
    return true;
}

bool st_place(struct st_ep *ep, struct st_arrival *arrival)
{
    switch ((enum st_kind)arrival->header.kind) {
    case ST_SEND:
        return place_send(ep, arrival);
    case ST_WRITE:
        return place_write(ep, arrival);
    case ST_READ:
        return place_read(ep, arrival);
    case ST_ANSWER:
        return place_answer(ep, arrival);
    case ST_PING:
        break;
    }
    return true;
}
