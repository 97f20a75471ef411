/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker that computes checksums. Jobs come over a lock-free queue; the worker sleeps on a word
 * of this process that every submit raises.
 *
 * Argument. The worker reads the word before it looks at the queue, and sleeps only while the word
 * is what it read: a job pushed after the look has raised it. A submit skips the system call when
 * it sees the worker awake; both words are sequentially consistent, so if it misses `sleeping`, the
 * worker's sleep sees the raised word.
 */
#include "core/path/crc_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/crc.h"
#include "base/stats.h"
#include "base/sys.h"
#include "core/core.h"
#include "core/path/progress.h"

enum {
    POOL_NONE,
    POOL_STARTING,
    POOL_RUNNING
};

static struct {
    _Atomic int life; /* POOL_ */
    atomic_bool stop;
    _Atomic uint32_t raised; /* futex word */
    _Atomic uint32_t sleeping;
    struct orl_mpsc jobs;
    pthread_t thread;
} pool;

static void compute(struct core_crc_job *job)
{
    size_t bytes = job->bytes;
    uint32_t crc32c = orl_crc32c(0, job->data, bytes);

    orl_stat_add(&core.stats, ORL_STAT_CRC_BYTES, bytes);
    job->done(job, crc32c);
}

static void run_pool(void)
{
    for (;;) {
        uint32_t raised = atomic_load(&pool.raised);
        struct orl_link *link = orl_mpsc_pop(&pool.jobs);

        if (link != NULL) {
            compute(container_of(link, struct core_crc_job, link));
            continue;
        }
        if (atomic_load(&pool.stop)) {
            return;
        }
        atomic_store(&pool.sleeping, 1);
        /* Whatever ends the sleep, the queue is looked at again. */
        if (orl_sys_futex_wait(&pool.raised, raised, ORL_NEVER) != 0) {
            (void)sched_yield();
        }
        atomic_store(&pool.sleeping, 0);
    }
}

static void raise_word(void)
{
    (void)atomic_fetch_add(&pool.raised, 1);
    if (atomic_load(&pool.sleeping) != 0) {
        (void)orl_sys_futex_wake(&pool.raised, 1);
    }
}

int core_crc_open(void)
{
    int none = POOL_NONE;
    int status;

    if (!atomic_compare_exchange_strong(&pool.life, &none, POOL_STARTING)) {
        while (atomic_load(&pool.life) == POOL_STARTING) {
            (void)sched_yield();
        }
        return atomic_load(&pool.life) == POOL_RUNNING
                   ? 0
                   : orl_fail(ORL_ERR_SYS, "the checksum thread could not be made");
    }
    orl_mpsc_init(&pool.jobs);
    atomic_store(&pool.stop, false);
    status = core_thread_start(&pool.thread, "oriel-crc", run_pool);
    atomic_store(&pool.life, status == 0 ? POOL_RUNNING : POOL_NONE);
    return status;
}

void core_crc_close(void)
{
    if (atomic_load(&pool.life) != POOL_RUNNING) {
        return;
    }
    atomic_store(&pool.stop, true);
    raise_word();
    (void)pthread_join(pool.thread, NULL);
    atomic_store(&pool.life, POOL_NONE);
}

void core_crc_submit(struct core_crc_job *job)
{
    (void)orl_mpsc_push(&pool.jobs, &job->link);
    raise_word();
}
