/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounded calls; see boot_side.h. One word decides who owns the call at the end: the thread says
 * "ended", the waiter says "left", and whoever finds the other's word there takes it.
 */
#include "core/boot/boot_side.h"

#include <pthread.h>
#include <signal.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/sys.h"

enum {
    SIDE_RUNS,
    SIDE_ENDED,
    SIDE_LEFT
};

static void *enter(void *arg)
{
    struct core_side *side = arg;

    side->run(side);
    if (atomic_exchange(&side->state, SIDE_ENDED) == SIDE_LEFT) {
        side->drop(side);
    } else {
        (void)orl_sys_futex_wake(&side->state, 1);
    }
    return NULL;
}

/* Signals are for the program's own threads, also in threads that the call makes. */
static int start(pthread_t *thread, struct core_side *side)
{
    sigset_t all;
    sigset_t before;
    int error;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, NULL, enter, side);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

int core_side_run(struct core_side *side, uint64_t timeout_ns)
{
    uint64_t begin = orl_clock_kernel_ns();
    uint64_t waited = 0;
    pthread_t thread;
    int error;

    atomic_store(&side->state, SIDE_RUNS);
    error = start(&thread, side);
    if (error != 0) {
        return orl_fail(ORL_ERR_SYS, "no thread can be made: %s", orl_os_text(error));
    }
    while (atomic_load(&side->state) == SIDE_RUNS && waited < timeout_ns) {
        (void)!orl_sys_futex_wait(&side->state, SIDE_RUNS, timeout_ns - waited);
        waited = orl_clock_kernel_ns() - begin;
    }
    if (atomic_exchange(&side->state, SIDE_LEFT) == SIDE_RUNS) {
        (void)pthread_detach(thread);
        return ORL_ERR_TIMEOUT;
    }
    (void)pthread_join(thread, NULL);
    return 0;
}
