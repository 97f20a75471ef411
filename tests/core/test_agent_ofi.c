/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agents over a real network on one host: they serve a rank that computes, cost next to nothing
 * while idle and while a target is stopped, and answer pings for it.
 */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "core/core.h"
#include "core/path/progress.h"
#include "oriel.h"
#include "tests/t.h"

#define BYTES (UINT64_C(64) << 20)

struct board {
    size_t bytes[2];
    unsigned char token[2][ORIEL_TOKEN_BYTES_MAX];
    _Atomic int computing; /* 1: rank 1 computes, 2: it is through */
    _Atomic int done;      /* rank 0 is */
    pid_t pid;             /* of rank 1 */
};

static void use_network(void)
{
#ifdef ORIEL_HAVE_LIBFABRIC
    (void)setenv("ORIEL_TRANSPORTS", "self,ofi", 1);
#else
    cr_skip_test("this build has no libfabric");
#endif
}

TestSuite(agent_ofi, .init = use_network, .timeout = 110);

static struct board *board(void)
{
    return t_shared;
}

/* A memory of rank 1, opened by rank 0. */
static unsigned char *open_target(int rank, struct oriel_mem **mem, struct oriel_remote **remote)
{
    struct board *b = board();
    unsigned char *memory = NULL;

    if (rank == 1) {
        memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        t_check(memory != MAP_FAILED);
        t_check_ok(oriel_mem_register(memory, BYTES, NULL, mem));
        t_check_ok(oriel_token_pack(*mem, b->token[1], sizeof(b->token[1]), &b->bytes[1]));
        b->pid = getpid();
    }
    t_meet(2);
    if (rank == 0) {
        t_check_ok(oriel_token_open(b->token[1], b->bytes[1], remote));
    }
    return memory;
}

static void close_target(int rank, unsigned char *memory, struct oriel_mem *mem,
                         struct oriel_remote *remote)
{
    t_meet(2);
    if (rank == 0) {
        t_check_ok(oriel_remote_close(remote));
    }
    t_meet(2);
    if (rank == 1) {
        t_check_ok(oriel_mem_free(mem));
        (void)munmap(memory, BYTES);
    }
}

/* No system call and no call of Oriel, until the origin is through or the test has failed. */
static void compute(void)
{
    double start = t_now();

    while (atomic_load(&board()->done) == 0 && t_now() - start < 30) {
        for (volatile int i = 0; i < 100000;) {
            i = i + 1;
        }
    }
}

static int put_to_a_computing_rank(int rank, void *arg)
{
    struct oriel_mem *mem = NULL;
    struct oriel_remote *remote = NULL;
    unsigned char *memory = open_target(rank, &mem, &remote);
    unsigned char *data = malloc(1 << 20);

    (void)arg;
    t_meet(2);
    if (rank == 1) {
        atomic_store(&board()->computing, 1);
        compute();
        t_check_eq(atomic_load(&board()->done), 1);
        for (uint64_t i = 0; i < 32; i++) {
            t_check_eq(t_differs(memory + (i << 20), 1 << 20, 0, i, 0), 1 << 20);
        }
    } else {
        while (atomic_load(&board()->computing) == 0) {
            t_sleep_ms(1);
        }
        for (uint64_t i = 0; i < 32; i++) {
            t_fill(data, 1 << 20, 0, i, 0);
            t_check_ok(oriel_put(remote, i << 20, data, 1 << 20));
        }
        t_check_ok(oriel_flush(1));
        atomic_store(&board()->done, 1);
    }
    free(data);
    close_target(rank, memory, mem, remote);
    return 0;
}

/* covers: OFI-01 */
Test(agent_ofi, a_rank_that_computes_is_served)
{
    t_limit_s = 60;
    cr_assert_eq(t_job(2, put_to_a_computing_rank, NULL), 0);
}

/* ---------------------------------------------------------------- cost */

static double share_of(double seconds)
{
    double cpu = t_cpu();

    t_sleep_ms((int)(seconds * 1e3));
    return (t_cpu() - cpu) / seconds;
}

static int be_idle(int rank, void *arg)
{
    double share;

    (void)arg;
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    t_sleep_ms(300);
    share = share_of(4);
    (void)fprintf(stderr, "rank %d: %.3f %% of a core while idle\n", rank, share * 100);
    t_check(share < 0.005);
    t_meet(4);
    return 0;
}

/* covers: N11 REL-07 */
Test(agent_ofi, idle_ranks_cost_next_to_nothing)
{
    t_limit_s = 60;
    cr_assert_eq(t_job(4, be_idle, NULL), 0);
}

static void stop_target(void)
{
    t_check_eq(kill(board()->pid, SIGSTOP), 0);
    t_sleep_ms(100);
}

/* Of a core. Address sanitizer makes each look dearer. */
#ifdef __SANITIZE_ADDRESS__
 #define WAITING_MOST 0.02
#else
 #define WAITING_MOST 0.01
#endif

/* What ten seconds of waiting cost, in seconds of CPU. A busy machine only ever adds to that: the
 * least of a few counts. */
static double cost_of_waiting(struct oriel_request **req)
{
    double least = 10;

    for (int i = 0; i < 3 && least >= 10 * WAITING_MOST; i++) {
        double cpu = t_cpu();

        t_check_eq(oriel_wait_for(req, INT64_C(10) * 1000 * 1000 * 1000, NULL), ORIEL_ERR_TIMEOUT);
        cpu = t_cpu() - cpu;
        (void)fprintf(stderr, "%.1f ms of CPU in 10 s\n", cpu * 1e3);
        least = cpu < least ? cpu : least;
    }
    return least;
}

static int wait_for_a_stopped_rank(int rank, void *arg)
{
    struct oriel_mem *mem = NULL;
    struct oriel_remote *remote = NULL;
    unsigned char *memory = open_target(rank, &mem, &remote);
    struct oriel_request *req = NULL;
    unsigned char *data = calloc(1, BYTES);

    (void)arg;
    if (rank == 0) {
        t_check_ok(oriel_put(remote, 0, data, 8)); /* connected */
        stop_target();
        t_check_ok(oriel_put_start(remote, 0, data, BYTES, &req));
        t_check(cost_of_waiting(&req) < 10 * WAITING_MOST);
        t_check_eq(kill(board()->pid, SIGCONT), 0);
        t_check_ok(oriel_wait(&req, NULL));
    }
    close_target(rank, memory, mem, remote);
    free(data);
    return 0;
}

/* Stopped for ten seconds: under 1 % of a core, one warning, and then it goes on. */
/* covers: K8 N12 REL-07 */
Test(agent_ofi, waiting_for_a_stopped_rank_costs_next_to_nothing)
{
    t_limit_s = 60;
    cr_assert_eq(t_job(2, wait_for_a_stopped_rank, NULL), 0);
}

/* ---------------------------------------------------------------- silence */

static int count_words(int fd, const char *words)
{
    char text[8192];
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    int times = 0;

    text[n > 0 ? n : 0] = '\0';
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++) {
        times++;
    }
    return times;
}

static int report_a_stopped_rank(int rank, void *arg)
{
    struct oriel_mem *mem = NULL;
    struct oriel_remote *remote = NULL;
    unsigned char *memory = open_target(rank, &mem, &remote);
    struct oriel_request *req = NULL;
    unsigned char *data = calloc(1, BYTES);

    if (rank == 0) {
        int fd = *(int *)arg;

        orl_log_redirect(fd);
        t_check_ok(oriel_put(remote, 0, data, 8));
        stop_target();
        t_check_ok(oriel_put_start(remote, 0, data, BYTES, &req));
        t_check_eq(oriel_wait_for(&req, INT64_C(6) * 1000 * 1000 * 1000, NULL), ORIEL_ERR_TIMEOUT);
        t_check_eq(count_words(fd, "rank 1"), 1);
        t_check_eq(count_words(fd, "has not answered for"), 1);
        t_check_eq(kill(board()->pid, SIGCONT), 0);
        t_check_ok(oriel_wait(&req, NULL));
        for (int i = 0; i < 1000 && count_words(fd, "answers again") == 0; i++) {
            (void)core_progress();
            t_sleep_ms(5);
        }
        t_check_eq(count_words(fd, "answers again"), 1);
        orl_log_redirect(-1);
    }
    close_target(rank, memory, mem, remote);
    free(data);
    return 0;
}

Test(agent_ofi, a_silent_rank_is_reported_once)
{
    char name[256];
    int fd;

    t_temp(name, sizeof(name), "silent");
    fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_APPEND, 0600);
    cr_assert_geq(fd, 0);
    (void)unlink(name);
    t_limit_s = 60;
    cr_assert_eq(t_job(2, report_a_stopped_rank, &fd), 0);
    (void)close(fd);
}

static int give_a_stopped_rank_up(int rank, void *arg)
{
    struct oriel_mem *mem = NULL;
    struct oriel_remote *remote = NULL;
    unsigned char *memory;
    struct oriel_request *req = NULL;
    unsigned char *data = calloc(1, BYTES);

    (void)arg;
    t_check_ok(oriel_init(NULL));
    memory = open_target(rank, &mem, &remote);
    if (rank == 0) {
        t_check_ok(oriel_put(remote, 0, data, 8));
        stop_target();
        t_check_ok(oriel_put_start(remote, 0, data, BYTES, &req));
        t_check_eq(oriel_wait_for(&req, INT64_C(20) * 1000 * 1000 * 1000, NULL), ORIEL_ERR_PEER);
        t_check(strstr(oriel_error_detail(), "rank 1") != NULL);
        t_check_eq(oriel_put(remote, 0, data, 8), ORIEL_ERR_PEER);
        t_check_eq(kill(board()->pid, SIGKILL), 0);
        free(data);
        _exit(0);
    }
    (void)memory;
    t_mark_dying();
    while (1) {
        (void)pause();
    }
}

Test(agent_ofi, a_time_out_ends_a_silent_rank)
{
    (void)setenv("ORIEL_PEER_TIMEOUT", "1s", 1);
    t_limit_s = 60;
    cr_assert_eq(t_ranks(2, give_a_stopped_rank_up, NULL), 0);
}
