/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping on the bell and ringing it, both sides as threads of one process, for the thread
 * sanitizer: what is handed over is plain memory. Every second turn sleeps on the futex word, as an
 * agent without networks does. A wake-up that is lost ends the program by its alarm.
 */
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "fabric/node.h"

#define ROUNDS  20000
#define LIMIT_S 120

static struct fab_node nodes[2];
static int bells[2];
static _Atomic uint64_t turn[2];
static uint64_t cargo;

static bool has_come(int local, uint64_t value)
{
    return atomic_load_explicit(&turn[1 - local], memory_order_acquire) >= value;
}

static void sleep_on_bell(int local, uint64_t value)
{
    struct pollfd fd = { .fd = bells[local], .events = POLLIN };

    fab_node_bell_begin(&nodes[local]);
    if (!has_come(local, value)) {
        (void)poll(&fd, 1, -1);
    }
    fab_node_bell_end(&nodes[local]);
}

static void sleep_on_word(int local, uint64_t value)
{
    uint32_t epoch = fab_node_park_begin(&nodes[local], FAB_AGENT);

    if (has_come(local, value)) {
        fab_node_park_cancel(&nodes[local], FAB_AGENT);
    } else {
        fab_node_park_sleep(&nodes[local], FAB_AGENT, epoch, ORL_NEVER);
    }
}

static void wait_turn(int local, uint64_t value)
{
    while (!has_come(local, value)) {
        if (value % 2 == 0) {
            sleep_on_word(local, value);
        } else {
            sleep_on_bell(local, value);
        }
    }
}

static void give_turn(int local, uint64_t value)
{
    atomic_store_explicit(&turn[local], value, memory_order_release);
    fab_node_wake(&nodes[local], 1 - local);
}

static void *player(void *arg)
{
    int local = *(const int *)arg;

    for (uint64_t i = 1; i <= ROUNDS; i++) {
        if (local == 1) {
            wait_turn(local, i);
        }
        cargo++;
        give_turn(local, i);
        if (local == 0) {
            wait_turn(local, i);
        }
    }
    return NULL;
}

static int open_nodes(void *memory)
{
    for (int i = 0; i < 2; i++) {
        if (fab_node_lay(&nodes[i], memory, 2, 1, i) != 0 ||
            fab_node_bell_open(&nodes[i], &bells[i]) != 0) {
            (void)fprintf(stderr, "cannot lay the nodes or open their bells\n");
            return 1;
        }
    }
    return 0;
}

int main(void)
{
    uint64_t bytes = fab_node_lay_bytes(2, 1);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pthread_t threads[2];
    int locals[2] = { 0, 1 };
    uint32_t left;

    (void)alarm(LIMIT_S);
    if (memory == MAP_FAILED || open_nodes(memory) != 0) {
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, player, &locals[i]) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    left = atomic_load(&nodes[0].header->nparked[FAB_AGENT]);
    fab_node_unlay(&nodes[1]);
    fab_node_unlay(&nodes[0]);
    (void)munmap(memory, bytes);
    if (cargo != 2 * (uint64_t)ROUNDS || left != 0) {
        (void)fprintf(stderr, "handed over %llu times, %u still counted as parked\n",
                      (unsigned long long)cargo, left);
        return 1;
    }
    (void)printf("PASS: race_bell\n");
    return 0;
}
