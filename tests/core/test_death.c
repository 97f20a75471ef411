/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that exits, aborts or is killed in the middle of things: the others get PEER with its
 * number, from whatever call they are in, and can still finalize.
 */
#include <criterion/criterion.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "core/mem/mem.h"
#include "oriel.h"
#include "tests/t.h"

#define VICTIM 1

enum way {
    BY_KILL,
    BY_ABORT,
    BY_EXIT,
    BY_ORIEL_ABORT
};

/* Ends this process in the given way; t_ranks is told that it was on purpose. */
static void end_by(enum way way)
{
    switch (way) {
    case BY_KILL:
        t_die();
        break;
    case BY_ABORT:
        signal(SIGABRT, SIG_DFL);
        t_mark_dying();
        abort();
    case BY_EXIT:
        t_mark_dying();
        exit(3);
    case BY_ORIEL_ABORT:
        t_mark_dying();
        oriel_abort(4, "on purpose");
    }
}

/* The call ended with PEER and its text names the rank. */
static void expect_peer(int status)
{
    t_check_eq(status, ORIEL_ERR_PEER);
    t_check(strstr(oriel_error_detail(), "rank 1") != NULL);
}

struct plan {
    enum way way;
    int (*survivor)(struct oriel_remote *victims);
    void (*victim)(struct oriel_remote *others);
    int private_memory; /* tokens of memory that is not mapped by others */
};

static struct oriel_remote *meet(const struct plan *plan, int rank)
{
    struct {
        size_t bytes;
        unsigned char token[ORIEL_TOKEN_BYTES_MAX];
    } *box = t_shared;
    static unsigned char mine[65536];
    struct oriel_mem *mem = NULL;
    struct oriel_remote *r = NULL;
    if (plan->private_memory != 0) {
        t_check_ok(oriel_mem_register(mine, sizeof(mine), NULL, &mem));
    } else {
        t_check_ok(oriel_mem_alloc(sizeof(mine), NULL, &mem));
    }
    t_check_ok(oriel_token_pack(mem, box[rank].token, sizeof(box[rank].token), &box[rank].bytes));
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    int other = rank == VICTIM ? 0 : VICTIM;
    t_check_ok(oriel_token_open(box[other].token, box[other].bytes, &r));
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    return r;
}

static int play(int rank, void *arg)
{
    const struct plan *plan = arg;
    t_check_ok(oriel_init(NULL));
    struct oriel_remote *r = meet(plan, rank);
    if (rank == VICTIM) {
        if (plan->victim != NULL) {
            plan->victim(r);
        }
        end_by(plan->way);
    }
    expect_peer(plan->survivor(r));
    /* and everything else is an error at once, or still works */
    expect_peer(oriel_barrier(ORIEL_WORLD));
    expect_peer(oriel_flush(VICTIM));
    t_check_ok(oriel_flush(0));
    (void)!oriel_finalize();
    return 0;
}

static int in_barrier(struct oriel_remote *r)
{
    (void)r;
    return oriel_barrier(ORIEL_WORLD);
}

static int in_bcast(struct oriel_remote *r)
{
    (void)r;
    char data[100000];
    return oriel_bcast(data, sizeof(data), ORIEL_BYTE, VICTIM, ORIEL_WORLD);
}

static int in_allreduce(struct oriel_remote *r)
{
    (void)r;
    double x = 1;
    double y;
    return oriel_allreduce(&x, &y, 1, ORIEL_DOUBLE, ORIEL_SUM, ORIEL_WORLD);
}

static int in_counter_wait(struct oriel_remote *r)
{
    (void)r;
    struct oriel_mem *mem = NULL;
    t_check_ok(oriel_mem_alloc(64, NULL, &mem));
    return oriel_counter_wait(mem, 0, 1, ORIEL_FOREVER, NULL);
}

static int in_put_storm(struct oriel_remote *r)
{
    uint64_t word = 7;
    int st = 0;
    while (st == 0) {
        st = oriel_put(r, 0, &word, 8);
    }
    return st;
}

static int in_big_put_storm(struct oriel_remote *r)
{
    static unsigned char data[65536];
    int st = 0;
    while (st == 0) {
        st = oriel_put(r, 0, data, sizeof(data));
        st = st == 0 ? oriel_flush(VICTIM) : st;
    }
    return st;
}

static int in_atomic_storm(struct oriel_remote *r)
{
    int st = 0;
    while (st == 0) {
        st = oriel_atomic64(r, 0, ORIEL_ATOMIC_ADD, 1, NULL);
    }
    return st;
}

static int in_request(struct oriel_remote *r)
{
    static unsigned char data[65536];
    int st = 0;
    while (st == 0) {
        struct oriel_request *req = NULL;
        st = oriel_get_start(r, 0, data, sizeof(data), &req);
        st = st == 0 ? oriel_wait(&req, NULL) : st;
    }
    return st;
}

/* covers: R6 */
Test(death, in_collectives, .timeout = 100)
{
    int (*const calls[])(struct oriel_remote *) = { in_barrier, in_bcast, in_allreduce,
                                                    in_counter_wait };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (int way = BY_KILL; way <= BY_ORIEL_ABORT; way++) {
            struct plan plan = { .way = (enum way)way, .survivor = calls[i] };
            cr_assert_eq(t_ranks(3, play, &plan), 0, "call %zu way %d", i, way);
        }
    }
}

/* covers: R6 */
Test(death, in_storms, .timeout = 100)
{
    int (*const calls[])(struct oriel_remote *) = { in_put_storm, in_big_put_storm, in_atomic_storm,
                                                    in_request };
    for (int private_memory = 0; private_memory < 2; private_memory++) {
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
            struct plan plan = { .way = BY_KILL,
                                 .survivor = calls[i],
                                 .private_memory = private_memory };
            cr_assert_eq(t_ranks(3, play, &plan), 0, "call %zu private %d", i, private_memory);
        }
    }
}

/* Killed while its hazard line names memory of rank 0: the release must not wait for the dead. */
static void hold_hazard(struct oriel_remote *others)
{
    struct fab_hazard *line = fab_hazard_of(core.node);
    t_check(fab_hazard_enter(line, others->key.hazard, others->key.live, others->key.gen));
    t_check_ok(oriel_flush(0));
}

static int release_everything(struct oriel_remote *r)
{
    (void)r;
    t_sleep_ms(50);
    /* rank 0's memory is freed by finalize; here: a new one, and the storm's end */
    return in_put_storm(r);
}

Test(death, while_holding_a_hazard_line)
{
    struct plan plan = { .way = BY_KILL, .survivor = release_everything, .victim = hold_hazard };
    cr_assert_eq(t_ranks(2, play, &plan), 0);
}

/* Killed in the middle of its own storm into rank 0, through the ring (its slots half used). */
static void storm_until_killed(struct oriel_remote *others)
{
    static unsigned char data[65536];
    for (int i = 0; i < 200; i++) {
        struct oriel_request *req = NULL;
        if (oriel_put_start(others, 0, data, sizeof(data), &req) != 0) {
            return;
        }
        (void)!oriel_request_free(&req);
    }
}

static int ring_play(int rank, void *arg)
{
    setenv("ORIEL_SHM_COPY", "ring", 1);
    return play(rank, arg);
}

Test(death, in_the_middle_of_its_own_ring_storm)
{
    struct plan plan = {
        .way = BY_KILL, .survivor = in_barrier, .victim = storm_until_killed, .private_memory = 1
    };
    cr_assert_eq(t_ranks(3, ring_play, &plan), 0);
    plan.survivor = in_request;
    cr_assert_eq(t_ranks(3, ring_play, &plan), 0);
    plan.survivor = in_put_storm;
    plan.victim = NULL;
    cr_assert_eq(t_ranks(3, ring_play, &plan), 0);
}
