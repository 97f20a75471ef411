/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives on world within one host (coll_hosts.h is for more): lines of flags for meeting,
 * stages for data that does not fit a line. This is the protocol: who writes what, and why nobody
 * reads or writes too early.
 *
 * Lines. Every rank has one line per level and parity; it alone writes it, the data first, then the
 * word `seq` with release. Readers load `seq` with acquire, then the data. A step is numbered by
 * one counter per process that all ranks advance alike; step k uses parity k & 1. No rank can be at
 * k + 2 while another still reads k, because k + 1 ends only when everybody has entered it, that
 * is, has left k. A word is the step and, above it, the CPU its writer ran on (coll_lines.h).
 *
 * Up to ORIEL_COLL_FLAT_MAX ranks: level UP alone, everybody reads everybody. Above: groups;
 * members write UP, the group's lowest rank combines and writes ACROSS, reads all leaders, and
 * writes DOWN, which its members read. Operands are combined in rank order within a group and
 * groups in order, by everybody alike: the result is the same on all ranks, bit by bit, and from
 * run to run. Everything below is flat.
 *
 * Stages. A rank writes its own stage only; the line it writes next, with release, is what lets
 * others read it. What an allreduce stages for step k is free again once its writer has left step
 * k + 1: everybody entered that having done with k.
 *  - Whole: each rank stages its operand in the block of parity k & 1, all meet in step k, each
 *    combines everything. A block is written again for k + 2, after k + 1.
 *  - Sliced: each rank stages its operand for the ranks that own the other slices, all meet in step
 *    k, each combines its own slice into its result and its stage, says so in step k + 1, and
 * copies every other slice as its owner's line comes. Operands and results have places of their
 * own. The next operands are written after k + 1, the next results after k + 2 or later: nobody
 * still reads the old ones. Who combines an element does it in rank order, and for all the others:
 * the same bits everywhere.
 *
 * Rooted steps have a counter of their own. The root's stage begins with a ring of lines; the line
 * of slot step % COLL_SLOTS carries the bytes, or says where in the root's ring of bytes they are.
 * The root runs ahead: readers store the step they have read in their `done` line only where the
 * root's word asks for it (COLL_ACK), which is every COLL_ACK_STEPS steps and whenever the root
 * enters another quarter of its ring. It writes a slot or a quarter again when all `done` lines,
 * read with acquire, have passed the step that left it. `done` covers all roots, since every rank
 * takes the steps in order. Before its ring grows, the root sends an empty piece and waits until
 * all have read it: then nobody reads the old ring.
 *
 * A rank that dies leaves its lines behind the others. Whoever waits looks every 50 ms at the lives
 * of all, not only of those it waits for: one of these may have given up for the dead rank's sake.
 * All end with PEER. Half-done steps need no repair: the job's collectives end there. Neither does
 * a half-written stage: its line was not written.
 */
#ifndef CORE_COLL_COLL_H
#define CORE_COLL_COLL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "core/type/type.h"
#include "fabric/fabric.h"

#define COLL_BLOCK_BYTES 4096 /* combined at a time; a multiple of every element */

/* Lines a step waits for: seq of first, first + stride, … below last, in the row `line`. */
struct coll_need {
    const struct fab_flag *line;
    int first, last, stride;
    int rank; /* whose line[0] is; the next is the next rank's */
    uint64_t seq;
    const char *call; /* for messages */
};

/* Returns 0 when all have come, or the status that ends the wait. */
typedef int (*coll_wait_fn)(const struct coll_need *need);
/* Makes a part of the node segment exist: fab_node_reserve, or a test's that fails. */
typedef int (*coll_reserve_fn)(struct fab_node *node, const void *part, uint64_t bytes);

/* The root's side of its ring of bytes: quarters, each of which is written again when the step
 * that left it has been read by all. */
struct coll_ring {
    uint64_t bytes;   /* 0: not used yet */
    uint64_t at;      /* the next piece starts here, or in the next quarter */
    uint64_t left[4]; /* step that first went to the next quarter */
    bool final;       /* there was no memory for more */
};

/* This process's view of the matrix. The node's memory, how to wait and how to reserve are
 * arguments, so that tests run several ranks as threads of one process. */
struct coll_matrix {
    _Alignas(ORL_CACHE_LINE) unsigned char block[COLL_BLOCK_BYTES]; /* half-combined operands */
    struct fab_node *node;                                          /* borrows */
    coll_wait_fn wait;
    coll_reserve_fn reserve;
    int me, nranks;
    int group;         /* ranks a leader combines; >= nranks: flat */
    bool crowded;      /* more ranks than CPUs: words name the CPU */
    bool spans;        /* the job has ranks that are not in it; constant */
    bool wide_final;   /* some rank had no memory for wider pieces */
    uint64_t step;     /* all-to-all steps begun */
    uint64_t rooted;   /* rooted steps begun */
    uint64_t done_min; /* every rank is known to have consumed this rooted step */
    uint64_t wide;     /* bytes a sliced piece may have, alike on all ranks */
    struct coll_ring ring;
};

/* What an exchange combines; all zero for a barrier. */
struct coll_operand {
    const void *send;
    void *recv;
    uint64_t elements;
    uint64_t bytes;
    core_op_fn fn;
};

/* What is missing of a need, as seen from a CPU. */
enum coll_missing {
    COLL_MET,
    COLL_ELSEWHERE, /* who is missing ran on other CPUs when it was last heard of */
    COLL_HERE       /* some ran on this CPU */
};
enum coll_missing coll_need_look(const struct coll_need *need, unsigned cpu);
/* True when every line has reached its seq. */
bool coll_need_is_met(const struct coll_need *need);

/* One all-to-all step with at most FAB_FLAG_BYTES of operand. */
int coll_exchange(struct coll_matrix *m, const char *call,
                  const struct coll_operand *x) ORL_MUST_CHECK;
/* The same in two halves, between which rank 0 has the result of this host in recv (with bytes),
 * and may put another in its place. */
int coll_gather(struct coll_matrix *m, const char *call,
                const struct coll_operand *x) ORL_MUST_CHECK;
int coll_release(struct coll_matrix *m, const char *call,
                 const struct coll_operand *x) ORL_MUST_CHECK;
/* Any size, through the stages. element: bytes of one. */
int coll_exchange_staged(struct coll_matrix *m, const char *call, const struct coll_operand *x,
                         uint64_t element) ORL_MUST_CHECK;
/* root's bytes to everybody. INVAL when this rank and root do not agree on how many. */
int coll_spread(struct coll_matrix *m, const char *call, void *buffer, uint64_t bytes,
                int root) ORL_MUST_CHECK;

/* coll_world.c: the process's matrix and mailbox, from init, when its engines are open. */
void core_coll_open(void);
/* Finalize's meeting: wait until every living rank has come, at most timeout_ns, and until what has
 * been sent for it has arrived. No collective follows. */
void core_coll_leave(int64_t timeout_ns);

/* How the collectives of a job that spans hosts work, for facts. */
struct core_coll_forms {
    int hosts;
    bool is_in_order;               /* false: allreduce goes from rank to rank, see coll_hosts.h */
    uint64_t bcast_chain_from;      /* bytes; below: a tree. UINT64_MAX: never */
    int allreduce_ranks;            /* that exchange operands between hosts */
    bool allreduce_doubles;         /* they are many: doubling instead of all to all */
    uint64_t allreduce_sliced_from; /* bytes; below: doubling, or whole operands to everybody */
};
/* False in a job that does not span hosts, and where nobody knows who is where. */
bool core_coll_query(struct core_coll_forms *forms);

#endif
