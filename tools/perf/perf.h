/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of oriel-perf share: the options (perf_opts.c), the table of tests
 * (perf_point.c, perf_coll.c), the run that measures one of them (perf_run.c), data that shows
 * every wrong byte (perf_check.c), and the tables it prints (perf_print.c). One thread; oriel-perf
 * is a client of oriel.h alone.
 */
#ifndef PERF_H
#define PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "oriel.h"

enum {
    PERF_BATCHES = 5,    /* per size, one size after the other, then again */
    PERF_SIZES_MAX = 32, /* powers of two */
    PERF_TESTS_MAX = 16,
    PERF_GUARD = 4096 /* bytes before and after the data that must not change; keeps it on a page */
};

/* Status of the program beside 0. */
enum {
    PERF_FAILED = 1,
    PERF_USAGE = 2
};

struct perf_run;

enum perf_unit {
    PERF_LATENCY,
    PERF_BANDWIDTH
};

struct perf_test {
    const char *name;
    const char *title;
    size_t size_min; /* equal to size_max: -m does not apply */
    size_t size_max;
    size_t step; /* sizes are multiples of it */
    enum perf_unit unit;
    bool everybody; /* all ranks run the batch; else rank 0 alone */
    bool is_default;
    /* Memory for the largest size. Collective, as the others are; only batch is not always. */
    void (*open)(struct perf_run *run);
    /* Fill sources with this batch's pattern, spoil destinations. Only with --verify. */
    void (*prepare)(struct perf_run *run, size_t size);
    void (*batch)(struct perf_run *run, size_t size, uint64_t n);
    /* Look at every byte that run->done iterations since prepare must have left. */
    void (*check)(struct perf_run *run, size_t size);
    void (*close)(struct perf_run *run);
};

extern const struct perf_test perf_tests_point[];
extern const struct perf_test perf_tests_coll[];

/* Test number i of all, in the order of the help text; NULL behind the last. */
const struct perf_test *perf_test_at(size_t i);

struct perf_opts {
    const struct perf_test *tests[PERF_TESTS_MAX];
    size_t ntests;
    size_t size_min; /* 0: as the test says */
    size_t size_max;
    uint64_t iterations; /* 0: by time */
    uint64_t warmup;
    uint64_t window; /* 0: by size */
    size_t offset;
    bool verify;
    bool is_private;
    bool inject_fault;
    const char *json;
};

/* Read the command line. 0: go on; -1: done, status 0 (help, version); else a status. */
int perf_opts_read(int argc, char **argv, struct perf_opts *opts);

/* One test under way. */
struct perf_run {
    const struct perf_opts *opts;
    const struct perf_test *test;
    int rank;
    int size;
    int target; /* rank 1, or 0 when alone */
    int third;  /* who reads the target's memory to check: rank 2, else the origin, rank 0 */

    size_t sizes[PERF_SIZES_MAX];
    size_t nsizes;
    uint64_t iterations[PERF_SIZES_MAX];
    uint64_t ns[PERF_SIZES_MAX][PERF_BATCHES]; /* of a whole batch */
    uint64_t wrong[PERF_SIZES_MAX];            /* checks that failed; of all ranks at the end */
    size_t at;                                 /* index of the size under way */
    uint64_t round;                            /* makes each batch's data different */
    uint64_t done;                             /* iterations since prepare */

    struct oriel_mem *mem;       /* of the target, with guards */
    struct oriel_remote *remote; /* the same, as others see it */
    unsigned char *target_bytes; /* the target's address of it */
    unsigned char *source;       /* malloc memory of the origin, with guards */
    unsigned char *landing;      /* what a get or a collective fills, with guards */
    size_t region;               /* bytes of data, guards not counted */
};

/* Measure one test; the results stay in run, the same on every rank only in wrong. */
void perf_run_test(struct perf_run *run);
/* Sizes of a test under the options. */
void perf_run_sizes(struct perf_run *run);

/* Puts or gets of one iteration of a bandwidth test. */
uint64_t perf_window(const struct perf_opts *opts, size_t size);
/* Bytes one iteration covers; its puts go round in them. */
size_t perf_span(const struct perf_run *run, size_t size);

/* End the job with the library's words unless status is ORIEL_OK. */
void perf_die(int status, const char *what);
static inline void perf_must(int status, const char *what)
{
    if (status != ORIEL_OK) {
        perf_die(status, what);
    }
}

/* Memory of malloc on pages of its own; ends the job when there is none. */
void *perf_alloc(size_t bytes);
/* Make the target's memory, tell everybody its token, open it. */
void perf_share(struct perf_run *run, size_t bytes);
void perf_unshare(struct perf_run *run);
/* Offset of the data in the target's memory. */
size_t perf_data_at(const struct perf_run *run);
void perf_barrier(void);

/* Data: what origin sends in this round at a place, and its opposite, for destinations. */
void perf_fill(unsigned char *data, size_t n, int origin, uint64_t round);
void perf_spoil(unsigned char *data, size_t n, int origin, uint64_t round);
uint64_t perf_word(int origin, uint64_t round, size_t index);
/* Guards around n bytes at data, `before` of them in front. */
void perf_guard(unsigned char *data, size_t n, size_t before);
/* Compare with what perf_fill (or fill's array) and perf_guard made; prints the first wrong byte.
 */
void perf_check_data(struct perf_run *run, const unsigned char *data, size_t n, int origin,
                     const char *seen);
void perf_check_words(struct perf_run *run, const unsigned char *data, const uint64_t *expected,
                      size_t n, const char *seen);
void perf_check_guard(struct perf_run *run, const unsigned char *data, size_t n, size_t before,
                      const char *seen);
void perf_check_number(struct perf_run *run, uint64_t expected, uint64_t found, const char *seen);

/* Tables, on rank 0; the file is NULL without --json. */
void perf_print_head(const struct perf_run *run);
void perf_print_rows(const struct perf_run *run);
int perf_json_open(const struct perf_opts *opts, int size);
void perf_json_test(const struct perf_run *run);
int perf_json_close(void);

#endif
