/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Release and reuse raced against puts from other ranks: an access either lands in memory that is
 * still registered, or is GONE and touches nothing. Rank 0 publishes a block, frees it while three
 * ranks put to it without pause, and at once uses the same pages for guard words of its own.
 */
#include <criterion/criterion.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/path/progress.h"
#include "oriel.h"
#include "tests/core/over.h"
#include "tests/t.h"

#define BLOCK 512

struct board {
    _Atomic uint64_t turn; /* odd: a token is on the board */
    _Atomic uint32_t stop;
    _Atomic uint64_t landed; /* puts that succeeded */
    _Atomic uint64_t gone;
    size_t bytes;
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
};

/* A way over a network takes longer than the spins below: in most rounds some put arrives. */
static void await_landing(struct board *b)
{
    uint64_t landed = atomic_load(&b->landed);
    double end = t_now() + 0.005;
    while (atomic_load(&b->landed) == landed && t_now() < end) {
        (void)core_progress();
    }
}

static void owner(struct board *b, long rounds)
{
    for (long i = 0; i < rounds; i++) {
        struct oriel_mem *mem = NULL;
        t_check_ok(oriel_mem_alloc(BLOCK, NULL, &mem));
        t_check_ok(oriel_token_pack(mem, b->token, sizeof(b->token), &b->bytes));
        unsigned char *base = oriel_mem_base(mem);
        atomic_fetch_add(&b->turn, 1);
        for (int spin = 0; spin < (int)(i % 64); spin++) {
            atomic_thread_fence(memory_order_seq_cst);
        }
        if (is_over_network() && i % 4 != 0) {
            await_landing(b);
        }
        t_check_ok(oriel_mem_free(mem));
        atomic_fetch_add(&b->turn, 1);
        /* the next allocation is most likely the same pages; nobody may write there now */
        struct oriel_mem *guard = NULL;
        t_check_ok(oriel_mem_alloc(BLOCK, NULL, &guard));
        unsigned char *words = oriel_mem_base(guard);
        memset(words, 0x5a, BLOCK);
        if (i % 16 == 0 && words == base) {
            t_sleep_ms(0);
        }
        for (int k = 0; k < BLOCK; k++) {
            t_check_eq(words[k], 0x5a);
        }
        t_check_ok(oriel_mem_free(guard));
    }
    atomic_store(&b->stop, 1);
}

/* Open what is on the board, put to it until it is gone. */
static void writer(struct board *b, int rank)
{
    unsigned char data[BLOCK];
    memset(data, 0xa0 + rank, sizeof(data));
    while (atomic_load(&b->stop) == 0) {
        struct oriel_remote *r = NULL;
        unsigned char token[ORIEL_TOKEN_BYTES_MAX];
        uint64_t turn = atomic_load(&b->turn);
        if ((turn & 1) == 0) {
            continue;
        }
        size_t n = b->bytes;
        memcpy(token, b->token, sizeof(token));
        atomic_thread_fence(memory_order_acquire); /* the copy is over before the second look */
        if (atomic_load(&b->turn) != turn) {
            continue; /* torn by the owner's next one */
        }
        int st = oriel_token_open(token, n, &r);
        while (st == 0) {
            st = oriel_put(r, 0, data, (turn & 2) != 0 ? BLOCK : 8);
            if (st == 0 && is_over_network()) {
                st = oriel_flush(0); /* what a small put over a network has to say */
            }
            atomic_fetch_add(st == 0 ? &b->landed : &b->gone, 1);
        }
        t_check(st == ORIEL_ERR_GONE || (t_check_ok(st), 0));
        t_check_ok(oriel_remote_close(r));
    }
}

/* covers: D8 A10 A14 R4 */
static int race(int rank, void *arg)
{
    struct board *b = t_shared;
    const long *rounds = arg;
    if (rank == 0) {
        owner(b, *rounds);
    } else {
        writer(b, rank);
    }
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    t_check(*rounds == 0 || atomic_load(&b->landed) > 0);
    return 0;
}

Test(gone, release_and_reuse_against_puts, .timeout = 1100)
{
    const char *soak = getenv("T_SOAK");
    long rounds = soak != NULL ? 1000000 : 100000;
    t_limit_s = soak != NULL ? 1000 : 100;
    cr_assert_eq(t_job(4, race, &rounds), 0);
}

Test(gone, release_and_reuse_against_puts_over_a_network, .timeout = 1100)
{
    const char *soak = getenv("T_SOAK");
    long rounds = soak != NULL ? 100000 : 2000;
    t_limit_s = soak != NULL ? 1000 : 100;
    over_network();
    cr_assert_eq(t_job(4, race, &rounds), 0);
}
