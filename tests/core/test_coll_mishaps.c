/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that span hosts, on a network of the test's own, when something is wrong: ranks that
 * disagree, that die or can send no more, and messages that nobody sent.
 */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tests/core/coll_rig.h"
#include "tests/t.h"

struct odd {
    int rank;
    size_t bytes;
};

/* One rank expects other bytes than the root sends: it is told, the others get theirs, and the
 * next bcast works. */
static int disagreeing(struct rig_rank *me, void *arg)
{
    const struct odd *odd = arg;
    bool is_odd = rig_rank_of(me) == odd->rank;
    size_t bytes = is_odd ? 40 : odd->bytes;
    unsigned char *data = calloc(1, odd->bytes + 1);

    if (rig_rank_of(me) == 0) {
        t_fill(data, bytes, 0, 1, 0);
    }
    int st = coll_hosts_bcast(&me->hosts, "test", data, bytes, 0);
    RIG_NEED(is_odd ? st == ORL_ERR_INVAL && strstr(orl_last_error(), "same on all ranks") != NULL
                    : st == 0 && t_differs(data, bytes, 0, 1, 0) == bytes);
    RIG_NEED(data[bytes] == 0);
    if (me->hosts.nlocal == 1) {
        st = rig_bcast(me, data, 500, rig.n - 1);
    }
    free(data);
    return me->hosts.nlocal == 1 ? st : 0;
}

Test(coll_mishaps, ranks_that_disagree_are_told, .timeout = 60)
{
    for (int r = 1; r < 9; r++) {
        struct odd odd = { .rank = r, .bytes = 20000 };
        cr_assert_eq(rig_run(9, 9, RIG_IN_ORDER, disagreeing, &odd), 0, "rank %d", r);
    }
    /* not more than a stage holds: its writer would wait for the rank that has gone on */
    for (int r = 1; r < 6; r++) {
        struct odd odd = { .rank = r, .bytes = 5000 };
        cr_assert_eq(rig_run(6, 3, RIG_IN_ORDER, disagreeing, &odd), 0, "rank %d of 2 each", r);
    }
}

enum what {
    BARRIER,
    BCAST,
    ALLREDUCE,
    LARGE_BCAST,
    LARGE_ALLREDUCE,
    WHATS
};

static int call(struct rig_rank *me, enum what what)
{
    static _Thread_local unsigned char data[300000];
    bool is_large = what == LARGE_BCAST || what == LARGE_ALLREDUCE;
    size_t bytes = is_large ? sizeof(data) : 40;
    const struct coll_operand x = {
        .send = data, .recv = data, .elements = bytes, .bytes = bytes, .fn = rig_after
    };

    switch (what) {
    case BARRIER:
        return coll_hosts_barrier(&me->hosts, "test");
    case BCAST:
    case LARGE_BCAST:
        return coll_hosts_bcast(&me->hosts, "test", data, bytes, 1);
    default:
        return coll_hosts_allreduce(&me->hosts, "test", &x, 1);
    }
}

struct mishap {
    enum what what;
    int victim;
    int status; /* that the others see */
};

/* The victim dies, or can send no more, after a few calls; the others end and know whom it was. */
static int suffer(struct rig_rank *me, void *arg)
{
    const struct mishap *mishap = arg;
    bool is_victim = rig_rank_of(me) == mishap->victim;
    int st = 0;

    for (int i = 0; i < 4 && st == 0; i++) {
        if (is_victim && i == 2 && mishap->status == ORL_ERR_PEER) {
            atomic_store(&me->is_gone, true);
            return 0;
        }
        atomic_store(&me->cannot_send, is_victim && i == 2);
        st = call(me, mishap->what);
        /* bcast's root may be ahead, and a rank that only receives does not know */
        if (st == 0 && i >= 2) {
            st = coll_hosts_barrier(&me->hosts, "test");
        }
    }
    RIG_NEED(st == mishap->status);
    RIG_NEED(me->ended_by == mishap->victim);
    RIG_NEED(coll_hosts_barrier(&me->hosts, "test") == mishap->status);
    return 0;
}

static void all_suffer(int n, int hosts, int status)
{
    for (int what = 0; what < WHATS; what++) {
        for (int victim = 0; victim < n; victim++) {
            struct mishap mishap = { .what = (enum what)what, .victim = victim, .status = status };
            for (int p = 0; p < RIG_PLACEMENTS - 1; p++) {
                cr_assert_eq(rig_run(n, hosts, (enum rig_placement)p, suffer, &mishap), 0,
                             "%d ranks on %d hosts, placement %d, victim %d of call %d", n, hosts,
                             p, victim, what);
            }
        }
    }
}

Test(coll_mishaps, a_death_ends_all_others_and_is_named, .timeout = 120)
{
    all_suffer(2, 2, ORL_ERR_PEER);
    all_suffer(4, 2, ORL_ERR_PEER);
    all_suffer(7, 3, ORL_ERR_PEER);
}

Test(coll_mishaps, a_rank_that_cannot_send_ends_all_others, .timeout = 120)
{
    all_suffer(3, 3, ORL_ERR_NOMEM);
}

/* Messages that no rank has sent, whole and cut, before and between collectives. What looks like an
 * ending would be one. */
static void throw_garbage(struct rig_rank *me)
{
    unsigned char bytes[200];

    for (int i = 0; i < 300; i++) {
        uint64_t header =
            rig_dice(me) % 5 << 56 | rig_dice(me) % 2 << 40 | rig_dice(me) % (uint64_t)(2 * rig.n);
        size_t n = rig_dice(me) % 3 == 0 ? 32 : rig_dice(me) % sizeof(bytes);

        for (size_t k = 0; k < sizeof(bytes); k++) {
            bytes[k] = (unsigned char)(rig_dice(me) % 4 == 0 ? rig_dice(me) : 0);
        }
        /* places beyond the end: with sound ones it would be a piece like any other */
        memset(bytes + 16, 0xff, 8);
        if (header >> 56 != COLL_ENDED && header >> 56 != COLL_TAKEN) {
            memset(bytes + 28, 0xaa, 4);
            coll_net_arrived(&me->hosts.net, header, bytes, n);
        }
        if (n != sizeof(struct coll_ending)) {
            coll_net_arrived(&me->hosts.net, (uint64_t)COLL_ENDED << 56, bytes, n);
        }
    }
}

static uint64_t pieces_kept(const struct rig_rank *me)
{
    uint64_t kept = 0;

    for (int r = 0; r < rig.n; r++) {
        kept += me->hosts.net.peer[r].kept;
    }
    return kept;
}

static int amid_garbage(struct rig_rank *me, void *arg)
{
    static _Thread_local unsigned char data[5001];
    struct coll_head head = { .step = UINT64_MAX, .phase = coll_phase(COLL_MEET, 0) };

    (void)arg;
    for (size_t i = 0; i < 20; i++) {
        throw_garbage(me);
        RIG_NEED(rig_bcast(me, data, 5000, (int)(i % 3)) == 0);
        RIG_NEED(coll_hosts_barrier(&me->hosts, "test") == 0);
    }
    /* sound ones beyond what a sender may have under way are not kept */
    for (uint32_t i = 0; i < 10 * me->hosts.net.window; i++) {
        coll_net_arrived(&me->hosts.net, (uint64_t)COLL_PIECE << 56, &head, sizeof(head));
    }
    RIG_NEED(pieces_kept(me) <= (uint64_t)rig.n * me->hosts.net.window);
    return 0;
}

Test(coll_mishaps, messages_that_make_no_sense_do_no_harm)
{
    cr_assert_eq(rig_run(3, 3, RIG_IN_ORDER, amid_garbage, NULL), 0);
}
