/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts that fail in one rank: the others end theirs at once and quote it. And ranks that end
 * before, during and after the meeting, or abort: whoever waits for them is told.
 */
#include <criterion/criterion.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/sys.h"
#include "core/boot/boot.h"
#include "oriel.h"
#include "tests/t.h"

/* Nobody waits for anything near the time-out of the start. */
#define SOON_S 20.0
static const char timeout[] = "90s";

TestSuite(boot_card, .timeout = 100);

static void expect_detail(const char *words)
{
    if (strstr(oriel_error_detail(), words) == NULL) {
        fprintf(stderr, "rank %d: no '%s' in '%s'\n", t_rank, words, oriel_error_detail());
        t_check(0);
    }
}

struct plan {
    int bad;             /* the rank that cannot start */
    void (*spoil)(void); /* what is wrong with it */
    int own;             /* the status it gets */
    const char *words;   /* in everybody's text */
};

static int start_badly(int rank, void *arg)
{
    const struct plan *plan = arg;
    char quote[32];
    double began = t_now();
    setenv("ORIEL_BOOT_TIMEOUT", timeout, 1);
    if (rank == plan->bad) {
        plan->spoil();
    }
    int st = oriel_init(NULL);
    t_check_eq(st, rank == plan->bad ? plan->own : ORIEL_ERR_BOOT);
    expect_detail(plan->words);
    if (rank != plan->bad) {
        snprintf(quote, sizeof(quote), "oriel_init: rank %d on ", plan->bad);
        expect_detail(quote);
    }
    t_check(t_now() - began < SOON_S);
    t_check(!oriel_is_initialized());
    return 0;
}

static void check_plan(struct plan plan)
{
    for (plan.bad = 0; plan.bad < 4; plan.bad += 3) {
        cr_assert_eq(t_ranks(4, start_badly, &plan), 0, "%s, rank %d", plan.words, plan.bad);
    }
}

static void wrong_setting(void)
{
    setenv("ORIEL_SPIN_TIME", "x", 1);
}

static void wrong_transports(void)
{
    setenv("ORIEL_TRANSPORTS", "self", 1);
}

/* covers: M2 M4 */
Test(boot_card, a_wrong_setting_of_one_rank)
{
    check_plan((struct plan){ .spoil = wrong_setting,
                              .own = ORIEL_ERR_CONF,
                              .words = "ORIEL_SPIN_TIME is 'x': not a time" });
    check_plan((struct plan){
        .spoil = wrong_transports, .own = ORIEL_ERR_CONF, .words = "ORIEL_TRANSPORTS is 'self'" });
}

static int wrong_options(int rank, void *arg)
{
    struct oriel_init_opts opts = ORIEL_INIT_OPTS_INIT;
    (void)arg;
    setenv("ORIEL_BOOT_TIMEOUT", timeout, 1);
    opts.flags = rank == 1 ? 64 : 0;
    t_check_eq(oriel_init(&opts), rank == 1 ? ORIEL_ERR_INVAL : ORIEL_ERR_BOOT);
    expect_detail("opts.flags is 0x40");
    return 0;
}

Test(boot_card, wrong_options_of_one_rank)
{
    cr_assert_eq(t_ranks(3, wrong_options, NULL), 0);
}

/* The first of several is quoted, the rest are counted. */
static int all_but_one_fail(int rank, void *arg)
{
    (void)arg;
    setenv("ORIEL_BOOT_TIMEOUT", timeout, 1);
    if (rank != 2) {
        wrong_setting();
    }
    t_check_eq(oriel_init(NULL), rank == 2 ? ORIEL_ERR_BOOT : ORIEL_ERR_CONF);
    if (rank == 2) {
        expect_detail("rank 0 on ");
        expect_detail("(and 2 more): ORIEL_SPIN_TIME is 'x'");
    }
    return 0;
}

Test(boot_card, several_ranks_cannot_start)
{
    cr_assert_eq(t_ranks(4, all_but_one_fail, NULL), 0);
}

/* The lowest rank has no room for the node's memory. */
static void no_file_size(void)
{
    struct rlimit limit = { 65536, 65536 };
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_IGN);
}

/* covers: M2 */
Test(boot_card, no_node_memory)
{
    struct plan plan = {
        .bad = 0, .spoil = no_file_size, .own = ORIEL_ERR_NOMEM, .words = "the limit is 64 KiB"
    };
    cr_assert_eq(t_ranks(3, start_badly, &plan), 0);
}

/* After the exchange, before or while joining: the control block has the words. */
static int fails_to_join(int rank, void *arg)
{
    const struct plan *plan = arg;
    double began = t_now();
    setenv("ORIEL_BOOT_TIMEOUT", timeout, 1);
    if (rank == plan->bad) {
        plan->spoil();
    }
    int st = oriel_init(NULL);
    t_check(st < 0);
    if (rank != plan->bad) {
        t_check(st == ORIEL_ERR_BOOT || st == ORIEL_ERR_PEER);
        expect_detail("rank 2 on ");
    }
    t_check(t_now() - began < SOON_S);
    return 0;
}

static void no_address_space(void)
{
    struct rlimit limit = { 1u << 30, 1u << 30 };
    setrlimit(RLIMIT_AS, &limit);
}

/* A rank that cannot even map the node's memory says nothing, but its end tells. */
Test(boot_card, a_rank_that_cannot_map_the_node)
{
    struct plan plan = { .bad = 2, .spoil = no_address_space };
    cr_assert_eq(t_ranks(3, fails_to_join, &plan), 0);
}

/* ---------------------------------------------------------------- deaths */

static int before_the_start(int rank, void *arg)
{
    double began = t_now();
    (void)arg;
    setenv("ORIEL_BOOT_TIMEOUT", timeout, 1);
    if (rank == 2) {
        t_die();
    }
    t_check_eq(oriel_init(NULL), ORIEL_ERR_PEER);
    expect_detail("exchange of addresses in oriel_init: rank 2 on ");
    expect_detail("is gone");
    t_check(t_now() - began < SOON_S);
    return 0;
}

Test(boot_card, a_death_before_the_start)
{
    cr_assert_eq(t_ranks(3, before_the_start, NULL), 0);
}

/* Takes part in the exchange and dies: the others wait for it to join. */
static int before_joining(int rank, void *arg)
{
    double began = t_now();
    (void)arg;
    setenv("ORIEL_BOOT_TIMEOUT", timeout, 1);
    if (rank == 2) {
        struct core_boot_id id;
        struct core_record mine = { .rank = 2, .hostname = "here" };
        unsigned char bytes[CORE_RECORD_BYTES];
        orl_sys_host_id(mine.host);
        t_check_ok(orl_conf_load());
        t_check_ok(core_boot_local.open(&id));
        t_check_ok(core_boot_local.put(bytes, core_record_encode(&mine, bytes, sizeof(bytes))));
        t_check_ok(core_boot_local.fence("exchange"));
        t_die();
    }
    t_check_eq(oriel_init(NULL), ORIEL_ERR_PEER);
    expect_detail("joining the node's memory in oriel_init: rank 2 on ");
    t_check(t_now() - began < SOON_S);
    return 0;
}

Test(boot_card, a_death_before_joining)
{
    cr_assert_eq(t_ranks(3, before_joining, NULL), 0);
}

/* ---------------------------------------------------------------- abort */

static int aborts(int rank, void *arg)
{
    const char *text = arg;
    t_check_ok(oriel_init(NULL));
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    if (rank == 1) {
        t_mark_dying();
        oriel_abort(7, text);
    }
    t_check_eq(oriel_barrier(ORIEL_WORLD), ORIEL_ERR_PEER);
    expect_detail("rank 1 on ");
    expect_detail(" has aborted the job with code 7: the moon is full");
    t_check_eq(oriel_flush(1), ORIEL_ERR_PEER);
    expect_detail("the moon is full");
    (void)!oriel_finalize();
    return 0;
}

Test(boot_card, an_abort_is_quoted)
{
    static char words[4096] = "the moon is full";
    cr_assert_eq(t_ranks(3, aborts, words), 0);
    memset(words + strlen(words), '!', 4000); /* cut, not overrun */
    cr_assert_eq(t_ranks(3, aborts, words), 0);
}

static int abort_with(int rank, void *arg)
{
    (void)rank;
    if (((int *)arg)[1] != 0) {
        t_check_ok(oriel_init(NULL));
    }
    oriel_abort(((int *)arg)[0], NULL);
    return 0;
}

/* An abort never looks like success, initialised or not. */
Test(boot_card, exit_codes_of_an_abort)
{
    for (int is_open = 0; is_open < 2; is_open++) {
        cr_assert_eq(t_child(abort_with, (int[]){ 0, is_open }), 1);
        cr_assert_eq(t_child(abort_with, (int[]){ 5, is_open }), 5);
    }
}
