/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel-perf: latency, bandwidth and rate of a library's operations, and with --verify a proof of
 * every byte. This file is the program's course: read the options, join the job, run each test,
 * tell how it ended. The tests are in perf_point.c and perf_coll.c, the measuring in perf_run.c.
 */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>
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

int perf_origin_of(const struct perf_run *run, int pair)
{
    (void)run;
    return pair;
}

int perf_target_of(const struct perf_run *run, int pair)
{
    return run->job.size > 1 ? pair + run->job.size / 2 : pair;
}

/* Who looks at a pair's target memory: the next pair's origin, else a rank of no pair, else, with
 * two ranks, the origin itself. */
static int watcher_of(const struct perf_run *run, int pair)
{
    if (run->pairs > 1) {
        return perf_origin_of(run, (pair + 1) % run->pairs);
    }
    return run->job.size > 2 ? run->job.size - 1 : perf_origin_of(run, pair);
}

static void find_roles(struct perf_run *run)
{
    run->pairs = run->job.size > 1 ? run->job.size / 2 : 1;
    run->origin = -1;
    run->target = -1;
    run->seen_target = -1;
    run->seen_origin = -1;
    for (int pair = 0; pair < run->pairs; pair++) {
        int origin = perf_origin_of(run, pair);
        int target = perf_target_of(run, pair);

        if (run->job.rank == origin) {
            run->target = target;
        }
        if (run->job.rank == target) {
            run->origin = origin;
        }
        if (run->job.rank == watcher_of(run, pair)) {
            run->seen_origin = origin;
            run->seen_target = target;
        }
    }
}

/* Run one test and print it; how many checks of all ranks failed. */
static uint64_t run_one(const struct perf_opts *opts, const struct ops_job *job,
                        const struct perf_test *test)
{
    static struct perf_run run; /* too large for a stack frame of ours */
    uint64_t wrong = 0;

    memset(&run, 0, sizeof(run));
    run.opts = opts;
    run.test = test;
    run.job = *job;
    find_roles(&run);
    perf_run_sizes(&run);
    if (job->rank == 0) {
        perf_print_head(&run);
    }
    if (run.nsizes > 0) {
        perf_run_test(&run);
    }
    for (size_t i = 0; i < run.nsizes; i++) {
        wrong += run.sizes[i].wrong;
    }
    if (job->rank == 0) {
        perf_print_rows(&run);
        perf_json_test(&run);
        perf_plot_test(&run);
    }
    perf_free_samples(&run);
    return wrong;
}

static int run_all(const struct perf_opts *opts, const struct ops_job *job)
{
    uint64_t wrong = 0;

    for (size_t i = 0; i < opts->ntests; i++) {
        wrong += run_one(opts, job, opts->tests[i]);
    }
    if (wrong > 0 && job->rank == 0) {
        fflush(stdout);
        fprintf(stderr, "%s: %llu checks failed\n", ops_program, (unsigned long long)wrong);
    }
    return wrong > 0 ? PERF_FAILED : 0;
}

int main(int argc, char **argv)
{
    struct perf_opts opts;
    struct ops_job job;
    int status = perf_opts_read(argc, argv, &opts);
    uint64_t is_bad = 0;

    if (status != 0) {
        return status < 0 ? 0 : status;
    }
    if (!ops_open(&job)) {
        return PERF_FAILED;
    }
    if (job.rank == 0) {
        is_bad = perf_json_open(&opts) != 0 || perf_plot_open(&opts) != 0;
    }
    ops_largest(&is_bad, 1);
    status = is_bad ? PERF_FAILED : run_all(&opts, &job);
    if (job.rank == 0 && perf_json_close() != 0) {
        status = PERF_FAILED;
    }
    if (!ops_close()) {
        status = PERF_FAILED;
    }
    /* After the end of the job, so that the others need not wait for the drawing. */
    if (job.rank == 0 && !is_bad && perf_plot_close(&job) != 0) {
        status = PERF_FAILED;
    }
    return status;
}
