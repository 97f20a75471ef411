/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting: everything a post must be is checked here, then it waits for its turn.
 */
#include "strict.h"

#include <string.h>

#define FLAGS                                                                    \
 (FI_COMPLETION | FI_MORE | FI_REMOTE_CQ_DATA | FI_INJECT | FI_INJECT_COMPLETE | \
  FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)

static const char *word(enum st_kind kind)
{
    return kind == ST_SEND ? "a send" : kind == ST_WRITE ? "a write" : "a read";
}

/* ---------------------------------------------------------------- ends */

static void give_back(struct st_op *op)
{
    unsigned i;

    for (i = 0; i < op->niov; i++) {
        st_mr_hold(op->mr[i], -1);
    }
    op->ep->depth--;
    op->is_read = true;
}

void st_op_free(struct st_op *op)
{
    if (!op->is_read) {
        give_back(op);
    }
    if (!op->is_answered) {
        op->peer->waiting--;
    }
    st_list_del(&op->link);
    st_free(op);
}

void st_op_read(struct st_op *op)
{
    give_back(op);
    if (op->is_answered) {
        st_op_free(op);
    }
}

static const uint64_t done_flags[] = {
    [ST_SEND] = FI_SEND | FI_MSG,
    [ST_WRITE] = FI_WRITE | FI_RMA,
    [ST_READ] = FI_READ | FI_RMA,
};

void st_op_tell(struct st_op *op, int error, int provider_error)
{
    bool is_wanted = !op->ep->tx_selective || (op->flags & FI_COMPLETION) != 0 || error != 0;
    struct st_done *done = is_wanted ? st_alloc(sizeof *done) : NULL;

    op->is_told = true;
    if (done == NULL || (op->context.user == NULL && error == 0)) {
        st_free(done);
        st_context_give(&op->context);
        give_back(op);
        return;
    }
    done->entry.op_context = op->context.user;
    done->entry.flags = done_flags[op->kind];
    done->from = FI_ADDR_NOTAVAIL;
    done->error = error;
    done->provider_error = provider_error;
    done->op = op;
    done->context = &op->context;
    st_cq_add(op->ep->tx, done);
}

void st_op_end(struct st_op *op, int error, int provider_error)
{
    if (op->is_answered) {
        return;
    }
    if (!op->is_told) {
        st_op_tell(op, error, provider_error);
    }
    op->is_answered = true;
    op->state = ST_WAITING; /* it goes nowhere any more */
    op->peer->waiting--;
    if (op->is_read) {
        st_op_free(op);
    }
}

void st_recv_free(struct st_recv *recv)
{
    st_mr_hold(recv->mr, -1);
    if (!st_list_is_empty(&recv->link)) {
        st_list_del(&recv->link);
        recv->ep->nrecvs--;
        st_counts.receives--;
    }
    st_free(recv);
}

struct st_recv *st_recv_take(struct st_ep *ep)
{
    struct st_recv *recv;

    if (st_list_is_empty(&ep->recvs)) {
        return NULL;
    }
    recv = st_of(ep->recvs.next, struct st_recv, link);
    if (!recv->is_rung) {
        return NULL;
    }
    st_list_del(&recv->link);
    ep->nrecvs--;
    st_counts.receives--;
    return recv;
}

/* ---------------------------------------------------------------- checks */

static int check_shape(const struct st_want *want, size_t bytes)
{
    bool is_rma = want->kind != ST_SEND;
    size_t most = is_rma ? st_conf.rma_max : st_conf.msg_max;

    if (want->niov > (is_rma ? 1 : ST_IOV)) {
        st_violation("%s of %zu pieces", word(want->kind), want->niov);
        return -FI_EINVAL;
    }
    if (bytes > most) {
        st_violation("%s of %zu bytes, where at most %zu go", word(want->kind), bytes, most);
        return -FI_EMSGSIZE;
    }
    if ((want->flags & FI_REMOTE_CQ_DATA) != 0 && want->data > UINT32_MAX) {
        st_violation("%s with CQ data 0x%llx, of which 4 bytes go", word(want->kind),
                     (unsigned long long)want->data);
        return -FI_EINVAL;
    }
    return 0;
}

static int check_flags(const struct st_want *want, size_t bytes)
{
    uint64_t flags = want->flags;

    if ((flags & ~(uint64_t)FLAGS) != 0) {
        return st_unsupported("a flag of that post");
    }
    if ((flags & FI_DELIVERY_COMPLETE) != 0 && st_conf.dc == 0) {
        return st_unsupported("FI_DELIVERY_COMPLETE");
    }
    if ((flags & FI_INJECT) != 0 && (want->kind != ST_SEND || bytes > st_conf.inject)) {
        return st_unsupported("that injection");
    }
    if ((flags & FI_REMOTE_CQ_DATA) != 0 && want->kind == ST_READ) {
        return st_unsupported("CQ data with a read");
    }
    return 0;
}

static const struct st_address *address_of(const struct st_ep *ep, const struct st_want *want)
{
    if (want->to >= ep->av->n || !ep->av->entry[want->to].is_in) {
        st_violation("%s to address %llu, which is not in the table", word(want->kind),
                     (unsigned long long)want->to);
        return NULL;
    }
    return &ep->av->entry[want->to].address;
}

/* Turned away: by the depth, or by the weather. */
static bool has_no_room(struct st_ep *ep, bool is_full)
{
    if (ep->burst != 0) {
        ep->burst--;
    } else if (st_random(100) < st_conf.eagain) {
        ep->burst = (unsigned)st_random(6);
    } else if (!is_full) {
        return false;
    }
    st_counts.eagain++;
    return true;
}

static void warn_tight(const struct st_ep *ep)
{
    size_t n = ep->tx->n + ep->depth + (ep->tx == ep->rx ? ep->nrecvs : 0);

    st_counts.tight += n > ep->tx->size;
}

/* ---------------------------------------------------------------- sends, writes, reads */

static void ring(struct st_ep *ep)
{
    struct st_link *at;

    for (at = ep->ops.next; at != &ep->ops; at = at->next) {
        struct st_op *op = st_of(at, struct st_op, link);

        if (!op->is_rung) {
            op->is_rung = true;
            op->due = st_hold(ep->domain);
        }
    }
    ep->dangling = 0;
}

static int take_memory(struct st_ep *ep, const struct st_want *want, struct st_op *op)
{
    static const uint64_t access[] = {
        [ST_SEND] = FI_SEND, [ST_WRITE] = FI_WRITE, [ST_READ] = FI_READ
    };
    unsigned i;
    int rc = 0;

    for (i = 0; rc == 0 && i < want->niov; i++) {
        op->iov[i] = want->iov[i];
        if ((want->flags & FI_INJECT) == 0) {
            rc = st_mr_check(ep, &want->iov[i], want->desc == NULL ? NULL : want->desc[i],
                             access[want->kind], word(want->kind), &op->mr[i]);
        }
    }
    return rc;
}

static int start(struct st_ep *ep, const struct st_want *want, const struct st_address *address,
                 size_t bytes)
{
    struct st_op *op = st_alloc(sizeof *op);
    int rc;
    unsigned i;

    if (op == NULL) {
        return -FI_ENOMEM;
    }
    st_list_init(&op->link);
    rc = take_memory(ep, want, op);
    if (rc == 0 && ((want->flags & FI_INJECT) == 0 || want->context != NULL)) {
        rc = st_context_take(&op->context, want->context, word(want->kind));
    }
    op->peer = rc == 0 ? st_peer_find(ep, address) : NULL;
    if (op->peer == NULL) {
        st_free(op);
        return rc != 0 ? rc : -FI_ENOMEM;
    }
    op->ep = ep;
    op->kind = want->kind;
    op->id = ++ep->last_id;
    op->flags = want->flags;
    op->niov = (unsigned)want->niov;
    op->bytes = bytes;
    op->remote = want->remote;
    op->key = want->key;
    op->data = want->data;
    for (i = 0; i < op->niov; i++) {
        st_mr_hold(op->mr[i], 1);
    }
    if (op->peer->waiting++ == 0) {
        op->peer->pinged_ms = st_now_ms();
    }
    ep->depth++;
    st_list_add(&ep->ops, &op->link);
    if ((want->flags & FI_INJECT) != 0) {
        st_wire_send(op);
    }
    if ((want->flags & FI_MORE) == 0) {
        ring(ep);
        st_counts.doorbells++;
    }
    st_counts.posts++;
    if (op->peer->is_gone) {
        st_op_lost(op);
    } else if (st_counts.posts == st_conf.drop) {
        st_drop(address->byte, address->bytes);
    }
    return 0;
}

static ssize_t post_locked(struct st_ep *ep, const struct st_want *want)
{
    const struct st_address *address;
    size_t bytes = 0;
    size_t i;
    int rc;

    if (!ep->is_enabled) {
        st_violation("%s before fi_enable", word(want->kind));
        return -FI_EOPBADSTATE;
    }
    for (i = 0; i < want->niov; i++) {
        bytes += want->iov[i].iov_len;
    }
    rc = check_flags(want, bytes);
    rc = rc != 0 ? rc : check_shape(want, bytes);
    address = rc != 0 ? NULL : address_of(ep, want);
    if (address == NULL) {
        return rc != 0 ? rc : -FI_EINVAL;
    }
    if (ep->depth >= st_conf.depth) {
        ring(ep);
    }
    if (has_no_room(ep, ep->depth >= st_conf.depth)) {
        return -FI_EAGAIN;
    }
    rc = start(ep, want, address, bytes);
    warn_tight(ep);
    return rc;
}

ssize_t st_post(struct fid_ep *fid, const struct st_want *want)
{
    struct st_ep *ep = st_of(fid, struct st_ep, fid);
    ssize_t rc;

    st_enter(ep->domain);
    rc = post_locked(ep, want);
    st_cq_rouse(ep->domain);
    st_leave(ep->domain);
    return rc;
}

/* ---------------------------------------------------------------- receives */

static void ring_recvs(struct st_ep *ep)
{
    struct st_link *at;

    for (at = ep->recvs.next; at != &ep->recvs; at = at->next) {
        st_of(at, struct st_recv, link)->is_rung = true;
    }
    for (at = ep->arrivals.next; at != &ep->arrivals; at = at->next) {
        st_of(at, struct st_arrival, link)->is_stuck = false;
    }
    ep->dangling = 0;
}

static ssize_t recv_locked(struct st_ep *ep, const struct iovec *iov, void *desc, uint64_t flags,
                           void *context)
{
    struct st_recv *recv;
    int rc;

    if (!ep->is_enabled) {
        st_violation("a receive before fi_enable");
        return -FI_EOPBADSTATE;
    }
    if (has_no_room(ep, ep->nrecvs >= st_conf.rx_size)) {
        return -FI_EAGAIN;
    }
    recv = st_alloc(sizeof *recv);
    if (recv == NULL) {
        return -FI_ENOMEM;
    }
    st_list_init(&recv->link);
    rc = st_mr_check(ep, iov, desc, FI_RECV, "a receive", &recv->mr);
    rc = rc != 0 ? rc : st_context_take(&recv->context, context, "a receive");
    if (rc != 0) {
        st_free(recv);
        return rc;
    }
    recv->ep = ep;
    recv->iov = *iov;
    st_mr_hold(recv->mr, 1);
    st_list_add(&ep->recvs, &recv->link);
    ep->nrecvs++;
    st_counts.receives++;
    st_counts.rx_posts++;
    if ((flags & FI_MORE) == 0) {
        ring_recvs(ep);
    }
    warn_tight(ep);
    return 0;
}

ssize_t st_post_recv(struct fid_ep *fid, const struct iovec *iov, void *desc, uint64_t flags,
                     void *context)
{
    struct st_ep *ep = st_of(fid, struct st_ep, fid);
    ssize_t rc;

    st_enter(ep->domain);
    rc = recv_locked(ep, iov, desc, flags, context);
    st_cq_rouse(ep->domain);
    st_leave(ep->domain);
    return rc;
}
