/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watching the ranks of a host through /proc: the test process is the launcher, sleep(1) plays the
 * ranks, and this program, started once more with the variables of a rank, watches them. Whoever is
 * gone is named; in doubt nobody is.
 */
#include <criterion/criterion.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "core/boot/boot_watch.h"
#include "tests/t.h"

#define RANKS      4
#define NOBODY     100
#define UNSEEN     50 /* added to a rank that was named without having been seen */
#define BROKEN     110
#define PATIENCE_S 1.0

/* ---------------------------------------------------------------- the watcher */

/* Looks for so many seconds; its exit status says who was named. */
static int watch_for(double seconds)
{
    static const int ranks[RANKS] = { 0, 1, 2, 3 };
    struct core_gone gone;
    double end = t_now() + seconds;
    if (core_watch_open(getenv("PMIX_NAMESPACE"), ranks, RANKS, 0) != 0) {
        return BROKEN;
    }
    while (t_now() < end) {
        if (core_watch_look((uint64_t)(PATIENCE_S * 1e9), &gone)) {
            return gone.rank + (gone.was_seen ? 0 : UNSEEN);
        }
        t_sleep_ms(10);
    }
    core_watch_close();
    return NOBODY;
}

/* Before main: this program is the watcher when the environment says so. T_WATCH holds the seconds,
 * T_WATCH_AS a user to become. */
__attribute__((constructor)) static void become_watcher(void)
{
    const char *seconds = getenv("T_WATCH");
    const char *user = getenv("T_WATCH_AS");
    if (seconds == NULL) {
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (user != NULL && setuid((uid_t)atoi(user)) != 0) {
        _exit(BROKEN);
    }
    _exit(watch_for(atof(seconds)));
}

/* ---------------------------------------------------------------- the tree */

static pid_t pids[RANKS]; /* 0: none */
static char job[32];      /* tests run at the same time: each has a job of its own */
static char other_job[40];
static int has_sleep;

static void prepare(void)
{
    has_sleep = access("/bin/sleep", X_OK) == 0;
    snprintf(job, sizeof(job), "the.job-%d", (int)getpid());
    snprintf(other_job, sizeof(other_job), "%s0", job);
}

TestSuite(boot_watch, .init = prepare, .timeout = 100);

/* A child that runs the program as that rank of that job. */
static pid_t start(int rank, const char *nspace, const char *const argv[], const char *watch,
                   const char *user)
{
    char space[64];
    char number[32];
    char role[32];
    char as[32];
    char *env[5] = { space, number, NULL, NULL, NULL };
    snprintf(space, sizeof(space), "PMIX_NAMESPACE=%s", nspace);
    snprintf(number, sizeof(number), "PMIX_RANK=%d", rank);
    if (watch != NULL) {
        snprintf(role, sizeof(role), "T_WATCH=%s", watch);
        env[2] = role;
    }
    if (user != NULL) {
        snprintf(as, sizeof(as), "T_WATCH_AS=%s", user);
        env[3] = as;
    }
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0);
        execve(argv[0], (char *const *)(uintptr_t)argv, env); /* which changes none of them */
        _exit(BROKEN);
    }
    cr_assert_gt(pid, 0);
    setpgid(pid, pid);
    return pid;
}

static const char *const sleeper[] = { "/bin/sleep", "100", NULL };

static void start_ranks(int from, int to)
{
    for (int rank = from; rank < to; rank++) {
        pids[rank] = start(rank, job, sleeper, NULL, NULL);
    }
}

static void start_watcher(const char *seconds)
{
    const char *const argv[] = { "/proc/self/exe", NULL };
    pids[0] = start(0, job, argv, seconds, NULL);
}

/* With whatever it has started. */
static void end_rank(int rank)
{
    kill(-pids[rank], SIGKILL);
    kill(pids[rank], SIGKILL);
    waitpid(pids[rank], NULL, 0);
    pids[rank] = 0;
}

/* What the watcher says; ends the rest. */
static int verdict(void)
{
    int status = 0;
    cr_assert_eq(waitpid(pids[0], &status, 0), pids[0]);
    pids[0] = 0;
    for (int rank = 1; rank < RANKS; rank++) {
        if (pids[rank] > 0) {
            end_rank(rank);
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : BROKEN;
}

#define NEEDS_SLEEP()                      \
 do {                                      \
  if (!has_sleep) {                        \
   cr_skip_test("there is no /bin/sleep"); \
  }                                        \
 } while (0)

/* ---------------------------------------------------------------- tests */

Test(boot_watch, all_alive)
{
    NEEDS_SLEEP();
    start_ranks(1, RANKS);
    start_watcher("2");
    cr_assert_eq(verdict(), NOBODY);
}

Test(boot_watch, one_ends_and_is_collected)
{
    NEEDS_SLEEP();
    start_ranks(1, RANKS);
    start_watcher("60");
    t_sleep_ms(1500);
    end_rank(2);
    cr_assert_eq(verdict(), 2);
}

Test(boot_watch, one_ends_and_stays_a_zombie)
{
    NEEDS_SLEEP();
    start_ranks(1, RANKS);
    start_watcher("60");
    t_sleep_ms(1500);
    kill(pids[3], SIGKILL);
    cr_assert_eq(verdict(), 3);
}

Test(boot_watch, a_stopped_one_lives)
{
    NEEDS_SLEEP();
    start_ranks(1, RANKS);
    start_watcher("2");
    kill(pids[2], SIGSTOP);
    cr_assert_eq(verdict(), NOBODY);
}

Test(boot_watch, one_never_starts)
{
    NEEDS_SLEEP();
    start_ranks(1, RANKS - 1);
    double began = t_now();
    start_watcher("60");
    cr_assert_eq(verdict(), 3 + UNSEEN);
    cr_assert_geq(t_now() - began, PATIENCE_S);
}

/* As long as ranks keep appearing, one that is missing may be the next. */
Test(boot_watch, slow_starts_are_waited_for)
{
    NEEDS_SLEEP();
    start_watcher("4");
    for (int rank = 1; rank < RANKS; rank++) {
        t_sleep_ms(600);
        start_ranks(rank, rank + 1);
    }
    cr_assert_eq(verdict(), NOBODY);
}

/* Rank 3 of another job, started by the same process, is not ours. */
Test(boot_watch, other_jobs_do_not_count)
{
    NEEDS_SLEEP();
    start_ranks(1, RANKS - 1);
    pids[3] = start(3, other_job, sleeper, NULL, NULL);
    start_watcher("60");
    cr_assert_eq(verdict(), 3 + UNSEEN);
}

/* Forked, but not yet at its own program: it may be the one that is missing. */
Test(boot_watch, a_rank_that_is_about_to_start_is_no_death)
{
    NEEDS_SLEEP();
    start_ranks(1, RANKS - 1);
    pids[3] = fork();
    if (pids[3] == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            pause();
        }
    }
    start_watcher("3");
    cr_assert_eq(verdict(), NOBODY);
}

/* Shells around the ranks, and `depth` of them around the watcher. */
static void start_shells(int depth, const char *seconds)
{
    static const char *const shell[] = { "/bin/sh", "-c", "/bin/sleep 100; true", NULL };
    static char watcher[300];
    const char *const argv[] = { "/bin/sh", "-c",
                                 depth == 1 ? "\"$0\"; exit $?"
                                            : "/bin/sh -c '\"$0\"; exit $?' \"$0\"; exit $?",
                                 watcher, NULL };
    ssize_t n = readlink("/proc/self/exe", watcher, sizeof(watcher) - 1);
    cr_assert_gt(n, 0);
    for (int rank = 1; rank < RANKS; rank++) {
        pids[rank] = start(rank, job, shell, NULL, NULL);
    }
    pids[0] = start(0, job, argv, seconds, NULL);
}

Test(boot_watch, shells_in_between)
{
    NEEDS_SLEEP();
    for (int depth = 1; depth <= 2; depth++) {
        start_shells(depth, "60");
        t_sleep_ms(1500);
        end_rank(2);
        cr_assert_eq(verdict(), 2);
    }
}

/* The shell around a rank ends, but what it has started runs on with another parent. */
Test(boot_watch, a_rank_that_outlives_its_shell)
{
    NEEDS_SLEEP();
    start_shells(1, "3");
    t_sleep_ms(1500);
    kill(pids[2], SIGKILL);
    cr_assert_eq(waitpid(pids[2], NULL, 0), pids[2]);
    pid_t orphan = pids[2];
    pids[2] = 0;
    cr_assert_eq(verdict(), NOBODY);
    kill(-orphan, SIGKILL);
}

/* Another user's processes cannot be read: nobody is named without having been seen. */
Test(boot_watch, processes_that_cannot_be_read)
{
    const char *const argv[] = { "/proc/self/exe", NULL };
    NEEDS_SLEEP();
    if (geteuid() != 0) {
        cr_skip_test("needs to become another user");
    }
    start_ranks(1, RANKS);
    pids[0] = start(0, job, argv, "3", "65534");
    cr_assert_eq(verdict(), NOBODY);
}

/* In a pid namespace of its own a rank sees no launcher, or a /proc that is not its own. */
Test(boot_watch, a_pid_namespace_of_its_own)
{
    char self[300];
    const char *const argv[] = {
        "/usr/bin/unshare", "--pid", "--fork", "--kill-child", self, NULL
    };
    NEEDS_SLEEP();
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    cr_assert_gt(n, 0);
    self[n] = '\0';
    if (geteuid() != 0 || access(argv[0], X_OK) != 0) {
        cr_skip_test("needs unshare and the right to use it");
    }
    start_ranks(1, RANKS - 1);
    pids[0] = start(0, job, argv, "3", NULL);
    cr_assert_eq(verdict(), NOBODY);
}

Test(boot_watch, lists_of_ranks)
{
    struct core_gone gone = { .rank = -1 };
    char text[96];
    core_gone_text(&gone, text, sizeof(text));
    cr_assert_str_eq(text, "");
    core_gone_add(&gone, 3, true);
    core_gone_text(&gone, text, sizeof(text));
    cr_assert_str_eq(text, "");
    core_gone_add(&gone, 5, true);
    core_gone_text(&gone, text, sizeof(text));
    cr_assert_str_eq(text, ", and so is 5");
    core_gone_add(&gone, 7, true);
    core_gone_text(&gone, text, sizeof(text));
    cr_assert_str_eq(text, ", and so are 5, 7");
    for (int rank = 100000; rank < 100100; rank++) {
        core_gone_add(&gone, rank, true);
    }
    core_gone_text(&gone, text, sizeof(text));
    cr_assert_lt(strlen(text), sizeof(text) - 1);
    cr_assert_eq(gone.rank, 3);
}

Test(boot_watch, processes)
{
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    uint64_t start_time = orl_sys_pid_starttime(pid);
    cr_assert(core_process_runs(pid, start_time));
    cr_assert(!core_process_runs(pid, start_time + 1), "a number used again");
    kill(pid, SIGKILL);
    siginfo_t info;
    cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    cr_assert(!core_process_runs(pid, start_time), "a zombie");
    waitpid(pid, NULL, 0);
    cr_assert(!core_process_runs(pid, start_time));
}
