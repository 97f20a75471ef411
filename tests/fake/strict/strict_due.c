/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When something held back is due: in milliseconds for who sleeps, in ticks for who polls.
 */
#include "strict.h"

static int sooner(int a, int b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

static int ep_due(const struct st_ep *ep)
{
    const struct st_link *at;
    int ms = -1;

    for (at = ep->arrivals.next; at != &ep->arrivals; at = at->next) {
        ms = sooner(ms, st_of(at, const struct st_arrival, link)->is_stuck ? -1 : 0);
    }
    for (at = ep->ops.next; at != &ep->ops; at = at->next) {
        const struct st_op *op = st_of(at, const struct st_op, link);

        ms = sooner(ms, op->state == ST_POSTED && op->is_rung ? 0
                        : op->is_answered                     ? -1
                                                              : ST_PING_MS);
    }
    for (at = ep->frames.next; at != &ep->frames; at = at->next) {
        const struct st_frame *frame = st_of(at, const struct st_frame, link);

        ms = sooner(ms, frame->is_out ? -1 : frame->is_blocked ? 5 : 0);
    }
    return ms;
}

int st_wire_due(const struct st_domain *domain)
{
    const struct st_link *at;
    int ms = -1;

    for (at = domain->eps.next; at != &domain->eps; at = at->next) {
        ms = sooner(ms, ep_due(st_of(at, const struct st_ep, link)));
    }
    return ms;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t ep_next(const struct st_ep *ep)
{
    const struct st_link *at;
    uint64_t next = UINT64_MAX;

    for (at = ep->arrivals.next; at != &ep->arrivals; at = at->next) {
        const struct st_arrival *arrival = st_of(at, const struct st_arrival, link);

        next = arrival->is_stuck ? next : earlier(next, arrival->due);
    }
    for (at = ep->ops.next; at != &ep->ops; at = at->next) {
        const struct st_op *op = st_of(at, const struct st_op, link);

        next = op->state == ST_POSTED && op->is_rung ? earlier(next, op->due) : next;
    }
    for (at = ep->frames.next; at != &ep->frames; at = at->next) {
        const struct st_frame *frame = st_of(at, const struct st_frame, link);

        next = frame->is_out ? next : earlier(next, frame->due);
    }
    return next;
}

uint64_t st_wire_next(const struct st_domain *domain)
{
    const struct st_link *at;
    uint64_t next = UINT64_MAX;

    for (at = domain->eps.next; at != &domain->eps; at = at->next) {
        next = earlier(next, ep_next(st_of(at, const struct st_ep, link)));
    }
    return next;
}
