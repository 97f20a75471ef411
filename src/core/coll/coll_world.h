/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives of this process, as coll_world.c keeps them. For the files of this room.
 */
#ifndef CORE_COLL_COLL_WORLD_H
#define CORE_COLL_COLL_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "core/coll/coll.h"
#include "core/coll/coll_hosts.h"

struct coll_world {
    struct coll_matrix node; /* my place in the lines of this host */
    struct coll_hosts hosts; /* where the job spans several */
    bool has_told;           /* all ranks know that my collectives have ended */
};

extern struct coll_world coll_world;

/* For a world that spans. */
int core_coll_barrier_across(const char *call) ORL_MUST_CHECK;
int core_coll_bcast_across(const char *call, void *buffer, uint64_t bytes, int root) ORL_MUST_CHECK;
int core_coll_allreduce_across(const char *call, const struct coll_operand *x,
                               uint64_t element) ORL_MUST_CHECK;

#endif
