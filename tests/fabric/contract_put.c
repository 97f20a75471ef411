/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract: puts, short and posted. Every byte arrives, no other byte changes, whatever the size
 * and the alignment; the source is free when put_short returns, and at done of a posted put.
 */
#include "contract_list.h"

#include <string.h>

#define EDGE 64 /* bytes on both sides that are looked at */

const size_t ct_sizes[] = {
    0,       1,       2,       3,
    4,       5,       7,       8,
    9,       15,      16,      17,
    31,      32,      33,      63,
    64,      65,      127,     128,
    129,     255,     256,     257,
    511,     512,     513,     1000,
    1023,    1024,    1025,    2047,
    2049,    4095,    4096,    4097,
    8191,    8192,    8193,    9999,
    16383,   16384,   16385,   32768,
    65535,   65536,   65537,   262143,
    1048575, 1048576, 1048577, 3 * 1048576 + 5,
};
const size_t ct_nsizes = sizeof ct_sizes / sizeof ct_sizes[0];

static bool is_put_right(const unsigned char *at, size_t bytes, unsigned seed)
{
    return ct_check(ct_is_filled(at, bytes, seed), "a put of %zu bytes arrived damaged", bytes) &&
           ct_check(ct_is_byte(at - EDGE, EDGE, 0xa5) && ct_is_byte(at + bytes, EDGE, 0xa5),
                    "a put of %zu bytes wrote beside its range", bytes);
}

/* covers: D9 H1 G10 L7 */
void ct_put_sizes(struct ct_rig *rig)
{
    struct ct_mem mem;
    struct ct_mem src;
    struct ct_tally tally = { 0 };
    struct ct_op op;
    size_t i;

    if (!ct_mem_open(rig, CT_AT_B, 4 * CT_MIB, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, 4 * CT_MIB, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    for (i = 0; i < ct_nsizes && ct_is_fine(); i++) {
        size_t bytes = ct_sizes[i];
        size_t offset = bytes > CT_MIB ? EDGE : CT_MIB + 128 + i;

        ct_fill(src.base + i, bytes, (unsigned)i);
        ct_op_put(&op, &tally, &mem.key, offset, &src, i, bytes);
        ct_check(ct_do(rig, rig->ab, &op) == 0, "a put of %zu bytes fails", bytes);
        ct_check(ct_flush_wait(rig, rig->ab) == 0, "a flush fails");
        (void)is_put_right(mem.base + offset, bytes, (unsigned)i);
        memset(mem.base + offset - EDGE, 0xa5, bytes + (size_t)2 * EDGE);
    }
    ct_check(ct_is_byte(mem.base, mem.bytes, 0xa5), "a put wrote far beside its range");
    ct_mem_close(&mem);
    ct_mem_close(&src);
}

/* Every pair of alignments within 16 bytes, at sizes around words, vectors and lines. */
void ct_put_aligns(struct ct_rig *rig)
{
    static const size_t sizes[] = { 1,  2,  3,  4,  5,  6,  7,  8,   9,   11,  13,
                                    15, 16, 17, 24, 31, 33, 64, 100, 129, 500, 4100 };
    static struct ct_op op[16];
    struct ct_mem mem;
    struct ct_mem src;
    size_t i;
    size_t from;
    size_t to;

    if (!ct_mem_open(rig, CT_AT_B, 128 * CT_KIB, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, 8 * CT_KIB, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t stride = (sizes[i] + 4 * EDGE) & ~(size_t)63;

        for (from = 0; from < 16 && ct_is_fine(); from++) {
            struct ct_tally tally = { 0 };

            ct_fill(src.base + from, sizes[i], (unsigned)from);
            for (to = 0; to < 16; to++) {
                ct_op_put(&op[to], &tally, &mem.key, EDGE + to * stride + to, &src, from, sizes[i]);
            }
            ct_post_chain(rig->ab, op, 16);
            (void)ct_wait_fine(rig, &tally);
            ct_check(ct_flush_wait(rig, rig->ab) == 0, "a flush fails");
            for (to = 0; to < 16; to++) {
                unsigned char *at = mem.base + EDGE + to * stride + to;

                (void)is_put_right(at, sizes[i], (unsigned)from);
                memset(at, 0xa5, sizes[i]);
            }
        }
    }
    ct_mem_close(&mem);
    ct_mem_close(&src);
}

/* Every size that put_short takes; the source is overwritten as soon as the call returns. */
void ct_put_shorts(struct ct_rig *rig)
{
    const size_t most = rig->a.engine->limits.put_short;
    struct ct_mem mem;
    unsigned char src[EDGE * 4];
    size_t bytes;
    size_t to;

    if (!ct_mem_open(rig, CT_AT_B, 64 * CT_KIB, FAB_ACCESS_ALL, &mem)) {
        return;
    }
    for (bytes = 0; bytes <= most && bytes <= sizeof src - 8 && ct_is_fine(); bytes++) {
        for (to = 0; to < 16; to++) {
            size_t offset = EDGE + to * 1024 + to;
            int rc;

            ct_fill(src + to % 8, bytes, (unsigned)to);
            rc = ct_put_short_wait(rig, rig->ab, &mem.key, offset, src + to % 8, bytes);
            memset(src, 0xee, sizeof src);
            ct_check(rc == 0, "put_short of %zu bytes: %s", bytes, orl_status_name(rc));
        }
        ct_check(ct_flush_wait(rig, rig->ab) == 0, "a flush fails");
        for (to = 0; to < 16; to++) {
            unsigned char *at = mem.base + EDGE + to * 1024 + to;

            (void)is_put_right(at, bytes, (unsigned)to);
            memset(at, 0xa5, bytes);
        }
    }
    ct_mem_close(&mem);
}

static void scribble(struct ct_op *op)
{
    memset(op->op.local, 0xee, op->op.bytes);
}

#define SOURCES 64

/* At done of a put its source is the caller's again. */
void ct_put_source(struct ct_rig *rig)
{
    static const size_t sizes[] = { 8, 64, 1000, 9000, 40000 };
    static struct ct_op op[SOURCES];
    struct ct_mem mem;
    struct ct_mem src;
    size_t i;
    size_t k;

    if (!ct_mem_open(rig, CT_AT_B, SOURCES * 40960, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, SOURCES * 40960, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    for (k = 0; k < sizeof sizes / sizeof sizes[0] && ct_is_fine(); k++) {
        struct ct_tally tally = { 0 };

        for (i = 0; i < SOURCES; i++) {
            ct_fill(src.base + i * 40960, sizes[k], (unsigned)(i + k));
            ct_op_put(&op[i], &tally, &mem.key, i * 40960, &src, i * 40960, sizes[k]);
            op[i].then = scribble;
        }
        ct_post_chain(rig->ab, op, SOURCES);
        (void)ct_wait_fine(rig, &tally);
        ct_check(ct_flush_wait(rig, rig->ab) == 0, "a flush fails");
        for (i = 0; i < SOURCES; i++) {
            ct_check(ct_is_filled(mem.base + i * 40960, sizes[k], (unsigned)(i + k)),
                     "a put of %zu bytes read its source after done", sizes[k]);
            ct_check(ct_is_byte(src.base + i * 40960, sizes[k], 0xee), "a put wrote its source");
        }
    }
    ct_mem_close(&mem);
    ct_mem_close(&src);
}

struct repost {
    struct fab_ep *ep;
    unsigned left;
};

static void post_again(struct ct_op *op)
{
    struct repost *repost = op->arg;
    struct ct_op *next = op + 1;

    if (repost->left-- > 1) {
        ct_post(repost->ep, next);
    }
}

#define AGAIN_N 300

/* done may post: each op of a row posts the next one. */
void ct_put_from_done(struct ct_rig *rig)
{
    static struct ct_op op[AGAIN_N];
    struct repost repost = { rig->ab, AGAIN_N };
    struct ct_tally tally = { 0 };
    struct ct_mem mem;
    struct ct_mem src;
    size_t i;

    if (!ct_mem_open(rig, CT_AT_B, AGAIN_N * 8, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, AGAIN_N * 8, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    ct_fill(src.base, src.bytes, 5);
    for (i = 0; i < AGAIN_N; i++) {
        ct_op_put(&op[i], &tally, &mem.key, i * 8, &src, i * 8, 8);
        op[i].then = post_again;
        op[i].arg = &repost;
    }
    ct_post(rig->ab, &op[0]);
    (void)ct_wait_fine(rig, &tally);
    ct_check(tally.done == AGAIN_N, "%u of %d ops ran", tally.done, AGAIN_N);
    ct_check(ct_flush_wait(rig, rig->ab) == 0, "a flush fails");
    ct_check(ct_is_filled(mem.base, mem.bytes, 5), "puts posted by done went wrong");
    ct_mem_close(&mem);
    ct_mem_close(&src);
}
