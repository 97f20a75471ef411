/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one put + flush of 8 bytes through a token costs besides time: run by test_instructions.sh,
 * natively and under callgrind. Two ranks are forked; rank 0 puts to rank 1. The calls lie in
 * put_loop alone, which callgrind counts. This program's own malloc counts what is allocated
 * meanwhile, and a strict seccomp filter ends the rank at its first system call.
 *
 *   put_cost count N      run the loop N times (for callgrind)
 *   put_cost allocations  fails when the loop allocates or frees
 *   put_cost syscalls     fails when the loop enters the kernel
 */
#include "core/boot/boot.h"
#include "oriel.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    RANKS = 2,
    TARGET = 1,
    WARM = 100,
    LOOPS = 20000,
    MILLION = 1000000,
    BYTES = 4096,
    PLACE = 64
};

/* ---------------------------------------------------------------- counted allocation */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t n);
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);

static unsigned long allocations;

void *malloc(size_t n)
{
    allocations++;
    return __libc_malloc(n);
}

void *calloc(size_t count, size_t n)
{
    allocations++;
    return __libc_calloc(count, n);
}

void *realloc(void *p, size_t n)
{
    allocations++;
    return __libc_realloc(p, n);
}

void free(void *p)
{
    allocations++;
    __libc_free(p);
}

/* ---------------------------------------------------------------- the loop */

int put_loop(struct oriel_remote *remote, unsigned long n);

/* Not inlined, and known by this name to callgrind. */
__attribute__((noinline)) int put_loop(struct oriel_remote *remote, unsigned long n)
{
    int bad = 0;

    for (uint64_t i = 0; i < n; i++) {
        bad |= oriel_put(remote, PLACE, &i, sizeof(i));
        bad |= oriel_flush(TARGET);
    }
    return bad;
}

/* What a thread does once, and the look at the peers that is due a few times a second, are over
 * when the loop begins. */
static int warm_up(struct oriel_remote *remote)
{
    int bad = 0;

    for (int i = 0; i < WARM; i++) {
        bad |= oriel_put(remote, PLACE, &i, sizeof(i));
        bad |= oriel_put(remote, PLACE, &remote, sizeof(remote));
        bad |= oriel_flush(TARGET);
    }
    return bad;
}

static int count(struct oriel_remote *remote, unsigned long n)
{
    return put_loop(remote, n) == 0 ? 0 : 1;
}

static int count_allocations(struct oriel_remote *remote)
{
    unsigned long before = allocations;
    int bad = put_loop(remote, MILLION);
    unsigned long made = allocations - before;

    printf("%d puts and flushes: %lu allocations\n", MILLION, made);
    return bad == 0 && made == 0 ? 0 : 1;
}

/* Does not come back: the kernel kills a rank that calls it, except to end this thread. */
static int forbid_syscalls(struct oriel_remote *remote)
{
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
        printf("no strict seccomp here: %s\n", strerror(errno));
        fflush(stdout);
        _exit(77);
    }
    syscall(SYS_exit, put_loop(remote, LOOPS) == 0 ? 0 : 1);
    return 1;
}

/* ---------------------------------------------------------------- two ranks */

struct shared {
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
    size_t bytes;
};

static struct shared *shared;

static int must(int status, const char *what)
{
    if (status != ORIEL_OK) {
        fprintf(stderr, "%s: %s\n", what, oriel_error_detail());
        _exit(99);
    }
    return 0;
}

static int target(void)
{
    struct oriel_mem *mem = NULL;

    must(oriel_mem_alloc(BYTES, NULL, &mem), "mem_alloc");
    must(oriel_token_pack(mem, shared->token, sizeof(shared->token), &shared->bytes), "pack");
    must(oriel_barrier(ORIEL_WORLD), "barrier");
    (void)oriel_barrier(ORIEL_WORLD); /* rank 0 may end without a word */
    return 0;
}

static int origin(const char *mode, unsigned long n)
{
    struct oriel_remote *remote = NULL;
    int status;

    must(oriel_barrier(ORIEL_WORLD), "barrier");
    must(oriel_token_open(shared->token, shared->bytes, &remote), "open");
    must(warm_up(remote), "first puts");
    if (strcmp(mode, "syscalls") == 0) {
        return forbid_syscalls(remote);
    }
    status = strcmp(mode, "count") == 0 ? count(remote, n) : count_allocations(remote);
    must(oriel_remote_close(remote), "close");
    must(oriel_barrier(ORIEL_WORLD), "barrier");
    return status;
}

static int become(struct core_boot_group *group, int rank, const char *mode, unsigned long n)
{
    struct oriel_init_opts opts = ORIEL_INIT_OPTS_INIT;
    int status;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    core_boot_group_use(group, rank);
    opts.flags = ORIEL_INIT_ONE_THREAD;
    must(oriel_init(&opts), "init");
    status = rank == TARGET ? target() : origin(mode, n);
    (void)oriel_finalize();
    fflush(stdout);
    return status;
}

static int status_of(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    struct core_boot_group *group = core_boot_group_create(RANKS);
    unsigned long n = argc > 2 ? strtoul(argv[2], NULL, 10) : LOOPS;
    pid_t pid[RANKS];
    int status;

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc < 2 || group == NULL || shared == MAP_FAILED) {
        fputs("usage: put_cost count N | allocations | syscalls\n", stderr);
        return 2;
    }
    for (int rank = 0; rank < RANKS; rank++) {
        pid[rank] = fork();
        if (pid[rank] == 0) {
            _exit(become(group, rank, argv[1], n));
        }
    }
    status = status_of(pid[0]);
    if (strcmp(argv[1], "syscalls") == 0 || status != 0) {
        (void)kill(pid[1], SIGKILL); /* its peer ended without finalize */
        (void)status_of(pid[1]);
    } else {
        status = status_of(pid[1]);
    }
    if (status == 128 + SIGKILL) {
        puts("the loop entered the kernel");
    }
    return status;
}
