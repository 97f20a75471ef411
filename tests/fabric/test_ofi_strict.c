/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine of libfabric as the provider `strict` sees it: how many objects it opens and keeps,
 * whether its queue has room for all that it posts, whom it introduces when, and that it never asks
 * for what a card of EFA does not have.
 */
#include "tests/fabric/ofi_pair.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fake/strict/strict_api.h"

enum {
    STORM = 200,
    CYCLES = 1000
};

static struct pair_op ops[STORM];
static const struct strict_counts *counts;

static void open_strict(const char *depth)
{
    const char *build = getenv("top_builddir");
    char path[4096];
    strict_api_fn api = NULL;
    void *module;

    (void)snprintf(path, sizeof(path), "%s/tests/fake/strict/.libs", build == NULL ? "." : build);
    (void)setenv("FI_PROVIDER_PATH", path, 0);
    (void)setenv("STRICT_ABORT", "1", 1);
    (void)setenv("STRICT_DEPTH", depth, 1);
    pair_open("strict");
    (void)snprintf(path, sizeof(path), "%s/libstrict-fi.so", getenv("FI_PROVIDER_PATH"));
    module = dlopen(path, RTLD_NOLOAD | RTLD_NOW);
    cr_assert(module != NULL, "%s", dlerror());
    *(void **)&api = dlsym(module, "strict_api");
    cr_assert(api != NULL);
    counts = api()->counts();
}

TestSuite(ofi_strict, .fini = pair_close, .timeout = 100);

static void storm(struct fab_ep *ep)
{
    pair_came = 0;
    pair_ended = 0;
    for (unsigned i = 0; i < STORM; i++) {
        pair_send(ep, &ops[i], i);
    }
    PAIR_UNTIL(pair_ended == STORM);
    cr_assert_eq(pair_came, STORM);
    for (unsigned i = 0; i < STORM; i++) {
        cr_assert(ops[i].status == 0 && pair_order[i] == i, "%u: %u", i, pair_order[i]);
    }
}

static bool forgotten(const struct fab *fabric)
{
    return orl_list_is_empty(&pair_engine(fabric)->peers);
}

static void one_connection(void)
{
    struct fab_ep *ep = pair_ep(&pair_a, &pair_b);

    pair_came = 0;
    pair_send(ep, &ops[0], 0);
    PAIR_UNTIL(ops[0].ends == 1);
    fab_ep_close(ep);
}

/* One endpoint of the provider's, one queue and one table serve all, and nothing is opened for a
 * connection or registered for a message. */
/* covers: G6 J2 J3 J4 N21 */
Test(ofi_strict, connections_cost_no_objects)
{
    struct fab_ep *ep[10];
    uint64_t fids;
    uint64_t registrations;

    open_strict("16");
    one_connection();
    fids = counts->fids;
    registrations = counts->mrs_made;
    for (unsigned i = 0; i < 10; i++) {
        ep[i] = pair_ep(i % 2 == 0 ? &pair_a : &pair_b, i % 2 == 0 ? &pair_b : &pair_a);
        pair_came = 0;
        pair_send(ep[i], &ops[i], i);
        PAIR_UNTIL(ops[i].ends == 1);
    }
    storm(ep[0]);
    cr_assert_eq(counts->fids, fids);
    for (unsigned i = 0; i < 10; i++) {
        fab_ep_close(ep[i]);
    }
    for (unsigned i = 0; i < CYCLES; i++) {
        one_connection();
    }
    PAIR_UNTIL(forgotten(&pair_a) && forgotten(&pair_b));
    cr_assert_eq(counts->fids, fids);
    cr_assert_eq(counts->mrs_made, registrations);
    cr_assert_eq(counts->av_entries, 0);
}

/* Sends and receives together fit into the queue, whatever the depth; nothing that is not offered
 * is tried. */
static void fills_the_queue(const char *depth, unsigned most)
{
    struct fab_ep *ep;
    struct fab_ep *back;

    open_strict(depth);
    ep = pair_ep(&pair_a, &pair_b);
    back = pair_ep(&pair_b, &pair_a);
    storm(ep);
    storm(ep);
    cr_assert(pair_weather.most >= 1 && pair_weather.most <= most, "%u at once", pair_weather.most);
    cr_assert_eq(pair_engine(&pair_a)->send_cap, most);
    cr_assert_eq(counts->tight, 0);
    cr_assert_eq(counts->violations, 0);
    cr_assert_eq(counts->unsupported, 0);
    fab_ep_close(back);
    fab_ep_close(ep);
}

/* covers: G4 G8 G20 G25 J1 J7 N3 */
Test(ofi_strict, depth_of_one)
{
    fills_the_queue("1", 1);
}

/* covers: G8 G20 G25 J1 J7 N3 */
Test(ofi_strict, depth_of_sixty_four)
{
    fills_the_queue("64", 64);
}

/* Both sides have each other's address before the first operation goes. */
/* covers: G14 */
Test(ofi_strict, introduced_before_the_first_operation)
{
    struct fab_ep *ep;

    open_strict("4");
    ep = pair_ep(&pair_a, &pair_b);
    pair_send(ep, &ops[0], 0);
    PAIR_UNTIL(pair_came == 1 || counts->av_entries == 2);
    cr_assert_eq(counts->av_entries, 2);
    cr_assert_eq(pair_came, 0);
    PAIR_UNTIL(ops[0].ends == 1);
    cr_assert_eq(ops[0].status, 0);
    fab_ep_close(ep);
}

/* The provider has one entry for an address; an engine that has taken the place of another comes
 * with the address of that one, and neither takes the entry along when it goes. */
/* covers: G17 G18 */
Test(ofi_strict, an_address_that_comes_again)
{
    struct ofi_engine *ofi;
    struct ofi_engine *other;
    struct ofi_peer *peer;
    struct ofi_peer *twin;
    struct ofi_peer *none;
    struct fab_ep *ep;

    open_strict("4");
    ofi = pair_engine(&pair_a);
    other = pair_engine(&pair_b);
    ep = pair_ep(&pair_a, &pair_b);
    storm(ep);
    orl_lock(&ofi->base.tx);
    peer = container_of(ofi->peers.next, struct ofi_peer, all);
    cr_assert_eq(ofi_peer_get(ofi, 99, other->name, other->name_bytes, &twin), 0);
    cr_assert(twin != peer && twin->address == peer->address);
    cr_assert_eq(ofi_peer_get(ofi, 98, other->name, other->name_bytes - 1, &none), ORL_ERR_INVAL);
    ofi_peer_drop(ofi, twin);
    orl_unlock(&ofi->base.tx);
    cr_assert_eq(pair_weather.removed, 0);
    storm(ep);
    fab_ep_close(ep);
    PAIR_UNTIL(forgotten(&pair_a));
    cr_assert_eq(pair_weather.removed, 1);
}
