/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs that last while something happens to a host or an interface:
 *
 *   far storm SECONDS FILE   every rank puts to, gets from and counts at all others, small and
 * large, compares what it gets back with what it put, and goes on for so long; FILE appears when
 * all have begun far parked SECONDS       rank 1 stands still for so long while rank 0 waits for a
 * flush; prints the share of a CPU that the waiting process has taken far flood COUNT SECONDS  rank
 * 1 stands still for so long while rank 0 submits COUNT puts without waiting for room; prints by
 * how much its memory has grown
 *
 * What was found wrong is the last number of the line that rank 0 prints, and the status.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "exchange.h"

#define LARGEST     ((uint64_t)4 << 20)
#define STILL_BYTES ((uint64_t)4096)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fill(unsigned char *data, uint64_t bytes, uint64_t seed)
{
    uint64_t word = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
        memcpy(data + i, &word, 8);
        word += seed | 1;
    }
}

static int report(const char *text, uint64_t wrong)
{
    check(oriel_allreduce(ORIEL_IN_PLACE, &wrong, 1, ORIEL_UINT64, ORIEL_SUM, ORIEL_WORLD), "sum");
    if (oriel_rank() == 0) {
        printf("%s, %llu wrong\n", text, (unsigned long long)wrong);
    }
    return wrong != 0;
}

static struct oriel_remote **open_all(uint64_t bytes, struct oriel_mem **mem)
{
    check(oriel_mem_alloc(bytes, NULL, mem), "alloc");
    return exchange(*mem);
}

static void close_all(struct oriel_remote **remotes, struct oriel_mem *mem)
{
    for (int r = 0; r < oriel_size(); r++) {
        check(oriel_remote_close(remotes[r]), "close");
    }
    free(remotes);
    check(oriel_barrier(ORIEL_WORLD), "barrier");
    check(oriel_mem_free(mem), "free");
    check(oriel_finalize(), "finalize");
}

/* ---------------------------------------------------------------- storm */

/* Of each memory: a counter line, then a block of LARGEST for each origin. */
static uint64_t once(struct oriel_remote *to, uint64_t round, unsigned char *out, unsigned char *in)
{
    static const uint64_t sizes[] = { 8, 4096, 48, 262144, 8, LARGEST };
    uint64_t bytes = sizes[round % (sizeof(sizes) / sizeof(sizes[0]))];
    uint64_t at = 64 + (uint64_t)oriel_rank() * LARGEST;
    fill(out, bytes, round * 64 + (uint64_t)oriel_rank());
    memset(in, 0, bytes);
    check(oriel_put(to, at, out, bytes), "put");
    check(oriel_atomic64(to, 0, ORIEL_ATOMIC_ADD, 1, NULL), "add");
    check(oriel_flush_all(), "flush");
    check(oriel_get(to, at, in, bytes), "get");
    return memcmp(in, out, bytes) != 0;
}

static int storm(double seconds, const char *file)
{
    int n = oriel_size();
    struct oriel_mem *mem = NULL;
    struct oriel_remote **remotes = open_all(64 + (uint64_t)n * LARGEST, &mem);
    unsigned char *out = malloc(LARGEST);
    unsigned char *in = malloc(LARGEST);
    uint64_t counted[2] = { 0, 0 };
    uint64_t wrong = 0;
    uint64_t sum;
    check(oriel_barrier(ORIEL_WORLD), "barrier");
    if (oriel_rank() == 0) {
        fclose(fopen(file, "w"));
    }
    for (double end = now() + seconds; now() < end; counted[0]++) {
        wrong += once(remotes[(int)(counted[0] / 6) % n], counted[0], out, in);
    }
    check(oriel_barrier(ORIEL_WORLD), "barrier");
    memcpy(&sum, oriel_mem_base(mem), 8);
    counted[1] = sum;
    check(oriel_allreduce(ORIEL_IN_PLACE, counted, 2, ORIEL_UINT64, ORIEL_SUM, ORIEL_WORLD), "sum");
    wrong += counted[0] != counted[1];
    free(out);
    free(in);
    int status = report("storm", wrong);
    if (oriel_rank() == 0) {
        fprintf(stderr, "%llu rounds\n", (unsigned long long)counted[0]);
    }
    close_all(remotes, mem);
    return status;
}

/* ---------------------------------------------------------------- a peer that stands still */

/* A child of rank 1 wakes it again. */
static void stand_still(unsigned seconds)
{
    pid_t self = getpid();
    pid_t child = fork();
    if (child == 0) {
        sleep(seconds);
        kill(self, SIGCONT);
        _exit(0);
    }
    kill(self, SIGSTOP);
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static long resident_kib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        if (fscanf(file, "%*d %ld", &pages) != 1) {
            pages = 0;
        }
        fclose(file);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Long enough for the signal to have come. */
static void let_it_stop(void)
{
    struct timespec pause = { .tv_nsec = 500000000 };
    nanosleep(&pause, NULL);
}

static int parked(unsigned seconds)
{
    struct oriel_mem *mem = NULL;
    struct oriel_remote **remotes = open_all(STILL_BYTES, &mem);
    unsigned char *data = calloc(1, STILL_BYTES);
    char text[64] = "";
    uint64_t wrong = 0;
    fill(data, STILL_BYTES, 77);
    check(oriel_put(remotes[1], 0, data, 8), "put");
    check(oriel_flush(1), "flush");
    check(oriel_barrier(ORIEL_WORLD), "barrier");
    if (oriel_rank() == 1) {
        stand_still(seconds);
    } else if (oriel_rank() == 0) {
        let_it_stop();
        double spent = cpu_seconds();
        double began = now();
        check(oriel_put(remotes[1], 0, data, STILL_BYTES), "put");
        check(oriel_flush(1), "flush");
        double took = now() - began;
        snprintf(text, sizeof(text), "waited %.1f s, CPU share %.4f", took,
                 (cpu_seconds() - spent) / took);
    }
    check(oriel_barrier(ORIEL_WORLD), "barrier");
    if (oriel_rank() == 1) {
        wrong = memcmp(oriel_mem_base(mem), data, STILL_BYTES) != 0;
    }
    free(data);
    int status = report(text, wrong);
    close_all(remotes, mem);
    return status;
}

static int flood(long count, unsigned seconds)
{
    struct oriel_mem *mem = NULL;
    struct oriel_remote **remotes = open_all(4096, &mem);
    unsigned char data[4096];
    char text[96] = "";
    uint64_t wrong = 0;
    fill(data, sizeof(data), 78);
    check(oriel_put(remotes[1], 0, "warm", 4), "put");
    check(oriel_flush(1), "flush");
    check(oriel_barrier(ORIEL_WORLD), "barrier");
    if (oriel_rank() == 1) {
        stand_still(seconds);
    } else if (oriel_rank() == 0) {
        struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
        struct oriel_xfer op = {
            .kind = ORIEL_PUT, .remote = remotes[1], .src = data, .bytes = sizeof(data)
        };
        let_it_stop();
        opts.flags = ORIEL_NOWAIT;
        long before = resident_kib();
        long refused = 0;
        for (long i = 0; i < count; i++) {
            struct oriel_request *request = NULL;
            int status = oriel_start(&op, 1, &opts, &request);
            if (status == ORIEL_ERR_AGAIN) {
                refused++;
            } else {
                check(status, "start");
                check(oriel_request_free(&request), "request_free");
            }
        }
        snprintf(text, sizeof(text), "%ld submitted, %ld refused, grew by %ld KiB", count, refused,
                 resident_kib() - before);
        check(oriel_flush(1), "flush");
    }
    check(oriel_barrier(ORIEL_WORLD), "barrier");
    if (oriel_rank() == 1) {
        wrong = memcmp(oriel_mem_base(mem), data, sizeof(data)) != 0;
    }
    int status = report(text, wrong);
    close_all(remotes, mem);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 3 + (strcmp(argc > 1 ? argv[1] : "", "parked") != 0)) {
        fprintf(stderr,
                "usage: far storm SECONDS FILE | far parked SECONDS | far flood COUNT SECONDS\n");
        return 2;
    }
    check(oriel_init(NULL), "init");
    if (strcmp(argv[1], "storm") == 0) {
        return storm(strtod(argv[2], NULL), argv[3]);
    }
    if (strcmp(argv[1], "parked") == 0) {
        return parked((unsigned)atoi(argv[2]));
    }
    return flood(atol(argv[2]), (unsigned)atoi(argv[3]));
}
