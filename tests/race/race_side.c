/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounded calls and told ends under thread sanitizer: calls that end just when their time is up,
 * so that either side may be the one that frees them, and ends told by several threads at once
 * while others read them.
 */
#include "core/boot/boot_side.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/boot/boot_watch.h"

enum {
    CALLS = 2000,
    THREADS = 4,
    ENDS = 16
};

struct call {
    struct core_side side; /* first */
    long nap_ns;
    long result;
};

static atomic_int alive;

static void take_nap(struct core_side *side)
{
    struct call *call = (struct call *)side;
    nanosleep(&(struct timespec){ .tv_nsec = call->nap_ns }, NULL);
    call->result = call->nap_ns + 1;
}

static void drop(struct core_side *side)
{
    free(side);
    atomic_fetch_sub(&alive, 1);
}

/* How many were late; -1 when a result was wrong. */
static int run_calls(void)
{
    int late = 0;
    for (int i = 0; i < CALLS; i++) {
        struct call *call = calloc(1, sizeof(*call));
        if (call == NULL) {
            return -1;
        }
        call->side.run = take_nap;
        call->side.drop = drop;
        call->nap_ns = i % 20 * 10000L;
        atomic_fetch_add(&alive, 1);
        if (core_side_run(&call->side, 100000) != 0) {
            late++;
            continue;
        }
        if (call->result != call->nap_ns + 1) {
            return -1;
        }
        drop(&call->side);
    }
    return late;
}

static void *tell(void *arg)
{
    int base = *(int *)arg;
    for (int i = 0; i < ENDS; i++) {
        core_end_told(base + i, CORE_END_EXIT, base + i);
    }
    return NULL;
}

/* Whatever is read is whole. */
static void *hear(void *arg)
{
    int *bad = arg;
    struct core_end end;
    while (core_end_count() < THREADS * ENDS) {
        for (unsigned i = 0; i < core_end_count(); i++) {
            *bad += core_end_at(i, &end) && end.number != end.rank;
        }
    }
    return NULL;
}

static int run_ends(void)
{
    pthread_t thread[THREADS + 1];
    int base[THREADS];
    int bad = 0;
    int missing = 0;
    struct core_end end;
    if (pthread_create(&thread[THREADS], NULL, hear, &bad) != 0) {
        return -1;
    }
    for (int i = 0; i < THREADS; i++) {
        base[i] = i * ENDS;
        if (pthread_create(&thread[i], NULL, tell, &base[i]) != 0) {
            return -1;
        }
    }
    for (int i = 0; i <= THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    for (int rank = 0; rank < THREADS * ENDS; rank++) {
        missing += !core_end_of(rank, &end) || end.number != rank;
    }
    return bad + missing;
}

int main(void)
{
    int late = run_calls();
    for (int i = 0; i < 1000 && atomic_load(&alive) > 0; i++) {
        usleep(10000);
    }
    int wrong = run_ends();
    if (late < 0 || atomic_load(&alive) != 0 || wrong != 0) {
        printf("FAIL: race/side: %d late, %d not freed, %d ends wrong\n", late, atomic_load(&alive),
               wrong);
        return 1;
    }
    printf("PASS: race/side\n");
    return 0;
}
