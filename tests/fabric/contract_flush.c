/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract: flush. When its done runs, everything earlier on the endpoint can be read at the
 * target, through the target's own mapping; and every earlier put and atomic is done.
 */
#include "contract_list.h"

#include <string.h>

#define WORDS 400

struct flushed {
    struct ct_mem *mem;
    struct ct_tally *puts;
    uint32_t nputs; /* posted before the flush */
    size_t bytes;   /* of each, one after another */
    size_t stride;
};

static void check_flushed(struct ct_op *op)
{
    const struct flushed *flushed = op->arg;
    size_t i;

    ct_check(op->status == 0, "a flush fails with %s", orl_status_name(op->status));
    ct_check(flushed->puts->done >= flushed->nputs, "a flush is done before %u earlier ops",
             flushed->nputs - flushed->puts->done);
    for (i = 0; i <= op->index; i++) {
        ct_check(
            ct_is_filled(flushed->mem->base + i * flushed->stride, flushed->bytes, (unsigned)i),
            "a flush is done before the data is visible");
    }
}

/* A flush behind every put, all in flight at once: flush k covers puts 0 to k. */
/* covers: G16 */
void ct_flush_each(struct ct_rig *rig)
{
    static struct ct_op put[WORDS];
    static struct ct_op flush[WORDS];
    static struct flushed flushed[WORDS];
    struct ct_tally puts = { 0 };
    struct ct_tally flushes = { 0 };
    struct ct_mem mem;
    struct ct_mem src;
    size_t i;

    if (!ct_mem_open(rig, CT_AT_B, WORDS * 64, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, WORDS * 64, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    for (i = 0; i < WORDS; i++) {
        struct flushed one = { &mem, &puts, (uint32_t)i + 1, 24, 64 };

        flushed[i] = one;
        ct_fill(src.base + i * 64, 24, (unsigned)i);
        ct_op_put(&put[i], &puts, &mem.key, i * 64, &src, i * 64, 24);
        ct_post(rig->ab, &put[i]);
        ct_op_flush(&flush[i], &flushes);
        flush[i].then = check_flushed;
        flush[i].arg = &flushed[i];
        flush[i].index = i;
        if (i % 2 == 0) {
            ct_flush(rig->ab, &flush[i]);
        } else {
            ct_post(rig->ab, &flush[i]);
        }
    }
    (void)ct_wait_fine(rig, &puts);
    (void)ct_wait_fine(rig, &flushes);
    ct_mem_close(&mem);
    ct_mem_close(&src);
}

/* Short puts have no done of their own: the flush alone speaks for them. */
void ct_flush_shorts(struct ct_rig *rig)
{
    struct ct_tally none = { 0 };
    struct ct_mem mem;
    unsigned round;

    if (!ct_mem_open(rig, CT_AT_B, WORDS * 8, FAB_ACCESS_ALL, &mem)) {
        return;
    }
    for (round = 1; round <= 100 && ct_is_fine(); round++) {
        struct ct_tally tally = { 0 };
        struct flushed flushed = { &mem, &none, 0, 8, 8 };
        unsigned char src[8];
        struct ct_op op;
        unsigned i;

        memset(mem.base, 0xa5, mem.bytes);
        for (i = 0; i < round; i++) {
            ct_fill(src, 8, i);
            ct_check(ct_put_short_wait(rig, rig->ab, &mem.key, (size_t)i * 8, src, 8) == 0,
                     "put_short fails");
        }
        ct_op_flush(&op, &tally);
        op.then = check_flushed;
        op.arg = &flushed;
        op.index = round - 1;
        ct_flush(rig->ab, &op);
        (void)ct_wait_fine(rig, &tally);
    }
    ct_mem_close(&mem);
}

/* Large puts, and a flush in the same chain. */
void ct_flush_large(struct ct_rig *rig)
{
    static const size_t sizes[] = { 5000, 65536, 300000, 1048576 };
    struct ct_op op[5];
    struct ct_mem mem;
    struct ct_mem src;
    size_t k;
    unsigned i;

    if (!ct_mem_open(rig, CT_AT_B, 4 * CT_MIB, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, 4 * CT_MIB, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    for (k = 0; k < sizeof sizes / sizeof sizes[0] && ct_is_fine(); k++) {
        struct ct_tally puts = { 0 };
        struct ct_tally flushes = { 0 };
        struct flushed flushed = { &mem, &puts, 4, sizes[k], CT_MIB };

        memset(mem.base, 0xa5, mem.bytes);
        for (i = 0; i < 4; i++) {
            ct_fill(src.base + i * CT_MIB, sizes[k], i);
            ct_op_put(&op[i], &puts, &mem.key, i * CT_MIB, &src, i * CT_MIB, sizes[k]);
        }
        ct_op_flush(&op[4], &flushes);
        op[4].then = check_flushed;
        op[4].arg = &flushed;
        op[4].index = 3;
        ct_post_chain(rig->ab, op, 5);
        (void)ct_wait_fine(rig, &puts);
        (void)ct_wait_fine(rig, &flushes);
    }
    ct_mem_close(&mem);
    ct_mem_close(&src);
}

static void check_sum(struct ct_op *op)
{
    const struct ct_mem *mem = op->arg;
    uint64_t sum;

    memcpy(&sum, mem->base, sizeof sum);
    ct_check(sum == op->index, "a flush is done at a sum of %llu, not %llu",
             (unsigned long long)sum, (unsigned long long)op->index);
}

/* Atomics that fetch nothing are covered too; and a flush of an idle endpoint ends. */
void ct_flush_amos(struct ct_rig *rig)
{
    static struct ct_op op[WORDS];
    const struct fab_limits *limits = &rig->a.engine->limits;
    struct ct_tally amos = { 0 };
    struct ct_tally flushes = { 0 };
    struct ct_op flush;
    struct ct_mem mem;
    size_t i;

    ct_check(ct_flush_wait(rig, rig->ab) == 0, "a flush of an idle endpoint fails");
    ct_check(ct_flush_wait(rig, rig->ab) == 0, "a second flush fails");
    if (limits->amo_align == 0 || (limits->amo_widths & 8) == 0 ||
        !ct_mem_open(rig, CT_AT_B, 4096, FAB_ACCESS_ALL, &mem)) {
        return;
    }
    memset(mem.base, 0, 8);
    for (i = 0; i < WORDS; i++) {
        ct_op_amo(&op[i], &amos, &mem.key, 0, FAB_AMO_ADD, 8, 3);
        ct_post(rig->ab, &op[i]);
    }
    ct_op_flush(&flush, &flushes);
    flush.then = check_sum;
    flush.arg = &mem;
    flush.index = (uint64_t)WORDS * 3;
    ct_flush(rig->ab, &flush);
    (void)ct_wait_fine(rig, &amos);
    (void)ct_wait_fine(rig, &flushes);
    ct_mem_close(&mem);
}
