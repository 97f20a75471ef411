/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the ranks of a job meet in oriel_init: one record per rank, one fence, the node's memory that
 * all ranks of a host join. A rank that cannot start says so in its record or, later, in the node's
 * memory, so that its peers end their start with its words instead of a time-out. Used by init.c.
 */
#ifndef CORE_MEET_H
#define CORE_MEET_H

#include "base/attr.h"

/* Exchange records and open the node's memory. `failed`: 0, or the status of what went wrong in
 * this rank before, its text being the last error; the peers are told, and it is returned. BOOT
 * quotes a peer that cannot start. */
int core_meet(int failed) ORL_MUST_CHECK;
/* Look at the ranks outside this node's memory, each rank of this host at its share of them, and
 * give the job its name. BOOT quotes one that cannot start, UNSUPP names one that no network of
 * this rank speaks with. */
int core_meet_others(void) ORL_MUST_CHECK;
/* Join the node's memory and wait until every rank of this host has. */
int core_meet_join(void) ORL_MUST_CHECK;
/* This rank fails although it has met its peers: tell those of this host. Keeps the last error. */
void core_meet_give_up(void);
/* This rank fails before it has opened its bootstrap: open one to tell the peers. Returns the
 * status, with its text. */
int core_meet_refuse(int status) ORL_MUST_CHECK;

#endif
