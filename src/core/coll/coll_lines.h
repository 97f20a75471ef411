/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files coll_*.c share: words and lines, the places in a stage, filling it. The protocol
 * is in coll.h. No state.
 */
#ifndef CORE_COLL_COLL_LINES_H
#define CORE_COLL_COLL_LINES_H

#include <sched.h>
#include <string.h>

#include "base/copy.h"
#include "core/coll/coll.h"

/* A word of a line: the sequence in the low bits, above it the CPU. */
#define COLL_SEQ_BITS 48
#define COLL_SEQ_MASK ((UINT64_C(1) << COLL_SEQ_BITS) - 1)

#define COLL_SLOTS     64 /* lines of a root */
#define COLL_ACK_STEPS 16 /* rooted steps between two that all ranks confirm */

/* A rank's stage, by offset. What lies below FAB_STAGE_READY exists from the start, the rest is
 * reserved when it is first needed. */
#define COLL_LINES_AT       0 /* struct fab_flag [COLL_SLOTS] of its broadcasts */
#define COLL_WHOLE_AT       (4u << 10)
#define COLL_WHOLE_BYTES    (16u << 10) /* a whole operand, one for each parity */
#define COLL_RING_AT        (36u << 10)
#define COLL_RING_MIN       (32u << 10)
#define COLL_RING_MAX       (4u << 20)
#define COLL_OPERANDS_AT    (5u << 20)
#define COLL_RESULTS_AT     (6u << 20)
#define COLL_WIDE_MIN       (64u << 10)
#define COLL_WIDE_MAX       (1u << 20)            /* bytes of a sliced piece */
#define COLL_NODE_BYTES_MAX (UINT64_C(512) << 20) /* stages of all ranks in all, about */

enum coll_level {
    COLL_UP,
    COLL_ACROSS,
    COLL_DOWN
};

static inline struct fab_flag *coll_row(const struct coll_matrix *m, enum coll_level level,
                                        uint64_t step)
{
    return m->node->flags + (2 * (uint64_t)level + (step & 1)) * (uint64_t)m->nranks;
}

static inline unsigned char *coll_stage(const struct coll_matrix *m, int rank, uint64_t at)
{
    return m->node->stage + (uint64_t)rank * FAB_STAGE_STRIDE + at;
}

static inline uint64_t coll_seq_of(const struct fab_flag *line)
{
    return atomic_load_explicit(&line->seq, memory_order_acquire) & COLL_SEQ_MASK;
}

static inline unsigned coll_cpu(void)
{
    int cpu = sched_getcpu();

    return cpu < 0 ? 0 : (unsigned)cpu & 0xffff;
}

/* Eight bytes are what everybody sums. */
static inline void coll_move(void *dst, const void *src, uint64_t bytes)
{
    if (bytes == 8) {
        memcpy(dst, src, 8);
    } else if (bytes != 0) {
        orl_copy(dst, src, bytes);
    }
}

/* Everything stored before is there for who sees the word. */
static inline void coll_publish(const struct coll_matrix *m, struct fab_flag *line, uint64_t seq)
{
    uint64_t cpu = m->crowded ? (uint64_t)coll_cpu() : 0;

    atomic_store_explicit(&line->seq, seq | cpu << COLL_SEQ_BITS, memory_order_release);
    fab_node_wake(m->node, -1);
}

/* Fill my stage. An ordinary store has to fetch the line from readers that still hold it: 5 to 7
 * GB/s where they share no cache with me. Stores that bypass the caches take 15 to 30 GB/s wherever
 * they are, with some 0.3 us at the end: worth it from `stream_min` bytes on. */
static inline void coll_fill(unsigned char *stage, const void *data, uint64_t bytes,
                             uint64_t stream_min)
{
    if (bytes >= stream_min) {
        orl_copy_stream(stage, data, bytes);
    } else {
        orl_copy(stage, data, bytes);
    }
}

#endif
