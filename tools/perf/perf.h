/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of oriel-perf share: the options (perf_opts.c), the tables of tests (perf_point.c,
 * perf_coll.c), the run that measures one of them (perf_run.c), data that shows every wrong byte
 * (perf_check.c), figures made of samples (perf_stats.c), what is printed (perf_print.c) and drawn
 * (perf_plot.c). One thread. The library under test is behind perf_ops.h, whichever it is.
 */
#ifndef PERF_H
#define PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf_ops.h"

enum {
    PERF_ROUNDS = 5,       /* over all sizes; each has a part of every size's samples */
    PERF_SAMPLES = 500,    /* of a size, at most, and */
    PERF_SAMPLES_MIN = 50, /* at least, unless those would take very long */
    PERF_SINGLES = 4,      /* iterations of each round that --verify checks one by one */
    PERF_SIZES_MAX = 32,   /* powers of two */
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
    PERF_LATENCY,   /* us of an iteration */
    PERF_BANDWIDTH, /* MB/s */
    PERF_RATE       /* messages/s */
};

struct perf_test {
    const char *name;
    const char *title;
    size_t size_min; /* equal to size_max: -m does not apply */
    size_t size_max;
    size_t step; /* sizes are multiples of it */
    enum perf_unit unit;
    bool everybody; /* all ranks run the batch; else the origins of the pairs */
    bool is_default;
    /* Memory for the largest size. Collective, as the others are; only batch is not always. */
    void (*open)(struct perf_run *run);
    /* Fill sources with this round's pattern, spoil destinations. Only with --verify. */
    void (*prepare)(struct perf_run *run, size_t bytes);
    void (*batch)(struct perf_run *run, size_t bytes, uint64_t n);
    /* Look at every byte that the iterations since prepare must have left. */
    void (*check)(struct perf_run *run, size_t bytes);
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
    const char *json;
    const char *plot;
};

/* Read the command line. 0: go on; -1: done, status 0 (help, version); else a status. */
int perf_opts_read(int argc, char **argv, struct perf_opts *opts);

/* One size of a test. */
struct perf_size {
    size_t bytes;
    uint64_t k;       /* iterations of a sample; with -i they are shared out instead */
    uint64_t planned; /* samples */
    uint64_t taken;   /* as many, or fewer where they took too long */
    uint64_t iterations;
    uint64_t *ps;   /* [planned], owns; picoseconds of an iteration, sample by sample */
    double *values; /* [count], owns; after perf_collect, on rank 0: in the test's unit, sorted */
    size_t count;
    uint64_t wrong; /* checks that failed; of all ranks at the end */
};

/* One test under way. */
struct perf_run {
    const struct perf_opts *opts;
    const struct perf_test *test;
    struct ops_job job;

    /* Pairs: the origin acts on the target's memory, a third rank looks at it. */
    int pairs;
    int origin;      /* whose data my memory gets; -1: I am no target */
    int target;      /* of my operations; -1: I am no origin */
    int seen_target; /* whose memory I get to check it; -1: nobody's */
    int seen_origin; /* whose data must be there */

    struct perf_size sizes[PERF_SIZES_MAX];
    size_t nsizes;
    size_t at;         /* index of the size under way */
    uint64_t round;    /* makes each round's and each single iteration's data different */
    uint64_t done;     /* my iterations since prepare */
    uint64_t *done_by; /* [ranks], owns; the same of all ranks, while a check runs */

    struct ops_mem *mem;
    unsigned char *target_bytes; /* my part of it */
    unsigned char *source;       /* malloc memory of an origin, with guards */
    unsigned char *landing;      /* what a get or a collective fills, with guards */
    size_t region;               /* bytes of data, guards not counted */
};

/* Sizes of a test under the options. */
void perf_run_sizes(struct perf_run *run);
/* Measure one test; the results stay in run, those of all on rank 0. */
void perf_run_test(struct perf_run *run);

/* Ranks of pair number i; a job of one rank is its own pair. */
int perf_origin_of(const struct perf_run *run, int pair);
int perf_target_of(const struct perf_run *run, int pair);

/* Transfers of one iteration: 1, or the window of a bandwidth or rate test. */
uint64_t perf_window(const struct perf_run *run, size_t bytes);
/* Bytes one iteration covers; its transfers go round in them. */
size_t perf_span(const struct perf_run *run, size_t bytes);

/* Memory of malloc on pages of its own; ends the job when there is none. */
void *perf_alloc(size_t bytes);
/* Make the memory, `bytes` of it on this rank. */
void perf_mem_open(struct perf_run *run, size_t bytes);
/* Close it and free the other buffers. */
void perf_mem_close(struct perf_run *run);
/* Offset of the data in the target's memory. */
size_t perf_data_at(const struct perf_run *run);

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

/* Bring the samples of all origins to rank 0 as sorted values. Collective. */
void perf_collect(struct perf_run *run);
void perf_free_samples(struct perf_run *run);

struct perf_figures {
    double min;
    double median;
    double avg;
    double p99;
    double max;
};
struct perf_figures perf_figures_of(const struct perf_size *size);
const char *perf_unit_name(enum perf_unit unit);

/* Tables, JSON lines and the progress line, on rank 0; without --json the file is none. */
void perf_print_head(const struct perf_run *run);
void perf_print_rows(const struct perf_run *run);
int perf_json_open(const struct perf_opts *opts);
void perf_json_test(const struct perf_run *run);
int perf_json_close(void);
void perf_progress(const struct perf_run *run, unsigned percent);
void perf_progress_end(void);

/* The picture, on rank 0: find gnuplot and the file before the run, keep results, draw. Without
 * --plot nothing happens. 0, or -1 after saying why. */
int perf_plot_open(const struct perf_opts *opts);
void perf_plot_test(const struct perf_run *run);
int perf_plot_close(const struct ops_job *job);

#endif
