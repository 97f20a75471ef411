/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measuring one test of oriel-perf: the sizes, how many iterations a sample takes, the samples with
 * their checks. All ranks take the same course; in a point test those that are no origins wait. The
 * clock is read between samples, never inside. Samples of one size are spread over rounds, so that
 * a disturbance of the machine meets all sizes. Without -i a size is bounded in time: a library
 * that takes long is sampled less often, not waited for.
 */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLE_NS  UINT64_C(20000)     /* clock reading and jitter are small beside it */
#define SIZE_NS    UINT64_C(60000000)  /* samples of a size, when the least number allows */
#define LIMIT_NS   UINT64_C(300000000) /* of a size, whatever its samples number */
#define WINDOW     UINT64_C(64)
#define WINDOW_MIN UINT64_C(4)
#define SPAN_MAX   ((size_t)16 << 20)
#define SINGLE_MAX ((size_t)1 << 20) /* larger ones are checked singly once a round */
#define PAGE       ((size_t)4096)

void *perf_alloc(size_t bytes)
{
    void *memory = aligned_alloc(PAGE, (bytes + PAGE) & ~(PAGE - 1));
    char text[80];

    if (memory != NULL) {
        return memset(memory, 1, bytes);
    }
    (void)snprintf(text, sizeof(text), "%s: no memory for %zu bytes", ops_program, bytes);
    ops_abort(text);
}

void perf_mem_open(struct perf_run *run, size_t bytes)
{
    run->mem = ops_mem_open(bytes, run->opts->is_private ? OPS_MEMORY_PRIVATE : OPS_MEMORY_ALLOC);
    run->target_bytes = ops_mem_base(run->mem);
}

void perf_mem_close(struct perf_run *run)
{
    ops_mem_close(run->mem);
    free(run->source);
    free(run->landing);
    run->mem = NULL;
    run->source = NULL;
    run->landing = NULL;
}

size_t perf_data_at(const struct perf_run *run)
{
    bool is_word = run->test->size_min == run->test->size_max;

    /* Atomics want their alignment. */
    return PERF_GUARD + (is_word ? run->opts->offset & ~(size_t)7 : run->opts->offset);
}

/* ---------------------------------------------------------------- sizes */

uint64_t perf_window(const struct perf_run *run, size_t bytes)
{
    uint64_t window = bytes > 0 ? SPAN_MAX / bytes : WINDOW;

    if (run->test->unit == PERF_LATENCY) {
        return 1;
    }
    if (run->opts->window != 0) {
        return run->opts->window;
    }
    window = window > WINDOW ? WINDOW : window;
    return window < WINDOW_MIN ? WINDOW_MIN : window;
}

size_t perf_span(const struct perf_run *run, size_t bytes)
{
    uint64_t slots = perf_window(run, bytes);

    if (bytes > 0 && slots > SPAN_MAX / bytes) {
        slots = SPAN_MAX / bytes > 0 ? SPAN_MAX / bytes : 1;
    }
    return slots * bytes;
}

void perf_run_sizes(struct perf_run *run)
{
    const struct perf_test *test = run->test;
    size_t bytes = test->size_min;
    size_t max = test->size_max;

    if (test->size_min != test->size_max && run->opts->size_max != 0) {
        bytes = run->opts->size_min > bytes ? run->opts->size_min : bytes;
        max = run->opts->size_max;
    }
    if (test->step > 1) {
        bytes = (bytes + test->step - 1) / test->step * test->step;
    }
    for (; bytes <= max && run->nsizes < PERF_SIZES_MAX; bytes *= 2) {
        size_t span = perf_span(run, bytes);

        run->sizes[run->nsizes++].bytes = bytes;
        run->region = span > run->region ? span : run->region;
        if (bytes == 0) {
            break;
        }
    }
}

/* ---------------------------------------------------------------- how often */

static uint64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static bool takes_part(const struct perf_run *run)
{
    return run->test->everybody || run->target >= 0;
}

static void iterate(struct perf_run *run, size_t bytes, uint64_t n)
{
    if (n > 0 && takes_part(run)) {
        run->test->batch(run, bytes, n);
        run->done += n;
    }
}

/* n iterations; of a collective the time of the slowest rank, known to all of them. */
static uint64_t trial_ns(struct perf_run *run, size_t bytes, uint64_t n)
{
    uint64_t ns = now_ns();

    iterate(run, bytes, n);
    ns = now_ns() - ns;
    if (run->test->everybody) {
        ops_largest(&ns, 1);
    }
    return ns > 0 ? ns : 1;
}

/* Picoseconds of an iteration, roughly; also warms caches and first contacts up. */
static uint64_t guess_ps(struct perf_run *run, size_t bytes)
{
    uint64_t n = 1;
    uint64_t ns;
    uint64_t sum;
    uint64_t least;

    (void)trial_ns(run, bytes, 1);
    while ((ns = trial_ns(run, bytes, n)) < SAMPLE_NS) {
        n *= ns < SAMPLE_NS / 10 ? 8 : 2;
    }
    sum = ns;
    least = ns;
    for (int i = 0; i < 2; i++) {
        ns = trial_ns(run, bytes, n);
        sum += ns;
        least = ns < least ? ns : least;
    }
    /* A moment without the CPU counts for nothing, but ranks that share a CPU have many of them in
     * each collective. */
    return (run->test->everybody ? sum / 3 : least) * 1000 / n;
}

static uint64_t within(uint64_t n, uint64_t least, uint64_t most)
{
    if (n < least) {
        return least;
    }
    return n > most ? most : n;
}

static void plan_by_time(struct perf_size *size, uint64_t ps)
{
    size->k = SAMPLE_NS * 1000 / ps + 1;
    size->planned = within(SIZE_NS / (size->k * ps / 1000 + 1), PERF_SAMPLES_MIN, PERF_SAMPLES);
}

static void plan(struct perf_run *run)
{
    uint64_t ps[PERF_SIZES_MAX] = { 0 };

    for (size_t i = 0; i < run->nsizes && takes_part(run); i++) {
        if (run->opts->iterations == 0) {
            ps[i] = guess_ps(run, run->sizes[i].bytes);
        } else {
            iterate(run, run->sizes[i].bytes, 1);
        }
    }
    ops_largest(ps, run->nsizes); /* one plan for all ranks */
    for (size_t i = 0; i < run->nsizes; i++) {
        struct perf_size *size = &run->sizes[i];

        if (run->opts->iterations == 0) {
            plan_by_time(size, ps[i] > 0 ? ps[i] : 1);
        } else {
            size->planned =
                run->opts->iterations < PERF_SAMPLES_MIN ? run->opts->iterations : PERF_SAMPLES_MIN;
        }
        size->ps = perf_alloc(size->planned * sizeof(*size->ps));
        memset(size->ps, 0, size->planned * sizeof(*size->ps));
    }
}

/* ---------------------------------------------------------------- samples */

/* Iterations of sample number j: with -i their sum is what was asked for. */
static uint64_t iterations_of(const struct perf_run *run, const struct perf_size *size, uint64_t j)
{
    uint64_t all = run->opts->iterations;

    return all == 0 ? size->k : all * (j + 1) / size->planned - all * j / size->planned;
}

/* Samples without a pause between them, until `count` are taken or, not with -i, limit_ns are
 * over, of a collective only the former. The time they took. */
static uint64_t take(struct perf_run *run, struct perf_size *size, uint64_t count,
                     uint64_t limit_ns)
{
    uint64_t begin = now_ns();
    uint64_t before = begin;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t k = iterations_of(run, size, size->taken);
        uint64_t now;

        run->test->batch(run, size->bytes, k);
        now = now_ns();
        size->ps[size->taken++] = (now - before) * 1000 / k;
        size->iterations += k;
        run->done += k;
        before = now;
        if (run->opts->iterations == 0 && !run->test->everybody && now - begin > limit_ns) {
            break;
        }
    }
    return before - begin;
}

/* The slowest rank's time is a collective's. All ranks must agree when to stop, so they compare
 * after 1 sample, 2, 4 and so forth. What warms up also brings the ranks into step. */
static void take_together(struct perf_run *run, struct perf_size *size, uint64_t count)
{
    uint64_t spent = 0;
    uint64_t chunk = run->opts->iterations == 0 ? 1 : count;

    while (count > 0 && spent < LIMIT_NS / PERF_ROUNDS) {
        uint64_t first = size->taken;
        uint64_t now = chunk < count ? chunk : count;

        iterate(run, size->bytes, run->opts->warmup);
        (void)take(run, size, now, UINT64_MAX);
        ops_largest(&size->ps[first], now);
        for (uint64_t i = first; i < size->taken; i++) {
            spent += size->ps[i] / 1000 * iterations_of(run, size, i);
        }
        count -= now;
        chunk *= 2;
    }
}

/* How many of a size's samples this round has; none in some when -i asks for less than a few. */
static uint64_t part_of(const struct perf_size *size, uint64_t round)
{
    return size->planned * (round + 1) / PERF_ROUNDS - size->planned * round / PERF_ROUNDS;
}

static void take_part(struct perf_run *run, struct perf_size *size, uint64_t count)
{
    if (run->test->everybody) {
        take_together(run, size, count);
    } else if (takes_part(run)) {
        iterate(run, size->bytes, run->opts->warmup);
        (void)take(run, size, count, LIMIT_NS / PERF_ROUNDS);
    }
}

/* ---------------------------------------------------------------- checks */

static void prepare(struct perf_run *run, size_t bytes)
{
    run->round++;
    run->done = 0;
    run->test->prepare(run, bytes);
    ops_sync(run->mem);
}

static void check(struct perf_run *run, size_t bytes)
{
    /* What an origin did is for others to judge, so they must know how much that was. */
    memset(run->done_by, 0, (size_t)run->job.size * sizeof(*run->done_by));
    run->done_by[run->job.rank] = run->done;
    ops_largest(run->done_by, (size_t)run->job.size);
    ops_sync(run->mem);
    run->test->check(run, bytes);
    ops_sync(run->mem); /* before anybody prepares the next */
}

/* Data of its own for each iteration: what a loop of the same transfer over and over would hide. */
static void check_singles(struct perf_run *run, size_t bytes)
{
    int count = perf_span(run, bytes) > SINGLE_MAX ? 1 : PERF_SINGLES;

    for (int i = 0; i < count; i++) {
        prepare(run, bytes);
        iterate(run, bytes, 1);
        check(run, bytes);
    }
}

static void run_part(struct perf_run *run, struct perf_size *size, uint64_t count)
{
    if (count > 0 && run->opts->verify) {
        prepare(run, size->bytes);
        take_part(run, size, count);
        check(run, size->bytes);
    } else if (count > 0) {
        ops_sync(run->mem);
        take_part(run, size, count);
    }
    if (run->opts->verify) {
        check_singles(run, size->bytes);
    }
}

static void run_round(struct perf_run *run, uint64_t round)
{
    for (run->at = 0; run->at < run->nsizes; run->at++) {
        struct perf_size *size = &run->sizes[run->at];

        if (run->job.rank == 0) {
            perf_progress(run, (unsigned)((round * run->nsizes + run->at) * 100 /
                                          (run->nsizes * PERF_ROUNDS)));
        }
        run_part(run, size, part_of(size, round));
    }
}

void perf_run_test(struct perf_run *run)
{
    uint64_t wrong[PERF_SIZES_MAX] = { 0 };

    run->done_by = perf_alloc((size_t)run->job.size * sizeof(*run->done_by));
    run->test->open(run);
    ops_sync(run->mem);
    plan(run);
    for (uint64_t round = 0; round < PERF_ROUNDS; round++) {
        run_round(run, round);
    }
    ops_sync(run->mem);
    run->test->close(run);
    free(run->done_by);
    run->done_by = NULL;
    for (size_t i = 0; i < run->nsizes; i++) {
        wrong[i] = run->sizes[i].wrong;
    }
    ops_sum(wrong, run->nsizes);
    for (size_t i = 0; i < run->nsizes; i++) {
        run->sizes[i].wrong = wrong[i];
    }
    perf_collect(run);
    if (run->job.rank == 0) {
        perf_progress_end();
    }
}
