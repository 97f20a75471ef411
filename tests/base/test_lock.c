/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock: exclusion between threads, trying, the single-threaded mode, and the witness. Built
 * with ORL_DEBUG together with its own lock.c, so that the witness is there in every kind of
 * build. tests/race has the exclusion under thread sanitizer.
 */
#include "base/lock.h"
#include "base/log.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    THREADS = 4,
    ROUNDS = 50000
};

static struct orl_lock shared_lock;
static long shared_count;

static void *count_up(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        orl_lock(&shared_lock);
        shared_count++;
        orl_unlock(&shared_lock);
    }
    return NULL;
}

Test(lock, excludes, .timeout = 60)
{
    pthread_t thread[THREADS];

    orl_lock_init(&shared_lock, ORL_RANK_TX, "shared");
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_create(&thread[i], NULL, count_up, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    cr_assert_eq(shared_count, (long)THREADS * ROUNDS);
    cr_assert_not(orl_lock_is_held(&shared_lock));
    orl_lock_fini(&shared_lock);
}

static void check_trying(void)
{
    struct orl_lock lock;

    orl_lock_init(&lock, ORL_RANK_POLLER, "poller");
    cr_assert_not(orl_lock_is_held(&lock));
    cr_assert(orl_trylock(&lock));
    cr_assert(orl_lock_is_held(&lock));
    cr_assert_not(orl_trylock(&lock), "a held lock is not given twice");
    orl_unlock(&lock);
    cr_assert(orl_trylock(&lock));
    orl_unlock(&lock);
    orl_lock_fini(&lock);
}

Test(lock, tries_without_waiting)
{
    check_trying();
    orl_lock_fini(NULL);
}

Test(lock, single_threaded_mode_keeps_the_state)
{
    struct orl_lock lock;

    orl_lock_init(&lock, ORL_RANK_TX, "tx");
    orl_lock_set_threaded(false);
    check_trying();
    orl_lock(&lock);
    orl_lock_set_threaded(true);
    cr_assert(orl_lock_is_held(&lock), "a lock stays held when threads come");
    cr_assert_not(orl_trylock(&lock));
    orl_unlock(&lock);
    orl_lock(&lock);
    orl_unlock(&lock);
}

Test(lock, word_is_four_bytes)
{
    struct orl_lock lock;

    cr_assert_eq(sizeof lock.word, 4);
    cr_assert_leq(sizeof lock, 16);
}

/* ---- The witness ---- */

static int violations;
static char held_name[32];
static char wanted_name[32];

static void note(const char *held, const char *wanted)
{
    violations++;
    snprintf(held_name, sizeof held_name, "%s", held == NULL ? "nothing" : held);
    snprintf(wanted_name, sizeof wanted_name, "%s", wanted);
}

Test(witness, accepts_the_legal_order)
{
    struct orl_lock lock[ORL_RANK_COUNT];

    orl_lock_witness_hook = note;
    for (int rank = 0; rank < ORL_RANK_COUNT; rank++) {
        orl_lock_init(&lock[rank], (enum orl_lock_rank)rank, "any");
        if (rank == ORL_RANK_POLLER) {
            cr_assert(orl_trylock(&lock[rank]));
        } else {
            orl_lock(&lock[rank]);
        }
    }
    cr_assert_eq(orl_lock_witness_count(), ORL_RANK_COUNT);
    /* Given back in the order of taking, which is legal too. */
    for (int rank = 0; rank < ORL_RANK_COUNT; rank++) {
        orl_unlock(&lock[rank]);
    }
    cr_assert_eq(orl_lock_witness_count(), 0);
    cr_assert_eq(violations, 0);
}

Test(witness, reports_a_reversal_by_both_names)
{
    struct orl_lock match;
    struct orl_lock window;

    orl_lock_witness_hook = note;
    orl_lock_init(&match, ORL_RANK_MATCH, "match of team 3");
    orl_lock_init(&window, ORL_RANK_WINDOW, "window 5");
    orl_lock(&match);
    orl_lock(&window);
    cr_assert_eq(violations, 1);
    cr_assert_str_eq(held_name, "match of team 3");
    cr_assert_str_eq(wanted_name, "window 5");
    orl_unlock(&match);
    orl_unlock(&window);
    orl_lock(&window);
    orl_lock(&match);
    cr_assert_eq(violations, 1, "the right order is silent");
    orl_unlock(&match);
    orl_unlock(&window);
}

Test(witness, reports_two_of_one_rank)
{
    struct orl_lock one;
    struct orl_lock two;

    orl_lock_witness_hook = note;
    orl_lock_init(&one, ORL_RANK_TX, "one");
    orl_lock_init(&two, ORL_RANK_TX, "two");
    orl_lock(&one);
    cr_assert(orl_trylock(&two), "trying is legal in any order");
    cr_assert_eq(violations, 0);
    orl_unlock(&two);
    orl_lock(&two);
    cr_assert_eq(violations, 1);
    orl_unlock(&two);
    orl_unlock(&one);
}

Test(witness, poller_is_tried_only_and_orders_nothing)
{
    struct orl_lock poller;
    struct orl_lock match;

    orl_lock_witness_hook = note;
    orl_lock_init(&poller, ORL_RANK_POLLER, "poller");
    orl_lock_init(&match, ORL_RANK_MATCH, "match");
    cr_assert(orl_trylock(&poller));
    orl_lock(&match);
    cr_assert_eq(violations, 0, "a handler takes core locks under the poller");
    orl_unlock(&match);
    orl_unlock(&poller);
    orl_lock(&poller);
    cr_assert_eq(violations, 1);
    cr_assert_str_eq(held_name, "nothing");
    cr_assert_str_eq(wanted_name, "poller");
    orl_unlock(&poller);
}

Test(witness, watches_in_single_threaded_mode)
{
    struct orl_lock tx;
    struct orl_lock peer;

    orl_lock_witness_hook = note;
    orl_lock_set_threaded(false);
    orl_lock_init(&tx, ORL_RANK_TX, "tx");
    orl_lock_init(&peer, ORL_RANK_PEER, "peer");
    orl_lock(&tx);
    orl_lock(&peer);
    cr_assert_eq(violations, 1);
    orl_unlock(&peer);
    orl_unlock(&tx);
}

static void *hold_none(void *arg)
{
    *(unsigned *)arg = orl_lock_witness_count();
    return NULL;
}

Test(witness, keeps_threads_apart)
{
    struct orl_lock lock;
    pthread_t thread;
    unsigned count = 99;

    orl_lock_init(&lock, ORL_RANK_TX, "tx");
    orl_lock(&lock);
    cr_assert_eq(pthread_create(&thread, NULL, hold_none, &count), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(count, 0);
    cr_assert_eq(orl_lock_witness_count(), 1);
    orl_unlock(&lock);
}

/* The hook of the library: names both locks in the log and ends the process. */
Test(witness, stops_the_process)
{
    char text[512] = "";
    int pipes[2];
    int status;
    pid_t child;

    cr_assert_eq(pipe(pipes), 0);
    child = fork();
    if (child == 0) {
        struct orl_lock tx;
        struct orl_lock init;

        orl_log_redirect(pipes[1]);
        orl_lock_init(&tx, ORL_RANK_TX, "the tx lock");
        orl_lock_init(&init, ORL_RANK_INIT, "the init lock");
        orl_lock(&tx);
        orl_lock(&init);
        _exit(0);
    }
    close(pipes[1]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status), "the process went on");
    cr_assert_gt(read(pipes[0], text, sizeof text - 1), 0);
    close(pipes[0]);
    cr_assert_not_null(strstr(text, "the tx lock"), "%s", text);
    cr_assert_not_null(strstr(text, "the init lock"), "%s", text);
}
