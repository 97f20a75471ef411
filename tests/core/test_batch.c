/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batches between ranks: memory that is mapped (done in place) and memory that is not (posted), all
 * kinds of operations in one request, checksums, released targets.
 */
#include <criterion/criterion.h>

#include <string.h>

#include "base/crc.h"
#include "oriel.h"
#include "tests/core/memories.h"
#include "tests/core/over.h"
#include "tests/t.h"

TestSuite(batch, .timeout = 60);

static unsigned char data[RANKS][SPAN];
static unsigned char back[RANKS][SPAN];

/* Puts to, then gets from, both memories of every rank in one batch each; all checked. */
static int puts_and_gets(int rank, void *arg)
{
    struct oriel_xfer ops[MEMORIES * RANKS];
    struct oriel_result results[MEMORIES * RANKS];
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct oriel_request *request;
    struct oriel_status status;

    (void)arg;
    open_memory(rank);
    t_check(is_mapped(remote[MAPPED][(rank + 1) % RANKS]) == !is_over_network());
    t_check(!is_mapped(remote[PRIVATE][(rank + 1) % RANKS]));
    opts.results = results;
    for (uint64_t round = 0; round < 20; round++) {
        uint64_t bytes = round == 19 ? SPAN : round * round + (round == 7 ? 0 : 1);

        for (int i = 0; i < MEMORIES * RANKS; i++) {
            t_fill(data[i % RANKS], bytes, (uint64_t)rank, round, (uint64_t)(i % RANKS) * SPAN);
            ops[i] = (struct oriel_xfer){ .kind = ORIEL_PUT,
                                          .remote = remote[i / RANKS][i % RANKS],
                                          .offset = (uint64_t)rank * SPAN + SPAN - bytes,
                                          .src = data[i % RANKS],
                                          .dst = back[i % RANKS],
                                          .bytes = bytes };
        }
        t_check_ok(oriel_start(ops, MEMORIES * RANKS, &opts, &request));
        t_check_ok(oriel_wait(&request, &status));
        t_check(request == NULL);
        t_check_eq(status.bytes, MEMORIES * RANKS * bytes);
        t_check_ok(oriel_flush_all());
        for (int m = 0; m < MEMORIES; m++) {
            memset(back, 0xee, sizeof(back));
            for (int r = 0; r < RANKS; r++) {
                ops[m * RANKS + r].kind = ORIEL_GET;
            }
            opts.flags = ORIEL_CRC32C;
            t_check_ok(oriel_run(ops + m * RANKS, RANKS, &opts));
            for (int r = 0; r < RANKS; r++) {
                t_check_eq(t_differs(back[r], bytes, (uint64_t)rank, round, (uint64_t)r * SPAN),
                           bytes);
                t_check(bytes == SPAN || back[r][bytes] == 0xee);
                t_check_eq(results[r].crc32c, orl_crc32c(0, back[r], bytes));
                t_check_eq(results[r].bytes, bytes);
            }
            opts.flags = 0;
        }
    }
    close_memory();
    return 0;
}

/* covers: I1 K5 O1 */
Test(batch, puts_and_gets_of_both_memories)
{
    cr_assert_eq(t_job(RANKS, puts_and_gets, NULL), 0);
}

Test(batch, puts_and_gets_over_a_network)
{
    over_network();
    cr_assert_eq(t_job(RANKS, puts_and_gets, NULL), 0);
}

/* A fetch-and-add, a swap that fits, a put with notification. */
static void fill_three(struct oriel_xfer *op, int rank, uint64_t round, void *old, void *src)
{
    op[0].kind = ORIEL_ATOMIC;
    op[0].offset = WORDS_AT;
    op[0].operand = 3;
    op[0].dst = old;
    op[1].kind = ORIEL_COMPARE_SWAP;
    op[1].offset = WORDS_AT + 8 + 8 * (uint64_t)rank;
    op[1].expected = round;
    op[1].operand = round + 1;
    op[2].kind = ORIEL_PUT_NOTIFY;
    op[2].offset = (uint64_t)rank * SPAN;
    op[2].src = src;
    op[2].bytes = 100;
    op[2].counter = WORDS_AT + 64;
    op[2].operand = 1;
}

/* Every rank adds to words of every rank by batches; sums and old values must fit. */
static int atomics_and_notifies(int rank, void *arg)
{
    enum {
        ROUNDS = 50
    };
    struct oriel_xfer ops[3 * RANKS];
    uint64_t old[RANKS];
    uint64_t seen;

    (void)arg;
    open_memory(rank);
    for (int m = 0; m < MEMORIES; m++) {
        for (uint64_t round = 0; round < ROUNDS; round++) {
            for (int r = 0; r < RANKS; r++) {
                struct oriel_xfer common = { .remote = remote[m][r], .bytes = 8 };

                t_fill(data[r], 100, (uint64_t)rank, round, 0);
                ops[3 * r] = ops[3 * r + 1] = ops[3 * r + 2] = common;
                fill_three(&ops[3 * r], rank, round, &old[r], data[r]);
            }
            t_check_ok(oriel_run(ops, 3 * RANKS, NULL));
            for (int r = 0; r < RANKS; r++) {
                t_check_eq(old[r] % 3, 0);
                t_check(old[r] >= 3 * round && old[r] < 3 * RANKS * ROUNDS);
            }
        }
        t_check_ok(
            oriel_counter_wait(mem[m], WORDS_AT + 64, RANKS * ROUNDS, INT64_C(15000000000), &seen));
        t_check_eq(seen, RANKS * ROUNDS);
        for (int r = 0; r < RANKS; r++) {
            const unsigned char *base = oriel_mem_base(mem[m]);

            t_check_eq(t_differs(base + r * SPAN, 100, (uint64_t)r, ROUNDS - 1, 0), 100);
        }
        t_meet(RANKS);
        for (int r = 0; r < RANKS; r++) {
            t_check_ok(oriel_atomic64(remote[m][r], WORDS_AT, ORIEL_ATOMIC_ADD, 0, &seen));
            t_check_eq(seen, 3 * RANKS * ROUNDS);
            t_check_ok(oriel_get(remote[m][r], WORDS_AT + 8 + 8 * (uint64_t)rank, &seen, 8));
            t_check_eq(seen, ROUNDS);
        }
    }
    close_memory();
    return 0;
}

/* covers: H10 */
Test(batch, atomics_and_notifies)
{
    cr_assert_eq(t_job(RANKS, atomics_and_notifies, NULL), 0);
}

Test(batch, atomics_and_notifies_over_a_network)
{
    over_network();
    cr_assert_eq(t_job(RANKS, atomics_and_notifies, NULL), 0);
}

/* One of the targets is released: its operations end with GONE, the others are done. */
static int one_is_gone(int rank, void *arg)
{
    struct oriel_xfer ops[2 * RANKS];
    struct oriel_result results[2 * RANKS];
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    uint64_t value = 77;
    uint64_t seen;

    (void)arg;
    open_memory(rank);
    t_meet(RANKS);
    if (rank == 1) {
        for (int m = 0; m < MEMORIES; m++) {
            t_check_ok(oriel_mem_free(mem[m]));
            mem[m] = NULL;
        }
    }
    t_meet(RANKS);
    for (int i = 0; i < 2 * RANKS; i++) {
        ops[i] = (struct oriel_xfer){ .kind = ORIEL_PUT,
                                      .remote = remote[i % 2][i / 2],
                                      .offset = 8 * (uint64_t)rank,
                                      .src = &value,
                                      .bytes = 8 };
    }
    opts.results = results;
    t_check_eq(oriel_run(ops, 2 * RANKS, &opts), ORIEL_ERR_GONE);
    t_check(strstr(oriel_error_detail(), "operation 2 of 6") != NULL);
    for (int i = 0; i < 2 * RANKS; i++) {
        t_check_eq(results[i].error, i / 2 == 1 ? ORIEL_ERR_GONE : 0);
    }
    t_check_ok(oriel_flush_all());
    for (int m = 0; m < MEMORIES; m++) {
        t_check_ok(oriel_get(remote[m][0], 8 * (uint64_t)rank, &seen, 8));
        t_check_eq(seen, 77);
    }
    close_memory();
    return 0;
}

/* covers: D8 I6 I7 L8 */
Test(batch, an_operation_on_released_memory_fails_alone)
{
    cr_assert_eq(t_job(RANKS, one_is_gone, NULL), 0);
}

Test(batch, an_operation_on_released_memory_fails_alone_over_a_network)
{
    over_network();
    cr_assert_eq(t_job(RANKS, one_is_gone, NULL), 0);
}
