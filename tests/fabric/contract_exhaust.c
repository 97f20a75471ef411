/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract: exhaustion. 10^5 ops posted while the peer sleeps take no memory of the transport's
 * and are all done once when it wakes; short calls come to an end with AGAIN; nothing is lost.
 */
#include "contract_list.h"

#include <stdlib.h>
#include <string.h>

#define CROWD      100000
#define HEAP_BOUND (16 * CT_MIB)  /* buffers of fixed number, made when first needed */
#define HEAP_AGAIN (256 * CT_KIB) /* growth when it happens again */

struct crowd {
    struct ct_op *op;
    struct ct_tally tally;
    struct ct_mem src;
    struct ct_mem mem;
    struct ct_holdings before;
    size_t heap_bound;
};

static bool crowd_open(struct ct_rig *rig, struct crowd *crowd, size_t bytes)
{
    memset(crowd, 0, sizeof *crowd);
    crowd->op = calloc(CROWD, sizeof *crowd->op);
    if (!ct_check(crowd->op != NULL, "no memory") ||
        !ct_mem_open(rig, CT_AT_A, bytes, FAB_ACCESS_LOCAL, &crowd->src) ||
        !ct_mem_open(rig, CT_AT_B, bytes, FAB_ACCESS_ALL, &crowd->mem)) {
        return false;
    }
    crowd->heap_bound = HEAP_BOUND;
    atomic_store(&rig->b_sleeps, true);
    return true;
}

/* Everything is posted: the transport may not have grown. Then the peer wakes. */
static void crowd_through(struct ct_rig *rig, struct crowd *crowd)
{
    struct ct_holdings now;

    ct_settle(rig);
    ct_holdings_now(&now);
    ct_check(now.heap_bytes < crowd->before.heap_bytes + crowd->heap_bound,
             "waiting ops took %zu bytes of heap", now.heap_bytes - crowd->before.heap_bytes);
    ct_check(now.fds == crowd->before.fds, "waiting ops opened files");
    atomic_store(&rig->b_sleeps, false);
    (void)ct_wait_fine(rig, &crowd->tally);
    ct_check(ct_flush_wait(rig, rig->ab) == 0, "a flush fails");
}

static void crowd_close(struct crowd *crowd)
{
    ct_mem_close(&crowd->src);
    ct_mem_close(&crowd->mem);
    free(crowd->op);
}

void ct_exhaust_sends(struct ct_rig *rig)
{
    struct crowd crowd;
    size_t i;

    if (!crowd_open(rig, &crowd, (size_t)CROWD * 32)) {
        return;
    }
    ct_holdings_now(&crowd.before);
    for (i = 0; i < CROWD; i++) {
        ct_fill(crowd.src.base + i * 32, 32, ct_seed(4, i));
        ct_op_send(&crowd.op[i], &crowd.tally, CT_MSG_B, ct_header(4, i, 32), &crowd.src, i * 32,
                   32);
        ct_post(rig->ab, &crowd.op[i]);
    }
    crowd_through(rig, &crowd);
    (void)ct_wait_messages(rig, &rig->inbox_b, CROWD);
    crowd_close(&crowd);
}

void ct_exhaust_puts(struct ct_rig *rig)
{
    struct crowd crowd;
    size_t i;

    if (!crowd_open(rig, &crowd, (size_t)CROWD * 8)) {
        return;
    }
    ct_fill(crowd.src.base, crowd.src.bytes, 6);
    ct_holdings_now(&crowd.before);
    for (i = 0; i < CROWD; i++) {
        ct_op_put(&crowd.op[i], &crowd.tally, &crowd.mem.key, i * 8, &crowd.src, i * 8, 8);
    }
    for (i = 0; i < CROWD; i += 100) {
        ct_post_chain(rig->ab, &crowd.op[i], 100);
    }
    crowd_through(rig, &crowd);
    ct_check(ct_is_filled(crowd.mem.base, crowd.mem.bytes, 6), "puts are lost");
    crowd_close(&crowd);
}

/* All kinds and sizes in turns, so that every buffer of the transport is full at once. */
void ct_exhaust_mixed(struct ct_rig *rig)
{
    const bool has_amo = rig->a.engine->limits.amo_align != 0;
    struct crowd crowd;
    uint64_t seq = 0;
    uint64_t amos = 0;
    uint64_t sum;
    size_t i;

    if (!crowd_open(rig, &crowd, 4 * CT_MIB)) {
        return;
    }
    memset(crowd.mem.base, 0, 8);
    ct_holdings_now(&crowd.before);
    for (i = 0; i < CROWD / 20; i++) {
        struct ct_op *op = &crowd.op[i];
        size_t at = 64 + i * 512;

        if (i % 4 == 0) {
            const size_t bytes = i % 3 * 100;

            ct_fill(crowd.src.base + at, bytes, ct_seed(5, seq));
            ct_op_send(op, &crowd.tally, CT_MSG_B, ct_header(5, seq++, bytes), &crowd.src, at,
                       bytes);
        } else if (i % 4 == 1 && has_amo) {
            ct_op_amo(op, &crowd.tally, &crowd.mem.key, 0, FAB_AMO_ADD, 8, 1);
            amos++;
        } else if (i % 4 == 2) {
            ct_op_get(op, &crowd.tally, &crowd.mem.key, at, &crowd.src, at, 500);
        } else {
            ct_fill(crowd.src.base + at, 500, (unsigned)i);
            ct_op_put(op, &crowd.tally, &crowd.mem.key, at, &crowd.src, at, 500);
        }
        ct_post(rig->ab, op);
    }
    crowd_through(rig, &crowd);
    (void)ct_wait_messages(rig, &rig->inbox_b, seq);
    memcpy(&sum, crowd.mem.base, sizeof sum);
    ct_check(sum == amos, "%llu atomics of %llu were done", (unsigned long long)sum,
             (unsigned long long)amos);
    for (i = 3; i < CROWD / 20; i += 4) {
        ct_check(ct_is_filled(crowd.mem.base + 64 + i * 512, 500, (unsigned)i), "puts are lost");
    }
    crowd_close(&crowd);
}

/* Short sends to a sleeping peer end with AGAIN, not with memory; what was taken arrives. */
void ct_exhaust_shorts(struct ct_rig *rig)
{
    struct crowd crowd;
    uint64_t seq;
    unsigned turn;

    if (rig->a.engine->limits.send_short < 16 || !crowd_open(rig, &crowd, 4096)) {
        return;
    }
    ct_holdings_now(&crowd.before);
    for (turn = 0, seq = 0; turn < 3 && ct_is_fine(); turn++) {
        unsigned refused = 0;

        atomic_store(&rig->b_sleeps, true);
        while (refused < 100 && ct_is_fine()) {
            unsigned char payload[16];
            int rc;

            ct_fill(payload, sizeof payload, ct_seed(6, seq));
            rc = ct_send_short(rig, rig->ab, CT_MSG_B, ct_header(6, seq, 16), payload, 16);
            memset(payload, 0xee, sizeof payload);
            ct_check(rc == 0 || rc == ORL_ERR_AGAIN, "send_short: %s", orl_status_name(rc));
            refused += rc != 0;
            seq += rc == 0;
            ct_check(seq < 2000000, "send_short never says AGAIN");
        }
        crowd_through(rig, &crowd);
        (void)ct_wait_messages(rig, &rig->inbox_b, seq);
        ct_holdings_now(&crowd.before);
        crowd.heap_bound = HEAP_AGAIN;
    }
    crowd_close(&crowd);
}
