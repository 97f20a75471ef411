/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives on world within one host, small form: the flag matrix of the node segment.
 *
 * Who writes what. Every rank has one line per level and parity; it alone writes it, `seq` last
 * with release. Readers load `seq` with acquire, then the data. A step is numbered by one counter
 * per process that all ranks advance alike; step k uses parity k & 1. No rank can be at k + 2 while
 * another still reads k, because k + 1 ends only when everybody has entered it, that is, has left
 * k.
 *
 * Up to ORIEL_COLL_FLAT_MAX ranks: level UP alone, everybody reads everybody. Above: groups;
 * members write UP, the group's lowest rank combines and writes ACROSS, reads all leaders, and
 * writes DOWN, which its members read. Operands are combined in rank order within a group and
 * groups in order, by everybody alike: the result is the same on all ranks, bit by bit, and from
 * run to run.
 *
 * Rooted steps have a counter of their own. The root writes its line of slot step % FAB_BCAST_SLOTS
 * and may run that many steps ahead of the slowest rank, whose progress it reads in the `done`
 * lines only when the slot comes round.
 *
 * A rank that dies leaves its line behind the others: whoever waits for it looks at its life every
 * 50 ms and ends with PEER. Half-done steps need no repair: the job's collectives end there.
 */
#ifndef CORE_COLL_COLL_H
#define CORE_COLL_COLL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "core/type/type.h"
#include "fabric/fabric.h"

/* Lines a step waits for: seq of ranks first, first + stride, … below last, in the row `line`. */
struct coll_need {
    const struct fab_flag *line; /* [nranks] */
    int first, last, stride;
    uint64_t seq;
    const char *call; /* for messages */
};

/* Returns 0 when all have come, or the status that ends the wait. */
typedef int (*coll_wait_fn)(const struct coll_need *need);

/* This process's view of the matrix. The node's memory and the wait are arguments, so that race
 * tests run several ranks as threads of one process. */
struct coll_matrix {
    struct fab_node *node; /* borrows */
    coll_wait_fn wait;
    int me, nranks;
    int group;         /* ranks a leader combines; >= nranks: flat */
    uint64_t step;     /* all-to-all steps begun */
    uint64_t rooted;   /* rooted steps begun */
    uint64_t done_min; /* every rank is known to have consumed this rooted step */
    bool staged;       /* my stage blocks are reserved */
};

/* What an exchange combines; all zero for a barrier. */
struct coll_operand {
    const void *send;
    void *recv;
    uint64_t elements;
    uint64_t bytes;
    core_op_fn fn;
};

/* True when every line has reached its seq. */
bool coll_need_is_met(const struct coll_need *need);

/* One all-to-all step with at most FAB_FLAG_BYTES of operand. */
int coll_exchange(struct coll_matrix *m, const char *call,
                  const struct coll_operand *x) ORL_MUST_CHECK;
/* Any size, in pieces of FAB_STAGE_BYTES through the stage blocks. element: bytes of one. */
int coll_exchange_staged(struct coll_matrix *m, const char *call, const struct coll_operand *x,
                         uint64_t element) ORL_MUST_CHECK;
/* root's bytes to everybody. */
int coll_spread(struct coll_matrix *m, const char *call, void *buffer, uint64_t bytes,
                int root) ORL_MUST_CHECK;

/* coll.c: the process's matrix, from init. */
void core_coll_open(void);
/* Finalize's meeting: wait until every living rank has come, at most timeout_ns. */
void core_coll_leave(int64_t timeout_ns);

#endif
