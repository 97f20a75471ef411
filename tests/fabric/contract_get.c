/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract: gets. At done, not later, every byte is in the landing buffer and no byte beside it
 * has changed; a get sees what was put and flushed before.
 */
#include "contract_list.h"

#include <string.h>

#define EDGE 64

struct landing {
    unsigned seed;
    size_t bytes;
};

static void check_landing(struct ct_op *op)
{
    const unsigned char *at = op->op.local;
    const struct landing *landing = op->arg;

    ct_check(ct_is_filled(at, landing->bytes, landing->seed),
             "done of a get of %zu bytes ran before its data was there", landing->bytes);
    ct_check(ct_is_byte(at - EDGE, EDGE, 0xa5) && ct_is_byte(at + landing->bytes, EDGE, 0xa5),
             "a get of %zu bytes wrote beside its landing", landing->bytes);
}

void ct_get_sizes(struct ct_rig *rig)
{
    struct ct_mem mem;
    struct ct_mem dst;
    struct ct_tally tally = { 0 };
    struct ct_op op;
    size_t i;

    if (!ct_mem_open(rig, CT_AT_B, 4 * CT_MIB, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, 4 * CT_MIB, FAB_ACCESS_LOCAL, &dst)) {
        return;
    }
    for (i = 0; i < ct_nsizes && ct_is_fine(); i++) {
        struct landing landing = { (unsigned)i, ct_sizes[i] };
        size_t offset = landing.bytes > CT_MIB ? i : CT_MIB + i;

        ct_fill(mem.base + offset, landing.bytes, landing.seed);
        ct_op_get(&op, &tally, &mem.key, offset, &dst, EDGE + 3 * i, landing.bytes);
        op.then = check_landing;
        op.arg = &landing;
        ct_check(ct_do(rig, rig->ab, &op) == 0, "a get of %zu bytes fails", landing.bytes);
        ct_check(ct_is_filled(mem.base + offset, landing.bytes, landing.seed),
                 "a get changed its target");
        memset(dst.base + EDGE + 3 * i, 0xa5, landing.bytes);
    }
    ct_check(ct_is_byte(dst.base, dst.bytes, 0xa5), "a get wrote far beside its landing");
    ct_mem_close(&mem);
    ct_mem_close(&dst);
}

/* Every pair of alignments within 16 bytes, a whole chain at a time. */
void ct_get_aligns(struct ct_rig *rig)
{
    static const size_t sizes[] = { 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64, 129, 4100 };
    static struct ct_op op[16];
    struct ct_mem mem;
    struct ct_mem dst;
    size_t i;
    size_t from;
    size_t to;

    if (!ct_mem_open(rig, CT_AT_B, 8 * CT_KIB, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, 128 * CT_KIB, FAB_ACCESS_LOCAL, &dst)) {
        return;
    }
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t stride = (sizes[i] + 4 * EDGE) & ~(size_t)63;

        for (from = 0; from < 16 && ct_is_fine(); from++) {
            struct ct_tally tally = { 0 };
            struct landing landing = { (unsigned)from, sizes[i] };

            ct_fill(mem.base + from, sizes[i], landing.seed);
            for (to = 0; to < 16; to++) {
                ct_op_get(&op[to], &tally, &mem.key, from, &dst, EDGE + to * stride + to, sizes[i]);
                op[to].then = check_landing;
                op[to].arg = &landing;
            }
            ct_post_chain(rig->ab, op, 16);
            (void)ct_wait_fine(rig, &tally);
            memset(dst.base, 0xa5, dst.bytes);
        }
    }
    ct_mem_close(&mem);
    ct_mem_close(&dst);
}

#define TURNS 200

/* A get behind a flush sees the puts before the flush, and every turn's own value. */
void ct_get_after_put(struct ct_rig *rig)
{
    struct ct_mem mem;
    struct ct_mem buf;
    struct ct_tally tally = { 0 };
    struct ct_op put;
    struct ct_op get;
    unsigned turn;

    if (!ct_mem_open(rig, CT_AT_B, 64 * CT_KIB, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, 64 * CT_KIB, FAB_ACCESS_LOCAL, &buf)) {
        return;
    }
    for (turn = 0; turn < TURNS && ct_is_fine(); turn++) {
        size_t bytes = 1 + (size_t)turn * 131 % 20000;
        struct landing landing = { turn, bytes };

        memset(buf.base, 0xa5, buf.bytes);
        ct_fill(buf.base, bytes, turn);
        ct_op_put(&put, &tally, &mem.key, turn, &buf, 0, bytes);
        ct_check(ct_do(rig, rig->ab, &put) == 0, "a put fails");
        ct_check(ct_flush_wait(rig, rig->ab) == 0, "a flush fails");
        ct_op_get(&get, &tally, &mem.key, turn, &buf, 32 * CT_KIB, bytes);
        get.then = check_landing;
        get.arg = &landing;
        ct_check(ct_do(rig, rig->ab, &get) == 0, "a get fails");
    }
    ct_mem_close(&mem);
    ct_mem_close(&buf);
}
