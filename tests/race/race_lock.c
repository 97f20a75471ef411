/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock under thread sanitizer: plain data guarded by it, taken by waiting and by trying, and
 * the hand-over of what was written before.
 */
#include "base/lock.h"

#include <pthread.h>
#include <stdio.h>

enum {
    THREADS = 3,
    ROUNDS = 100000
};

struct shared {
    struct orl_lock lock;
    long count;
    long other;
};

static struct shared shared;
static pthread_barrier_t start;

static void *by_waiting(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&start);
    for (int i = 0; i < ROUNDS; i++) {
        orl_lock(&shared.lock);
        shared.count++;
        shared.other = -shared.count;
        orl_unlock(&shared.lock);
    }
    return NULL;
}

static void *by_trying(void *arg)
{
    long taken = 0;

    (void)arg;
    pthread_barrier_wait(&start);
    for (int i = 0; i < ROUNDS; i++) {
        if (orl_trylock(&shared.lock)) {
            shared.count++;
            shared.other = -shared.count;
            taken++;
            orl_unlock(&shared.lock);
        }
    }
    return (void *)taken;
}

int main(void)
{
    pthread_t thread[2 * THREADS];
    long expected = (long)THREADS * ROUNDS;
    int is_good;

    pthread_barrier_init(&start, NULL, 2 * THREADS);
    orl_lock_init(&shared.lock, ORL_RANK_TX, "shared");
    for (int i = 0; i < 2 * THREADS; i++) {
        if (pthread_create(&thread[i], NULL, i % 2 == 0 ? by_waiting : by_trying, NULL) != 0) {
            printf("FAIL: race_lock: no thread\n");
            return 1;
        }
    }
    for (int i = 0; i < 2 * THREADS; i++) {
        void *taken;

        pthread_join(thread[i], &taken);
        expected += (long)taken;
    }
    is_good = shared.count == expected && shared.other == -expected;
    printf("%s: race_lock: counted %ld of %ld under the lock\n", is_good ? "PASS" : "FAIL",
           shared.count, expected);
    orl_lock_fini(&shared.lock);
    pthread_barrier_destroy(&start);
    return is_good ? 0 : 1;
}
