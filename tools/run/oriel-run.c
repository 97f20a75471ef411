/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel-run: start the ranks of a job on this host and serve PMIx to them. This file is the course
 * of a job from its start to its end; run.h says what the others are about. The supervisor is one
 * thread that waits for one event at a time and blocks nowhere else while ranks live.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS    INT64_C(1000000000)
#define GRACE_NS     (SECOND_NS / 2)  /* from SIGTERM to SIGKILL */
#define BRIEF_NS     (SECOND_NS / 5)  /* the same for those who outlive the ranks of a failed job */
#define START_NS     (60 * SECOND_NS) /* the server takes 20 ms on an idle machine */
#define CLOSE_NS     SECOND_NS        /* of a server after a good job */
#define HURRY_NS     (SECOND_NS / 4)  /* of a server after a failed one; of the last output */
#define EVENTS_MAX   64
#define CHILDREN_OWN 2 /* server and cleaner */

static const int64_t never = INT64_MAX;

int64_t run_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

bool run_watch(const struct run_job *job, int fd, uint32_t events, enum run_event kind, int index)
{
    struct epoll_event event = {
        .events = events,
        .data.u64 = (uint64_t)kind << 32 | (uint32_t)index,
    };
    return epoll_ctl(job->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

void run_unwatch(const struct run_job *job, int fd)
{
    (void)epoll_ctl(job->epoll, EPOLL_CTL_DEL, fd, NULL);
}

void run_stop(struct run_job *job, int status)
{
    if (job->is_ending) {
        return;
    }
    job->is_ending = true;
    job->status = status;
    job->kill_at_ns = run_now_ns() + GRACE_NS;
    run_trace(job, "ending the job with status %d", status);
    run_ranks_signal(job, SIGTERM);
    run_ranks_signal(job, SIGCONT);
}

static void stop_by_signal(struct run_job *job, int signal_number)
{
    job->is_hurried = true;
    if (!job->is_ending && signal_number != SIGINT && signal_number != SIGQUIT) {
        run_say("got signal %d (%s): the job is ended", signal_number, strsignal(signal_number));
    }
    run_stop(job, RUN_BY_SIGNAL + signal_number);
}

static void on_signal(struct run_job *job)
{
    struct signalfd_siginfo info;

    while (read(job->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        switch (info.ssi_signo) {
        case SIGCHLD:
            run_reap(job);
            break;
        case SIGUSR1:
        case SIGUSR2:
            run_ranks_signal(job, (int)info.ssi_signo);
            break;
        case SIGTSTP:
            run_ranks_signal(job, SIGSTOP);
            (void)raise(SIGSTOP);
            break;
        case SIGCONT:
            run_ranks_signal(job, SIGCONT);
            run_stdin_continue(job);
            break;
        default:
            stop_by_signal(job, (int)info.ssi_signo);
        }
    }
}

static void on_event(struct run_job *job, enum run_event kind, int index)
{
    switch (kind) {
    case RUN_ON_SIGNAL:
        on_signal(job);
        break;
    case RUN_ON_SERVER:
        run_server_said(job);
        break;
    case RUN_ON_SERVER_END:
        run_server_ended(job);
        break;
    case RUN_ON_RANK_END:
        run_rank_ended(job, index);
        break;
    case RUN_ON_TERMINAL:
    case RUN_ON_FEED:
        run_stdin_event(job, kind);
        break;
    case RUN_ON_OUTPUT:
    case RUN_ON_ERRORS:
    case RUN_ON_SINK:
    default:
        run_io_event(job, kind, index);
    }
}

/* Wait for events until then and handle them, in the order in which they came to be. */
static void step(struct run_job *job, int64_t until_ns)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t wait_ms = -1;

    if (until_ns != never) {
        int64_t left_ns = until_ns - run_now_ns();
        wait_ms = left_ns <= 0 ? 0 : left_ns / 1000000 + 1;
        wait_ms = wait_ms > INT32_MAX ? INT32_MAX : wait_ms;
    }
    int count = epoll_wait(job->epoll, events, EVENTS_MAX, (int)wait_ms);
    for (int i = 0; i < count; i++) {
        on_event(job, (enum run_event)(events[i].data.u64 >> 32),
                 (int)(uint32_t)events[i].data.u64);
    }
}

static bool await_server(struct run_job *job)
{
    int64_t until = run_now_ns() + START_NS;

    while (!atomic_load(&job->board->is_ready) && !job->is_ending) {
        if (run_now_ns() > until) {
            run_say("the PMIx server did not start within %d s", (int)(START_NS / SECOND_NS));
            run_stop(job, RUN_BROKEN);
        }
        step(job, until);
    }
    run_trace(job, "the PMIx server is process %d, the job %s", (int)job->server.pid, job->name);
    return !job->is_ending;
}

/* When the loop below has something to do even if nothing happens. */
static int64_t next_turn(const struct run_job *job, int64_t limit)
{
    int64_t turn = job->is_ending ? job->kill_at_ns : limit;

    return job->suspect_count > 0 && job->judge_at_ns < turn ? job->judge_at_ns : turn;
}

static void await_ranks(struct run_job *job)
{
    int64_t limit = job->opts.limit_ns == 0 ? never : job->started_ns + job->opts.limit_ns;

    while (job->live > 0 || job->suspect_count > 0) {
        step(job, next_turn(job, limit));
        run_judge(job);
        int64_t now = run_now_ns();
        if (job->is_ending && now >= job->kill_at_ns) {
            run_ranks_signal(job, SIGKILL);
            job->kill_at_ns = now + GRACE_NS;
        } else if (!job->is_ending && now >= limit) {
            run_say("the time of %g s is over: the job is ended",
                    (double)job->opts.limit_ns / (double)SECOND_NS);
            job->is_hurried = true;
            run_stop(job, RUN_TIMEOUT);
        }
    }
}

struct orphans {
    const struct run_job *job;
    int signal_number;
    int count;
};

static void signal_orphan(pid_t pid, void *argument)
{
    struct orphans *orphans = argument;

    if (pid == orphans->job->server.pid || pid == orphans->job->cleaner) {
        return;
    }
    orphans->count++;
    if (orphans->signal_number != 0) {
        (void)kill(pid, orphans->signal_number);
    }
}

static int signal_orphans(const struct run_job *job, int signal_number)
{
    struct orphans orphans = { .job = job, .signal_number = signal_number };

    if (run_tree_children(signal_orphan, &orphans) < 0) {
        char entry[sizeof("PMIX_NAMESPACE=") + RUN_NAME_BYTES];
        snprintf(entry, sizeof(entry), "PMIX_NAMESPACE=%s", job->name);
        return run_tree_kill_by_entry(entry);
    }
    return orphans.count;
}

/* What the ranks have started and left is handed to this process, as the kernel does with
 * orphans of a subreaper. It ends with the job. */
static void end_orphans(struct run_job *job)
{
    int64_t now = run_now_ns();
    int64_t kill_at = now + (job->is_ending ? BRIEF_NS : GRACE_NS);
    int64_t leave_at = kill_at + 4 * GRACE_NS;

    if (signal_orphans(job, SIGTERM) == 0) {
        return;
    }
    (void)signal_orphans(job, SIGCONT);
    do {
        step(job, run_now_ns() + SECOND_NS / 100);
        now = run_now_ns();
    } while (signal_orphans(job, now >= kill_at ? SIGKILL : 0) > 0 && now < leave_at);
}

static void end_server(struct run_job *job)
{
    int64_t until = run_now_ns() + (job->is_ending ? HURRY_NS : CLOSE_NS);

    job->is_server_closing = true;
    close(job->orders);
    while (job->server.pid > 0 && !job->server.is_ended) {
        step(job, until);
        if (run_now_ns() >= until && !job->server.is_reaped) {
            run_trace(job, "the PMIx server does not end: it is killed");
            (void)kill(job->server.pid, SIGKILL);
            until = run_now_ns() + CLOSE_NS;
        }
    }
}

/* What was written is handed on, however slow the reader, unless the job is to end now. A pipe
 * without an end has been given to a process that is none of ours. */
static void end_output(struct run_job *job)
{
    int64_t until = run_now_ns() + HURRY_NS;

    while (run_io_has_pipes() && !run_io_has_queue() && run_now_ns() < until) {
        step(job, until);
    }
    while (run_io_has_queue() && !(job->is_hurried && run_now_ns() >= until)) {
        step(job, job->is_hurried ? until : never);
    }
}

static int prepare(struct run_job *job)
{
    int status = run_files_raise(&job->opts);

    if (status >= 0) {
        return status;
    }
    run_env_common(job->opts.ranks > run_bind_cpus());
    if (!run_session_open(job)) {
        return RUN_BROKEN;
    }
    if (!run_server_start(job)) {
        return RUN_BROKEN;
    }
    job->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (job->epoll < 0 || !run_watch(job, job->signals, EPOLLIN, RUN_ON_SIGNAL, 0) ||
        !run_watch(job, job->wake, EPOLLIN, RUN_ON_SERVER, 0)) {
        run_say("cannot wait for events: %s", strerror(errno));
        return RUN_BROKEN;
    }
    job->server.pidfd = run_process_watch(job, job->server.pid, RUN_ON_SERVER_END, 0);
    status = run_bind_plan(&job->opts); /* while the server starts */
    run_trace(job, "cores are planned");
    status = status >= 0 ? status : run_io_open(job);
    return status >= 0 ? status : run_stdin_open(job);
}

static void run(struct run_job *job)
{
    int status = prepare(job);

    if (status < 0 && await_server(job)) {
        status = run_ranks_start(job);
    }
    if (status >= 0) {
        run_stop(job, status);
    }
    if (job->epoll >= 0) {
        await_ranks(job);
        end_orphans(job);
        end_server(job);
        end_output(job);
    }
    if (job->cleaner > 0) {
        run_session_close(job);
    }
    run_trace(job, "status %d", job->status);
}

/* A missing stdin, stdout or stderr would be replaced by the next file that is opened. Reading and
 * writing them fails as it would without. */
static void fill_standard_files(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDONLY);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO) {
        close(fd);
    }
    run_files_close();
}

static bool open_board(struct run_job *job)
{
    size_t ranks = (size_t)job->opts.ranks;
    size_t bytes = sizeof(*job->board) + ranks * sizeof(job->board->notes[0]);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    job->ranks = calloc(ranks, sizeof(*job->ranks));
    job->suspects = calloc(ranks, sizeof(*job->suspects));
    if (memory == MAP_FAILED || job->ranks == NULL || job->suspects == NULL) {
        run_say("no memory for %zu ranks", ranks);
        return false;
    }
    job->board = memory;
    atomic_store(&job->board->abort_rank, -1);
    for (size_t i = 0; i < ranks; i++) {
        job->ranks[i].pidfd = -1;
    }
    return true;
}

int main(int argc, char **argv)
{
    static struct run_job job = { .epoll = -1, .orders = -1, .server.pidfd = -1 };

    job.started_ns = run_now_ns();
    fill_standard_files();
    run_env_clean();
    int status = run_opts_read(&job.opts, argc, argv);
    if (status >= 0) {
        return fflush(stdout) == 0 ? status : RUN_FAILED;
    }
    job.path = run_program_find(job.opts.program[0], &status);
    if (job.path == NULL) {
        return status;
    }
    if (gethostname(job.host, sizeof(job.host) - 1) != 0 || job.host[0] == '\0') {
        snprintf(job.host, sizeof(job.host), "localhost");
    }
    job.signals = run_signals_open();
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (job.signals < 0 || !open_board(&job)) {
        return RUN_BROKEN;
    }
    run(&job);
    return job.status;
}
