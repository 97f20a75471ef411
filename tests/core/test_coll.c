/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barrier, bcast and allreduce on world: all sizes around the line and the stage, both forms (flat
 * and grouped), all types and operators against a scalar model, roots that run ahead, bad
 * arguments.
 */
#include <criterion/criterion.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "oriel.h"
#include "tests/t.h"

static const uint64_t sizes[] = { 0,  1,    7,     8,     9,     55,    56,    57,
                                  64, 4095, 16383, 16384, 16385, 32768, 32769, 100000 };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static int barriers(int rank, void *arg)
{
    _Atomic uint64_t *here = t_shared;
    (void)arg;
    int n = oriel_size();
    for (uint64_t i = 1; i <= 300; i++) {
        atomic_store(&here[rank * 8], i);
        t_check_ok(oriel_barrier(ORIEL_WORLD));
        for (int r = 0; r < n; r++) {
            uint64_t seen = atomic_load(&here[r * 8]);
            t_check(seen == i || seen == i + 1);
        }
    }
    return 0;
}

Test(coll, barrier_holds_everybody, .timeout = 60)
{
    for (int n = 1; n <= 9; n++) {
        cr_assert_eq(t_job(n, barriers, NULL), 0, "%d ranks", n);
    }
}

static int bcasts(int rank, void *arg)
{
    (void)arg;
    int n = oriel_size();
    unsigned char *data = malloc(sizes[SIZES - 1] + 1);
    t_check(data != NULL);
    for (size_t s = 0; s < SIZES; s++) {
        for (int root = 0; root < n; root++) {
            memset(data, 0, sizes[s] + 1);
            if (rank == root) {
                t_fill(data, sizes[s], (uint64_t)root, s, 0);
            }
            t_check_ok(oriel_bcast(data, sizes[s], ORIEL_BYTE, root, ORIEL_WORLD));
            t_check_eq(t_differs(data, sizes[s], (uint64_t)root, s, 0), sizes[s]);
            t_check_eq(data[sizes[s]], 0);
        }
    }
    /* one root runs ahead of slow readers by as many slots as there are */
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t word = rank == 0 ? i : 0;
        if (rank == n - 1 && i % 50 == 0) {
            t_sleep_ms(1);
        }
        t_check_ok(oriel_bcast(&word, 1, ORIEL_UINT64, 0, ORIEL_WORLD));
        t_check_eq(word, i);
    }
    free(data);
    return 0;
}

Test(coll, bcast_every_size_and_root, .timeout = 60)
{
    for (int n = 1; n <= 5; n++) {
        cr_assert_eq(t_job(n, bcasts, NULL), 0, "%d ranks", n);
    }
    cr_assert_eq(t_job(9, bcasts, NULL), 0);
}

static int sums(int rank, void *arg)
{
    (void)arg;
    int n = oriel_size();
    for (size_t s = 0; s < SIZES; s++) {
        uint64_t count = sizes[s] / 8;
        double *in = malloc(count * 8 + 8);
        double *out = malloc(count * 8 + 8);
        for (uint64_t i = 0; i < count; i++) {
            in[i] = (double)(rank + 1) * 1e-3 + (double)i;
        }
        out[count] = 42;
        t_check_ok(oriel_allreduce(in, out, count, ORIEL_DOUBLE, ORIEL_SUM, ORIEL_WORLD));
        for (uint64_t i = 0; i < count; i++) {
            double want = 1e-3 + (double)i;
            for (int r = 1; r < n && n <= 8; r++) {
                want += (double)(r + 1) * 1e-3 + (double)i;
            }
            t_check(n > 8 || out[i] == want); /* rank order, bit by bit */
        }
        t_check(out[count] == 42);
        t_check_ok(
            oriel_allreduce(ORIEL_IN_PLACE, in, count, ORIEL_DOUBLE, ORIEL_SUM, ORIEL_WORLD));
        t_check(memcmp(in, out, count * 8) == 0);
        /* the same bits on every rank */
        memcpy(in, out, count * 8);
        t_check_ok(oriel_bcast(in, count, ORIEL_DOUBLE, n - 1, ORIEL_WORLD));
        t_check(memcmp(in, out, count * 8) == 0);
        free(in);
        free(out);
    }
    return 0;
}

Test(coll, allreduce_sizes_in_place_same_bits, .timeout = 60)
{
    for (int n = 1; n <= 5; n++) {
        cr_assert_eq(t_job(n, sums, NULL), 0, "%d ranks", n);
    }
    cr_assert_eq(t_job(11, sums, NULL), 0);
}

/* Users' buffers may lie at any address. */
static int unaligned(int rank, void *arg)
{
    enum {
        N = 3000
    };
    static unsigned char in[8 * N + 8];
    static unsigned char out[8 * N + 8];
    (void)arg;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t word = i + (uint64_t)rank;
        memcpy(in + 3 + 8 * i, &word, 8);
    }
    t_check_ok(oriel_allreduce(in + 3, out + 5, N, ORIEL_UINT64, ORIEL_SUM, ORIEL_WORLD));
    for (uint64_t i = 0; i < N; i++) {
        uint64_t word;
        memcpy(&word, out + 5 + 8 * i, 8);
        t_check_eq(word, 3 * i + 3);
    }
    return 0;
}

Test(coll, buffers_at_odd_addresses)
{
    cr_assert_eq(t_job(3, unaligned, NULL), 0);
}

static uint64_t model(int op, uint64_t a, uint64_t b)
{
    switch (op) {
    case 1:
        return a + b;
    case 2:
        return a * b;
    case 3:
        return b < a ? b : a;
    case 4:
        return b > a ? b : a;
    case 5:
        return a & b;
    case 6:
        return a | b;
    case 7:
        return a ^ b;
    case 8:
        return a != 0 && b != 0;
    case 9:
        return a != 0 || b != 0;
    default:
        return (a != 0) != (b != 0);
    }
}

static int operators(int rank, void *arg)
{
    (void)arg;
    int n = oriel_size();
    for (int op = 1; op <= 10; op++) {
        for (int t = 6; t <= 9; t++) { /* the unsigned types, 1 to 8 bytes */
            size_t width = (size_t)1 << (t - 6);
            uint64_t mine = (uint64_t)(rank * 3 + 1) % 7;
            uint64_t got = 0;
            uint64_t want = 1;
            t_check_ok(oriel_allreduce(&mine, &got, 1, (const struct oriel_type *)(intptr_t)t,
                                       (const struct oriel_op *)(intptr_t)op, ORIEL_WORLD));
            for (int r = 1; r < n; r++) {
                want = model(op, want, (uint64_t)(r * 3 + 1) % 7);
            }
            want &= width == 8 ? UINT64_MAX : ((uint64_t)1 << (8 * width)) - 1;
            t_check_eq(got, want);
        }
    }
    int32_t low = -5 - rank;
    int32_t least = 0;
    t_check_ok(oriel_allreduce(&low, &least, 1, ORIEL_INT32, ORIEL_MIN, ORIEL_WORLD));
    t_check_eq(least, -5 - (n - 1));
    return 0;
}

Test(coll, every_operator_on_unsigned_types)
{
    cr_assert_eq(t_job(3, operators, NULL), 0);
}

/* Bad input of collectives. */
static int bad(int rank, void *arg)
{
    (void)arg;
    double x = 1;
    struct oriel_team *none = NULL;
    t_check_eq(oriel_barrier(none), ORIEL_ERR_INVAL);
    t_check_eq(oriel_bcast(&x, 1, ORIEL_DOUBLE, 2, ORIEL_WORLD), ORIEL_ERR_RANK);
    t_check(strstr(oriel_error_detail(), "0 to 1") != NULL);
    t_check_eq(oriel_bcast(&x, 1, ORIEL_DOUBLE, -1, ORIEL_WORLD), ORIEL_ERR_RANK);
    t_check_eq(oriel_bcast(NULL, 1, ORIEL_DOUBLE, 0, ORIEL_WORLD), ORIEL_ERR_INVAL);
    t_check_eq(oriel_bcast(&x, UINT64_MAX, ORIEL_DOUBLE, 0, ORIEL_WORLD), ORIEL_ERR_INVAL);
    t_check_eq(oriel_allreduce(&x, &x, 1, ORIEL_DOUBLE, ORIEL_BAND, ORIEL_WORLD), ORIEL_ERR_TYPE);
    t_check(strstr(oriel_error_detail(), "ORIEL_BAND") != NULL);
    t_check_eq(oriel_allreduce(&x, NULL, 1, ORIEL_DOUBLE, ORIEL_SUM, ORIEL_WORLD), ORIEL_ERR_INVAL);
    t_check_eq(oriel_allreduce(&x, &x, 1, NULL, ORIEL_SUM, ORIEL_WORLD), ORIEL_ERR_TYPE);
    t_check_eq(oriel_allreduce(&x, &x, 1, ORIEL_BYTE, ORIEL_SUM, ORIEL_WORLD), ORIEL_ERR_TYPE);
    /* nothing of that was sent: the team still works */
    x = rank;
    t_check_ok(oriel_bcast(&x, 1, ORIEL_DOUBLE, 1, ORIEL_WORLD));
    t_check(x == 1.0);
    t_check_ok(oriel_allreduce(&x, &x, 1, ORIEL_DOUBLE, ORIEL_SUM, ORIEL_SELF));
    t_check_eq(oriel_team_rank(ORIEL_SELF), 0);
    t_check_eq(oriel_team_size(ORIEL_WORLD), 2);
    return 0;
}

Test(coll, bad_arguments_are_found_before_sending)
{
    cr_assert_eq(t_job(2, bad, NULL), 0);
}
