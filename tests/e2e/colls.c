/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program that test_hosts_coll.sh starts across hosts: uses oriel.h alone.
 *
 * - colls right: barrier, bcast and allreduce of many sizes, all verified; prints the bits of a sum
 *   that depends on the order of its operands
 * - colls die CALL: the last rank kills itself while the others are in "barrier", "bcast" or
 *   "allreduce"; every other must hear whom to blame, and says so
 * - colls after CALL: the same as soon as the call has returned
 * - colls time: time of each at some sizes
 * - colls skew: rank 0 leaves at once, the last one a second later
 */
#include "exchange.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST ((size_t)2500000)

static unsigned char data[MOST + 1];
static unsigned char copy[MOST + 1];
static const size_t sizes[] = { 1, 8, 56, 57, 4064, 4065, 20000, 65536, 262144, 262145, MOST };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static unsigned char byte_of(int rank, size_t i)
{
    return (unsigned char)(i * 7 + i / 251 + (size_t)rank * 13);
}

static uint64_t wrong_bcast(size_t bytes, int root)
{
    uint64_t wrong = 0;

    memset(data, 0, bytes);
    for (size_t i = 0; oriel_rank() == root && i < bytes; i++) {
        data[i] = byte_of(root, i);
    }
    check(oriel_bcast(data, bytes, ORIEL_BYTE, root, ORIEL_WORLD), "bcast");
    for (size_t i = 0; i < bytes; i++) {
        wrong += data[i] != byte_of(root, i);
    }
    return wrong;
}

static uint64_t wrong_allreduce(size_t bytes)
{
    unsigned n = (unsigned)oriel_size();
    uint64_t wrong = 0;

    for (size_t i = 0; i < bytes; i++) {
        data[i] = byte_of(oriel_rank(), i);
    }
    check(oriel_allreduce(data, copy, bytes, ORIEL_UINT8, ORIEL_SUM, ORIEL_WORLD), "allreduce");
    for (size_t i = 0; i < bytes; i++) {
        wrong += copy[i] != (unsigned char)(n * byte_of(0, i) + 13 * (n * (n - 1) / 2));
    }
    return wrong;
}

/* The same bits everywhere, at every size. */
static uint64_t wrong_order(void)
{
    static const double part[] = { 1e16, 1.0, -1e16, 3.0, 1e-3, 7.0, 1e8, -2.0, 0.1 };
    double *x = (void *)copy;
    double first = 0;
    uint64_t wrong = 0;

    for (size_t s = 1; s < SIZES; s++) {
        size_t count = sizes[s] / sizeof(double);
        for (size_t i = 0; i < count; i++) {
            x[i] = part[oriel_rank() % 9];
        }
        check(oriel_allreduce(ORIEL_IN_PLACE, x, count, ORIEL_DOUBLE, ORIEL_SUM, ORIEL_WORLD),
              "allreduce");
        double theirs = x[0];
        check(oriel_bcast(&theirs, 1, ORIEL_DOUBLE, oriel_size() - 1, ORIEL_WORLD), "bcast");
        for (size_t i = 0; i < count; i++) {
            wrong += memcmp(&x[i], &theirs, sizeof(theirs)) != 0;
        }
        first = s == 1 ? theirs : first;
    }
    if (oriel_rank() == 0) {
        printf("sum %a\n", first);
    }
    return wrong;
}

static int right(void)
{
    uint64_t wrong = 0;

    for (size_t s = 0; s < SIZES; s++) {
        for (int root = 0; root < oriel_size(); root++) {
            wrong += wrong_bcast(sizes[s], root);
        }
        wrong += wrong_allreduce(sizes[s]);
        check(oriel_barrier(ORIEL_WORLD), "barrier");
    }
    wrong += wrong_order();
    check(oriel_allreduce(ORIEL_IN_PLACE, &wrong, 1, ORIEL_UINT64, ORIEL_SUM, ORIEL_WORLD), "sum");
    if (oriel_rank() == 0) {
        printf("%d ranks, %llu wrong\n", oriel_size(), (unsigned long long)wrong);
    }
    return wrong != 0;
}

static int call(const char *what, size_t bytes)
{
    if (strcmp(what, "barrier") == 0) {
        return oriel_barrier(ORIEL_WORLD);
    }
    if (strcmp(what, "bcast") == 0) {
        return oriel_bcast(data, bytes, ORIEL_BYTE, oriel_size() - 1, ORIEL_WORLD);
    }
    return oriel_allreduce(ORIEL_IN_PLACE, data, bytes, ORIEL_UINT8, ORIEL_MAX, ORIEL_WORLD);
}

static int told_of_death(int status)
{
    printf("rank %d: %s: %s\n", oriel_rank(), oriel_error_name(status), oriel_error_detail());
    fflush(stdout);
    return status != ORIEL_ERR_PEER;
}

static int die(const char *what)
{
    check(call(what, 100000), what);
    sleep(1);
    if (oriel_rank() == oriel_size() - 1) {
        raise(SIGKILL);
    }
    return told_of_death(call(what, 100000));
}

/* What the last rank has sent may end with it: the others complete the call or hear of the death,
 * and hear of it in the next one at last. */
static int die_after(const char *what)
{
    check(call(what, 100000), what);
    int status = call(what, 100000);
    if (oriel_rank() == oriel_size() - 1) {
        raise(SIGKILL);
    }
    return told_of_death(status == ORIEL_OK ? oriel_barrier(ORIEL_WORLD) : status);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void time_call(const char *what, size_t bytes, int rounds)
{
    double least = 1e9;

    for (int group = 0; group < 5; group++) {
        check(oriel_barrier(ORIEL_WORLD), "barrier");
        double begin = now();
        for (int i = 0; i < rounds; i++) {
            check(call(what, bytes), what);
        }
        double each = (now() - begin) / rounds * 1e6;
        least = each < least ? each : least;
    }
    if (oriel_rank() == 0) {
        printf("%-10s %8zu bytes %10.1f us\n", what, bytes, least);
    }
}

static int times(void)
{
    time_call("barrier", 0, 200);
    for (size_t bytes = 8; bytes < MOST; bytes *= 8) {
        time_call("bcast", bytes, bytes < 100000 ? 200 : 10);
        time_call("allreduce", bytes, bytes < 100000 ? 200 : 10);
    }
    return 0;
}

static int skew(void)
{
    uint64_t word = oriel_rank() == 0 ? 42 : 0;

    sleep(oriel_rank() == oriel_size() - 1 ? 1 : 0);
    check(oriel_bcast(&word, 1, ORIEL_UINT64, 0, ORIEL_WORLD), "bcast");
    return word != 42;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int failed = 2;

    check(oriel_init(NULL), "init");
    if (strcmp(what, "right") == 0) {
        failed = right();
    } else if (strcmp(what, "die") == 0 && argc > 2) {
        failed = die(argv[2]);
    } else if (strcmp(what, "after") == 0 && argc > 2) {
        failed = die_after(argv[2]);
    } else if (strcmp(what, "time") == 0) {
        failed = times();
    } else if (strcmp(what, "skew") == 0) {
        failed = skew();
    }
    int status = oriel_finalize();
    return failed != 0 ? failed : status != 0;
}
