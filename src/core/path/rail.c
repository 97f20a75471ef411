/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rails; see rail.h. Done functions only mark and count; endpoints are opened, swapped and closed
 * by threads that come by with core_rails_tick, one at a time (path->retrying). An endpoint that
 * has been replaced stays until the path is closed, since a thread may be about to post to it: such
 * an operation ends with LINK at once and is posted again.
 */
#include "core/path/rail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/stats.h"
#include "core/path/peer.h"

#define RETRY_MIN_NS (250 * ORL_NS_PER_MS)
#define RETRY_MAX_NS (30 * ORL_NS_PER_S)
/* A rail that lived so long after it came back begins anew with short waits. */
#define STEADY_NS (60 * ORL_NS_PER_S)

/* ---------------------------------------------------------------- which engines */

static bool is_known(const uint8_t net[FAB_NET_BYTES])
{
    static const uint8_t nothing[FAB_NET_BYTES];

    return memcmp(net, nothing, sizeof(nothing)) != 0;
}

enum fit {
    FIT_EQUAL,   /* both on one network */
    FIT_UNKNOWN, /* nothing is known of one side's */
    FIT_ANY
};

static bool fits(const struct fab_engine *engine, const struct fab_card *card, enum fit fit)
{
    bool known = is_known(engine->nic.net) && is_known(card->net);

    if (!fab_engine_speaks(engine, card)) {
        return false;
    }
    switch (fit) {
    case FIT_EQUAL:
        return known && memcmp(engine->nic.net, card->net, sizeof(card->net)) == 0;
    case FIT_UNKNOWN:
        return !known;
    case FIT_ANY:
    default:
        return true;
    }
}

/* One side's engines that have a pair, by number. */
struct taken {
    uint32_t mine;
    uint32_t cards;
};

/* The first card without a pair that fits the engine, -1: none. */
static int card_for(const struct fab_engine *engine, const struct fab_card *cards, int ncards,
                    enum fit fit, uint32_t taken)
{
    for (int j = 0; j < ncards; j++) {
        if ((taken >> j & 1) == 0 && fits(engine, &cards[j], fit)) {
            return j;
        }
    }
    return -1;
}

static int pair_those(struct fab_engine *const *mine, int nmine, const struct fab_card *cards,
                      int ncards, enum fit fit, struct taken *taken, struct core_pair *pair)
{
    int n = 0;

    for (int i = 0; i < nmine; i++) {
        int j =
            (taken->mine >> i & 1) != 0 ? -1 : card_for(mine[i], cards, ncards, fit, taken->cards);

        if (j >= 0) {
            taken->mine |= 1u << i;
            taken->cards |= 1u << j;
            pair[n++] = (struct core_pair){ .engine = i, .card = j };
        }
    }
    return n;
}

/* What a rail can carry; where nobody knows, all are equal. */
static uint32_t speed_of(const struct fab_engine *engine, const struct fab_card *card)
{
    uint64_t mbps = engine->nic.mbps;

    if (mbps == 0 || (card->mbps != 0 && card->mbps < mbps)) {
        mbps = card->mbps;
    }
    if (mbps == 0) {
        return 1000;
    }
    return mbps > UINT32_MAX ? UINT32_MAX : (uint32_t)mbps;
}

static bool is_better(struct fab_engine *const *mine, const struct core_pair *a,
                      const struct core_pair *b)
{
    if (mine[a->engine]->level != mine[b->engine]->level) {
        return mine[a->engine]->level < mine[b->engine]->level;
    }
    return a->weight > b->weight;
}

/* Stable, so that equals stay in the order of their numbers. */
static void sort_pairs(struct fab_engine *const *mine, struct core_pair *pair, int n)
{
    for (int i = 1; i < n; i++) {
        struct core_pair moving = pair[i];
        int at = i;

        for (; at > 0 && is_better(mine, &moving, &pair[at - 1]); at--) {
            pair[at] = pair[at - 1];
        }
        pair[at] = moving;
    }
}

int core_rails_pair(struct fab_engine *const *mine, int nmine, const struct fab_card *cards,
                    int ncards, int most, struct core_pair pair[CORE_RAILS_MAX])
{
    struct taken taken = { 0, 0 };
    int n = pair_those(mine, nmine, cards, ncards, FIT_EQUAL, &taken, pair);

    /* Engines on different networks that are known may reach each other by routers, or not at all
     * and only after a long wait: they serve where there is nothing better. */
    n += pair_those(mine, nmine, cards, ncards, n == 0 ? FIT_ANY : FIT_UNKNOWN, &taken, pair + n);
    for (int i = 0; i < n; i++) {
        pair[i].weight = speed_of(mine[pair[i].engine], &cards[pair[i].card]);
    }
    sort_pairs(mine, pair, n);
    n = n < most ? n : most;
    for (int i = 1; i < n; i++) {
        if (mine[pair[i].engine]->level != mine[pair[0].engine]->level) {
            pair[i].weight = 0;
        }
    }
    return n;
}

/* ---------------------------------------------------------------- posting */

/* A rail may have died without anybody having noticed: what is posted to it then would end with
 * LINK, which some operations cannot repeat. */
bool core_rail_lives(const struct core_path *path, int rail)
{
    const struct core_rail *on = &path->rail[rail];
    const struct fab_ep *ep = atomic_load_explicit(&on->ep, memory_order_acquire);

    return atomic_load_explicit(&on->dead, memory_order_acquire) == 0 &&
           atomic_load_explicit(&ep->state, memory_order_relaxed) != FAB_EP_FAILED;
}

int core_rail_first(const struct core_path *path, uint32_t rails)
{
    for (int r = 0; r < path->nrails; r++) {
        if ((rails >> r & 1) != 0 && core_rail_lives(path, r)) {
            return r;
        }
    }
    return -1;
}

void core_rail_post(struct core_path *path, int rail, struct fab_op *op)
{
    struct core_rail *on = &path->rail[rail];
    enum fab_op_kind kind = (enum fab_op_kind)op->kind;
    struct fab_ep *ep;

    op->link.next = NULL;
    /* Before the endpoint is read: the one that replaces it comes only while this is 0. */
    (void)atomic_fetch_add(&on->live, 1);
    ep = atomic_load(&on->ep);
    if (kind == FAB_OP_FLUSH) {
        fab_flush(ep, op);
        return;
    }
    if (kind != FAB_OP_SEND) {
        (void)atomic_fetch_add_explicit(&on->bytes, op->bytes, memory_order_relaxed);
    }
    fab_post(ep, op); /* op may be gone */
    if (kind != FAB_OP_SEND) {
        (void)atomic_fetch_add_explicit(&on->posted, 1, memory_order_release);
        core_path_counted(path, 1);
    }
}

void core_rail_moved(struct core_path *path)
{
    (void)atomic_fetch_add_explicit(&path->moved, 1, memory_order_release);
    orl_stat_add(&core.stats, ORL_STAT_OPS_MOVED, 1);
}

/* ---------------------------------------------------------------- death */

/* Cause of a path without rails; the first to come writes it. */
static void lose(struct core_path *path, const char *cause)
{
    uint32_t whole = CORE_PATH_WHOLE;

    if (atomic_compare_exchange_strong(&path->lost, &whole, CORE_PATH_LOSING)) {
        (void)snprintf(path->cause, sizeof(path->cause), "%s", cause);
        atomic_store_explicit(&path->lost, CORE_PATH_LOST, memory_order_release);
    }
}

static int count_living(const struct core_path *path)
{
    int n = 0;

    for (int r = 0; r < path->nrails; r++) {
        n += atomic_load(&path->rail[r].dead) == 0 ? 1 : 0;
    }
    return n;
}

/* A rail that keeps coming and going is tried less and less often. */
static void plan_retry(struct core_rail *rail)
{
    uint64_t now = orl_clock_ns();

    if (rail->backoff_ns == 0 || (rail->back_since != 0 && now - rail->back_since > STEADY_NS)) {
        rail->backoff_ns = RETRY_MIN_NS;
    } else {
        rail->backoff_ns =
            rail->backoff_ns * 2 < RETRY_MAX_NS ? rail->backoff_ns * 2 : RETRY_MAX_NS;
    }
    rail->retry_at = now + rail->backoff_ns;
}

static void say_dead(const struct core_path *path, const struct core_rail *rail, const char *cause)
{
    const struct fab_nic *nic = &rail->engine->nic;
    int living = count_living(path);

    if (core_peer_is_failed(path->rank)) {
        return; /* said, and every rail ends now */
    }
    orl_log_warn(ORL_CAT_PATH, "rail %s (%s) to %s has failed: %s; %d of %d rails left",
                 rail->engine->name, nic->address[0] != '\0' ? nic->address : nic->device,
                 path->ep->label, cause, living, path->nrails);
}

/* Once in the life of each endpoint. */
static void bury(struct core_path *path, struct core_rail *rail, int status)
{
    const struct fab_ep *ep = atomic_load(&rail->ep);
    uint32_t state = atomic_load_explicit(&ep->state, memory_order_acquire);
    const char *cause = state == FAB_EP_FAILED ? ep->cause : orl_status_text(status);

    orl_stat_add(&core.stats, ORL_STAT_RAILS_LOST, 1);
    plan_retry(rail);
    if (core_path_is_railed(path)) {
        say_dead(path, rail, cause);
    }
    (void)atomic_fetch_add(&path->ndead, 1);
    if (count_living(path) == 0) {
        lose(path, cause);
    }
}

/* A transport may end a single operation with LINK and keep its endpoint: that is no death while
 * there is no other rail to go to. */
static bool is_death(const struct core_path *path, const struct core_rail *rail, int status)
{
    const struct fab_ep *ep = atomic_load(&rail->ep);

    if (status != ORL_ERR_LINK && status != ORL_ERR_PEER) {
        return false;
    }
    return core_path_is_railed(path) ||
           atomic_load_explicit(&ep->state, memory_order_acquire) == FAB_EP_FAILED;
}

int core_rail_ended(struct core_path *path, int rail, int status)
{
    struct core_rail *on = &path->rail[rail];

    if (ORL_UNLIKELY(status != 0) && is_death(path, on, status)) {
        if (atomic_exchange(&on->dead, 1) == 0) {
            bury(path, on, status);
        }
        status = core_rail_first(path, CORE_RAILS_ANY) >= 0 && !core_peer_is_failed(path->rank)
                     ? ORL_ERR_LINK
                     : ORL_ERR_PEER;
    }
    if (core_path_is_railed(path)) {
        (void)atomic_fetch_sub(&on->live, 1);
    }
    return status;
}

/* ---------------------------------------------------------------- coming back */

enum {
    PROBE_UNDER_WAY,
    PROBE_ENDED
};

/* A new endpoint for a dead rail, with a message on its way; later the old one in its list. */
struct core_probe {
    struct fab_op op;
    struct fab_ep *ep; /* owns */
    int status;
    _Atomic int state; /* PROBE_ */
    struct core_probe *next;
};

static void probe_done(struct fab_op *op, int status)
{
    struct core_probe *probe = op->user;

    probe->status = status;
    atomic_store_explicit(&probe->state, PROBE_ENDED, memory_order_release);
}

static void start_probe(struct core_path *path, struct core_rail *rail)
{
    const struct fab_card *card = rail->card;
    struct core_probe *probe = card == NULL ? NULL : calloc(1, sizeof(*probe));

    plan_retry(rail);
    if (probe == NULL) {
        return;
    }
    if (fab_ep_open(rail->engine, card->address, card->bytes, path->ep->label, &probe->ep) != 0) {
        orl_last_error_clear();
        free(probe);
        return;
    }
    probe->op = (struct fab_op){
        .kind = FAB_OP_SEND, .handler = CORE_ON_PROBE, .done = probe_done, .user = probe
    };
    rail->probe = probe;
    fab_post(probe->ep, &probe->op);
}

static void come_back(struct core_path *path, struct core_rail *rail, struct core_probe *probe)
{
    struct fab_ep *fresh = probe->ep;

    fresh->user = path;
    probe->ep = atomic_exchange(&rail->ep, fresh);
    probe->next = path->old;
    path->old = probe;
    rail->back_since = orl_clock_ns();
    (void)atomic_fetch_sub(&path->ndead, 1);
    atomic_store_explicit(&rail->dead, 0, memory_order_release);
    orl_stat_add(&core.stats, ORL_STAT_RAILS_BACK, 1);
    orl_log_warn(ORL_CAT_PATH, "rail %s to %s is back; %d of %d rails serve", rail->engine->name,
                 path->ep->label, count_living(path), path->nrails);
}

static void close_probe(struct core_probe *probe)
{
    fab_ep_stop(probe->ep);
    while (atomic_load_explicit(&probe->state, memory_order_acquire) == PROBE_UNDER_WAY) {
        (void)fab_engine_progress(probe->ep->engine);
    }
    fab_ep_close(probe->ep);
    free(probe);
}

/* What a probe found out. The rail returns only when nothing is under way on its old endpoint. */
static void end_probe(struct core_path *path, struct core_rail *rail)
{
    struct core_probe *probe = rail->probe;

    if (atomic_load_explicit(&probe->state, memory_order_acquire) != PROBE_ENDED) {
        return;
    }
    if (probe->status != 0) {
        rail->probe = NULL;
        close_probe(probe);
    } else if (atomic_load(&rail->live) == 0) {
        rail->probe = NULL;
        come_back(path, rail, probe);
    }
}

void core_rails_retry(struct core_path *path)
{
    if (!core_path_is_railed(path) || atomic_load(&path->lost) != CORE_PATH_WHOLE ||
        core_peer_is_failed(path->rank) || atomic_exchange(&path->retrying, 1) != 0) {
        return;
    }
    for (int r = 0; r < path->nrails; r++) {
        struct core_rail *rail = &path->rail[r];

        if (rail->probe != NULL) {
            end_probe(path, rail);
        } else if (atomic_load(&rail->dead) != 0 && orl_deadline_passed(rail->retry_at)) {
            start_probe(path, rail);
        }
    }
    atomic_store(&path->retrying, 0);
}

void core_rails_stop(struct core_path *path)
{
    for (int r = 0; r < path->nrails; r++) {
        if (path->rail[r].probe != NULL) {
            close_probe(path->rail[r].probe);
            path->rail[r].probe = NULL;
        }
        fab_ep_stop(atomic_load(&path->rail[r].ep));
    }
}

void core_rails_close(struct core_path *path)
{
    while (path->old != NULL) {
        struct core_probe *probe = path->old;

        path->old = probe->next;
        fab_ep_close(probe->ep);
        free(probe);
    }
    for (int r = 0; r < path->nrails; r++) {
        fab_ep_close(atomic_load(&path->rail[r].ep));
    }
}
