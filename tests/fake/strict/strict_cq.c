/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues. Reading one is what moves everything: each read is a tick of the domain's
 * clock. An entry is shown when its time has come, so entries are read in any order.
 */
#include "strict.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* ---------------------------------------------------------------- entries */

void st_cq_add(struct st_cq *cq, struct st_done *done)
{
    if (cq->n >= cq->size && !cq->is_overrun) {
        st_violation("a completion queue of %zu entries is overrun", cq->size);
        cq->is_overrun = true;
    }
    done->due = st_hold(cq->domain);
    cq->n++;
    st_list_add(&cq->done, &done->link);
}

/* The first entry that may be read. */
struct st_done *st_cq_first(struct st_cq *cq)
{
    struct st_link *at;

    for (at = cq->done.next; at != &cq->done; at = at->next) {
        struct st_done *done = st_of(at, struct st_done, link);

        if (done->due <= cq->domain->tick) {
            return done;
        }
    }
    return NULL;
}

/* It has been read: what it kept is the user's again. */
static void forget(struct st_cq *cq, struct st_done *done)
{
    st_list_del(&done->link);
    cq->n--;
    if (done->context != NULL) {
        st_context_give(done->context);
    }
    if (done->op != NULL) {
        st_op_read(done->op);
    }
    if (done->recv != NULL) {
        st_recv_free(done->recv);
    }
    st_counts.completions++;
    st_free(done);
}

static size_t entry_bytes(enum fi_cq_format format)
{
    switch (format) {
    case FI_CQ_FORMAT_MSG:
        return sizeof(struct fi_cq_msg_entry);
    case FI_CQ_FORMAT_DATA:
        return sizeof(struct fi_cq_data_entry);
    case FI_CQ_FORMAT_TAGGED:
        return sizeof(struct fi_cq_tagged_entry);
    case FI_CQ_FORMAT_UNSPEC:
    case FI_CQ_FORMAT_CONTEXT:
    default:
        return sizeof(struct fi_cq_entry);
    }
}

/* Nothing was due: mostly the clock goes on to where something is, so that waiting is order and not
 * work. */
static void jump(struct st_domain *domain)
{
    uint64_t next = st_wire_next(domain);
    struct st_link *at;
    struct st_link *entry;

    for (at = domain->cqs.next; at != &domain->cqs; at = at->next) {
        struct st_cq *cq = st_of(at, struct st_cq, link);

        for (entry = cq->done.next; entry != &cq->done; entry = entry->next) {
            const struct st_done *done = st_of(entry, struct st_done, link);

            next = done->due < next ? done->due : next;
        }
    }
    if (next != UINT64_MAX && next > domain->tick) {
        domain->tick = next - 1;
    }
}

static ssize_t read_locked(struct st_cq *cq, void *buf, size_t count, fi_addr_t *from)
{
    size_t bytes = entry_bytes(cq->format);
    size_t n = 0;

    cq->domain->tick++;
    cq->domain->polls++;
    if (st_conf.cq_fail != 0 && cq->domain->polls > st_conf.cq_fail) {
        return -FI_EIO;
    }
    st_progress(cq->domain);
    while (n < count) {
        struct st_done *done = st_cq_first(cq);

        if (done == NULL) {
            break;
        }
        if (done->error != 0) {
            return n != 0 ? (ssize_t)n : -FI_EAVAIL;
        }
        memcpy((unsigned char *)buf + n * bytes, &done->entry, bytes);
        if (from != NULL) {
            from[n] = done->from;
        }
        forget(cq, done);
        n++;
    }
    if (n == 0 && st_random(4) != 0) {
        jump(cq->domain);
    }
    st_cq_rouse(cq->domain);
    return n != 0 ? (ssize_t)n : -FI_EAGAIN;
}

static ssize_t readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *from)
{
    struct st_cq *cq = st_of(fid, struct st_cq, fid);
    ssize_t rc;

    st_enter(cq->domain);
    rc = read_locked(cq, buf, count, from);
    st_leave(cq->domain);
    return rc;
}

static ssize_t read_entries(struct fid_cq *fid, void *buf, size_t count)
{
    return readfrom(fid, buf, count, NULL);
}

static ssize_t readerr(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
    struct st_cq *cq = st_of(fid, struct st_cq, fid);
    struct st_done *done;

    (void)flags;
    st_enter(cq->domain);
    done = st_cq_first(cq);
    if (done == NULL || done->error == 0) {
        st_leave(cq->domain);
        return -FI_EAGAIN;
    }
    entry->op_context = done->entry.op_context;
    entry->flags = done->entry.flags;
    entry->len = 0;
    entry->buf = NULL;
    entry->data = 0;
    entry->tag = 0;
    entry->olen = 0;
    entry->err = done->error;
    entry->prov_errno = done->provider_error;
    entry->err_data_size = 0;
    st_counts.errors++;
    forget(cq, done);
    st_leave(cq->domain);
    return 1;
}

static const char *error_text(struct fid_cq *cq, int error, const void *data, char *buf,
                              size_t bytes)
{
    const char *text = "no error";

    (void)cq;
    (void)data;
    switch ((enum st_error)error) {
    case ST_E_UNRESPONSIVE:
        text = "the peer does not answer";
        break;
    case ST_E_CLOSED:
        text = "the peer is not there any more";
        break;
    case ST_E_KEY:
        text = "the key is not there, or not for this memory or this use";
        break;
    case ST_E_UNKNOWN:
        text = "the peer has not inserted this address";
        break;
    case ST_E_TRUNCATED:
        text = "the receive is too small";
        break;
    case ST_OK:
        break;
    }
    if (buf != NULL && bytes != 0) {
        (void)snprintf(buf, bytes, "%s", text);
    }
    return text;
}

/* ---------------------------------------------------------------- sleeping */

static ssize_t sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *from,
                         const void *cond, int timeout)
{
    struct st_cq *cq = st_of(fid, struct st_cq, fid);
    uint64_t end = st_now_ms() + (uint64_t)timeout;
    ssize_t rc;

    (void)cond;
    if (!cq->has_fd) {
        return -FI_EINVAL;
    }
    while ((rc = readfrom(fid, buf, count, from)) == -FI_EAGAIN) {
        struct pollfd at = { .fd = cq->epoll, .events = POLLIN };
        uint64_t now = st_now_ms();
        int again;

        if (timeout >= 0 && now >= end) {
            break;
        }
        st_enter(cq->domain);
        again = st_cq_trywait(cq);
        st_leave(cq->domain);
        if (again == 0) {
            (void)poll(&at, 1, timeout < 0 ? -1 : (int)(end - now));
        }
    }
    return rc;
}

static ssize_t sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
    return sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int signal_cq(struct fid_cq *fid)
{
    struct st_cq *cq = st_of(fid, struct st_cq, fid);

    if (!cq->has_fd) {
        return -FI_ENOSYS;
    }
    st_cq_wake(cq, 0);
    return 0;
}

/* ---------------------------------------------------------------- life */

static int cq_control(struct fid *fid, int command, void *arg)
{
    struct st_cq *cq = st_of(fid, struct st_cq, fid.fid);

    if (!cq->has_fd) {
        return -FI_ENOSYS;
    }
    if (command == FI_GETWAIT) {
        *(int *)arg = cq->epoll;
        return 0;
    }
    if (command == FI_GETWAITOBJ) {
        *(enum fi_wait_obj *)arg = FI_WAIT_FD;
        return 0;
    }
    return -FI_ENOSYS;
}

static int cq_close(struct fid *fid)
{
    struct st_cq *cq = st_of(fid, struct st_cq, fid.fid);
    struct st_domain *domain = cq->domain;
    struct st_link *at;
    struct st_link *after;

    st_enter(domain);
    if (cq->users != 0) {
        st_leave(domain);
        st_violation("a completion queue is closed with %d endpoints bound to it", cq->users);
        return -FI_EBUSY;
    }
    st_each(at, after, &cq->done)
    {
        forget(cq, st_of(at, struct st_done, link));
    }
    st_list_del(&cq->link);
    domain->users--;
    st_counts.fids--;
    st_leave(domain);
    if (cq->has_fd) {
        (void)close(cq->timer);
        (void)close(cq->epoll);
    }
    free(cq);
    return 0;
}

static struct fi_ops cq_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = cq_close,
    .bind = st_no_bind,
    .control = cq_control,
    .ops_open = st_ops_open,
};

static struct fi_ops_cq cq_ops = {
    .size = sizeof(struct fi_ops_cq),
    .read = read_entries,
    .readfrom = readfrom,
    .readerr = readerr,
    .sread = sread,
    .sreadfrom = sreadfrom,
    .signal = signal_cq,
    .strerror = error_text,
};

static int make_fd(struct st_cq *cq)
{
    struct epoll_event event = { .events = EPOLLIN };

    cq->epoll = epoll_create1(EPOLL_CLOEXEC);
    cq->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (cq->epoll < 0 || cq->timer < 0 ||
        epoll_ctl(cq->epoll, EPOLL_CTL_ADD, cq->timer, &event) != 0) {
        return -FI_EMFILE;
    }
    cq->has_fd = true;
    return 0;
}

int st_cq_open(struct fid_domain *domain_fid, struct fi_cq_attr *attr, struct fid_cq **cq_fid,
               void *context)
{
    struct st_domain *domain = st_of(domain_fid, struct st_domain, fid);
    bool sleeps = attr->wait_obj == FI_WAIT_FD || attr->wait_obj == FI_WAIT_UNSPEC;
    struct st_cq *cq;

    if ((attr->wait_obj != FI_WAIT_NONE && !sleeps) || (sleeps && st_conf.wait == 0)) {
        return st_unsupported("that wait object") == 0 ? 0 : -FI_ENOSYS;
    }
    cq = calloc(1, sizeof *cq);
    if (cq == NULL || (sleeps && make_fd(cq) != 0)) {
        free(cq);
        return -FI_ENOMEM;
    }
    cq->fid.fid.fclass = FI_CLASS_CQ;
    cq->fid.fid.context = context;
    cq->fid.fid.ops = &cq_fid_ops;
    cq->fid.ops = &cq_ops;
    cq->domain = domain;
    cq->format = attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr->format;
    cq->size = attr->size == 0 ? 128 : attr->size;
    st_list_init(&cq->done);
    st_enter(domain);
    st_list_add(&domain->cqs, &cq->link);
    domain->users++;
    st_counts.fids++;
    st_leave(domain);
    *cq_fid = &cq->fid;
    return 0;
}
