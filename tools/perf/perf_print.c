/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What oriel-perf says of a test: a table in the layout of the OSU benchmarks, with the main figure
 * in the second column so that scripts made for those read it; the same as lines of JSON; and, on a
 * terminal, how far it has come. Only rank 0 prints.
 */
#include "perf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static FILE *json;
static bool progress_shown;

static const char *verdict(const struct perf_run *run, const struct perf_size *size)
{
    if (!run->opts->verify) {
        return "";
    }
    return size->wrong == 0 ? "       yes" : "        NO";
}

static void print_pairs(const struct perf_run *run)
{
    if (run->test->everybody) {
        return;
    }
    if (run->job.size == 1) {
        printf("# one rank alone: it is its own target\n");
        return;
    }
    if (run->pairs == 1) {
        printf("# rank 0 to rank 1\n");
        return;
    }
    printf("# %d pairs at once, rank i to rank i + %d%s\n", run->pairs, run->job.size / 2,
           run->job.size % 2 == 1 ? "; the last rank waits" : "");
}

static void print_memory(const struct perf_run *run)
{
    if (run->test->everybody || (!run->opts->is_private && run->opts->offset == 0)) {
        return;
    }
    printf("# memory: %s, destination offset %zu\n",
           run->opts->is_private ? "private (of malloc)" : "of the library", run->opts->offset);
}

static void print_checks(const struct perf_run *run)
{
    if (!run->opts->verify) {
        return;
    }
    if (run->test->everybody) {
        printf("# verified by every rank\n");
    } else {
        printf("# verified by the target's CPU and a get of %s\n",
               run->job.size > 2 ? "a third rank" : "the origin");
    }
}

void perf_print_head(const struct perf_run *run)
{
    static const char *const columns[][5] = {
        { "Median(us)", "Min(us)", "Avg(us)", "P99(us)", NULL },
        { "Median(MB/s)", "Min(MB/s)", "Avg(MB/s)", "Max(MB/s)", "Messages/s" },
        { "Median(msg/s)", "Min(msg/s)", "Avg(msg/s)", "Max(msg/s)", "MB/s" },
    };
    const char *const *column = columns[run->test->unit];

    printf("\n# %s %s test\n", ops_interface, run->test->title);
    printf("# %d rank%s on %d host%s, %ld CPUs here; %s %s\n", run->job.size,
           run->job.size > 1 ? "s" : "", run->job.hosts, run->job.hosts > 1 ? "s" : "",
           sysconf(_SC_NPROCESSORS_ONLN), ops_interface, ops_version());
    print_pairs(run);
    print_memory(run);
    print_checks(run);
    if (run->nsizes == 0) {
        printf("# no size of this test lies in the range of -m\n");
    }
    printf("%-10s", "# Size");
    for (size_t i = 0; i < 5 && column[i] != NULL; i++) {
        printf(" %15s", column[i]);
    }
    printf("%s\n", run->opts->verify ? "  Verified" : "");
    fflush(stdout);
}

void perf_print_rows(const struct perf_run *run)
{
    for (size_t i = 0; i < run->nsizes; i++) {
        const struct perf_size *size = &run->sizes[i];
        struct perf_figures is = perf_figures_of(size);

        printf("%-10zu", size->bytes);
        switch (run->test->unit) {
        case PERF_BANDWIDTH:
            printf(" %15.2f %15.2f %15.2f %15.2f %15.0f", is.median, is.min, is.avg, is.max,
                   is.median * 1e6 / (double)size->bytes);
            break;
        case PERF_RATE:
            printf(" %15.0f %15.0f %15.0f %15.0f %15.2f", is.median, is.min, is.avg, is.max,
                   is.median * (double)size->bytes / 1e6);
            break;
        case PERF_LATENCY:
        default:
            printf(" %15.4f %15.4f %15.4f %15.4f", is.median, is.min, is.avg, is.p99);
            break;
        }
        printf("%s\n", verdict(run, size));
    }
    fflush(stdout);
}

/* ---------------------------------------------------------------- JSON */

int perf_json_open(const struct perf_opts *opts)
{
    if (opts->json == NULL) {
        return 0;
    }
    json = fopen(opts->json, "w");
    if (json == NULL) {
        fprintf(stderr, "%s: --json: cannot write %s: %s\n", ops_program, opts->json,
                strerror(errno));
        return -1;
    }
    return 0;
}

void perf_json_test(const struct perf_run *run)
{
    int peer = run->test->everybody ? run->job.size - 1 : run->target;

    for (size_t i = 0; json != NULL && i < run->nsizes; i++) {
        struct perf_figures is = perf_figures_of(&run->sizes[i]);

        fprintf(json,
                "{\"test\":\"%s\",\"size\":%zu,\"ranks\":%d,\"hosts\":%d,\"transport\":\"%s\","
                "\"unit\":\"%s\",\"min\":%.6f,\"median\":%.6f,\"avg\":%.6f,\"p99\":%.6f,"
                "\"max\":%.6f,\"iterations\":%llu}\n",
                run->test->name, run->sizes[i].bytes, run->job.size, run->job.hosts,
                ops_transport(peer), perf_unit_name(run->test->unit), is.min, is.median, is.avg,
                is.p99, is.max, (unsigned long long)run->sizes[i].iterations);
    }
}

int perf_json_close(void)
{
    int is_bad;

    if (json == NULL) {
        return 0;
    }
    is_bad = ferror(json);
    if (fclose(json) != 0 || is_bad) {
        fprintf(stderr, "%s: --json: cannot write the file: %s\n", ops_program, strerror(errno));
        return -1;
    }
    return 0;
}

/* ---------------------------------------------------------------- progress */

void perf_progress(const struct perf_run *run, unsigned percent)
{
    size_t bytes = run->sizes[run->at].bytes;
    const char *unit = "B";

    if (isatty(STDERR_FILENO) != 1) {
        return;
    }
    if (bytes >= 1048576) {
        bytes >>= 20;
        unit = "MiB";
    } else if (bytes >= 1024) {
        bytes >>= 10;
        unit = "KiB";
    }
    fprintf(stderr, "\r\033[K%s %zu %s %u %%", run->test->name, bytes, unit, percent);
    fflush(stderr);
    progress_shown = true;
}

void perf_progress_end(void)
{
    if (progress_shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        progress_shown = false;
    }
}
