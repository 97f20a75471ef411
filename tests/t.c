/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Help for tests; see t.h. The parent forks, watches the clock and collects; a child ends with
 * _exit, so that nothing of the test framework that it inherited runs in it. Children die with
 * their parent. Orphans that a rank leaves come to the parent, who tells of them.
 */
#include "tests/t.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/boot/boot.h"
#include "oriel.h"

#define RANKS_MAX   256
#define GRACE_S     2.0
#define FAILED_EXIT 1

/* Lies behind the shared memory that tests see. */
struct meeting {
    atomic_uint came;
    atomic_uint round;
    _Atomic unsigned char died[RANKS_MAX];
};

struct group {
    int n;
    pid_t pid[RANKS_MAX]; /* 0: ended and collected */
    int running;
    int result; /* of the first that failed */
    double end; /* when the rest is killed */
};

int t_limit_s = 20;
int t_hosts = 1;
int t_rank = -1;
void *t_shared;
static struct meeting *meeting;

/* Coverage builds have it; a child that ends with _exit must ask for it. */
extern void dump_coverage(void) __asm__("__gcov_dump") __attribute__((weak));

static void leave(int status)
{
    if (dump_coverage != NULL) {
        dump_coverage();
    }
    (void)fflush(NULL);
    _exit(status);
}

/* ---------------------------------------------------------------- the parent */

static bool open_shared(void)
{
    void *memory = mmap(NULL, T_SHARED_BYTES + sizeof(struct meeting), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        return false;
    }
    t_shared = memory;
    meeting = (struct meeting *)(void *)((char *)memory + T_SHARED_BYTES);
    return true;
}

static void close_shared(void)
{
    (void)munmap(t_shared, T_SHARED_BYTES + sizeof(struct meeting));
    t_shared = NULL;
    meeting = NULL;
}

static int status_of(int wait_status, int rank)
{
    if (atomic_load(&meeting->died[rank]) != 0) {
        return 0;
    }
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

static void kill_rest(struct group *group)
{
    for (int i = 0; i < group->n; i++) {
        if (group->pid[i] > 0) {
            (void)kill(group->pid[i], SIGKILL);
        }
    }
}

static void collect(struct group *group, int i, int wait_status, bool killed)
{
    int status = status_of(wait_status, i);

    group->pid[i] = 0;
    group->running--;
    if (status == 0 || killed) {
        return;
    }
    (void)fprintf(stderr, "rank %d ended with status %d\n", i, status);
    if (group->result == 0) {
        group->result = status;
        if (group->end > t_now() + GRACE_S) {
            group->end = t_now() + GRACE_S;
        }
    }
}

static void sweep(struct group *group, bool killed)
{
    for (int i = 0; i < group->n; i++) {
        int wait_status;

        if (group->pid[i] > 0 && waitpid(group->pid[i], &wait_status, WNOHANG) > 0) {
            collect(group, i, wait_status, killed);
        }
    }
}

static void end_late(struct group *group)
{
    if (group->result == 0) {
        (void)fprintf(stderr, "%d ranks did not end within %d s\n", group->running, t_limit_s);
        group->result = T_TIMEOUT;
    }
    kill_rest(group);
}

static void watch(struct group *group)
{
    int sleep_ms = 1;
    bool killed = false;

    for (;;) {
        sweep(group, killed);
        if (group->running == 0) {
            return;
        }
        if (!killed && t_now() > group->end) {
            killed = true;
            end_late(group);
        }
        t_sleep_ms(sleep_ms);
        sleep_ms = sleep_ms < 16 ? sleep_ms * 2 : 16;
    }
}

/* Whether a process that a rank made is still there: it has become our child. */
static bool has_left_child(void)
{
    for (int i = 0; i < 50; i++) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);

        if (pid < 0) {
            return false;
        }
        if (pid == 0) {
            t_sleep_ms(10);
        }
    }
    return true;
}

static void become(struct core_boot_group *boot, int rank, pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(FAILED_EXIT);
    }
    t_rank = rank;
    if (boot != NULL) {
        core_boot_group_use(boot, rank);
    }
}

static int run_group(int n, struct core_boot_group *boot, t_rank_fn fn, void *arg)
{
    struct group group = { .n = n, .end = t_now() + t_limit_s };
    pid_t parent = getpid();

    (void)fflush(NULL);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int i = 0; i < n; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            become(boot, i, parent);
            leave(fn(i, arg));
        }
        if (pid < 0) {
            perror("fork");
            group.n = i;
            group.result = T_LEFT_CHILD;
            kill_rest(&group);
            break;
        }
        group.pid[i] = pid;
        group.running++;
    }
    watch(&group);
    if (has_left_child() && group.result == 0) {
        (void)fprintf(stderr, "a rank left a process behind\n");
        group.result = T_LEFT_CHILD;
    }
    return group.result;
}

/* T_HOSTS=2 in the environment runs what would be on one host on two. */
static void spread(struct core_boot_group *boot)
{
    const char *wanted = getenv("T_HOSTS");
    int hosts = t_hosts == 1 && wanted != NULL ? (int)strtol(wanted, NULL, 10) : t_hosts;

    core_boot_group_spread(boot, hosts < 0 ? -hosts : hosts, hosts < 0);
}

int t_ranks(int n, t_rank_fn fn, void *arg)
{
    struct core_boot_group *boot;
    int result;

    if (n < 1 || n > RANKS_MAX || !open_shared()) {
        return FAILED_EXIT;
    }
    boot = core_boot_group_create(n);
    if (boot == NULL) {
        result = FAILED_EXIT;
    } else {
        spread(boot);
        result = run_group(n, boot, fn, arg);
    }
    core_boot_group_free(boot);
    close_shared();
    return result;
}

int t_child(t_rank_fn fn, void *arg)
{
    int result;

    if (!open_shared()) {
        return FAILED_EXIT;
    }
    result = run_group(1, NULL, fn, arg);
    close_shared();
    return result;
}

struct job {
    t_rank_fn fn;
    void *arg;
};

static int run_initialised(int rank, void *arg)
{
    const struct job *job = arg;
    int status;

    t_check_ok(oriel_init(NULL));
    status = job->fn(rank, job->arg);
    if (status == 0) {
        t_check_ok(oriel_finalize());
    }
    return status;
}

int t_job(int n, t_rank_fn fn, void *arg)
{
    struct job job = { fn, arg };

    return t_ranks(n, run_initialised, &job);
}

/* ---------------------------------------------------------------- inside a rank */

void t_meet(int n)
{
    unsigned round = atomic_load(&meeting->round);

    if (atomic_fetch_add(&meeting->came, 1) + 1 == (unsigned)n) {
        atomic_store(&meeting->came, 0);
        atomic_fetch_add(&meeting->round, 1);
        return;
    }
    while (atomic_load(&meeting->round) == round) {
        (void)sched_yield();
    }
}

void t_mark_dying(void)
{
    atomic_store(&meeting->died[t_rank], 1);
}

void t_die(void)
{
    t_mark_dying();
    for (;;) {
        (void)kill(getpid(), SIGKILL);
    }
}

static void tell(const char *text, const char *file, int line, const char *more)
{
    (void)fprintf(stderr, "%s:%d: rank %d: failed: %s%s\n", file, line, t_rank, text, more);
}

/* A rank ends; the test process, which has no rank, is stopped where a debugger looks. */
static void fail(void)
{
    if (t_rank >= 0) {
        leave(FAILED_EXIT);
    }
    abort();
}

void t_check_at(int holds, const char *text, const char *file, int line)
{
    if (!holds) {
        tell(text, file, line, "");
        fail();
    }
}

void t_check_eq_at(long long got, long long want, const char *text, const char *file, int line)
{
    char more[96];

    if (got != want) {
        (void)snprintf(more, sizeof(more), ": is %lld (0x%llx), not %lld", got, got, want);
        tell(text, file, line, more);
        fail();
    }
}

void t_check_ok_at(int status, const char *text, const char *file, int line)
{
    char more[640];

    if (status != 0) {
        (void)snprintf(more, sizeof(more), ": %s: %s", oriel_error_name(status),
                       oriel_error_detail());
        tell(text, file, line, more);
        fail();
    }
}
