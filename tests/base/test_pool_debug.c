/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checks that pools make in debug builds. Built with ORL_DEBUG together with its own pool.c
 * and lock.c, so that they are there in every kind of build. Each misuse must end the child that
 * commits it.
 */
#include "base/log.h"
#include "base/pool.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BYTES = 48
};

typedef void (*misuse_fn)(struct orl_pool *pool);

/* Whether a child that does this with a fresh pool is stopped. */
static bool is_stopped(misuse_fn misuse)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        struct orl_pool pool;

        orl_log_redirect(open("/dev/null", O_WRONLY));
        if (orl_pool_init(&pool, "misused", BYTES, 0, 4, 0) != 0) {
            _exit(1);
        }
        misuse(&pool);
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status);
}

static void use_well(struct orl_pool *pool)
{
    for (int i = 0; i < 10; i++) {
        unsigned char *object = orl_pool_alloc(pool);

        memset(object, i, BYTES);
        orl_pool_free(pool, object);
    }
}

static void free_twice(struct orl_pool *pool)
{
    void *object = orl_pool_alloc(pool);

    orl_pool_free(pool, object);
    orl_pool_free(pool, object);
}

static void free_twice_later(struct orl_pool *pool)
{
    void *one = orl_pool_alloc(pool);
    void *two = orl_pool_alloc(pool);

    orl_pool_free(pool, one);
    orl_pool_free(pool, two);
    orl_pool_free(pool, one);
}

static void free_foreign(struct orl_pool *pool)
{
    uint64_t foreign[BYTES / sizeof(uint64_t) + 2] = { 0 };

    orl_pool_free(pool, orl_pool_alloc(pool));
    orl_pool_free(pool, foreign);
}

static void free_inside(struct orl_pool *pool)
{
    unsigned char *object = orl_pool_alloc(pool);

    orl_pool_free(pool, object + 8);
}

static void write_after_free(struct orl_pool *pool)
{
    unsigned char *object = orl_pool_alloc(pool);

    orl_pool_free(pool, object);
    object[BYTES - 1] = 1;
    orl_pool_free(pool, orl_pool_alloc(pool));
}

static void write_past_end(struct orl_pool *pool)
{
    unsigned char *object = orl_pool_alloc(pool);

    memset(object, 0, BYTES + 1);
    orl_pool_free(pool, object);
}

Test(pool_debug, good_use_goes_on)
{
    cr_assert_not(is_stopped(use_well));
}

Test(pool_debug, misuse_is_stopped)
{
    cr_assert(is_stopped(free_twice));
    cr_assert(is_stopped(free_twice_later));
    cr_assert(is_stopped(free_foreign));
    cr_assert(is_stopped(free_inside));
    cr_assert(is_stopped(write_after_free));
    cr_assert(is_stopped(write_past_end));
}

Test(pool_debug, freed_objects_are_poisoned)
{
    struct orl_pool pool;
    unsigned char *object;

    cr_assert_eq(orl_pool_init(&pool, "poisoned", BYTES, 0, 4, 0), 0);
    object = orl_pool_alloc(&pool);
    memset(object, 0, BYTES);
    orl_pool_free(&pool, object);
    for (size_t i = sizeof(void *); i < BYTES; i++) {
        cr_assert_eq(object[i], 0xdb);
    }
    orl_pool_fini(&pool);
}
