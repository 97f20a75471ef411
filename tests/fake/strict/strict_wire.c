/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames: what is due goes to the inner provider, what it brings waits until it is due. A frame is
 * a header and bytes; kinds and what the far side does with them are in strict_place.c.
 */
#include "strict.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC    UINT64_C(0x5354524943543031)
#define PROBE_MS 300   /* so long nothing could be sent to it */
#define POLLS    20000 /* a post with FI_MORE that nothing follows for so many is a mistake */

/* ---------------------------------------------------------------- out */

static struct st_frame *frame_new(struct st_ep *ep, struct st_peer *peer, size_t bytes)
{
    struct st_frame *frame = st_alloc(sizeof *frame + sizeof *frame->header + bytes);

    if (frame == NULL) {
        return NULL;
    }
    frame->header = (struct st_header *)(void *)(frame + 1);
    frame->header->magic = MAGIC;
    frame->header->bytes = bytes;
    frame->header->from = ep->self;
    frame->bytes = sizeof *frame->header + bytes;
    frame->peer = peer;
    frame->number = ++ep->last_number;
    frame->due = st_hold(ep->domain);
    st_list_add(&ep->frames, &frame->link);
    return frame;
}

static void frame_free(struct st_frame *frame)
{
    st_list_del(&frame->link);
    st_free(frame);
}

void st_wire_send(struct st_op *op)
{
    bool is_read = op->kind == ST_READ;
    struct st_frame *frame;
    unsigned char *to;
    unsigned i;

    if (op->state != ST_POSTED) {
        return;
    }
    frame = frame_new(op->ep, op->peer, is_read ? 0 : op->bytes);
    if (frame == NULL) {
        return;
    }
    frame->header->kind = op->kind;
    frame->header->id = op->id;
    frame->header->remote = op->remote;
    frame->header->key = op->key;
    frame->header->data = op->data;
    frame->header->flags = op->flags;
    if (is_read) {
        frame->header->bytes = op->bytes;
    }
    to = (unsigned char *)(frame->header + 1);
    for (i = 0; !is_read && i < op->niov; i++) {
        memcpy(to, op->iov[i].iov_base, op->iov[i].iov_len);
        to += op->iov[i].iov_len;
    }
    op->state = ST_WAITING;
    if (!is_read && (op->flags & FI_DELIVERY_COMPLETE) == 0 && st_random(100) < st_conf.early) {
        st_counts.early++;
        frame->due += st_random(4 * st_conf.reorder + 1);
        st_op_tell(op, 0, 0);
    }
}

void st_wire_answer(struct st_ep *ep, struct st_peer *peer, const struct st_header *to, int status,
                    const void *payload, size_t bytes)
{
    struct st_frame *frame = frame_new(ep, peer, bytes);

    if (frame == NULL) {
        return;
    }
    frame->header->kind = ST_ANSWER;
    frame->header->id = to->id;
    frame->header->status = status;
    if (bytes != 0) {
        memcpy(frame->header + 1, payload, bytes);
    }
}

void st_wire_purge(struct st_ep *ep, const struct st_peer *peer)
{
    struct st_link *at;
    struct st_link *after;

    st_each(at, after, &ep->frames)
    {
        struct st_frame *frame = st_of(at, struct st_frame, link);

        if (frame->peer == peer && !frame->is_out) {
            frame_free(frame);
        }
    }
    st_each(at, after, &ep->arrivals)
    {
        struct st_arrival *arrival = st_of(at, struct st_arrival, link);

        if (arrival->peer == peer) {
            st_list_del(&arrival->link);
            st_free(arrival);
        }
    }
}

static void push_frames(struct st_ep *ep)
{
    uint64_t newest = 0;
    struct st_link *at;
    struct st_link *after;

    st_each(at, after, &ep->frames)
    {
        struct st_frame *frame = st_of(at, struct st_frame, link);
        ssize_t rc;

        if (frame->is_out || frame->due > ep->domain->tick || ep->out >= ST_FRAMES_OUT) {
            newest = frame->is_out ? newest : frame->number;
            continue;
        }
        rc = fi_send(ep->inner, frame->header, frame->bytes, NULL, frame->peer->inner, frame);
        frame->is_blocked = rc == -FI_EAGAIN;
        if (rc != -FI_EAGAIN) {
            frame->peer->blocked_ms = 0;
        } else if (frame->peer->blocked_ms == 0) {
            frame->peer->blocked_ms = st_now_ms();
        }
        if (rc == 0) {
            frame->is_out = true;
            ep->out++;
            st_counts.overtaken += newest != 0;
        } else if (rc != -FI_EAGAIN) {
            st_peer_gone(ep, frame->peer, fi_strerror((int)-rc));
            return; /* frames went with it */
        }
    }
}

static void push_ops(struct st_ep *ep)
{
    struct st_link *at;
    struct st_link *after;
    bool is_dangling = false;

    st_each(at, after, &ep->ops)
    {
        struct st_op *op = st_of(at, struct st_op, link);

        if (op->is_rung && op->state == ST_POSTED && op->due <= ep->domain->tick) {
            st_wire_send(op);
        }
        is_dangling = is_dangling || !op->is_rung;
    }
    if (is_dangling && ++ep->dangling == POLLS) {
        st_violation("a post with FI_MORE, and nothing after it for %d polls", POLLS);
    }
}

/* The inner provider tries for ever to reach who has closed: ask the socket layer. */
static bool is_refused(const struct st_address *address)
{
    struct sockaddr_storage to = { 0 };
    int error = 0;
    int fd;

    memcpy(&to, address->byte, address->bytes);
    fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return false;
    }
    if (connect(fd, (const struct sockaddr *)&to, (socklen_t)address->bytes) != 0) {
        error = errno;
    }
    if (error == EINPROGRESS) {
        struct pollfd at = { .fd = fd, .events = POLLOUT };
        socklen_t bytes = sizeof error;

        error = 0;
        if (poll(&at, 1, 20) == 1) {
            (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
        }
    }
    (void)close(fd);
    return error == ECONNREFUSED;
}

static void ping(struct st_ep *ep)
{
    uint64_t now = st_now_ms();
    struct st_link *at;

    for (at = ep->peers.next; at != &ep->peers; at = at->next) {
        struct st_peer *peer = st_of(at, struct st_peer, link);
        struct st_frame *frame;

        if (peer->blocked_ms != 0 && !peer->is_gone && now - peer->blocked_ms > PROBE_MS) {
            peer->blocked_ms = now;
            if (is_refused(&peer->address)) {
                peer->is_closed = true;
                st_peer_gone(ep, peer, "connection refused");
            }
        }
        if (peer->waiting == 0 || peer->is_gone || now - peer->pinged_ms < ST_PING_MS) {
            continue;
        }
        peer->pinged_ms = now;
        frame = frame_new(ep, peer, 0);
        if (frame != NULL) {
            frame->header->kind = ST_PING;
        }
    }
}

/* ---------------------------------------------------------------- in */

void st_wire_listen(struct st_ep *ep, struct st_buffer *buffer)
{
    ssize_t rc = fi_recv(ep->inner, buffer->bytes, ep->buffer_bytes, NULL, FI_ADDR_UNSPEC, buffer);

    if (rc != 0) {
        st_say("the inner provider takes no receive: %s", fi_strerror((int)-rc));
    }
}

static bool is_frame(const struct st_header *header, size_t bytes)
{
    size_t payload = bytes - sizeof *header;

    return bytes >= sizeof *header && header->magic == MAGIC && header->kind >= ST_SEND &&
           header->kind <= ST_PING && header->from.bytes <= ST_ADDRESS_BYTES &&
           header->bytes == (header->kind == ST_READ ? header->bytes : payload) &&
           header->bytes <= (st_conf.rma_max > st_conf.msg_max ? st_conf.rma_max : st_conf.msg_max);
}

static void take_frame(struct st_ep *ep, const void *bytes, size_t n)
{
    const struct st_header *header = bytes;
    struct st_arrival *arrival;
    struct st_peer *peer;

    if (!is_frame(header, n)) {
        st_counts.strange++;
        return;
    }
    peer = st_peer_find(ep, &header->from);
    arrival = st_alloc(sizeof *arrival + n);
    if (peer == NULL || peer->is_gone || arrival == NULL) {
        st_free(arrival);
        return;
    }
    arrival->peer = peer;
    arrival->due = st_hold(ep->domain);
    arrival->header = *header;
    memcpy(arrival->payload, header + 1, n - sizeof *header);
    st_list_add(&ep->arrivals, &arrival->link);
}

static bool is_buffer(const struct st_ep *ep, const void *context)
{
    const struct st_buffer *at = context;

    return at >= ep->buffer && at < ep->buffer + ep->nbuffers;
}

static bool is_closed(int error)
{
    return error == FI_ECONNREFUSED || error == FI_ECONNRESET || error == FI_ECONNABORTED ||
           error == FI_ENOTCONN || error == FI_ESHUTDOWN || error == EPIPE;
}

static void frame_ends(struct st_ep *ep, struct st_frame *frame, int error)
{
    struct st_peer *peer = frame->peer;

    ep->out--;
    frame_free(frame);
    if (error != 0) {
        peer->is_closed = peer->is_closed || is_closed(error);
        st_peer_gone(ep, peer, fi_strerror(error));
    }
}

static bool take_error(struct st_ep *ep)
{
    struct fi_cq_err_entry entry = { 0 };

    if (fi_cq_readerr(ep->inner_cq, &entry, 0) != 1) {
        return false;
    }
    if (entry.op_context == NULL) {
        return true;
    }
    if (is_buffer(ep, entry.op_context)) {
        st_wire_listen(ep, entry.op_context);
    } else {
        frame_ends(ep, entry.op_context, entry.err);
    }
    return true;
}

static void pull(struct st_ep *ep)
{
    struct fi_cq_msg_entry entry[ST_BATCH];
    ssize_t n = fi_cq_read(ep->inner_cq, entry, ST_BATCH);
    ssize_t i;

    if (n == -FI_EAVAIL) {
        (void)take_error(ep);
        return;
    }
    for (i = 0; i < n; i++) {
        if (is_buffer(ep, entry[i].op_context)) {
            struct st_buffer *buffer = entry[i].op_context;

            take_frame(ep, buffer->bytes, entry[i].len);
            st_wire_listen(ep, buffer);
        } else {
            frame_ends(ep, entry[i].op_context, 0);
        }
    }
}

static void place_due(struct st_ep *ep)
{
    struct st_link *at;
    struct st_link *after;

    st_each(at, after, &ep->arrivals)
    {
        struct st_arrival *arrival = st_of(at, struct st_arrival, link);

        if (!arrival->is_stuck && arrival->due <= ep->domain->tick && st_place(ep, arrival)) {
            st_list_del(&arrival->link);
            st_free(arrival);
        }
    }
}

/* ---------------------------------------------------------------- progress */

void st_progress(struct st_domain *domain)
{
    struct st_link *at;

    for (at = domain->eps.next; at != &domain->eps; at = at->next) {
        struct st_ep *ep = st_of(at, struct st_ep, link);

        if (ep->is_enabled) {
            pull(ep);
            place_due(ep);
            push_ops(ep);
            ping(ep);
            push_frames(ep);
        }
    }
}
