/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Releases against accesses, both sides as threads of one process, for the thread sanitizer: the
 * memory is plain, so an access that a release did not wait for is a data race. Two laid nodes over
 * the same memory stand for two ranks.
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "fabric/node.h"

#define ROUNDS  20000
#define HAMMERS 2
#define WORDS   8

static struct fab_node owner;
static struct fab_node other;
static _Atomic uint64_t token; /* generation and slot of the live registration, or 0 */
static _Atomic uint64_t hits;
static _Atomic int stop;

static void access_once(struct fab_hazard *line, uint64_t seen)
{
    uint32_t slot = (uint32_t)(seen & 0xffff);
    uint64_t gen = seen >> 16;
    const struct fab_reg *reg = &other.regs[slot];
    uint64_t *target;

    if (seen == 0 || !fab_hazard_enter(line, fab_hazard_word(0, slot, gen), &reg->gen, gen)) {
        return;
    }
    target = (uint64_t *)(void *)(other.base + reg->addr);
    /* Each thread a word of its own, so that the hammers do not race with each other. */
    target[line - &other.hazards[FAB_HAZARD_SLOTS]] += seen;
    fab_hazard_leave(line);
    atomic_fetch_add_explicit(&hits, 1, memory_order_relaxed);
}

static void *hammer(void *arg)
{
    (void)arg;
    while (atomic_load(&stop) == 0) {
        uint64_t seen = atomic_load(&token);

        for (int i = 0; i < 4; i++) {
            access_once(fab_hazard_of(&other), seen);
        }
        (void)sched_yield();
    }
    return NULL;
}

/* Comes and goes, so that lines change hands. */
static void *visitor(void *arg)
{
    (void)arg;
    access_once(fab_hazard_of(&other), atomic_load(&token));
    return NULL;
}

static int one_release(uint64_t round)
{
    void *memory = NULL;
    uint64_t *words;
    uint32_t slot = 0;
    uint64_t gen = 0;

    if (fab_node_alloc(&owner, WORDS * 8, &memory) != 0 ||
        fab_node_reg(&owner, memory, WORDS * 8, 15, &slot, &gen) != 0) {
        return 1;
    }
    atomic_store(&token, gen << 16 | slot);
    if (round % 8 == 0) {
        (void)sched_yield();
    }
    fab_node_dereg(&owner, slot);
    words = memory;
    for (int k = 0; k < WORDS; k++) {
        words[k] = round;
    }
    return fab_node_free(&owner, memory) != 0;
}

static int run(void)
{
    pthread_t threads[HAMMERS];
    pthread_t guest;
    int failed = 0;

    for (int i = 0; i < HAMMERS; i++) {
        failed |= pthread_create(&threads[i], NULL, hammer, NULL);
    }
    for (uint64_t i = 0; i < ROUNDS && !failed; i++) {
        bool has_guest = i % 100 == 0 && pthread_create(&guest, NULL, visitor, NULL) == 0;

        failed |= one_release(i);
        if (has_guest) {
            (void)pthread_join(guest, NULL);
        }
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < HAMMERS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    return failed;
}

int main(void)
{
    uint64_t bytes = fab_node_lay_bytes(2, 1 << 20);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int failed;

    if (memory == MAP_FAILED || fab_node_lay(&owner, memory, 2, 1 << 20, 0) != 0 ||
        fab_node_lay(&other, memory, 2, 1 << 20, 1) != 0) {
        (void)fprintf(stderr, "cannot lay the nodes\n");
        return 1;
    }
    failed = run();
    fab_node_unlay(&other);
    fab_node_unlay(&owner);
    (void)munmap(memory, bytes);
    if (failed != 0 || atomic_load(&hits) == 0) {
        (void)fprintf(stderr, "failed %d, accesses %llu\n", failed,
                      (unsigned long long)atomic_load(&hits));
        return 1;
    }
    (void)printf("PASS: race_hazard\n");
    return 0;
}
