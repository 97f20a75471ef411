/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting the ranks and sending them signals. A rank is started as the launcher itself was:
 * signals, limits, umask, directory; it leads a process group of its own and dies with the
 * launcher.
 */
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Handled by the supervisor. Those of the first row only if they were not ignored at its start, as
 * nohup and the shell's & arrange. */
static const int polite[] = { SIGHUP, SIGINT, SIGQUIT };
static const int always[] = { SIGCHLD, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT };

static sigset_t first_mask;
static bool was_pipe_ignored;
static struct rlimit first_files;
static mode_t first_umask;

static bool is_ignored(int signal_number)
{
    struct sigaction action;
    return sigaction(signal_number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int run_signals_open(void)
{
    sigset_t set;

    first_umask = umask(S_IRWXG | S_IRWXO);
    was_pipe_ignored = is_ignored(SIGPIPE);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL);
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(polite) / sizeof(polite[0]); i++) {
        if (!is_ignored(polite[i])) {
            sigaddset(&set, polite[i]);
        }
    }
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
        (void)signal(always[i], SIG_DFL);
        sigaddset(&set, always[i]);
    }
    sigprocmask(SIG_SETMASK, &set, &first_mask);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* One descriptor per rank for the server's connection, three for the supervisor: its end, and two
 * pipes of tagged output, of which both ends are open for a moment. */
int run_files_raise(const struct run_opts *opts)
{
    struct rlimit files;
    rlim_t needed = (rlim_t)opts->ranks * (opts->is_tagged ? 3 : 1) + 48;

    if (getrlimit(RLIMIT_NOFILE, &first_files) != 0) {
        return -1;
    }
    files = first_files;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_max != RLIM_INFINITY && files.rlim_max < needed) {
        run_say("%d ranks need %llu open files, %llu are allowed: raise the limit (ulimit -n)",
                opts->ranks, (unsigned long long)needed, (unsigned long long)files.rlim_max);
        return RUN_BROKEN;
    }
    return -1;
}

/* The launcher was perhaps started with files that none of its children is to keep. */
void run_files_close(void)
{
    struct dirent *item;
    DIR *directory = opendir("/proc/self/fd");

    while (directory != NULL && (item = readdir(directory)) != NULL) {
        int fd = item->d_name[0] == '.' ? -1 : (int)strtol(item->d_name, NULL, 10);
        if (fd > STDERR_FILENO && fd != dirfd(directory)) {
            close(fd);
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
}

static void become(const struct run_job *job, int rank, char **env)
{
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
        (void)signal(always[i], SIG_DFL);
    }
    if (!was_pipe_ignored) {
        (void)signal(SIGPIPE, SIG_DFL);
    }
    run_stdin_child(rank);
    run_io_child(rank);
    run_bind_apply(rank);
    (void)setrlimit(RLIMIT_NOFILE, &first_files);
    (void)umask(first_umask);
    sigprocmask(SIG_SETMASK, &first_mask, NULL);
    (void)execvpe(job->path, job->opts.program, env);
}

static void child(const struct run_job *job, int rank, char **env, pid_t supervisor)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor) {
        _exit(RUN_BROKEN);
    }
    (void)setpgid(0, 0);
    become(job, rank, env);
    atomic_store(&job->board->notes[rank].exec_errno, errno);
    _exit(RUN_CANNOT);
}

static int open_pidfd(pid_t pid)
{
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, pid, 0);
#else
    (void)pid;
    return -1;
#endif
}

int run_process_watch(const struct run_job *job, pid_t pid, enum run_event kind, int index)
{
    int pidfd = open_pidfd(pid);

    if (pidfd >= 0 && !run_watch(job, pidfd, EPOLLIN, kind, index)) {
        close(pidfd);
        pidfd = -1;
    }
    return pidfd;
}

/* Kept to the end, as what nothing points at would count as lost. */
static char **rank_env;

static int start_rank(struct run_job *job, int rank, char **env, pid_t supervisor)
{
    struct run_process *self = &job->ranks[rank];
    char place[256];
    int error = run_io_rank_open(job, rank);

    self->pid = error == 0 ? fork() : -1;
    if (self->pid == 0) {
        child(job, rank, env, supervisor);
    }
    if (self->pid < 0) {
        error = error == 0 ? errno : error;
        self->pid = 0;
        return error;
    }
    (void)setpgid(self->pid, self->pid);
    run_io_rank_started(rank);
    run_stdin_started(rank);
    self->pidfd = run_process_watch(job, self->pid, RUN_ON_RANK_END, rank);
    job->live++;
    run_trace(job, "rank %d is process %d, %s", rank, (int)self->pid,
              run_bind_text(rank, place, sizeof(place)));
    return 0;
}

int run_ranks_start(struct run_job *job)
{
    static char name[32];
    size_t slot = 0;
    int error = 0;
    pid_t supervisor = getpid();
    rank_env = run_env_make(job->board, &slot);
    if (rank_env == NULL) {
        run_say("no memory for the environment of the ranks");
        return RUN_BROKEN;
    }
    rank_env[slot] = name;
    for (int rank = 0; rank < job->opts.ranks && error == 0; rank++) {
        snprintf(name, sizeof(name), "PMIX_RANK=%d", rank);
        error = start_rank(job, rank, rank_env, supervisor);
        if (error != 0) {
            run_say("cannot start rank %d of %d: %s%s", rank, job->opts.ranks, strerror(error),
                    error == EAGAIN ? ": raise the limit of processes (ulimit -u)" : "");
        }
    }
    return error == 0 ? -1 : RUN_BROKEN;
}

/* To each rank and its group. */
void run_ranks_signal(const struct run_job *job, int signal_number)
{
    for (int rank = 0; rank < job->opts.ranks; rank++) {
        const struct run_process *self = &job->ranks[rank];
        if (self->pid <= 0 || self->is_reaped) {
            continue;
        }
        /* Once, where the rank is in its group: a program may count signals. */
        if (kill(-self->pid, signal_number) != 0 || getpgid(self->pid) != self->pid) {
            (void)kill(self->pid, signal_number);
        }
    }
}
