/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping at a completion queue. The descriptor is an epoll set of the inner provider's queues and
 * of a timer, which goes off when something held back is due, or when another thread moved what the
 * sleeper waits for.
 */
#include "strict.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

void st_cq_wake(const struct st_cq *cq, int ms)
{
    struct itimerspec in = { 0 };

    if (ms < 0) {
        return;
    }
    in.it_value.tv_sec = ms / 1000;
    in.it_value.tv_nsec = ms == 0 ? 20000 : (long)(ms % 1000) * 1000000;
    (void)timerfd_settime(cq->timer, 0, &in, NULL);
}

/* What sleeps will be woken in that many milliseconds at the latest. */
static int due_in(struct st_cq *cq)
{
    return !st_list_is_empty(&cq->done) ? 0 : st_wire_due(cq->domain);
}

void st_cq_rouse(struct st_domain *domain)
{
    struct st_link *at;

    for (at = domain->cqs.next; at != &domain->cqs; at = at->next) {
        struct st_cq *cq = st_of(at, struct st_cq, link);

        if (cq->is_armed && due_in(cq) == 0) {
            cq->is_armed = false;
            st_cq_wake(cq, 0);
        }
    }
}

/* Either answer is right while something is held back: -FI_EAGAIN now, or a sleep that ends. */
int st_cq_trywait(struct st_cq *cq)
{
    struct itimerspec off = { 0 };
    struct st_link *at;
    int ms;

    if (!cq->has_fd) {
        return -FI_EINVAL;
    }
    ms = due_in(cq);
    if (st_cq_first(cq) != NULL || (ms == 0 && st_random(2) == 0)) {
        return -FI_EAGAIN;
    }
    for (at = cq->domain->eps.next; at != &cq->domain->eps; at = at->next) {
        struct st_ep *ep = st_of(at, struct st_ep, link);
        struct fid *fid = &ep->inner_cq->fid;

        if (ep->is_enabled && fi_trywait(cq->domain->fabric->inner, &fid, 1) != 0) {
            return -FI_EAGAIN;
        }
    }
    (void)timerfd_settime(cq->timer, 0, &off, NULL);
    cq->is_armed = ms != 0;
    st_cq_wake(cq, ms);
    return 0;
}

int st_cq_watch(struct st_cq *cq, struct st_ep *ep)
{
    struct epoll_event event = { .events = EPOLLIN };
    int fd = -1;
    int rc;

    if (!cq->has_fd) {
        return 0;
    }
    rc = fi_control(&ep->inner_cq->fid, FI_GETWAIT, &fd);
    if (rc == 0 && epoll_ctl(cq->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        rc = -FI_EBADF;
    }
    return rc;
}

void st_cq_unwatch(struct st_cq *cq, struct st_ep *ep)
{
    int fd = -1;

    if (cq->has_fd && fi_control(&ep->inner_cq->fid, FI_GETWAIT, &fd) == 0) {
        (void)epoll_ctl(cq->epoll, EPOLL_CTL_DEL, fd, NULL);
    }
}
