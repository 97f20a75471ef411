/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Behaviour that the requirement table asks for by name: what counters add up to, which threads
 * there are, whom a slow peer delays, what finalize does with what is still under way.
 */
#include <criterion/criterion.h>

#include <dirent.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/path/progress.h"
#include "oriel.h"
#include "tests/t.h"

TestSuite(rows_use, .timeout = 60);

struct box {
    size_t bytes;
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
};

static struct box *box(int i)
{
    return (struct box *)t_shared + i;
}

static void pack(const struct oriel_mem *mem, int i)
{
    t_check_ok(oriel_token_pack(mem, box(i)->token, sizeof(box(i)->token), &box(i)->bytes));
}

static struct oriel_remote *open_box(int i)
{
    struct oriel_remote *remote = NULL;

    t_check_ok(oriel_token_open(box(i)->token, box(i)->bytes, &remote));
    return remote;
}

static struct oriel_mem *publish(int i, uint64_t bytes)
{
    struct oriel_mem *mem = NULL;

    t_check_ok(oriel_mem_alloc(bytes, NULL, &mem));
    pack(mem, i);
    return mem;
}

static uint64_t counter(const char *name)
{
    struct oriel_counter c = { .size = sizeof(c) };

    for (size_t i = 0; oriel_counter_query(i, &c) == 0; i++) {
        if (strcmp(c.name, name) == 0) {
            return c.value;
        }
    }
    t_check(name == NULL); /* there is no such counter */
    return 0;
}

static int entries_of(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;

    t_check(dir != NULL);
    while (readdir(dir) != NULL) {
        n++;
    }
    (void)closedir(dir);
    return n;
}

/* ---------------------------------------------------------------- counters */

/* Operations count by direction; a failed one counts, its bytes do not. */
static int add_up(int rank, void *arg)
{
    struct oriel_mem *mem = publish(0, 1024);
    struct oriel_remote *r = open_box(0);
    unsigned char data[1024] = { 0 };
    uint64_t sent = 0;

    (void)rank;
    (void)arg;
    for (uint64_t n = 1; n <= 64; n++) {
        t_check_ok(oriel_put(r, n, data, n));
        t_check_ok(oriel_get(r, n, data, 2 * n));
        t_check_ok(oriel_atomic64(r, 8 * n, ORIEL_ATOMIC_ADD, 1, NULL));
        sent += n;
        t_check_eq(counter("puts"), n);
        t_check_eq(counter("gets"), n);
        t_check_eq(counter("atomics"), n);
        t_check_eq(counter("put_bytes"), sent);
        t_check_eq(counter("get_bytes"), 2 * sent);
    }
    t_check_eq(oriel_put(r, 1020, data, 8), ORIEL_ERR_RANGE);
    t_check_eq(counter("puts"), 64); /* never started */
    t_check_ok(oriel_mem_free(mem));
    t_check_eq(oriel_put(r, 0, data, 100), ORIEL_ERR_GONE);
    t_check_eq(oriel_get(r, 0, data, 100), ORIEL_ERR_GONE);
    t_check_eq(counter("puts"), 65);
    t_check_eq(counter("gets"), 65);
    t_check_eq(counter("put_bytes"), sent);
    t_check_eq(counter("get_bytes"), 2 * sent);
    t_check_ok(oriel_remote_close(r));
    return 0;
}

/* covers: Q5 O5 */
Test(rows_use, counters_add_up)
{
    cr_assert_eq(t_job(1, add_up, NULL), 0);
}

/* ---------------------------------------------------------------- threads */

/* No thread but the caller's while peers need none to reach what is shared. */
static int no_thread(int rank, void *arg)
{
    struct oriel_mem *mem;
    struct oriel_remote *r;
    uint64_t word = 1;

    (void)arg;
    t_check_ok(oriel_init(NULL));
    mem = publish(rank, 4096);
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    r = open_box(1 - rank);
    t_check_ok(oriel_put_notify(r, 0, &word, 8, 64, 1));
    t_check_ok(oriel_counter_wait(mem, 64, 1, ORIEL_FOREVER, NULL));
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    t_check_eq(entries_of("/proc/self/task"), 3); /* one, and the two dots */
    t_check_ok(oriel_remote_close(r));
    t_check_ok(oriel_finalize());
    t_check_eq(entries_of("/proc/self/task"), 3);
    return 0;
}

/* covers: P1 */
Test(rows_use, callers_make_the_progress)
{
    cr_assert_eq(t_ranks(2, no_thread, NULL), 0);
}

/* ---------------------------------------------------------------- a slow peer */

enum {
    RANKS = 3,
    FAST = 1,
    SLOW = 2,
    ROOM = 4
};

static unsigned char mine[4096];

static struct oriel_mem *join_private(int rank)
{
    struct oriel_mem *mem = NULL;

    t_check_ok(oriel_init(NULL));
    t_check_ok(oriel_mem_register(mine, sizeof(mine), NULL, &mem));
    pack(mem, rank);
    t_meet(RANKS);
    return mem;
}

static _Atomic uint32_t *told(void)
{
    void *word = (char *)t_shared + T_SHARED_BYTES - 64;

    return word;
}

/* Everything that may be under way to one peer is, and it does not answer; another one does. */
static void ask_both(void)
{
    struct oriel_remote *fast = open_box(FAST);
    struct oriel_remote *slow = open_box(SLOW);
    struct oriel_request *stuck[ROOM];
    uint64_t landed[ROOM];
    int done = 1;

    for (int i = 0; i < ROOM; i++) {
        t_check_ok(oriel_get_start(slow, 0, &landed[i], 8, &stuck[i]));
    }
    for (uint64_t i = 0; i < 200; i++) {
        uint64_t seen = 0;

        t_check_ok(oriel_put(fast, 8, &i, 8));
        t_check_ok(oriel_flush(FAST));
        t_check_ok(oriel_get(fast, 8, &seen, 8));
        t_check_eq(seen, i);
    }
    for (int i = 0; i < ROOM; i++) {
        t_check_ok(oriel_test(&stuck[i], &done, NULL));
        t_check_eq(done, 0);
    }
    atomic_store(told(), 1);
    t_check_ok(oriel_wait_all(stuck, ROOM, NULL));
    for (int i = 0; i < ROOM; i++) {
        t_check_eq(landed[i], 0x0808080808080808);
    }
    atomic_store(told(), 2);
    t_check_ok(oriel_remote_close(fast));
    t_check_ok(oriel_remote_close(slow));
}

static int slow_peer(int rank, void *arg)
{
    struct oriel_mem *mem;

    (void)arg;
    (void)setenv("ORIEL_SHM_COPY", "ring", 1);
    (void)setenv("ORIEL_INFLIGHT", "4", 1);
    (void)setenv("ORIEL_AGENT", rank == SLOW ? "off" : "auto", 1);
    memset(mine, 8, sizeof(mine));
    mem = join_private(rank);
    if (rank == 0) {
        ask_both();
    }
    while (rank == SLOW && atomic_load(told()) == 0) {
        t_sleep_ms(1); /* does not call the library */
    }
    while (rank == SLOW && atomic_load(told()) == 1) {
        (void)core_progress();
    }
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    t_check_ok(oriel_mem_free(mem));
    t_check_ok(oriel_finalize());
    return 0;
}

/* covers: H4 */
Test(rows_use, a_slow_peer_does_not_delay_a_fast_one)
{
    cr_assert_eq(t_ranks(RANKS, slow_peer, NULL), 0);
}

/* ---------------------------------------------------------------- the end */

/* Puts are under way, to a rank that does nothing but finalize, when this one finalizes: either all
 * have arrived, or finalize says that it ended some. Nothing is left of it in either case. */
static int end_in_flight(int rank, void *arg)
{
    enum {
        N = 64
    };
    static unsigned char data[N][64];
    struct oriel_remote *r;
    int files = entries_of("/proc/self/fd");
    int status;

    (void)arg;
    (void)setenv("ORIEL_SHM_COPY", "ring", 1);
    (void)join_private(rank);
    r = open_box(FAST);
    if (rank == 0) {
        struct oriel_request *request;

        for (int i = 0; i < N; i++) {
            t_fill(data[i], 64, 1, 2, 64 * (uint64_t)i);
            t_check_ok(oriel_put_start(r, 64 * (uint64_t)i, data[i], 64, &request));
            t_check_ok(oriel_request_free(&request));
        }
    }
    status = oriel_finalize();
    t_check(status == 0 || (rank == 0 && status == ORIEL_ERR_BUSY));
    t_check(!oriel_is_initialized());
    t_check_eq(oriel_put(r, 0, data, 8), ORIEL_ERR_STATE);
    t_check_eq(entries_of("/proc/self/task"), 3);
    t_check_eq(entries_of("/proc/self/fd"), files);
    if (rank == 0) {
        atomic_store(told(), status == 0);
    }
    t_meet(RANKS);
    if (rank == FAST && atomic_load(told()) == 1) {
        t_check_eq(t_differs(mine, sizeof(mine), 1, 2, 0), sizeof(mine));
    }
    return 0;
}

/* covers: R5 */
Test(rows_use, what_is_under_way_is_done_or_told)
{
    cr_assert_eq(t_ranks(RANKS, end_in_flight, NULL), 0);
}

/* A request that can never complete, memory and remotes still held: told, and all is freed. */
static int end_with_leftovers(int rank, void *arg)
{
    int files = entries_of("/proc/self/fd");
    struct oriel_request *request;
    struct oriel_remote *r;
    uint64_t landing = 0;

    (void)arg;
    (void)setenv("ORIEL_SHM_COPY", "ring", 1);
    (void)setenv("ORIEL_AGENT", "off", 1);
    (void)setenv("ORIEL_BOOT_TIMEOUT", "1s", 1); /* finalize waits as long for the others */
    (void)join_private(rank);
    (void)publish(RANKS + rank, 4096);
    if (rank == SLOW) {
        t_meet(RANKS); /* never calls the library again before the others have ended */
        (void)oriel_finalize();
        return 0;
    }
    r = open_box(SLOW);
    t_check_ok(oriel_get_start(r, 0, &landing, 8, &request));
    t_check_eq(oriel_finalize(), ORIEL_ERR_BUSY);
    t_check(strstr(oriel_error_detail(), "1 request") != NULL);
    t_check(!oriel_is_initialized());
    t_check_eq(entries_of("/proc/self/fd"), files);
    t_check_eq(landing, 0);
    t_meet(RANKS);
    return 0;
}

/* covers: R2 */
Test(rows_use, finalize_goes_on_after_an_error)
{
    cr_assert_eq(t_ranks(RANKS, end_with_leftovers, NULL), 0);
}
