/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel-run's own header. One supervisor process starts and ends the ranks; two children help it:
 * the PMIx server, the only process that calls libpmix, and the cleaner, which outlives a
 * supervisor that is killed. They share the board, a piece of anonymous memory.
 *
 *   oriel-run.c   the course of a job       run_ranks.c   one rank: start, end, kill
 *   run_opts.c    command line              run_death.c   what the end of a rank means
 *   run_env.c     environment of the ranks  run_server.c  the PMIx server
 *   run_bind.c    cores                     run_clean.c   session directory, cleaner
 *   run_io.c      stdin and tagged output   run_tree.c    processes found by /proc
 */
#ifndef TOOLS_RUN_H
#define TOOLS_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_RANKS_MAX  4096
#define RUN_NAME_BYTES 32
#define RUN_ENV_BYTES  16384
/* For hwloc, where its plugins are not wanted: a directory that is none. */
#define RUN_NO_PLUGINS "/dev/null"

/* Exit statuses that are not a rank's. */
enum run_exit {
    RUN_FAILED = 1,
    RUN_USAGE = 2,
    RUN_TIMEOUT = 124,
    RUN_BROKEN = 125,
    RUN_CANNOT = 126,
    RUN_UNKNOWN = 127,
    RUN_BY_SIGNAL = 128
};

enum run_bind {
    RUN_BIND_AUTO,
    RUN_BIND_NONE,
    RUN_BIND_CORE
};

struct run_opts {
    int ranks;
    enum run_bind bind;
    bool is_tagged;
    bool keeps_going;
    bool is_verbose;
    int64_t limit_ns; /* 0: none */
    char **program;   /* program and its arguments, as given */
};

/* How far a rank's PMIx client has come; the server writes, the supervisor reads. */
enum run_joined {
    RUN_NEVER,
    RUN_JOINED,
    RUN_LEFT
};

struct run_note {
    _Atomic int joined;     /* enum run_joined */
    _Atomic int exec_errno; /* written by a child that could not become the program */
};

struct run_board {
    _Atomic bool is_ready;  /* env and env_bytes are valid */
    _Atomic int abort_rank; /* who called PMIx_Abort, or -1; the next two are valid then */
    int abort_status;
    char abort_text[200];
    char error[200]; /* of a server that could not start */
    size_t env_bytes;
    char env[RUN_ENV_BYTES]; /* NAME=VALUE strings with their ends, for every rank but PMIX_RANK */
    struct run_note notes[];
};

struct run_process {
    pid_t pid;  /* 0: not started */
    int pidfd;  /* -1 where the kernel has none */
    int status; /* of waitpid, when is_reaped */
    bool is_reaped;
    bool is_ended;  /* its end was looked at */
    bool is_absent; /* a rank that ended well without ever joining */
};

struct run_job {
    struct run_opts opts;
    const char *path; /* the program's file */
    char host[256];
    char name[RUN_NAME_BYTES]; /* PMIx namespace, and last part of the session directory */
    char *directory;           /* owned */
    int cleaner_pipe;
    pid_t cleaner;
    struct run_board *board;
    struct run_process server;
    int orders; /* to the server */
    int wake;   /* from the server */
    int signals;
    int epoll;
    struct run_process *ranks; /* owned */
    int live;                  /* started and not ended */
    int absent;                /* how many are is_absent */
    int *suspects;             /* owned; ranks that failed while another was dying, in order */
    int suspect_count;
    int64_t judge_at_ns; /* when the suspects are found guilty at the latest */
    bool is_ending;
    bool is_server_closing;
    bool is_hurried; /* by a signal or the clock: output that nobody takes is given up */
    int status;      /* what the job will exit with */
    int64_t started_ns;
    int64_t kill_at_ns; /* when those that ignore SIGTERM are killed */
};

/* What an epoll event is about; the low half of its data is a rank where one belongs to it. */
enum run_event {
    RUN_ON_SIGNAL,
    RUN_ON_SERVER,
    RUN_ON_SERVER_END,
    RUN_ON_RANK_END,
    RUN_ON_OUTPUT,
    RUN_ON_ERRORS,
    RUN_ON_SINK,
    RUN_ON_TERMINAL,
    RUN_ON_FEED
};

/* oriel-run.c */
int64_t run_now_ns(void);
/* Begin the end of the job; the first caller's status stands. */
void run_stop(struct run_job *job, int status);
bool run_watch(const struct run_job *job, int fd, uint32_t events, enum run_event kind, int index);
void run_unwatch(const struct run_job *job, int fd);

/* run_opts.c: -1, or the status to exit with; an error has been printed. */
int run_opts_read(struct run_opts *opts, int argc, char **argv);
/* Where the program is, owned by the caller; NULL: printed why not, *status says how to exit. */
char *run_program_find(const char *name, int *status);

/* run_env.c */
/* Forget what the launcher around this one has left. */
void run_env_clean(void);
/* In the cleaner: be no longer found by the launcher around this one. */
void run_env_hide(void);
/* What server and ranks both need, to be set before either starts. */
void run_env_common(bool is_oversubscribed);
/* The environment of all ranks, owned by the caller; the entry at *rank_slot is PMIX_RANK's. */
char **run_env_make(const struct run_board *board, size_t *rank_slot);

/* run_bind.c */
/* Cores for the ranks; -1, or the status to exit with. Printed why. */
int run_bind_plan(const struct run_opts *opts);
/* In the child that becomes the rank. */
void run_bind_apply(int rank);
/* "on core 3, cpus 6-7" or "not bound", for -v. */
const char *run_bind_text(int rank, char *text, size_t bytes);
/* CPUs this process may run on. */
int run_bind_cpus(void);

/* run_io.c */
void run_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void run_trace(const struct run_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int run_io_open(struct run_job *job);
/* The pipes of a rank: make them (0 or an errno), use them in its process, close its ends here. */
int run_io_rank_open(struct run_job *job, int rank);
void run_io_child(int rank);
void run_io_rank_started(int rank);
void run_io_event(struct run_job *job, enum run_event kind, int rank);
/* Is there output that has not been handed on, or a pipe that may bring more? */
bool run_io_has_queue(void);
bool run_io_has_pipes(void);

/* run_stdin.c: the same steps. */
int run_stdin_open(struct run_job *job);
void run_stdin_child(int rank);
void run_stdin_started(int rank);
void run_stdin_event(struct run_job *job, enum run_event kind);
/* After a stop the terminal may be ours again. */
void run_stdin_continue(struct run_job *job);

/* run_ranks.c */
/* All, or -1 does not come back: the status to exit with, printed why. */
int run_ranks_start(struct run_job *job);
void run_ranks_signal(const struct run_job *job, int signal_number);
/* Returns a signalfd for all that the supervisor handles, which are blocked from now on. */
int run_signals_open(void);
/* Allow as many open files as can be; -1, or the status to exit with when that is too few. */
int run_files_raise(const struct run_opts *opts);
/* Close all but the standard three. */
void run_files_close(void);
/* Watch for the end of a child; returns a pidfd, or -1: SIGCHLD alone will tell. */
int run_process_watch(const struct run_job *job, pid_t pid, enum run_event kind, int index);

/* run_death.c */
void run_reap(struct run_job *job);
void run_rank_ended(struct run_job *job, int rank);
/* Name those who failed while another was dying, if that is known now. */
void run_judge(struct run_job *job);
void run_server_said(struct run_job *job);
void run_server_ended(struct run_job *job);

/* run_server.c: forks the server; returns false and prints when it cannot. */
bool run_server_start(struct run_job *job);
/* Tell the ranks that are left that one is gone. */
void run_server_tell(const struct run_job *job, int rank, bool by_signal, int exit_code);

/* run_clean.c */
/* Make the session directory, lock it, fork the cleaner. */
bool run_session_open(struct run_job *job);
/* Remove the directory and let the cleaner go. */
void run_session_close(struct run_job *job);

/* run_tree.c */
typedef void (*run_process_fn)(pid_t pid, void *argument);
/* Calls visit with each child of this process; returns how many there were, -1 where the kernel
 * does not tell. */
int run_tree_children(run_process_fn visit, void *argument);
/* Has the child begun to exit? False where /proc is that of another process space. */
bool run_tree_is_dying(pid_t pid);
/* Kills every process whose environment has entry; returns how many there were. */
int run_tree_kill_by_entry(const char *entry);

#endif
