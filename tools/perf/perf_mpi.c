/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel-perf-mpi: perf_ops.h on any MPI of version 3 or later, in the way of the OSU benchmarks: a
 * window for the whole run under one MPI_Win_lock_all, each operation or window of operations ended
 * by MPI_Win_flush. Collectives are blocking ones on MPI_COMM_WORLD. Errors end the job, which is
 * what MPI does by itself. tools/compare builds it; the package does not.
 */
#include "perf_ops.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "perf.h"

const char ops_program[] = "oriel-perf-mpi";
const char ops_interface[] = "MPI";

struct ops_mem {
    MPI_Win win;
    unsigned char *base;
    bool is_private;
};

const char *ops_version(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;

    (void)MPI_Get_library_version(text, &length);
    text[strcspn(text, "\n")] = '\0';
    for (char *at = text; *at != '\0'; at++) {
        if (*at == '\t' || *at == '"' || *at == '\\') {
            *at = ' ';
        }
    }
    return text;
}

/* ---------------------------------------------------------------- the job */

bool ops_open(struct ops_job *job)
{
    MPI_Comm host;
    int local = 0;
    uint64_t hosts;

    if (MPI_Init(NULL, NULL) != MPI_SUCCESS) {
        fprintf(stderr, "oriel-perf-mpi: MPI_Init failed\n");
        return false;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &job->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job->size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &local);
    MPI_Comm_free(&host);
    hosts = local == 0; /* one rank of each host has this number */
    ops_sum(&hosts, 1);
    job->hosts = (int)hosts;
    return true;
}

bool ops_close(void)
{
    return MPI_Finalize() == MPI_SUCCESS;
}

void ops_abort(const char *text)
{
    fprintf(stderr, "%s\n", text);
    MPI_Abort(MPI_COMM_WORLD, PERF_FAILED);
    exit(PERF_FAILED);
}

/* An MPI does not tell what it uses, so its name stands for that. */
const char *ops_transport(int rank)
{
    static const char *const known[][2] = {
        { "open mpi", "openmpi" }, { "mpich", "mpich" },     { "mvapich", "mvapich" },
        { "intel", "intelmpi" },   { "oriel", "oriel-mpi" },
    };
    const char *version = ops_version();

    (void)rank;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcasestr(version, known[i][0]) != NULL) {
            return known[i][1];
        }
    }
    return "mpi";
}

/* ---------------------------------------------------------------- memory */

struct ops_mem *ops_mem_open(size_t bytes, enum ops_memory kind)
{
    struct ops_mem *mem = calloc(1, sizeof(*mem));

    if (mem == NULL) {
        ops_abort("oriel-perf-mpi: no memory");
    }
    mem->is_private = kind == OPS_MEMORY_PRIVATE;
    if (mem->is_private) {
        mem->base = perf_alloc(bytes);
        MPI_Win_create(mem->base, (MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mem->win);
    } else {
        MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mem->base, &mem->win);
    }
    if (bytes > 0) {
        memset(mem->base, 0, bytes);
    }
    MPI_Win_lock_all(0, mem->win);
    ops_sync(mem);
    return mem;
}

unsigned char *ops_mem_base(const struct ops_mem *mem)
{
    return mem->base;
}

void ops_mem_close(struct ops_mem *mem)
{
    MPI_Win_unlock_all(mem->win);
    MPI_Win_free(&mem->win);
    if (mem->is_private) {
        free(mem->base);
    }
    free(mem);
}

/* ---------------------------------------------------------------- control */

void ops_sync(struct ops_mem *mem)
{
    uint64_t nothing = 0;

    if (mem != NULL) {
        MPI_Win_sync(mem->win);
    }
    ops_largest(&nothing, 1);
    if (mem != NULL) {
        MPI_Win_sync(mem->win);
    }
}

void ops_share(void *data, size_t bytes, int root)
{
    MPI_Bcast(data, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

void ops_largest(uint64_t *numbers, size_t n)
{
    MPI_Allreduce(MPI_IN_PLACE, numbers, (int)n, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
}

void ops_sum(uint64_t *numbers, size_t n)
{
    MPI_Allreduce(MPI_IN_PLACE, numbers, (int)n, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

/* ---------------------------------------------------------------- measured */

void ops_put(const struct ops_move *move, uint64_t n)
{
    MPI_Win win = move->mem->win;
    int bytes = (int)move->bytes;

    for (uint64_t i = 0; i < n; i++) {
        size_t place = 0;

        for (uint64_t j = 0; j < move->window; j++) {
            MPI_Put(move->local + place, bytes, MPI_BYTE, move->target,
                    (MPI_Aint)(move->at + place), bytes, MPI_BYTE, win);
            place = place + move->bytes < move->span ? place + move->bytes : 0;
        }
        MPI_Win_flush(move->target, win);
    }
}

void ops_get(const struct ops_move *move, uint64_t n)
{
    MPI_Win win = move->mem->win;
    int bytes = (int)move->bytes;

    for (uint64_t i = 0; i < n; i++) {
        size_t place = 0;

        for (uint64_t j = 0; j < move->window; j++) {
            MPI_Get(move->local + place, bytes, MPI_BYTE, move->target,
                    (MPI_Aint)(move->at + place), bytes, MPI_BYTE, win);
            place = place + move->bytes < move->span ? place + move->bytes : 0;
        }
        MPI_Win_flush(move->target, win);
    }
}

uint64_t ops_add(struct ops_mem *mem, int target, uint64_t at, uint64_t operand, uint64_t n)
{
    uint64_t old = 0;

    for (uint64_t i = 0; i < n; i++) {
        MPI_Fetch_and_op(&operand, &old, MPI_UINT64_T, target, (MPI_Aint)at, MPI_SUM, mem->win);
        MPI_Win_flush(target, mem->win);
    }
    return old;
}

uint64_t ops_swap(struct ops_mem *mem, int target, uint64_t at, uint64_t first, uint64_t n)
{
    uint64_t old = 0;

    for (uint64_t i = first; i < first + n; i++) {
        uint64_t next = i + 1;

        MPI_Compare_and_swap(&next, &i, &old, MPI_UINT64_T, target, (MPI_Aint)at, mem->win);
        MPI_Win_flush(target, mem->win);
    }
    return old;
}

void ops_barrier(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

void ops_bcast(void *data, size_t bytes, int root, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        MPI_Bcast(data, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    }
}

void ops_allreduce(const void *send, void *recv, size_t count, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        MPI_Allreduce(send, recv, (int)count, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    }
}
