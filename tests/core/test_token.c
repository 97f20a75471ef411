/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tokens: the bytes and their malformations, remotes, ranges, release and reuse, third ranks.
 */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "oriel.h"
#include "tests/core/over.h"
#include "tests/t.h"

struct shared_token {
    size_t bytes;
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
};

static struct shared_token *box(int i)
{
    return (struct shared_token *)t_shared + i;
}

static struct oriel_remote *open_box(int i)
{
    struct oriel_remote *remote = NULL;
    t_check_ok(oriel_token_open(box(i)->token, box(i)->bytes, &remote));
    return remote;
}

static struct oriel_mem *publish(int i, uint64_t bytes)
{
    struct oriel_mem *mem = NULL;
    t_check_ok(oriel_mem_alloc(bytes, NULL, &mem));
    t_check_ok(oriel_token_pack(mem, box(i)->token, sizeof(box(i)->token), &box(i)->bytes));
    return mem;
}

/* covers: D2 */
static int third_rank(int rank, void *arg)
{
    (void)arg;
    struct oriel_mem *mem = rank == 0 ? publish(0, 4096) : NULL;
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    struct oriel_remote *r = open_box(0);
    struct oriel_remote_info info = { .size = sizeof(info) };
    t_check_ok(oriel_remote_query(r, &info));
    t_check_eq(info.owner, 0);
    t_check_eq(info.bytes, 4096);
    t_check_eq(info.direct, rank == 0 || !is_over_network());
    if (rank == 1) {
        unsigned char data[1000];
        t_fill(data, sizeof(data), 1, 7, 0);
        t_check_ok(oriel_put(r, 8, data, sizeof(data)));
        t_check_ok(oriel_flush(0));
    }
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    unsigned char seen[1000];
    t_check_ok(oriel_get(r, 8, seen, sizeof(seen)));
    t_check_eq(t_differs(seen, sizeof(seen), 1, 7, 0), sizeof(seen));
    if (rank == 0) {
        const unsigned char *base = oriel_mem_base(mem);
        t_check_eq(t_differs(base + 8, 1000, 1, 7, 0), 1000);
        t_check_eq(base[7], 0);
        t_check_eq(base[1008], 0);
    }
    t_check_ok(oriel_remote_close(r));
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    t_check_ok(oriel_mem_free(mem));
    return 0;
}

Test(token, third_rank_reads_what_second_wrote)
{
    cr_assert_eq(t_job(3, third_rank, NULL), 0);
}

Test(token, third_rank_reads_what_second_wrote_over_a_network)
{
    over_network();
    cr_assert_eq(t_job(3, third_rank, NULL), 0);
}

/* covers: D9 A16 */
static int ranges(int rank, void *arg)
{
    (void)rank;
    (void)arg;
    struct oriel_mem *mem = publish(0, 100);
    struct oriel_remote *r = open_box(0);
    unsigned char data[200] = { 0 };
    uint64_t old;
    t_check_eq(oriel_put(r, 0, data, 101), ORIEL_ERR_RANGE);
    t_check(strstr(oriel_error_detail(), "100 bytes") != NULL);
    t_check_eq(oriel_put(r, 100, data, 1), ORIEL_ERR_RANGE);
    t_check_eq(oriel_put(r, UINT64_MAX, data, 2), ORIEL_ERR_RANGE);
    t_check_eq(oriel_put(r, 1, data, UINT64_MAX), ORIEL_ERR_RANGE);
    t_check_eq(oriel_get(r, 99, data, 2), ORIEL_ERR_RANGE);
    t_check_eq(oriel_atomic64(r, 96, ORIEL_ATOMIC_ADD, 1, &old), ORIEL_ERR_RANGE);
    t_check_eq(oriel_atomic64(r, 4, ORIEL_ATOMIC_ADD, 1, &old), ORIEL_ERR_INVAL);
    t_check_eq(oriel_atomic32(r, 2, ORIEL_ATOMIC_ADD, 1, NULL), ORIEL_ERR_INVAL);
    t_check_eq(oriel_compare_swap64(r, 100, 0, 1, NULL), ORIEL_ERR_RANGE);
    t_check_eq(oriel_put_notify(r, 0, data, 8, 96, 1), ORIEL_ERR_RANGE);
    t_check_eq(oriel_put(r, 0, NULL, 8), ORIEL_ERR_INVAL);
    t_check(strstr(oriel_error_detail(), "NULL") != NULL);
    t_check_ok(oriel_put(r, 100, NULL, 0));
    t_check_ok(oriel_put(r, 100, data, 0));
    t_check_ok(oriel_get(r, 0, NULL, 0));
    t_check_eq(oriel_put(NULL, 0, data, 8), ORIEL_ERR_INVAL);
    t_check_ok(oriel_put(r, 92, data, 8));
    t_check_ok(oriel_remote_close(r));
    t_check_ok(oriel_mem_free(mem));
    t_check_ok(oriel_mem_free(NULL));
    t_check_ok(oriel_remote_close(NULL));
    return 0;
}

Test(token, ranges_and_nulls_are_errors_with_words)
{
    cr_assert_eq(t_job(1, ranges, NULL), 0);
}

/* covers: A16 */
static int empty_and_rights(int rank, void *arg)
{
    (void)rank;
    (void)arg;
    struct oriel_mem *none = publish(0, 0);
    struct oriel_remote *r = open_box(0);
    unsigned char byte = 1;
    t_check_ok(oriel_put(r, 0, &byte, 0));
    t_check_eq(oriel_put(r, 0, &byte, 1), ORIEL_ERR_RANGE);
    t_check_ok(oriel_remote_close(r));
    t_check_ok(oriel_mem_free(none));

    struct oriel_mem_opts opts = ORIEL_MEM_OPTS_INIT;
    struct oriel_mem *mem = NULL;
    opts.access = ORIEL_ACCESS_READ;
    t_check_ok(oriel_mem_alloc(64, &opts, &mem));
    t_check_ok(oriel_token_pack(mem, box(0)->token, sizeof(box(0)->token), &box(0)->bytes));
    r = open_box(0);
    t_check_eq(oriel_put(r, 0, &byte, 1), ORIEL_ERR_INVAL);
    t_check(strstr(oriel_error_detail(), "writing") != NULL);
    t_check_eq(oriel_atomic32(r, 0, ORIEL_ATOMIC_ADD, 1, NULL), ORIEL_ERR_INVAL);
    t_check_ok(oriel_get(r, 0, &byte, 1));
    t_check_eq(byte, 0);
    t_check_ok(oriel_remote_close(r));
    t_check_ok(oriel_mem_free(mem));

    opts.access = 0;
    opts.atomicity = ORIEL_ATOMICITY_NIC;
    t_check_eq(oriel_mem_alloc(64, &opts, &mem), ORIEL_ERR_UNSUPP);
    opts.atomicity = 7;
    t_check_eq(oriel_mem_alloc(64, &opts, &mem), ORIEL_ERR_INVAL);
    opts.size = 3;
    t_check_eq(oriel_mem_alloc(64, &opts, &mem), ORIEL_ERR_INVAL);
    t_check_eq(oriel_mem_register(NULL, 8, NULL, &mem), ORIEL_ERR_INVAL);
    t_check_eq(oriel_mem_alloc(8, NULL, NULL), ORIEL_ERR_INVAL);
    t_check_eq(oriel_mem_alloc(UINT64_MAX / 2, NULL, &mem), ORIEL_ERR_NOMEM);
    t_check(strlen(oriel_error_detail()) > 20);
    return 0;
}

Test(token, empty_memory_and_access_rights)
{
    cr_assert_eq(t_job(1, empty_and_rights, NULL), 0);
}

/* Every bit of a token matters, every length but the right one is refused. */
/* covers: D2 */
static int damage(int rank, void *arg)
{
    (void)rank;
    (void)arg;
    struct oriel_mem *mem = publish(0, 64);
    struct oriel_remote *r = NULL;
    unsigned char copy[ORIEL_TOKEN_BYTES_MAX];
    size_t n = box(0)->bytes;
    for (size_t bit = 0; bit < 8 * n; bit++) {
        memcpy(copy, box(0)->token, n);
        copy[bit / 8] ^= (unsigned char)(1u << (bit % 8));
        t_check_eq(oriel_token_open(copy, n, &r), ORIEL_ERR_INVAL);
    }
    for (size_t length = 0; length < n; length++) {
        t_check_eq(oriel_token_open(box(0)->token, length, &r), ORIEL_ERR_INVAL);
    }
    t_check_eq(oriel_token_open(box(0)->token, n + 1, &r), ORIEL_ERR_INVAL);
    t_check_eq(oriel_token_open(box(0)->token, SIZE_MAX, &r), ORIEL_ERR_INVAL);
    t_check_eq(oriel_token_open(NULL, n, &r), ORIEL_ERR_INVAL);
    t_check(r == NULL);
    unsigned seed = 1;
    for (int round = 0; round < 20000; round++) {
        for (size_t i = 0; i < n; i++) {
            seed = seed * 1664525u + 1013904223u;
            copy[i] = (unsigned char)(seed >> 24);
        }
        t_check_eq(oriel_token_open(copy, n, &r), ORIEL_ERR_INVAL);
    }
    size_t need = 0;
    t_check_eq(oriel_token_pack(mem, copy, 10, &need), ORIEL_ERR_TRUNC);
    t_check_eq(need, n);
    t_check_ok(oriel_mem_free(mem));
    return 0;
}

Test(token, damaged_tokens_are_refused)
{
    cr_assert_eq(t_job(1, damage, NULL), 0);
}

/* covers: A7 D7 D8 */
static int release(int rank, void *arg)
{
    (void)arg;
    uint64_t value = 5;
    struct oriel_mem *mem = rank == 0 ? publish(0, 64) : NULL;
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    struct oriel_remote *r = open_box(0);
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    if (rank == 1) {
        t_check_ok(oriel_token_release(box(0)->token, box(0)->bytes));
        t_check_ok(oriel_token_release(box(0)->token, box(0)->bytes));
        t_check_eq(oriel_put(r, 0, &value, 8), ORIEL_ERR_GONE);
    }
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    t_check_eq(oriel_get(r, 0, &value, 8), ORIEL_ERR_GONE);
    t_check(strstr(oriel_error_detail(), "rank 0") != NULL);
    t_check_eq(oriel_atomic64(r, 0, ORIEL_ATOMIC_ADD, 1, NULL), ORIEL_ERR_GONE);
    struct oriel_remote *again = NULL;
    t_check_eq(oriel_token_open(box(0)->token, box(0)->bytes, &again), ORIEL_ERR_GONE);
    t_check_ok(oriel_remote_close(r));
    if (rank == 0) {
        memset(oriel_mem_base(mem), 1, 64);
        t_check_ok(oriel_mem_free(mem));
    }
    return 0;
}

Test(token, release_from_afar_is_gone_everywhere)
{
    cr_assert_eq(t_job(2, release, NULL), 0);
}

/* A token of another job is refused by name. */
static int keep_token(int rank, void *arg)
{
    (void)rank;
    struct oriel_mem *mem = NULL;
    struct shared_token *out = arg;
    t_check_ok(oriel_mem_alloc(64, NULL, &mem));
    t_check_ok(oriel_token_pack(mem, out->token, sizeof(out->token), &out->bytes));
    return 0;
}

static int try_token(int rank, void *arg)
{
    (void)rank;
    const struct shared_token *in = arg;
    struct oriel_remote *r = NULL;
    t_check_eq(oriel_token_open(in->token, in->bytes, &r), ORIEL_ERR_INVAL);
    t_check(strstr(oriel_error_detail(), "another job") != NULL);
    return 0;
}

static int first_job(int rank, void *arg)
{
    t_check_ok(oriel_init(NULL));
    t_check_eq(keep_token(rank, arg), 0);
    t_check_ok(oriel_finalize());
    return 0;
}

static int second_job(int rank, void *arg)
{
    t_check_ok(oriel_init(NULL));
    t_check_eq(try_token(rank, arg), 0);
    t_check_ok(oriel_finalize());
    return 0;
}

Test(token, of_another_job_is_refused)
{
    struct shared_token *kept =
        mmap(NULL, sizeof(*kept), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(kept, MAP_FAILED);
    cr_assert_eq(t_ranks(1, first_job, kept), 0);
    cr_assert_neq(kept->bytes, 0);
    cr_assert_eq(t_ranks(1, second_job, kept), 0);
    munmap(kept, sizeof(*kept));
}
