/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output of the ranks and of the launcher itself. Untagged, ranks write to the launcher's own
 * stdout and stderr. Tagged, they write to pipes; whole lines go to a sink with their tag before
 * them. A sink never blocks on a slow reader: what does not fit waits in memory, and while much
 * waits no pipe is read, so that the ranks wait in turn and signals are still heard.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CHUNK_BYTES    65536
#define LINE_BYTES_MAX 1048576
#define QUEUE_BYTES    1048576 /* of waiting output, at which the pipes are left alone */
#define SAY_WAIT_MS    1000

/* How a sink is kept from blocking. */
enum sink_kind {
    SINK_PLAIN,
    SINK_NONBLOCK,
    SINK_SOCKET,
    SINK_PIECES
};

struct sink {
    int fd;
    enum sink_kind kind;
    bool is_broken;
    bool is_watched;
    char *data; /* owned; waiting from taken to used */
    size_t taken;
    size_t used;
    size_t capacity;
};

struct source {
    int fd;     /* our end, or -1 */
    int their;  /* the rank's end until it is started, or -1 */
    char *line; /* owned; begun and without its end */
    size_t used;
    size_t capacity;
};

static struct sink sinks[2] = { { .fd = STDOUT_FILENO }, { .fd = STDERR_FILENO } };
static struct sink *sink_of[2] = { &sinks[0], &sinks[1] };
static struct source *sources; /* two per rank; NULL when output is not tagged */
static int open_sources;
static bool is_held; /* the pipes are not read for now */

/* Write to the sink without waiting; -1: nothing taken. */
static ssize_t offer(const struct sink *sink, const char *data, size_t bytes)
{
    struct pollfd room = { .fd = sink->fd, .events = POLLOUT };

    switch (sink->kind) {
    case SINK_SOCKET:
        return send(sink->fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    case SINK_PIECES:
        /* A pipe or terminal that is ready takes this much without blocking. */
        if (poll(&room, 1, 0) != 1) {
            errno = EAGAIN;
            return -1;
        }
        return write(sink->fd, data, bytes > PIPE_BUF ? PIPE_BUF : bytes);
    case SINK_PLAIN:
    case SINK_NONBLOCK:
    default:
        return write(sink->fd, data, bytes);
    }
}

/* Hand on what waits. False: the reader is gone. */
static bool pump(struct sink *sink)
{
    while (sink->taken < sink->used && !sink->is_broken) {
        ssize_t put = offer(sink, sink->data + sink->taken, sink->used - sink->taken);
        if (put >= 0) {
            sink->taken += (size_t)put;
        } else if (errno == EAGAIN) {
            return true;
        } else if (errno != EINTR) {
            sink->is_broken = true;
        }
    }
    sink->taken = 0;
    sink->used = 0;
    return !sink->is_broken;
}

static void append(struct sink *sink, const char *data, size_t bytes)
{
    if (bytes == 0) {
        return;
    }
    if (sink->taken > 0 && sink->used + bytes > sink->capacity) {
        memmove(sink->data, sink->data + sink->taken, sink->used - sink->taken);
        sink->used -= sink->taken;
        sink->taken = 0;
    }
    if (sink->used + bytes > sink->capacity) {
        size_t capacity = (sink->used + bytes) * 2;
        char *larger = realloc(sink->data, capacity);
        if (larger == NULL) {
            return;
        }
        sink->data = larger;
        sink->capacity = capacity;
    }
    memcpy(sink->data + sink->used, data, bytes);
    sink->used += bytes;
}

/* One line to stderr in one piece, behind what waits there already. A reader who has stopped may
 * lose it, but does not stop the launcher. */
__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list args)
{
    static char line[8192];
    struct pollfd room = { .fd = STDERR_FILENO, .events = POLLOUT };
    int used = snprintf(line, sizeof(line), "oriel-run: ");
    int more = vsnprintf(line + used, sizeof(line) - (size_t)used - 1, format, args);
    size_t bytes = (size_t)used + (more < 0 ? 0 : (size_t)more);

    if (bytes > sizeof(line) - 2) {
        bytes = sizeof(line) - 2;
    }
    line[bytes++] = '\n';
    if (sources != NULL) {
        append(sink_of[1], line, bytes);
        (void)pump(sink_of[1]);
    } else if (poll(&room, 1, SAY_WAIT_MS) == 1) {
        (void)!write(STDERR_FILENO, line, bytes);
    }
}

void run_say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(format, args);
    va_end(args);
}

void run_trace(const struct run_job *job, const char *format, ...)
{
    static char text[4096];
    va_list args;

    if (!job->opts.is_verbose) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    run_say("%6.1f ms: %s", (double)(run_now_ns() - job->started_ns) * 1e-6, text);
}

/* A description of our own may be set non-blocking without doing so to everybody who shares the
 * one we were given. */
static void open_sink(struct sink *sink)
{
    struct stat info;
    char path[32];

    if (fstat(sink->fd, &info) != 0 || S_ISREG(info.st_mode)) {
        return;
    }
    if (S_ISSOCK(info.st_mode)) {
        sink->kind = SINK_SOCKET;
        return;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", sink->fd);
    int own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    sink->kind = own >= 0 ? SINK_NONBLOCK : SINK_PIECES;
    sink->fd = own >= 0 ? own : sink->fd;
}

static bool are_the_same(int one, int other)
{
    struct stat a;
    struct stat b;

    return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino && a.st_rdev == b.st_rdev;
}

int run_io_open(struct run_job *job)
{
    if (!job->opts.is_tagged) {
        return -1;
    }
    sources = calloc((size_t)job->opts.ranks * 2, sizeof(*sources));
    if (sources == NULL) {
        run_say("no memory for %d ranks", job->opts.ranks);
        return RUN_BROKEN;
    }
    for (int i = 0; i < job->opts.ranks * 2; i++) {
        sources[i].fd = -1;
        sources[i].their = -1;
    }
    if (are_the_same(STDOUT_FILENO, STDERR_FILENO)) {
        sink_of[1] = sink_of[0];
    }
    open_sink(&sinks[0]);
    open_sink(&sinks[1]);
    return -1;
}

static bool watch_source(const struct run_job *job, int index)
{
    return run_watch(job, sources[index].fd, EPOLLIN,
                     index % 2 == 0 ? RUN_ON_OUTPUT : RUN_ON_ERRORS, index / 2);
}

int run_io_rank_open(struct run_job *job, int rank)
{
    for (int i = 0; i < 2 && sources != NULL; i++) {
        struct source *source = &sources[rank * 2 + i];
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) {
            return errno;
        }
        source->fd = ends[0];
        source->their = ends[1];
        (void)fcntl(source->fd, F_SETFL, O_NONBLOCK);
        if (!is_held && !watch_source(job, rank * 2 + i)) {
            return errno;
        }
        open_sources++;
    }
    return 0;
}

void run_io_child(int rank)
{
    if (sources != NULL) {
        (void)dup2(sources[rank * 2 + 0].their, STDOUT_FILENO);
        (void)dup2(sources[rank * 2 + 1].their, STDERR_FILENO);
    }
}

void run_io_rank_started(int rank)
{
    for (int i = 0; i < 2 && sources != NULL; i++) {
        close(sources[rank * 2 + i].their);
        sources[rank * 2 + i].their = -1;
    }
}

/* Watch a sink that did not take all; returns how much waits for it. */
static size_t watch_sink(struct run_job *job, int index)
{
    struct sink *sink = &sinks[index];
    size_t waiting = sink->is_broken ? 0 : sink->used - sink->taken;

    if (waiting > 0 && !sink->is_watched) {
        (void)run_watch(job, sink->fd, EPOLLOUT, RUN_ON_SINK, index);
    } else if (waiting == 0 && sink->is_watched) {
        run_unwatch(job, sink->fd);
    }
    sink->is_watched = waiting > 0;
    return waiting;
}

/* Leave the pipes alone while much waits. */
static void balance(struct run_job *job)
{
    size_t waiting = watch_sink(job, 0) + watch_sink(job, 1);

    if ((waiting >= QUEUE_BYTES) == is_held) {
        return;
    }
    is_held = waiting >= QUEUE_BYTES;
    for (int i = 0; i < job->opts.ranks * 2; i++) {
        if (sources[i].fd >= 0 && is_held) {
            run_unwatch(job, sources[i].fd);
        } else if (sources[i].fd >= 0) {
            (void)watch_source(job, i);
        }
    }
}

static void put_line(const struct source *source, const char *rest, size_t bytes)
{
    int index = (int)(source - sources);
    struct sink *sink = sink_of[index % 2];
    char tag[32];
    int used = snprintf(tag, sizeof(tag), index % 2 == 0 ? "[%d] " : "[%d:err] ", index / 2);

    append(sink, tag, (size_t)used);
    append(sink, source->line, source->used);
    append(sink, rest, bytes);
    append(sink, "\n", 1);
}

static void keep_rest(struct source *source, const char *rest, size_t bytes)
{
    if (bytes > source->capacity - source->used) {
        size_t capacity = (source->used + bytes) * 2;
        char *larger = realloc(source->line, capacity);
        if (larger == NULL) {
            return;
        }
        source->line = larger;
        source->capacity = capacity;
    }
    memcpy(source->line + source->used, rest, bytes);
    source->used += bytes;
}

static void split(struct source *source, const char *text, size_t bytes)
{
    const char *end;

    while ((end = memchr(text, '\n', bytes)) != NULL) {
        put_line(source, text, (size_t)(end - text));
        source->used = 0;
        bytes -= (size_t)(end + 1 - text);
        text = end + 1;
    }
    if (source->used + bytes > LINE_BYTES_MAX) {
        put_line(source, text, bytes);
        source->used = 0;
    } else if (bytes > 0) {
        keep_rest(source, text, bytes);
    }
}

static void close_source(struct run_job *job, struct source *source)
{
    if (source->used > 0) {
        put_line(source, "", 0);
    }
    run_unwatch(job, source->fd);
    close(source->fd);
    free(source->line);
    *source = (struct source){ .fd = -1, .their = -1 };
    open_sources--;
}

static void read_source(struct run_job *job, struct source *source)
{
    static char chunk[CHUNK_BYTES];
    ssize_t got = source->fd < 0 || is_held ? -1 : read(source->fd, chunk, sizeof(chunk));

    if (got > 0) {
        split(source, chunk, (size_t)got);
    } else if (got == 0) {
        close_source(job, source);
    }
}

void run_io_event(struct run_job *job, enum run_event kind, int rank)
{
    if (kind == RUN_ON_OUTPUT || kind == RUN_ON_ERRORS) {
        read_source(job, &sources[rank * 2 + (kind == RUN_ON_ERRORS)]);
    }
    bool is_read = pump(&sinks[0]);
    is_read = pump(&sinks[1]) && is_read;
    balance(job);
    if (!is_read && !job->is_ending) {
        run_say("the reader of the output is gone: the job is ended");
        run_stop(job, RUN_BY_SIGNAL + SIGPIPE);
    }
}

bool run_io_has_queue(void)
{
    return sinks[0].is_watched || sinks[1].is_watched;
}

bool run_io_has_pipes(void)
{
    return open_sources > 0 && !sinks[0].is_broken && !sinks[1].is_broken;
}
