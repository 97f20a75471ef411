/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchanges whose operand fits a line: barrier, small allreduce. Flat, or in groups. Knows nothing
 * of peers, teams or requests; waiting is the caller's function.
 *
 * Cost, c one line hand-over, R ranks: c + (R - 2) overlapping misses, three times that in groups.
 */
#include "core/coll/coll_lines.h"

enum coll_missing coll_need_look(const struct coll_need *need, unsigned cpu)
{
    enum coll_missing found = COLL_MET;

    for (int r = need->first; r < need->last; r += need->stride) {
        uint64_t word = atomic_load_explicit(&need->line[r].seq, memory_order_acquire);

        if ((word & COLL_SEQ_MASK) >= need->seq) {
            continue;
        }
        if (word >> COLL_SEQ_BITS == cpu) {
            return COLL_HERE;
        }
        found = COLL_ELSEWHERE;
    }
    return found;
}

bool coll_need_is_met(const struct coll_need *need)
{
    for (int r = need->first; r < need->last; r += need->stride) {
        if (coll_seq_of(&need->line[r]) < need->seq) {
            return false;
        }
    }
    return true;
}

/* dst = data of rank first op data of the next …, from lines that have all come. */
static inline void combine(const struct fab_flag *line, int first, int last, int stride,
                           const struct coll_operand *x)
{
    const void *sum = line[first].data;

    for (int r = first + stride; r < last; r += stride) {
        x->fn(x->recv, sum, line[r].data, x->elements);
        sum = x->recv;
    }
    if (sum != x->recv) {
        coll_move(x->recv, sum, x->bytes);
    }
}

static int exchange_flat(struct coll_matrix *m, const char *call, const struct coll_operand *x)
{
    struct fab_flag *up = coll_row(m, COLL_UP, m->step);
    coll_move(up[m->me].data, x->send, x->bytes);
    coll_publish(m, &up[m->me], m->step);
    /* The readers of my line of the step before are done with it: fetch it back while waiting. */
    __builtin_prefetch(&coll_row(m, COLL_UP, m->step + 1)[m->me], 1);
    int st = m->wait(&(struct coll_need){
        .line = up, .first = 0, .last = m->nranks, .stride = 1, .seq = m->step, .call = call });
    if (st == 0 && x->bytes != 0) {
        combine(up, 0, m->nranks, 1, x);
    }
    return st;
}

/* The leader's part: combine the group, exchange with the other leaders, release the group. */
static int lead(struct coll_matrix *m, const char *call, const struct coll_operand *x)
{
    struct fab_flag *up = coll_row(m, COLL_UP, m->step);
    struct fab_flag *across = coll_row(m, COLL_ACROSS, m->step);
    struct fab_flag *down = coll_row(m, COLL_DOWN, m->step);
    int end = m->me + m->group < m->nranks ? m->me + m->group : m->nranks;
    int st = m->wait(&(struct coll_need){
        .line = up, .first = m->me, .last = end, .stride = 1, .seq = m->step, .call = call });
    if (st != 0) {
        return st;
    }
    if (x->bytes != 0) {
        combine(up, m->me, end, 1, x);
        coll_move(across[m->me].data, x->recv, x->bytes);
    }
    coll_publish(m, &across[m->me], m->step);
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
        combine(across, 0, m->nranks, m->group, x);
        coll_move(down[m->me].data, x->recv, x->bytes);
    }
    coll_publish(m, &down[m->me], m->step);
    return 0;
}

static int exchange_grouped(struct coll_matrix *m, const char *call, const struct coll_operand *x)
{
    int leader = m->me - m->me % m->group;
    struct fab_flag *up = coll_row(m, COLL_UP, m->step);
    coll_move(up[m->me].data, x->send, x->bytes);
    coll_publish(m, &up[m->me], m->step);
    if (leader == m->me) {
        return lead(m, call, x);
    }
    struct fab_flag *down = coll_row(m, COLL_DOWN, m->step);
    int st = m->wait(&(struct coll_need){ .line = down,
                                          .first = leader,
                                          .last = leader + 1,
                                          .stride = 1,
                                          .seq = m->step,
                                          .call = call });
    if (st == 0) {
        coll_move(x->recv, down[leader].data, x->bytes);
    }
    return st;
}

/* Everybody's line to rank 0, which combines them; and its line to everybody. The two are one step.
 * Rank 0 leaves it when all have entered, as everybody leaves an exchange; the others when it has
 * released them. */
int coll_gather(struct coll_matrix *m, const char *call, const struct coll_operand *x)
{
    struct fab_flag *up = coll_row(m, COLL_UP, ++m->step);

    coll_move(up[m->me].data, x->send, x->bytes);
    coll_publish(m, &up[m->me], m->step);
    if (m->me != 0) {
        return 0;
    }
    int st = m->wait(&(struct coll_need){
        .line = up, .first = 0, .last = m->nranks, .stride = 1, .seq = m->step, .call = call });
    if (st == 0 && x->bytes != 0) {
        combine(up, 0, m->nranks, 1, x);
    }
    return st;
}

int coll_release(struct coll_matrix *m, const char *call, const struct coll_operand *x)
{
    struct fab_flag *down = coll_row(m, COLL_DOWN, m->step);

    if (m->me == 0) {
        coll_move(down[0].data, x->recv, x->bytes);
        coll_publish(m, &down[0], m->step);
        return 0;
    }
    int st = m->wait(&(struct coll_need){
        .line = down, .first = 0, .last = 1, .stride = 1, .seq = m->step, .call = call });
    if (st == 0) {
        coll_move(x->recv, down[0].data, x->bytes);
    }
    return st;
}

int coll_exchange(struct coll_matrix *m, const char *call, const struct coll_operand *x)
{
    m->step++;
    return m->group >= m->nranks ? exchange_flat(m, call, x) : exchange_grouped(m, call, x);
}
