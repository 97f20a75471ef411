/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The half of an engine that all transports share: who polls, which endpoint is served next, and
 * the batch of finished ops whose done functions run when the transport's progress has returned.
 * Called by the core (progress) and by transports (serve, finish). Locks: the poller, which is
 * only tried, around everything that runs done functions and handlers; tx, a leaf, around
 * endpoint queues. Endpoint states are ep.c's business.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "fabric/fabric.h"
#include "fabric/transport.h"

/* One endpoint's turn: at most so many ops, and an op counts as at least so many bytes. */
#define TURN_OPS  64
#define OP_CHARGE 64

/* Its address names the thread; the content is not used. */
static ORL_TLS char thread_mark;

static bool try_poller(struct fab_engine *engine) ORL_NO_LOCK_ANALYSIS;

void fab_engine_init(struct fab_engine *engine, const struct fab_transport_ops *ops,
                     struct fab *fabric, const char *name)
{
    engine->transport = ops;
    engine->fabric = fabric;
    engine->index = fabric->nengines;
    (void)snprintf(engine->name, sizeof(engine->name), "%s", name);
    orl_lock_init(&engine->poller, ORL_RANK_POLLER, "engine poller");
    orl_lock_init(&engine->tx, ORL_RANK_TX, "engine tx");
    orl_list_init(&engine->eps);
    orl_list_init(&engine->active);
    orl_fifo_init(&engine->finished);
    orl_mpsc_init(&engine->failed);
    atomic_init(&engine->nwaiting, 0);
    atomic_init(&engine->nposted, 0);
    atomic_init(&engine->ndone, 0);
    atomic_init(&engine->polling, NULL);
    engine->neps = 0;
    memset(&engine->stats, 0, sizeof(engine->stats));
    orl_trace_init(&engine->trace, engine->name);
}

void fab_engine_fini(struct fab_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    orl_lock_fini(&engine->poller);
    orl_lock_fini(&engine->tx);
}

static bool try_poller(struct fab_engine *engine)
{
    if (!orl_trylock(&engine->poller)) {
        return false;
    }
    atomic_store_explicit(&engine->polling, &thread_mark, memory_order_relaxed);
    return true;
}

bool fab_poller_take(struct fab_engine *engine)
{
    /* Only this thread can have stored its own mark, so a relaxed load cannot be wrong. */
    if (atomic_load_explicit(&engine->polling, memory_order_relaxed) == &thread_mark) {
        return false;
    }
    while (!try_poller(engine)) {
        (void)sched_yield();
    }
    return true;
}

void fab_poller_give(struct fab_engine *engine)
{
    atomic_store_explicit(&engine->polling, NULL, memory_order_relaxed);
    orl_unlock(&engine->poller);
}

/* ---------------------------------------------------------------- finished ops */

void fab_op_finish(struct fab_engine *engine, struct fab_op *op, int status)
{
    op->status = status;
    op->ep->finished++;
    orl_fifo_push(&engine->finished, &op->link);
}

void fab_op_finish_later(struct fab_engine *engine, struct fab_op *op, int status)
{
    op->status = status;
    (void)orl_mpsc_push(&engine->failed, &op->link);
}

/* The recorder and the counters have one writer, whoever holds tx: one taking for the batch. */
static void record_batch(struct fab_engine *engine, const struct orl_fifo *batch)
{
    struct orl_link *link;

    orl_lock(&engine->tx);
    orl_fifo_each(link, batch) {
        const struct fab_op *op = container_of(link, struct fab_op, link);

        if (op->status == 0) {
            orl_trace_add(&engine->trace, ORL_TRACE_DONE, op->ep->number, op->bytes, op->kind);
            orl_stat_add(&engine->stats, ORL_STAT_COMPLETED, 1);
        } else {
            orl_trace_add(&engine->trace, ORL_TRACE_FAIL, op->ep->number, (uint64_t)-op->status,
                          op->kind);
            orl_stat_add(&engine->stats, ORL_STAT_FAILED, 1);
        }
    }
    orl_unlock(&engine->tx);
}

static int run_batch(struct fab_engine *engine)
{
    struct orl_fifo batch;
    struct orl_link *link;
    int n = 0;

    while ((link = orl_mpsc_pop(&engine->failed)) != NULL) {
        container_of(link, struct fab_op, link)->ep->finished++;
        orl_fifo_push(&engine->finished, link);
    }
    if (orl_fifo_is_empty(&engine->finished)) {
        return 0;
    }
    /* What done functions finish in their turn is for the next call: a batch is bounded. */
    orl_fifo_init(&batch);
    orl_fifo_splice(&batch, &engine->finished);
    record_batch(engine, &batch);
    while ((link = orl_fifo_pop(&batch)) != NULL) {
        struct fab_op *op = container_of(link, struct fab_op, link);

        op->done(op, op->status);
        n++;
    }
    uint64_t done = atomic_load_explicit(&engine->ndone, memory_order_relaxed);
    atomic_store_explicit(&engine->ndone, done + (uint64_t)n, memory_order_release);
    return n;
}

int fab_engine_progress(struct fab_engine *engine)
{
    if (!try_poller(engine)) {
        return 0;
    }
    int events = engine->transport->progress(engine);
    events += run_batch(engine);
    fab_poller_give(engine);
    return events;
}

/* ---------------------------------------------------------------- service */

static void add_waiting(struct fab_engine *engine, uint32_t n)
{
    uint32_t old = atomic_load_explicit(&engine->nwaiting, memory_order_relaxed);

    atomic_store_explicit(&engine->nwaiting, old + n, memory_order_relaxed);
}

/* One try at the endpoint's head. False: the turn ends. */
static bool serve_op(struct fab_ep *ep, fab_try_fn fn, int *events)
{
    struct fab_engine *engine = ep->engine;
    uint64_t bytes = (uint64_t)ep->deficit;

    orl_lock(&engine->tx);
    struct orl_link *link = orl_fifo_pop(&ep->queue);
    if (link == NULL) {
        orl_unlock(&engine->tx);
        return false;
    }
    /* The link is free during the try: the transport may finish the op at once. */
    enum fab_try result = fn(ep, container_of(link, struct fab_op, link), &bytes);
    if (result == FAB_TRY_TAKEN) {
        add_waiting(engine, (uint32_t)-1);
    } else {
        orl_fifo_push_head(&ep->queue, link);
    }
    orl_unlock(&engine->tx);
    if (result == FAB_TRY_STOP) {
        return false;
    }
    ep->deficit -= (int64_t)(bytes > OP_CHARGE ? bytes : OP_CHARGE);
    (*events)++;
    return true;
}

static int serve_turn(struct fab_ep *ep, fab_try_fn fn, uint64_t quantum)
{
    struct fab_engine *engine = ep->engine;
    int events = 0;
    bool more = true;

    ep->deficit += (int64_t)quantum;
    for (int i = 0; i < TURN_OPS && more && ep->deficit > 0; i++) {
        more = serve_op(ep, fn, &events);
    }
    orl_lock(&engine->tx);
    orl_list_del(&ep->active);
    if (!fab_ep_has_queue(ep)) {
        ep->deficit = 0;
    } else {
        /* An endpoint that could not use its turn saves nothing up; one that overdrew, pays. */
        ep->deficit = ep->deficit > 0 ? 0 : ep->deficit;
        orl_list_add_tail(&engine->active, &ep->active);
    }
    orl_unlock(&engine->tx);
    return events;
}

int fab_engine_serve(struct fab_engine *engine, fab_try_fn fn, uint64_t quantum)
{
    struct orl_list *it;
    int turns = 0;
    int events = 0;

    if (atomic_load_explicit(&engine->nwaiting, memory_order_relaxed) == 0) {
        return 0;
    }
    orl_lock(&engine->tx);
    orl_list_each(it, &engine->active) {
        if (++turns == FAB_BATCH) {
            break;
        }
    }
    orl_unlock(&engine->tx);
    for (; turns > 0; turns--) {
        orl_lock(&engine->tx);
        struct orl_list *head = orl_list_head(&engine->active);
        orl_unlock(&engine->tx);
        if (head == NULL) {
            break;
        }
        events += serve_turn(container_of(head, struct fab_ep, active), fn, quantum);
    }
    return events;
}

/* ---------------------------------------------------------------- posting */

/* tx held. */
static void count_posted(struct fab_ep *ep, struct fab_op *op)
{
    struct fab_engine *engine = ep->engine;
    uint64_t posted = atomic_load_explicit(&engine->nposted, memory_order_relaxed);

    op->ep = ep;
    op->moved = 0;
    op->flags = 0;
    op->status = 0;
    ep->posted++;
    atomic_store_explicit(&engine->nposted, posted + 1, memory_order_relaxed);
    orl_stat_add(&engine->stats, ORL_STAT_POSTED, 1);
    orl_trace_add(&engine->trace, ORL_TRACE_POST, ep->number, op->bytes, ep->posted);
}

static struct fab_op *next_of(const struct fab_op *op)
{
    return op->link.next == NULL ? NULL : container_of(op->link.next, struct fab_op, link);
}

void fab_ep_queue(struct fab_ep *ep, struct fab_op *chain)
{
    struct fab_engine *engine = ep->engine;

    orl_lock(&engine->tx);
    uint32_t state = atomic_load_explicit(&ep->state, memory_order_relaxed);
    if (state == FAB_EP_FAILED || state == FAB_EP_STOPPING) {
        /* The table was swapped while the caller was on its way here. */
        int status = ep->status;
        orl_unlock(&engine->tx);
        fab_ep_reject(ep, chain, status);
        return;
    }
    for (struct fab_op *op = chain, *next; op != NULL; op = next) {
        next = next_of(op);
        count_posted(ep, op);
        orl_fifo_push(&ep->queue, &op->link);
        add_waiting(engine, 1);
    }
    if (state == FAB_EP_READY && fab_ep_has_queue(ep) && orl_list_is_empty(&ep->active)) {
        orl_list_add_tail(&engine->active, &ep->active);
    }
    orl_unlock(&engine->tx);
}

void fab_ep_reject(struct fab_ep *ep, struct fab_op *chain, int status)
{
    struct fab_engine *engine = ep->engine;

    for (struct fab_op *op = chain, *next; op != NULL; op = next) {
        next = next_of(op);
        orl_lock(&engine->tx);
        count_posted(ep, op);
        orl_unlock(&engine->tx);
        fab_op_finish_later(engine, op, status);
    }
}
