/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rows of bench_direct: what is timed, against which bar, and how. The rows' globals are set by
 * each rank before it measures.
 */
#ifndef TESTS_PERF_BENCH_ROWS_H
#define TESTS_PERF_BENCH_ROWS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "oriel.h"

#define BENCH_BYTES ((size_t)2 << 20)

struct bench_row {
    const char *what;
    int (*run)(const struct bench_row *row, long n); /* n times; nonzero: an error */
    size_t bytes;
    size_t offset;
    double bar;    /* microseconds; 0: a floor, no bar */
    bool together; /* all ranks run it, else rank 0 */
};

extern const struct bench_row bench_pair[];
extern const struct bench_row bench_four[];
extern const struct bench_row bench_eight[];

/* One line of a rank, for what no library can beat. */
struct bench_flag {
    _Alignas(64) _Atomic uint64_t seq;
};

extern struct bench_flag *bench_flags;    /* one a rank, zero when the ranks begin */
extern unsigned char *bench_mapped;       /* BENCH_BYTES all ranks share, without the library */
extern unsigned char *bench_local;        /* BENCH_BYTES of this rank */
extern struct oriel_remote *bench_remote; /* memory of rank 1 */
extern int bench_batches;                 /* of each row, interleaved */

/* Collective: time the rows, batch by batch in turn, and let rank 0 print them. */
void bench_measure(const struct bench_row *rows);
/* One line of the table. */
void bench_print(const char *what, double best, double median, double bar, const char *unit);

/* Monotonic nanoseconds. */
double bench_now_ns(void);
/* End the process with the library's words unless status is ORIEL_OK. */
void bench_must(int status, const char *what);

#endif
