/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Behaviour that the requirement table asks for by name: what is registered and how often, what a
 * stale token reaches, who a release waits for, which operands are refused. One rank or two. Its
 * sibling test_rows_use.c has counters, threads, slow peers and the end.
 */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "oriel.h"
#include "tests/t.h"

TestSuite(rows, .timeout = 60);

struct box {
    size_t bytes;
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
};

static struct box *box(int i)
{
    return (struct box *)t_shared + i;
}

static void pack(const struct oriel_mem *mem, int i)
{
    t_check_ok(oriel_token_pack(mem, box(i)->token, sizeof(box(i)->token), &box(i)->bytes));
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
    pack(mem, i);
    return mem;
}

static uint64_t counter(const char *name)
{
    struct oriel_counter c = { .size = sizeof(c) };

    for (size_t i = 0; oriel_counter_query(i, &c) == 0; i++) {
        if (strcmp(c.name, name) == 0) {
            return c.value;
        }
    }
    t_check(name == NULL); /* there is no such counter */
    return 0;
}

static uint64_t generation(const struct oriel_remote *remote)
{
    struct oriel_remote_info info = { .size = sizeof(info) };

    t_check_ok(oriel_remote_query(remote, &info));
    return info.generation;
}

/* ---------------------------------------------------------------- registrations */

/* However often its token is made, opened and used, memory is registered once. */
static int once(int rank, void *arg)
{
    static const char *const still[] = { "registrations", "msgs_sent", "ring_bytes", "posted" };
    struct oriel_mem *mem = rank == 0 ? publish(0, 4096) : NULL;
    struct oriel_remote *r;
    uint64_t before[4];
    uint64_t word = 5;

    (void)arg;
    if (rank == 0) {
        t_check_eq(counter("registrations"), 1);
        pack(mem, 1);
        t_check_eq(box(1)->bytes, box(0)->bytes);
        t_check(memcmp(box(1)->token, box(0)->token, box(0)->bytes) == 0);
        t_check_eq(counter("registrations"), 1);
    }
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    r = open_box(rank);
    for (int i = 0; i < 4; i++) {
        before[i] = counter(still[i]);
    }
    for (int i = 0; i < 1000; i++) {
        t_check_ok(oriel_put(r, 8 * (uint64_t)(i % 512), &word, 8));
    }
    t_check_ok(oriel_flush(0));
    for (int i = 0; i < 4; i++) {
        t_check_eq(counter(still[i]), before[i]);
    }
    t_check_eq(counter("puts"), 1000);
    t_check_ok(oriel_remote_close(r));
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    t_check_ok(oriel_mem_free(mem));
    return 0;
}

/* covers: A6 A11 D11 */
Test(rows, registered_once_and_no_message_per_put)
{
    cr_assert_eq(t_job(2, once, NULL), 0);
}

/* covers: D1 */
static int generations(int rank, void *arg)
{
    struct oriel_mem *mem = NULL;
    uint64_t last = 0;

    (void)rank;
    (void)arg;
    for (int i = 0; i < 200; i++) {
        struct oriel_mem *refused = NULL;
        struct oriel_remote *r;

        mem = publish(0, 64);
        r = open_box(0);
        t_check(i == 0 || generation(r) == last + 1);
        last = generation(r);
        t_check_ok(oriel_remote_close(r));
        t_check_ok(oriel_mem_free(mem));
        t_check(oriel_mem_alloc(UINT64_MAX / 2, NULL, &refused) != 0);
        t_check(oriel_mem_register(NULL, 8, NULL, &refused) != 0);
    }
    return 0;
}

Test(rows, ids_count_up_and_never_return)
{
    cr_assert_eq(t_job(1, generations, NULL), 0);
}

static unsigned char *map_at(void *place, size_t bytes)
{
    unsigned char *memory =
        mmap(place, bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | (place != NULL ? MAP_FIXED : 0), -1, 0);

    t_check(memory != MAP_FAILED);
    return memory;
}

/* covers: A15 A7 */
static int same_address(int rank, void *arg)
{
    struct oriel_remote_info info = { .size = sizeof(info) };
    struct oriel_mem *mem = NULL;
    struct oriel_remote *old;
    struct oriel_remote *fresh;
    unsigned char *memory = NULL;
    uint64_t word = 7;

    (void)arg;
    if (rank == 0) {
        memory = map_at(NULL, 8192);
        t_check_ok(oriel_mem_register(memory, 8192, NULL, &mem));
        pack(mem, 0);
    }
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    old = open_box(0);
    t_check_ok(oriel_put(old, 8, &word, 8));
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    if (rank == 0) {
        t_check_ok(oriel_mem_free(mem));
        t_check_eq(munmap(memory, 8192), 0);
        memory = map_at(memory, 4096);
        t_check_ok(oriel_mem_register(memory, 4096, NULL, &mem));
        pack(mem, 1);
    }
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    t_check_eq(oriel_put(old, 16, &word, 8), ORIEL_ERR_GONE);
    t_check_eq(oriel_get(old, 16, &word, 8), ORIEL_ERR_GONE);
    t_check_eq(oriel_token_open(box(0)->token, box(0)->bytes, &fresh), ORIEL_ERR_GONE);
    fresh = open_box(1);
    t_check_ok(oriel_remote_query(fresh, &info));
    t_check_eq(info.bytes, 4096);
    t_check(info.generation != generation(old));
    t_check_ok(oriel_get(fresh, 16, &word, 8));
    t_check_eq(word, 0);
    t_check_ok(oriel_remote_close(old));
    t_check_ok(oriel_remote_close(fresh));
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    t_check_ok(oriel_mem_free(mem));
    t_check(memory == NULL || munmap(memory, 4096) == 0);
    return 0;
}

Test(rows, an_address_used_again_is_other_memory)
{
    cr_assert_eq(t_job(2, same_address, NULL), 0);
}

/* covers: R3 */
static int two_handles(int rank, void *arg)
{
    struct oriel_mem *mem = publish(0, 64);
    struct oriel_remote *first = open_box(0);
    struct oriel_remote *second = open_box(0);
    uint64_t word = 3;

    (void)rank;
    (void)arg;
    t_check(first != second);
    t_check_ok(oriel_remote_close(first));
    t_check_eq(oriel_remote_close(first), ORIEL_ERR_INVAL);
    t_check_ok(oriel_put(second, 0, &word, 8));
    t_check_eq(*(uint64_t *)oriel_mem_base(mem), 3);
    t_check_ok(oriel_mem_free(mem));
    t_check_eq(oriel_put(second, 0, &word, 8), ORIEL_ERR_GONE);
    t_check_ok(oriel_remote_close(second));
    return 0;
}

Test(rows, what_was_opened_twice_is_closed_once_each)
{
    cr_assert_eq(t_job(1, two_handles, NULL), 0);
}

/* ---------------------------------------------------------------- release */

/* The owner neither calls the library nor has a thread of it when a peer releases its memory. */
static int release_asleep(int rank, void *arg)
{
    struct oriel_mem *mem;
    struct oriel_remote *r = NULL;
    uint64_t word = 9;

    (void)arg;
    (void)setenv("ORIEL_AGENT", "off", 1);
    t_check_ok(oriel_init(NULL));
    mem = rank == 0 ? publish(0, 64) : NULL;
    t_meet(2);
    r = open_box(0);
    t_check_ok(oriel_put(r, 0, &word, 8));
    t_meet(2);
    if (rank == 1) {
        t_check_ok(oriel_token_release(box(0)->token, box(0)->bytes));
        t_check_eq(oriel_put(r, 0, &word, 8), ORIEL_ERR_GONE);
    }
    t_meet(2);
    t_check_eq(oriel_get(r, 0, &word, 8), ORIEL_ERR_GONE);
    t_check_ok(oriel_remote_close(r));
    if (rank == 0) {
        t_check_eq(*(uint64_t *)oriel_mem_base(mem), 9); /* the bytes are its own until it frees */
        t_check_ok(oriel_mem_free(mem));
    }
    t_check_ok(oriel_finalize());
    return 0;
}

/* covers: D4 D5 */
Test(rows, a_release_waits_for_nobody)
{
    cr_assert_eq(t_ranks(2, release_asleep, NULL), 0);
}

/* ---------------------------------------------------------------- operands */

/* covers: H12 */
static int operands(int rank, void *arg)
{
    struct oriel_mem *mem = publish(0, 64);
    struct oriel_remote *r = open_box(0);
    unsigned char landing[128];
    unsigned char source[128];
    struct oriel_xfer ops[] = {
        { .kind = ORIEL_PUT, .remote = r, .src = NULL, .bytes = 8 },
        { .kind = ORIEL_GET, .remote = r, .dst = NULL, .bytes = 8 },
        { .kind = ORIEL_GET, .remote = r, .dst = landing, .bytes = 65 },
        { .kind = ORIEL_PUT, .remote = r, .src = source, .offset = 60, .bytes = 8 },
        { .kind = ORIEL_PUT_NOTIFY, .remote = r, .src = source, .bytes = 8, .counter = 64 },
        { .kind = ORIEL_ATOMIC, .remote = r, .dst = landing, .bytes = 5, .operand = 1 },
    };
    const uint64_t count = sizeof(ops) / sizeof(ops[0]);
    struct oriel_result results[sizeof(ops) / sizeof(ops[0])];
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    const unsigned char *base = oriel_mem_base(mem);
    uint64_t posted = counter("posted");

    (void)rank;
    (void)arg;
    memset(landing, 0x5a, sizeof(landing));
    memset(source, 0x77, sizeof(source));
    opts.results = results;
    t_check_eq(oriel_run(ops, count, &opts), ORIEL_ERR_INVAL);
    for (uint64_t i = 0; i < count; i++) {
        int want = i >= 2 && i <= 4 ? ORIEL_ERR_RANGE : ORIEL_ERR_INVAL;

        t_check_eq(results[i].error, want);
        t_check_eq(results[i].bytes, 0);
    }
    t_check_eq(counter("posted"), posted);
    for (size_t i = 0; i < sizeof(landing); i++) {
        t_check_eq(landing[i], 0x5a);
        t_check_eq(base[i % 64], 0);
    }
    t_check_ok(oriel_remote_close(r));
    t_check_ok(oriel_mem_free(mem));
    return 0;
}

Test(rows, an_operand_that_is_missing_touches_nothing)
{
    cr_assert_eq(t_job(1, operands, NULL), 0);
}

/* Overlapping puts of a batch: all are done, in some order, and nothing beside them changes. */
static int overlap(int rank, void *arg)
{
    enum {
        N = 16
    };
    struct oriel_mem *mem = publish(rank, 64);
    struct oriel_xfer ops[2 * N];
    uint64_t values[N];
    uint64_t seen[8];

    (void)arg;
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    struct oriel_remote *r = open_box(1 - rank);
    for (int i = 0; i < N; i++) {
        values[i] = 0x0101010101010101u * (uint64_t)(i + 1);
        ops[i] = (struct oriel_xfer){
            .kind = ORIEL_PUT, .remote = r, .offset = 8, .src = &values[i], .bytes = 8
        };
        ops[N + i] = (struct oriel_xfer){
            .kind = ORIEL_ATOMIC, .remote = r, .offset = 24, .bytes = 8, .operand = values[i]
        };
    }
    t_check_ok(oriel_run(ops, 2 * N, NULL));
    t_check_ok(oriel_flush(1 - rank));
    t_check_ok(oriel_get(r, 0, seen, sizeof(seen)));
    t_check_eq(seen[1] % values[0], 0);
    t_check(seen[1] >= values[0] && seen[1] <= values[N - 1]);
    t_check_eq(seen[3], values[0] * (N * (N + 1) / 2)); /* only atomics add up */
    t_check(seen[0] == 0 && seen[2] == 0 && seen[4] == 0);
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    t_check_ok(oriel_remote_close(r));
    t_check_ok(oriel_mem_free(mem));
    return 0;
}

/* covers: K6 */
Test(rows, overlapping_operations_are_all_done)
{
    cr_assert_eq(t_job(2, overlap, NULL), 0);
}
