/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What oriel-perf says of a test: a table in the layout of the OSU benchmarks, so that scripts made
 * for those read it, and the same as JSON. Only rank 0 prints. A latency is the time of one
 * iteration; a bandwidth counts all bytes of a window over the time until they were flushed.
 */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_US 1e3

static FILE *json;
static bool json_has_tests;

/* Microseconds or MB/s of one batch. */
static double figure(const struct perf_run *run, size_t at, uint64_t ns)
{
    double each = (double)ns / (double)run->iterations[at];

    if (run->test->unit == PERF_LATENCY) {
        return each / NS_PER_US;
    }
    return (double)run->sizes[at] * (double)perf_window(run->opts, run->sizes[at]) / each *
           NS_PER_US;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void figures(const struct perf_run *run, size_t at, double *median, double *best)
{
    uint64_t ns[PERF_BATCHES];

    memcpy(ns, run->ns[at], sizeof(ns));
    qsort(ns, PERF_BATCHES, sizeof(ns[0]), compare);
    *median = figure(run, at, ns[PERF_BATCHES / 2]);
    *best = figure(run, at, ns[0]);
}

static const char *verdict(const struct perf_run *run, size_t at)
{
    if (!run->opts->verify) {
        return "-";
    }
    return run->wrong[at] == 0 ? "yes" : "NO";
}

static void print_who(const struct perf_run *run)
{
    printf("# %d rank%s on %ld CPUs of this host, oriel %s", run->size, run->size > 1 ? "s" : "",
           sysconf(_SC_NPROCESSORS_ONLN), oriel_version(NULL, NULL, NULL));
    if (run->test->everybody) {
        printf("\n");
    } else if (run->size == 1) {
        printf("; one rank alone: it is its own target\n");
    } else {
        printf("; rank 0 to rank 1\n");
    }
    if (!run->test->everybody) {
        printf("# memory: %s, destination offset %zu\n",
               run->opts->is_private ? "private (registered)" : "alloc", run->opts->offset);
    }
}

static void print_checks(const struct perf_run *run)
{
    if (!run->opts->verify) {
        return;
    }
    if (run->test->everybody) {
        printf("# verified by every rank\n");
    } else if (run->third == 0) {
        printf(
            "# verified by the target's CPU and, with fewer than 3 ranks, a get of the origin\n");
    } else {
        printf("# verified by the target's CPU and a get of rank %d\n", run->third);
    }
}

void perf_print_head(const struct perf_run *run)
{
    printf("\n# Oriel %s test\n", run->test->title);
    print_who(run);
    print_checks(run);
    if (run->nsizes == 0) {
        printf("# no size of this test lies in the range of -m\n");
    }
    printf("%-10s %18s %18s%s\n", "# Size",
           run->test->unit == PERF_LATENCY ? "Latency(us)" : "Bandwidth(MB/s)",
           run->test->unit == PERF_LATENCY ? "Best(us)" : "Best(MB/s)",
           run->opts->verify ? "   Verified" : "");
    fflush(stdout);
}

void perf_print_rows(const struct perf_run *run)
{
    int digits = run->test->unit == PERF_LATENCY ? 3 : 2;

    for (size_t i = 0; i < run->nsizes; i++) {
        double median = 0;
        double best = 0;

        figures(run, i, &median, &best);
        printf("%-10zu %18.*f %18.*f", run->sizes[i], digits, median, digits, best);
        if (run->opts->verify) {
            printf("   %8s", verdict(run, i));
        }
        printf("\n");
    }
    fflush(stdout);
}

/* ---------------------------------------------------------------- JSON */

int perf_json_open(const struct perf_opts *opts, int size)
{
    if (opts->json == NULL) {
        return 0;
    }
    json = fopen(opts->json, "w");
    if (json == NULL) {
        fprintf(stderr, "oriel-perf: cannot write %s: ", opts->json);
        perror(NULL);
        return -1;
    }
    fprintf(json,
            "{\n  \"oriel\": \"%s\",\n  \"ranks\": %d,\n  \"cpus\": %ld,\n  \"memory\": \"%s\",\n"
            "  \"offset\": %zu,\n  \"batches\": %d,\n  \"tests\": [",
            oriel_version(NULL, NULL, NULL), size, sysconf(_SC_NPROCESSORS_ONLN),
            opts->is_private ? "private" : "alloc", opts->offset, PERF_BATCHES);
    json_has_tests = false;
    return 0;
}

void perf_json_test(const struct perf_run *run)
{
    if (json == NULL) {
        return;
    }
    fprintf(json, "%s\n    { \"name\": \"%s\", \"unit\": \"%s\", \"rows\": [",
            json_has_tests ? "," : "", run->test->name,
            run->test->unit == PERF_LATENCY ? "us" : "MB/s");
    for (size_t i = 0; i < run->nsizes; i++) {
        double median = 0;
        double best = 0;

        figures(run, i, &median, &best);
        fprintf(json,
                "%s\n      { \"size\": %zu, \"median\": %.4f, \"best\": %.4f, \"iterations\": "
                "%llu, \"verified\": %s }",
                i > 0 ? "," : "", run->sizes[i], median, best,
                (unsigned long long)run->iterations[i],
                run->opts->verify ? (run->wrong[i] == 0 ? "true" : "false") : "null");
    }
    fprintf(json, "\n    ] }");
    json_has_tests = true;
}

int perf_json_close(void)
{
    int is_bad;

    if (json == NULL) {
        return 0;
    }
    fprintf(json, "\n  ]\n}\n");
    is_bad = ferror(json);
    if (fclose(json) != 0 || is_bad) {
        perror("oriel-perf: cannot write the JSON file");
        return -1;
    }
    return 0;
}
