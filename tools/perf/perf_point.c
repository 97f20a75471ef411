/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The point tests of oriel-perf: puts, gets and atomics of the origins, each on the memory of its
 * target, all pairs at once. Only origins run a batch. A target's memory has guards around the
 * data; a check reads the data where it lies (the target's CPU) and through the library (a get of
 * a third rank, or of the origin).
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

enum {
    COUNTER_BYTES = 8,
    OPERAND = 3
};

static size_t bytes_of_target(const struct perf_run *run)
{
    return perf_data_at(run) + run->region + PERF_GUARD;
}

static void open_point(struct perf_run *run)
{
    perf_mem_open(run, run->origin >= 0 ? bytes_of_target(run) : 0);
    if (run->target >= 0) {
        run->source = perf_alloc(run->region);
    }
    if (run->target >= 0 || run->seen_target >= 0) {
        run->landing = perf_alloc(bytes_of_target(run));
    }
}

/* The watching rank gets all of it, guards too, and looks. */
static void check_by_get(struct perf_run *run, size_t span, int sender)
{
    size_t at = perf_data_at(run);
    const char *seen =
        run->seen_origin == run->job.rank ? "by a get of the origin" : "by a get of a third rank";
    struct ops_move move = { .mem = run->mem,
                             .target = run->seen_target,
                             .local = run->landing,
                             .bytes = at + span + PERF_GUARD,
                             .span = at + span + PERF_GUARD,
                             .window = 1 };

    ops_get(&move, 1);
    perf_check_data(run, run->landing + at, span, sender, seen);
    perf_check_guard(run, run->landing + at, span, at, seen);
}

static struct ops_move move_of(struct perf_run *run, unsigned char *local, size_t bytes)
{
    struct ops_move move = { .mem = run->mem,
                             .target = run->target,
                             .at = perf_data_at(run),
                             .bytes = bytes,
                             .span = perf_span(run, bytes),
                             .window = perf_window(run, bytes) };

    move.local = local;
    return move;
}

/* ---------------------------------------------------------------- put */

static void prepare_put(struct perf_run *run, size_t bytes)
{
    size_t span = perf_span(run, bytes);

    if (run->target >= 0) {
        perf_fill(run->source, span, run->job.rank, run->round);
    }
    if (run->origin >= 0) {
        perf_spoil(run->target_bytes + perf_data_at(run), span, run->origin, run->round);
        perf_guard(run->target_bytes + perf_data_at(run), span, perf_data_at(run));
    }
}

static void check_put(struct perf_run *run, size_t bytes)
{
    size_t span = perf_span(run, bytes);

    if (run->origin >= 0) {
        unsigned char *data = run->target_bytes + perf_data_at(run);

        perf_check_data(run, data, span, run->origin, "by the target's CPU");
        perf_check_guard(run, data, span, perf_data_at(run), "by the target's CPU");
    }
    if (run->seen_target >= 0) {
        check_by_get(run, span, run->seen_origin);
    }
}

static void batch_put(struct perf_run *run, size_t bytes, uint64_t n)
{
    struct ops_move move = move_of(run, run->source, bytes);

    ops_put(&move, n);
}

/* ---------------------------------------------------------------- get */

static void prepare_get(struct perf_run *run, size_t bytes)
{
    size_t span = perf_span(run, bytes);
    size_t at = perf_data_at(run);

    if (run->target >= 0) {
        perf_spoil(run->landing + PERF_GUARD, span, run->target, run->round);
        perf_guard(run->landing + PERF_GUARD, span, PERF_GUARD);
    }
    if (run->origin >= 0) {
        perf_fill(run->target_bytes + at, span, run->job.rank, run->round);
        perf_guard(run->target_bytes + at, span, at);
    }
}

static void check_get(struct perf_run *run, size_t bytes)
{
    size_t span = perf_span(run, bytes);

    if (run->target >= 0) {
        unsigned char *data = run->landing + PERF_GUARD;

        perf_check_data(run, data, span, run->target, "by the origin's CPU");
        perf_check_guard(run, data, span, PERF_GUARD, "by the origin's CPU");
    }
    if (run->seen_target >= 0) {
        check_by_get(run, span, run->seen_target);
    }
}

static void batch_get(struct perf_run *run, size_t bytes, uint64_t n)
{
    struct ops_move move = move_of(run, run->landing + PERF_GUARD, bytes);

    ops_get(&move, n);
}

/* ---------------------------------------------------------------- atomics */

static void prepare_counter(struct perf_run *run, size_t bytes)
{
    if (run->origin >= 0) {
        unsigned char *data = run->target_bytes + perf_data_at(run);

        memset(data, 0, bytes);
        perf_guard(data, bytes, perf_data_at(run));
    }
}

/* The word must be what each operation of the origin added, times their number. */
static void check_counter(struct perf_run *run, size_t bytes, uint64_t each)
{
    size_t at = perf_data_at(run);
    uint64_t found;

    if (run->origin >= 0) {
        unsigned char *data = run->target_bytes + at;

        memcpy(&found, data, COUNTER_BYTES);
        perf_check_number(run, run->done_by[run->origin] * each, found, "by the target's CPU");
        perf_check_guard(run, data, bytes, at, "by the target's CPU");
    }
    if (run->seen_target >= 0) {
        struct ops_move move = { .mem = run->mem,
                                 .target = run->seen_target,
                                 .at = at,
                                 .local = run->landing,
                                 .bytes = COUNTER_BYTES,
                                 .span = COUNTER_BYTES,
                                 .window = 1 };

        ops_get(&move, 1);
        memcpy(&found, run->landing, COUNTER_BYTES);
        perf_check_number(run, run->done_by[run->seen_origin] * each, found, "by a get");
    }
}

static void check_sum(struct perf_run *run, size_t bytes)
{
    check_counter(run, bytes, OPERAND);
}

/* Each swap puts in one more than what must be there, so each must have hit. */
static void check_swaps(struct perf_run *run, size_t bytes)
{
    check_counter(run, bytes, 1);
}

static void batch_fop(struct perf_run *run, size_t bytes, uint64_t n)
{
    uint64_t old = ops_add(run->mem, run->target, perf_data_at(run), OPERAND, n);

    (void)bytes;
    if (run->opts->verify && run->round > 0) {
        perf_check_number(run, (run->done + n - 1) * OPERAND, old, "as the value before");
    }
}

static void batch_cas(struct perf_run *run, size_t bytes, uint64_t n)
{
    uint64_t old = ops_swap(run->mem, run->target, perf_data_at(run), run->done, n);

    (void)bytes;
    if (run->opts->verify && run->round > 0) {
        perf_check_number(run, run->done + n - 1, old, "as the value before");
    }
}

#define LARGEST ((size_t)4 << 20)
#define SMALL   ((size_t)4 << 10)

const struct perf_test perf_tests_point[] = {
    { "put_lat", "put latency", 1, LARGEST, 1, PERF_LATENCY, false, true, open_point, prepare_put,
      batch_put, check_put, perf_mem_close },
    { "put_bw", "put bandwidth", 1, LARGEST, 1, PERF_BANDWIDTH, false, true, open_point,
      prepare_put, batch_put, check_put, perf_mem_close },
    { "put_mr", "put message rate", 1, SMALL, 1, PERF_RATE, false, false, open_point, prepare_put,
      batch_put, check_put, perf_mem_close },
    { "get_lat", "get latency", 1, LARGEST, 1, PERF_LATENCY, false, true, open_point, prepare_get,
      batch_get, check_get, perf_mem_close },
    { "get_bw", "get bandwidth", 1, LARGEST, 1, PERF_BANDWIDTH, false, false, open_point,
      prepare_get, batch_get, check_get, perf_mem_close },
    { "fop_lat", "fetch and add latency", COUNTER_BYTES, COUNTER_BYTES, 1, PERF_LATENCY, false,
      true, open_point, prepare_counter, batch_fop, check_sum, perf_mem_close },
    { "cas_lat", "compare and swap latency", COUNTER_BYTES, COUNTER_BYTES, 1, PERF_LATENCY, false,
      false, open_point, prepare_counter, batch_cas, check_swaps, perf_mem_close },
    { .name = NULL },
};
