/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of cases, and the two ways to run one: in this process, and in a child that ends at
 * its first finding, so that neither a crash nor a hang of a transport takes the test along.
 */
#include "contract_list.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

const struct ct_case ct_cases[] = {
    { "mem_keys", ct_mem_keys, 0 },
    { "mem_malformed", ct_mem_malformed, 0 },
    { "mem_range", ct_mem_range, 0 },
    { "mem_access", ct_mem_access, 0 },
    { "mem_many", ct_mem_many, 0 },
    { "gone_all", ct_gone_all, 0 },
    { "gone_from_afar", ct_gone_from_afar, 0 },
    { "gone_live", ct_gone_live, 0 },
    { "put_sizes", ct_put_sizes, 0 },
    { "put_aligns", ct_put_aligns, 0 },
    { "put_shorts", ct_put_shorts, 0 },
    { "put_source", ct_put_source, 0 },
    { "put_from_done", ct_put_from_done, 0 },
    { "get_sizes", ct_get_sizes, 0 },
    { "get_aligns", ct_get_aligns, 0 },
    { "get_after_put", ct_get_after_put, 0 },
    { "amo_kinds", ct_amo_kinds, 0 },
    { "amo_refused", ct_amo_refused, 0 },
    { "amo_atomic", ct_amo_atomic, 0 },
    { "amo_cpu", ct_amo_cpu, 0 },
    { "notify_polled", ct_notify_polled, 0 },
    { "notify_observed", ct_notify_observed, 0 },
    { "notify_sums", ct_notify_sums, 0 },
    { "send_sizes", ct_send_sizes, 0 },
    { "send_order", ct_send_order, 0 },
    { "send_chains", ct_send_chains, 0 },
    { "send_answers", ct_send_answers, 0 },
    { "send_keep", ct_send_keep, 0 },
    { "send_arm", ct_send_arm, 0 },
    { "flush_each", ct_flush_each, 0 },
    { "flush_shorts", ct_flush_shorts, 0 },
    { "flush_large", ct_flush_large, 0 },
    { "flush_amos", ct_flush_amos, 0 },
    { "order_again", ct_order_again, 0 },
    { "order_visible", ct_order_visible, 0 },
    { "order_fair", ct_order_fair, 0 },
    { "exhaust_sends", ct_exhaust_sends, 0 },
    { "exhaust_puts", ct_exhaust_puts, 0 },
    { "exhaust_mixed", ct_exhaust_mixed, 0 },
    { "exhaust_shorts", ct_exhaust_shorts, 0 },
    { "stop_live", ct_stop_live, 0 },
    { "stop_source", ct_stop_source, 0 },
    { "stop_then", ct_stop_then, 0 },
    { "fail_told", ct_fail_told, 0 },
    { "fail_killed", ct_fail_killed, CT_CASE_OWN_RIG | CT_CASE_FORK },
    { "fail_killed_asleep", ct_fail_killed_asleep, CT_CASE_OWN_RIG | CT_CASE_FORK },
    { "fail_killed_idle", ct_fail_killed_idle, CT_CASE_OWN_RIG | CT_CASE_FORK },
    { "close_eps", ct_close_eps, 0 },
    { "close_regions", ct_close_regions, 0 },
    { "close_rigs", ct_close_rigs, CT_CASE_OWN_RIG },
    { "threads_post", ct_threads_post, 0 },
    { "threads_short", ct_threads_short, 0 },
};
const size_t ct_ncases = sizeof ct_cases / sizeof ct_cases[0];

const struct ct_case *ct_case_find(const char *name)
{
    size_t i;

    for (i = 0; i < ct_ncases; i++) {
        if (strcmp(ct_cases[i].name, name) == 0) {
            return &ct_cases[i];
        }
    }
    return NULL;
}

const char *ct_run(const struct ct_case *test, const struct ct_row *row)
{
    static struct ct_rig rig;

    if ((test->flags & CT_CASE_FORK) != 0 && (row->flags & CT_ROW_FORK) == 0) {
        return NULL;
    }
    if ((test->flags & CT_CASE_OWN_RIG) != 0) {
        memset(&rig, 0, sizeof rig);
        rig.row = row;
        test->run(&rig);
        return ct_finding();
    }
    ct_rig_open(&rig, row);
    if (ct_is_fine()) {
        test->run(&rig);
    }
    ct_rig_close(&rig);
    return ct_finding();
}

/* ---------------------------------------------------------------- in a child */

static int report_fd;

/* The state of a child with a finding is of no more use: tell and leave. */
static void report(const char *text)
{
    if (write(report_fd, text, strlen(text) + 1) < 0) {
        _exit(2);
    }
    _exit(1);
}

static _Noreturn void child_run(const struct ct_case *test, const struct ct_row *row, int fd)
{
    report_fd = fd;
    ct_finding_hook = report;
    _exit(ct_run(test, row) == NULL ? 0 : 1);
}

/* Read until the child has closed its end; false when `seconds` were not enough. */
static bool read_report(int fd, unsigned seconds, char *text, size_t cap)
{
    uint64_t limit = orl_deadline_in((int64_t)seconds * 1000000000);
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    size_t n = 0;

    text[0] = '\0';
    while (!orl_deadline_passed(limit)) {
        ssize_t got;

        if (poll(&wait, 1, 100) <= 0) {
            continue;
        }
        got = read(fd, text + n, cap - 1 - n);
        if (got <= 0) {
            text[n] = '\0';
            return true;
        }
        n += (size_t)got;
    }
    return false;
}

enum ct_result ct_run_child(const struct ct_case *test, const struct ct_row *row,
                            void (*prepare)(void *arg), void *arg, unsigned seconds, char *text,
                            size_t cap)
{
    bool is_over;
    int status = 0;
    int fds[2];
    pid_t pid;

    if (pipe(fds) != 0 || (pid = fork()) < 0) {
        (void)snprintf(text, cap, "no child to run in");
        return CT_CRASHED;
    }
    if (pid == 0) {
        (void)close(fds[0]);
        if (prepare != NULL) {
            prepare(arg);
        }
        child_run(test, row, fds[1]);
    }
    (void)close(fds[1]);
    is_over = read_report(fds[0], seconds, text, cap);
    if (!is_over) {
        (void)kill(pid, SIGKILL);
    }
    (void)close(fds[0]);
    (void)waitpid(pid, &status, 0);
    if (!is_over) {
        (void)snprintf(text, cap, "not over after %u seconds", seconds);
        return CT_HUNG;
    }
    if (WIFSIGNALED(status)) {
        (void)snprintf(text, cap, "killed by signal %d", WTERMSIG(status));
        return CT_CRASHED;
    }
    return WEXITSTATUS(status) == 0 ? CT_HOLDS : CT_FOUND;
}
