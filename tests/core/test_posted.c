/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches on memory that only its owner reaches: back-pressure, a target that does not answer, and
 * several threads, over the real transport.
 */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/path/progress.h"
#include "oriel.h"
#include "tests/core/memories.h"
#include "tests/core/over.h"
#include "tests/t.h"

TestSuite(posted, .timeout = 60);

/* More operations than ORIEL_INFLIGHT, to a rank that only its agent serves. */
static int many(int rank, void *arg)
{
    enum {
        N = 500
    };
    static struct oriel_xfer ops[N];
    static uint64_t values[N];

    (void)arg;
    (void)setenv("ORIEL_INFLIGHT", "7", 1);
    (void)setenv("ORIEL_SHM_COPY", "ring", 1);
    t_check_ok(oriel_init(NULL));
    open_memory(rank);
    if (rank == 0) {
        for (int i = 0; i < N; i++) {
            values[i] = (uint64_t)i * 3;
            ops[i] = (struct oriel_xfer){ .kind = ORIEL_PUT,
                                          .remote = remote[PRIVATE][1 + i % 2],
                                          .offset = 8 * (uint64_t)i,
                                          .src = &values[i],
                                          .bytes = 8 };
        }
        t_check_ok(oriel_run(ops, N, NULL));
        t_check_ok(oriel_flush_all());
    }
    t_meet(RANKS); /* without the library: the targets do not call it meanwhile */
    for (int i = 0; i < N && rank != 0; i++) {
        uint64_t want = 1 + i % 2 == rank ? (uint64_t)i * 3 : 0;

        t_check_eq(((uint64_t *)(void *)private_memory)[i], want);
    }
    close_memory();
    t_check_ok(oriel_finalize());
    return 0;
}

/* covers: H3 */
Test(posted, more_than_fit_at_once)
{
    cr_assert_eq(t_ranks(RANKS, many, NULL), 0);
}

Test(posted, more_than_fit_at_once_over_a_network)
{
    over_network();
    cr_assert_eq(t_ranks(RANKS, many, NULL), 0);
}

static _Atomic uint32_t *told(void)
{
    void *word = (char *)t_shared + T_SHARED_BYTES - 64;

    return word;
}

/* The target has no agent and does not call the library until it is told to. */
static int no_answer(int rank, void *arg)
{
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct oriel_request *request;
    struct oriel_status status;
    struct oriel_xfer get;
    uint64_t value = 5;

    (void)arg;
    (void)setenv("ORIEL_SHM_COPY", "ring", 1);
    (void)setenv("ORIEL_AGENT", "off", 1);
    t_check_ok(oriel_init(NULL));
    open_memory(rank);
    t_meet(RANKS);
    if (rank == 0) {
        get = (struct oriel_xfer){
            .kind = ORIEL_GET, .remote = remote[PRIVATE][1], .dst = &value, .bytes = 8
        };
        opts.timeout_ns = 50 * 1000 * 1000;
        t_check_eq(oriel_run(&get, 1, &opts), ORIEL_ERR_TIMEOUT);
        t_check(strstr(oriel_error_detail(),
                       "timed out after 0 of 1 operations, 0 failed, rank 1") != NULL);
        t_check_eq(value, 5);
        t_check_ok(oriel_start(&get, 1, &opts, &request));
        t_check_eq(oriel_wait(&request, &status), ORIEL_ERR_TIMEOUT);
        t_check(!oriel_request_settled(request));
    }
    if (rank == 1) {
        memset(private_memory, 9, 8);
    }
    t_meet(RANKS);
    if (rank == 0) {
        while (!oriel_request_settled(request)) {
        }
        t_check_eq(oriel_wait(&request, NULL), ORIEL_ERR_TIMEOUT);
        t_check(request == NULL);
        atomic_store(told(), 1);
    }
    while (rank == 1 && atomic_load(told()) == 0) {
        (void)core_progress(); /* what any call that waits does */
    }
    close_memory();
    t_check_ok(oriel_finalize());
    return 0;
}

/* covers: K7 K13 L9 */
Test(posted, a_target_that_does_not_answer)
{
    cr_assert_eq(t_ranks(RANKS, no_answer, NULL), 0);
}

Test(posted, a_target_that_does_not_answer_over_a_network)
{
    over_network();
    cr_assert_eq(t_ranks(RANKS, no_answer, NULL), 0);
}

/* Threads of one rank with requests of their own on memory that another rank's agent serves. */
static void *work(void *arg)
{
    uint64_t me = *(uint64_t *)arg;
    uint64_t values[8];
    uint64_t seen[8];
    struct oriel_request *requests[8];

    for (uint64_t round = 0; round < 40; round++) {
        for (uint64_t i = 0; i < 8; i++) {
            values[i] = me << 32 | round << 16 | i;
            t_check_ok(
                oriel_put_start(remote[PRIVATE][1], (me * 8 + i) * 8, &values[i], 8, &requests[i]));
        }
        t_check_ok(oriel_wait_all(requests, 8, NULL));
        t_check_ok(oriel_flush(1));
        for (uint64_t i = 0; i < 8; i++) {
            t_check_ok(
                oriel_get_start(remote[PRIVATE][1], (me * 8 + i) * 8, &seen[i], 8, &requests[i]));
        }
        for (int left = 8; left > 0; left--) {
            uint64_t index;

            t_check_ok(oriel_wait_any(requests, 8, ORIEL_FOREVER, &index, NULL));
            t_check_eq(seen[index], values[index]);
        }
    }
    return NULL;
}

static int threads(int rank, void *arg)
{
    pthread_t thread[4];
    uint64_t me[4] = { 0, 1, 2, 3 };

    (void)arg;
    open_memory(rank);
    if (rank == 0) {
        for (int i = 0; i < 4; i++) {
            t_check_eq(pthread_create(&thread[i], NULL, work, &me[i]), 0);
        }
        for (int i = 0; i < 4; i++) {
            (void)pthread_join(thread[i], NULL);
        }
    }
    close_memory();
    return 0;
}

/* covers: P1 */
Test(posted, several_threads)
{
    cr_assert_eq(t_job(RANKS, threads, NULL), 0);
}

Test(posted, several_threads_over_a_network)
{
    over_network();
    cr_assert_eq(t_job(RANKS, threads, NULL), 0);
}
