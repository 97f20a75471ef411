/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory reached over a network, all ranks on this host: a thousand tokens, a key that is wrong, a
 * release from afar, and a peer that stands still under a storm of operations.
 */
#include <criterion/criterion.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/crc.h"
#include "core/mem/mem.h"
#include "core/path/progress.h"
#include "oriel.h"
#include "tests/core/over.h"
#include "tests/t.h"

TestSuite(network, .init = over_network, .timeout = 120);

struct box {
    size_t bytes;
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
};

enum {
    TOKENS = 1000,
    WRITERS = 2
};

static struct box *boxes; /* [TOKENS], shared by all ranks */

static void share_boxes(void)
{
    boxes = mmap(NULL, TOKENS * sizeof(*boxes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                 -1, 0);
    cr_assert_neq(boxes, MAP_FAILED);
}

static void publish(int i, void *memory, uint64_t bytes, struct oriel_mem **mem)
{
    t_check_ok(oriel_mem_register(memory, bytes, NULL, mem));
    t_check_ok(oriel_token_pack(*mem, boxes[i].token, sizeof(boxes[i].token), &boxes[i].bytes));
}

static struct oriel_remote *open_box(int i)
{
    struct oriel_remote *remote = NULL;
    t_check_ok(oriel_token_open(boxes[i].token, boxes[i].bytes, &remote));
    return remote;
}

/* Put, flush, and what the two say together: a small put may leave its error to the flush. */
static int put_and_flush(struct oriel_remote *r, uint64_t offset, uint64_t value, int rank)
{
    int put = oriel_put(r, offset, &value, sizeof(value));
    int flush = oriel_flush(rank);
    return put != 0 ? put : flush;
}

/* ---------------------------------------------------------------- a thousand tokens */

static void write_all(struct oriel_remote **remote, int rank, int step, int lost)
{
    for (int i = 0; i < TOKENS; i++) {
        uint64_t value = (uint64_t)(i * 10 + rank + step);
        int want = i % 2 == 1 ? lost : 0;
        uint64_t seen = 0;
        t_check_eq(put_and_flush(remote[i], 8 * (uint64_t)rank, value, 0), want);
        t_check_eq(oriel_get(remote[i], 8 * (uint64_t)rank, &seen, 8), want);
        t_check(want != 0 || seen == value);
    }
}

static int thousand(int rank, void *arg)
{
    static uint64_t memory[TOKENS][WRITERS + 1];
    static struct oriel_mem *mem[TOKENS];
    static struct oriel_remote *remote[TOKENS];
    (void)arg;
    for (int i = 0; rank == 0 && i < TOKENS; i++) {
        publish(i, memory[i], sizeof(memory[i]), &mem[i]);
    }
    t_meet(WRITERS + 1);
    for (int i = 0; rank != 0 && i < TOKENS; i++) {
        remote[i] = open_box(i);
    }
    if (rank != 0) {
        write_all(remote, rank, 0, 0);
    }
    t_meet(WRITERS + 1);
    for (int i = 1; rank == 0 && i < TOKENS; i += 2) {
        t_check_ok(oriel_mem_free(mem[i]));
        memset(memory[i], 0x77, sizeof(memory[i]));
    }
    t_meet(WRITERS + 1);
    if (rank != 0) {
        write_all(remote, rank, 5, ORIEL_ERR_GONE);
    }
    t_meet(WRITERS + 1);
    for (int i = 0; rank == 0 && i < TOKENS; i++) {
        uint64_t gone = UINT64_C(0x7777777777777777);
        t_check_eq(memory[i][1], i % 2 == 1 ? gone : (uint64_t)(i * 10 + 6));
        t_check_eq(memory[i][2], i % 2 == 1 ? gone : (uint64_t)(i * 10 + 7));
    }
    for (int i = 0; i < TOKENS; i++) {
        t_check_ok(oriel_remote_close(remote[i]));
    }
    for (int i = 0; rank == 0 && i < TOKENS; i += 2) {
        t_check_ok(oriel_mem_free(mem[i]));
    }
    return 0;
}

/* covers: D8 D2 */
Test(network, a_thousand_tokens_of_which_half_are_released)
{
    share_boxes();
    t_limit_s = 100;
    cr_assert_eq(t_job(WRITERS + 1, thousand, NULL), 0);
}

/* ---------------------------------------------------------------- a wrong key */

/* The token with one byte of its last key, the network's, changed, and made whole again. */
static struct oriel_remote *open_changed(const struct box *box, size_t from_end)
{
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
    struct oriel_remote *remote = NULL;
    size_t body = box->bytes - 4;
    memcpy(token, box->token, box->bytes);
    token[body - from_end] ^= 0x5a;
    uint32_t crc = orl_crc32c(0, token, body);
    for (int i = 0; i < 4; i++) {
        token[body + (size_t)i] = (unsigned char)(crc >> (8 * i));
    }
    (void)oriel_token_open(token, box->bytes, &remote);
    return remote;
}

static int wrong_key(int rank, void *arg)
{
    static uint64_t memory[64];
    struct oriel_mem *mem = NULL;
    (void)arg;
    if (rank == 0) {
        publish(0, memory, sizeof(memory), &mem);
    }
    t_meet(2);
    if (rank == 1) {
        struct oriel_remote *good = open_box(0);
        t_check_ok(put_and_flush(good, 0, 11, 0));
        for (size_t byte = 1; byte <= 28; byte++) {
            struct oriel_remote *bad = open_changed(&boxes[0], byte);
            if (bad != NULL) { /* else it was refused at once */
                int status = put_and_flush(bad, 8, 99, 0);
                t_check(status == ORIEL_ERR_GONE || status == ORIEL_ERR_INVAL ||
                        status == ORIEL_ERR_RANGE);
                t_check_ok(oriel_remote_close(bad));
            }
            t_check_ok(put_and_flush(good, 16, byte, 0));
        }
        t_check_ok(oriel_remote_close(good));
    }
    t_meet(2);
    if (rank == 0) {
        t_check_eq(memory[0], 11);
        t_check_eq(memory[1], 0);
        t_check_eq(memory[2], 28);
        t_check_ok(oriel_mem_free(mem));
    }
    return 0;
}

Test(network, a_wrong_key_harms_nobody)
{
    share_boxes();
    cr_assert_eq(t_job(2, wrong_key, NULL), 0);
}

/* ---------------------------------------------------------------- release from afar */

static int release(int rank, void *arg)
{
    static uint64_t memory[8];
    static uint64_t other[8];
    struct oriel_mem *mem[2];
    (void)arg;
    if (rank == 0) {
        publish(0, memory, sizeof(memory), &mem[0]);
        publish(1, other, sizeof(other), &mem[1]);
    }
    t_meet(3);
    struct oriel_remote *r = open_box(0);
    struct oriel_remote *lives = open_box(1);
    t_check_ok(put_and_flush(r, 8 * (uint64_t)rank, 1, 0));
    t_meet(3);
    if (rank == 1) {
        t_check_ok(oriel_token_release(boxes[0].token, boxes[0].bytes));
        t_check_ok(oriel_token_release(boxes[0].token, boxes[0].bytes));
    }
    t_meet(3);
    double end = t_now() + 10;
    int status = 0;
    while (status == 0 && t_now() < end) {
        status = put_and_flush(r, 8 * (uint64_t)rank, 2, 0);
    }
    t_check_eq(status, ORIEL_ERR_GONE);
    t_check_eq(put_and_flush(r, 8 * (uint64_t)rank, 3, 0), ORIEL_ERR_GONE);
    t_check_ok(put_and_flush(lives, 8 * (uint64_t)rank, 4, 0));
    t_check_ok(oriel_remote_close(r));
    t_check_ok(oriel_remote_close(lives));
    t_meet(3);
    if (rank == 0) {
        t_check(memory[1] != 3 && other[1] == 4);
        t_check_ok(oriel_mem_free(mem[0]));
        t_check_ok(oriel_mem_free(mem[1]));
    }
    return 0;
}

/* covers: D5 D7 */
Test(network, a_release_from_afar_reaches_everybody)
{
    share_boxes();
    cr_assert_eq(t_job(3, release, NULL), 0);
}

/* ---------------------------------------------------------------- a peer that stands still */

static _Atomic int *pid_of_peer(void)
{
    return t_shared;
}

/* Stops the peer; it does nothing any more on return. */
static void stop_peer(void)
{
    char path[64];
    char line[256];
    pid_t pid = atomic_load(pid_of_peer());
    char state = '?';
    t_check_eq(kill(pid, SIGSTOP), 0);
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    while (state != 'T') {
        FILE *f = fopen(path, "r");
        t_check(f != NULL && fgets(line, sizeof(line), f) != NULL);
        (void)fclose(f);
        state = strrchr(line, ')')[2];
    }
    t_sleep_ms(20); /* the state is that of one of its threads */
}

/* Submits `n` operations that nobody serves; what has no room is refused at once. */
static uint64_t storm(struct oriel_remote *r, uint64_t n)
{
    static uint64_t value;
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct oriel_xfer put = { .kind = ORIEL_PUT, .remote = r, .src = &value, .bytes = 8 };
    uint64_t refused = 0;
    opts.flags = ORIEL_NOWAIT;
    for (uint64_t i = 0; i < n; i++) {
        struct oriel_request *request = NULL;
        int status = oriel_start(&put, 1, &opts, &request);
        t_check(status == 0 || status == ORIEL_ERR_AGAIN);
        refused += status != 0 ? 1 : 0;
        t_check_ok(oriel_request_free(&request));
    }
    return refused;
}

static int still(int rank, void *arg)
{
    static uint64_t memory[8];
    struct oriel_mem *mem = NULL;
    uint64_t n = getenv("T_SOAK") != NULL ? 10000000 : 300000;
    (void)arg;
    if (rank == 1) {
        publish(0, memory, sizeof(memory), &mem);
        atomic_store(pid_of_peer(), (int)getpid());
    }
    t_meet(2);
    if (rank == 0) {
        struct oriel_remote *r = open_box(0);
        struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
        struct oriel_request *late = NULL;
        uint64_t seen = 0;
        struct oriel_xfer get = { .kind = ORIEL_GET, .remote = r, .dst = &seen, .bytes = 8 };
        t_check_ok(put_and_flush(r, 0, 5, 1));
        stop_peer();
        opts.timeout_ns = 50 * 1000 * 1000;
        t_check_ok(oriel_start(&get, 1, &opts, &late));
        t_check_eq(oriel_wait(&late, NULL), ORIEL_ERR_TIMEOUT);
        t_check(!oriel_request_settled(late));
        t_check_eq(oriel_run(&get, 1, &opts), ORIEL_ERR_TIMEOUT);
        (void)storm(r, 20000);
        size_t before = t_resident();
        t_check(storm(r, n) != 0);
        t_check(t_resident() < before + ((size_t)1 << 20));
        t_check_eq(kill(atomic_load(pid_of_peer()), SIGCONT), 0);
        t_check_ok(oriel_flush(1));
        double end = t_now() + 20;
        while (!oriel_request_settled(late) && t_now() < end) {
            (void)core_progress();
        }
        t_check_eq(oriel_wait(&late, NULL), ORIEL_ERR_TIMEOUT);
        t_check(late == NULL);
        t_check_ok(oriel_get(r, 0, &seen, 8));
        t_check_eq(seen, 0);
        t_check_ok(oriel_remote_close(r));
    }
    t_meet(2);
    t_check_ok(oriel_mem_free(mem));
    return 0;
}

/* covers: H8 K13 N19 K7 */
Test(network, memory_stays_flat_while_a_peer_stands_still)
{
    share_boxes();
    t_limit_s = 100;
    cr_assert_eq(t_job(2, still, NULL), 0);
}
