/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The point tests of oriel-perf: puts, gets and atomics of rank 0 on memory of the target. Only
 * rank 0 runs a batch. The target's memory has guards around the data; a check reads the data where
 * it lies (the target's CPU) and through the library (a get of a third rank, or of the origin).
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

enum {
    ORIGIN = 0,
    COUNTER_BYTES = 8,
    OPERAND = 3,
    BATCH_OPS = 32 /* gets started together */
};

static size_t bytes_of_target(const struct perf_run *run)
{
    return perf_data_at(run) + run->region + PERF_GUARD;
}

static void open_point(struct perf_run *run)
{
    perf_share(run, bytes_of_target(run));
    if (run->rank == ORIGIN) {
        run->source = perf_alloc(run->region);
    }
    if (run->rank == ORIGIN || run->rank == run->third) {
        run->landing = perf_alloc(bytes_of_target(run));
    }
}

static void flip_byte(struct perf_run *run, unsigned char *data, size_t n)
{
    if (run->opts->inject_fault) {
        data[n / 2] ^= 0x10;
    }
}

/* The checking rank gets all of it, guards too, and looks. */
static void check_by_get(struct perf_run *run, size_t span, int origin)
{
    size_t at = perf_data_at(run);
    const char *seen = run->third == ORIGIN ? "by a get of the origin" : "by a get of a third rank";

    perf_must(oriel_get(run->remote, 0, run->landing, at + span + PERF_GUARD), "get");
    perf_check_data(run, run->landing + at, span, origin, seen);
    perf_check_guard(run, run->landing + at, span, at, seen);
}

/* ---------------------------------------------------------------- put */

static void prepare_put(struct perf_run *run, size_t size)
{
    size_t span = perf_span(run, size);

    if (run->rank == ORIGIN) {
        perf_fill(run->source, span, ORIGIN, run->round);
    }
    if (run->rank == run->target) {
        perf_spoil(run->target_bytes + perf_data_at(run), span, ORIGIN, run->round);
        perf_guard(run->target_bytes + perf_data_at(run), span, perf_data_at(run));
    }
    perf_barrier();
}

static void check_put(struct perf_run *run, size_t size)
{
    size_t span = perf_span(run, size);

    if (run->rank == run->target) {
        unsigned char *data = run->target_bytes + perf_data_at(run);

        flip_byte(run, data, span);
        perf_check_data(run, data, span, ORIGIN, "by the target's CPU");
        perf_check_guard(run, data, span, perf_data_at(run), "by the target's CPU");
    }
    if (run->rank == run->third) {
        check_by_get(run, span, ORIGIN);
    }
}

static void batch_put_lat(struct perf_run *run, size_t size, uint64_t n)
{
    uint64_t at = perf_data_at(run);

    for (uint64_t i = 0; i < n; i++) {
        perf_must(oriel_put(run->remote, at, run->source, size), "put");
        perf_must(oriel_flush(run->target), "flush");
    }
}

static void batch_put_bw(struct perf_run *run, size_t size, uint64_t n)
{
    uint64_t window = perf_window(run->opts, size);
    size_t span = perf_span(run, size);
    uint64_t at = perf_data_at(run);

    for (uint64_t i = 0; i < n; i++) {
        size_t place = 0;

        for (uint64_t j = 0; j < window; j++) {
            perf_must(oriel_put(run->remote, at + place, run->source + place, size), "put");
            place = place + size < span ? place + size : 0;
        }
        perf_must(oriel_flush(run->target), "flush");
    }
}

/* ---------------------------------------------------------------- get */

static void prepare_get(struct perf_run *run, size_t size)
{
    size_t span = perf_span(run, size);
    size_t at = perf_data_at(run);

    if (run->rank == ORIGIN) {
        perf_spoil(run->landing + PERF_GUARD, span, run->target, run->round);
        perf_guard(run->landing + PERF_GUARD, span, PERF_GUARD);
    }
    if (run->rank == run->target) {
        perf_fill(run->target_bytes + at, span, run->target, run->round);
        perf_guard(run->target_bytes + at, span, at);
    }
    perf_barrier();
}

static void check_get(struct perf_run *run, size_t size)
{
    size_t span = perf_span(run, size);

    if (run->rank == ORIGIN) {
        unsigned char *data = run->landing + PERF_GUARD;

        flip_byte(run, data, span);
        perf_check_data(run, data, span, run->target, "by the origin's CPU");
        perf_check_guard(run, data, span, PERF_GUARD, "by the origin's CPU");
    }
    if (run->rank == run->third) {
        check_by_get(run, span, run->target);
    }
}

static void batch_get_lat(struct perf_run *run, size_t size, uint64_t n)
{
    unsigned char *landing = run->landing + PERF_GUARD;
    uint64_t at = perf_data_at(run);

    for (uint64_t i = 0; i < n; i++) {
        perf_must(oriel_get(run->remote, at, landing, size), "get");
    }
}

/* A window's gets, as batches with one completion each. */
static void get_window(struct perf_run *run, size_t size, uint64_t window, size_t span)
{
    struct oriel_xfer ops[BATCH_OPS];
    size_t place = 0;

    memset(ops, 0, sizeof(ops));
    while (window > 0) {
        uint64_t count = 0;

        for (; count < window && count < BATCH_OPS; count++) {
            ops[count].kind = ORIEL_GET;
            ops[count].remote = run->remote;
            ops[count].offset = perf_data_at(run) + place;
            ops[count].dst = run->landing + PERF_GUARD + place;
            ops[count].bytes = size;
            place = place + size < span ? place + size : 0;
        }
        perf_must(oriel_run(ops, count, NULL), "run");
        window -= count;
    }
}

static void batch_get_bw(struct perf_run *run, size_t size, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        get_window(run, size, perf_window(run->opts, size), perf_span(run, size));
    }
}

/* ---------------------------------------------------------------- atomics */

static void prepare_counter(struct perf_run *run, size_t size)
{
    if (run->rank == run->target) {
        unsigned char *data = run->target_bytes + perf_data_at(run);

        memset(data, 0, size);
        perf_guard(data, size, perf_data_at(run));
    }
    perf_barrier();
}

static void check_counter(struct perf_run *run, size_t size, uint64_t expected)
{
    size_t at = perf_data_at(run);
    uint64_t found;

    if (run->rank == run->target) {
        unsigned char *data = run->target_bytes + at;

        flip_byte(run, data, size);
        memcpy(&found, data, COUNTER_BYTES);
        perf_check_number(run, expected, found, "by the target's CPU");
        perf_check_guard(run, data, size, at, "by the target's CPU");
    }
    if (run->rank == run->third) {
        perf_must(oriel_get(run->remote, at, &found, COUNTER_BYTES), "get");
        perf_check_number(run, expected, found, "by a get");
    }
}

static void check_sum(struct perf_run *run, size_t size)
{
    check_counter(run, size, run->done * OPERAND);
}

/* Each swap puts in one more than what must be there, so each must have hit. */
static void check_swaps(struct perf_run *run, size_t size)
{
    check_counter(run, size, run->done);
}

static void batch_fop(struct perf_run *run, size_t size, uint64_t n)
{
    uint64_t at = perf_data_at(run);
    uint64_t old = 0;

    (void)size;
    for (uint64_t i = 0; i < n; i++) {
        perf_must(oriel_atomic64(run->remote, at, ORIEL_ATOMIC_ADD, OPERAND, &old), "atomic");
    }
}

static void batch_cas(struct perf_run *run, size_t size, uint64_t n)
{
    uint64_t at = perf_data_at(run);
    uint64_t expected = run->done;

    (void)size;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t old = 0;

        perf_must(oriel_compare_swap64(run->remote, at, expected, expected + 1, &old),
                  "compare_swap");
        expected++;
    }
}

#define LARGEST ((size_t)4 << 20)

const struct perf_test perf_tests_point[] = {
    { "put_lat", "put latency", 1, LARGEST, 1, PERF_LATENCY, false, true, open_point, prepare_put,
      batch_put_lat, check_put, perf_unshare },
    { "get_lat", "get latency", 1, LARGEST, 1, PERF_LATENCY, false, true, open_point, prepare_get,
      batch_get_lat, check_get, perf_unshare },
    { "put_bw", "put bandwidth", 1, LARGEST, 1, PERF_BANDWIDTH, false, true, open_point,
      prepare_put, batch_put_bw, check_put, perf_unshare },
    { "get_bw", "get bandwidth", 1, LARGEST, 1, PERF_BANDWIDTH, false, false, open_point,
      prepare_get, batch_get_bw, check_get, perf_unshare },
    { "fop_lat", "fetch and add latency", COUNTER_BYTES, COUNTER_BYTES, 1, PERF_LATENCY, false,
      true, open_point, prepare_counter, batch_fop, check_sum, perf_unshare },
    { "cas_lat", "compare and swap latency", COUNTER_BYTES, COUNTER_BYTES, 1, PERF_LATENCY, false,
      false, open_point, prepare_counter, batch_cas, check_swaps, perf_unshare },
    { .name = NULL },
};
