/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls of an endpoint in all their forms, each made a post of one shape; and those that are
 * not offered.
 */
#include "strict.h"

#include <string.h>

/* ---------------------------------------------------------------- messages */

/* The calls without flags of their own take the endpoint's. */
static uint64_t own_flags(struct fid_ep *fid, uint64_t more)
{
    const struct fi_info *info = st_of(fid, struct st_ep, fid)->info;

    return more | (info->tx_attr == NULL ? 0 : info->tx_attr->op_flags);
}

static struct iovec piece(const void *buf, size_t bytes)
{
    struct iovec iov = { .iov_len = bytes };

    memcpy(&iov.iov_base, &buf, sizeof buf);
    return iov;
}

static ssize_t sendmsg_(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    const struct st_want want = { .kind = ST_SEND,
                                  .iov = msg->msg_iov,
                                  .desc = msg->desc,
                                  .niov = msg->iov_count,
                                  .to = msg->addr,
                                  .data = msg->data,
                                  .flags = flags,
                                  .context = msg->context };

    return st_post(ep, &want);
}

static ssize_t sendv_(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                      fi_addr_t to, void *context)
{
    const struct fi_msg msg = {
        .msg_iov = iov, .desc = desc, .iov_count = count, .addr = to, .context = context
    };

    return sendmsg_(ep, &msg, own_flags(ep, 0));
}

static ssize_t send_(struct fid_ep *ep, const void *buf, size_t bytes, void *desc, fi_addr_t to,
                     void *context)
{
    const struct iovec iov = piece(buf, bytes);

    return sendv_(ep, &iov, &desc, 1, to, context);
}

static ssize_t senddata_(struct fid_ep *ep, const void *buf, size_t bytes, void *desc,
                         uint64_t data, fi_addr_t to, void *context)
{
    const struct iovec iov = piece(buf, bytes);
    const struct fi_msg msg = {
        .msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = to, .context = context, .data = data
    };

    return sendmsg_(ep, &msg, own_flags(ep, FI_REMOTE_CQ_DATA));
}

static ssize_t inject_(struct fid_ep *ep, const void *buf, size_t bytes, fi_addr_t to)
{
    const struct iovec iov = piece(buf, bytes);
    const struct st_want want = {
        .kind = ST_SEND, .iov = &iov, .niov = 1, .to = to, .flags = FI_INJECT
    };

    return st_post(ep, &want);
}

static ssize_t injectdata_(struct fid_ep *ep, const void *buf, size_t bytes, uint64_t data,
                           fi_addr_t to)
{
    const struct iovec iov = piece(buf, bytes);
    const struct st_want want = { .kind = ST_SEND,
                                  .iov = &iov,
                                  .niov = 1,
                                  .to = to,
                                  .data = data,
                                  .flags = FI_INJECT | FI_REMOTE_CQ_DATA };

    return st_post(ep, &want);
}

/* ---------------------------------------------------------------- RMA */

static ssize_t rma(struct fid_ep *ep, enum st_kind kind, const struct fi_msg_rma *msg,
                   uint64_t flags)
{
    const struct st_want want = { .kind = kind,
                                  .iov = msg->msg_iov,
                                  .desc = msg->desc,
                                  .niov = msg->iov_count,
                                  .to = msg->addr,
                                  .remote = msg->rma_iov->addr,
                                  .key = msg->rma_iov->key,
                                  .data = msg->data,
                                  .flags = flags,
                                  .context = msg->context };
    size_t bytes = 0;
    size_t i;

    for (i = 0; i < msg->iov_count; i++) {
        bytes += msg->msg_iov[i].iov_len;
    }
    if (msg->rma_iov_count != 1 || msg->rma_iov->len != bytes) {
        st_violation("RMA to %zu pieces, the first of %zu bytes, of %zu bytes here",
                     msg->rma_iov_count, msg->rma_iov->len, bytes);
        return -FI_EINVAL;
    }
    return st_post(ep, &want);
}

static ssize_t writemsg_(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return rma(ep, ST_WRITE, msg, flags);
}

static ssize_t readmsg_(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return rma(ep, ST_READ, msg, flags);
}

static ssize_t rma_one(struct fid_ep *ep, const struct st_want *want, const void *buf, size_t bytes,
                       void *desc)
{
    struct st_want whole = *want;
    const struct iovec iov = piece(buf, bytes);

    whole.iov = &iov;
    whole.desc = &desc;
    whole.niov = 1;
    whole.flags = own_flags(ep, want->flags);
    return st_post(ep, &whole);
}

static ssize_t write_(struct fid_ep *ep, const void *buf, size_t bytes, void *desc, fi_addr_t to,
                      uint64_t remote, uint64_t key, void *context)
{
    const struct st_want want = {
        .kind = ST_WRITE, .to = to, .remote = remote, .key = key, .context = context
    };

    return rma_one(ep, &want, buf, bytes, desc);
}

static ssize_t writedata_(struct fid_ep *ep, const void *buf, size_t bytes, void *desc,
                          uint64_t data, fi_addr_t to, uint64_t remote, uint64_t key, void *context)
{
    const struct st_want want = { .kind = ST_WRITE,
                                  .to = to,
                                  .remote = remote,
                                  .key = key,
                                  .data = data,
                                  .flags = FI_REMOTE_CQ_DATA,
                                  .context = context };

    return rma_one(ep, &want, buf, bytes, desc);
}

static ssize_t read_(struct fid_ep *ep, void *buf, size_t bytes, void *desc, fi_addr_t from,
                     uint64_t remote, uint64_t key, void *context)
{
    const struct st_want want = {
        .kind = ST_READ, .to = from, .remote = remote, .key = key, .context = context
    };

    return rma_one(ep, &want, buf, bytes, desc);
}

static ssize_t writev_(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                       fi_addr_t to, uint64_t remote, uint64_t key, void *context)
{
    const struct st_want want = { .kind = ST_WRITE,
                                  .iov = iov,
                                  .desc = desc,
                                  .niov = count,
                                  .to = to,
                                  .remote = remote,
                                  .key = key,
                                  .flags = own_flags(ep, 0),
                                  .context = context };

    return st_post(ep, &want);
}

static ssize_t readv_(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                      fi_addr_t from, uint64_t remote, uint64_t key, void *context)
{
    const struct st_want want = { .kind = ST_READ,
                                  .iov = iov,
                                  .desc = desc,
                                  .niov = count,
                                  .to = from,
                                  .remote = remote,
                                  .key = key,
                                  .flags = own_flags(ep, 0),
                                  .context = context };

    return st_post(ep, &want);
}

/* ---------------------------------------------------------------- receives */

static ssize_t recvmsg_(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    if (msg->iov_count != 1 || (flags & ~(uint64_t)(FI_MORE | FI_COMPLETION)) != 0) {
        return st_unsupported("a receive of several pieces, or with that flag");
    }
    return st_post_recv(ep, msg->msg_iov, msg->desc == NULL ? NULL : msg->desc[0], flags,
                        msg->context);
}

static ssize_t recvv_(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
                      fi_addr_t from, void *context)
{
    const struct fi_msg msg = {
        .msg_iov = iov, .desc = desc, .iov_count = count, .addr = from, .context = context
    };

    return recvmsg_(ep, &msg, 0);
}

static ssize_t recv_(struct fid_ep *ep, void *buf, size_t bytes, void *desc, fi_addr_t from,
                     void *context)
{
    const struct iovec iov = piece(buf, bytes);

    (void)from;
    return st_post_recv(ep, &iov, desc, 0, context);
}

/* ---------------------------------------------------------------- not offered */

static ssize_t none(void)
{
    return st_unsupported("an injected write, a tagged message or an atomic");
}

/* A function of another type, which takes its arguments and looks at none. */
#define NONE(table, member) \
 .member = (__typeof__(((struct table *)NULL)->member))(void (*)(void))none

struct fi_ops_msg st_msg_ops = {
    .size = sizeof(struct fi_ops_msg),
    .recv = recv_,
    .recvv = recvv_,
    .recvmsg = recvmsg_,
    .send = send_,
    .sendv = sendv_,
    .sendmsg = sendmsg_,
    .inject = inject_,
    .senddata = senddata_,
    .injectdata = injectdata_,
};

struct fi_ops_rma st_rma_ops = {
    .size = sizeof(struct fi_ops_rma),
    .read = read_,
    .readv = readv_,
    .readmsg = readmsg_,
    .write = write_,
    .writev = writev_,
    .writemsg = writemsg_,
    .writedata = writedata_,
    NONE(fi_ops_rma, inject),
    NONE(fi_ops_rma, injectdata),
};

struct fi_ops_tagged st_tagged_ops = {
    .size = sizeof(struct fi_ops_tagged),
    NONE(fi_ops_tagged, recv),
    NONE(fi_ops_tagged, recvv),
    NONE(fi_ops_tagged, recvmsg),
    NONE(fi_ops_tagged, send),
    NONE(fi_ops_tagged, sendv),
    NONE(fi_ops_tagged, sendmsg),
    NONE(fi_ops_tagged, inject),
    NONE(fi_ops_tagged, senddata),
    NONE(fi_ops_tagged, injectdata),
};

struct fi_ops_atomic st_atomic_ops = {
    .size = sizeof(struct fi_ops_atomic),
    NONE(fi_ops_atomic, write),
    NONE(fi_ops_atomic, writev),
    NONE(fi_ops_atomic, writemsg),
    NONE(fi_ops_atomic, inject),
    NONE(fi_ops_atomic, readwrite),
    NONE(fi_ops_atomic, readwritev),
    NONE(fi_ops_atomic, readwritemsg),
    NONE(fi_ops_atomic, compwrite),
    NONE(fi_ops_atomic, compwritev),
    NONE(fi_ops_atomic, compwritemsg),
    NONE(fi_ops_atomic, writevalid),
    NONE(fi_ops_atomic, readwritevalid),
    NONE(fi_ops_atomic, compwritevalid),
};
