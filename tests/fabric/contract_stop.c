/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract: stopping an endpoint with live ops of every kind. When fab_ep_stop returns, no op
 * touches local memory any more; each is done once, CANCELED where it had not finished; a done op
 * belongs to its poster again; other endpoints do not notice.
 */
#include "contract_list.h"

#include <stdlib.h>
#include <string.h>

#define LIVE 600
#define SLOT ((size_t)131072)

struct live {
    struct ct_op *op;
    struct ct_tally tally;
    struct ct_mem mem;
    struct ct_mem buf;
};

/* Op i of the mixture, its buffer in slot i % 64; gets land in slots nobody sends from. */
static void live_op(struct ct_rig *rig, struct live *live, size_t i)
{
    struct ct_op *op = &live->op[i];
    size_t bytes = 1 + i * 123457 % SLOT;
    size_t at = i % 64 * SLOT;

    switch (i % 6) {
    case 0:
        ct_op_put(op, &live->tally, &live->mem.key, 4096 + at, &live->buf, at, bytes);
        break;
    case 1:
        ct_op_get(op, &live->tally, &live->mem.key, 4096 + at, &live->buf, (64 + i % 64) * SLOT,
                  bytes);
        break;
    case 2:
        ct_op_amo(op, &live->tally, &live->mem.key, 8, FAB_AMO_ADD, 8, 1);
        ct_op_fetch(op, &live->buf, (64 + i % 64) * SLOT);
        break;
    case 3:
        bytes = bytes < rig->a.engine->limits.send_max ? bytes : 200;
        ct_op_send(op, &live->tally, CT_MSG_B, 0, &live->buf, at, bytes);
        /* Stream 7 has a hook of its own: what arrives depends on when the stop came. */
        op->op.operand = ct_header(7, i, bytes);
        break;
    case 4:
        ct_op_put(op, &live->tally, &live->mem.key, 4096 + at, &live->buf, at, bytes);
        ct_op_notify(op, 16, 1);
        break;
    default:
        ct_op_flush(op, &live->tally);
        break;
    }
}

static bool live_open(struct ct_rig *rig, struct live *live)
{
    memset(live, 0, sizeof *live);
    live->op = calloc(LIVE, sizeof *live->op);
    if (!ct_check(live->op != NULL, "no memory") ||
        !ct_mem_open(rig, CT_AT_B, 65 * SLOT, FAB_ACCESS_ALL, &live->mem) ||
        !ct_mem_open(rig, CT_AT_A, 128 * SLOT, FAB_ACCESS_LOCAL, &live->buf)) {
        return false;
    }
    memset(live->mem.base, 0, 64);
    return true;
}

static void live_close(struct live *live)
{
    ct_mem_close(&live->mem);
    ct_mem_close(&live->buf);
    free(live->op);
}

/* Messages of half-sent mixtures: count, do not judge. */
static void ignore_messages(void *user, struct fab_rx *rx)
{
    _Atomic uint64_t *count = user;

    (void)rx;
    atomic_fetch_add(count, 1);
}

static void check_ended(const struct live *live)
{
    size_t i;

    for (i = 0; i < LIVE; i++) {
        ct_check(live->op[i].times == 1, "an op of a stopped endpoint was done %u times",
                 live->op[i].times);
        ct_check(live->op[i].status == 0 || live->op[i].status == ORL_ERR_CANCELED,
                 "an op of a stopped endpoint ended with %s", orl_status_name(live->op[i].status));
    }
}

static void one_stop(struct ct_rig *rig, unsigned polls)
{
    struct live live;
    size_t i;

    if (!live_open(rig, &live)) {
        return;
    }
    atomic_store(&rig->b_sleeps, true);
    for (i = 0; i < LIVE; i++) {
        live_op(rig, &live, i);
        ct_post(rig->ab, &live.op[i]);
    }
    for (i = 0; i < polls; i++) {
        atomic_store(&rig->b_sleeps, i % 2 == 0);
        (void)ct_progress(rig);
    }
    atomic_store(&rig->b_sleeps, true);
    ct_ep_stop(rig->ab);
    /* From here the buffers are ours. */
    memset(live.buf.base, 0x77, live.buf.bytes);
    atomic_store(&rig->b_sleeps, false);
    (void)ct_wait(rig, &live.tally);
    ct_settle(rig);
    check_ended(&live);
    ct_check(ct_is_byte(live.buf.base, live.buf.bytes, 0x77),
             "local memory was written after fab_ep_stop");
    for (i = 0; i < LIVE; i++) {
        memset(&live.op[i].op, 0x66, sizeof live.op[i].op);
    }
    ct_settle(rig);
    for (i = 0; i < LIVE; i++) {
        ct_check(ct_is_byte(&live.op[i].op, sizeof live.op[i].op, 0x66),
                 "an op was touched after its done");
    }
    live_close(&live);
}

/* covers: N18 */
void ct_stop_live(struct ct_rig *rig)
{
    static const unsigned polls[] = { 0, 1, 2, 7, 40 };
    _Atomic uint64_t count = 0;
    size_t i;

    fab_handler_set(rig->a.fab, CT_MSG_B, ignore_messages, &count);
    fab_handler_set(rig->b.fab, CT_MSG_B, ignore_messages, &count);
    for (i = 0; i < sizeof polls / sizeof polls[0] && ct_is_fine(); i++) {
        one_stop(rig, polls[i]);
        if (ct_is_fine()) {
            fab_ep_close(rig->ab);
            rig->ab = NULL;
            (void)ct_ep_open(&rig->a, &rig->b, "rank 1 anew", &rig->ab);
        }
    }
}

/* A put read by nobody after stop: what had not gone may not go with the new bytes either. */
void ct_stop_source(struct ct_rig *rig)
{
    static struct ct_op op[64];
    struct ct_tally tally = { 0 };
    struct ct_mem mem;
    struct ct_mem src;
    size_t i;

    if (!ct_mem_open(rig, CT_AT_B, 64 * SLOT, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, 64 * SLOT, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    memset(src.base, 0x11, src.bytes);
    atomic_store(&rig->b_sleeps, true);
    for (i = 0; i < 64; i++) {
        ct_op_put(&op[i], &tally, &mem.key, i * SLOT, &src, i * SLOT, SLOT);
        ct_post(rig->ab, &op[i]);
    }
    (void)ct_progress(rig);
    ct_ep_stop(rig->ab);
    memset(src.base, 0x77, src.bytes);
    atomic_store(&rig->b_sleeps, false);
    (void)ct_wait(rig, &tally);
    ct_settle(rig);
    for (i = 0; i < mem.bytes && ct_is_fine(); i++) {
        ct_check(mem.base[i] == 0x11 || mem.base[i] == 0xa5, "a source was read after fab_ep_stop");
    }
    ct_mem_close(&mem);
    ct_mem_close(&src);
}

/* A stopped endpoint takes ops and ends them; short calls fail; its neighbours work on. */
void ct_stop_then(struct ct_rig *rig)
{
    struct ct_tally tally = { 0 };
    struct fab_rkey second;
    struct ct_op op[3];
    struct ct_mem mem;
    struct ct_mem src;
    int rc;

    if (!ct_mem_open(rig, CT_AT_B, 4096, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, 4096, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    ct_check(ct_mem_key(&mem, rig->ab2, &second) == 0, "no key");
    ct_ep_stop(rig->ab);
    ct_op_put(&op[0], &tally, &mem.key, 0, &src, 0, 64);
    ct_op_flush(&op[1], &tally);
    ct_post_chain(rig->ab, op, 2);
    ct_op_flush(&op[2], &tally);
    ct_flush(rig->ab, &op[2]);
    (void)ct_wait(rig, &tally);
    ct_check(tally.failed == 3, "a stopped endpoint still serves ops");
    rc = ct_send_short(rig, rig->ab, CT_MSG_B, 0, src.base, 0);
    ct_check(rc != 0 && rc != ORL_ERR_AGAIN, "send_short on a stopped endpoint gives %s",
             orl_status_name(rc));
    rc = ct_put_short(rig, rig->ab, &mem.key, 0, src.base, 0);
    ct_check(rc != 0 && rc != ORL_ERR_AGAIN, "put_short on a stopped endpoint gives %s",
             orl_status_name(rc));
    ct_fill(src.base, 64, 2);
    ct_op_put(&op[0], &tally, &second, 128, &src, 0, 64);
    ct_check(ct_do(rig, rig->ab2, &op[0]) == 0, "the neighbour of a stopped endpoint is dead");
    ct_check(ct_flush_wait(rig, rig->ab2) == 0, "a flush fails");
    ct_check(ct_is_filled(mem.base + 128, 64, 2), "the neighbour's put is lost");
    fab_rkey_close(rig->ab2, &second);
    ct_mem_close(&mem);
    ct_mem_close(&src);
}
