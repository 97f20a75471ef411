/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps of coll.h on the flag matrix: exchange (barrier, allreduce), staged exchange, spread
 * (bcast). Knows nothing of peers, teams or requests; waiting is the caller's function.
 *
 * Cost, c one line hand-over, R ranks: exchange c + (R - 2) overlapping misses; staged 3n/B;
 * spread c.
 */
#include "core/coll/coll.h"

#include <string.h>

#include "base/copy.h"

enum {
    UP,
    ACROSS,
    DOWN
};
enum {
    STAGE_EXCHANGE,
    STAGE_SPREAD
};

#define STREAM_MIN 1024 /* bytes from which a stage block is filled past the caches */

static struct fab_flag *row(const struct coll_matrix *m, int level, uint64_t step)
{
    return m->node->flags + (2 * (uint64_t)level + (step & 1)) * (uint64_t)m->nranks;
}

static unsigned char *stage(const struct coll_matrix *m, int set, uint64_t step, int rank)
{
    uint64_t block = (2 * (uint64_t)set + (step & 1)) * (uint64_t)m->nranks + (uint64_t)rank;
    return m->node->stage + block * FAB_STAGE_BYTES;
}

bool coll_need_is_met(const struct coll_need *need)
{
    for (int r = need->first; r < need->last; r += need->stride) {
        if (atomic_load_explicit(&need->line[r].seq, memory_order_acquire) < need->seq) {
            return false;
        }
    }
    return true;
}

/* Eight bytes are what everybody sums. */
static inline void move(void *dst, const void *src, uint64_t bytes)
{
    if (bytes == 8) {
        memcpy(dst, src, 8);
    } else if (bytes != 0) {
        orl_copy(dst, src, bytes);
    }
}

static inline void publish(const struct coll_matrix *m, struct fab_flag *line, uint64_t seq,
                           const void *data, uint64_t bytes)
{
    move(line->data, data, bytes);
    atomic_store_explicit(&line->seq, seq, memory_order_release);
    fab_node_wake(m->node, -1);
}

/* acc = data of rank first op data of the next …, from lines that have all come. */
static inline void combine(const struct fab_flag *line, int first, int last, int stride,
                           const struct coll_operand *x, void *acc)
{
    move(acc, line[first].data, x->bytes);
    for (int r = first + stride; r < last; r += stride) {
        x->fn(acc, line[r].data, x->elements);
    }
}

static int exchange_flat(struct coll_matrix *m, const char *call, const struct coll_operand *x)
{
    struct fab_flag *up = row(m, UP, m->step);
    publish(m, &up[m->me], m->step, x->send, x->bytes);
    int st = m->wait(&(struct coll_need){
        .line = up, .first = 0, .last = m->nranks, .stride = 1, .seq = m->step, .call = call });
    if (st == 0 && x->bytes != 0) {
        _Alignas(64) unsigned char acc[FAB_FLAG_BYTES];
        combine(up, 0, m->nranks, 1, x, acc);
        move(x->recv, acc, x->bytes);
    }
    return st;
}

/* The leader's part: combine the group, exchange with the other leaders, release the group. */
static int lead(struct coll_matrix *m, const char *call, const struct coll_operand *x)
{
    struct fab_flag *up = row(m, UP, m->step);
    struct fab_flag *across = row(m, ACROSS, m->step);
    int end = m->me + m->group < m->nranks ? m->me + m->group : m->nranks;
    _Alignas(64) unsigned char acc[FAB_FLAG_BYTES];
    int st = m->wait(&(struct coll_need){
        .line = up, .first = m->me, .last = end, .stride = 1, .seq = m->step, .call = call });
    if (st != 0) {
        return st;
    }
    if (x->bytes != 0) {
        combine(up, m->me, end, 1, x, acc);
    }
    publish(m, &across[m->me], m->step, acc, x->bytes);
    st = m->wait(&(struct coll_need){ .line = across,
                                      .first = 0,
                                      .last = m->nranks,
                                      .stride = m->group,
                                      .seq = m->step,
                                      .call = call });
    if (st != 0) {
        return st;
    }
    if (x->bytes != 0) {
        combine(across, 0, m->nranks, m->group, x, acc);
        move(x->recv, acc, x->bytes);
    }
    publish(m, &row(m, DOWN, m->step)[m->me], m->step, acc, x->bytes);
    return 0;
}

static int exchange_grouped(struct coll_matrix *m, const char *call, const struct coll_operand *x)
{
    int leader = m->me - m->me % m->group;
    publish(m, &row(m, UP, m->step)[m->me], m->step, x->send, x->bytes);
    if (leader == m->me) {
        return lead(m, call, x);
    }
    struct fab_flag *down = row(m, DOWN, m->step);
    int st = m->wait(&(struct coll_need){ .line = down,
                                          .first = leader,
                                          .last = leader + 1,
                                          .stride = 1,
                                          .seq = m->step,
                                          .call = call });
    if (st == 0) {
        move(x->recv, down[leader].data, x->bytes);
    }
    return st;
}

int coll_exchange(struct coll_matrix *m, const char *call, const struct coll_operand *x)
{
    m->step++;
    return m->group >= m->nranks ? exchange_flat(m, call, x) : exchange_grouped(m, call, x);
}

static int reserve_set(struct coll_matrix *m, int set)
{
    int st = 0;
    for (uint64_t parity = 0; st == 0 && parity < 2; parity++) {
        st = fab_node_reserve(m->node, stage(m, set, parity, m->me), FAB_STAGE_BYTES);
    }
    return st;
}

/* Stage blocks are small and used again at once, so the readers still hold their lines: an ordinary
 * store would fetch each line back (5 to 7 GB/s), one that bypasses the caches does not (15 to 20).
 */
static void fill_stage(unsigned char *block, const void *data, uint64_t bytes)
{
    if (bytes >= STREAM_MIN) {
        orl_copy_stream(block, data, bytes);
    } else {
        orl_copy(block, data, bytes);
    }
}

/* My blocks of both sets exist from here on. */
static int reserve_stage(struct coll_matrix *m)
{
    int st = 0;
    for (int set = STAGE_EXCHANGE; st == 0 && !m->staged && set <= STAGE_SPREAD; set++) {
        st = reserve_set(m, set);
    }
    m->staged = m->staged || st == 0;
    return st;
}

/* One piece: everybody's is in its stage block when all flags have come. Always flat: every rank
 * reads every block, so the flags are all that a second level could save. */
static int exchange_piece(struct coll_matrix *m, const char *call, const struct coll_operand *x)
{
    m->step++;
    struct fab_flag *up = row(m, UP, m->step);
    fill_stage(stage(m, STAGE_EXCHANGE, m->step, m->me), x->send, x->bytes);
    publish(m, &up[m->me], m->step, NULL, 0);
    int st = m->wait(&(struct coll_need){
        .line = up, .first = 0, .last = m->nranks, .stride = 1, .seq = m->step, .call = call });
    if (st != 0) {
        return st;
    }
    orl_copy(x->recv, stage(m, STAGE_EXCHANGE, m->step, 0), x->bytes);
    for (int r = 1; r < m->nranks; r++) {
        x->fn(x->recv, stage(m, STAGE_EXCHANGE, m->step, r), x->elements);
    }
    return 0;
}

int coll_exchange_staged(struct coll_matrix *m, const char *call, const struct coll_operand *x,
                         uint64_t element)
{
    int st = reserve_stage(m);
    const uint64_t most = FAB_STAGE_BYTES / element;
    const unsigned char *send = x->send;
    unsigned char *recv = x->recv;
    for (uint64_t at = 0; st == 0 && at < x->elements; at += most) {
        uint64_t n = x->elements - at < most ? x->elements - at : most;
        st = exchange_piece(m, call,
                            &(struct coll_operand){ .send = send + at * element,
                                                    .recv = recv + at * element,
                                                    .elements = n,
                                                    .bytes = n * element,
                                                    .fn = x->fn });
    }
    return st;
}

/* ---------------------------------------------------------------- rooted steps */

/* Wait until every rank has consumed rooted step `step`. */
static int wait_consumed(struct coll_matrix *m, const char *call, uint64_t step)
{
    if (m->done_min >= step) {
        return 0;
    }
    int st = m->wait(&(struct coll_need){ .line = m->node->done,
                                          .first = 0,
                                          .last = m->nranks,
                                          .stride = 1,
                                          .seq = step,
                                          .call = call });
    if (st == 0) {
        m->done_min = step;
    }
    return st;
}

static void consumed(struct coll_matrix *m)
{
    atomic_store_explicit(&m->node->done[m->me].seq, m->rooted, memory_order_release);
    fab_node_wake(m->node, -1);
}

/* One step of at most FAB_FLAG_BYTES in the line, or FAB_STAGE_BYTES in the root's stage block. */
static int spread_piece(struct coll_matrix *m, const char *call, void *buffer, uint64_t bytes,
                        int root)
{
    const uint64_t step = ++m->rooted;
    const bool inline_data = bytes <= FAB_FLAG_BYTES;
    const uint64_t ahead = inline_data ? FAB_BCAST_SLOTS : 2;
    struct fab_flag *line = m->node->bcast + (step % FAB_BCAST_SLOTS) * (uint64_t)m->nranks;
    unsigned char *block = stage(m, STAGE_SPREAD, step, root);
    if (root == m->me) {
        int st = step > ahead ? wait_consumed(m, call, step - ahead) : 0;
        if (st != 0) {
            return st;
        }
        if (!inline_data) {
            fill_stage(block, buffer, bytes);
        }
        publish(m, &line[root], step, buffer, inline_data ? bytes : 0);
    } else {
        int st = m->wait(&(struct coll_need){ .line = line,
                                              .first = root,
                                              .last = root + 1,
                                              .stride = 1,
                                              .seq = step,
                                              .call = call });
        if (st != 0) {
            return st;
        }
        move(buffer, inline_data ? line[root].data : block, bytes);
    }
    consumed(m);
    return 0;
}

int coll_spread(struct coll_matrix *m, const char *call, void *buffer, uint64_t bytes, int root)
{
    if (bytes <= FAB_FLAG_BYTES) {
        return spread_piece(m, call, buffer, bytes, root);
    }
    int st = reserve_stage(m);
    unsigned char *at = buffer;
    while (st == 0 && bytes != 0) {
        uint64_t n = bytes < FAB_STAGE_BYTES ? bytes : FAB_STAGE_BYTES;
        st = spread_piece(m, call, at, n, root);
        at += n;
        bytes -= n;
    }
    return st;
}
