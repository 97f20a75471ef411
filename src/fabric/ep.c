/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoint states and the two data tables all transports share: connecting, which lets every op
 * wait, and failed, which ends every op with the endpoint's status. A change of state is one
 * store of the table pointer under the engine's tx lock, so the data path asks nothing. Called by
 * the core (open, stop, close) and by transports (init, ready, fail). Does not know how a
 * transport moves data.
 */
#include <stdio.h>

#include "base/conf.h"
#include "base/log.h"
#include "fabric/fabric.h"
#include "fabric/transport.h"

/* ---------------------------------------------------------------- connecting table */

static int connecting_put_short(struct fab_ep *ep, const struct fab_rkey *rkey, uint64_t offset,
                                const void *src, size_t bytes)
{
    (void)ep;
    (void)rkey;
    (void)offset;
    (void)src;
    (void)bytes;
    return ORL_ERR_AGAIN;
}

static int connecting_send_short(struct fab_ep *ep, unsigned handler, uint64_t header,
                                 const void *src, size_t bytes)
{
    (void)ep;
    (void)handler;
    (void)header;
    (void)src;
    (void)bytes;
    return ORL_ERR_AGAIN;
}

void fab_ep_queue_flush(struct fab_ep *ep, struct fab_op *op)
{
    op->kind = FAB_OP_FLUSH;
    op->bytes = 0;
    op->link.next = NULL;
    fab_ep_queue(ep, op);
}

const struct fab_ep_ops fab_connecting_ops = {
    .put_short = connecting_put_short,
    .send_short = connecting_send_short,
    .post = fab_ep_queue,
    .flush = fab_ep_queue_flush,
};

/* ---------------------------------------------------------------- failed table */

static int say_failed(const struct fab_ep *ep)
{
    return orl_fail(ep->status, "%s", ep->cause);
}

static int failed_put_short(struct fab_ep *ep, const struct fab_rkey *rkey, uint64_t offset,
                            const void *src, size_t bytes)
{
    (void)rkey;
    (void)offset;
    (void)src;
    (void)bytes;
    return say_failed(ep);
}

static int failed_send_short(struct fab_ep *ep, unsigned handler, uint64_t header, const void *src,
                             size_t bytes)
{
    (void)handler;
    (void)header;
    (void)src;
    (void)bytes;
    return say_failed(ep);
}

static void failed_post(struct fab_ep *ep, struct fab_op *chain)
{
    fab_ep_reject(ep, chain, ep->status);
}

static void failed_flush(struct fab_ep *ep, struct fab_op *op)
{
    op->kind = FAB_OP_FLUSH;
    op->bytes = 0;
    op->link.next = NULL;
    fab_ep_reject(ep, op, ep->status);
}

const struct fab_ep_ops fab_failed_ops = {
    .put_short = failed_put_short,
    .send_short = failed_send_short,
    .post = failed_post,
    .flush = failed_flush,
};

/* ---------------------------------------------------------------- for transports */

void fab_ep_init(struct fab_ep *ep, struct fab_engine *engine, const struct fab_ep_ops *ops,
                 const char *label)
{
    bool connecting = ops == &fab_connecting_ops;

    ep->engine = engine;
    atomic_init(&ep->ops, ops);
    atomic_init(&ep->state, connecting ? FAB_EP_CONNECTING : FAB_EP_READY);
    ep->status = 0;
    orl_fifo_init(&ep->queue);
    orl_list_init(&ep->active);
    ep->deficit = 0;
    ep->posted = 0;
    ep->finished = 0;
    ep->user = NULL;
    (void)snprintf(ep->label, sizeof(ep->label), "%s", label == NULL ? "peer" : label);
    ep->cause[0] = '\0';
    orl_lock(&engine->tx);
    ep->number = engine->neps++;
    orl_list_init(&ep->all);
    orl_list_add_tail(&engine->eps, &ep->all);
    orl_trace_mark(&engine->trace, ORL_TRACE_CONNECT, ep->number, FAB_EP_CONNECTING,
                   connecting ? FAB_EP_CONNECTING : FAB_EP_READY);
    orl_unlock(&engine->tx);
}

void fab_ep_fini(struct fab_ep *ep)
{
    orl_lock(&ep->engine->tx);
    orl_list_del(&ep->all);
    orl_list_del(&ep->active);
    orl_unlock(&ep->engine->tx);
}

void fab_ep_ready(struct fab_ep *ep, const struct fab_ep_ops *ops)
{
    struct fab_engine *engine = ep->engine;

    orl_lock(&engine->tx);
    if (atomic_load_explicit(&ep->state, memory_order_relaxed) == FAB_EP_CONNECTING) {
        atomic_store_explicit(&ep->state, FAB_EP_READY, memory_order_release);
        atomic_store_explicit(&ep->ops, ops, memory_order_release);
        orl_trace_mark(&engine->trace, ORL_TRACE_CONNECT, ep->number, FAB_EP_CONNECTING,
                       FAB_EP_READY);
        if (fab_ep_has_queue(ep)) {
            orl_list_add_tail(&engine->active, &ep->active);
        }
    }
    orl_unlock(&engine->tx);
}

/* Swap to the failed table and take what waits. False: it had failed or been stopped before. */
static bool swap_to_failed(struct fab_ep *ep, enum fab_ep_state state, int status,
                           const char *cause, struct orl_fifo *waiting)
{
    struct fab_engine *engine = ep->engine;
    struct orl_link *link;
    uint32_t n = 0;

    orl_lock(&engine->tx);
    uint32_t old = atomic_load_explicit(&ep->state, memory_order_relaxed);
    if (old == FAB_EP_FAILED || old == FAB_EP_STOPPING) {
        orl_unlock(&engine->tx);
        return false;
    }
    ep->status = status;
    (void)snprintf(ep->cause, sizeof(ep->cause), "%s: %s", ep->label, cause);
    atomic_store_explicit(&ep->state, state, memory_order_release);
    atomic_store_explicit(&ep->ops, &fab_failed_ops, memory_order_release);
    orl_fifo_splice(waiting, &ep->queue);
    orl_list_del(&ep->active);
    ep->deficit = 0;
    orl_fifo_each(link, waiting) {
        n++;
    }
    uint32_t nwaiting = atomic_load_explicit(&engine->nwaiting, memory_order_relaxed);
    atomic_store_explicit(&engine->nwaiting, nwaiting - n, memory_order_relaxed);
    orl_trace_mark(&engine->trace, ORL_TRACE_CONNECT, ep->number, old, state);
    orl_unlock(&engine->tx);
    return true;
}

/* Poller held. What the transport holds was posted earlier, so it is finished first. */
static void end_ep(struct fab_ep *ep, enum fab_ep_state state, int status, const char *cause)
{
    struct fab_engine *engine = ep->engine;
    struct orl_fifo waiting;
    struct orl_link *link;

    orl_fifo_init(&waiting);
    if (!swap_to_failed(ep, state, status, cause, &waiting)) {
        return;
    }
    engine->transport->ep_stop(ep, status);
    while ((link = orl_fifo_pop(&waiting)) != NULL) {
        fab_op_finish(engine, container_of(link, struct fab_op, link), status);
    }
}

void fab_ep_fail(struct fab_ep *ep, int status, const char *cause)
{
    uint32_t state = atomic_load_explicit(&ep->state, memory_order_relaxed);

    if (state == FAB_EP_FAILED || state == FAB_EP_STOPPING) {
        return;
    }
    orl_log_info(ORL_CAT_FABRIC, "%s over %s: %s", ep->label, ep->engine->name, cause);
    end_ep(ep, FAB_EP_FAILED, status, cause);
    if (orl_conf.trace_dump && orl_trace_dump(&ep->engine->trace, 2) != 0) {
        orl_log_debug(ORL_CAT_FABRIC, "the flight recorder could not be written");
    }
}

/* ---------------------------------------------------------------- for the core */

int fab_ep_open(struct fab_engine *engine, const void *address, size_t bytes, const char *label,
                struct fab_ep **ep)
{
    if (bytes != engine->limits.address_bytes) {
        return orl_fail(ORL_ERR_INVAL, "an address of %s has %zu bytes, not %zu", engine->name,
                        engine->limits.address_bytes, bytes);
    }
    return engine->transport->ep_open(engine, address, bytes, label, ep);
}

void fab_ep_stop(struct fab_ep *ep)
{
    if (ep == NULL) {
        return;
    }
    bool taken = fab_poller_take(ep->engine);
    end_ep(ep, FAB_EP_STOPPING, ORL_ERR_CANCELED, "stopped");
    if (taken) {
        fab_poller_give(ep->engine);
    }
}

void fab_ep_peer_gone(struct fab_ep *ep, const char *cause)
{
    bool taken = fab_poller_take(ep->engine);

    fab_ep_fail(ep, ORL_ERR_PEER, cause);
    if (taken) {
        fab_poller_give(ep->engine);
    }
}

void fab_ep_close(struct fab_ep *ep)
{
    if (ep == NULL) {
        return;
    }
    if (ep->posted != ep->finished) {
        orl_log_error(ORL_CAT_FABRIC, "%s over %s is closed with %llu operations unfinished",
                      ep->label, ep->engine->name, (unsigned long long)(ep->posted - ep->finished));
        fab_ep_stop(ep);
    }
    /* With the poller no progress of another thread can be about to look at the endpoint. */
    struct fab_engine *engine = ep->engine;
    bool taken = fab_poller_take(engine);
    engine->transport->ep_close(ep);
    if (taken) {
        fab_poller_give(engine);
    }
}
