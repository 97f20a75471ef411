/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job of several hosts in one process, for tests of collectives: every rank a thread, node memory
 * laid out for each host, and a network of queues, one from each rank to each. Whoever waits takes
 * what has come for him, from one sender or another by chance. Ranks may be made to be gone.
 */
#ifndef TESTS_CORE_COLL_RIG_H
#define TESTS_CORE_COLL_RIG_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/coll/coll_hosts.h"

#define RIG_RANKS 20

struct rig_rank {
    struct fab_node node;
    struct coll_matrix lines;
    struct coll_hosts hosts;
    int local_rank[RIG_RANKS];
    uint64_t dice;
    atomic_bool is_gone; /* looks dead to whoever waits for it */
    atomic_bool cannot_send;
    int ended_by; /* rank for whose sake a collective ended here, -1 */
    int failed;   /* what its function returned */
};

struct rig_job {
    int n, nhosts;
    int host_of[RIG_RANKS], leader[RIG_RANKS];
    bool has_servers; /* a second thread of each rank takes messages as well */
    uint64_t seed;
    struct rig_rank rank[RIG_RANKS];
};

extern struct rig_job rig;

typedef int (*rig_fn)(struct rig_rank *me, void *arg);

/* How ranks are placed on hosts. */
enum rig_placement {
    RIG_IN_ORDER,
    RIG_IN_TURNS,
    RIG_BY_CHANCE,
    RIG_PLACEMENTS
};
/* Lays out rig for n ranks on up to nhosts hosts, runs fn on each and takes it down. 0: all
 * returned 0. */
int rig_run(int n, int nhosts, enum rig_placement placement, rig_fn fn, void *arg);

/* Pieces sent to a rank by another and not taken yet, as the sender knows. */
uint32_t rig_untaken(const struct rig_rank *from, int to);
int rig_rank_of(const struct rig_rank *me);
uint64_t rig_dice(struct rig_rank *me);

/* An operator on bytes that is associative, and not commutative: maps x -> a x + b (mod 16). */
void rig_after(void *out, const void *left, const void *right, uint64_t n);
/* Operand of a rank, and what all operands come to. */
unsigned char rig_operand(int rank, uint64_t i);
unsigned char rig_result(int n, uint64_t i);

/* A rank returns where it found something: assertions of Criterion are for its own thread. */
#define RIG_NEED(x)        \
 do {                      \
  if (!(x)) {              \
   return __LINE__ % 1000; \
  }                        \
 } while (0)

/* bytes of root to everybody, looked at; data has room for one byte more. */
int rig_bcast(struct rig_rank *me, unsigned char *data, size_t bytes, int root);

#endif
