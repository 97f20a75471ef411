/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints, and the peers they know.
 */
#include "strict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of libfabric 2.x: sizes by option. */
#define OPT_MAX_MSG_SIZE    12
#define OPT_MAX_TAGGED_SIZE 13
#define OPT_MAX_RMA_SIZE    14
#define OPT_MAX_ATOMIC_SIZE 15
#define OPT_INJECT_MSG_SIZE 16
#define OPT_INJECT_RMA_SIZE 18

/* ---------------------------------------------------------------- options and name */

static ssize_t no_cancel(struct fid *fid, void *context)
{
    (void)fid;
    (void)context;
    return st_unsupported("fi_cancel");
}

static int getopt_ep(struct fid *fid, int level, int name, void *value, size_t *bytes)
{
    uint64_t size;

    (void)fid;
    if (level != FI_OPT_ENDPOINT || *bytes < sizeof(size_t)) {
        return -FI_ENOPROTOOPT;
    }
    switch (name) {
    case OPT_MAX_MSG_SIZE:
        size = st_conf.msg_max;
        break;
    case OPT_MAX_RMA_SIZE:
        size = st_conf.rma_max;
        break;
    case OPT_INJECT_MSG_SIZE:
        size = st_conf.inject;
        break;
    case OPT_MAX_TAGGED_SIZE:
    case OPT_MAX_ATOMIC_SIZE:
    case OPT_INJECT_RMA_SIZE:
        size = 0;
        break;
    default:
        return -FI_ENOPROTOOPT;
    }
    *(size_t *)value = (size_t)size;
    *bytes = sizeof(size_t);
    return 0;
}

static int setopt_ep(struct fid *fid, int level, int name, const void *value, size_t bytes)
{
    (void)fid;
    (void)level;
    (void)name;
    (void)value;
    (void)bytes;
    return -FI_ENOPROTOOPT;
}

static int getname(struct fid *fid, void *address, size_t *bytes)
{
    struct st_ep *ep = st_of(fid, struct st_ep, fid.fid);

    if (!ep->is_enabled) {
        return -FI_EOPBADSTATE;
    }
    if (*bytes < ep->self.bytes) {
        *bytes = ep->self.bytes;
        return -FI_ETOOSMALL;
    }
    memcpy(address, ep->self.byte, ep->self.bytes);
    *bytes = ep->self.bytes;
    return 0;
}

static int setname(struct fid *fid, void *address, size_t bytes)
{
    (void)fid;
    (void)address;
    (void)bytes;
    return st_unsupported("fi_setname");
}

/* ---------------------------------------------------------------- life */

static int bind_cq(struct st_ep *ep, struct st_cq *cq, uint64_t flags)
{
    if (cq->domain != ep->domain || (flags & (FI_TRANSMIT | FI_RECV)) == 0) {
        return -FI_EINVAL;
    }
    if ((flags & FI_TRANSMIT) != 0) {
        ep->tx = cq;
        ep->tx_selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
        cq->users++;
    }
    if ((flags & FI_RECV) != 0) {
        ep->rx = cq;
        ep->rx_selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
        cq->users++;
    }
    return 0;
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct st_ep *ep = st_of(fid, struct st_ep, fid.fid);
    int rc = 0;

    st_enter(ep->domain);
    if (ep->is_enabled) {
        rc = -FI_EOPBADSTATE;
    } else if (other->fclass == FI_CLASS_AV) {
        ep->av = st_of(other, struct st_av, fid.fid);
        ep->av->users++;
    } else if (other->fclass == FI_CLASS_CQ) {
        rc = bind_cq(ep, st_of(other, struct st_cq, fid.fid), flags);
    } else if (other->fclass != FI_CLASS_EQ) {
        rc = st_unsupported("a binding to that object");
    }
    st_leave(ep->domain);
    return rc;
}

static int enable(struct st_ep *ep)
{
    int rc;

    if (ep->is_enabled) {
        return -FI_EOPBADSTATE;
    }
    if (ep->tx == NULL || ep->rx == NULL) {
        return -FI_ENOCQ;
    }
    if (ep->av == NULL) {
        return -FI_ENOAV;
    }
    rc = st_wire_open(ep);
    rc = rc != 0 ? rc : st_cq_watch(ep->tx, ep);
    if (rc == 0 && ep->rx != ep->tx) {
        rc = st_cq_watch(ep->rx, ep);
    }
    ep->is_enabled = rc == 0;
    return rc;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    struct st_ep *ep = st_of(fid, struct st_ep, fid.fid);
    int rc;

    (void)arg;
    if (command != FI_ENABLE) {
        return -FI_ENOSYS;
    }
    st_enter(ep->domain);
    rc = enable(ep);
    st_leave(ep->domain);
    return rc;
}

/* Entries of this endpoint that nobody read stay readable; they just name nothing any more. */
static void orphan(struct st_cq *cq, const struct st_ep *ep)
{
    struct st_link *at;

    for (at = cq == NULL ? NULL : cq->done.next; cq != NULL && at != &cq->done; at = at->next) {
        struct st_done *done = st_of(at, struct st_done, link);

        if ((done->op != NULL && done->op->ep == ep) ||
            (done->recv != NULL && done->recv->ep == ep)) {
            st_context_give(done->context);
            done->context = NULL;
            if (done->recv != NULL) {
                st_recv_free(done->recv);
            }
            done->recv = NULL;
            done->op = NULL;
        }
    }
}

/* What was posted ends without a completion, as on the card. */
static void drop_posted(struct st_ep *ep)
{
    struct st_link *at;
    struct st_link *after;

    orphan(ep->tx, ep);
    orphan(ep->rx == ep->tx ? NULL : ep->rx, ep);
    st_each(at, after, &ep->ops)
    {
        struct st_op *op = st_of(at, struct st_op, link);

        st_context_give(&op->context);
        st_op_free(op);
    }
    st_each(at, after, &ep->recvs)
    {
        struct st_recv *recv = st_of(at, struct st_recv, link);

        st_context_give(&recv->context);
        st_recv_free(recv);
    }
    st_each(at, after, &ep->peers)
    {
        st_free(st_of(at, struct st_peer, link));
    }
    st_list_init(&ep->peers);
}

static int ep_close(struct fid *fid)
{
    struct st_ep *ep = st_of(fid, struct st_ep, fid.fid);
    struct st_domain *domain = ep->domain;

    st_enter(domain);
    if (ep->is_enabled) {
        st_cq_unwatch(ep->tx, ep);
        if (ep->rx != ep->tx) {
            st_cq_unwatch(ep->rx, ep);
        }
    }
    st_wire_close(ep);
    drop_posted(ep);
    if (ep->tx != NULL) {
        ep->tx->users--;
    }
    if (ep->rx != NULL) {
        ep->rx->users--;
    }
    if (ep->av != NULL) {
        ep->av->users--;
    }
    st_list_del(&ep->everywhere);
    st_list_del(&ep->link);
    domain->users--;
    st_counts.fids--;
    st_leave(domain);
    fi_freeinfo(ep->info);
    free(ep);
    return 0;
}

static struct fi_ops ep_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = ep_close,
    .bind = ep_bind,
    .control = ep_control,
    .ops_open = st_ops_open,
};

static ssize_t tx_size_left(struct fid_ep *fid)
{
    struct st_ep *ep = st_of(fid, struct st_ep, fid);

    return ep->depth < st_conf.depth ? (ssize_t)(st_conf.depth - ep->depth) : 0;
}

static ssize_t rx_size_left(struct fid_ep *fid)
{
    (void)fid;
    return st_unsupported("fi_rx_size_left");
}

static struct fi_ops_ep ep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = no_cancel,
    .getopt = getopt_ep,
    .setopt = setopt_ep,
    .rx_size_left = rx_size_left,
    .tx_size_left = tx_size_left,
};

static struct fi_ops_cm cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = setname,
    .getname = getname,
};

static bool info_fits(const struct fi_info *info)
{
    return (info->tx_attr == NULL ||
            (info->tx_attr->size <= st_conf.depth && info->tx_attr->inject_size <= st_conf.inject &&
             info->tx_attr->msg_order == 0)) &&
           (info->rx_attr == NULL || info->rx_attr->size <= st_conf.rx_size);
}

int st_ep_open(struct fid_domain *domain_fid, struct fi_info *info, struct fid_ep **ep_fid,
               void *context)
{
    struct st_domain *domain = st_of(domain_fid, struct st_domain, fid);
    struct st_ep *ep;

    if (!info_fits(info)) {
        st_violation("an endpoint is asked for with more than the offer had");
        return -FI_EINVAL;
    }
    ep = calloc(1, sizeof *ep);
    if (ep == NULL) {
        return -FI_ENOMEM;
    }
    ep->fid.fid.fclass = FI_CLASS_EP;
    ep->fid.fid.context = context;
    ep->fid.fid.ops = &ep_fid_ops;
    ep->fid.ops = &ep_ops;
    ep->fid.cm = &cm_ops;
    ep->fid.msg = &st_msg_ops;
    ep->fid.rma = &st_rma_ops;
    ep->fid.tagged = &st_tagged_ops;
    ep->fid.atomic = &st_atomic_ops;
    ep->domain = domain;
    ep->info = fi_dupinfo(info);
    st_list_init(&ep->peers);
    st_list_init(&ep->ops);
    st_list_init(&ep->recvs);
    st_list_init(&ep->frames);
    st_list_init(&ep->arrivals);
    st_enter(domain);
    st_list_add(&domain->eps, &ep->link);
    st_list_add(&st_all, &ep->everywhere);
    domain->users++;
    st_counts.fids++;
    st_leave(domain);
    *ep_fid = &ep->fid;
    return 0;
}
