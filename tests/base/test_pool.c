/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pools: limits, alignment, reuse, statistics, lack of memory and several threads. The checks of
 * debug builds are in test_pool_debug.c, the same threads under sanitizer in tests/race.
 */
#include "base/pool.h"
#include "base/status.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Address sanitizer would end the process where malloc answers NULL. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

Test(pool, gives_distinct_aligned_objects)
{
    static const size_t sizes[] = { 1, 7, 8, 24, 64, 100, 4096 };
    static const size_t aligns[] = { 0, 1, 8, 64, 128, 4096 };
    enum {
        COUNT = 25
    };

    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (size_t a = 0; a < sizeof aligns / sizeof aligns[0]; a++) {
            size_t align = aligns[a] == 0 ? sizeof(void *) : aligns[a];
            unsigned char *object[COUNT];
            struct orl_pool pool;

            cr_assert_eq(orl_pool_init(&pool, "objects", sizes[s], aligns[a], 10, 0), 0);
            for (int i = 0; i < COUNT; i++) {
                object[i] = orl_pool_alloc(&pool);
                cr_assert_not_null(object[i]);
                cr_assert_eq((uintptr_t)object[i] % align, 0);
                memset(object[i], i, sizes[s]);
            }
            for (int i = 0; i < COUNT; i++) {
                for (size_t b = 0; b < sizes[s]; b++) {
                    cr_assert_eq(object[i][b], i, "object %d of %zu was overwritten", i, sizes[s]);
                }
                orl_pool_free(&pool, object[i]);
            }
            orl_pool_fini(&pool);
        }
    }
}

Test(pool, last_freed_is_first_given)
{
    struct orl_pool pool;
    void *object[3];

    cr_assert_eq(orl_pool_init(&pool, "stack", 40, 0, 2, 0), 0);
    for (int i = 0; i < 3; i++) {
        object[i] = orl_pool_alloc(&pool);
    }
    orl_pool_free(&pool, object[0]);
    orl_pool_free(&pool, NULL);
    orl_pool_free(&pool, object[2]);
    cr_assert_eq(orl_pool_alloc(&pool), object[2]);
    cr_assert_eq(orl_pool_alloc(&pool), object[0]);
    for (int i = 0; i < 3; i++) {
        orl_pool_free(&pool, object[i]);
    }
    orl_pool_fini(&pool);
}

Test(pool, stops_at_its_limit_and_counts)
{
    struct orl_pool pool;
    void *object[5];
    size_t live = 99;
    size_t high = 99;

    cr_assert_eq(orl_pool_init(&pool, "five", 16, 0, 3, 5), 0);
    orl_pool_stats(&pool, &live, &high);
    cr_assert_eq(live, 0);
    cr_assert_eq(high, 0);
    for (int i = 0; i < 5; i++) {
        object[i] = orl_pool_alloc(&pool);
        cr_assert_not_null(object[i]);
    }
    cr_assert_null(orl_pool_alloc(&pool));
    orl_pool_free(&pool, object[4]);
    orl_pool_free(&pool, object[3]);
    orl_pool_stats(&pool, &live, NULL);
    orl_pool_stats(&pool, NULL, &high);
    cr_assert_eq(live, 3);
    cr_assert_eq(high, 5);
    object[3] = orl_pool_alloc(&pool);
    cr_assert_not_null(object[3]);
    for (int i = 0; i < 4; i++) {
        orl_pool_free(&pool, object[i]);
    }
    orl_pool_fini(&pool);
}

Test(pool, refuses_nonsense)
{
    struct orl_pool pool;
    struct orl_pool zeroed = { .live = 0 };

    cr_assert_eq(orl_pool_init(&pool, "p", 0, 0, 1, 0), ORL_ERR_INVAL);
    cr_assert_eq(orl_pool_init(&pool, "p", 8, 0, 0, 0), ORL_ERR_INVAL);
    cr_assert_eq(orl_pool_init(&pool, "p", 8, 24, 1, 0), ORL_ERR_INVAL);
    cr_assert_eq(orl_pool_init(&pool, "p", SIZE_MAX, 0, 1, 0), ORL_ERR_RANGE);
    cr_assert_eq(orl_pool_init(&pool, "p", 64, 0, SIZE_MAX / 64, 0), ORL_ERR_RANGE);
    orl_pool_fini(&zeroed);
    orl_pool_fini(NULL);
}

/* A chunk that no machine can give: the pool says no, and goes on saying no. */
Test(pool, survives_lack_of_memory)
{
    struct orl_pool pool;
    size_t live;

    cr_assert_eq(orl_pool_init(&pool, "huge", (size_t)1 << 40, 0, (size_t)1 << 20, 0), 0);
    cr_assert_null(orl_pool_alloc(&pool));
    cr_assert_null(orl_pool_alloc(&pool));
    orl_pool_stats(&pool, &live, NULL);
    cr_assert_eq(live, 0);
    orl_pool_fini(&pool);
}

enum {
    THREADS = 3,
    ROUNDS = 20000,
    HOLD = 8
};

static struct orl_pool shared_pool;

/* Each thread stamps what it holds; a stamp changed by another is an object given twice. */
static void *use_pool(void *arg)
{
    int me = *(int *)arg;
    int *held[HOLD] = { NULL };
    long wrong = 0;

    for (int i = 0; i < ROUNDS; i++) {
        int k = i % HOLD;

        if (held[k] != NULL) {
            wrong += *held[k] != me;
            orl_pool_free(&shared_pool, held[k]);
        }
        held[k] = orl_pool_alloc(&shared_pool);
        if (held[k] != NULL) {
            *held[k] = me;
        }
    }
    for (int k = 0; k < HOLD; k++) {
        orl_pool_free(&shared_pool, held[k]);
    }
    return (void *)wrong;
}

Test(pool, serves_threads, .timeout = 60)
{
    pthread_t thread[THREADS];
    int number[THREADS];
    size_t live;
    size_t high;

    cr_assert_eq(orl_pool_init(&shared_pool, "shared", sizeof(int), 0, 4, 20), 0);
    for (int i = 0; i < THREADS; i++) {
        number[i] = i + 1;
        cr_assert_eq(pthread_create(&thread[i], NULL, use_pool, &number[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong;

        pthread_join(thread[i], &wrong);
        cr_assert_null(wrong);
    }
    orl_pool_stats(&shared_pool, &live, &high);
    cr_assert_eq(live, 0);
    cr_assert_leq(high, 20);
    orl_pool_fini(&shared_pool);
}
