/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which rank runs where: the hosts of the job and the ranks of each, from the bootstrap records.
 * Read at first use, since a job that stays on one host, or talks to few peers, never asks. Without
 * shm every rank counts as a host of its own: nothing of a collective may go through node memory.
 */
#ifndef CORE_PATH_HOSTS_H
#define CORE_PATH_HOSTS_H

#include "base/attr.h"

struct core_hosts {
    int nhosts;
    int mine;         /* my host's number */
    int *of;          /* owns; [size] host number of each rank; hosts are numbered by lowest rank */
    int *leader;      /* owns; [nhosts] its lowest rank */
    int *nranks;      /* owns; [nhosts] */
    char (*name)[32]; /* owns; [nhosts] */
};

/* The hosts of the job; read once, constant afterwards. Errors: BOOT, NOMEM. Any thread. */
int core_hosts(const struct core_hosts **hosts) ORL_MUST_CHECK;
/* The name of a rank's host for messages, "another host" where it is not known. Cheap. */
const char *core_host_name(int rank);
void core_hosts_close(void);

#endif
