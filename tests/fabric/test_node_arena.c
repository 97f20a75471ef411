/* SPDX-License-Identifier: BSD-3-Clause */
/* The arena: a model of what is allocated, and what the file holds meanwhile. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/status.h"
#include "node_rig.h"

TestSuite(node_arena, .init = rig_begin, .timeout = 120);

#define PAGE  4096
#define HELD  400
#define STEPS 20000

static uint64_t pages_of_file(const struct fab_node *node)
{
    struct stat file;

    cr_assert_eq(fstat(node->fd, &file), 0);
    return (uint64_t)file.st_blocks * 512 / PAGE;
}

static bool is_all(const unsigned char *memory, size_t bytes, unsigned char value)
{
    return bytes == 0 || (memory[0] == value && memcmp(memory, memory + 1, bytes - 1) == 0);
}

Test(node_arena, alignment_and_zeros)
{
    struct fab_node *node = rig_node(1, 0);
    static const size_t sizes[] = {
        0, 1, 63, 64, 65, 4032, 4095, 4096, 4097, 65536, (1 << 20) - 1, (1 << 20), 3 << 20
    };
    void *memory = NULL;

    cr_assert_not_null(node);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t align = sizes[i] >= (1 << 20) ? (2 << 20) : sizes[i] >= PAGE ? PAGE : 64;

        cr_assert_eq(fab_node_alloc(node, sizes[i], &memory), 0);
        cr_assert_eq((uintptr_t)memory % align, 0);
        cr_assert_eq((uint64_t)((unsigned char *)memory - node->base) % align, 0);
        cr_assert(is_all(memory, sizes[i], 0));
        cr_assert(fab_node_holds(node, memory, sizes[i]));
        memset(memory, 0xff, sizes[i]);
    }
    cr_assert_not(fab_node_holds(node, memory, RIG_ARENA));
    cr_assert_not(fab_node_holds(node, &memory, 1));
    cr_assert_not(fab_node_holds(node, node->base, 1));
    fab_node_close(node);
}

Test(node_arena, small_ones_share_pages)
{
    struct fab_node *node = rig_node(1, 0);
    uint64_t before = pages_of_file(node);
    static void *memory[640];

    for (int i = 0; i < 640; i++) {
        cr_assert_eq(fab_node_alloc(node, 64, &memory[i]), 0);
    }
    cr_assert_eq(pages_of_file(node) - before, 10);
    /* A page goes with the last that is in it; the last such page goes with the next. */
    for (int i = 0; i < 63; i++) {
        cr_assert_eq(fab_node_free(node, memory[i]), 0);
    }
    cr_assert_eq(pages_of_file(node) - before, 10);
    for (int i = 63; i < 127; i++) {
        cr_assert_eq(fab_node_free(node, memory[i]), 0);
    }
    cr_assert_eq(pages_of_file(node) - before, 10);
    cr_assert_eq(fab_node_free(node, memory[127]), 0);
    cr_assert_eq(pages_of_file(node) - before, 9);
    for (int i = 639; i >= 128; i--) {
        cr_assert_eq(fab_node_free(node, memory[i]), 0);
    }
    cr_assert_eq(pages_of_file(node) - before, 1);
    fab_node_close(node);
}

Test(node_arena, wrong_pointers_are_refused)
{
    struct fab_node *node = rig_node(1, 0);
    unsigned char *memory = NULL;
    int local = 0;

    cr_assert_eq(fab_node_alloc(node, 8192, (void **)&memory), 0);
    cr_assert_eq(fab_node_free(node, memory + 64), ORL_ERR_INVAL);
    cr_assert_eq(fab_node_free(node, &local), ORL_ERR_INVAL);
    cr_assert_eq(fab_node_free(node, NULL), 0);
    cr_assert_eq(fab_node_free(node, memory), 0);
    cr_assert_eq(fab_node_free(node, memory), ORL_ERR_INVAL);
    fab_node_close(node);
}

Test(node_arena, what_does_not_fit_is_named)
{
    struct fab_node *node = rig_node(1, 0);
    void *memory = NULL;
    void *more = NULL;

    cr_assert_eq(fab_node_alloc(node, RIG_ARENA + 1, &memory), ORL_ERR_NOMEM);
    cr_assert_not_null(strstr(orl_last_error(), "67108865"));
    cr_assert_not_null(strstr(orl_last_error(), "ORIEL_SHM_SIZE"));
    cr_assert_eq(fab_node_alloc(node, RIG_ARENA, &memory), 0);
    cr_assert_eq(fab_node_alloc(node, 1, &more), ORL_ERR_NOMEM);
    cr_assert_not_null(strstr(orl_last_error(), " 0 bytes free"));
    cr_assert_eq(fab_node_free(node, memory), 0);
    cr_assert_eq(fab_node_alloc(node, RIG_ARENA, &memory), 0);
    fab_node_close(node);
}

/* ---------------------------------------------------------------- model */

struct held {
    unsigned char *memory;
    size_t bytes;
    unsigned char mark;
};

static size_t random_size(unsigned *seed)
{
    unsigned kind = (unsigned)rand_r(seed) % 100;
    unsigned r = (unsigned)rand_r(seed);

    if (kind < 55) {
        return r % 1500;
    }
    if (kind < 60) {
        return 4000 + r % 200; /* about where whole pages begin */
    }
    if (kind < 90) {
        return r % 40000;
    }
    return kind < 99 ? r % 300000 : r % (3 << 20);
}

static void hold(struct fab_node *node, struct held *held, unsigned *seed)
{
    void *memory = NULL;

    held->bytes = random_size(seed);
    held->mark = (unsigned char)(1 + (unsigned)rand_r(seed) % 255);
    if (fab_node_alloc(node, held->bytes, &memory) != 0) {
        held->memory = NULL;
        return;
    }
    held->memory = memory;
    cr_assert(is_all(held->memory, held->bytes, 0), "memory is not zero");
    memset(held->memory, held->mark, held->bytes);
}

static void let_go(struct fab_node *node, struct held *held)
{
    /* A block that overlapped it would have changed it. */
    cr_assert(is_all(held->memory, held->bytes, held->mark), "memory has changed");
    cr_assert_eq(fab_node_free(node, held->memory), 0);
    held->memory = NULL;
}

Test(node_arena, random_use_against_a_model)
{
    struct fab_node *node = rig_node(1, 0);
    static struct held held[HELD];
    uint64_t before = pages_of_file(node);
    unsigned seed = 4711;
    int failed = 0;
    void *all = NULL;

    for (int i = 0; i < STEPS; i++) {
        struct held *one = &held[(unsigned)rand_r(&seed) % HELD];

        if (one->memory != NULL) {
            let_go(node, one);
        } else {
            hold(node, one, &seed);
            failed += one->memory == NULL;
        }
    }
    cr_assert_lt(failed, STEPS / 100);
    for (int i = 0; i < HELD; i++) {
        if (held[i].memory != NULL) {
            let_go(node, &held[i]);
        }
    }
    cr_assert_leq(pages_of_file(node) - before, 2);
    /* Everything has grown together again. */
    cr_assert_eq(fab_node_alloc(node, RIG_ARENA, &all), 0);
    fab_node_close(node);
}

static void *use(void *arg)
{
    struct fab_node *node = arg;
    struct held held[16] = { { NULL, 0, 0 } };
    unsigned seed = (unsigned)(uintptr_t)&held;

    for (int i = 0; i < 2000; i++) {
        struct held *one = &held[(unsigned)rand_r(&seed) % 16];

        if (one->memory != NULL) {
            let_go(node, one);
        } else {
            hold(node, one, &seed);
        }
    }
    for (int i = 0; i < 16; i++) {
        if (held[i].memory != NULL) {
            let_go(node, &held[i]);
        }
    }
    return NULL;
}

Test(node_arena, threads_share_it)
{
    struct fab_node *node = rig_node(1, 0);
    uint64_t before = pages_of_file(node);
    pthread_t threads[4];

    for (int i = 0; i < 4; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, use, node), 0);
    }
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    cr_assert_leq(pages_of_file(node) - before, 2);
    fab_node_close(node);
}
