/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data of oriel-perf --verify: each byte tells who sent it, in which round, and where it belongs,
 * so that a byte that is missing, late, misplaced or of somebody else shows. Destinations begin as
 * the complement of what must come: no byte is right by chance. The first wrong byte of a
 * comparison is printed, for the first comparisons of a size; all are counted.
 */
#include "perf.h"

#include <stdio.h>
#include <string.h>

#define GUARD_BYTE 0xa5

enum {
    WORD = 8,
    TOLD_MAX = 3 /* lines of one rank about one size */
};

uint64_t perf_word(int origin, uint64_t round, size_t index)
{
    uint64_t x = ((uint64_t)index + 1) * UINT64_C(0x9e3779b97f4a7c15);

    x ^= (round + 1) * UINT64_C(0xd1b54a32d192ed03);
    x ^= ((uint64_t)origin + 1) * UINT64_C(0xaef17502108ef2d9);
    x ^= x >> 31;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ (x >> 29);
}

/* Words xor-ed with invert, the last one cut. */
static void fill(unsigned char *data, size_t n, int origin, uint64_t round, uint64_t invert)
{
    size_t at = 0;

    for (; at + WORD <= n; at += WORD) {
        uint64_t word = perf_word(origin, round, at / WORD) ^ invert;

        memcpy(data + at, &word, WORD);
    }
    if (at < n) {
        uint64_t word = perf_word(origin, round, at / WORD) ^ invert;

        memcpy(data + at, &word, n - at);
    }
}

void perf_fill(unsigned char *data, size_t n, int origin, uint64_t round)
{
    fill(data, n, origin, round, 0);
}

void perf_spoil(unsigned char *data, size_t n, int origin, uint64_t round)
{
    fill(data, n, origin, round, UINT64_MAX);
}

void perf_guard(unsigned char *data, size_t n, size_t before)
{
    memset(data - before, GUARD_BYTE, before);
    memset(data + n, GUARD_BYTE, PERF_GUARD);
}

/* Count a wrong place; whether to print it. */
static bool is_told(struct perf_run *run)
{
    return run->sizes[run->at].wrong++ < TOLD_MAX;
}

static void tell(struct perf_run *run, int64_t offset, unsigned expected, unsigned found,
                 const char *seen)
{
    if (!is_told(run)) {
        return;
    }
    fflush(stdout);
    fprintf(stderr,
            "%s: rank %d: %s, %zu bytes: wrong at offset %lld: expected 0x%02x, found "
            "0x%02x (%s)\n",
            ops_program, run->job.rank, run->test->name, run->sizes[run->at].bytes,
            (long long)offset, expected, found, seen);
}

/* The first byte of n <= WORD that differs; n when none does. */
static size_t first_wrong(const unsigned char *data, const unsigned char *expected, size_t n)
{
    size_t i = 0;

    while (i < n && data[i] == expected[i]) {
        i++;
    }
    return i;
}

/* Compare one word, or its first n bytes, that lies `at` bytes into the data. */
static bool check_word(struct perf_run *run, const unsigned char *data, size_t at, size_t n,
                       uint64_t word, const char *seen)
{
    unsigned char expected[WORD];
    size_t i;

    memcpy(expected, &word, WORD);
    i = first_wrong(data + at, expected, n);
    if (i < n) {
        tell(run, (int64_t)at + (int64_t)i, expected[i], data[at + i], seen);
    }
    return i == n;
}

void perf_check_data(struct perf_run *run, const unsigned char *data, size_t n, int origin,
                     const char *seen)
{
    size_t at = 0;

    for (; at + WORD <= n; at += WORD) {
        uint64_t word = perf_word(origin, run->round, at / WORD);
        uint64_t found;

        memcpy(&found, data + at, WORD);
        if (found != word) {
            (void)check_word(run, data, at, WORD, word, seen);
            return;
        }
    }
    if (at < n) {
        (void)check_word(run, data, at, n - at, perf_word(origin, run->round, at / WORD), seen);
    }
}

void perf_check_words(struct perf_run *run, const unsigned char *data, const uint64_t *expected,
                      size_t n, const char *seen)
{
    for (size_t i = 0; i < n; i++) {
        if (!check_word(run, data, i * WORD, WORD, expected[i], seen)) {
            return;
        }
    }
}

void perf_check_guard(struct perf_run *run, const unsigned char *data, size_t n, size_t before,
                      const char *seen)
{
    for (size_t i = 1; i <= before; i++) {
        if (*(data - i) != GUARD_BYTE) {
            tell(run, -(int64_t)i, GUARD_BYTE, *(data - i), seen);
            return;
        }
    }
    for (size_t i = 0; i < PERF_GUARD; i++) {
        if (data[n + i] != GUARD_BYTE) {
            tell(run, (int64_t)n + (int64_t)i, GUARD_BYTE, data[n + i], seen);
            return;
        }
    }
}

void perf_check_number(struct perf_run *run, uint64_t expected, uint64_t found, const char *seen)
{
    if (expected == found || !is_told(run)) {
        return;
    }
    fflush(stdout);
    fprintf(stderr,
            "%s: rank %d: %s, %zu bytes: wrong at offset 0: expected %llu, found %llu "
            "(%s)\n",
            ops_program, run->job.rank, run->test->name, run->sizes[run->at].bytes,
            (unsigned long long)expected, (unsigned long long)found, seen);
}
