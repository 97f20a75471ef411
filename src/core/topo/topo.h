/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine as far as one host's CPU job needs it: cores this process may use, caches, ranks per
 * core. From hwloc; only topo.c includes it. No device discovery here. Nobody loads the
 * topology before it is asked for: hwloc alone takes longer than the rest of a start.
 */
#ifndef CORE_TOPO_TOPO_H
#define CORE_TOPO_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct core_topo {
    int cores;         /* physical cores of the host */
    int cpus;          /* hardware threads of the host */
    int cpus_allowed;  /* of this process: affinity mask and cgroup quota, at least 1 */
    uint64_t l2_bytes; /* per core; 0 unknown */
    uint64_t l3_bytes;
    int numa_nodes;
    uint64_t memory_bytes; /* min of physical memory and cgroup limit */
};

/* Load by hwloc; tens of ms. */
int core_topo_load(struct core_topo *topo) ORL_MUST_CHECK;
/* Version of the hwloc that is loaded: "2.9.0". Valid until this thread asks again. */
const char *core_topo_version(void);
/* The affinity mask of this process, folded to bits of mask[0..bytes). */
void core_topo_mask(uint8_t *mask, size_t bytes);
/* What only this process knows (cpus_allowed): cheap, every rank. */
void core_topo_refine(struct core_topo *topo);
/* More ranks on this host than CPUs they may use together. `mask`: union of their masks. */
bool core_topo_is_oversubscribed(const uint8_t *mask, size_t bytes, int nlocal);

#endif
