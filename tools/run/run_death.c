/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the end of a process means for the job. The first rank to fail decides the exit status and
 * is named in one line; without --keep the others are then ended, in silence. Which was first is
 * known from the order in which the kernel tells of the ends (oriel-run.c), not from waitpid, which
 * gives them in order of birth: ranks that fail because another died are not to be blamed.
 */
#include "run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define JUDGE_NS INT64_C(100000000)

static void collect(struct run_process *process, int status)
{
    process->status = status;
    process->is_reaped = true;
}

static int find_rank(const struct run_job *job, pid_t pid)
{
    for (int rank = 0; rank < job->opts.ranks; rank++) {
        if (job->ranks[rank].pid == pid && !job->ranks[rank].is_reaped) {
            return rank;
        }
    }
    return -1;
}

/* Take all that have ended. Those that are watched one by one are looked at when their turn comes;
 * orphans that were handed to this process are only forgotten. */
void run_reap(struct run_job *job)
{
    int status = 0;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        int rank = find_rank(job, pid);
        if (pid == job->server.pid && !job->server.is_reaped) {
            collect(&job->server, status);
        } else if (rank >= 0) {
            collect(&job->ranks[rank], status);
        }
    }
    if (job->server.is_reaped && job->server.pidfd < 0) {
        run_server_ended(job);
    }
    for (int rank = 0; rank < job->opts.ranks; rank++) {
        if (job->ranks[rank].is_reaped && job->ranks[rank].pidfd < 0) {
            run_rank_ended(job, rank);
        }
    }
}

static bool is_over(struct run_job *job, struct run_process *process)
{
    int status = 0;

    if (!process->is_reaped && waitpid(process->pid, &status, WNOHANG) == process->pid) {
        collect(process, status);
    }
    if (process->is_ended || !process->is_reaped) {
        return false;
    }
    process->is_ended = true;
    if (process->pidfd >= 0) {
        run_unwatch(job, process->pidfd);
        close(process->pidfd);
        process->pidfd = -1;
    }
    return true;
}

static int exit_status(int status)
{
    return WIFSIGNALED(status) ? RUN_BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

static const char *describe(int status, char *text, size_t bytes)
{
    if (WIFSIGNALED(status)) {
        snprintf(text, bytes, "was killed by signal %d (%s%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)), WCOREDUMP(status) ? ", core dumped" : "");
    } else {
        snprintf(text, bytes, "exited with status %d", WEXITSTATUS(status));
    }
    return text;
}

/* Why the rank that has ended is not to be taken as one that ended well; NULL: it is. */
static const char *find_fault(const struct run_job *job, int rank, char *text, size_t bytes)
{
    int status = job->ranks[rank].status;

    if (status != 0) {
        return describe(status, text, bytes);
    }
    if (atomic_load(&job->board->notes[rank].joined) == RUN_JOINED) {
        return "exited with status 0 but did not leave the job before "
               "(no PMIx_Finalize, no oriel_finalize)";
    }
    return NULL;
}

static void fail(struct run_job *job, int rank, const char *what)
{
    int status = job->ranks[rank].status;
    int result = exit_status(status) == 0 ? RUN_FAILED : exit_status(status);

    if (job->is_ending) {
        return;
    }
    run_say("rank %d on %s %s", rank, job->host, what);
    if (!job->opts.keeps_going) {
        run_stop(job, result);
    } else if (job->status == 0) {
        job->status = result;
    }
}

static void fail_suspects(struct run_job *job)
{
    char text[128];

    for (int i = 0; i < job->suspect_count; i++) {
        int rank = job->suspects[i];
        fail(job, rank, find_fault(job, rank, text, sizeof(text)));
    }
    job->suspect_count = 0;
}

/* A process closes its connections some time before it can be waited for, and more so when it has
 * threads. Its peers may have failed for want of it in between. */
static bool is_anyone_dying(const struct run_job *job)
{
    for (int rank = 0; rank < job->opts.ranks; rank++) {
        const struct run_process *self = &job->ranks[rank];
        if (self->pid > 0 && !self->is_ended && (self->is_reaped || run_tree_is_dying(self->pid))) {
            return true;
        }
    }
    return false;
}

/* Who fails while another is dying is only suspect, until that one is known to have been killed or
 * not. Aborts by signal are often answers to another's death. */
static void accuse(struct run_job *job, int rank)
{
    char text[128];
    int status = job->ranks[rank].status;
    const char *what = find_fault(job, rank, text, sizeof(text));

    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGABRT) {
        fail(job, rank, what);
        fail_suspects(job);
    } else if (!job->is_ending) {
        job->judge_at_ns = run_now_ns() + JUDGE_NS;
        job->suspects[job->suspect_count++] = rank;
        run_judge(job);
    }
}

void run_judge(struct run_job *job)
{
    if (job->suspect_count > 0 && (run_now_ns() >= job->judge_at_ns || !is_anyone_dying(job))) {
        fail_suspects(job);
    }
}

static void fail_exec(struct run_job *job, int error)
{
    if (!job->is_ending) {
        run_say("%s: cannot be executed: %s%s", job->opts.program[0], strerror(error),
                error == ENOENT ? " (the interpreter it asks for)" : "");
        run_stop(job, RUN_CANNOT);
    }
}

/* A rank that ended well without joining will never come to a fence. That is as it should be
 * where no rank joins (oriel-run -n 2 hostname). */
static void check_absent(struct run_job *job)
{
    bool has_joined = false;

    for (int rank = 0; rank < job->opts.ranks && job->absent > 0; rank++) {
        has_joined |= atomic_load(&job->board->notes[rank].joined) != RUN_NEVER;
    }
    for (int rank = 0; rank < job->opts.ranks && has_joined; rank++) {
        if (job->ranks[rank].is_absent) {
            job->ranks[rank].is_absent = false;
            job->absent--;
            fail(job, rank,
                 "exited with status 0 and never joined the job, as others did "
                 "(no PMIx_Init, no oriel_init)");
        }
    }
}

void run_rank_ended(struct run_job *job, int rank)
{
    struct run_process *self = &job->ranks[rank];
    char text[128];

    if (!is_over(job, self)) {
        return;
    }
    int joined = atomic_load(&job->board->notes[rank].joined);
    int error = atomic_load(&job->board->notes[rank].exec_errno);
    job->live--;
    run_trace(job, "rank %d %s", rank, describe(self->status, text, sizeof(text)));
    if (error != 0) {
        fail_exec(job, error);
        return;
    }
    if (job->opts.keeps_going && joined != RUN_LEFT) {
        run_server_tell(job, rank, WIFSIGNALED(self->status), exit_status(self->status));
    }
    if (self->status != 0 || joined == RUN_JOINED) {
        accuse(job, rank);
    } else if (joined == RUN_NEVER) {
        self->is_absent = true;
        job->absent++;
        check_absent(job);
    }
}

/* The text of an abort comes from a rank: one line, whatever it holds. */
static void say_abort(struct run_job *job, int rank)
{
    char *text = job->board->abort_text;

    for (char *at = text; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ') {
            *at = ' ';
        }
    }
    run_say("rank %d on %s aborted the job with status %d%s%s", rank, job->host,
            job->board->abort_status, text[0] == '\0' ? "" : ": ", text);
}

void run_server_said(struct run_job *job)
{
    char bytes[256];

    while (read(job->wake, bytes, sizeof(bytes)) > 0) {
    }
    int rank = atomic_load(&job->board->abort_rank);
    if (rank >= 0 && !job->is_ending) {
        int status = job->board->abort_status & 0xff;
        say_abort(job, rank);
        run_stop(job, status == 0 ? RUN_FAILED : status);
    }
    check_absent(job);
}

void run_server_ended(struct run_job *job)
{
    if (!is_over(job, &job->server) || job->is_server_closing || job->is_ending) {
        return;
    }
    if (job->board->error[0] != '\0') {
        run_say("the PMIx server could not start: %s", job->board->error);
    } else {
        char text[128];
        run_say("the PMIx server %s: the job is ended; -v shows what it says",
                describe(job->server.status, text, sizeof(text)));
    }
    run_stop(job, RUN_BROKEN);
}
