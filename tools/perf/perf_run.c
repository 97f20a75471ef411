/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measuring one test of oriel-perf: the sizes, how many iterations a batch takes, the batches with
 * their checks, the memory the test works on. All ranks take the same course; in a point test those
 * that have nothing to do wait in the next barrier. The clock is read around a batch, never inside.
 * Batches of one size are spread over the whole test, so that a disturbance meets all sizes.
 */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH_NS     UINT64_C(8000000) /* 5 of them with calibration make some 50 ms a size */
#define CALIBRATE_NS UINT64_C(1000000)
#define WINDOW       UINT64_C(64)
#define WINDOW_MIN   UINT64_C(4)
#define SPAN_MAX     ((size_t)16 << 20)
#define PAGE         ((size_t)4096)

void perf_die(int status, const char *what)
{
    char text[640];

    (void)snprintf(text, sizeof(text), "oriel-perf: rank %d: %s: %s: %s", oriel_rank(), what,
                   oriel_error_name(status), oriel_error_detail());
    fflush(stdout);
    fprintf(stderr, "%s\n", text);
    oriel_abort(PERF_FAILED, text);
    exit(PERF_FAILED);
}

void *perf_alloc(size_t bytes)
{
    void *memory = aligned_alloc(PAGE, (bytes + PAGE) & ~(PAGE - 1));

    if (memory == NULL) {
        fprintf(stderr, "oriel-perf: rank %d: no memory for %zu bytes\n", oriel_rank(), bytes);
        oriel_abort(PERF_FAILED, "oriel-perf: no memory");
        exit(PERF_FAILED);
    }
    memset(memory, 1, bytes);
    return memory;
}

void perf_barrier(void)
{
    perf_must(oriel_barrier(ORIEL_WORLD), "barrier");
}

size_t perf_data_at(const struct perf_run *run)
{
    bool is_word = run->test->size_min == run->test->size_max;

    /* Atomics want their alignment. */
    return PERF_GUARD + (is_word ? run->opts->offset & ~(size_t)7 : run->opts->offset);
}

uint64_t perf_window(const struct perf_opts *opts, size_t size)
{
    uint64_t window = SPAN_MAX / size;

    if (opts->window != 0) {
        return opts->window;
    }
    window = window > WINDOW ? WINDOW : window;
    return window < WINDOW_MIN ? WINDOW_MIN : window;
}

size_t perf_span(const struct perf_run *run, size_t size)
{
    uint64_t slots = 1;

    if (run->test->unit == PERF_BANDWIDTH) {
        slots = perf_window(run->opts, size);
        if (slots > SPAN_MAX / size) {
            slots = SPAN_MAX / size > 0 ? SPAN_MAX / size : 1;
        }
    }
    return slots * size;
}

/* ---------------------------------------------------------------- the target's memory */

static void make_memory(struct perf_run *run, size_t bytes)
{
    if (run->opts->is_private) {
        run->target_bytes = perf_alloc(bytes);
        memset(run->target_bytes, 0, bytes);
        perf_must(oriel_mem_register(run->target_bytes, bytes, NULL, &run->mem), "mem_register");
        return;
    }
    perf_must(oriel_mem_alloc(bytes, NULL, &run->mem), "mem_alloc");
    run->target_bytes = oriel_mem_base(run->mem);
    memset(run->target_bytes, 0, bytes);
}

void perf_share(struct perf_run *run, size_t bytes)
{
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
    size_t length = 0;

    if (run->rank == run->target) {
        make_memory(run, bytes);
        perf_must(oriel_token_pack(run->mem, token, sizeof(token), &length), "token_pack");
    }
    perf_must(oriel_bcast(&length, sizeof(length), ORIEL_BYTE, run->target, ORIEL_WORLD), "bcast");
    perf_must(oriel_bcast(token, length, ORIEL_BYTE, run->target, ORIEL_WORLD), "bcast");
    perf_must(oriel_token_open(token, length, &run->remote), "token_open");
}

void perf_unshare(struct perf_run *run)
{
    perf_must(oriel_remote_close(run->remote), "remote_close");
    perf_barrier();
    perf_must(oriel_mem_free(run->mem), "mem_free");
    if (run->opts->is_private) {
        free(run->target_bytes);
    }
    free(run->source);
    free(run->landing);
    run->remote = NULL;
    run->mem = NULL;
    run->source = NULL;
    run->landing = NULL;
}

/* ---------------------------------------------------------------- measuring */

void perf_run_sizes(struct perf_run *run)
{
    const struct perf_test *test = run->test;
    size_t size = test->size_min;
    size_t max = test->size_max;

    if (test->size_min != test->size_max && run->opts->size_max != 0) {
        size = run->opts->size_min > size ? run->opts->size_min : size;
        max = run->opts->size_max;
    }
    if (test->step > 1) {
        size = (size + test->step - 1) / test->step * test->step;
    }
    for (; size <= max && run->nsizes < PERF_SIZES_MAX; size *= 2) {
        run->sizes[run->nsizes++] = size;
        if (size == 0) {
            break;
        }
    }
    if (run->nsizes > 0) {
        run->region = perf_span(run, run->sizes[0]);
    }
    for (size_t i = 1; i < run->nsizes; i++) {
        size_t span = perf_span(run, run->sizes[i]);

        run->region = span > run->region ? span : run->region;
    }
}

static uint64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static bool takes_part(const struct perf_run *run)
{
    return run->test->everybody || run->rank == 0;
}

/* n iterations; the time of the slowest rank where all take part, known to all of them. */
static uint64_t timed(struct perf_run *run, size_t size, uint64_t n)
{
    uint64_t begin;
    uint64_t ns;

    if (!takes_part(run)) {
        return 0;
    }
    if (run->test->everybody) {
        perf_barrier();
    }
    begin = now_ns();
    run->test->batch(run, size, n);
    ns = now_ns() - begin;
    run->done += n;
    if (run->test->everybody) {
        perf_must(oriel_allreduce(ORIEL_IN_PLACE, &ns, 1, ORIEL_UINT64, ORIEL_MAX, ORIEL_WORLD),
                  "allreduce");
    }
    return ns > 0 ? ns : 1;
}

/* The shortest of three times where one is long: a moment without the CPU counts for nothing. */
static uint64_t least(struct perf_run *run, size_t size, uint64_t n)
{
    uint64_t ns = timed(run, size, n);

    for (int i = 0; i < 2 && ns >= CALIBRATE_NS && ns < BATCH_NS * PERF_BATCHES; i++) {
        uint64_t again = timed(run, size, n);

        ns = again < ns ? again : ns;
    }
    return ns;
}

/* How many iterations make a batch; also warms caches and first contacts up. */
static uint64_t calibrate(struct perf_run *run, size_t size)
{
    uint64_t n = 1;
    uint64_t ns;

    (void)timed(run, size, 1);
    if (run->opts->iterations != 0) {
        return run->opts->iterations;
    }
    if (!takes_part(run)) {
        return 0;
    }
    while ((ns = least(run, size, n)) < CALIBRATE_NS) {
        n *= ns < CALIBRATE_NS / 10 ? 8 : 2;
    }
    n = n * BATCH_NS / ns;
    return n > 0 ? n : 1;
}

static void run_batch(struct perf_run *run, uint64_t batch)
{
    size_t size = run->sizes[run->at];

    run->round++;
    if (run->opts->verify) {
        run->test->prepare(run, size);
        run->done = 0;
    }
    if (run->opts->warmup > 0) {
        (void)timed(run, size, run->opts->warmup);
    }
    run->ns[run->at][batch] = timed(run, size, run->iterations[run->at]);
    if (run->opts->verify) {
        /* What rank 0 did is for others to judge, so they must know how much that was. */
        perf_must(oriel_bcast(&run->done, sizeof(run->done), ORIEL_BYTE, 0, ORIEL_WORLD), "bcast");
        run->test->check(run, size);
        perf_barrier();
    }
}

void perf_run_test(struct perf_run *run)
{
    run->test->open(run);
    perf_barrier();
    for (run->at = 0; run->at < run->nsizes; run->at++) {
        run->iterations[run->at] = calibrate(run, run->sizes[run->at]);
    }
    perf_barrier(); /* rank 0 may still be writing to what the others prepare next */
    for (uint64_t batch = 0; batch < PERF_BATCHES; batch++) {
        for (run->at = 0; run->at < run->nsizes; run->at++) {
            run_batch(run, batch);
        }
    }
    perf_barrier();
    run->test->close(run);
    perf_must(oriel_allreduce(ORIEL_IN_PLACE, run->wrong, run->nsizes, ORIEL_UINT64, ORIEL_SUM,
                              ORIEL_WORLD),
              "allreduce");
}
