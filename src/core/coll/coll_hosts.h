/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of a job that spans hosts. The ranks of a host meet in node memory as coll.h says,
 * and one of them, its lowest rank, or a bcast's root, exchanges messages with those of the other
 * hosts. Without node memory every rank is a host of its own.
 *
 *   barrier    all to the leader, leaders, leader to all
 *   bcast      root to the other hosts' leaders, then each within its host
 *   allreduce  within the hosts, leaders, leader to all. Where the ranks of a host do not follow
 *              each other (placed in turns), that would not be rank order: then all ranks exchange
 *              messages, as if each were a host of its own, at so many times the volume between
 *              hosts as a host has ranks.
 *
 * All ranks count a step for every collective, also those that take no part between hosts, so that
 * all agree on its number.
 */
#ifndef CORE_COLL_COLL_HOSTS_H
#define CORE_COLL_COLL_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "core/coll/coll.h"
#include "core/coll/coll_across.h"
#include "core/coll/coll_net.h"

struct coll_hosts {
    struct coll_net net;
    struct coll_matrix *node;   /* borrows; lines of this host; unused where nlocal is 1 */
    struct coll_circle leaders; /* of all hosts; my place is that of my host */
    struct coll_circle all;     /* ranks */
    const int *host_of;         /* borrows; [ranks of the job] */
    const int *local_rank;      /* borrows; [nlocal] ascending: the ranks of my host */
    int nlocal;
    bool is_leader;
    bool is_in_order; /* the ranks of every host follow each other */
};

/* The ranks of every host follow each other; hosts are numbered by lowest rank. */
bool coll_hosts_in_order(const int *host_of, int nranks);
/* After net, node and what is borrowed have been set: the rest. */
void coll_hosts_set(struct coll_hosts *h, const int *leader, int nhosts);

int coll_hosts_barrier(struct coll_hosts *h, const char *call) ORL_MUST_CHECK;
int coll_hosts_bcast(struct coll_hosts *h, const char *call, void *buffer, uint64_t bytes,
                     int root) ORL_MUST_CHECK;
int coll_hosts_allreduce(struct coll_hosts *h, const char *call, const struct coll_operand *x,
                         uint64_t element) ORL_MUST_CHECK;
/* The last barrier: on return everybody has had what was sent to him, so that the network can go.
 */
int coll_hosts_leave(struct coll_hosts *h, const char *call) ORL_MUST_CHECK;

#endif
