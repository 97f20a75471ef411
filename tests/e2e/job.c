/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program that test_mpirun.sh starts under real launchers: uses oriel.h alone.
 *
 *   job count        every rank counts in and puts to every other, all is verified
 *   job die RANK     that rank kills itself while the others are in a barrier; they must hear of it
 *   job abort RANK   that rank calls oriel_abort(7)
 *   job hold         says "ready" and waits for ever in a barrier that rank 0 never enters
 *   job idle SECONDS all ranks but 0 wait in a barrier; prints the worst CPU share per rank
 *   job files COUNT  prints the most descriptors a rank has open for COUNT memories of every rank
 */
#include "exchange.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096

static unsigned char pattern(int from, int to, uint64_t i)
{
    return (unsigned char)(from * 37 + to * 11 + (int)(i * 7) + (int)(i >> 8));
}

/* Memory of every rank: a counter line, then one block per origin. */
static int count(void)
{
    int n = oriel_size();
    int me = oriel_rank();
    struct oriel_mem *mem = NULL;
    unsigned char data[BLOCK];
    check(oriel_mem_alloc(64 + (uint64_t)n * BLOCK, NULL, &mem), "alloc");
    struct oriel_remote **remotes = exchange(mem);
    for (int to = 0; to < n; to++) {
        for (uint64_t i = 0; i < BLOCK; i++) {
            data[i] = pattern(me, to, i);
        }
        check(oriel_put(remotes[to], 64 + (uint64_t)me * BLOCK, data, BLOCK), "put");
        for (int i = 0; i < 1000; i++) {
            check(oriel_atomic64(remotes[to], 0, ORIEL_ATOMIC_ADD, 1, NULL), "add");
        }
    }
    check(oriel_flush_all(), "flush");
    check(oriel_barrier(ORIEL_WORLD), "barrier");
    const unsigned char *base = oriel_mem_base(mem);
    uint64_t sum;
    memcpy(&sum, base, 8);
    uint64_t wrong = sum != (uint64_t)n * 1000;
    for (int from = 0; from < n; from++) {
        for (uint64_t i = 0; i < BLOCK; i++) {
            wrong += base[64 + (uint64_t)from * BLOCK + i] != pattern(from, me, i);
        }
        check(oriel_get(remotes[from], 64 + (uint64_t)me * BLOCK, data, BLOCK), "get");
        for (uint64_t i = 0; i < BLOCK; i++) {
            wrong += data[i] != pattern(me, from, i);
        }
    }
    check(oriel_allreduce(ORIEL_IN_PLACE, &wrong, 1, ORIEL_UINT64, ORIEL_SUM, ORIEL_WORLD), "sum");
    if (me == 0) {
        printf("%d ranks, %d on this host, %llu wrong\n", n, oriel_local_size(),
               (unsigned long long)wrong);
    }
    for (int r = 0; r < n; r++) {
        check(oriel_remote_close(remotes[r]), "close");
    }
    free(remotes);
    check(oriel_mem_free(mem), "free");
    check(oriel_finalize(), "finalize");
    return wrong != 0;
}

static int die(int victim)
{
    check(oriel_barrier(ORIEL_WORLD), "barrier");
    if (oriel_rank() == victim) {
        kill(getpid(), SIGKILL);
    }
    struct timespec from;
    struct timespec to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    int status = oriel_barrier(ORIEL_WORLD);
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("rank %d heard %s after %.2f s: %s\n", oriel_rank(), oriel_error_name(status),
           (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9,
           oriel_error_detail());
    fflush(stdout);
    (void)oriel_finalize();
    return status == ORIEL_ERR_PEER ? 0 : 1;
}

static int idle(int seconds)
{
    struct rusage usage;
    check(oriel_barrier(ORIEL_WORLD), "barrier");
    if (oriel_rank() == 0) {
        sleep((unsigned)seconds);
    }
    check(oriel_barrier(ORIEL_WORLD), "barrier");
    getrusage(RUSAGE_SELF, &usage);
    double share = ((double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
                    (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6) /
                   seconds;
    check(oriel_allreduce(ORIEL_IN_PLACE, &share, 1, ORIEL_DOUBLE, ORIEL_MAX, ORIEL_WORLD), "max");
    if (oriel_rank() == 0) {
        printf("worst CPU share %.4f\n", share);
    }
    check(oriel_finalize(), "finalize");
    return 0;
}

static int64_t open_files(void)
{
    int64_t n = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder != NULL && readdir(folder) != NULL) {
        n++;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return n;
}

/* Counts what the launcher's library has open as well: the caller compares. */
static int files(int count)
{
    struct oriel_mem *mem;
    for (int i = 0; i < count; i++) {
        check(oriel_mem_alloc(BLOCK, NULL, &mem), "alloc");
        struct oriel_remote **remotes = exchange(mem);
        for (int to = 0; to < oriel_size(); to++) {
            check(oriel_put(remotes[to], 0, "some", 4), "put");
        }
        check(oriel_barrier(ORIEL_WORLD), "barrier");
        free(remotes); /* the tokens stay open until the end */
    }
    int64_t most = open_files();
    check(oriel_allreduce(ORIEL_IN_PLACE, &most, 1, ORIEL_INT64, ORIEL_MAX, ORIEL_WORLD), "max");
    if (oriel_rank() == 0) {
        printf("%lld open\n", (long long)most);
    }
    check(oriel_finalize(), "finalize");
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "count";
    int number = argc > 2 ? atoi(argv[2]) : 0;
    int status = oriel_init(NULL);
    if (status != ORIEL_OK) {
        fprintf(stderr, "%s: %s\n", oriel_error_name(status), oriel_error_detail());
        return 2;
    }
    if (strcmp(mode, "count") == 0) {
        return count();
    }
    if (strcmp(mode, "die") == 0) {
        return die(number);
    }
    if (strcmp(mode, "idle") == 0) {
        return idle(number);
    }
    if (strcmp(mode, "files") == 0) {
        return files(number);
    }
    if (strcmp(mode, "abort") == 0 && oriel_rank() == number) {
        oriel_abort(7, "as asked");
    }
    printf("ready\n");
    fflush(stdout);
    if (oriel_rank() == 0) {
        pause();
    }
    return oriel_barrier(ORIEL_WORLD) == ORIEL_OK ? 0 : 1;
}
