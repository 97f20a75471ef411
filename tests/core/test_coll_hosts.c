/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that span hosts, on a network of the test's own: every form by sizes around its
 * thresholds, all roots, numbers of ranks and placements against a model; roots that run ahead.
 */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "tests/core/coll_rig.h"
#include "tests/t.h"

#define MOST (5u << 20)

/* ---------------------------------------------------------------- barrier */

static _Atomic uint64_t entered[RIG_RANKS];

static int barriers(struct rig_rank *me, void *arg)
{
    int rank = rig_rank_of(me);

    (void)arg;
    atomic_store(&entered[rank], 0);
    RIG_NEED(coll_hosts_barrier(&me->hosts, "test") == 0);
    for (uint64_t i = 1; i <= 20; i++) {
        atomic_store(&entered[rank], i);
        RIG_NEED(coll_hosts_barrier(&me->hosts, "test") == 0);
        for (int r = 0; r < rig.n; r++) {
            uint64_t seen = atomic_load(&entered[r]);
            RIG_NEED(seen == i || seen == i + 1);
        }
    }
    return coll_hosts_leave(&me->hosts, "test");
}

Test(coll_hosts, barrier_holds_everybody, .timeout = 120)
{
    for (int n = 2; n <= RIG_RANKS; n += n < 9 ? 1 : 11) {
        for (int hosts = 2; hosts <= n; hosts += hosts < 5 ? 1 : 12) {
            for (int p = 0; p < RIG_PLACEMENTS; p++) {
                cr_assert_eq(rig_run(n, hosts, (enum rig_placement)p, barriers, NULL), 0,
                             "%d ranks on %d hosts, placement %d", n, hosts, p);
            }
        }
    }
}

/* ---------------------------------------------------------------- bcast and allreduce */

/* Bytes where a form begins, for that many ranks, and others of interest. */
static size_t sizes_for(int n, size_t size[])
{
    const uint64_t edge[] = { 1,
                              FAB_FLAG_BYTES,
                              COLL_PIECE_BYTES,
                              2 * COLL_PIECE_BYTES,
                              16384,
                              coll_allreduce_sliced_from(n),
                              coll_bcast_chain_from(n > 2 ? n : 3) };
    size_t count = 0;

    for (size_t e = 0; e < sizeof(edge) / sizeof(edge[0]); e++) {
        for (size_t s = edge[e] > 1 ? edge[e] - 1 : 1; s <= edge[e] + 1; s++) {
            size[count++] = s;
        }
    }
    return count;
}

static int one_allreduce(struct rig_rank *me, unsigned char *in, unsigned char *out, size_t bytes)
{
    struct coll_operand x = {
        .send = in, .recv = out, .elements = bytes, .bytes = bytes, .fn = rig_after
    };

    out[bytes] = 77;
    for (size_t i = 0; i < bytes; i++) {
        in[i] = rig_operand(rig_rank_of(me), i);
    }
    RIG_NEED(coll_hosts_allreduce(&me->hosts, "test", &x, 1) == 0);
    for (size_t i = 0; i < bytes; i++) {
        RIG_NEED(in[i] == rig_operand(rig_rank_of(me), i));
        RIG_NEED(out[i] == rig_result(rig.n, i));
    }
    RIG_NEED(out[bytes] == 77);
    x.recv = in;
    RIG_NEED(coll_hosts_allreduce(&me->hosts, "test", &x, 1) == 0);
    RIG_NEED(memcmp(in, out, bytes) == 0);
    return 0;
}

static int all_sizes(struct rig_rank *me, void *arg)
{
    size_t size[32];
    size_t count = sizes_for(*(const int *)arg, size);
    unsigned char *in = malloc(MOST + 1);
    unsigned char *out = malloc(MOST + 1);
    int st = in == NULL || out == NULL;

    for (size_t s = 0; st == 0 && s < count; s++) {
        int roots = size[s] > 5000 ? 2 : rig.n;
        for (int root = 0; st == 0 && root < roots; root++) {
            st = rig_bcast(me, in, size[s], root);
        }
        st = st != 0 ? st : one_allreduce(me, in, out, size[s]);
    }
    free(in);
    free(out);
    return st != 0 ? st : coll_hosts_leave(&me->hosts, "test");
}

static void at_all_sizes(int n, int hosts, int placements)
{
    for (int p = 0; p < placements; p++) {
        int parties = p == RIG_IN_ORDER ? hosts : n;
        cr_assert_eq(rig_run(n, hosts, (enum rig_placement)p, all_sizes, &parties), 0,
                     "%d ranks on %d hosts, placement %d", n, hosts, p);
    }
}

Test(coll_hosts, every_form_size_root_and_placement, .timeout = 300)
{
    for (int n = 2; n <= 9; n += n < 5 ? 1 : 2) {
        for (int hosts = 2; hosts <= 4 && hosts <= n; hosts++) {
            at_all_sizes(n, hosts, RIG_PLACEMENTS);
        }
    }
}

/* Enough ranks for doubling, and no power of two. */
Test(coll_hosts, many_ranks, .timeout = 300)
{
    at_all_sizes(16, 16, 1);
    at_all_sizes(17, 17, 1);
    at_all_sizes(19, 18, 1);
}

static int large(struct rig_rank *me, void *arg)
{
    unsigned char *in = malloc(MOST + 1);
    unsigned char *out = malloc(MOST + 1);
    int st = in == NULL || out == NULL;

    (void)arg;
    st = st != 0 ? st : rig_bcast(me, in, MOST, rig.n - 1);
    st = st != 0 ? st : one_allreduce(me, in, out, MOST - 3);
    free(in);
    free(out);
    return st;
}

Test(coll_hosts, larger_than_a_chunk, .timeout = 120)
{
    cr_assert_eq(rig_run(3, 3, RIG_IN_ORDER, large, NULL), 0);
    cr_assert_eq(rig_run(4, 2, RIG_IN_ORDER, large, NULL), 0);
    cr_assert_eq(rig_run(4, 2, RIG_IN_TURNS, large, NULL), 0);
}

/* ---------------------------------------------------------------- running ahead */

/* Rank 0 sends as fast as it may; the last rank sleeps now and then. */
static int ahead(struct rig_rank *me, void *arg)
{
    size_t bytes = *(const size_t *)arg;
    unsigned char *data = malloc(bytes + 1);
    int last = rig.n - 1;
    int st = data == NULL;

    for (uint64_t i = 0; st == 0 && i < 1000; i++) {
        if (rig_rank_of(me) == last && i % 250 == 0) {
            t_sleep_ms(2);
        }
        st = rig_bcast(me, data, bytes, 0);
        if (st == 0 && rig_untaken(me, last) > me->hosts.net.window) {
            st = 99;
        }
    }
    free(data);
    return st != 0 ? st : coll_hosts_leave(&me->hosts, "test");
}

Test(coll_hosts, a_root_that_runs_ahead_is_held_back, .timeout = 120)
{
    size_t bytes = 8;
    cr_assert_eq(rig_run(2, 2, RIG_IN_ORDER, ahead, &bytes), 0);
    cr_assert_eq(rig_run(5, 3, RIG_IN_TURNS, ahead, &bytes), 0);
    rig.has_servers = true;
    cr_assert_eq(rig_run(3, 3, RIG_IN_ORDER, ahead, &bytes), 0);
    bytes = 3 * COLL_PIECE_BYTES;
    cr_assert_eq(rig_run(3, 3, RIG_IN_ORDER, ahead, &bytes), 0);
    rig.has_servers = false;
}
