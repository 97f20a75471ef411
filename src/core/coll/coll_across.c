/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barrier and bcast by message; see coll_across.h. With a the latency of a message, o what it costs
 * its sender or receiver, p that of a piece of COLL_PIECE_BYTES, n ranks, and P pieces:
 *
 *   barrier     log4(n) (a + 3 o)
 *   tree        log4(n) (a + 3 o), and 3 log4(n) P p at the root
 *   chain       (n - 1) (a + p) + (P - 1) p, pieces go on as they come
 */
#include "core/coll/coll_across.h"

#include <stdlib.h>

#include "base/status.h"

#define RADIX 4 /* one message's latency is worth some three messages' cost */

/* A chain's last rank gets its first piece late: it pays when there are more pieces than that. */
#define CHAIN_PIECES 2 /* for each rank */

static int rank_at(const struct coll_circle *c, int place)
{
    return c->rank != NULL ? c->rank[place] : place;
}

/* ---------------------------------------------------------------- barrier */

int coll_across_barrier(const struct coll_circle *c, const char *call)
{
    struct coll_move send[RADIX - 1];
    struct coll_move recv[RADIX - 1];
    uint32_t round = 0;
    int st = 0;

    for (int64_t near = 1; st == 0 && near < c->n; near *= RADIX, round++) {
        uint32_t phase = coll_phase(COLL_MEET, round);
        int moves = 0;

        for (int64_t d = near; d < c->n && moves < RADIX - 1; d += near, moves++) {
            int to = (int)((c->me + d) % c->n);
            int from = (int)((c->me - d + c->n) % c->n);

            coll_move_set(&send[moves], rank_at(c, to), phase, NULL, 0);
            coll_move_set(&recv[moves], rank_at(c, from), phase, NULL, 0);
        }
        st = coll_exchange_run(&(struct coll_exchange){ .net = c->net,
                                                        .call = call,
                                                        .send = send,
                                                        .nsends = moves,
                                                        .recv = recv,
                                                        .nrecvs = moves });
    }
    return st;
}

/* ---------------------------------------------------------------- bcast */

uint64_t coll_bcast_chain_from(int n)
{
    return n > 2 ? (uint64_t)n * CHAIN_PIECES * COLL_PIECE_BYTES : UINT64_MAX;
}

enum coll_form coll_bcast_form(int n, uint64_t bytes)
{
    return bytes >= coll_bcast_chain_from(n) ? COLL_FORM_CHAIN : COLL_FORM_TREE;
}

/* Places relative to the root, which is 0: a rank serves those that differ from it in one digit
 * (base RADIX) below its own lowest one, the farthest first. */
static int children_of(int place, int n, enum coll_form form, int child[])
{
    int64_t step = 1;
    int count = 0;

    if (form == COLL_FORM_CHAIN) {
        child[0] = place + 1;
        return place + 1 < n ? 1 : 0;
    }
    while (step < n && place / step % RADIX == 0) {
        step *= RADIX;
    }
    for (step /= RADIX; step > 0; step /= RADIX) {
        for (int64_t digit = 1; digit < RADIX && place + digit * step < n; digit++) {
            child[count++] = (int)(place + digit * step);
        }
    }
    return count;
}

static int parent_of(int place, enum coll_form form)
{
    int step = 1;

    if (form == COLL_FORM_CHAIN) {
        return place - 1;
    }
    while (place / step % RADIX == 0) {
        step *= RADIX;
    }
    return place - place / step % RADIX * step;
}

#define CHILDREN_MAX ((RADIX - 1) * 16) /* levels of 2^31 ranks */

/* The root's message may be of another length: then there is memory of that length, so that it
 * goes on to those who depend on me. */
static int find_room(const struct coll_circle *c, const char *call, struct coll_cast *cast,
                     uint64_t total)
{
    cast->total = total;
    if (total == cast->bytes) {
        return 0;
    }
    cast->other = malloc(total != 0 ? total : 1);
    if (cast->other != NULL) {
        return 0;
    }
    return coll_net_give_up(c->net, c->net->me,
                            orl_fail(ORL_ERR_NOMEM,
                                     "%s: the root sends %llu bytes, this rank expects %llu", call,
                                     (unsigned long long)total, (unsigned long long)cast->bytes));
}

/* Who that place, relative to the root, is. */
static int rank_from(const struct coll_circle *c, const struct coll_cast *cast, int place)
{
    return place == 0 ? cast->rank : rank_at(c, (place + cast->place) % c->n);
}

int coll_across_bcast(const struct coll_circle *c, const char *call, struct coll_cast *cast)
{
    struct coll_move send[CHILDREN_MAX];
    struct coll_move recv;
    int child[CHILDREN_MAX];
    int place = (c->me - cast->place + c->n) % c->n;
    uint32_t phase = coll_phase(COLL_CAST, 0);
    int source = -1;
    int st = 0;

    cast->other = NULL;
    cast->total = cast->bytes;
    if (place != 0) {
        int parent = parent_of(place, coll_bcast_form(c->n, cast->bytes));
        uint64_t total;

        st = coll_net_peek(c->net, call, rank_from(c, cast, parent), &source, &total);
        if (st == 0) {
            st = find_room(c, call, cast, total);
        }
    }
    if (st != 0) {
        return st;
    }
    unsigned char *data = cast->other != NULL ? cast->other : cast->buffer;
    int children = children_of(place, c->n, coll_bcast_form(c->n, cast->total), child);
    coll_move_set(&recv, source, phase, data, cast->total);
    for (int i = 0; i < children; i++) {
        coll_move_set(&send[i], rank_from(c, cast, child[i]), phase, data, cast->total);
        send[i].after = place != 0 ? &recv : NULL;
    }
    return coll_exchange_run(&(struct coll_exchange){ .net = c->net,
                                                      .call = call,
                                                      .send = send,
                                                      .nsends = children,
                                                      .recv = &recv,
                                                      .nrecvs = place != 0 ? 1 : 0 });
}
