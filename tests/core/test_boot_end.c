/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the launcher tells of ends, of ranks and of itself: whoever waits for the one that has ended
 * waits no longer, and says how it ended.
 */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/status.h"
#include "core/boot/boot.h"
#include "core/boot/boot_watch.h"
#include "tests/fake/fake_pmix.h"
#include "tests/t.h"

#define STEP "the step of the test"
/* Far above any bound that is tested, for machines under load. */
#define SOON_S 20.0

static struct core_boot_id id;
static const struct core_boot *const boot = &core_boot_pmix;

static void prepare(void)
{
    setenv("PMIX_NAMESPACE", FAKE_NSPACE, 1);
    setenv("PMIX_RANK", "0", 1);
}

TestSuite(boot_end, .init = prepare, .timeout = 100);

static void expect_text(const char *words)
{
    cr_assert_not_null(strstr(orl_last_error(), words), "'%s' is not in '%s'", words,
                       orl_last_error());
}

/* The call ended with that status, after at least this and not much more time. */
static void expect_bounded(int got, int want, double began, double least_s)
{
    double took = t_now() - began;
    cr_assert_eq(got, want, "%s", orl_last_error());
    cr_assert_geq(took, least_s);
    cr_assert_lt(took, SOON_S);
}

/* Tells an end a little later. */
struct end {
    pmix_status_t code;
    const char *nspace;
    int rank;
    int exit_code;
};

static void *tell_end(void *arg)
{
    const struct end *end = arg;
    t_sleep_ms(300);
    fake_pmix_end(end->code, end->nspace, end->rank, end->exit_code);
    return NULL;
}

static int fence_with(struct end end)
{
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, tell_end, &end), 0);
    int st = boot->fence(STEP);
    pthread_join(thread, NULL);
    return st;
}

static void open_for_ends(const char *timeout)
{
    setenv("ORIEL_BOOT_TIMEOUT", timeout, 1);
    fake_pmix.fence_never = true;
    cr_assert_eq(orl_conf_load(), 0);
    cr_assert_eq(boot->open(&id), 0, "%s", orl_last_error());
}

/* The launcher tells of a death: nobody sits out the time-out. */
Test(boot_end, ends_end_the_wait)
{
    static const struct {
        struct end end;
        const char *text;
    } rows[] = {
        { { PMIX_ERR_PROC_ABORTED_BY_SIG, FAKE_NSPACE, 1, 9 }, "is gone (killed by signal 9)" },
        { { PMIX_ERR_PROC_ABORTED_BY_SIG, FAKE_NSPACE, 1, 139 }, "is gone (killed by signal 11)" },
        { { PMIX_ERR_PROC_ABORTED, FAKE_NSPACE, 1, 7 }, "is gone (it aborted with code 7)" },
        { { PMIX_ERR_PROC_TERM_WO_SYNC, FAKE_NSPACE, 1, 3 }, "is gone (exit status 3)" },
        { { PMIX_EVENT_PROC_TERMINATED, FAKE_NSPACE, 1, 0 }, "is gone (it has ended in good" },
        { { PMIX_ERR_PROC_ABORTED, FAKE_NSPACE, 1, -1 }, "rank 1 on fakehost is gone" },
    };
    open_for_ends("90s");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double began = t_now();
        core_end_forget_for_test();
        expect_bounded(fence_with(rows[i].end), ORL_ERR_PEER, began, 0.2);
        expect_text(STEP ": rank 1 on fakehost is gone");
        expect_text(rows[i].text);
    }
    boot->close();
}

/* A rank that ends because another has died is not blamed: its words are. */
Test(boot_end, words_of_one_that_ends_name_the_first)
{
    static const char words[] = "another step: rank 5 on far is gone (killed by signal 9)";
    open_for_ends("90s");
    boot->leave(words);
    cr_assert_str_eq(fake_pmix.word[0], words);
    cr_assert_geq(fake_pmix.call[FAKE_COMMIT].count, 1);
    strcpy(fake_pmix.word[1], words);
    cr_assert_eq(fence_with((struct end){ PMIX_ERR_PROC_TERM_WO_SYNC, FAKE_NSPACE, 1, 1 }),
                 ORL_ERR_PEER);
    cr_assert_str_eq(orl_last_error(), words);
    core_end_forget_for_test();
    cr_assert_eq(fence_with((struct end){ PMIX_ERR_PROC_ABORTED_BY_SIG, FAKE_NSPACE, 1, 9 }),
                 ORL_ERR_PEER);
    expect_text("rank 1 on fakehost is gone (killed by signal 9)");
    cr_assert_eq(fake_pmix.waiting_gets, 0, "each Get is marked as one that does not wait");
    boot->close();
}

/* Leaving word does not wait for a server that does not answer. */
Test(boot_end, words_are_no_reason_to_wait)
{
    open_for_ends("90s");
    double began = t_now();
    fake_pmix.call[FAKE_COMMIT].hangs = true;
    boot->leave("rank 1 is gone");
    cr_assert_lt(t_now() - began, SOON_S);
}

/* Of other jobs, and of this rank itself: no concern of this wait. */
Test(boot_end, ends_of_others_are_ignored)
{
    open_for_ends("1s");
    cr_assert_eq(fence_with((struct end){ PMIX_ERR_PROC_ABORTED, "another-job", 1, 9 }),
                 ORL_ERR_BOOT);
    cr_assert_eq(fence_with((struct end){ PMIX_ERR_PROC_ABORTED, FAKE_NSPACE, 0, 9 }),
                 ORL_ERR_BOOT);
    cr_assert_eq(core_end_count(), 0);
    boot->close();
}

static atomic_int losses;

static void count_loss(void)
{
    atomic_fetch_add(&losses, 1);
}

/* The launcher itself ends: waits end, and whoever asked is told, once. */
/* covers: REL-04 */
Test(boot_end, the_launcher_ends)
{
    open_for_ends("90s");
    core_boot_on_loss(count_loss);
    double began = t_now();
    expect_bounded(fence_with((struct end){ PMIX_ERR_LOST_CONNECTION, "server", 0, -1 }),
                   ORL_ERR_BOOT, began, 0.2);
    expect_text(STEP ": the launcher has ended");
    fake_pmix_end(PMIX_ERR_LOST_CONNECTION, "server", 0, -1);
    t_sleep_ms(200);
    cr_assert_eq(losses, 1);
    core_boot_on_loss(count_loss);
    cr_assert_eq(losses, 2, "who asks afterwards is told at once");
    core_boot_on_loss(NULL);
    boot->close();
}

/* An end in good order, then the true cause; repeated words count once. */
Test(boot_end, ends_are_kept_once_and_the_worst_counts)
{
    struct core_end end;
    core_end_told(1, CORE_END_NORMAL, 0);
    core_end_told(1, CORE_END_NORMAL, 0);
    core_end_told(1, CORE_END_SIGNAL, 6);
    core_end_told(1, CORE_END_EXIT, 2);
    cr_assert_eq(core_end_count(), 2);
    cr_assert(core_end_of(1, &end) && end.how == CORE_END_SIGNAL && end.number == 6);
    cr_assert(!core_end_of(2, &end));
    for (int rank = 2; rank < 1000; rank++) {
        core_end_told(rank, CORE_END_UNKNOWN, 0);
    }
    cr_assert_leq(core_end_count(), 64);
}
