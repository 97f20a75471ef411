/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent, three callers and a network as threads, for the thread sanitizer: what an event brings
 * is plain memory, written before it and read by whoever waited for it. All sleeps are long, so a
 * wake-up that is lost ends the program by its alarm.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/core.h"
#include "core/path/progress.h"
#include "tests/core/fake_net.h"
#include "tests/core/fake_path.h"

#define ROUNDS  4000
#define CALLERS 3
#define LIMIT_S 120

static uint64_t cargo[ROUNDS + 1];
static _Atomic uint64_t taken[CALLERS]; /* rounds that a caller has finished */

static bool has_come(void *arg)
{
    const uint64_t *round = arg;

    return atomic_load_explicit(&fake_net.polled, memory_order_acquire) >= *round;
}

static void *caller(void *arg)
{
    _Atomic uint64_t *mine = arg;

    for (uint64_t i = 1; i <= ROUNDS; i++) {
        struct core_wait wait = {
            .ready = has_come, .arg = &i, .deadline = ORL_NEVER, .call = "a round", .rank = -1
        };

        if (core_wait(&wait) != 0 || cargo[i] != i) {
            (void)fprintf(stderr, "round %llu went wrong\n", (unsigned long long)i);
            exit(1);
        }
        atomic_store(mine, i);
    }
    return NULL;
}

static bool all_have(uint64_t round)
{
    for (int i = 0; i < CALLERS; i++) {
        if (atomic_load(&taken[i]) < round) {
            return false;
        }
    }
    return true;
}

/* Every tenth round leaves the callers the time to park. */
static void *network(void *arg)
{
    (void)arg;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        struct timespec pause = { .tv_nsec = i % 10 == 0 ? 1500000 : (long)(i % 7 * 1000) };

        (void)nanosleep(&pause, NULL);
        cargo[i] = i;
        fake_net_event();
        core_agent_posted(&fake_net.engine);
        while (!all_have(i)) {
            pause.tv_nsec = 1000;
            (void)nanosleep(&pause, NULL);
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t callers[CALLERS];
    pthread_t nic;

    (void)alarm(LIMIT_S);
    core_sleep_bounds = (struct core_sleep_bounds){ .min_ns = 1000 * ORL_NS_PER_S,
                                                    .max_ns = 1000 * ORL_NS_PER_S,
                                                    .away_ns = 1000 * ORL_NS_PER_S };
    fake_open(2);
    fake_net_open(FAKE_ARM_FD);
    if (core_agent_start() != 0 || pthread_create(&nic, NULL, network, NULL) != 0) {
        return 1;
    }
    for (int i = 0; i < CALLERS; i++) {
        if (pthread_create(&callers[i], NULL, caller, &taken[i]) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < CALLERS; i++) {
        (void)pthread_join(callers[i], NULL);
    }
    (void)pthread_join(nic, NULL);
    core_agent_stop();
    fake_net_close();
    (void)fake_close();
    (void)printf("PASS: race_agent\n");
    return 0;
}
