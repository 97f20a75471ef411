/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cores of the ranks: one each, spread evenly over those this process may use, in the order of the
 * machine's tree, so that neighbours in rank are neighbours there. With more ranks than cores
 * nothing is bound, since the kernel then shares them better than a fixed plan.
 */
#include "run.h"

#include <errno.h>
#include <hwloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static hwloc_topology_t machine;
static hwloc_obj_type_t kind = HWLOC_OBJ_CORE;
static int cores; /* that may be used, when ranks are bound */
static int ranks; /* that are bound, else 0 */

/* CPUs this process may run on. */
int run_bind_cpus(void)
{
    int count = 0;

    for (int cpus = 1024; cpus <= 1 << 18 && count == 0; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (set == NULL) {
            break;
        }
        if (sched_getaffinity(0, CPU_ALLOC_SIZE((size_t)cpus), set) == 0) {
            count = CPU_COUNT_S(CPU_ALLOC_SIZE((size_t)cpus), set);
        } else if (errno != EINVAL) {
            cpus = 1 << 18;
        }
        CPU_FREE(set);
    }
    return count;
}

/* Plugins find graphics and the like and take longer to load than all the rest. */
static bool init_without_plugins(void)
{
    const char *set = getenv("HWLOC_PLUGINS_PATH");
    char *before = set == NULL ? NULL : strdup(set);

    (void)setenv("HWLOC_PLUGINS_PATH", RUN_NO_PLUGINS, 1);
    bool is_open = hwloc_topology_init(&machine) == 0;
    if (before == NULL) {
        (void)unsetenv("HWLOC_PLUGINS_PATH");
    } else {
        (void)setenv("HWLOC_PLUGINS_PATH", before, 1);
        free(before);
    }
    return is_open;
}

/* Only what the plan needs: the tree down to the CPUs, without caches and devices. */
static bool load_machine(void)
{
    if (!init_without_plugins()) {
        return false;
    }
    (void)hwloc_topology_set_all_types_filter(machine, HWLOC_TYPE_FILTER_KEEP_NONE);
    (void)hwloc_topology_set_type_filter(machine, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
    (void)hwloc_topology_set_type_filter(machine, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
    if (hwloc_topology_load(machine) != 0) {
        hwloc_topology_destroy(machine);
        return false;
    }
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    if (allowed != NULL && hwloc_get_cpubind(machine, allowed, HWLOC_CPUBIND_PROCESS) == 0) {
        (void)hwloc_topology_restrict(machine, allowed, 0);
    }
    hwloc_bitmap_free(allowed);
    cores = hwloc_get_nbobjs_by_type(machine, kind);
    if (cores < 1) {
        kind = HWLOC_OBJ_PU;
        cores = hwloc_get_nbobjs_by_type(machine, kind);
    }
    return true;
}

static int refuse(const struct run_opts *opts, int have)
{
    if (opts->bind != RUN_BIND_CORE) {
        return -1;
    }
    run_say(
        "--bind core: %d ranks need %d cores, %d may be used here; use --bind none, or leave the "
        "option out",
        opts->ranks, opts->ranks, have);
    return RUN_USAGE;
}

int run_bind_plan(const struct run_opts *opts)
{
    if (opts->bind == RUN_BIND_NONE) {
        return -1;
    }
    /* The number of CPUs is cheap to learn; the number of cores costs milliseconds. */
    int cpus = run_bind_cpus();
    if (opts->ranks > cpus) {
        return refuse(opts, cpus);
    }
    if (!load_machine()) {
        return refuse(opts, 0);
    }
    if (opts->ranks > cores) {
        hwloc_topology_destroy(machine);
        return refuse(opts, cores);
    }
    ranks = opts->ranks;
    return -1;
}

static hwloc_obj_t core_of(int rank)
{
    if (ranks == 0) {
        return NULL;
    }
    return hwloc_get_obj_by_type(machine, kind, (unsigned)((int64_t)rank * cores / ranks));
}

void run_bind_apply(int rank)
{
    hwloc_obj_t core = core_of(rank);

    if (core != NULL) {
        (void)hwloc_set_cpubind(machine, core->cpuset, HWLOC_CPUBIND_PROCESS);
    }
}

const char *run_bind_text(int rank, char *text, size_t bytes)
{
    hwloc_obj_t core = core_of(rank);

    snprintf(text, bytes, "not bound");
    if (core != NULL) {
        int used = snprintf(text, bytes, "on core %u, cpus ", core->logical_index);
        (void)hwloc_bitmap_list_snprintf(text + used, bytes - (size_t)used, core->cpuset);
    }
    return text;
}
