/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collective tests of oriel-perf: barrier, bcast from rank 0, and allreduce (sums of 64-bit
 * integers, so that they are exact). All ranks run every batch; a check looks at every byte on
 * every rank, and at the guards around it.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ROOT = 0,
    WORD = 8,
    LATE_NS = 300000
};

static void open_buffers(struct perf_run *run)
{
    run->source = perf_alloc(run->region + WORD);
    run->landing = perf_alloc(perf_data_at(run) + run->region + PERF_GUARD);
    perf_fill(run->source, run->region, run->job.rank, 0);
}

static void close_buffers(struct perf_run *run)
{
    free(run->source);
    free(run->landing);
    run->source = NULL;
    run->landing = NULL;
}

static unsigned char *landing_of(const struct perf_run *run)
{
    return run->landing + perf_data_at(run);
}

static void check_landing(struct perf_run *run, size_t bytes)
{
    perf_check_guard(run, landing_of(run), bytes, perf_data_at(run), "by its own CPU");
}

/* ---------------------------------------------------------------- barrier */

static void open_barrier(struct perf_run *run)
{
    run->region = WORD;
    perf_mem_open(run, run->job.rank == ROOT ? WORD : 0);
}

static void prepare_barrier(struct perf_run *run, size_t bytes)
{
    (void)bytes;
    if (run->job.rank == ROOT) {
        memset(run->target_bytes, 0, WORD);
    }
}

static void batch_barrier(struct perf_run *run, size_t bytes, uint64_t n)
{
    (void)run;
    (void)bytes;
    ops_barrier(n);
}

/* Everybody counts up and enters, one of them late; whoever comes out must find all counted. */
static void check_barrier(struct perf_run *run, size_t bytes)
{
    static const struct timespec late = { .tv_nsec = LATE_NS };

    (void)bytes;
    for (int i = 0; i < 2; i++) {
        uint64_t size = (uint64_t)run->job.size;
        uint64_t found;

        if (run->job.rank == (int)((run->round + (uint64_t)i) % size)) {
            (void)nanosleep(&late, NULL);
        }
        (void)ops_add(run->mem, ROOT, 0, 1, 1);
        ops_barrier(1);
        found = ops_add(run->mem, ROOT, 0, 0, 1);
        perf_check_number(run, (uint64_t)(i + 1) * size, found, "ranks counted after a barrier");
        ops_sync(run->mem);
    }
}

/* ---------------------------------------------------------------- bcast */

static void prepare_bcast(struct perf_run *run, size_t bytes)
{
    if (run->job.rank == ROOT) {
        perf_fill(landing_of(run), bytes, ROOT, run->round);
    } else {
        perf_spoil(landing_of(run), bytes, ROOT, run->round);
    }
    perf_guard(landing_of(run), bytes, perf_data_at(run));
}

static void batch_bcast(struct perf_run *run, size_t bytes, uint64_t n)
{
    ops_bcast(landing_of(run), bytes, ROOT, n);
}

static void check_bcast(struct perf_run *run, size_t bytes)
{
    check_landing(run, bytes);
    perf_check_data(run, landing_of(run), bytes, ROOT, "by its own CPU");
}

/* ---------------------------------------------------------------- allreduce */

static void prepare_allreduce(struct perf_run *run, size_t bytes)
{
    perf_fill(run->source, bytes, run->job.rank, run->round);
    memset(landing_of(run), 0, bytes);
    perf_guard(landing_of(run), bytes, perf_data_at(run));
}

static void batch_allreduce(struct perf_run *run, size_t bytes, uint64_t n)
{
    ops_allreduce(run->source, landing_of(run), bytes / WORD, n);
}

static void check_allreduce(struct perf_run *run, size_t bytes)
{
    size_t count = bytes / WORD;
    uint64_t *expected = perf_alloc(bytes);

    memset(expected, 0, bytes);
    for (int rank = 0; rank < run->job.size; rank++) {
        for (size_t i = 0; i < count; i++) {
            expected[i] += perf_word(rank, run->round, i);
        }
    }
    check_landing(run, bytes);
    perf_check_words(run, landing_of(run), expected, count, "by its own CPU");
    free(expected);
}

#define LARGEST ((size_t)1 << 20)

const struct perf_test perf_tests_coll[] = {
    { "barrier", "barrier latency", 0, 0, 1, PERF_LATENCY, true, true, open_barrier,
      prepare_barrier, batch_barrier, check_barrier, perf_mem_close },
    { "bcast", "bcast latency", 1, LARGEST, 1, PERF_LATENCY, true, false, open_buffers,
      prepare_bcast, batch_bcast, check_bcast, close_buffers },
    { "allreduce", "allreduce latency", WORD, LARGEST, WORD, PERF_LATENCY, true, true, open_buffers,
      prepare_allreduce, batch_allreduce, check_allreduce, close_buffers },
    { .name = NULL },
};
