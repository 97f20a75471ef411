/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The many-to-one queue under thread sanitizer: several pushers, one consumer that reads what
 * they wrote and gives each element back to its pusher, so addresses come round again.
 */
#include "base/attr.h"
#include "base/fifo.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

enum {
    PUSHERS = 3,
    SLOTS = 16,
    PER_PUSHER = 50000
};

struct message {
    struct orl_link link;
    atomic_bool is_free; /* handed back by release, taken by acquire */
    int pusher;
    int number;
};

static struct message message[PUSHERS][SLOTS];
static struct orl_mpsc mpsc;
static pthread_barrier_t start;

static void *push_all(void *arg)
{
    int me = *(int *)arg;

    pthread_barrier_wait(&start);
    for (int i = 0; i < PER_PUSHER; i++) {
        struct message *mine = &message[me][i % SLOTS];

        while (!atomic_load_explicit(&mine->is_free, memory_order_acquire)) {
            sched_yield();
        }
        atomic_store_explicit(&mine->is_free, false, memory_order_relaxed);
        mine->pusher = me;
        mine->number = i;
        orl_mpsc_push(&mpsc, &mine->link);
    }
    return NULL;
}

static int take_all(void)
{
    int next[PUSHERS] = { 0 };
    int wrong = 0;

    pthread_barrier_wait(&start);
    for (int taken = 0; taken < PUSHERS * PER_PUSHER;) {
        struct orl_link *link = orl_mpsc_pop(&mpsc);
        struct message *got;

        if (link == NULL) {
            sched_yield();
            continue;
        }
        got = container_of(link, struct message, link);
        wrong += got->number != next[got->pusher];
        next[got->pusher]++;
        taken++;
        atomic_store_explicit(&got->is_free, true, memory_order_release);
    }
    return wrong;
}

int main(void)
{
    pthread_t thread[PUSHERS];
    int number[PUSHERS];
    int wrong;

    orl_mpsc_init(&mpsc);
    pthread_barrier_init(&start, NULL, PUSHERS + 1);
    for (int i = 0; i < PUSHERS; i++) {
        for (int k = 0; k < SLOTS; k++) {
            atomic_init(&message[i][k].is_free, true);
        }
    }
    for (int i = 0; i < PUSHERS; i++) {
        number[i] = i;
        if (pthread_create(&thread[i], NULL, push_all, &number[i]) != 0) {
            printf("FAIL: race_mpsc: no thread\n");
            return 1;
        }
    }
    wrong = take_all();
    for (int i = 0; i < PUSHERS; i++) {
        pthread_join(thread[i], NULL);
    }
    pthread_barrier_destroy(&start);
    printf("%s: race_mpsc: %d of %d messages out of order\n", wrong == 0 ? "PASS" : "FAIL", wrong,
           PUSHERS * PER_PUSHER);
    return wrong == 0 ? 0 : 1;
}
