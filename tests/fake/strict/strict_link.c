/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inner provider's objects of an endpoint: opened with it, and closed when what was promised
 * has gone out.
 */
#include "strict.h"

#include <stdlib.h>
#include <unistd.h>

#define CLOSE_MS 500 /* at most, to send what was promised */

static int open_inner(struct st_ep *ep)
{
    struct st_domain *domain = ep->domain;
    struct fi_cq_attr cq_attr = { .size = 4096,
                                  .format = FI_CQ_FORMAT_MSG,
                                  .wait_obj = st_conf.wait != 0 ? FI_WAIT_FD : FI_WAIT_NONE };
    struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
    size_t bytes = sizeof ep->self.byte;
    int rc = fi_endpoint(domain->inner, domain->inner_info, &ep->inner, NULL);

    rc = rc != 0 ? rc : fi_cq_open(domain->inner, &cq_attr, &ep->inner_cq, NULL);
    rc = rc != 0 ? rc : fi_av_open(domain->inner, &av_attr, &ep->inner_av, NULL);
    rc = rc != 0 ? rc : fi_ep_bind(ep->inner, &ep->inner_cq->fid, FI_TRANSMIT | FI_RECV);
    rc = rc != 0 ? rc : fi_ep_bind(ep->inner, &ep->inner_av->fid, 0);
    rc = rc != 0 ? rc : fi_enable(ep->inner);
    rc = rc != 0 ? rc : fi_getname(&ep->inner->fid, ep->self.byte, &bytes);
    ep->self.bytes = (uint32_t)bytes;
    return rc;
}

static void free_inner(struct st_ep *ep)
{
    size_t i;

    if (ep->inner != NULL) {
        (void)fi_close(&ep->inner->fid);
    }
    if (ep->inner_av != NULL) {
        (void)fi_close(&ep->inner_av->fid);
    }
    if (ep->inner_cq != NULL) {
        (void)fi_close(&ep->inner_cq->fid);
    }
    for (i = 0; ep->buffer != NULL && i < ep->nbuffers; i++) {
        free(ep->buffer[i].bytes);
    }
    free(ep->buffer);
    ep->inner = NULL;
    ep->inner_av = NULL;
    ep->inner_cq = NULL;
    ep->buffer = NULL;
    ep->is_enabled = false;
}

int st_wire_open(struct st_ep *ep)
{
    size_t most = st_conf.rma_max > st_conf.msg_max ? st_conf.rma_max : st_conf.msg_max;
    int rc = open_inner(ep);
    size_t i;

    ep->nbuffers = most > 65536 ? 16 : 64;
    ep->buffer_bytes = sizeof(struct st_header) + most;
    ep->buffer = rc == 0 ? calloc(ep->nbuffers, sizeof *ep->buffer) : NULL;
    for (i = 0; rc == 0 && i < ep->nbuffers; i++) {
        ep->buffer[i].bytes = malloc(ep->buffer_bytes);
        if (ep->buffer[i].bytes == NULL) {
            rc = -FI_ENOMEM;
        } else {
            st_wire_listen(ep, &ep->buffer[i]);
        }
    }
    if (rc != 0) {
        free_inner(ep);
    }
    return rc;
}

/* What was completed must arrive, and peers wait for answers. */
static bool owes(const struct st_ep *ep)
{
    const struct st_link *at;

    for (at = ep->arrivals.next; at != &ep->arrivals; at = at->next) {
        if (!st_of(at, const struct st_arrival, link)->is_stuck) {
            return true;
        }
    }
    return !st_list_is_empty(&ep->frames);
}

void st_wire_close(struct st_ep *ep)
{
    uint64_t end = st_now_ms() + CLOSE_MS;
    struct st_link *at;
    struct st_link *after;

    while (ep->is_enabled && owes(ep) && st_now_ms() < end) {
        ep->domain->tick++;
        st_progress(ep->domain);
        st_unlock();
        (void)usleep(20);
        st_lock();
    }
    free_inner(ep);
    st_each(at, after, &ep->frames)
    {
        struct st_frame *frame = st_of(at, struct st_frame, link);

        st_list_del(&frame->link);
        st_free(frame);
    }
    st_each(at, after, &ep->arrivals)
    {
        struct st_arrival *arrival = st_of(at, struct st_arrival, link);

        st_list_del(&arrival->link);
        st_free(arrival);
    }
}
