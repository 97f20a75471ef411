/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine of libfabric and a provider that behaves badly: completions that belong to nobody, a
 * queue that fails, posts that are turned away or refused, completions that come late, endpoints
 * that are closed under them.
 */
#include "tests/fabric/ofi_pair.h"

#include <string.h>

enum {
    STORM = 200
};

static struct pair_op ops[STORM];

static void open_net(void)
{
    pair_open("net");
}

TestSuite(ofi_queue, .init = open_net, .fini = pair_close, .timeout = 60);

static void storm(struct fab_ep *ep)
{
    for (unsigned i = 0; i < STORM; i++) {
        pair_send(ep, &ops[i], i);
    }
}

static void check_storm(int status)
{
    for (unsigned i = 0; i < STORM; i++) {
        cr_assert(ops[i].ends == 1 && ops[i].status == status, "%u: %u times, %s", i, ops[i].ends,
                  orl_status_name(ops[i].status));
    }
}

static void check_order(void)
{
    cr_assert_eq(pair_came, STORM);
    for (unsigned i = 0; i < STORM; i++) {
        cr_assert_eq(pair_order[i], i);
    }
}

/* Closed with work under way: it is given up. */
static void abandon(struct fab_ep *ep, unsigned n)
{
    fab_ep_stop(ep);
    for (unsigned i = 0; i < 100; i++) {
        (void)fab_progress(&pair_a);
    }
    fab_ep_close(ep);
    for (unsigned i = 0; i < n; i++) {
        cr_assert(ops[i].ends == 1, "%u: %u times", i, ops[i].ends);
    }
}

static bool forgotten(const struct fab *fabric)
{
    return orl_list_is_empty(&pair_engine(fabric)->peers);
}

/* ---------------------------------------------------------------- the queue */

/* What belongs to nobody is passed over, and what was read with it is not lost. */
/* covers: G26 I1 I3 I9 */
Test(ofi_queue, entries_without_a_context)
{
    struct fab_ep *ep = pair_ep(&pair_a, &pair_b);

    pair_weather.nulls = true;
    storm(ep);
    PAIR_UNTIL(pair_ended == STORM);
    check_storm(0);
    check_order();
    fab_ep_close(ep);
}

/* What was completed already is passed over as well. */
/* covers: I10 I11 */
Test(ofi_queue, completions_that_come_twice)
{
    struct fab_ep *ep = pair_ep(&pair_a, &pair_b);

    pair_weather.doubles = true;
    storm(ep);
    PAIR_UNTIL(pair_ended == STORM);
    check_storm(0);
    check_order();
    PAIR_UNTIL(pair_weather.flying == 0);
    cr_assert_eq(pair_engine(&pair_a)->nsending, 0);
    cr_assert(pair_engine(&pair_a)->strangers > 0);
    fab_ep_close(ep);
}

/* One queue for everything, read in batches; what is at the provider fits in. */
/* covers: I2 J3 J5 J6 N3 N7 */
Test(ofi_queue, many_at_a_time)
{
    struct ofi_engine *ofi = pair_engine(&pair_a);
    struct fab_ep *ep = pair_ep(&pair_a, &pair_b);
    struct fab_ep *back = pair_ep(&pair_b, &pair_a);

    PAIR_UNTIL(atomic_load(&ep->state) == FAB_EP_READY);
    ofi->send_cap = 3;
    pair_weather.withholds = true;
    storm(ep);
    for (unsigned i = 0; i < 100; i++) {
        pair_poll();
    }
    cr_assert_eq(pair_weather.flying, 3);
    pair_weather.withholds = false;
    PAIR_UNTIL(pair_ended == STORM);
    check_order();
    cr_assert_eq(pair_weather.most, 3);
    cr_assert(pair_weather.entries > 1 && pair_weather.entries <= OFI_EVENTS);
    fab_ep_close(back);
    fab_ep_close(ep);
}

/* A queue that gives nothing but errors ends the engine and everything on it, with the cause. */
static void fails_for_good(int read_fails)
{
    struct fab_ep *ep = pair_ep(&pair_a, &pair_b);
    struct fab_ep *again = NULL;
    unsigned char blob[FAB_ADDRESS_BYTES];
    struct pair_op late;
    size_t bytes = 0;

    PAIR_UNTIL(atomic_load(&ep->state) == FAB_EP_READY);
    pair_weather.read_fails = read_fails;
    pair_weather.error = FI_EIO;
    storm(ep);
    PAIR_UNTIL(pair_ended == STORM);
    check_storm(ORL_ERR_LINK);
    cr_assert(strstr(ep->cause, "the other") != NULL, "%s", ep->cause);
    cr_assert(strstr(ep->cause, fi_strerror(FI_EIO)) != NULL, "%s", ep->cause);
    pair_send(ep, &late, 0);
    PAIR_UNTIL(late.ends == 1);
    cr_assert_eq(late.status, ORL_ERR_LINK);
    cr_assert(fab_engine_address(pair_b.engine[0], blob, &bytes) == 0);
    cr_assert(fab_ep_open(pair_a.engine[0], blob, bytes, "again", &again) != 0);
    fab_ep_close(ep);
}

/* covers: I4 I8 */
Test(ofi_queue, error_entries_for_ever)
{
    fails_for_good(-FI_EAVAIL);
}

/* covers: I8 */
Test(ofi_queue, reads_that_fail_for_ever)
{
    fails_for_good(-FI_EIO);
}

/* An error of a send whose number is the provider's own. */
static void send_ends_with(int native, int status)
{
    struct ofi_facts facts = *pair_engine(&pair_a)->facts;
    struct fab_ep *ep = pair_ep(&pair_a, &pair_b);
    struct pair_op op;

    memcpy(facts.gone, ofi_facts_of("efa")->gone, sizeof(facts.gone));
    pair_engine(&pair_a)->facts = &facts;
    PAIR_UNTIL(atomic_load(&ep->state) == FAB_EP_READY && pair_weather.flying == 0);
    pair_weather.withholds = true;
    pair_weather.error = FI_EIO;
    pair_send(ep, &op, 0);
    PAIR_UNTIL(pair_weather.flying > 0);
    pair_weather.native = native;
    PAIR_UNTIL(ep->status != 0);
    cr_assert_eq(ep->status, status, "%d gives %s: %s", native, orl_status_name(ep->status),
                 ep->cause);
    pair_weather.native = 0;
    pair_weather.withholds = false;
    fab_ep_close(ep);
    pair_engine(&pair_a)->facts = ofi_facts_of("net");
}

/* covers: G21 */
Test(ofi_queue, a_card_says_that_its_peer_has_ended)
{
    send_ends_with(9, ORL_ERR_PEER);
    send_ends_with(13, ORL_ERR_PEER);
    send_ends_with(10, ORL_ERR_LINK);
}

/* ---------------------------------------------------------------- posts */

/* Turned away, an operation waits in its place: nothing overtakes it, it is tried once a pass and
 * nothing is registered or looked up for that. */
/* covers: K12 N4 N5 N21 */
Test(ofi_queue, no_room_for_a_while)
{
    struct ofi_engine *ofi = pair_engine(&pair_a);
    struct fab_ep *ep = pair_ep(&pair_a, &pair_b);
    struct fab_ep *second = pair_ep(&pair_a, &pair_b);
    struct ofi_peer *peer;
    unsigned before;

    PAIR_UNTIL(atomic_load(&ep->state) == FAB_EP_READY &&
               atomic_load(&second->state) == FAB_EP_READY);
    peer = container_of(ofi->peers.next, struct ofi_peer, all);
    storm(ep);
    pair_weather.refuses = 500;
    for (unsigned pass = 0; pass < 20; pass++) {
        before = pair_weather.refused;
        (void)fab_progress(&pair_a);
        cr_assert(pair_weather.refused - before <= 4, "%u tries in one pass",
                  pair_weather.refused - before);
    }
    PAIR_UNTIL(pair_weather.refuses == 0);
    PAIR_UNTIL(pair_ended == STORM);
    check_storm(0);
    check_order();
    cr_assert(peer == container_of(ofi->peers.next, struct ofi_peer, all));
    fab_ep_close(second);
    fab_ep_close(ep);
}

/* What the provider refuses for good ends at once, once, with its words. */
/* covers: G21 I5 N6 */
Test(ofi_queue, sends_that_are_refused)
{
    struct fab_ep *ep = pair_ep(&pair_a, &pair_b);

    PAIR_UNTIL(atomic_load(&ep->state) == FAB_EP_READY);
    pair_weather.send_fails = -FI_ENOMSG;
    storm(ep);
    PAIR_UNTIL(pair_ended == STORM);
    check_storm(ORL_ERR_LINK);
    cr_assert(strstr(ep->cause, fi_strerror(FI_ENOMSG)) != NULL, "%s", ep->cause);
    cr_assert(strstr(ep->cause, "the other") != NULL && strstr(ep->cause, "net") != NULL, "%s",
              ep->cause);
    pair_weather.send_fails = 0;
    fab_ep_close(ep);
}

/* ---------------------------------------------------------------- the end of endpoints */

/* An address stays while something for it is at the provider, and goes once. */
/* covers: I13 N13 N14 */
Test(ofi_queue, closed_with_messages_at_the_provider)
{
    struct ofi_engine *ofi = pair_engine(&pair_a);
    struct fab_ep *ep = pair_ep(&pair_a, &pair_b);

    PAIR_UNTIL(atomic_load(&ep->state) == FAB_EP_READY);
    pair_weather.withholds = true;
    storm(ep);
    PAIR_UNTIL(pair_came >= 64);
    abandon(ep, STORM);
    for (unsigned i = 0; i < 1000; i++) {
        pair_poll();
    }
    cr_assert(pair_weather.flying > 0 && !forgotten(&pair_a));
    cr_assert_eq(pair_weather.removed, 0);
    pair_weather.withholds = false;
    PAIR_UNTIL(forgotten(&pair_a) && forgotten(&pair_b));
    cr_assert_eq(pair_weather.removed, 1);
    cr_assert_eq(ofi->nsending, 0);
}

/* A peer that is wanted again before it is forgotten is kept, and works. */
/* covers: N15 */
Test(ofi_queue, wanted_again_before_it_is_forgotten)
{
    struct fab_ep *ep = pair_ep(&pair_a, &pair_b);

    PAIR_UNTIL(atomic_load(&ep->state) == FAB_EP_READY);
    pair_weather.withholds = true;
    pair_send(ep, &ops[0], 0);
    PAIR_UNTIL(pair_came == 1);
    abandon(ep, 1);
    ep = pair_ep(&pair_a, &pair_b);
    pair_weather.withholds = false;
    pair_came = 0;
    pair_ended = 0;
    storm(ep);
    PAIR_UNTIL(pair_ended == STORM);
    check_storm(0);
    check_order();
    cr_assert_eq(pair_weather.removed, 0);
    fab_ep_close(ep);
    PAIR_UNTIL(forgotten(&pair_a) && forgotten(&pair_b));
    cr_assert_eq(pair_weather.removed, 1);
}

/* The end comes whatever is under way. */
/* covers: N17 */
Test(ofi_queue, ends_with_operations_that_never_complete)
{
    struct fab_ep *ep = pair_ep(&pair_a, &pair_b);

    PAIR_UNTIL(atomic_load(&ep->state) == FAB_EP_READY);
    pair_weather.withholds = true;
    pair_weather.refuses = UINT32_MAX;
    storm(ep);
    pair_poll();
    abandon(ep, STORM);
    check_storm(ORL_ERR_CANCELED);
}
