/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several rails to one peer: which engines are paired, that large operations use all of them, and
 * that nothing is lost when one dies at any moment.
 */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/path/peer.h"
#include "core/path/rail.h"
#include "oriel.h"
#include "tests/core/two_rails.h"
#include "tests/t.h"

#define BYTES (UINT64_C(1) << 20)

static const uint32_t speeds[] = { 10000, 10000 };
static unsigned char target[BYTES + 64];
static unsigned char source[BYTES];
static struct oriel_mem *mem;
static struct oriel_remote *remote;
static struct core_path *path;

static void open_two(void)
{
    (void)setenv("ORIEL_STRIPE_MIN", "64k", 1);
    loop_open(2, speeds);
    memset(target, 0, sizeof(target));
    t_fill(source, BYTES, 1, 1, 0);
    remote = loop_remote(target, sizeof(target), &mem);
    path = loop_path();
    cr_assert_eq(path->nrails, 2);
}

static void close_two(void)
{
    cr_assert_eq(atomic_load(&path->inflight), 0);
    cr_assert_eq(oriel_remote_close(remote), 0);
    cr_assert_eq(oriel_mem_free(mem), 0);
    loop_close();
}

TestSuite(rails, .init = open_two, .fini = close_two, .timeout = 30);

static uint64_t carried(int rail)
{
    return atomic_load(&path->rail[rail].bytes);
}

static uint64_t *counter(void)
{
    return (uint64_t *)(void *)(target + BYTES);
}

/* covers: L11 */
Test(rails, large_ones_use_both_small_ones_the_first)
{
    unsigned char *back = calloc(1, BYTES);

    cr_assert_eq(oriel_put(remote, 0, source, BYTES), 0);
    cr_assert_eq(carried(0), BYTES / 2);
    cr_assert_eq(carried(1), BYTES / 2);
    cr_assert_eq(oriel_flush(LOOP_PEER), 0);
    cr_assert_eq(memcmp(target, source, BYTES), 0);
    cr_assert_eq(oriel_get(remote, 0, back, BYTES), 0);
    cr_assert_eq(memcmp(back, source, BYTES), 0);
    cr_assert_eq(carried(1), BYTES);
    cr_assert_eq(oriel_put(remote, 0, "12345678", 8), 0);
    cr_assert_eq(oriel_flush(LOOP_PEER), 0);
    cr_assert_eq(memcmp(target, "12345678", 8), 0);
    cr_assert_eq(carried(0), BYTES + 8);
    cr_assert_eq(oriel_put_notify(remote, 0, source, BYTES, BYTES, 5), 0);
    cr_assert_eq(*counter(), 5);
    cr_assert_eq(memcmp(target, source, BYTES), 0);
    cr_assert_eq(oriel_atomic64(remote, BYTES, ORIEL_ATOMIC_ADD, 2, NULL), 0);
    cr_assert_eq(*counter(), 7);
    free(back);
}

/* What a small put leaves behind is visible after a flush, and only then need be. */
/* covers: N16 */
Test(rails, small_puts_do_not_wait)
{
    for (uint64_t i = 0; i < 100; i++) {
        cr_assert_eq(oriel_put(remote, 8 * i, &i, 8), 0);
    }
    cr_assert_neq(atomic_load(&path->inflight), 0, "nobody has made progress");
    cr_assert_eq(oriel_flush(LOOP_PEER), 0);
    for (uint64_t i = 0; i < 100; i++) {
        cr_assert_eq(memcmp(target + 8 * i, &i, 8), 0);
    }
    cr_assert_eq(atomic_load(&path->inflight), 0);
}

/* covers: D8 */
Test(rails, released_memory_is_gone_and_the_rail_lives)
{
    struct oriel_mem *other_mem;
    static unsigned char other[64];
    struct oriel_remote *r = loop_remote(other, sizeof(other), &other_mem);
    uint64_t value = 1;

    cr_assert_eq(oriel_mem_free(other_mem), 0);
    cr_assert_eq(oriel_get(r, 0, &value, 8), ORIEL_ERR_GONE);
    (void)!oriel_put(r, 0, &value, 8);
    cr_assert_eq(oriel_flush(LOOP_PEER), ORIEL_ERR_GONE, "of the small put");
    cr_assert_eq(oriel_flush(LOOP_PEER), 0, "said once");
    cr_assert_eq(other[0], 0);
    cr_assert_eq(oriel_remote_close(r), 0);
    cr_assert_eq(oriel_put(remote, 0, source, BYTES), 0);
    cr_assert_eq(oriel_flush(LOOP_PEER), 0);
    cr_assert_eq(memcmp(target, source, BYTES), 0);
}

static uint64_t stat(const char *name)
{
    struct oriel_counter c = { .size = sizeof(c) };

    for (size_t i = 0; oriel_counter_query(i, &c) == 0; i++) {
        if (strcmp(c.name, name) == 0) {
            return c.value;
        }
    }
    return UINT64_MAX;
}

/* A rail dies with `after` steps of progress done: whatever it held arrives by the other one. */
static void die_under_way(int rail, int after)
{
    struct oriel_xfer ops[8];
    struct oriel_request *request;

    for (int i = 0; i < 8; i++) {
        ops[i] = (struct oriel_xfer){ .kind = ORIEL_PUT,
                                      .remote = remote,
                                      .offset = (uint64_t)i * (BYTES / 8),
                                      .src = source + (uint64_t)i * (BYTES / 8),
                                      .bytes = BYTES / 8 };
    }
    cr_assert_eq(oriel_start(ops, 8, NULL, &request), 0);
    for (int i = 0; i < after; i++) {
        (void)fab_engine_progress(core.network[rail]);
    }
    loop_kill(rail);
    cr_assert_eq(oriel_wait(&request, NULL), 0);
    cr_assert_eq(oriel_flush(LOOP_PEER), 0);
    cr_assert_eq(memcmp(target, source, BYTES), 0);
    cr_assert_eq(atomic_load(&path->rail[rail].dead), 1);
    cr_assert_eq(stat("rails_lost"), 1);
    cr_assert_eq(atomic_load(&path->rail[rail].live), 0);
}

/* covers: N18 DEV-09 */
Test(rails, a_dying_rail_loses_nothing)
{
    die_under_way(0, 0);
    cr_assert_neq(stat("ops_moved"), 0);
    memset(target, 0, BYTES);
    cr_assert_eq(oriel_put(remote, 0, source, BYTES), 0, "by the one that is left");
    cr_assert_eq(oriel_flush(LOOP_PEER), 0);
    cr_assert_eq(memcmp(target, source, BYTES), 0);
}

Test(rails, a_dying_rail_loses_nothing_later)
{
    die_under_way(1, 3);
}

Test(rails, small_puts_survive)
{
    for (uint64_t i = 0; i < 100; i++) {
        cr_assert_eq(oriel_put(remote, 8 * i, &i, 8), 0);
        if (i == 50) {
            loop_kill(0);
        }
    }
    cr_assert_eq(oriel_flush(LOOP_PEER), 0);
    for (uint64_t i = 0; i < 100; i++) {
        cr_assert_eq(memcmp(target + 8 * i, &i, 8), 0);
    }
}

/* The data moves; the counter is raised once, after it. */
Test(rails, put_notify_survives_while_its_data_is_under_way)
{
    struct oriel_xfer x = { .kind = ORIEL_PUT_NOTIFY,
                            .remote = remote,
                            .src = source,
                            .bytes = BYTES,
                            .counter = BYTES,
                            .operand = 1 };
    struct oriel_request *request;

    cr_assert_eq(oriel_start(&x, 1, NULL, &request), 0);
    loop_kill(0);
    cr_assert_eq(oriel_wait(&request, NULL), 0);
    cr_assert_eq(*counter(), 1);
    cr_assert_eq(memcmp(target, source, BYTES), 0);
}

/* Nobody knows whether it was done. */
Test(rails, an_atomic_that_loses_its_rail_says_so)
{
    struct oriel_xfer x = { .kind = ORIEL_ATOMIC,
                            .atomic = ORIEL_ATOMIC_ADD,
                            .remote = remote,
                            .offset = BYTES,
                            .bytes = 8,
                            .operand = 1 };
    struct oriel_request *request;

    cr_assert_eq(oriel_start(&x, 1, NULL, &request), 0);
    loop_kill(0);
    cr_assert(oriel_wait(&request, NULL) == ORIEL_ERR_LINK || *counter() == 1);
    cr_assert_eq(oriel_atomic64(remote, BYTES, ORIEL_ATOMIC_ADD, 1, NULL), 0, "by the other: %s",
                 oriel_error_detail());
}

/* covers: DEV-18 */
Test(rails, a_dead_rail_comes_back)
{
    uint64_t before;
    double end = t_now() + 20;

    die_under_way(1, 0);
    while (atomic_load(&path->rail[1].dead) != 0 && t_now() < end) {
        cr_assert_eq(oriel_flush(LOOP_PEER), 0);
        cr_assert_eq(oriel_put(remote, 0, source, 8), 0);
        t_sleep_ms(5);
    }
    cr_assert_eq(atomic_load(&path->rail[1].dead), 0);
    cr_assert_eq(stat("rails_back"), 1);
    before = carried(1);
    memset(target, 0, BYTES);
    cr_assert_eq(oriel_put(remote, 0, source, BYTES), 0);
    cr_assert_eq(oriel_flush(LOOP_PEER), 0);
    cr_assert_eq(carried(1), before + BYTES / 2);
    cr_assert_eq(memcmp(target, source, BYTES), 0);
}

Test(rails, without_a_rail_the_peer_is_gone)
{
    struct oriel_request *request;

    cr_assert_eq(oriel_put_start(remote, 0, source, BYTES, &request), 0);
    loop_kill(0);
    loop_kill(1);
    cr_assert_eq(oriel_wait(&request, NULL), ORIEL_ERR_PEER);
    cr_assert(strstr(oriel_error_detail(), "the test has cut it") != NULL, "%s",
              oriel_error_detail());
    cr_assert_eq(oriel_flush(LOOP_PEER), ORIEL_ERR_PEER);
    cr_assert_eq(oriel_put(remote, 0, source, 8), ORIEL_ERR_PEER);
    cr_assert(core_peer_is_failed(LOOP_PEER));
}

/* ---------------------------------------------------------------- pairs */

static struct fab_engine engine_of(int level, uint8_t net, uint64_t mbps)
{
    struct fab_engine engine = { .level = (enum fab_level)level, .tag = "loop" };

    engine.nic.net[0] = net == 0 ? 0 : 4;
    engine.nic.net[4] = net;
    engine.nic.mbps = mbps;
    return engine;
}

static struct fab_card card_of(uint8_t net, uint32_t mbps)
{
    struct fab_card card = { .tag = "loop", .mbps = mbps };

    card.net[0] = net == 0 ? 0 : 4;
    card.net[4] = net;
    return card;
}

Test(pairs, by_network_then_by_order)
{
    struct fab_engine a = engine_of(FAB_LEVEL_NETWORK, 1, 1000);
    struct fab_engine b = engine_of(FAB_LEVEL_NETWORK, 2, 10000);
    struct fab_engine *mine[] = { &a, &b };
    struct fab_card cards[] = { card_of(2, 10000), card_of(1, 1000), card_of(7, 0) };
    struct core_pair pair[CORE_RAILS_MAX];

    cr_assert_eq(core_rails_pair(mine, 2, cards, 3, 8, pair), 2);
    cr_assert(pair[0].engine == 1 && pair[0].card == 0, "the faster one first");
    cr_assert(pair[1].engine == 0 && pair[1].card == 1);
    cr_assert_eq(pair[0].weight, 10000);
    cr_assert_eq(core_rails_pair(mine, 2, cards, 3, 1, pair), 1);
    cr_assert_eq(core_rails_pair(mine, 2, cards + 2, 1, 8, pair), 1,
                 "other networks where no network is shared");
    cards[0] = card_of(8, 0);
    cr_assert_eq(core_rails_pair(mine, 2, cards, 3, 8, pair), 1,
                 "a known network that is not ours is left alone when one is shared");
    cards[0] = card_of(0, 0);
    cr_assert_eq(core_rails_pair(mine, 2, cards, 3, 8, pair), 2, "unknown ones may serve");
    cards[0].tag[0] = 'x';
    cards[1].tag[0] = 'x';
    cr_assert_eq(core_rails_pair(mine, 2, cards, 2, 8, pair), 0, "another protocol");
    cr_assert_eq(core_rails_pair(mine, 0, cards, 3, 8, pair), 0);
}

/* covers: L1 */
Test(pairs, slower_levels_stand_by)
{
    struct fab_engine tcp = engine_of(FAB_LEVEL_NETWORK, 1, 100000);
    struct fab_engine efa = engine_of(FAB_LEVEL_NIC, 2, 0);
    struct fab_engine *mine[] = { &tcp, &efa };
    struct fab_card cards[] = { card_of(1, 100000), card_of(2, 0) };
    struct core_pair pair[CORE_RAILS_MAX];

    cr_assert_eq(core_rails_pair(mine, 2, cards, 2, 8, pair), 2);
    cr_assert_eq(pair[0].engine, 1);
    cr_assert_neq(pair[0].weight, 0);
    cr_assert_eq(pair[1].weight, 0);
}
