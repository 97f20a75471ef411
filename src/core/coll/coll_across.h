/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives among ranks that reach each other by message only: one of each host, or all. Each
 * call belongs to the step that coll_net_begin has begun. Which algorithm, by ranks and bytes:
 *
 *   barrier    dissemination, 3 partners in each round
 *   bcast      few bytes: tree in which each rank serves up to 3 at each level; many: chain
 *   allreduce  everybody sends his whole operand to everybody; or, by many ranks, doubling; or, if
 *              large, everybody combines one slice for all
 *
 * Operands are taken in the order of the ranks, and who combines an element does so for all others
 * or as all others do: the same bits everywhere and from run to run.
 */
#ifndef CORE_COLL_COLL_ACROSS_H
#define CORE_COLL_COLL_ACROSS_H

#include <stdint.h>

#include "base/attr.h"
#include "core/coll/coll.h"
#include "core/coll/coll_net.h"

/* Who takes part. */
struct coll_circle {
    struct coll_net *net;
    const int *rank; /* borrows; [n] ascending; NULL: all ranks of the job */
    int n;
    int me; /* my place */
};

enum coll_form {
    COLL_FORM_TREE,
    COLL_FORM_CHAIN,
    COLL_FORM_WHOLE,
    COLL_FORM_DOUBLING,
    COLL_FORM_SLICED
};

enum coll_form coll_bcast_form(int n, uint64_t bytes);
enum coll_form coll_allreduce_form(int n, uint64_t bytes);
/* Bytes from which on a bcast is a chain, UINT64_MAX: never; and an allreduce sliced. */
uint64_t coll_bcast_chain_from(int n);
uint64_t coll_allreduce_sliced_from(int n);
/* Whether so many ranks double, instead of all sending to all, below that. */
bool coll_allreduce_doubles(int n);

int coll_across_barrier(const struct coll_circle *c, const char *call) ORL_MUST_CHECK;

/* bytes of `rank` to all. It takes the place of that number in the circle, whoever is there else.
 * buffer and bytes of others: what they expect. When the root sends another number of bytes,
 * *other is memory with what it sent, of *total bytes, for the caller to free, and the result INVAL
 * is the caller's to give, since others may depend on this rank to pass it on. */
struct coll_cast {
    void *buffer;
    uint64_t bytes;
    int place, rank; /* of the root */
    void *other;
    uint64_t total;
};
int coll_across_bcast(const struct coll_circle *c, const char *call,
                      struct coll_cast *cast) ORL_MUST_CHECK;

int coll_across_allreduce(const struct coll_circle *c, const char *call,
                          const struct coll_operand *x, uint64_t element) ORL_MUST_CHECK;

#endif
