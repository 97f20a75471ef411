/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Samples of oriel-perf made figures. Latencies of all origins are one heap; bandwidths and rates
 * of pairs that ran at once are added up, sample by sample, as far as every origin has samples. A
 * collective's samples are the same on all ranks already.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

static double value_of(const struct perf_run *run, const struct perf_size *size, uint64_t ps)
{
    double count = (double)perf_window(run, size->bytes);
    double us = (double)(ps > 0 ? ps : 1) / 1e6;

    switch (run->test->unit) {
    case PERF_BANDWIDTH:
        return count * (double)size->bytes / us;
    case PERF_RATE:
        return count * 1e6 / us;
    case PERF_LATENCY:
    default:
        return us;
    }
}

static void add_samples(const struct perf_run *run, struct perf_size *size, const uint64_t *ps,
                        uint64_t n)
{
    if (run->test->unit == PERF_LATENCY) {
        for (uint64_t i = 0; i < n; i++) {
            size->values[size->count++] = value_of(run, size, ps[i]);
        }
        return;
    }
    size->count = size->count == 0 || n < size->count ? n : size->count;
    for (uint64_t i = 0; i < size->count; i++) {
        size->values[i] += value_of(run, size, ps[i]);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* All that one origin measured: for each size the number of samples, of iterations, the samples. */
static size_t packed_count(const struct perf_run *run)
{
    size_t n = 0;

    for (size_t i = 0; i < run->nsizes; i++) {
        n += 2 + run->sizes[i].planned;
    }
    return n;
}

static void pack(const struct perf_run *run, uint64_t *to)
{
    for (size_t i = 0; i < run->nsizes; i++) {
        const struct perf_size *size = &run->sizes[i];

        *to++ = size->taken;
        *to++ = size->iterations;
        memcpy(to, size->ps, size->planned * sizeof(*to));
        to += size->planned;
    }
}

static void unpack(struct perf_run *run, const uint64_t *from)
{
    for (size_t i = 0; i < run->nsizes; i++) {
        struct perf_size *size = &run->sizes[i];

        size->iterations = from[1] < size->iterations ? from[1] : size->iterations;
        add_samples(run, size, from + 2, from[0]);
        from += 2 + size->planned;
    }
}

void perf_collect(struct perf_run *run)
{
    int sources = run->test->everybody ? 1 : run->pairs;
    size_t n = packed_count(run);
    uint64_t *packed = perf_alloc(n * sizeof(*packed));

    for (size_t i = 0; i < run->nsizes; i++) {
        struct perf_size *size = &run->sizes[i];
        size_t bytes = (size_t)sources * size->planned * sizeof(*size->values);

        size->values = perf_alloc(bytes);
        memset(size->values, 0, bytes);
    }
    for (int i = 0; i < sources; i++) {
        int origin = run->test->everybody ? 0 : perf_origin_of(run, i);

        if (run->job.rank == origin) {
            pack(run, packed);
        }
        if (sources > 1) {
            ops_share(packed, n * sizeof(*packed), origin);
        }
        if (run->job.rank == 0) {
            unpack(run, packed);
        }
    }
    for (size_t i = 0; i < run->nsizes && run->job.rank == 0; i++) {
        struct perf_size *size = &run->sizes[i];

        qsort(size->values, size->count, sizeof(*size->values), compare);
    }
    free(packed);
}

void perf_free_samples(struct perf_run *run)
{
    for (size_t i = 0; i < run->nsizes; i++) {
        free(run->sizes[i].ps);
        free(run->sizes[i].values);
        run->sizes[i].ps = NULL;
        run->sizes[i].values = NULL;
    }
}

struct perf_figures perf_figures_of(const struct perf_size *size)
{
    struct perf_figures figures = { 0 };
    size_t n = size->count;
    double sum = 0;

    if (n == 0) {
        return figures;
    }
    for (size_t i = 0; i < n; i++) {
        sum += size->values[i];
    }
    figures.min = size->values[0];
    figures.median =
        n % 2 == 1 ? size->values[n / 2] : (size->values[n / 2 - 1] + size->values[n / 2]) / 2;
    figures.avg = sum / (double)n;
    figures.p99 = size->values[(n * 99 + 99) / 100 - 1];
    figures.max = size->values[n - 1];
    return figures;
}

const char *perf_unit_name(enum perf_unit unit)
{
    static const char *const names[] = { "us", "MB/s", "msg/s" };

    return names[unit];
}
