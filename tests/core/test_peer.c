/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers: what an untouched one costs, how a death and a regular end are found and told, flush.
 */
#include <criterion/criterion.h>

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/core.h"
#include "core/path/peer.h"
#include "core/path/progress.h"
#include "oriel.h"
#include "tests/t.h"

#define MANY 10000

TestSuite(peer, .timeout = 60);

Test(peer, ten_thousand_untouched_ones_cost_little)
{
    int me = 17;
    size_t heap = mallinfo2().uordblks + mallinfo2().hblkhd;
    size_t before = t_resident();
    size_t after;

    core.size = MANY;
    core.nlocal = 1;
    core.local_rank = &me;
    core.rank = me;
    cr_assert_eq(core_peers_open(), 0);
    after = t_resident();
    cr_assert_leq(after - before, 100u * MANY, "%zu bytes resident", after - before);
    heap = mallinfo2().uordblks + mallinfo2().hblkhd - heap;
    cr_assert_leq(heap, 100u * MANY, "%zu bytes of heap", heap);
    for (int rank = 0; rank < MANY; rank++) {
        cr_assert_eq(core.peers[rank].local, rank == me ? 0 : -1);
        cr_assert(!core_peer_is_failed(rank));
        cr_assert_eq(core_peer_check(rank), 0, "nothing is known of other hosts");
    }
    core_peers_close();
    cr_assert_null(core.peers);
}

static void expect_detail(const char *words)
{
    t_check(strstr(oriel_error_detail(), words) != NULL);
}

/* Looks until the library has found out. */
static void wait_for_death(int rank)
{
    while (core_peer_check(rank) == 0) {
        t_sleep_ms(1);
    }
}

static int one_dies(int rank, void *arg)
{
    struct core_path *path;

    (void)arg;
    t_check_ok(oriel_init(NULL));
    t_check_ok(oriel_flush(2));
    if (rank == 0) {
        t_check_ok(core_path_of(2, &path));
        t_check(atomic_load(&core.peers[2].path) == path);
    }
    t_meet(3);
    if (rank == 2) {
        t_die();
    }
    wait_for_death(2);
    t_check_eq(core_peer_check(2), ORIEL_ERR_PEER);
    expect_detail("rank 2 on ");
    expect_detail("is gone");
    t_check(!core_peer_has_left(2));
    t_check_eq(core_peer_any_dead(), 2);
    t_check_eq(core_path_of(2, &path), ORIEL_ERR_PEER);
    t_check_eq(oriel_flush(2), ORIEL_ERR_PEER);
    t_check_eq(oriel_flush_all(), ORIEL_ERR_PEER);
    expect_detail("rank 2");
    t_check_ok(oriel_flush(1 - rank));
    t_check_ok(core_peer_check(1 - rank));
    if (rank == 0) {
        path = atomic_load(&core.peers[2].path);
        t_check_eq(atomic_load(&path->ep->state), FAB_EP_FAILED);
    }
    t_meet(2);
    return 0;
}

Test(peer, death_is_found_and_told)
{
    cr_assert_eq(t_ranks(3, one_dies, NULL), 0);
}

static int tick_finds(int rank, void *arg)
{
    struct fab_hazard *line;

    (void)arg;
    t_check_ok(oriel_init(NULL));
    t_meet(3);
    if (rank == 2) {
        t_die();
    }
    line = fab_hazard_claim(core.node);
    while (!core_peer_is_failed(2)) {
        core_peer_tick(line);
        t_sleep_ms(1);
    }
    t_check(!core_peer_is_failed(1 - rank));
    t_meet(2);
    return 0;
}

Test(peer, periodic_look_finds_a_death)
{
    cr_assert_eq(t_ranks(3, tick_finds, NULL), 0);
}

/* What a rank that went through finalize leaves in its control block. */
static int one_leaves(int rank, void *arg)
{
    struct core_path *path;

    (void)arg;
    t_check_ok(oriel_init(NULL));
    t_check_ok(core_path_of(1, &path));
    t_meet(2);
    if (rank == 1) {
        atomic_store(&core.node->ctl[core.local].state, FAB_RANK_FINAL);
        t_meet(2);
        t_meet(2);
        return 0;
    }
    t_meet(2);
    t_check_eq(core_peer_check(1), ORIEL_ERR_PEER);
    expect_detail("rank 1 has finalized");
    t_check(core_peer_has_left(1));
    t_check_eq(core_path_of(1, &path), ORIEL_ERR_PEER);
    t_check_eq(core_peer_any_dead(), -1);
    t_check_ok(oriel_flush_all());
    t_meet(2);
    return 0;
}

Test(peer, regular_end_is_told_as_such)
{
    cr_assert_eq(t_ranks(2, one_leaves, NULL), 0);
}

static int flush_arguments(int rank, void *arg)
{
    (void)arg;
    t_check_eq(oriel_flush(-1), ORIEL_ERR_RANK);
    t_check_eq(oriel_flush(2), ORIEL_ERR_RANK);
    expect_detail("2");
    t_check_ok(oriel_flush(rank));
    t_check_ok(oriel_flush(1 - rank));
    t_check_ok(oriel_flush_all());
    return 0;
}

Test(peer, flush_checks_its_rank)
{
    cr_assert_eq(oriel_flush(0), ORIEL_ERR_STATE);
    cr_assert_eq(oriel_flush_all(), ORIEL_ERR_STATE);
    cr_assert_eq(t_job(2, flush_arguments, NULL), 0);
}

struct opener {
    pthread_t thread;
    struct core_path *path;
};

static void *open_path(void *arg)
{
    struct opener *opener = arg;

    return core_path_of(1, &opener->path) == 0 ? opener : NULL;
}

/* Several threads at once: one path, one endpoint. */
static int open_at_once(int rank, void *arg)
{
    struct opener opener[4];
    void *result;

    (void)rank;
    (void)arg;
    for (int i = 0; i < 4; i++) {
        t_check_eq(pthread_create(&opener[i].thread, NULL, open_path, &opener[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        t_check_eq(pthread_join(opener[i].thread, &result), 0);
        t_check(result != NULL);
        t_check(opener[i].path == opener[0].path);
    }
    return 0;
}

/* covers: E1 D12 */
Test(peer, path_is_made_once)
{
    cr_assert_eq(t_job(2, open_at_once, NULL), 0);
}
