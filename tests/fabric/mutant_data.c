/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Planted faults in when data moves: flush, sources, landings, notify, order of visibility.
 */
#include "mutant.h"

#include <string.h>
#include <time.h>

/* ---------------------------------------------------------------- too early, too late */

/* The user hears at the next poll; the op goes some polls later. */
static void promise(struct mutant_ep *mep, struct fab_op *op, struct mutant_shadow *real,
                    unsigned ticks)
{
    mutant_later(mutant_shadow(mep, op), 0, mutant_finish_fine);
    real->user = NULL;
    mutant_later(real, ticks, NULL);
}

static void flush_early(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow;

    if (op->kind == FAB_OP_FLUSH) {
        /* To the front: it waits for nothing. */
        shadow = mutant_shadow(mep, op);
        shadow->run = mutant_finish_fine;
        orl_fifo_push_head(&mep->engine->late, &shadow->link);
        return;
    }
    shadow = mutant_shadow(mep, op);
    if (op->kind == FAB_OP_PUT) {
        mutant_take_copy(shadow, op->local, op->bytes);
        promise(mep, op, shadow, 2);
    } else {
        mutant_post(shadow);
    }
}

static struct mutant_shadow *short_put(struct mutant_ep *mep, const struct fab_rkey *key,
                                       uint64_t offset, size_t bytes)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, NULL);

    shadow->op.kind = FAB_OP_PUT;
    shadow->op.rkey = key;
    shadow->op.offset = offset;
    shadow->op.bytes = bytes;
    return shadow;
}

static int short_late(struct mutant_ep *mep, const struct fab_rkey *key, uint64_t offset,
                      const void *src, size_t bytes)
{
    struct mutant_shadow *shadow = short_put(mep, key, offset, bytes);

    mutant_take_copy(shadow, src, bytes);
    mutant_later(shadow, 1, NULL);
    return 0;
}

/* The pointer is kept, not the bytes. */
static int short_by_pointer(struct mutant_ep *mep, const struct fab_rkey *key, uint64_t offset,
                            const void *src, size_t bytes)
{
    struct mutant_shadow *shadow = short_put(mep, key, offset, bytes);

    shadow->op.local = (void *)(uintptr_t)src;
    mutant_later(shadow, 0, NULL);
    return 0;
}

/* What keeps the order of the late list: everything goes through it. */
static void in_turn(struct mutant_ep *mep, struct fab_op *op)
{
    mutant_later(mutant_shadow(mep, op), 0, NULL);
}

static void source_late(struct mutant_ep *mep, struct fab_op *op)
{
    if (op->kind == FAB_OP_PUT) {
        promise(mep, op, mutant_shadow(mep, op), 1);
    } else {
        in_turn(mep, op);
    }
}

static void get_early(struct mutant_ep *mep, struct fab_op *op)
{
    if (op->kind == FAB_OP_GET) {
        promise(mep, op, mutant_shadow(mep, op), 1);
    } else {
        in_turn(mep, op);
    }
}

static int always_again(struct mutant_ep *mep, const struct fab_rkey *key, uint64_t offset,
                        const void *src, size_t bytes)
{
    (void)mep;
    (void)key;
    (void)offset;
    (void)src;
    (void)bytes;
    return ORL_ERR_AGAIN;
}

/* Every other put is passed by its successor. */
static void swap_puts(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->kind == FAB_OP_PUT && mep->n % 2 == 1) {
        mutant_later(shadow, 2, NULL);
    } else if (op->kind == FAB_OP_FLUSH) {
        mutant_later(shadow, 0, NULL);
    } else {
        mutant_post(shadow);
    }
}

/* ---------------------------------------------------------------- notify */

static bool post_after_nap(struct mutant_shadow *shadow)
{
    const struct timespec nap = { 0, 5000000 };

    (void)nanosleep(&nap, NULL);
    mutant_post(shadow);
    return true;
}

static void notify_first(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *counter;
    struct mutant_shadow *data;

    if (op->kind != FAB_OP_PUT_NOTIFY) {
        in_turn(mep, op);
        return;
    }
    counter = mutant_shadow(mep, op);
    counter->user = NULL;
    counter->op.kind = FAB_OP_AMO;
    counter->op.amo = FAB_AMO_ADD;
    counter->op.width = 8;
    counter->op.local = NULL;
    counter->op.offset = op->notify;
    mutant_post(counter);
    data = mutant_shadow(mep, op);
    data->op.kind = FAB_OP_PUT;
    /* Long enough for a thread that looks. */
    mutant_later(data, 2, post_after_nap);
}

static void notify_lost(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->kind == FAB_OP_PUT_NOTIFY && mep->n % 20 == 3) {
        shadow->op.kind = FAB_OP_PUT;
    }
    mutant_post(shadow);
}

static void notify_by_one(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->kind == FAB_OP_PUT_NOTIFY) {
        shadow->op.operand = 1;
    }
    mutant_post(shadow);
}

/* ---------------------------------------------------------------- after the end */

static bool write_direct(struct mutant_shadow *shadow)
{
    if (shadow->op.rkey->direct != NULL) {
        memcpy(shadow->op.rkey->direct + shadow->op.offset, shadow->op.local, shadow->op.bytes);
    }
    mutant_finish(shadow, 0);
    mutant_free(shadow);
    return true;
}

/* Puts go on after stop, from the poster's memory. */
static void put_after_stop(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->kind == FAB_OP_PUT) {
        mutant_later(shadow, 3, write_direct);
    } else {
        mutant_post(shadow);
    }
}

/* The status is right, but the memory is written all the same. */
static void write_gone(struct mutant_ep *mep, struct fab_op *op)
{
    if (op->kind == FAB_OP_PUT && op->rkey->direct != NULL &&
        op->offset + op->bytes <= op->rkey->bytes) {
        memcpy(op->rkey->direct + op->offset, op->local, op->bytes);
    }
    mutant_post(mutant_shadow(mep, op));
}

static void hide_gone(struct mutant_shadow *shadow, int status)
{
    mutant_finish(shadow, status == ORL_ERR_GONE ? 0 : status);
    mutant_free(shadow);
}

static int hide_gone_short(struct mutant_ep *mep, const struct fab_rkey *key, uint64_t offset,
                           const void *src, size_t bytes)
{
    int rc = mep->real->put_short(mep->ep, key, offset, src, bytes);

    return rc == ORL_ERR_GONE ? 0 : rc;
}

/* The key as it was when it could be opened. */
static int open_gone(struct mutant_engine *at, struct fab_ep *ep, const void *blob, size_t bytes,
                     struct fab_rkey *key)
{
    int rc = at->real->rkey_open(ep, blob, bytes, key);

    if (rc == 0) {
        at->key = *key;
        at->has_key = true;
    } else if (rc == ORL_ERR_GONE && at->has_key) {
        *key = at->key;
        return 0;
    }
    return rc;
}

static int open_malformed(struct mutant_engine *at, struct fab_ep *ep, const void *blob,
                          size_t bytes, struct fab_rkey *key)
{
    int rc = at->real->rkey_open(ep, blob, bytes, key);

    if (rc == 0) {
        at->key = *key;
        at->has_key = true;
    } else if (rc == ORL_ERR_INVAL && at->has_key) {
        *key = at->key;
        return 0;
    }
    return rc;
}

const struct mutant_fault mutant_data_faults[] = {
    { "flush does not wait for puts", "flush_each", .post = flush_early },
    { "flush does not wait for large puts", "flush_large", .post = flush_early },
    { "flush does not wait for short puts", "flush_shorts", .post = flush_early,
      .put_short = short_late },
    { "put_short keeps the pointer", "put_shorts", .post = in_turn, .put_short = short_by_pointer },
    { "put_short says AGAIN for ever", "put_shorts", .put_short = always_again },
    { "a source is read after done", "put_source", .post = source_late },
    { "a get is done before its data is there", "get_aligns", .post = get_early },
    { "puts become visible out of order", "order_visible", .post = swap_puts },
    { "the counter rises before the data", "notify_polled", .post = notify_first },
    { "another thread sees the counter before the data", "notify_observed", .post = notify_first },
    { "a notify is lost", "notify_sums", .post = notify_lost },
    { "a notify adds one", "notify_sums", .post = notify_by_one },
    { "a source is read after stop", "stop_source", .post = put_after_stop,
      .late_outlives_stop = true },
    { "memory is written after revoke", "gone_all", .post = write_gone },
    { "GONE is not told", "gone_all", .finish = hide_gone },
    { "GONE is not told by put_short", "gone_all", .put_short = hide_gone_short },
    { "an ended key opens", "gone_all", .rkey_open = open_gone },
    { "a malformed key opens", "mem_malformed", .rkey_open = open_malformed },
};
const size_t mutant_ndata_faults = sizeof mutant_data_faults / sizeof mutant_data_faults[0];
