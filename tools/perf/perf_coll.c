/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collective tests of oriel-perf: barrier, allreduce (sums of 64-bit integers, so that they are
 * exact) and bcast from rank 0. All ranks run every batch; a check looks at every byte on every
 * rank, and at the guards around it. With an injected fault the last rank's data is spoilt.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROOT = 0,
    WORD = 8,
    BARRIER_CHECKS = 10
};

static bool spoils(const struct perf_run *run)
{
    return run->opts->inject_fault && run->rank == run->size - 1;
}

static void open_buffers(struct perf_run *run)
{
    run->source = perf_alloc(run->region + WORD);
    run->landing = perf_alloc(perf_data_at(run) + run->region + PERF_GUARD);
    perf_fill(run->source, run->region, run->rank, 0);
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

static void check_landing(struct perf_run *run, size_t size)
{
    if (spoils(run)) {
        landing_of(run)[size / 2] ^= 0x10;
    }
    perf_check_guard(run, landing_of(run), size, perf_data_at(run), "by its own CPU");
}

/* ---------------------------------------------------------------- barrier */

static void open_barrier(struct perf_run *run)
{
    run->region = WORD;
    perf_share(run, WORD);
}

static void prepare_barrier(struct perf_run *run, size_t size)
{
    (void)size;
    if (run->rank == run->target) {
        memset(run->target_bytes, 0, WORD);
    }
    perf_barrier();
}

static void batch_barrier(struct perf_run *run, size_t size, uint64_t n)
{
    (void)run;
    (void)size;
    for (uint64_t i = 0; i < n; i++) {
        perf_must(oriel_barrier(ORIEL_WORLD), "barrier");
    }
}

/* Everybody counts up and enters; whoever comes out must find everybody counted. */
static void check_barrier(struct perf_run *run, size_t size)
{
    (void)size;
    for (uint64_t i = 1; i <= BARRIER_CHECKS; i++) {
        uint64_t found = 0;

        if (!spoils(run)) {
            perf_must(oriel_atomic64(run->remote, 0, ORIEL_ATOMIC_ADD, 1, NULL), "atomic");
            perf_must(oriel_flush(run->target), "flush");
        }
        perf_barrier();
        perf_must(oriel_get(run->remote, 0, &found, WORD), "get");
        perf_check_number(run, i * (uint64_t)run->size, found, "ranks counted after a barrier");
        perf_barrier();
    }
}

/* ---------------------------------------------------------------- allreduce */

static void prepare_allreduce(struct perf_run *run, size_t size)
{
    perf_fill(run->source, size, run->rank, run->round);
    memset(landing_of(run), 0, size);
    perf_guard(landing_of(run), size, perf_data_at(run));
}

static void batch_allreduce(struct perf_run *run, size_t size, uint64_t n)
{
    unsigned char *landing = landing_of(run);

    for (uint64_t i = 0; i < n; i++) {
        perf_must(oriel_allreduce(run->source, landing, size / WORD, ORIEL_UINT64, ORIEL_SUM,
                                  ORIEL_WORLD),
                  "allreduce");
    }
}

static void check_allreduce(struct perf_run *run, size_t size)
{
    size_t count = size / WORD;
    uint64_t *expected = perf_alloc(size);

    memset(expected, 0, size);
    for (int rank = 0; rank < run->size; rank++) {
        for (size_t i = 0; i < count; i++) {
            expected[i] += perf_word(rank, run->round, i);
        }
    }
    check_landing(run, size);
    perf_check_words(run, landing_of(run), expected, count, "by its own CPU");
    free(expected);
}

/* ---------------------------------------------------------------- bcast */

static void prepare_bcast(struct perf_run *run, size_t size)
{
    if (run->rank == ROOT) {
        perf_fill(landing_of(run), size, ROOT, run->round);
    } else {
        perf_spoil(landing_of(run), size, ROOT, run->round);
    }
    perf_guard(landing_of(run), size, perf_data_at(run));
}

static void batch_bcast(struct perf_run *run, size_t size, uint64_t n)
{
    unsigned char *landing = landing_of(run);

    for (uint64_t i = 0; i < n; i++) {
        perf_must(oriel_bcast(landing, size, ORIEL_BYTE, ROOT, ORIEL_WORLD), "bcast");
    }
}

static void check_bcast(struct perf_run *run, size_t size)
{
    check_landing(run, size);
    perf_check_data(run, landing_of(run), size, ROOT, "by its own CPU");
}

#define LARGEST ((size_t)1 << 20)

const struct perf_test perf_tests_coll[] = {
    { "barrier", "barrier latency", 0, 0, 1, PERF_LATENCY, true, true, open_barrier,
      prepare_barrier, batch_barrier, check_barrier, perf_unshare },
    { "allreduce", "allreduce latency", WORD, LARGEST, WORD, PERF_LATENCY, true, true, open_buffers,
      prepare_allreduce, batch_allreduce, check_allreduce, close_buffers },
    { "bcast", "bcast latency", 1, LARGEST, 1, PERF_LATENCY, true, false, open_buffers,
      prepare_bcast, batch_bcast, check_bcast, close_buffers },
    { .name = NULL },
};
