/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel-perf: latency and bandwidth of Oriel's operations, and with --verify a proof of every byte.
 * This file is the program's course: read the options, join the job, run each test, tell how it
 * ended. The tests are in perf_point.c and perf_coll.c, the measuring in perf_run.c.
 */
#include "perf.h"

#include <stdio.h>
#include <string.h>

const struct perf_test *perf_test_at(size_t i)
{
    const struct perf_test *test = perf_tests_point;

    for (; test->name != NULL; test++, i--) {
        if (i == 0) {
            return test;
        }
    }
    for (test = perf_tests_coll; test->name != NULL; test++, i--) {
        if (i == 0) {
            return test;
        }
    }
    return NULL;
}

/* Run one test and print it; how many checks of all ranks failed. */
static uint64_t run_one(const struct perf_opts *opts, const struct perf_test *test)
{
    static struct perf_run run; /* too large for a stack frame of ours */
    uint64_t wrong = 0;

    memset(&run, 0, sizeof(run));
    run.opts = opts;
    run.test = test;
    run.rank = oriel_rank();
    run.size = oriel_size();
    run.target = run.size > 1 ? 1 : 0;
    run.third = run.size > 2 ? 2 : 0;
    perf_run_sizes(&run);
    if (run.rank == 0) {
        perf_print_head(&run);
    }
    if (run.nsizes > 0) {
        perf_run_test(&run);
    }
    for (size_t i = 0; i < run.nsizes; i++) {
        wrong += run.wrong[i];
    }
    if (run.rank == 0) {
        perf_print_rows(&run);
        perf_json_test(&run);
    }
    return wrong;
}

static int run_all(const struct perf_opts *opts)
{
    uint64_t wrong = 0;

    for (size_t i = 0; i < opts->ntests; i++) {
        wrong += run_one(opts, opts->tests[i]);
    }
    if (wrong > 0 && oriel_rank() == 0) {
        fflush(stdout);
        fprintf(stderr, "oriel-perf: %llu checks failed\n", (unsigned long long)wrong);
    }
    return wrong > 0 ? PERF_FAILED : 0;
}

int main(int argc, char **argv)
{
    struct oriel_init_opts init = ORIEL_INIT_OPTS_INIT;
    struct perf_opts opts;
    int status = perf_opts_read(argc, argv, &opts);
    int json = 0;

    if (status != 0) {
        return status < 0 ? 0 : status;
    }
    init.flags = ORIEL_INIT_ONE_THREAD;
    if (oriel_init(&init) != ORIEL_OK) {
        fprintf(stderr, "oriel-perf: cannot start: %s\n", oriel_error_detail());
        return PERF_FAILED;
    }
    if (oriel_rank() == 0) {
        json = perf_json_open(&opts, oriel_size());
    }
    perf_must(oriel_bcast(&json, sizeof(json), ORIEL_BYTE, 0, ORIEL_WORLD), "bcast");
    status = json != 0 ? PERF_FAILED : run_all(&opts);
    if (oriel_rank() == 0 && perf_json_close() != 0) {
        status = PERF_FAILED;
    }
    if (oriel_finalize() != ORIEL_OK) {
        fprintf(stderr, "oriel-perf: cannot end well: %s\n", oriel_error_detail());
        status = PERF_FAILED;
    }
    return status;
}
