/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The common half of the fabric over a transport made for this test: who is served next, that each
 * done runs once and from progress alone, states of an endpoint, and the way of ops that finish
 * outside the poller.
 */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/transport.h"

#define QUANTUM 1000
#define OPS     4096

/* ---------------------------------------------------------------- a transport of our own */

static uint64_t room = UINT64_MAX; /* bytes it takes before it says STOP */
static struct fab_op *held;        /* an op it has taken and not finished */
static bool holds;                 /* take the next op without finishing it */

static enum fab_try fake_try(struct fab_ep *ep, struct fab_op *op, uint64_t *bytes)
{
    uint64_t left = op->bytes - op->moved;
    uint64_t n = left < *bytes ? left : *bytes;

    n = n < room ? n : room;
    if (n == 0 && left > 0) {
        return FAB_TRY_STOP;
    }
    room -= n;
    *bytes = n;
    op->moved += n;
    if (op->moved < op->bytes) {
        return FAB_TRY_MORE;
    }
    if (holds) {
        holds = false;
        held = op;
    } else {
        fab_op_finish(ep->engine, op, 0);
    }
    return FAB_TRY_TAKEN;
}

static int fake_progress(struct fab_engine *engine)
{
    return fab_engine_serve(engine, fake_try, QUANTUM);
}

static void fake_ep_stop(struct fab_ep *ep, int status)
{
    if (held != NULL && held->ep == ep) {
        fab_op_finish(ep->engine, held, status);
        held = NULL;
    }
}

static void fake_ep_close(struct fab_ep *ep)
{
    fab_ep_fini(ep);
}

static int fake_put_short(struct fab_ep *ep, const struct fab_rkey *rkey, uint64_t offset,
                          const void *src, size_t bytes)
{
    (void)rkey;
    (void)offset;
    (void)src;
    (void)bytes;
    return fab_ep_has_queue(ep) ? ORL_ERR_AGAIN : 0;
}

static int fake_send_short(struct fab_ep *ep, unsigned handler, uint64_t header, const void *src,
                           size_t bytes)
{
    (void)handler;
    (void)header;
    return fake_put_short(ep, NULL, 0, src, bytes);
}

static const struct fab_ep_ops fake_ep_ops = { fake_put_short, fake_send_short, fab_ep_queue,
                                               fab_ep_queue_flush };
static const struct fab_transport_ops fake_ops = {
    .name = "fake", .ep_stop = fake_ep_stop, .ep_close = fake_ep_close, .progress = fake_progress
};

static struct fab fabric;
static struct fab_engine engine;
static struct fab_ep eps[40];

static void open_eps(size_t n, const struct fab_ep_ops *ops)
{
    fab_engine_init(&engine, &fake_ops, &fabric, "fake0");
    fabric.engine[0] = &engine;
    fabric.nengines = 1;
    for (size_t i = 0; i < n; i++) {
        fab_ep_init(&eps[i], &engine, ops, "rank 7");
    }
}

/* ---------------------------------------------------------------- ops that count */

static unsigned times[OPS];
static int statuses[OPS];
static unsigned order[OPS];
static unsigned ndone;
static bool in_progress;
static struct fab_op ops[OPS];

static void on_done(struct fab_op *op, int status)
{
    size_t i = (size_t)(op - ops);

    cr_assert(in_progress, "done outside progress");
    cr_assert_eq(status, op->status);
    times[i]++;
    statuses[i] = status;
    order[ndone++] = (unsigned)i;
}

static void poll_once(void)
{
    in_progress = true;
    (void)fab_progress(&fabric);
    in_progress = false;
}

static struct fab_op *make(size_t i, uint64_t bytes)
{
    ops[i] = (struct fab_op){ .done = on_done, .kind = FAB_OP_PUT, .bytes = bytes };
    return &ops[i];
}

static void post(struct fab_ep *ep, size_t i, uint64_t bytes)
{
    fab_post(ep, make(i, bytes));
}

/* covers: H4 */
Test(engine, small_is_not_behind_large)
{
    open_eps(2, &fake_ep_ops);
    post(&eps[0], 0, UINT64_C(1) << 30);
    for (int i = 0; i < 5; i++) {
        poll_once();
    }
    post(&eps[1], 1, 8);
    cr_assert_eq(times[1], 0, "done before the next progress");
    poll_once();
    cr_assert_eq(times[1], 1);
    cr_assert_eq(times[0], 0);
    cr_assert_leq(ops[0].moved, 7 * QUANTUM);
    cr_assert_geq(ops[0].moved, 5 * QUANTUM);
}

/* covers: H4 */
Test(engine, turns_are_by_bytes)
{
    open_eps(2, &fake_ep_ops);
    for (size_t i = 0; i < 2000; i++) {
        post(&eps[i % 2], i, i % 2 == 0 ? 100 : 3000);
    }
    for (int i = 0; i < 60; i++) {
        poll_once();
    }
    uint64_t moved[2] = { 0, 0 };
    for (size_t i = 0; i < 2000; i++) {
        moved[i % 2] += ops[i].moved;
    }
    cr_assert_eq(moved[0], 60 * QUANTUM);
    cr_assert_eq(moved[1], 60 * QUANTUM);
}

/* covers: H4 */
Test(engine, many_endpoints_all_get_turns)
{
    open_eps(40, &fake_ep_ops);
    for (size_t i = 0; i < 40; i++) {
        post(&eps[i], i, 10 * QUANTUM);
    }
    for (int i = 0; i < 3; i++) {
        poll_once();
    }
    for (size_t i = 0; i < 40; i++) {
        cr_assert_geq(ops[i].moved, QUANTUM, "endpoint %zu has had no turn", i);
        cr_assert_leq(ops[i].moved, 2 * QUANTUM);
    }
}

Test(engine, nothing_is_saved_up)
{
    open_eps(1, &fake_ep_ops);
    room = 0;
    post(&eps[0], 0, 100 * QUANTUM);
    for (int i = 0; i < 50; i++) {
        poll_once();
    }
    cr_assert_eq(ops[0].moved, 0);
    room = UINT64_MAX;
    poll_once();
    cr_assert_eq(ops[0].moved, QUANTUM);
}

Test(engine, done_once_in_order)
{
    open_eps(1, &fake_ep_ops);
    for (size_t i = 0; i < 300; i++) {
        make(i, i * 7);
        ops[i].link.next = i < 299 ? &ops[i + 1].link : NULL;
    }
    cr_assert_not(fab_is_busy(&fabric));
    fab_post(&eps[0], &ops[0]);
    cr_assert(fab_is_busy(&fabric));
    cr_assert_eq(fab_put_short(&eps[0], NULL, 0, NULL, 0), ORL_ERR_AGAIN);
    cr_assert_eq(ndone, 0);
    while (ndone < 300) {
        poll_once();
    }
    poll_once();
    for (size_t i = 0; i < 300; i++) {
        cr_assert_eq(times[i], 1);
        cr_assert_eq(order[i], i);
    }
    cr_assert_not(fab_is_busy(&fabric));
    cr_assert_eq(eps[0].posted, 300);
    cr_assert_eq(eps[0].finished, 300);
    cr_assert_eq(orl_stat_get(&engine.stats, ORL_STAT_COMPLETED), 300);
    cr_assert_eq(fab_put_short(&eps[0], NULL, 0, NULL, 0), 0);
}

Test(engine, connecting_waits)
{
    open_eps(1, &fab_connecting_ops);
    for (size_t i = 0; i < 10; i++) {
        post(&eps[0], i, 8);
    }
    cr_assert_eq(fab_send_short(&eps[0], 0, 0, NULL, 0), ORL_ERR_AGAIN);
    poll_once();
    cr_assert_eq(ndone, 0);
    fab_ep_ready(&eps[0], &fake_ep_ops);
    poll_once();
    cr_assert_eq(ndone, 10);
    cr_assert_eq(order[9], 9);
}

/* covers: I4 I10 */
Test(engine, failure_ends_all)
{
    open_eps(1, &fake_ep_ops);
    holds = true;
    post(&eps[0], 0, 8);
    poll_once();
    cr_assert_not_null(held);
    post(&eps[0], 1, 100 * QUANTUM);
    poll_once();
    fab_ep_peer_gone(&eps[0], "process 1 died");
    fab_ep_peer_gone(&eps[0], "another reason");
    post(&eps[0], 2, 8);
    cr_assert_eq(ndone, 0);
    poll_once();
    cr_assert_eq(ndone, 3);
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(times[i], 1);
        cr_assert_eq(order[i], i);
        cr_assert_eq(statuses[i], ORL_ERR_PEER);
    }
    cr_assert_eq(fab_put_short(&eps[0], NULL, 0, NULL, 0), ORL_ERR_PEER);
    cr_assert_str_eq(orl_last_error(), "rank 7: process 1 died");
    cr_assert_eq(engine.nwaiting, 0);
    fab_ep_close(&eps[0]);
    cr_assert(orl_list_is_empty(&engine.eps));
}

Test(engine, stop_cancels)
{
    open_eps(1, &fake_ep_ops);
    post(&eps[0], 0, 100 * QUANTUM);
    poll_once();
    fab_ep_stop(&eps[0]);
    uint64_t moved = ops[0].moved;
    poll_once();
    cr_assert_eq(times[0], 1);
    cr_assert_eq(statuses[0], ORL_ERR_CANCELED);
    cr_assert_eq(ops[0].moved, moved);
    fab_flush(&eps[0], make(1, 0));
    poll_once();
    cr_assert_eq(statuses[1], ORL_ERR_CANCELED);
}

static void stop_in_done(struct fab_op *op, int status)
{
    cr_assert_eq(status, 0);
    cr_assert_eq(fab_progress(&fabric), 0, "a done function polls anew");
    fab_ep_stop(&eps[1]);
    times[op - ops]++;
}

Test(engine, done_may_stop_another, .timeout = 20)
{
    open_eps(2, &fake_ep_ops);
    make(0, 8)->done = stop_in_done;
    fab_post(&eps[0], &ops[0]);
    post(&eps[1], 1, 100 * QUANTUM);
    poll_once();
    cr_assert_eq(times[0], 1);
    poll_once();
    cr_assert_eq(statuses[1], ORL_ERR_CANCELED);
}

/* ---------------------------------------------------------------- finished outside the poller */

static atomic_uint posted;

static void *post_to_failed(void *arg)
{
    size_t first = (size_t)(uintptr_t)arg * 1000;

    for (size_t i = first; i < first + 1000; i++) {
        post(&eps[0], i, 8);
        atomic_fetch_add(&posted, 1);
    }
    return NULL;
}

Test(engine, failed_table_from_any_thread, .timeout = 60)
{
    pthread_t threads[4];

    open_eps(1, &fake_ep_ops);
    fab_ep_peer_gone(&eps[0], "dead");
    in_progress = true;
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, post_to_failed, (void *)i), 0);
    }
    while (ndone < 4000) {
        (void)fab_progress(&fabric);
    }
    for (size_t i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    (void)fab_progress(&fabric);
    cr_assert_eq(ndone, 4000);
    for (size_t i = 0; i < 4000; i++) {
        cr_assert_eq(times[i], 1);
        cr_assert_eq(statuses[i], ORL_ERR_PEER);
    }
    cr_assert_eq(eps[0].posted, eps[0].finished);
}
