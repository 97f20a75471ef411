/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract: order. Short calls never pass ops that wait on their endpoint, and work again once the
 * endpoint is idle; an ordered engine shows puts in posting order; a small op of one endpoint does
 * not wait for all the bytes of another.
 */
#include "contract_list.h"

#include <stdlib.h>
#include <string.h>

#define LONG_ROW 3000

static bool is_short_free(void *arg)
{
    struct ct_rig *rig = arg;
    const uint64_t seq = rig->inbox_b.next[0];
    unsigned char payload[8];
    int rc;

    ct_fill(payload, sizeof payload, ct_seed(0, seq));
    rc = ct_send_short(rig, rig->ab, CT_MSG_B, ct_header(0, seq, 8), payload, 8);
    ct_check(rc == 0 || rc == ORL_ERR_AGAIN, "send_short: %s", orl_status_name(rc));
    return rc != ORL_ERR_AGAIN;
}

/*
 * Behind a row of posted sends to a peer that sleeps, a short send says AGAIN or keeps its place;
 * when all is through, it says AGAIN no more.
 */
void ct_order_again(struct ct_rig *rig)
{
    struct ct_op *op = calloc(LONG_ROW + 200, sizeof *op);
    size_t bytes = rig->a.engine->limits.send_max < 4096 ? 250 : 4000;
    struct ct_tally tally = { 0 };
    struct ct_mem src;
    size_t i;

    if (!ct_check(op != NULL, "no memory") ||
        !ct_mem_open(rig, CT_AT_A, 4 * CT_MIB, FAB_ACCESS_LOCAL, &src)) {
        free(op);
        return;
    }
    atomic_store(&rig->b_sleeps, true);
    for (i = 0; i < LONG_ROW; i++) {
        size_t at = i % 800 * 4096;

        /* The source has room for the first 800; the others are empty. */
        size_t n = i < 800 ? bytes : 0;

        ct_fill(src.base + at, n, ct_seed(1, i));
        ct_op_send(&op[i], &tally, CT_MSG_B, ct_header(1, i, n), &src, at, n);
    }
    for (i = 0; i < LONG_ROW; i++) {
        ct_post(rig->ab, &op[i]);
    }
    for (i = LONG_ROW; i < LONG_ROW + 200; i++) {
        ct_message(rig, &op[i], &tally, 1, i, &src, (i - LONG_ROW) * 256 + 800 * 4096, 100);
        (void)ct_progress(rig);
    }
    atomic_store(&rig->b_sleeps, false);
    (void)ct_wait_fine(rig, &tally);
    (void)ct_wait_messages(rig, &rig->inbox_b, LONG_ROW + 200);
    for (i = 0; i < 50 && ct_is_fine() && rig->a.engine->limits.send_short >= 8; i++) {
        ct_check(ct_until(rig, is_short_free, rig), "send_short says AGAIN for ever");
        (void)ct_wait_messages(rig, &rig->inbox_b, LONG_ROW + 200 + i + 1);
    }
    ct_mem_close(&src);
    free(op);
}

#define STEPS 500

struct staircase {
    const struct ct_mem *mem;
    struct ct_tally *tally;
    size_t seen;
};

/* The words written so far are a prefix of the row. */
static bool is_staircase_up(void *arg)
{
    struct staircase *stairs = arg;
    size_t i;

    for (i = STEPS; i > 0; i--) {
        if (!ct_is_byte(stairs->mem->base + (i - 1) * 64, 8, 0xa5)) {
            break;
        }
    }
    for (; stairs->seen < i; stairs->seen++) {
        ct_check(ct_is_filled(stairs->mem->base + stairs->seen * 64, 8, (unsigned)stairs->seen),
                 "put %zu is visible before put %zu", i - 1, stairs->seen);
    }
    return !ct_is_fine() || stairs->tally->done == stairs->tally->posted;
}

/* covers: G9 */
void ct_order_visible(struct ct_rig *rig)
{
    static struct ct_op op[STEPS];
    struct ct_tally tally = { 0 };
    struct ct_mem mem;
    struct ct_mem src;
    struct staircase stairs = { &mem, &tally, 0 };
    size_t i;

    if (!ct_mem_open(rig, CT_AT_B, STEPS * 64, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, STEPS * 64, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    for (i = 0; i < STEPS; i++) {
        ct_fill(src.base + i * 64, 8, (unsigned)i);
        ct_op_put(&op[i], &tally, &mem.key, i * 64, &src, i * 64, 8);
    }
    for (i = 0; i < STEPS && ct_is_fine(); i += 25) {
        ct_post_chain(rig->ab, &op[i], 25);
        if (rig->a.engine->limits.ordered) {
            (void)is_staircase_up(&stairs);
        }
    }
    if (rig->a.engine->limits.ordered) {
        ct_check(ct_until(rig, is_staircase_up, &stairs), "puts are lost");
    }
    (void)ct_wait_fine(rig, &tally);
    ct_check(ct_flush_wait(rig, rig->ab) == 0, "a flush fails");
    for (i = 0; i < STEPS; i++) {
        ct_check(ct_is_filled(mem.base + i * 64, 8, (unsigned)i), "put %zu is lost", i);
    }
    ct_mem_close(&mem);
    ct_mem_close(&src);
}

#define BIG 16

/* Sixteen puts of 4 MiB on one endpoint, then 8 bytes on another. */
/* covers: H4 */
void ct_order_fair(struct ct_rig *rig)
{
    static struct ct_op big[BIG];
    struct ct_tally bigs = { 0 };
    struct ct_tally small = { 0 };
    struct fab_rkey second;
    struct ct_op op;
    struct ct_mem mem;
    struct ct_mem src;
    size_t i;

    if (!ct_mem_open(rig, CT_AT_B, 4 * CT_MIB, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, 4 * CT_MIB, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    ct_check(ct_mem_key(&mem, rig->ab2, &second) == 0, "no key");
    for (i = 0; i < BIG; i++) {
        ct_op_put(&big[i], &bigs, &mem.key, 0, &src, 0, 4 * CT_MIB);
    }
    ct_post_chain(rig->ab, big, BIG);
    ct_op_put(&op, &small, &second, 0, &src, 0, 8);
    ct_post(rig->ab2, &op);
    (void)ct_wait_fine(rig, &small);
    ct_check(bigs.done < BIG, "8 bytes waited for 64 MiB of another endpoint");
    (void)ct_wait_fine(rig, &bigs);
    ct_check(ct_flush_wait(rig, rig->ab2) == 0, "a flush fails");
    fab_rkey_close(rig->ab2, &second);
    ct_mem_close(&mem);
    ct_mem_close(&src);
}
