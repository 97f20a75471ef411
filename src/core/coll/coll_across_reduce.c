/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allreduce by message; see coll_across.h. With a the latency of a message, o what it costs, b the
 * time of a byte on the way, n ranks and m bytes:
 *
 *   whole      a + (n - 1) (o + m b)
 *   doubling   log2(n) (a + o + m b), and a + o + m b twice where n is no power of two
 *   sliced     2 (a + (n - 1) o + (n - 1) / n m b), each byte combined once for all
 *
 * Sliced has the volume of a ring without its n - 1 latencies, since all send to all at once.
 */
#include "core/coll/coll_across.h"

#include "base/attr.h"
#include "base/copy.h"
#include "base/status.h"

#define WHOLE_RANKS_MAX 16 /* messages of one rank that cost what a round of doubling does */
#define WHOLE_READ_MAX                                                                             \
 (64u << 10)                        /* bytes a rank gets; with more of them two latencies are less \
                                     */
#define PAIR_MAX       (256u << 10) /* two ranks send each other the same bytes in either form */
#define DOUBLING_SHARE 1024u        /* bytes of operand for each rank: more, and slices cost less */
#define DOUBLING_MAX   (1u << 20)
#define CHUNK_BYTES    (4u << 20) /* of an operand at a time: bounds the memory for slices */

bool coll_allreduce_doubles(int n)
{
    return n > WHOLE_RANKS_MAX;
}

uint64_t coll_allreduce_sliced_from(int n)
{
    if (coll_allreduce_doubles(n)) {
        uint64_t most = (uint64_t)n * DOUBLING_SHARE;
        return (most < DOUBLING_MAX ? most : DOUBLING_MAX) + 1;
    }
    return (n == 2 ? PAIR_MAX : WHOLE_READ_MAX / ((uint64_t)n - 1)) + 1;
}

enum coll_form coll_allreduce_form(int n, uint64_t bytes)
{
    if (bytes >= coll_allreduce_sliced_from(n)) {
        return COLL_FORM_SLICED;
    }
    return coll_allreduce_doubles(n) ? COLL_FORM_DOUBLING : COLL_FORM_WHOLE;
}

static int rank_at(const struct coll_circle *c, int place)
{
    return c->rank != NULL ? c->rank[place] : place;
}

/* ---------------------------------------------------------------- all operands at one rank */

/* Where they are: mine at its own place, the others one after the other. */
struct operands {
    const unsigned char *own, *others;
    uint64_t bytes; /* of each */
    uint64_t element;
    core_op_fn fn;
    unsigned char *sum; /* room for a block */
    int me, n;
};

static const unsigned char *operand(const struct operands *o, int place, uint64_t at)
{
    if (place == o->me) {
        return o->own + at;
    }
    return o->others + (uint64_t)(place < o->me ? place : place - 1) * o->bytes + at;
}

/* dst may be the place of my operand: it is written last. Block by block, so that what is combined
 * last is still in the nearest cache. */
static void combine(const struct operands *o, unsigned char *dst)
{
    for (uint64_t at = 0; at < o->bytes; at += COLL_BLOCK_BYTES) {
        uint64_t bytes = o->bytes - at < COLL_BLOCK_BYTES ? o->bytes - at : COLL_BLOCK_BYTES;
        const unsigned char *left = operand(o, 0, at);

        for (int place = 1; place < o->n; place++) {
            unsigned char *to = place == o->n - 1 ? dst + at : o->sum;

            o->fn(to, left, operand(o, place, at), bytes / o->element);
            left = to;
        }
    }
}

/* ---------------------------------------------------------------- whole */

static int run(const struct coll_circle *c, const char *call, struct coll_move *moves, int each)
{
    return coll_exchange_run(&(struct coll_exchange){ .net = c->net,
                                                      .call = call,
                                                      .send = moves,
                                                      .nsends = each,
                                                      .recv = moves + each,
                                                      .nrecvs = each });
}

/* The i-th of the others, as seen from my place: spreads who is sent to first. */
static int other(const struct coll_circle *c, int i)
{
    return (c->me + 1 + i) % c->n;
}

static int whole(const struct coll_circle *c, const char *call, const struct coll_operand *x,
                 uint64_t element)
{
    const int others = c->n - 1;
    struct coll_move *moves = coll_net_moves(c->net, 2 * others);
    unsigned char *scratch = coll_net_scratch(c->net, (uint64_t)others * x->bytes);
    uint32_t phase = coll_phase(COLL_WHOLE, 0);

    if (moves == NULL || scratch == NULL) {
        return ORL_ERR_NOMEM;
    }
    const struct operands o = { .own = x->send,
                                .others = scratch,
                                .bytes = x->bytes,
                                .element = element,
                                .fn = x->fn,
                                .sum = c->net->block,
                                .me = c->me,
                                .n = c->n };
    for (int i = 0; i < others; i++) {
        int place = other(c, i);
        uint64_t slot = (uint64_t)(place < c->me ? place : place - 1);

        coll_move_set(&moves[i], rank_at(c, place), phase, x->send, x->bytes);
        coll_move_set(&moves[others + i], rank_at(c, place), phase, scratch + slot * x->bytes,
                      x->bytes);
    }
    int st = run(c, call, moves, others);
    if (st == 0) {
        combine(&o, x->recv);
    }
    return st;
}

/* ---------------------------------------------------------------- doubling */

static int one_way(const struct coll_circle *c, const char *call, const struct coll_move *move,
                   bool is_send)
{
    struct coll_move copy;

    coll_move_set(&copy, move->rank, move->phase, move->data, move->bytes);
    return coll_exchange_run(&(struct coll_exchange){ .net = c->net,
                                                      .call = call,
                                                      .send = &copy,
                                                      .nsends = is_send ? 1 : 0,
                                                      .recv = &copy,
                                                      .nrecvs = is_send ? 0 : 1 });
}

/* Where there are more ranks than the power of two below, the first ones stand for two each: the
 * place among those that double, -1 for one that is stood for; and back. */
static int folded(int place, int extra)
{
    if (place >= 2 * extra) {
        return place - extra;
    }
    return place % 2 == 0 ? place / 2 : -1;
}

static int unfolded(int place, int extra)
{
    return place < extra ? 2 * place : place + extra;
}

/* Both sides of each pair combine the same two operands in the same order; what a rank has after a
 * round is that of a run of ranks. */
static int double_up(const struct coll_circle *c, const char *call, const struct coll_operand *x,
                     int extra)
{
    unsigned char *theirs = coll_net_scratch(c->net, x->bytes);
    int place = folded(c->me, extra);
    uint32_t round = 0;
    int st = 0;

    for (int near = 1; st == 0 && near < c->n - extra; near *= 2, round++) {
        struct coll_move moves[2];
        int partner = place ^ near;
        int rank = rank_at(c, unfolded(partner, extra));
        uint32_t phase = coll_phase(COLL_DOUBLE, round);

        coll_move_set(&moves[0], rank, phase, x->recv, x->bytes);
        coll_move_set(&moves[1], rank, phase, theirs, x->bytes);
        st = run(c, call, moves, 1);
        if (st == 0) {
            x->fn(x->recv, partner < place ? theirs : x->recv, partner < place ? x->recv : theirs,
                  x->elements);
        }
    }
    return st;
}

static int doubling(const struct coll_circle *c, const char *call, const struct coll_operand *x)
{
    unsigned char *theirs = coll_net_scratch(c->net, x->bytes);
    int power = 1;
    int st = 0;

    if (theirs == NULL) {
        return ORL_ERR_NOMEM;
    }
    while (power <= c->n / 2) {
        power *= 2;
    }
    const int extra = c->n - power;
    bool is_pair = c->me < 2 * extra;
    bool stands_for_two = is_pair && c->me % 2 == 0;
    int rank = is_pair ? rank_at(c, c->me ^ 1) : -1;
    struct coll_move fold = { .rank = rank,
                              .phase = coll_phase(COLL_FOLD, 0),
                              .data = stands_for_two ? theirs : x->recv,
                              .bytes = x->bytes };
    struct coll_move unfold = {
        .rank = rank, .phase = coll_phase(COLL_UNFOLD, 0), .data = x->recv, .bytes = x->bytes
    };
    if (x->recv != x->send) {
        orl_copy(x->recv, x->send, x->bytes);
    }
    if (is_pair) {
        st = one_way(c, call, &fold, !stands_for_two);
    }
    if (st == 0 && stands_for_two) {
        x->fn(x->recv, x->recv, theirs, x->elements);
    }
    if (st == 0 && (!is_pair || stands_for_two)) {
        st = double_up(c, call, x, extra);
    }
    if (st == 0 && is_pair) {
        st = one_way(c, call, &unfold, stands_for_two);
    }
    return st;
}

/* ---------------------------------------------------------------- sliced */

struct slice {
    uint64_t low, bytes;
};

/* Whole lines; the last ones may be short or empty. */
static struct slice slice_of(uint64_t bytes, int n, int place)
{
    uint64_t each = (bytes + (uint64_t)n - 1) / (uint64_t)n;
    each = (each + ORL_CACHE_LINE - 1) / ORL_CACHE_LINE * ORL_CACHE_LINE;
    uint64_t low = (uint64_t)place * each;
    low = low < bytes ? low : bytes;
    return (struct slice){ .low = low, .bytes = bytes - low < each ? bytes - low : each };
}

/* My slice of all operands, combined into its place in the result. */
static int reduce_mine(const struct coll_circle *c, const char *call, const struct coll_operand *x,
                       uint64_t element, uint64_t round)
{
    const int others = c->n - 1;
    const struct slice mine = slice_of(x->bytes, c->n, c->me);
    struct coll_move *moves = coll_net_moves(c->net, 2 * others);
    unsigned char *scratch = coll_net_scratch(c->net, (uint64_t)others * mine.bytes + 1);
    unsigned char *recv = x->recv;
    const unsigned char *send = x->send;
    uint32_t phase = coll_phase(COLL_SLICE, round);

    if (moves == NULL || scratch == NULL) {
        return ORL_ERR_NOMEM;
    }
    const struct operands o = { .own = send + mine.low,
                                .others = scratch,
                                .bytes = mine.bytes,
                                .element = element,
                                .fn = x->fn,
                                .sum = c->net->block,
                                .me = c->me,
                                .n = c->n };
    for (int i = 0; i < others; i++) {
        int place = other(c, i);
        const struct slice theirs = slice_of(x->bytes, c->n, place);
        uint64_t slot = (uint64_t)(place < c->me ? place : place - 1);

        coll_move_set(&moves[i], rank_at(c, place), phase, send + theirs.low, theirs.bytes);
        coll_move_set(&moves[others + i], rank_at(c, place), phase, scratch + slot * mine.bytes,
                      mine.bytes);
    }
    int st = run(c, call, moves, others);
    if (st == 0) {
        combine(&o, recv + mine.low);
    }
    return st;
}

/* Everybody's slice of the result to everybody. */
static int collect(const struct coll_circle *c, const char *call, const struct coll_operand *x,
                   uint64_t round)
{
    const int others = c->n - 1;
    const struct slice mine = slice_of(x->bytes, c->n, c->me);
    struct coll_move *moves = coll_net_moves(c->net, 2 * others);
    unsigned char *recv = x->recv;
    uint32_t phase = coll_phase(COLL_RESULT, round);

    for (int i = 0; i < others; i++) {
        int place = other(c, i);
        const struct slice theirs = slice_of(x->bytes, c->n, place);

        coll_move_set(&moves[i], rank_at(c, place), phase, recv + mine.low, mine.bytes);
        coll_move_set(&moves[others + i], rank_at(c, place), phase, recv + theirs.low,
                      theirs.bytes);
    }
    return run(c, call, moves, others);
}

static int sliced(const struct coll_circle *c, const char *call, const struct coll_operand *x,
                  uint64_t element)
{
    const uint64_t most = CHUNK_BYTES / element;
    const unsigned char *send = x->send;
    unsigned char *recv = x->recv;
    uint64_t round = 0;
    int st = 0;

    for (uint64_t at = 0; st == 0 && at < x->elements; at += most, round++) {
        uint64_t n = x->elements - at < most ? x->elements - at : most;
        struct coll_operand chunk = { .send = send + at * element,
                                      .recv = recv + at * element,
                                      .elements = n,
                                      .bytes = n * element,
                                      .fn = x->fn };

        st = reduce_mine(c, call, &chunk, element, round);
        if (st == 0) {
            st = collect(c, call, &chunk, round);
        }
    }
    return st;
}

int coll_across_allreduce(const struct coll_circle *c, const char *call,
                          const struct coll_operand *x, uint64_t element)
{
    enum coll_form form = coll_allreduce_form(c->n, x->bytes);

    if (form == COLL_FORM_SLICED) {
        return sliced(c, call, x, element);
    }
    return form == COLL_FORM_DOUBLING ? doubling(c, call, x) : whole(c, call, x, element);
}
