/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The floor of a start: a program that does by hand what every library here must do, PMIx_Init, a
 * look at the machine with hwloc by one rank, one collecting fence, a read of each record of this
 * host. Prints "RANK resident KIB init MS" once all have come. start_cost.c is its counterpart.
 */
#include <hwloc.h>
#include <pmix.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "start.h"

#define RECORD_BYTES 512

static pmix_proc_t self;

static void must(pmix_status_t status, const char *what)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "start_base: %s: %s\n", what, PMIx_Error_string(status));
        exit(1);
    }
}

static void fence(void)
{
    pmix_info_t collect;
    bool yes = true;
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    must(PMIx_Fence(NULL, 0, &collect, 1), "fence");
}

static void put_record(void)
{
    char bytes[RECORD_BYTES];
    pmix_value_t value = { .type = PMIX_BYTE_OBJECT };
    memset(bytes, 'r', sizeof(bytes));
    value.data.bo.bytes = bytes;
    value.data.bo.size = sizeof(bytes);
    must(PMIx_Put(PMIX_GLOBAL, "start.record", &value), "put");
    must(PMIx_Commit(), "commit");
}

static pmix_value_t *get(pmix_rank_t rank, const char *key)
{
    pmix_proc_t proc = self;
    pmix_value_t *value = NULL;
    proc.rank = rank;
    must(PMIx_Get(&proc, key, NULL, 0, &value), key);
    return value;
}

static void get_records(void)
{
    pmix_value_t *peers = get(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS);
    char *rest = NULL;
    for (char *word = strtok_r(peers->data.string, ",", &rest); word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        pmix_value_t *record = get((pmix_rank_t)strtol(word, NULL, 10), "start.record");
        PMIX_VALUE_RELEASE(record);
    }
    PMIX_VALUE_RELEASE(peers);
}

static void read_machine(void)
{
    hwloc_topology_t machine;
    if (hwloc_topology_init(&machine) != 0 || hwloc_topology_load(machine) != 0) {
        fprintf(stderr, "start_base: hwloc cannot read this machine\n");
        exit(1);
    }
    hwloc_topology_destroy(machine);
}

int main(void)
{
    double began = start_ms();
    must(PMIx_Init(&self, NULL, 0), "PMIx_Init");
    put_record();
    if (self.rank == 0) {
        read_machine();
    }
    fence();
    get_records();
    double took = start_ms() - began;
    fence();
    start_tell((int)self.rank, took);
    fence();
    PMIx_Finalize(NULL, 0);
    return 0;
}
