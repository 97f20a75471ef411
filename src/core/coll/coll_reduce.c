/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allreduce of operands that do not fit a line, through the stages: whole or sliced, see coll.h.
 *
 * Whole costs one meeting and reads (R - 1) n bytes on each of R ranks; sliced costs two meetings
 * and reads 2 n, so it is for operands whose bytes weigh more than a meeting. Both work through an
 * operand block by block, so that what is combined last is still in the nearest cache.
 */
#include "base/log.h"
#include "core/coll/coll_lines.h"

#define STREAM_MIN 6144 /* see coll_fill; all wait for it */

/* With more bytes than this to read, a rank had better slice. */
#define WHOLE_READ_MAX (48u << 10)

/* Where the operands of all ranks are. */
struct operands {
    const unsigned char *own;   /* of rank me */
    const unsigned char *stage; /* of rank 0; those of others follow at FAB_STAGE_STRIDE */
    unsigned char *sum;         /* room for a block */
    int me, nranks;
    uint64_t element;
    core_op_fn fn;
};

static const unsigned char *operand(const struct operands *o, int rank, uint64_t at)
{
    return (rank == o->me ? o->own : o->stage + (uint64_t)rank * FAB_STAGE_STRIDE) + at;
}

/* dst = operand of rank 0 op that of rank 1 … for one block. dst may be the place of my operand:
 * it is written last. */
static void combine_block(const struct operands *o, unsigned char *dst, uint64_t at, uint64_t bytes)
{
    const unsigned char *left = operand(o, 0, at);

    for (int r = 1; r < o->nranks; r++) {
        unsigned char *to = r == o->nranks - 1 ? dst : o->sum;

        o->fn(to, left, operand(o, r, at), bytes / o->element);
        left = to;
    }
}

/* The operands' bytes from `at` on, to dst and, unless that is NULL, to copy. */
static void combine(const struct operands *o, uint64_t at, uint64_t bytes, unsigned char *dst,
                    unsigned char *copy)
{
    for (uint64_t done = 0; done < bytes; done += COLL_BLOCK_BYTES) {
        uint64_t n = bytes - done < COLL_BLOCK_BYTES ? bytes - done : COLL_BLOCK_BYTES;

        combine_block(o, dst + done, at + done, n);
        if (copy != NULL) {
            orl_copy_stream(copy + done, dst + done, n);
        }
    }
}

/* My stage is filled: begin the next step and say so. */
static struct fab_flag *say(struct coll_matrix *m)
{
    struct fab_flag *up = coll_row(m, COLL_UP, ++m->step);

    coll_publish(m, &up[m->me], m->step);
    return up;
}

static int await(const struct coll_matrix *m, const char *call, const struct fab_flag *row,
                 int first, int last)
{
    return m->wait(&(struct coll_need){
        .line = row, .first = first, .last = last, .stride = 1, .seq = m->step, .call = call });
}

static int whole_piece(struct coll_matrix *m, const char *call, const struct coll_operand *x,
                       uint64_t element)
{
    uint64_t block = COLL_WHOLE_AT + ((m->step + 1) & 1) * COLL_WHOLE_BYTES;
    const struct operands o = { .own = x->send,
                                .stage = coll_stage(m, 0, block),
                                .sum = m->block,
                                .me = m->me,
                                .nranks = m->nranks,
                                .element = element,
                                .fn = x->fn };
    coll_fill(coll_stage(m, m->me, block), x->send, x->bytes, STREAM_MIN);
    int st = await(m, call, say(m), 0, m->nranks);
    if (st == 0) {
        combine(&o, 0, x->bytes, x->recv, NULL);
    }
    return st;
}

/* Bytes of every slice but the last ones, which may be short or empty: whole lines. */
static uint64_t slice_bytes(uint64_t bytes, int nranks)
{
    uint64_t each = (bytes + (uint64_t)nranks - 1) / (uint64_t)nranks;

    return (each + ORL_CACHE_LINE - 1) / ORL_CACHE_LINE * ORL_CACHE_LINE;
}

/* Copies the other slices out of their owners' stages, in the order that spreads the readers. */
static int collect(struct coll_matrix *m, const char *call, const struct fab_flag *row,
                   const struct coll_operand *x, uint64_t each)
{
    unsigned char *recv = x->recv;
    int st = 0;

    for (int i = 1; st == 0 && i < m->nranks; i++) {
        int r = (m->me + i) % m->nranks;
        uint64_t low = (uint64_t)r * each;

        st = await(m, call, row, r, r + 1);
        if (st == 0 && low < x->bytes) {
            uint64_t n = x->bytes - low < each ? x->bytes - low : each;
            orl_copy(recv + low, coll_stage(m, r, COLL_RESULTS_AT), n);
        }
    }
    return st;
}

static int sliced_piece(struct coll_matrix *m, const char *call, const struct coll_operand *x,
                        uint64_t element)
{
    const struct operands o = { .own = x->send,
                                .stage = coll_stage(m, 0, COLL_OPERANDS_AT),
                                .sum = m->block,
                                .me = m->me,
                                .nranks = m->nranks,
                                .element = element,
                                .fn = x->fn };
    const unsigned char *send = x->send;
    unsigned char *mine = coll_stage(m, m->me, COLL_OPERANDS_AT);
    uint64_t each = slice_bytes(x->bytes, m->nranks);
    uint64_t low = (uint64_t)m->me * each;
    low = low < x->bytes ? low : x->bytes;
    uint64_t high = x->bytes - low < each ? x->bytes : low + each;

    coll_fill(mine, send, low, STREAM_MIN);
    coll_fill(mine + high, send + high, x->bytes - high, STREAM_MIN);
    int st = await(m, call, say(m), 0, m->nranks);
    if (st != 0) {
        return st;
    }
    combine(&o, low, high - low, (unsigned char *)x->recv + low,
            coll_stage(m, m->me, COLL_RESULTS_AT));
    return collect(m, call, say(m), x, each);
}

/* ---------------------------------------------------------------- size of a piece */

static int reserve_wide(struct coll_matrix *m, uint64_t bytes)
{
    unsigned char *operands = coll_stage(m, m->me, COLL_OPERANDS_AT);
    unsigned char *results = coll_stage(m, m->me, COLL_RESULTS_AT);
    uint64_t slice = slice_bytes(bytes, m->nranks);
    int st = m->reserve(m->node, operands, bytes);

    if (st == 0) {
        st = m->reserve(m->node, results, slice);
    }
    if (st == 0) {
        fab_node_populate(m->node, operands, bytes);
        fab_node_populate(m->node, results, slice);
    }
    return st;
}

/* Make room for sliced pieces of that many bytes, as far as there is memory on every rank: all
 * agree on what it comes to, in a step of its own. All know alike when to ask. */
static int widen(struct coll_matrix *m, const char *call, uint64_t bytes)
{
    uint64_t most = COLL_NODE_BYTES_MAX / 2 / (uint64_t)m->nranks;
    uint64_t want = COLL_WIDE_MIN;
    core_op_fn least;

    while (want < bytes && want < COLL_WIDE_MAX && want < most) {
        want *= 2;
    }
    if (m->wide_final || m->wide >= want) {
        return 0;
    }
    uint64_t mine = reserve_wide(m, want) == 0 ? want : 0;
    uint64_t all = 0;
    int st = core_op_query(ORIEL_MIN, ORIEL_UINT64, &least);
    if (st == 0) {
        st = coll_exchange(
            m, call,
            &(struct coll_operand){
                .send = &mine, .recv = &all, .elements = 1, .bytes = sizeof(all), .fn = least });
    }
    if (st == 0 && all == want) {
        m->wide = want;
    } else if (st == 0) {
        m->wide_final = true;
        orl_log_info(ORL_CAT_NODE, "%s: no memory for pieces of %llu bytes; they stay at %llu",
                     call, (unsigned long long)want, (unsigned long long)m->wide);
    }
    return st;
}

int coll_exchange_staged(struct coll_matrix *m, const char *call, const struct coll_operand *x,
                         uint64_t element)
{
    bool whole =
        x->bytes <= COLL_WHOLE_BYTES && (uint64_t)(m->nranks - 1) * x->bytes <= WHOLE_READ_MAX;
    int st = whole ? 0 : widen(m, call, x->bytes);
    if (m->wide == 0) {
        whole = true;
    }
    const uint64_t most = (whole ? COLL_WHOLE_BYTES : m->wide) / element;
    const unsigned char *send = x->send;
    unsigned char *recv = x->recv;
    for (uint64_t at = 0; st == 0 && at < x->elements; at += most) {
        uint64_t n = x->elements - at < most ? x->elements - at : most;
        struct coll_operand piece = { .send = send + at * element,
                                      .recv = recv + at * element,
                                      .elements = n,
                                      .bytes = n * element,
                                      .fn = x->fn };
        st = whole ? whole_piece(m, call, &piece, element) : sliced_piece(m, call, &piece, element);
    }
    return st;
}
