/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library under test, as the tests of oriel-perf see it. One file implements this for Oriel
 * (perf_oriel.c), one for any MPI of version 3 or later (perf_mpi.c); a program links one of them.
 * Each measured call runs its whole loop inside that file, so that crossing this line costs once a
 * batch. Nothing here returns an error: a failing library ends the job with its own words.
 */
#ifndef PERF_OPS_H
#define PERF_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "oriel-perf" and "Oriel", or "oriel-perf-mpi" and "MPI". */
extern const char ops_program[];
extern const char ops_interface[];

/* Version of the library in one line, of an MPI with its name; works before ops_open. */
const char *ops_version(void);

struct ops_job {
    int rank;
    int size;
    int hosts;
};

/* Join the job; false after saying why not. Collective, as is ops_close. */
bool ops_open(struct ops_job *job);
bool ops_close(void);
/* End the job of all ranks with status 1. */
_Noreturn void ops_abort(const char *text);
/* What carries data to that rank: "shm", "self"; of an MPI its name. */
const char *ops_transport(int rank);

/* ---------------------------------------------------------------- memory that others reach */

struct ops_mem;

enum ops_memory {
    OPS_MEMORY_ALLOC,  /* made by the library */
    OPS_MEMORY_PRIVATE /* of malloc, made known to it */
};

/* Collective: each rank offers `bytes` zeroed bytes, which may be 0, and all reach all. */
struct ops_mem *ops_mem_open(size_t bytes, enum ops_memory kind);
/* My own bytes of it. */
unsigned char *ops_mem_base(const struct ops_mem *mem);
void ops_mem_close(struct ops_mem *mem);

/* ---------------------------------------------------------------- control, never measured */

/* All ranks have come here, and what they stored or put before is seen by all; mem may be NULL.
 * Not by way of the library's barrier: that is under test. */
void ops_sync(struct ops_mem *mem);
/* Bytes of one rank to all. */
void ops_share(void *data, size_t bytes, int root);
/* The largest, or the sum, over all ranks of each number, to all. */
void ops_largest(uint64_t *numbers, size_t n);
void ops_sum(uint64_t *numbers, size_t n);

/* ---------------------------------------------------------------- measured, n times each */

/* A window of transfers that go round in `span` bytes on both sides, complete at its end. */
struct ops_move {
    struct ops_mem *mem;
    int target;
    uint64_t at; /* in the target's memory */
    unsigned char *local;
    size_t bytes; /* of one transfer */
    size_t span;
    uint64_t window; /* transfers */
};

/* Puts, and after each window a flush. */
void ops_put(const struct ops_move *move, uint64_t n);
/* Gets, and at the end of each window the data is here. */
void ops_get(const struct ops_move *move, uint64_t n);
/* Fetching additions to 8 bytes; returns what the last one found. */
uint64_t ops_add(struct ops_mem *mem, int target, uint64_t at, uint64_t operand, uint64_t n);
/* Compare and swap of 8 bytes from first to first + 1, then on to first + 2 and so forth; returns
 * what the last one found. */
uint64_t ops_swap(struct ops_mem *mem, int target, uint64_t at, uint64_t first, uint64_t n);
void ops_barrier(uint64_t n);
void ops_bcast(void *data, size_t bytes, int root, uint64_t n);
/* Sums of 64-bit integers over all ranks. */
void ops_allreduce(const void *send, void *recv, size_t count, uint64_t n);

#endif
