/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many calls of the provider small operations take: a chain goes in one or two, short calls
 * that follow each other while an answer is under way share one, and what waits for company is not
 * forgotten by whoever wants to sleep.
 */
#include "tests/fabric/ofi_pair.h"

#include <stdio.h>
#include <stdlib.h>

#define CHAIN 64

static struct pair_op ops[CHAIN];
static struct fab_ep *ep;

/* A connection on which everything is answered. */
static void connect_over(const char *provider)
{
    pair_open(provider);
    ep = pair_ep(&pair_a, &pair_b);
    pair_send(ep, &ops[0], 0);
    PAIR_UNTIL(ops[0].ends == 1);
    pair_came = 0;
    pair_ended = 0;
}

static void connect_strict(void)
{
    const char *build = getenv("top_builddir");
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/tests/fake/strict/.libs", build == NULL ? "." : build);
    (void)setenv("FI_PROVIDER_PATH", path, 0);
    (void)setenv("STRICT_ABORT", "1", 1);
    connect_over("strict");
}

static void leave(void)
{
    fab_ep_close(ep);
    pair_close();
}

TestSuite(ofi_bundle, .fini = leave, .timeout = 100);

static bool is_answered(void)
{
    return ofi_ep_of(ep)->acked == ofi_ep_of(ep)->next;
}

static void say(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        cr_assert_eq(fab_send_short(ep, PAIR_HANDLER, i, "message", 8), 0, "%u", i);
    }
}

static void wait_for(unsigned n)
{
    PAIR_UNTIL(pair_came == n && is_answered());
    for (unsigned i = 0; i < n; i++) {
        cr_assert_eq(pair_order[i], i);
    }
    pair_came = 0;
}

/* covers: G7 H6 H7 */
Test(ofi_bundle, chain_in_two_calls)
{
    unsigned before;

    connect_strict();
    before = pair_weather.sends;
    for (unsigned i = 0; i < CHAIN; i++) {
        struct fab_op *op = &ops[i].op;

        pair_prepare(&ops[i], i);
        if (i > 0) {
            ops[i - 1].op.link.next = &op->link;
        }
    }
    fab_post(ep, &ops[0].op);
    PAIR_UNTIL(pair_ended == CHAIN);
    cr_assert_leq(pair_weather.sends - before, 2, "%u calls for %d posts",
                  pair_weather.sends - before, CHAIN);
    wait_for(CHAIN);
}

/* The first goes alone, at once; what follows goes together. */
Test(ofi_bundle, short_calls_share)
{
    unsigned before;

    connect_over("net");
    before = pair_weather.sends;
    say(1);
    cr_assert_eq(pair_weather.sends - before, 1);
    wait_for(1);
    before = pair_weather.sends;
    say(CHAIN);
    cr_assert_eq(pair_weather.sends - before, 1);
    wait_for(CHAIN);
    cr_assert_leq(pair_weather.sends - before, 2);
}

/* After a burst the first waits for the second; until it has gone there is something to do. */
Test(ofi_bundle, bursts_wait_and_are_counted)
{
    struct fab_engine *engine;
    unsigned before;
    int fd = -1;

    connect_over("net");
    engine = &pair_engine(&pair_a)->base;
    say(CHAIN);
    wait_for(CHAIN);
    before = pair_weather.sends;
    say(1);
    cr_assert_eq(pair_weather.sends, before);
    cr_assert_eq(atomic_load(&engine->nwaiting), 1, "nobody would be woken for it");
    cr_assert_eq(fab_engine_arm(engine, &fd), ORL_ERR_AGAIN);
    wait_for(1);
    cr_assert_eq(pair_weather.sends - before, 1);
    cr_assert_eq(atomic_load(&engine->nwaiting), 0);
    /* One alone ends the habit. */
    before = pair_weather.sends;
    say(1);
    cr_assert_eq(pair_weather.sends - before, 1);
    wait_for(1);
}

/* A peer that does not look: the credits end, and the memory it holds is bounded. */
Test(ofi_bundle, silent_peer_holds_little)
{
    struct ofi_engine *ofi;
    unsigned n = 0;

    connect_over("net");
    ofi = pair_engine(&pair_a);
    while (fab_send_short(ep, PAIR_HANDLER, n, "message", 8) == 0) {
        (void)fab_progress(&pair_a);
        n++;
        cr_assert_leq(n, OFI_WINDOW);
    }
    cr_assert_eq(n, OFI_WINDOW);
    wait_for(n);
    cr_assert_leq(ofi->large.count, 32);
}
