/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends of ranks in a job that spans hosts, pretended on one machine: who leaves early disturbs
 * nobody, who dies is named by every call, and nothing keeps oriel_finalize from its end.
 */
#include <criterion/criterion.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/core.h"
#include "core/path/peer.h"
#include "oriel.h"
#include "tests/t.h"

#define BYTES (1u << 20)

TestSuite(leave, .timeout = 120);

static void use_networks(void)
{
    setenv("ORIEL_TRANSPORTS", "self,shm,ofi", 1);
    t_hosts = 2;
}

static void expect_detail(const char *words)
{
    if (strstr(oriel_error_detail(), words) == NULL) {
        fprintf(stderr, "rank %d: no '%s' in '%s'\n", t_rank, words, oriel_error_detail());
        t_check(0);
    }
}

/* Tokens travel through the memory that all ranks of a test share. */
struct board {
    _Atomic uint32_t bytes[8];
    unsigned char token[8][ORIEL_TOKEN_BYTES_MAX];
    _Atomic int pid;
};

static struct oriel_mem *show(int rank)
{
    struct board *board = t_shared;
    struct oriel_mem *memory;
    size_t n;

    t_check_ok(oriel_mem_alloc(BYTES, NULL, &memory));
    t_check_ok(oriel_token_pack(memory, board->token[rank], ORIEL_TOKEN_BYTES_MAX, &n));
    atomic_store(&board->bytes[rank], (uint32_t)n);
    return memory;
}

static struct oriel_remote *see(int rank)
{
    struct board *board = t_shared;
    struct oriel_remote *remote;

    while (atomic_load(&board->bytes[rank]) == 0) {
        t_sleep_ms(1);
    }
    t_check_ok(oriel_token_open(board->token[rank], atomic_load(&board->bytes[rank]), &remote));
    return remote;
}

/* ---------------------------------------------------------------- leaving */

/* Rank 0 finalizes at once; the others have much to say to it first. */
static int leaves_early(int rank, void *arg)
{
    static unsigned char bytes[BYTES];
    struct oriel_mem *memory;
    struct oriel_remote *remote;
    double began = t_now();

    (void)arg;
    t_check_ok(oriel_init(NULL));
    memory = show(rank);
    remote = see(rank == 0 ? 3 : 0);
    while (rank != 0 && t_now() - began < 1.5) {
        t_check_ok(oriel_put(remote, 0, bytes, BYTES));
        t_check_ok(oriel_flush(0));
    }
    /* posted and left to finalize */
    t_check_ok(oriel_put(remote, 8, bytes, 64));
    t_check_ok(oriel_remote_close(remote));
    (void)memory;
    t_check_ok(oriel_finalize());
    return 0;
}

/* covers: REL-10 L10 */
Test(leave, who_finalizes_early_serves_the_others_first)
{
    use_networks();
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(t_ranks(4, leaves_early, NULL), 0);
    }
}

static int in_and_out(int rank, void *arg)
{
    (void)rank;
    (void)arg;
    t_check_ok(oriel_init(NULL));
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    double began = t_now();
    t_check_ok(oriel_finalize());
    t_check(t_now() - began < 10);
    return 0;
}

Test(leave, barrier_and_finalize_at_once)
{
    use_networks();
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(t_ranks(4, in_and_out, NULL), 0);
    }
}

/* ---------------------------------------------------------------- deaths */

static int is_bereaved(int rank, void *arg)
{
    static unsigned char bytes[4096];
    struct oriel_mem *memory;
    struct oriel_remote *remote = NULL;
    int st = 0;

    (void)arg;
    t_check_ok(oriel_init(NULL));
    memory = show(rank);
    if (rank != 3) {
        remote = see(3);
        t_check_ok(oriel_put(remote, 0, bytes, sizeof(bytes)));
        t_check_ok(oriel_flush(3));
    }
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    if (rank == 3) {
        t_die();
    }
    double began = t_now();
    while (st == 0 && t_now() - began < 10) {
        st = oriel_put(remote, 0, bytes, sizeof(bytes));
        st = st == 0 ? oriel_flush(3) : st;
    }
    t_check_eq(st, ORIEL_ERR_PEER);
    expect_detail("rank 3 on ");
    expect_detail("is gone");
    t_check(t_now() - began < 5);
    t_check_eq(oriel_flush(3), ORIEL_ERR_PEER);
    expect_detail("rank 3 on ");
    t_check_eq(oriel_put(remote, 0, bytes, 8), ORIEL_ERR_PEER);
    expect_detail("rank 3 on ");
    t_check_eq(oriel_get(remote, 0, bytes, 8), ORIEL_ERR_PEER);
    t_check_eq(oriel_barrier(ORIEL_WORLD), ORIEL_ERR_PEER);
    expect_detail("rank 3 on ");
    t_check_ok(oriel_remote_close(remote));
    (void)memory;
    t_check_ok(oriel_finalize());
    t_check(t_now() - began < 20);
    return 0;
}

Test(leave, a_death_on_another_host_is_named_by_every_call)
{
    use_networks();
    cr_assert_eq(t_ranks(4, is_bereaved, NULL), 0);
}

/* Those who wait for a rank of another host and have nothing under way on it. */
static int waits_in_a_barrier(int rank, void *arg)
{
    (void)arg;
    t_check_ok(oriel_init(NULL));
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    if (rank == 2) {
        (void)usleep(500000); /* its last pieces of the barrier may still be on their way */
        t_die();
    }
    double began = t_now();
    t_check_eq(oriel_barrier(ORIEL_WORLD), ORIEL_ERR_PEER);
    expect_detail("rank 2 on ");
    t_check(t_now() - began < 5);
    t_check_ok(oriel_finalize());
    return 0;
}

Test(leave, a_death_on_another_host_ends_a_barrier)
{
    use_networks();
    cr_assert_eq(t_ranks(4, waits_in_a_barrier, NULL), 0);
    t_hosts = -2;
    cr_assert_eq(t_ranks(3, waits_in_a_barrier, NULL), 0);
}

/* ---------------------------------------------------------------- no end in sight */

/* The peer stands still: what is posted to it never ends, and it never comes to leave. */
static int stands_still(int rank, void *arg)
{
    static unsigned char bytes[BYTES];
    struct board *board = t_shared;

    (void)arg;
    setenv("ORIEL_BOOT_TIMEOUT", "2s", 1);
    t_check_ok(oriel_init(NULL));
    struct oriel_mem *memory = show(rank);
    if (rank == 1) {
        atomic_store(&board->pid, (int)getpid());
        for (;;) {
            t_sleep_ms(1000);
        }
    }
    struct oriel_remote *remote = see(1);
    struct oriel_request *requests[16] = { NULL };
    t_check_ok(oriel_put(remote, 0, bytes, 64));
    t_check_ok(oriel_flush(1));
    while (atomic_load(&board->pid) == 0) {
        t_sleep_ms(1);
    }
    (void)kill(atomic_load(&board->pid), SIGSTOP);
    for (int i = 0; i < 16; i++) {
        t_check_ok(oriel_put_start(remote, 0, bytes, BYTES, &requests[i]));
    }
    double began = t_now();
    int st = oriel_finalize();
    t_check(st == 0 || st == ORIEL_ERR_BUSY);
    t_check(t_now() - began < 25);
    (void)memory;
    (void)kill(atomic_load(&board->pid), SIGKILL);
    return 0;
}

static int marked(int rank, void *arg)
{
    if (rank == 1) {
        t_mark_dying();
    }
    return stands_still(rank, arg);
}

/* covers: N17 */
Test(leave, nothing_keeps_finalize_from_its_end)
{
    use_networks();
    t_limit_s = 60;
    cr_assert_eq(t_ranks(2, marked, NULL), 0);
}

/* ---------------------------------------------------------------- connections */

static int is_connected(int rank, void *arg)
{
    const int *early = arg;

    for (int peer = 0; peer < oriel_size(); peer++) {
        bool afar = core.peers[peer].local < 0;
        t_check_eq(atomic_load(&core.peers[peer].path) != NULL && afar, *early && afar);
    }
    (void)rank;
    return 0;
}

Test(leave, connections_are_made_when_the_setting_says)
{
    int early = 0;

    use_networks();
    t_hosts = 3;
    cr_assert_eq(t_job(6, is_connected, &early), 0);
    early = 1;
    setenv("ORIEL_CONNECT", "eager", 1);
    cr_assert_eq(t_job(6, is_connected, &early), 0);
}
