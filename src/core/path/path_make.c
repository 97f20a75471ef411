/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paths: made on first use, over the one engine that leads to ranks of this host or over rails to
 * others, and ended by finalize. Making one is under a lock of rank PEER, which does not wait for
 * progress.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "core/path/path.h"
#include "core/path/peer.h"
#include "core/path/progress.h"
#include "core/path/rail.h"

#define STOP_LIMIT_NS (5 * ORL_NS_PER_S)

static struct {
    struct orl_lock lock;
    _Atomic(struct core_path *) all; /* newest first */
} paths;

struct core_path *core_path_first(void)
{
    return atomic_load_explicit(&paths.all, memory_order_acquire);
}

/* ---------------------------------------------------------------- making one */

/* Leave my address in my control block: it holds what is known only once the engine is open, later
 * than the exchange of bootstrap records. */
static int publish_address(void)
{
    struct fab_node_ctl *ctl = &core.node->ctl[core.node->local];
    uint8_t blob[FAB_ADDRESS_BYTES];
    size_t bytes = sizeof(blob);
    int status = fab_engine_address(core.shm, blob, &bytes);

    if (status == 0 && bytes > sizeof(ctl->address)) {
        status =
            orl_fail(ORL_ERR_INTERNAL, "an address of shm has %zu bytes; there is room for %zu",
                     bytes, sizeof(ctl->address));
    }
    if (status != 0) {
        return status;
    }
    memcpy(ctl->address, blob, bytes);
    atomic_store_explicit(&ctl->address_bytes, (uint32_t)bytes, memory_order_release);
    return 0;
}

static bool has_address(void *arg)
{
    const struct fab_node_ctl *ctl = arg;

    return atomic_load_explicit(&ctl->address_bytes, memory_order_acquire) != 0;
}

static int rank_is_alive(void *arg)
{
    const struct fab_node_ctl *ctl = arg;

    return core_peer_check(ctl->rank);
}

/* A rank that is still inside oriel_init will have written its address in a moment. */
static int wait_for_address(int rank)
{
    struct fab_node_ctl *ctl = &core.node->ctl[core.peers[rank].local];

    return core_wait(
        &(struct core_wait){ .ready = has_address,
                             .alive = rank_is_alive,
                             .arg = ctl,
                             .deadline = orl_deadline_in((int64_t)orl_conf.boot_timeout),
                             .call = "the first contact",
                             .rank = rank });
}

static void probed(void *user, struct fab_rx *rx)
{
    (void)user;
    (void)rx;
}

int core_paths_open(void)
{
    int status = core_sends_open();

    if (status != 0) {
        return status;
    }
    orl_lock_init(&paths.lock, ORL_RANK_PEER, "paths");
    atomic_store(&paths.all, NULL);
    core_flush_open();
    fab_handler_set(&core.fabric, CORE_ON_PROBE, probed, NULL);
    status = core.shm != NULL && core.node != NULL ? publish_address() : 0;
    if (status != 0) {
        core_sends_close();
    }
    return status;
}

/* The one engine that leads to a rank of this process or host, NULL for networks. Keys in tokens
 * are those of shm where there is shm, for my own memory too, so my own path uses the same engine.
 */
static struct fab_engine *near_engine(int rank)
{
    if (rank == core.rank) {
        return core.shm != NULL ? core.shm : core.self;
    }
    return core.peers[rank].local >= 0 ? core.shm : NULL;
}

/* For messages: of ranks elsewhere it is known once their record has been read. */
static const char *host_of(int rank)
{
    const char *name = core_peer_host(rank);

    return name != NULL ? name : "another host";
}

static ORL_COLD int no_way(int rank)
{
    if (rank == core.rank) {
        return orl_fail(ORL_ERR_UNSUPP,
                        "no transport leads to this rank itself, %d; add self or "
                        "shm to ORIEL_TRANSPORTS",
                        rank);
    }
    return orl_fail(ORL_ERR_UNSUPP,
                    "no transport leads to rank %d on %s: ORIEL_TRANSPORTS is '%s', and no network "
                    "is open here",
                    rank, host_of(rank), orl_conf.transports);
}

static int near_address(int rank, struct fab_engine *engine, uint8_t *blob, size_t *bytes)
{
    const struct fab_node_ctl *ctl;

    if (rank == core.rank) {
        return fab_engine_address(engine, blob, bytes);
    }
    ctl = &core.node->ctl[core.peers[rank].local];
    *bytes = atomic_load_explicit(&ctl->address_bytes, memory_order_acquire);
    if (*bytes > sizeof(ctl->address)) {
        return orl_fail(ORL_ERR_INTERNAL, "the address of rank %d is damaged", rank);
    }
    memcpy(blob, ctl->address, *bytes);
    return 0;
}

/* The next rail, by this endpoint. */
static void add_rail(struct core_path *path, struct fab_ep *ep)
{
    struct core_rail *rail = &path->rail[path->nrails++];

    ep->user = path;
    atomic_init(&rail->ep, ep);
    rail->engine = ep->engine;
    rail->weight = 1;
    path->ep = path->rail[0].ep;
}

static int open_near(struct core_path *path, struct fab_engine *engine)
{
    uint8_t blob[FAB_ADDRESS_BYTES];
    size_t bytes = sizeof(blob);
    char label[FAB_LABEL_BYTES];
    struct fab_ep *ep;
    int status = near_address(path->rank, engine, blob, &bytes);

    if (status != 0) {
        return status;
    }
    (void)snprintf(label, sizeof(label), "rank %d on %.16s", path->rank, core.host);
    status = fab_ep_open(engine, blob, bytes, label, &ep);
    if (status == 0) {
        add_rail(path, ep);
    }
    return status;
}

static void open_rail(struct core_path *path, const struct core_pair *pair,
                      const struct fab_card *card)
{
    struct fab_engine *engine = core.network[pair->engine];
    char label[FAB_LABEL_BYTES];
    struct fab_ep *ep;
    int n = path->nrails;

    (void)snprintf(label, sizeof(label), "rank %d on %.16s", path->rank, host_of(path->rank));
    if (fab_ep_open(engine, card->address, card->bytes, label, &ep) != 0) {
        orl_log_info(ORL_CAT_PATH, "no rail %s to %s: %s", engine->name, label, orl_last_error());
        return;
    }
    add_rail(path, ep);
    path->rail[n].card = card;
    path->rail[n].weight = pair->weight;
    path->rail[n].remote = (uint8_t)pair->card;
}

/* With an error in this thread's last one where no rail could be opened. */
static int open_far(struct core_path *path, const struct fab_card *cards, int ncards)
{
    struct core_pair pair[CORE_RAILS_MAX];
    int most = orl_conf.rails != 0 ? orl_conf.rails : CORE_RAILS_MAX;
    int n = core_rails_pair(core.network, core.nnetworks, cards, ncards, most, pair);

    if (n == 0) {
        return no_way(path->rank);
    }
    for (int i = 0; i < n; i++) {
        open_rail(path, &pair[i], &cards[pair[i].card]);
    }
    if (path->nrails == 0) {
        return orl_fail(ORL_ERR_LINK, "no rail to rank %d on %s: %s", path->rank,
                        host_of(path->rank), orl_last_error());
    }
    orl_last_error_clear();
    for (int i = 0; i < path->nrails; i++) {
        orl_log_info(ORL_CAT_PATH, "rail %d of %d to %s: %s, weight %u", i, path->nrails,
                     path->ep->label, path->rail[i].engine->name, path->rail[i].weight);
    }
    return 0;
}

/* Lock held. */
static int open_path(int rank, const struct fab_card *cards, int ncards, struct core_path **made)
{
    struct core_path *path = calloc(1, sizeof(*path));
    int status;

    if (path == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for the path to rank %d, %zu bytes", rank,
                        sizeof(*path));
    }
    path->rank = rank;
    status = near_engine(rank) != NULL ? open_near(path, near_engine(rank))
                                       : open_far(path, cards, ncards);
    if (status != 0) {
        free(path);
        return status;
    }
    core_inbox_init(&path->inbox);
    path->next = core_path_first();
    atomic_store_explicit(&paths.all, path, memory_order_release);
    atomic_store(&core.peers[rank].path, path);
    *made = path;
    return 0;
}

/* What must be known before the lock is taken. */
static int look_up(int rank, const struct fab_card **cards, int *ncards)
{
    if (near_engine(rank) != NULL) {
        return rank == core.rank ? 0 : wait_for_address(rank);
    }
    if (rank == core.rank || core.nnetworks == 0) {
        return no_way(rank);
    }
    return core_peer_cards(rank, cards, ncards);
}

static int make_path(int rank, struct core_path **path)
{
    const struct fab_card *cards = NULL;
    int ncards = 0;
    struct core_path *known;
    int status = look_up(rank, &cards, &ncards);

    if (status != 0) {
        return status;
    }
    orl_lock(&paths.lock);
    known = atomic_load_explicit(&core.peers[rank].path, memory_order_acquire);
    if (known == NULL) {
        status = open_path(rank, cards, ncards, &known);
    }
    orl_unlock(&paths.lock);
    /* See mark() in peer.c: who marked the rank before the path was there left this to us. */
    if (known != NULL && atomic_load(&core.peers[rank].failed) != 0) {
        core_path_peer_gone(known, "it is gone");
    }
    *path = known;
    return status;
}

int core_path_of(int rank, struct core_path **path)
{
    struct core_path *known;
    int status = core_rank_check(rank);

    if (status != 0) {
        return status;
    }
    if (core_peer_is_failed(rank)) {
        return core_peer_error(rank);
    }
    known = atomic_load_explicit(&core.peers[rank].path, memory_order_acquire);
    if (known == NULL) {
        status = make_path(rank, &known);
        if (status != 0) {
            return status;
        }
    }
    *path = known;
    return 0;
}

/* ---------------------------------------------------------------- connecting early */

#define CONNECT_MOST 32 /* connections that a rank makes at a time */

static bool is_connected(void *arg)
{
    const struct core_path *path = arg;

    return atomic_load_explicit(&path->messages, memory_order_acquire) == 0;
}

static int path_alive(void *arg)
{
    struct core_path *path = arg;

    core_path_settle(path);
    return core_peer_check(path->rank);
}

static int begin_connection(int rank, struct core_path **path)
{
    int status = core_path_of(rank, path);

    return status != 0 ? status : core_path_send(*path, CORE_ON_PROBE, 0, NULL, 0);
}

/* Accepts NULL. */
static int end_connection(struct core_path *path, uint64_t deadline)
{
    return path == NULL ? 0
                        : core_wait(&(struct core_wait){ .ready = is_connected,
                                                         .alive = path_alive,
                                                         .arg = path,
                                                         .deadline = deadline,
                                                         .call = "oriel_init (ORIEL_CONNECT=eager)",
                                                         .rank = path->rank });
}

/* Each rank begins with the one after it, so that not all call on rank 0 at once; what they wait
 * for is answered by whoever waits as well. */
int core_path_connect_all(void)
{
    struct core_path *begun[CONNECT_MOST] = { NULL };
    uint64_t deadline = orl_deadline_in((int64_t)orl_conf.boot_timeout);
    unsigned n = 0;
    int status = 0;

    for (int i = 1; status == 0 && i < core.size; i++) {
        int rank = (int)(((int64_t)core.rank + i) % core.size);
        struct core_path **place = &begun[n % CONNECT_MOST];

        if (near_engine(rank) != NULL) {
            continue;
        }
        status = end_connection(*place, deadline);
        status = status != 0 ? status : begin_connection(rank, place);
        n++;
    }
    for (unsigned i = 0; status == 0 && i < CONNECT_MOST; i++) {
        status = end_connection(begun[i], deadline);
    }
    return status;
}

/* ---------------------------------------------------------------- ending them */

void core_path_peer_gone(struct core_path *path, const char *how)
{
    for (int r = 0; r < path->nrails; r++) {
        fab_ep_peer_gone(atomic_load(&path->rail[r].ep), how);
    }
}

void core_path_settle(struct core_path *path)
{
    if (ORL_UNLIKELY(atomic_load_explicit(&path->lost, memory_order_acquire) == CORE_PATH_LOST) &&
        !core_peer_is_failed(path->rank)) {
        core_peer_lost(path->rank, path->cause);
    }
}

/* Lets what is under way on the path end. */
static void drain(struct core_path *path, const _Atomic uint64_t *left, uint64_t end)
{
    while (atomic_load_explicit(left, memory_order_acquire) != 0 &&
           !core_peer_is_failed(path->rank) && !orl_deadline_passed(end)) {
        if (core_progress() == 0) {
            (void)sched_yield();
        }
    }
}

/* Runs the done functions of what stopped endpoints have given back. */
static void collect(struct core_path *path, uint64_t end)
{
    while ((atomic_load_explicit(&path->inflight, memory_order_acquire) != 0 ||
            atomic_load_explicit(&path->messages, memory_order_acquire) != 0) &&
           !orl_deadline_passed(end)) {
        if (core_progress() == 0) {
            (void)sched_yield();
        }
    }
}

void core_paths_stop(void)
{
    uint64_t end = orl_deadline_in(STOP_LIMIT_NS);

    for (struct core_path *path = core_path_first(); path != NULL; path = path->next) {
        drain(path, &path->messages, end);
    }
    end = orl_deadline_in(STOP_LIMIT_NS);
    for (struct core_path *path = core_path_first(); path != NULL; path = path->next) {
        core_rails_stop(path);
    }
    for (struct core_path *path = core_path_first(); path != NULL; path = path->next) {
        collect(path, end);
    }
}

void core_paths_close(void)
{
    struct core_path *path = core_path_first();

    core_paths_stop();
    while (path != NULL) {
        struct core_path *next = path->next;

        if (core.peers != NULL) {
            atomic_store(&core.peers[path->rank].path, NULL);
        }
        core_rails_close(path);
        core_inbox_fini(&path->inbox);
        free(path);
        path = next;
    }
    atomic_store(&paths.all, NULL);
    orl_lock_fini(&paths.lock);
    core_sends_close();
}
