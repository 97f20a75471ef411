/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine by hwloc: counts and cache sizes, no device discovery, which would cost tens of
 * milliseconds that a one-host CPU job has no use for. The only file that includes hwloc.
 */
#include "core/topo/topo.h"

#include <hwloc.h>
#include <sched.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "base/sys.h"

static int count_of(hwloc_topology_t machine, hwloc_obj_type_t type)
{
    int n = hwloc_get_nbobjs_by_type(machine, type);
    return n > 0 ? n : 0;
}

/* Size of the first cache of that type; 0 where the machine does not tell. */
static uint64_t cache_of(hwloc_topology_t machine, hwloc_obj_type_t type)
{
    hwloc_obj_t cache = hwloc_get_obj_by_type(machine, type, 0);
    return cache != NULL ? cache->attr->cache.size : 0;
}

int core_topo_load(struct core_topo *topo)
{
    hwloc_topology_t machine;
    if (hwloc_topology_init(&machine) != 0) {
        return orl_fail(ORL_ERR_NOMEM, "hwloc cannot make a topology object");
    }
    hwloc_topology_set_io_types_filter(machine, HWLOC_TYPE_FILTER_KEEP_NONE);
    if (hwloc_topology_load(machine) != 0) {
        hwloc_topology_destroy(machine);
        return orl_fail(ORL_ERR_SYS, "hwloc cannot read this machine's topology; does "
                                     "lstopo-no-graphics work here?");
    }
    topo->cores = count_of(machine, HWLOC_OBJ_CORE);
    topo->cpus = count_of(machine, HWLOC_OBJ_PU);
    topo->numa_nodes = count_of(machine, HWLOC_OBJ_NUMANODE);
    topo->l2_bytes = cache_of(machine, HWLOC_OBJ_L2CACHE);
    topo->l3_bytes = cache_of(machine, HWLOC_OBJ_L3CACHE);
    topo->memory_bytes = orl_sys_mem_total_bytes();
    hwloc_topology_destroy(machine);
    core_topo_refine(topo);
    orl_log_debug(ORL_CAT_TOPO, "%d cores, %d threads, %d NUMA nodes, L2 %llu KiB, L3 %llu KiB",
                  topo->cores, topo->cpus, topo->numa_nodes,
                  (unsigned long long)(topo->l2_bytes >> 10),
                  (unsigned long long)(topo->l3_bytes >> 10));
    return 0;
}

const char *core_topo_version(void)
{
    static ORL_TLS char text[32];
    struct orl_strbuf sb;
    unsigned version = hwloc_get_api_version(); /* X.Y.Z as 0x000X0Y0Z */
    orl_strbuf_init(&sb, text, sizeof(text));
    orl_strbuf_addf(&sb, "%u.%u.%u", version >> 16, version >> 8 & 0xff, version & 0xff);
    return text;
}

void core_topo_refine(struct core_topo *topo)
{
    int quota = orl_sys_cgroup_cpus();
    topo->cpus_allowed = orl_sys_cpus_allowed();
    if (quota > 0 && quota < topo->cpus_allowed) {
        topo->cpus_allowed = quota;
    }
}

void core_topo_mask(uint8_t *mask, size_t bytes)
{
    memset(mask, 0, bytes);
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        mask[0] = 1; /* more CPUs than the set can name: count as one, and wait by yielding */
        return;
    }
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            size_t bit = cpu % (8 * bytes);
            mask[bit / 8] = (uint8_t)(mask[bit / 8] | 1u << (bit % 8));
        }
    }
}

bool core_topo_is_oversubscribed(const uint8_t *mask, size_t bytes, int nlocal)
{
    int cpus = 0;
    for (size_t i = 0; i < bytes; i++) {
        cpus += __builtin_popcount(mask[i]);
    }
    int quota = orl_sys_cgroup_cpus();
    if (quota > 0 && quota < cpus) {
        cpus = quota;
    }
    return nlocal > cpus;
}
