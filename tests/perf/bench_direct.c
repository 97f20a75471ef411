/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times of the direct path beside their targets: puts, gets and atomics through a token between two
 * pinned ranks, barrier and allreduce of 2, 4 and 8 ranks, and what ranks that only wait take of a
 * CPU. Ranks are forked. Prints a markdown table and never fails on time; bench_rows.c has the
 * rows. Run by hand on a quiet machine:
 *
 *   bench_direct           all
 *   bench_direct -q        fewer batches, a shorter idle time
 */
#include "core/boot/boot.h"
#include "oriel.h"

#include "bench_rows.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    RANKS_MAX = 8,
    CPUS = 2,
    MANY_BARRIERS = 10000
};

struct shared {
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
    size_t token_bytes;
    double share[RANKS_MAX];
};

static struct shared *shared;
static double idle_s = 10;

static double cpu_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void meet(void)
{
    bench_must(oriel_barrier(ORIEL_WORLD), "barrier");
}

static void pin(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
        perror("sched_setaffinity");
    }
}

/* ---------------------------------------------------------------- what ranks do */

static void pair(int rank)
{
    struct oriel_mem *mem = NULL;

    if (rank == 1) {
        bench_must(oriel_mem_alloc(BENCH_BYTES, NULL, &mem), "mem_alloc");
        memset(oriel_mem_base(mem), 0, BENCH_BYTES);
        bench_must(
            oriel_token_pack(mem, shared->token, sizeof(shared->token), &shared->token_bytes),
            "token_pack");
    }
    meet();
    bench_must(oriel_token_open(shared->token, shared->token_bytes, &bench_remote), "token_open");
    bench_measure(bench_pair);
    bench_must(oriel_remote_close(bench_remote), "remote_close");
    meet();
    bench_must(oriel_mem_free(mem), "mem_free");
}

static void four(int rank)
{
    (void)rank;
    bench_measure(bench_four);
}

static void eight(int rank)
{
    double begin;

    bench_measure(bench_eight);
    meet();
    begin = bench_now_ns();
    bench_must(bench_eight[0].run(&bench_eight[0], MANY_BARRIERS), "barrier");
    if (rank == 0) {
        double s = (bench_now_ns() - begin) / 1e9;

        bench_print("10^4 barriers, 8 ranks on 2 CPUs (seconds)", s, s, 0.3, "s");
        fflush(stdout);
    }
}

/* All wait: rank 0 for a counter nobody counts, the others for rank 0. */
static void idle(int rank)
{
    struct oriel_mem *mem = NULL;
    double begin;
    double most = 0;

    bench_must(oriel_mem_alloc(64, NULL, &mem), "mem_alloc");
    meet();
    begin = cpu_s();
    if (rank == 0) {
        (void)oriel_counter_wait(mem, 0, 1, (int64_t)(idle_s * 1e9), NULL);
    }
    meet();
    shared->share[rank] = (cpu_s() - begin) / idle_s * 100;
    meet();
    for (int i = 0; i < oriel_size(); i++) {
        most = shared->share[i] > most ? shared->share[i] : most;
    }
    if (rank == 0) {
        char what[80];

        (void)snprintf(what, sizeof(what), "CPU share of the busiest of %d ranks waiting %.0f s",
                       oriel_size(), idle_s);
        bench_print(what, most, most, 1.0, "%");
        fflush(stdout);
    }
    bench_must(oriel_mem_free(mem), "mem_free");
}

/* ---------------------------------------------------------------- ranks */

static void become(struct core_boot_group *group, int rank, void (*body)(int rank))
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(rank % CPUS);
    core_boot_group_use(group, rank);
    bench_must(oriel_init(NULL), "init");
    bench_local = aligned_alloc(4096, BENCH_BYTES);
    if (bench_local == NULL) {
        _exit(1);
    }
    memset(bench_local, 1, BENCH_BYTES);
    body(rank);
    bench_must(oriel_finalize(), "finalize");
    _exit(0);
}

static int run_ranks(int n, void (*body)(int rank))
{
    struct core_boot_group *group = core_boot_group_create(n);
    pid_t pid[RANKS_MAX];
    int worst = 0;
    int status = 0;

    if (group == NULL) {
        fputs("no boot group\n", stderr);
        return 1;
    }
    memset(bench_flags, 0, RANKS_MAX * sizeof(*bench_flags));
    for (int i = 0; i < n; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            become(group, i, body);
        }
    }
    for (int i = 0; i < n; i++) {
        while (waitpid(pid[i], &status, 0) < 0 && errno == EINTR) {
        }
        worst = status != 0 ? 1 : worst;
    }
    core_boot_group_free(group);
    return worst;
}

static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

int main(int argc, char **argv)
{
    int status;

    if (argc > 1 && strcmp(argv[1], "-q") == 0) {
        bench_batches = 9;
        idle_s = 2;
    }
    shared = map(sizeof(*shared));
    bench_mapped = map(BENCH_BYTES);
    bench_flags = map(RANKS_MAX * sizeof(*bench_flags));
    printf("| what (us) | best | median | bar | ok |\n| --- | ---: | ---: | ---: | --- |\n");
    fflush(stdout);
    status = run_ranks(2, pair);
    status |= run_ranks(4, four);
    status |= run_ranks(8, eight);
    status |= run_ranks(4, idle);
    return status;
}
