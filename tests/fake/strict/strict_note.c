/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings, counters, complaints: what belongs to the process and not to an object.
 */
#include "strict.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

struct st_conf st_conf;
struct strict_counts st_counts;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t state;
static char last[512];

static const struct setting {
    const char *name;
    uint64_t *value;
    uint64_t standard;
} settings[] = {
    { "SEED", &st_conf.seed, 1 },          { "DEPTH", &st_conf.depth, 0 },
    { "RX", &st_conf.rx_size, 64 },        { "MSG_MAX", &st_conf.msg_max, 4096 },
    { "RMA_MAX", &st_conf.rma_max, 4096 }, { "INJECT", &st_conf.inject, 0 },
    { "EAGAIN", &st_conf.eagain, 10 },     { "REORDER", &st_conf.reorder, 12 },
    { "EARLY", &st_conf.early, 50 },       { "DROP", &st_conf.drop, 0 },
    { "REG_FAIL", &st_conf.reg_fail, 0 },  { "CQ_FAIL", &st_conf.cq_fail, 0 },
    { "WAIT", &st_conf.wait, 1 },          { "DC", &st_conf.dc, 1 },
    { "RX_DATA", &st_conf.rx_data, 0 },    { "ABORT", &st_conf.abort, 0 },
    { "VERBOSE", &st_conf.verbose, 0 },
};
#define NSETTINGS (sizeof settings / sizeof settings[0])

/* ---------------------------------------------------------------- settings */

/* Ranks of a job have one seed and must not do the same. */
static uint64_t rank_of_job(void)
{
    static const char *const names[] = { "PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK",
                                         "SLURM_PROCID" };
    size_t i;

    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = getenv(names[i]);

        if (text != NULL) {
            return strtoull(text, NULL, 10) + 1;
        }
    }
    return 0;
}

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void load(void)
{
    static const uint64_t depths[] = { 1, 2, 1, 16, 4 };
    const char *inner = getenv("STRICT_INNER");
    size_t i;

    for (i = 0; i < NSETTINGS; i++) {
        char name[64];
        const char *text;

        (void)snprintf(name, sizeof name, "STRICT_%s", settings[i].name);
        text = getenv(name);
        *settings[i].value =
            text == NULL || *text == '\0' ? settings[i].standard : strtoull(text, NULL, 0);
    }
    if (st_conf.depth == 0) {
        st_conf.depth = depths[st_conf.seed % (sizeof depths / sizeof depths[0])];
    }
    (void)snprintf(st_conf.inner, sizeof st_conf.inner, "%s", inner == NULL ? "net" : inner);
    state = mix(st_conf.seed ^ (rank_of_job() << 32)) | 1;
}

void st_conf_load(void)
{
    (void)pthread_once(&once, load);
}

static int set(const char *name, uint64_t value)
{
    size_t i;

    st_conf_load();
    for (i = 0; i < NSETTINGS; i++) {
        if (strcasecmp(settings[i].name, name) == 0) {
            st_lock();
            *settings[i].value = value;
            if (settings[i].value == &st_conf.seed) {
                state = mix(value) | 1;
            }
            st_unlock();
            return 1;
        }
    }
    return 0;
}

/* ---------------------------------------------------------------- lock, chance, time */

void st_lock(void)
{
    (void)pthread_mutex_lock(&lock);
}

void st_unlock(void)
{
    (void)pthread_mutex_unlock(&lock);
}

uint64_t st_random(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below == 0 ? 0 : (state >> 11) % below;
}

uint64_t st_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---------------------------------------------------------------- complaints */

static void say(const char *kind, const char *text)
{
    char line[1024];
    int n = snprintf(line, sizeof line,
                     "strict: %s: %s (STRICT_SEED=%llu STRICT_DEPTH=%llu, process %d)\n", kind,
                     text, (unsigned long long)st_conf.seed, (unsigned long long)st_conf.depth,
                     (int)getpid());

    if (n > 0) {
        (void)!write(STDERR_FILENO, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
    }
}

void st_violation(const char *format, ...)
{
    char text[sizeof last];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)__atomic_fetch_add(&st_counts.violations, 1, __ATOMIC_RELAXED);
    memcpy(last, text, sizeof last);
    say("violation", text);
    if (st_conf.abort != 0) {
        abort();
    }
}

void st_say(const char *format, ...)
{
    char text[sizeof last];
    va_list args;

    if (st_conf.verbose == 0) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    say("note", text);
}

int st_unsupported(const char *what)
{
    (void)__atomic_fetch_add(&st_counts.unsupported, 1, __ATOMIC_RELAXED);
    st_say("%s is not offered", what);
    return -FI_EOPNOTSUPP;
}

/* ---------------------------------------------------------------- for tests */

static const struct strict_counts *counts(void)
{
    return &st_counts;
}

static const char *violation(void)
{
    static char text[sizeof last];

    memcpy(text, last, sizeof text);
    last[0] = '\0';
    return text;
}

static void drop(const void *address, size_t bytes)
{
    st_lock();
    st_drop(address, bytes);
    st_unlock();
}

/* One line a process, in one write, so that the ranks of a job may share the file. */
static void report(void)
{
    const char *path = getenv("STRICT_REPORT");
    const struct strict_counts *c = &st_counts;
    char line[1024];
    int fd;
    int n;

    if (path == NULL || c->mrs_made + c->posts + c->rx_posts + c->violations == 0) {
        return;
    }
    n = snprintf(
        line, sizeof line,
        "process=%d seed=%llu depth=%llu violations=%llu posts=%llu doorbells=%llu rx_posts=%llu "
        "receives=%llu contexts=%llu mrs=%llu mrs_made=%llu mrs_refused=%llu av_entries=%llu "
        "fids=%llu eagain=%llu unsupported=%llu completions=%llu errors=%llu refused=%llu "
        "early=%llu overtaken=%llu split=%llu rnr=%llu strange=%llu tight=%llu\n",
        (int)getpid(), (unsigned long long)st_conf.seed, (unsigned long long)st_conf.depth,
        (unsigned long long)c->violations, (unsigned long long)c->posts,
        (unsigned long long)c->doorbells, (unsigned long long)c->rx_posts,
        (unsigned long long)c->receives, (unsigned long long)c->contexts,
        (unsigned long long)c->mrs, (unsigned long long)c->mrs_made,
        (unsigned long long)c->mrs_refused, (unsigned long long)c->av_entries,
        (unsigned long long)c->fids, (unsigned long long)c->eagain,
        (unsigned long long)c->unsupported, (unsigned long long)c->completions,
        (unsigned long long)c->errors, (unsigned long long)c->refused, (unsigned long long)c->early,
        (unsigned long long)c->overtaken, (unsigned long long)c->split, (unsigned long long)c->rnr,
        (unsigned long long)c->strange, (unsigned long long)c->tight);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd >= 0) {
        (void)!write(fd, line, (size_t)n);
        (void)close(fd);
    }
}

__attribute__((destructor)) static void report_at_end(void)
{
    report();
}

const struct strict_api st_api = {
    .counts = counts,
    .violation = violation,
    .set = set,
    .drop = drop,
    .report = report,
};

__attribute__((visibility("default"))) const struct strict_api *strict_api(void);

const struct strict_api *strict_api(void)
{
    return &st_api;
}

int st_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    (void)fid;
    (void)flags;
    (void)context;
    if (strcmp(name, STRICT_OPS) != 0) {
        return -FI_ENOSYS;
    }
    memcpy(ops, &(const struct strict_api *){ &st_api }, sizeof *ops);
    return 0;
}

int st_no_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)fid;
    (void)other;
    (void)flags;
    return -FI_ENOSYS;
}

int st_no_control(struct fid *fid, int command, void *arg)
{
    (void)fid;
    (void)command;
    (void)arg;
    return -FI_ENOSYS;
}
