/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Planted faults in how calls behave: done functions, statuses, messages, short calls, stopping
 * and closing.
 */
#include "mutant.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---------------------------------------------------------------- done */

static void lose_some(struct mutant_shadow *shadow, int status)
{
    if (++shadow->mep->n % 7 != 3) {
        mutant_finish(shadow, status);
    }
    mutant_free(shadow);
}

static void finish_twice(struct mutant_shadow *shadow, int status)
{
    mutant_finish(shadow, status);
    mutant_finish(shadow, status);
    mutant_free(shadow);
}

static void finish_in_post(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    mutant_finish(shadow, 0);
    shadow->user = NULL;
    mutant_post(shadow);
}

struct errand {
    struct mutant_shadow *shadow;
    int status;
};

static void *run_errand(void *arg)
{
    struct errand *errand = arg;

    mutant_finish(errand->shadow, errand->status);
    return NULL;
}

static void finish_elsewhere(struct mutant_shadow *shadow, int status)
{
    struct errand errand = { shadow, status };
    pthread_t thread;

    if (pthread_create(&thread, NULL, run_errand, &errand) == 0) {
        (void)pthread_join(thread, NULL);
    }
    mutant_free(shadow);
}

static void finish_unlocked(struct mutant_shadow *shadow, int status)
{
    struct fab_engine *engine = shadow->mep->ep->engine;

    fab_poller_give(engine);
    mutant_finish(shadow, status);
    (void)fab_poller_take(engine);
    mutant_free(shadow);
}

static void finish_positive(struct mutant_shadow *shadow, int status)
{
    mutant_finish(shadow, status == 0 ? 1 : status);
    mutant_free(shadow);
}

static void swallow_status(struct mutant_shadow *shadow, int status)
{
    (void)status;
    mutant_finish(shadow, 0);
    mutant_free(shadow);
}

static void call_it_canceled(struct mutant_shadow *shadow, int status)
{
    mutant_finish(shadow, status == ORL_ERR_PEER ? ORL_ERR_CANCELED : status);
    mutant_free(shadow);
}

/* Remember the op and go on writing to it. */
static void finish_and_remember(struct mutant_shadow *shadow, int status)
{
    shadow->mep->engine->last = shadow->user;
    mutant_finish(shadow, status);
    mutant_free(shadow);
}

static void touch_op(struct mutant_engine *at)
{
    if (at->last != NULL && at->is_stopped) {
        at->last->flags++;
    }
}

/* ---------------------------------------------------------------- messages */

static int send_copy_later(struct mutant_ep *mep, unsigned handler, uint64_t header,
                           const void *src, size_t bytes)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, NULL);

    shadow->op.kind = FAB_OP_SEND;
    shadow->op.handler = (uint8_t)handler;
    shadow->op.operand = header;
    shadow->op.bytes = bytes;
    mutant_take_copy(shadow, src, bytes);
    mutant_later(shadow, 1, NULL);
    return 0;
}

/* Now and then, and not while the right answer is AGAIN. */
static bool is_due(struct mutant_ep *mep)
{
    return !fab_ep_has_queue(mep->ep) && ++mep->shorts % 50 == 7;
}

static int reorder_short(struct mutant_ep *mep, unsigned handler, uint64_t header, const void *src,
                         size_t bytes)
{
    if (is_due(mep)) {
        return send_copy_later(mep, handler, header, src, bytes);
    }
    return mep->real->send_short(mep->ep, handler, header, src, bytes);
}

static int lose_short(struct mutant_ep *mep, unsigned handler, uint64_t header, const void *src,
                      size_t bytes)
{
    return is_due(mep) ? 0 : mep->real->send_short(mep->ep, handler, header, src, bytes);
}

static int double_short(struct mutant_ep *mep, unsigned handler, uint64_t header, const void *src,
                        size_t bytes)
{
    bool is_twice = is_due(mep);
    int rc = mep->real->send_short(mep->ep, handler, header, src, bytes);

    if (rc == 0 && is_twice) {
        rc = mep->real->send_short(mep->ep, handler, header, src, bytes);
        rc = rc == ORL_ERR_AGAIN ? 0 : rc;
    }
    return rc;
}

static int damage_short(struct mutant_ep *mep, unsigned handler, uint64_t header, const void *src,
                        size_t bytes)
{
    unsigned char copy[MUTANT_BUFFER];

    if (bytes == 0 || bytes > sizeof copy) {
        return mep->real->send_short(mep->ep, handler, header, src, bytes);
    }
    memcpy(copy, src, bytes);
    copy[bytes - 1] ^= 1;
    return mep->real->send_short(mep->ep, handler, header, copy, bytes);
}

static int cut_header(struct mutant_ep *mep, unsigned handler, uint64_t header, const void *src,
                      size_t bytes)
{
    return mep->real->send_short(mep->ep, handler, header & 0xffffffffu, src, bytes);
}

static int lie_about_end(struct mutant_ep *mep, unsigned handler, uint64_t header, const void *src,
                         size_t bytes)
{
    int rc = mep->real->send_short(mep->ep, handler, header, src, bytes);

    return rc == ORL_ERR_AGAIN ? 0 : rc;
}

static void reorder_sends(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->kind == FAB_OP_SEND && mep->n % 9 == 4) {
        mutant_later(shadow, 1, NULL);
    } else {
        mutant_post(shadow);
    }
}

static void lose_sends(struct mutant_ep *mep, struct fab_op *op)
{
    if (op->kind == FAB_OP_SEND && mep->n % 100 == 4) {
        mutant_later(mutant_shadow(mep, op), 0, mutant_finish_fine);
    } else {
        mutant_post(mutant_shadow(mep, op));
    }
}

/* Posted sends wait a little in a queue that the short call does not look at. */
static void hold_sends(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->kind == FAB_OP_SEND) {
        mutant_later(shadow, 1, NULL);
    } else {
        mutant_post(shadow);
    }
}

/* Kept buffers: stand before the handlers and remember what they keep. */
static struct {
    fab_handler_fn fn;
    void *user;
} real_handler[FAB_HANDLERS_MAX];

static void *kept_data;

static void on_kept(void *user, struct fab_rx *rx)
{
    size_t i = (size_t)(uintptr_t)user;

    real_handler[i].fn(real_handler[i].user, rx);
    if (rx->kept && rx->bytes > 0) {
        kept_data = (void *)(uintptr_t)rx->data;
    }
}

static void reuse_kept(struct mutant_engine *at)
{
    struct fab *fabric = at->engine->fabric;
    size_t i;

    for (i = 0; i < FAB_HANDLERS_MAX; i++) {
        if (fabric->handler[i].fn != NULL && fabric->handler[i].fn != on_kept) {
            real_handler[i].fn = fabric->handler[i].fn;
            real_handler[i].user = fabric->handler[i].user;
            fabric->handler[i].fn = on_kept;
            fabric->handler[i].user = (void *)i;
        }
    }
    if (kept_data != NULL) {
        *(unsigned char *)kept_data ^= 0x55;
        kept_data = NULL;
    }
}

/* ---------------------------------------------------------------- stop, close, limits */

static void remember_get(struct mutant_ep *mep, struct fab_op *op)
{
    if (op->kind == FAB_OP_GET && op->bytes > 0) {
        mep->engine->memory = op->local;
    }
    mutant_post(mutant_shadow(mep, op));
}

static void touch_memory(struct mutant_engine *at)
{
    if (at->memory != NULL && at->is_stopped) {
        *(unsigned char *)at->memory = 1;
    }
}

static void lose_canceled(struct mutant_shadow *shadow, int status)
{
    if (status != ORL_ERR_CANCELED) {
        mutant_finish(shadow, status);
    }
    mutant_free(shadow);
}

static void forget_label(struct fab_ep *ep)
{
    ep->label[0] = '\0';
}

static void leak_descriptor(struct fab_ep *ep)
{
    (void)ep;
    if (dup(0) < 0) {
        (void)dup(1);
    }
}

static int leak_key(struct mutant_engine *at, struct fab_ep *ep, const void *blob, size_t bytes,
                    struct fab_rkey *key)
{
    void *volatile lost = malloc(MUTANT_BUFFER);

    (void)lost;
    return at->real->rkey_open(ep, blob, bytes, key);
}

static void leak_heap(struct mutant_ep *mep, struct fab_op *chain)
{
    void *volatile lost = malloc(MUTANT_BUFFER);

    (void)lost;
    mep->real->post(mep->ep, chain);
}

static void cut_chain(struct mutant_ep *mep, struct fab_op *chain)
{
    chain->link.next = NULL;
    mep->real->post(mep->ep, chain);
}

/* A large op under way holds up every small one of the engine. */
static void finish_big(struct mutant_shadow *shadow, int status)
{
    shadow->mep->engine->nbig--;
    mutant_finish(shadow, status);
    mutant_free(shadow);
}

static bool post_when_alone(struct mutant_shadow *shadow)
{
    if (shadow->mep->engine->nbig > 0) {
        return false;
    }
    mutant_post(shadow);
    return true;
}

static void starve(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->bytes > 65536) {
        mep->engine->nbig++;
        shadow->finish = finish_big;
        mutant_post(shadow);
    } else {
        mutant_later(shadow, 0, post_when_alone);
    }
}

const struct mutant_fault mutant_call_faults[] = {
    { "done is lost", "put_aligns", .finish = lose_some },
    { "done runs twice", "put_sizes", .finish = finish_twice },
    { "done runs inside post", "put_source", .post = finish_in_post },
    { "done runs in another thread", "get_sizes", .finish = finish_elsewhere },
    { "done runs without the poller", "put_sizes", .finish = finish_unlocked },
    { "done gets a positive status", "put_sizes", .finish = finish_positive },
    { "a failure is swallowed", "mem_range", .finish = swallow_status },
    { "PEER becomes CANCELED", "fail_told", .finish = call_it_canceled },
    { "an op is written after its done", "stop_live", .finish = finish_and_remember,
      .tick = touch_op },
    { "a short message is overtaken", "send_answers", .send_short = reorder_short },
    { "a short message is lost", "send_answers", .send_short = lose_short },
    { "a short message comes twice", "send_answers", .send_short = double_short },
    { "a payload is damaged", "send_sizes", .send_short = damage_short },
    { "a header is cut to 32 bits", "send_sizes", .send_short = cut_header },
    { "send_short says 0 when there is no room", "exhaust_shorts", .send_short = lie_about_end },
    { "a posted message is overtaken", "send_chains", .post = reorder_sends },
    { "a posted message is lost", "send_chains", .post = lose_sends },
    { "a short message passes the queue", "send_order", .post = hold_sends },
    { "a kept buffer is used again", "send_keep", .tick = reuse_kept },
    { "a landing is written after stop", "stop_live", .post = remember_get, .tick = touch_memory },
    { "canceled ops are never done", "stop_live", .finish = lose_canceled },
    { "the label is lost", "fail_told", .opened = forget_label },
    { "an endpoint leaks a descriptor", "close_eps", .opened = leak_descriptor },
    { "a key leaks heap", "close_regions", .rkey_open = leak_key },
    { "an op takes heap", "exhaust_sends", .chain = leak_heap },
    { "only the first op of a chain is taken", "put_aligns", .chain = cut_chain },
    { "small ops wait for large ones", "order_fair", .post = starve },
};
const size_t mutant_ncall_faults = sizeof mutant_call_faults / sizeof mutant_call_faults[0];
