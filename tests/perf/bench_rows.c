/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rows bench_direct times, their bars, and the timing: every row is repeated until a batch
 * takes some 2 ms, batches of all rows go in turn, so that a disturbance meets all rows and their
 * floors, and the clock is read around a batch only. Best and median over the batches are printed.
 */
#include "bench_rows.h"

#include "base/attr.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    BATCHES_MAX = 64,
    ROWS_MAX = 32,
    CPUS = 2
};

#define KIB      ((size_t)1024)
#define MIB      (KIB * KIB)
#define BATCH_NS 2e6

unsigned char *bench_mapped;
struct bench_flag *bench_flags;
unsigned char *bench_local;
struct oriel_remote *bench_remote;
int bench_batches = 31;

double bench_now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void bench_must(int status, const char *what)
{
    if (status != ORIEL_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, oriel_error_name(status), oriel_error_detail());
        _exit(1);
    }
}

static void meet(void)
{
    bench_must(oriel_barrier(ORIEL_WORLD), "barrier");
}

/* ---------------------------------------------------------------- what is timed */

static int run_put(const struct bench_row *row, long n)
{
    int bad = 0;

    for (long i = 0; i < n; i++) {
        bad |= oriel_put(bench_remote, row->offset, bench_local, row->bytes);
        bad |= oriel_flush(1);
    }
    return bad;
}

static int run_get(const struct bench_row *row, long n)
{
    int bad = 0;

    for (long i = 0; i < n; i++) {
        bad |= oriel_get(bench_remote, 0, bench_local + row->offset, row->bytes);
    }
    return bad;
}

static int run_add(const struct bench_row *row, long n)
{
    uint64_t old = 0;
    int bad = 0;

    for (long i = 0; i < n; i++) {
        bad |= oriel_atomic64(bench_remote, row->offset, ORIEL_ATOMIC_ADD, 1, &old);
    }
    return bad;
}

static int run_swap(const struct bench_row *row, long n)
{
    uint64_t old = 0;
    int bad = 0;

    for (long i = 0; i < n; i++) {
        bad |= oriel_compare_swap64(bench_remote, row->offset, old, old + 1, &old);
    }
    return bad;
}

static int run_copy(const struct bench_row *row, long n)
{
    for (long i = 0; i < n; i++) {
        memcpy(bench_mapped + row->offset, bench_local, row->bytes);
        __asm__ __volatile__("" : : "r"(bench_mapped), "r"(bench_local) : "memory");
    }
    return 0;
}

static int run_barrier(const struct bench_row *row, long n)
{
    int bad = 0;

    (void)row;
    for (long i = 0; i < n; i++) {
        bad |= oriel_barrier(ORIEL_WORLD);
    }
    return bad;
}

/* The least a barrier can be: everybody raises a flag and sees everybody's. */
static int run_flags(const struct bench_row *row, long n)
{
    static uint64_t seq;
    int me = oriel_rank();
    int size = oriel_size();

    (void)row;
    for (long i = 0; i < n; i++) {
        atomic_store_explicit(&bench_flags[me].seq, ++seq, memory_order_release);
        for (int r = 0; r < size; r++) {
            while (atomic_load_explicit(&bench_flags[r].seq, memory_order_acquire) < seq) {
                if (size > CPUS) {
                    (void)sched_yield();
                } else {
                    orl_cpu_pause();
                }
            }
        }
    }
    return 0;
}

static int run_allreduce(const struct bench_row *row, long n)
{
    uint64_t one = 1;
    uint64_t sum = 0;
    int bad = 0;

    (void)row;
    for (long i = 0; i < n; i++) {
        bad |= oriel_allreduce(&one, &sum, 1, ORIEL_UINT64, ORIEL_SUM, ORIEL_WORLD);
    }
    return bad;
}

const struct bench_row bench_pair[] = {
    { "put + flush 8 B", run_put, 8, 0, 0.03, false },
    { "put + flush 4 KiB", run_put, 4 * KIB, 0, 0.12, false },
    { "floor: memcpy 4 KiB", run_copy, 4 * KIB, 0, 0, false },
    { "put + flush 64 KiB", run_put, 64 * KIB, 0, 1.6, false },
    { "floor: memcpy 64 KiB", run_copy, 64 * KIB, 0, 0, false },
    { "put + flush 1 MiB", run_put, MIB, 0, 27, false },
    { "floor: memcpy 1 MiB", run_copy, MIB, 0, 0, false },
    { "put + flush 8 B, destination 8 B on", run_put, 8, 8, 0.03, false },
    { "put + flush 4 KiB, destination 8 B on", run_put, 4 * KIB, 8, 0.12, false },
    { "floor: memcpy 4 KiB, destination 8 B on", run_copy, 4 * KIB, 8, 0, false },
    { "put + flush 64 KiB, destination 8 B on", run_put, 64 * KIB, 8, 1.6, false },
    { "floor: memcpy 64 KiB, destination 8 B on", run_copy, 64 * KIB, 8, 0, false },
    { "put + flush 1 MiB, destination 8 B on", run_put, MIB, 8, 27, false },
    { "floor: memcpy 1 MiB, destination 8 B on", run_copy, MIB, 8, 0, false },
    { "get 8 B", run_get, 8, 0, 0.03, false },
    { "get 4 KiB", run_get, 4 * KIB, 0, 0.12, false },
    { "get 64 KiB", run_get, 64 * KIB, 0, 1.6, false },
    { "get 1 MiB", run_get, MIB, 0, 27, false },
    { "get 4 KiB, destination 8 B on", run_get, 4 * KIB, 8, 0.12, false },
    { "get 64 KiB, destination 8 B on", run_get, 64 * KIB, 8, 1.6, false },
    { "get 1 MiB, destination 8 B on", run_get, MIB, 8, 27, false },
    { "atomic add 8 B", run_add, 8, 0, 0.03, false },
    { "compare and swap 8 B", run_swap, 8, 64, 0.03, false },
    { "barrier", run_barrier, 0, 0, 0.09, true },
    { "floor: bare flags, 2 ranks", run_flags, 0, 0, 0, true },
    { "allreduce 8 B", run_allreduce, 8, 0, 0.10, true },
    { .what = NULL },
};

const struct bench_row bench_four[] = {
    { "barrier, 4 ranks on 2 CPUs", run_barrier, 0, 0, 3.5, true },
    { "floor: bare flags and yields, 4 ranks", run_flags, 0, 0, 0, true },
    { "allreduce 8 B, 4 ranks on 2 CPUs", run_allreduce, 8, 0, 3.5, true },
    { .what = NULL },
};

const struct bench_row bench_eight[] = {
    { "barrier, 8 ranks on 2 CPUs (10^4 in 0.3 s)", run_barrier, 0, 0, 30, true },
    { "floor: bare flags and yields, 8 ranks", run_flags, 0, 0, 0, true },
    { .what = NULL },
};

/* ---------------------------------------------------------------- measuring */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

void bench_print(const char *what, double best, double median, double bar, const char *unit)
{
    const char *ok = "-";

    if (bar > 0) {
        ok = median <= bar ? "yes" : (best <= bar ? "best only" : "no");
    }
    printf("| %s | %.3f | %.3f | ", what, best, median);
    if (bar > 0) {
        printf("%.2f %s | %s |\n", bar, unit, ok);
    } else {
        printf("- | - |\n");
    }
}

static double batch_ns(const struct bench_row *row, long n)
{
    double begin = bench_now_ns();

    bench_must(row->run(row, n), row->what);
    return bench_now_ns() - begin;
}

/* The shortest of three, so that a moment without the CPU does not make later batches tiny. */
static double least_ns(const struct bench_row *row, long n)
{
    double least = 1e18;

    for (int i = 0; i < 3; i++) {
        double ns = batch_ns(row, n);

        least = ns < least ? ns : least;
    }
    if (row->together) {
        bench_must(oriel_bcast(&least, sizeof(least), ORIEL_BYTE, 0, ORIEL_WORLD), "bcast");
    }
    return least;
}

static long calibrate(const struct bench_row *row)
{
    long n = 1;

    if (row->together || oriel_rank() == 0) {
        double ns = least_ns(row, n);

        while (ns < BATCH_NS / 8) {
            n *= 2;
            ns = least_ns(row, n);
        }
        n = (long)((double)n * BATCH_NS / ns) + 1;
    }
    meet();
    return n;
}

static void run_round(const struct bench_row *rows, const long *n, double (*ns)[BATCHES_MAX],
                      int batch)
{
    for (int i = 0; rows[i].what != NULL; i++) {
        if (rows[i].together) {
            meet();
        }
        if (rows[i].together || oriel_rank() == 0) {
            ns[i][batch] = batch_ns(&rows[i], n[i]) / (double)n[i];
        }
    }
    meet();
}

void bench_measure(const struct bench_row *rows)
{
    static double ns[ROWS_MAX][BATCHES_MAX];
    long n[ROWS_MAX] = { 0 };

    for (int i = 0; rows[i].what != NULL; i++) {
        n[i] = calibrate(&rows[i]);
    }
    for (int batch = 0; batch < bench_batches; batch++) {
        run_round(rows, n, ns, batch);
    }
    for (int i = 0; oriel_rank() == 0 && rows[i].what != NULL; i++) {
        qsort(ns[i], (size_t)bench_batches, sizeof(ns[i][0]), compare);
        bench_print(rows[i].what, ns[i][0] / 1e3, ns[i][bench_batches / 2] / 1e3, rows[i].bar,
                    "us");
    }
    fflush(stdout);
}
