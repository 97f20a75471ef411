/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pool under thread sanitizer: objects go round between threads that write plain data into
 * them, so an object given to two at once, or without order, shows.
 */
#include "base/pool.h"

#include <pthread.h>
#include <stdio.h>

enum {
    THREADS = 4,
    ROUNDS = 100000,
    HOLD = 4,
    MOST = 12
};

struct object {
    long owner;
    long round;
};

static struct orl_pool pool;
static pthread_barrier_t start;

static void *use_pool(void *arg)
{
    long me = *(long *)arg;
    long wrong = 0;
    struct object *held[HOLD] = { NULL };

    pthread_barrier_wait(&start);
    for (long i = 0; i < ROUNDS; i++) {
        struct object **slot = &held[i % HOLD];

        if (*slot != NULL) {
            wrong += (*slot)->owner != me || (*slot)->round != i - HOLD;
            orl_pool_free(&pool, *slot);
        }
        *slot = orl_pool_alloc(&pool);
        if (*slot != NULL) {
            (*slot)->owner = me;
            (*slot)->round = i;
        }
    }
    for (int k = 0; k < HOLD; k++) {
        orl_pool_free(&pool, held[k]);
    }
    return (void *)wrong;
}

int main(void)
{
    pthread_t thread[THREADS];
    long number[THREADS];
    long wrong = 0;
    size_t live;
    size_t high;

    if (orl_pool_init(&pool, "race", sizeof(struct object), 0, 5, MOST) != 0) {
        printf("FAIL: race_pool: no pool\n");
        return 1;
    }
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        number[i] = i + 1;
        if (pthread_create(&thread[i], NULL, use_pool, &number[i]) != 0) {
            printf("FAIL: race_pool: no thread\n");
            return 1;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        void *result;

        pthread_join(thread[i], &result);
        wrong += (long)result;
    }
    orl_pool_stats(&pool, &live, &high);
    if (live != 0 || high > MOST) {
        wrong++;
    }
    printf("%s: race_pool: %ld wrong objects, %zu left, %zu at most\n",
           wrong == 0 ? "PASS" : "FAIL", wrong, live, high);
    orl_pool_fini(&pool);
    pthread_barrier_destroy(&start);
    return wrong == 0 ? 0 : 1;
}
