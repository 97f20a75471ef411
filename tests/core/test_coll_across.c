/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of forked ranks that share no node memory: everything goes over the network of this
 * host. Sizes, roots, order of operands, ranks that leave early, ranks that are killed.
 */
/* covers: REL-10 */
#include <criterion/criterion.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "oriel.h"
#include "tests/t.h"

#define VICTIM 1
#define MOST   ((size_t)3 << 20)

static void over_the_network(void)
{
    setenv("ORIEL_TRANSPORTS", "self,ofi", 1);
    t_limit_s = 60;
}

TestSuite(coll_across, .init = over_the_network, .timeout = 120);

static int barriers(int rank, void *arg)
{
    _Atomic uint64_t *here = t_shared;
    (void)arg;
    for (uint64_t i = 1; i <= 100; i++) {
        atomic_store(&here[rank * 8], i);
        t_check_ok(oriel_barrier(ORIEL_WORLD));
        for (int r = 0; r < oriel_size(); r++) {
            uint64_t seen = atomic_load(&here[r * 8]);
            t_check(seen == i || seen == i + 1);
        }
    }
    return 0;
}

Test(coll_across, barrier_holds_everybody)
{
    for (int n = 2; n <= 6; n++) {
        cr_assert_eq(t_job(n, barriers, NULL), 0, "%d ranks", n);
    }
}

static const size_t sizes[] = { 1, 8, 4063, 4064, 4065, 30000, 65537, 300000, MOST };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static int bcasts(int rank, void *arg)
{
    unsigned char *data = malloc(MOST + 1);
    (void)arg;
    t_check(data != NULL);
    for (size_t s = 0; s < SIZES; s++) {
        for (int root = 0; root < oriel_size(); root++) {
            memset(data, 0, sizes[s] + 1);
            if (rank == root) {
                t_fill(data, sizes[s], (uint64_t)root, s, 0);
            }
            t_check_ok(oriel_bcast(data, sizes[s], ORIEL_BYTE, root, ORIEL_WORLD));
            t_check_eq(t_differs(data, sizes[s], (uint64_t)root, s, 0), sizes[s]);
            t_check_eq(data[sizes[s]], 0);
        }
    }
    /* one root runs ahead of slow readers */
    for (uint64_t i = 0; i < 500; i++) {
        uint64_t word = rank == 0 ? i : 0;
        if (rank == oriel_size() - 1 && i % 100 == 0) {
            t_sleep_ms(5);
        }
        t_check_ok(oriel_bcast(&word, 1, ORIEL_UINT64, 0, ORIEL_WORLD));
        t_check_eq(word, i);
    }
    free(data);
    return 0;
}

Test(coll_across, bcast_of_every_size_and_root)
{
    for (int n = 2; n <= 5; n++) {
        cr_assert_eq(t_job(n, bcasts, NULL), 0, "%d ranks", n);
    }
}

/* This sum depends on the order. */
static int ordered(int rank, void *arg)
{
    static const double part[] = { 1e16, 1.0, -1e16, 3.0, 1e-3, 7.0 };
    const size_t most = MOST / sizeof(double);
    double *x = malloc(most * sizeof(*x));
    double want = part[0];
    (void)arg;
    for (int r = 1; r < oriel_size(); r++) {
        want += part[r];
    }
    for (size_t count = 1; count <= most; count = count * 3 + 1) {
        for (size_t i = 0; i < count; i++) {
            x[i] = part[rank];
        }
        t_check_ok(oriel_allreduce(ORIEL_IN_PLACE, x, count, ORIEL_DOUBLE, ORIEL_SUM, ORIEL_WORLD));
        for (size_t i = 0; i < count; i++) {
            t_check(memcmp(&x[i], &want, sizeof(want)) == 0);
        }
    }
    free(x);
    return 0;
}

Test(coll_across, allreduce_takes_operands_in_rank_order)
{
    for (int n = 2; n <= 6; n++) {
        cr_assert_eq(t_job(n, ordered, NULL), 0, "%d ranks", n);
    }
}

/* A root that has sent and leaves at once: what it sent arrives, and nobody calls it dead. */
static int leaving_early(int rank, void *arg)
{
    size_t bytes = *(const size_t *)arg;
    unsigned char *data = calloc(1, bytes);
    t_check(data != NULL);
    if (rank == 0) {
        t_fill(data, bytes, 0, 1, 0);
    } else {
        t_sleep_ms(150 * rank);
    }
    t_check_ok(oriel_bcast(data, bytes, ORIEL_BYTE, 0, ORIEL_WORLD));
    t_check_eq(t_differs(data, bytes, 0, 1, 0), bytes);
    free(data);
    return 0;
}

Test(coll_across, a_root_that_leaves_at_once)
{
    for (size_t bytes = 8; bytes < MOST; bytes *= 300) {
        cr_assert_eq(t_job(4, leaving_early, &bytes), 0, "%zu bytes", bytes);
    }
}

/* Nothing has been said to anybody before finalize. */
static int silent(int rank, void *arg)
{
    (void)arg;
    t_sleep_ms(50 * rank);
    return 0;
}

Test(coll_across, finalize_without_any_collective)
{
    cr_assert_eq(t_job(4, silent, NULL), 0);
}

/* ---------------------------------------------------------------- deaths */

typedef int (*call_fn)(void);

static int in_barrier(void)
{
    return oriel_barrier(ORIEL_WORLD);
}

static int in_bcast(void)
{
    static unsigned char data[400000];
    return oriel_bcast(data, sizeof(data), ORIEL_BYTE, VICTIM, ORIEL_WORLD);
}

static int in_allreduce(void)
{
    static unsigned char data[400000];
    return oriel_allreduce(ORIEL_IN_PLACE, data, sizeof(data), ORIEL_UINT8, ORIEL_MAX, ORIEL_WORLD);
}

static int survive(int rank, void *arg)
{
    call_fn *call = arg;
    t_check_ok(oriel_init(NULL));
    t_check_ok((*call)());
    /* what the victim had to say in that call may wait in its memory until others have taken it */
    t_meet(oriel_size());
    if (rank == VICTIM) {
        t_die();
    }
    t_check_eq((*call)(), ORIEL_ERR_PEER);
    if (strstr(oriel_error_detail(), "rank 1") == NULL) {
        t_check_ok(ORIEL_ERR_PEER); /* prints whom it names instead */
    }
    t_check_eq(oriel_barrier(ORIEL_WORLD), ORIEL_ERR_PEER);
    (void)!oriel_finalize();
    return 0;
}

Test(coll_across, a_rank_that_is_killed_ends_the_others)
{
    call_fn calls[] = { in_barrier, in_bcast, in_allreduce };
    for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
        for (int n = 2; n <= 5; n += 3) {
            cr_assert_eq(t_ranks(n, survive, &calls[c]), 0, "call %zu, %d ranks", c, n);
        }
    }
}
