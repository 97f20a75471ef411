/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Standard input: rank 0's. Rank 0 inherits it, so nothing is swallowed that it does not read; the
 * others have the null device. A terminal is different: ranks are in process groups of their own,
 * which may not read it, so the launcher reads it for rank 0 while it is in the foreground itself.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

static int null_input = -1;
static int feed_in = -1;  /* our end of the pipe to rank 0, when stdin is a terminal */
static int feed_out = -1; /* its end, until it is started */
static char text[4096];   /* read from the terminal and not yet taken by rank 0 */
static size_t taken;
static size_t used;

int run_stdin_open(struct run_job *job)
{
    int ends[2];

    null_input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null_input < 0) {
        run_say("cannot open /dev/null for the ranks to read");
        return RUN_BROKEN;
    }
    if (isatty(STDIN_FILENO) && pipe2(ends, O_CLOEXEC) == 0) {
        feed_out = ends[0];
        feed_in = ends[1];
        (void)fcntl(feed_in, F_SETFL, O_NONBLOCK);
        run_stdin_continue(job);
    }
    return -1;
}

void run_stdin_child(int rank)
{
    if (rank > 0) {
        (void)dup2(null_input, STDIN_FILENO);
    } else if (feed_out >= 0) {
        (void)dup2(feed_out, STDIN_FILENO);
    }
}

void run_stdin_started(int rank)
{
    if (rank == 0 && feed_out >= 0) {
        close(feed_out);
        feed_out = -1;
    }
}

static void close_feed(struct run_job *job)
{
    run_unwatch(job, STDIN_FILENO);
    run_unwatch(job, feed_in);
    close(feed_in);
    feed_in = -1;
    used = 0;
}

/* Hand on what was typed; the terminal is read again when all of it is taken. */
static void pump(struct run_job *job)
{
    ssize_t put = write(feed_in, text + taken, used - taken);
    if (put < 0 && errno != EAGAIN && errno != EINTR) {
        close_feed(job);
        return;
    }
    taken += put > 0 ? (size_t)put : 0;
    run_unwatch(job, STDIN_FILENO);
    run_unwatch(job, feed_in);
    if (taken < used) {
        (void)run_watch(job, feed_in, EPOLLOUT, RUN_ON_FEED, 0);
    } else {
        (void)run_watch(job, STDIN_FILENO, EPOLLIN, RUN_ON_TERMINAL, 0);
    }
}

void run_stdin_event(struct run_job *job, enum run_event kind)
{
    if (feed_in < 0) {
        return;
    }
    if (kind == RUN_ON_FEED) {
        pump(job);
        return;
    }
    if (tcgetpgrp(STDIN_FILENO) != getpgrp()) {
        run_unwatch(job, STDIN_FILENO);
        return;
    }
    ssize_t got = read(STDIN_FILENO, text, sizeof(text));
    if (got > 0) {
        taken = 0;
        used = (size_t)got;
        pump(job);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_feed(job);
    }
}

void run_stdin_continue(struct run_job *job)
{
    if (feed_in >= 0 && taken == used) {
        (void)run_watch(job, STDIN_FILENO, EPOLLIN, RUN_ON_TERMINAL, 0);
    }
}
