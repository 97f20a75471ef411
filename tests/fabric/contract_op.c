/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Builders of operations and messages, and the calls that post them, each marked so that a done
 * function that runs inside one is found. No case lives here.
 */
#include "contract.h"

#include <string.h>

static void op_init(struct ct_op *op, struct ct_tally *tally, enum fab_op_kind kind)
{
    memset(op, 0, sizeof *op);
    op->op.kind = (uint8_t)kind;
    op->op.done = ct_on_done;
    op->op.user = op;
    op->op.status = 77;
    op->tally = tally;
}

void ct_op_put(struct ct_op *op, struct ct_tally *tally, const struct fab_rkey *key,
               uint64_t offset, const struct ct_mem *src, size_t at, uint64_t bytes)
{
    op_init(op, tally, FAB_OP_PUT);
    op->op.rkey = key;
    op->op.offset = offset;
    op->op.local = src->base + at;
    op->op.region = src->region;
    op->op.bytes = bytes;
}

void ct_op_get(struct ct_op *op, struct ct_tally *tally, const struct fab_rkey *key,
               uint64_t offset, const struct ct_mem *dst, size_t at, uint64_t bytes)
{
    ct_op_put(op, tally, key, offset, dst, at, bytes);
    op->op.kind = FAB_OP_GET;
}

void ct_op_amo(struct ct_op *op, struct ct_tally *tally, const struct fab_rkey *key,
               uint64_t offset, enum fab_amo amo, unsigned width, uint64_t operand)
{
    op_init(op, tally, FAB_OP_AMO);
    op->op.rkey = key;
    op->op.offset = offset;
    op->op.amo = (uint8_t)amo;
    op->op.width = (uint8_t)width;
    op->op.bytes = width;
    op->op.operand = operand;
}

void ct_op_fetch(struct ct_op *op, const struct ct_mem *dst, size_t at)
{
    op->op.local = dst->base + at;
    op->op.region = dst->region;
}

void ct_op_notify(struct ct_op *op, uint64_t counter, uint64_t add)
{
    op->op.kind = FAB_OP_PUT_NOTIFY;
    op->op.notify = counter;
    op->op.operand = add;
}

void ct_op_send(struct ct_op *op, struct ct_tally *tally, unsigned handler, uint64_t header,
                const struct ct_mem *src, size_t at, uint64_t bytes)
{
    op_init(op, tally, FAB_OP_SEND);
    op->op.handler = (uint8_t)handler;
    op->op.operand = header;
    op->op.local = src->base + at;
    op->op.region = src->region;
    op->op.bytes = bytes;
}

void ct_op_flush(struct ct_op *op, struct ct_tally *tally)
{
    op_init(op, tally, FAB_OP_FLUSH);
}

void ct_post(struct fab_ep *ep, struct ct_op *op)
{
    ct_post_chain(ep, op, 1);
}

void ct_post_chain(struct fab_ep *ep, struct ct_op *ops, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        ops[i].op.link.next = i + 1 < n ? &ops[i + 1].op.link : NULL;
        atomic_fetch_add(&ops[i].tally->posted, 1);
    }
    ct_posting_begin();
    fab_post(ep, &ops[0].op);
    ct_posting_end();
}

void ct_flush(struct fab_ep *ep, struct ct_op *op)
{
    op->op.link.next = NULL;
    atomic_fetch_add(&op->tally->posted, 1);
    ct_posting_begin();
    fab_flush(ep, &op->op);
    ct_posting_end();
}

/* While ops wait on an endpoint its short calls must refuse. */
static void check_short(const struct ct_rig *rig, bool had_queue, int rc, const char *call)
{
    if (!rig->is_threaded && had_queue) {
        ct_check(rc != 0, "%s overtook ops that wait on its endpoint", call);
    }
    ct_check(rc <= 0, "%s returned the positive status %d", call, rc);
}

int ct_put_short(struct ct_rig *rig, struct fab_ep *ep, const struct fab_rkey *key, uint64_t offset,
                 const void *src, size_t bytes)
{
    bool had_queue = !orl_fifo_is_empty(&ep->queue);
    int rc;

    ct_posting_begin();
    rc = fab_put_short(ep, key, offset, src, bytes);
    ct_posting_end();
    check_short(rig, had_queue, rc, "put_short");
    return rc;
}

int ct_send_short(struct ct_rig *rig, struct fab_ep *ep, unsigned handler, uint64_t header,
                  const void *src, size_t bytes)
{
    bool had_queue = !orl_fifo_is_empty(&ep->queue);
    int rc;

    ct_posting_begin();
    rc = fab_send_short(ep, handler, header, src, bytes);
    ct_posting_end();
    check_short(rig, had_queue, rc, "send_short");
    return rc;
}

struct short_put {
    struct ct_rig *rig;
    struct fab_ep *ep;
    const struct fab_rkey *key;
    uint64_t offset;
    const void *src;
    size_t bytes;
    int rc;
};

static bool is_short_put(void *arg)
{
    struct short_put *put = arg;

    put->rc = ct_put_short(put->rig, put->ep, put->key, put->offset, put->src, put->bytes);
    return put->rc != ORL_ERR_AGAIN;
}

int ct_put_short_wait(struct ct_rig *rig, struct fab_ep *ep, const struct fab_rkey *key,
                      uint64_t offset, const void *src, size_t bytes)
{
    struct short_put put = { rig, ep, key, offset, src, bytes, 0 };

    ct_check(ct_until(rig, is_short_put, &put), "put_short said AGAIN for ever");
    return put.rc;
}

/* ---------------------------------------------------------------- messages */

void ct_message(struct ct_rig *rig, struct ct_op *op, struct ct_tally *tally, unsigned stream,
                uint64_t seq, const struct ct_mem *src, size_t at, size_t bytes)
{
    uint64_t header = ct_header(stream, seq, bytes);
    int rc = ORL_ERR_AGAIN;

    ct_fill(src->base + at, bytes, ct_seed(stream, seq));
    if (bytes <= rig->a.engine->limits.send_short) {
        rc = ct_send_short(rig, rig->ab, CT_MSG_B, header, src->base + at, bytes);
    }
    if (rc == ORL_ERR_AGAIN) {
        ct_op_send(op, tally, CT_MSG_B, header, src, at, bytes);
        ct_post(rig->ab, op);
        return;
    }
    ct_check(rc == 0, "send_short returned %s", orl_status_name(rc));
    memset(src->base + at, 0xee, bytes); /* the source is free at once */
}

struct message_wait {
    struct ct_inbox *inbox;
    uint64_t count;
};

static bool are_messages_in(void *arg)
{
    struct message_wait *wait = arg;

    return atomic_load(&wait->inbox->count) >= wait->count;
}

bool ct_wait_messages(struct ct_rig *rig, struct ct_inbox *inbox, uint64_t count)
{
    struct message_wait wait = { inbox, count };

    ct_check(ct_until(rig, are_messages_in, &wait), "%llu messages of %llu arrived",
             (unsigned long long)atomic_load(&inbox->count), (unsigned long long)count);
    ct_settle(rig);
    return ct_check(atomic_load(&inbox->count) == count || !ct_is_fine(),
                    "%llu messages arrived, %llu were sent",
                    (unsigned long long)atomic_load(&inbox->count), (unsigned long long)count);
}
