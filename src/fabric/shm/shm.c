/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared-memory transport's control table: opening on a node, registrations, keys, and
 * progress: poll the rings that peers have opened, serve waiting ops, see whether whoever owes an
 * answer still lives. Called by the common half of the fabric. What endpoints do is in shm_ep.c.
 */
#include "fabric/shm/shm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/sys.h"

/* ---------------------------------------------------------------- peers */

int shm_peer_find(struct shm_engine *shm, uint32_t local, struct shm_peer **peer)
{
    struct shm_peer *found = atomic_load_explicit(&shm->peers[local], memory_order_acquire);

    if (found == NULL) {
        struct shm_peer *made = calloc(1, sizeof(*made));

        if (made == NULL) {
            return orl_fail(ORL_ERR_NOMEM, "no memory for the record of local rank %u", local);
        }
        made->local = local;
        made->cma = SHM_CMA_UNKNOWN;
        atomic_init(&made->free_mask, UINT32_MAX);
        /* Another thread may have been faster; release publishes the fields above. */
        if (atomic_compare_exchange_strong_explicit(&shm->peers[local], &found, made,
                                                    memory_order_acq_rel, memory_order_acquire)) {
            found = made;
        } else {
            free(made);
        }
    }
    *peer = found;
    return 0;
}

bool shm_peer_is_gone(struct shm_engine *shm, struct shm_peer *peer)
{
    const struct fab_node_ctl *ctl = &shm->node->ctl[peer->local];
    uint32_t state = atomic_load_explicit(&ctl->state, memory_order_acquire);

    if (state != FAB_RANK_FINAL && state != FAB_RANK_ABORTED &&
        !fab_node_is_dead(shm->node, (int)peer->local)) {
        return false;
    }
    atomic_store_explicit(&peer->gone, true, memory_order_relaxed);
    atomic_store_explicit(&shm->has_gone, true, memory_order_release);
    return true;
}

int shm_bell_open(struct shm_engine *shm)
{
    uint32_t me = (uint32_t)shm->node->local;
    struct shm_ring *ring = shm_ring_at(shm->node, me, me);

    if (atomic_load_explicit(&shm->bell, memory_order_relaxed) != NULL) {
        return 0;
    }
    int status = fab_node_reserve(shm->node, ring, sizeof(*ring));
    if (status == 0) {
        atomic_store_explicit(&shm->bell, ring, memory_order_release);
    }
    return status;
}

/* ---------------------------------------------------------------- arrival, poller held */

static void deliver(struct shm_engine *shm, const struct shm_msg *msg, struct shm_cell *cell)
{
    struct fab_rx rx = { .header = msg->header, .data = msg->data, .bytes = msg->bytes };

    rx.word[0] = cell != NULL ? (uintptr_t)cell : (uintptr_t)shm->buf;
    rx.word[1] = cell != NULL;
    bool kept = fab_rx_deliver(&shm->base, msg->handler, &rx);
    if (kept && cell == NULL) {
        shm->buf = NULL;
    }
    if (!kept && cell != NULL) {
        shm_cell_free(cell);
    }
}

static void dispatch(struct shm_engine *shm, struct shm_peer *peer, struct shm_msg *msg)
{
    const struct fab_node *node = shm->node;
    struct shm_cell *cell = NULL;

    if (msg->in_cell) {
        unsigned char *cells = node->cells + (uint64_t)peer->local * node->cell_stride;

        if (msg->cell >= node->cell_stride / SHM_CELL_BYTES || msg->bytes > SHM_CELL_PAYLOAD) {
            msg->kind = SHM_KIND_BAD;
        } else {
            cell = (struct shm_cell *)(void *)(cells + (uint64_t)msg->cell * SHM_CELL_BYTES);
            msg->data = cell->data;
        }
    }
    if (msg->kind == SHM_KIND_AM) {
        deliver(shm, msg, cell);
        return;
    }
    if (msg->kind == SHM_KIND_REQUEST) {
        shm_request_arrived(shm, peer, msg->header, msg->data, msg->bytes);
    } else if (msg->kind == SHM_KIND_REPLY) {
        shm_reply_arrived(shm, peer, msg->header, msg->data, msg->bytes);
    } else {
        orl_log_error(ORL_CAT_SHM, "a message of local rank %u that makes no sense is dropped",
                      peer->local);
    }
    if (cell != NULL) {
        shm_cell_free(cell);
    }
}

static int poll_ring(struct shm_engine *shm, struct shm_peer *peer)
{
    struct shm_msg msg;
    int n = 0;

    for (; n < FAB_BATCH && shm_ring_has_message(&peer->rx); n++) {
        if (shm->buf == NULL) {
            shm->buf = orl_pool_alloc(&shm->bufs);
        }
        /* All buffers are kept: messages wait in the ring until some come back. */
        if (shm->buf == NULL || !shm_ring_pop(&peer->rx, shm->buf, &msg)) {
            break;
        }
        dispatch(shm, peer, &msg);
    }
    return n;
}

static int poll_rings(struct shm_engine *shm)
{
    uint32_t at = shm->cursor < shm->nopen ? shm->cursor : 0;
    int events = 0;

    for (uint32_t i = 0; i < shm->nopen; i++) {
        struct shm_peer *peer = shm->open[at];

        events += poll_ring(shm, peer);
        if (peer->owed_count > 0) {
            events += shm_pay_owed(shm, peer);
        }
        at = at + 1 < shm->nopen ? at + 1 : 0;
        /* Whoever is about to sleep polls all rings: only a round with a find ends early. */
        if (events > 0 && i % SHM_POLL == SHM_POLL - 1) {
            break;
        }
    }
    shm->cursor = at;
    return events;
}

static void open_rx(struct shm_engine *shm, uint32_t from)
{
    struct shm_peer *peer = NULL;

    if (from >= (uint32_t)shm->node->nranks || shm_peer_find(shm, from, &peer) != 0) {
        return;
    }
    shm->known[from / 64] |= UINT64_C(1) << from % 64;
    shm_ring_rx_init(&peer->rx, shm_ring_at(shm->node, (uint32_t)shm->node->local, from));
    shm->open[shm->nopen++] = peer;
}

/* Rings that peers have opened since the last look. */
static void find_rings(struct shm_engine *shm)
{
    struct shm_ring *bell = atomic_load_explicit(&shm->bell, memory_order_acquire);
    unsigned words = ((unsigned)shm->node->nranks + 63) / 64;

    for (unsigned i = 0; bell != NULL && i < words; i++) {
        uint64_t bits = atomic_load_explicit(&bell->bell[i], memory_order_acquire);

        for (bits &= ~shm->known[i]; bits != 0; bits &= bits - 1) {
            open_rx(shm, i * 64 + (unsigned)__builtin_ctzll(bits));
        }
    }
}

/* ---------------------------------------------------------------- peers that end, poller held */

static struct fab_ep *next_ep_of(struct shm_engine *shm, const struct shm_peer *peer)
{
    struct orl_list *it;
    struct fab_ep *found = NULL;

    orl_lock(&shm->base.tx);
    orl_list_each(it, &shm->base.eps) {
        struct fab_ep *ep = container_of(it, struct fab_ep, all);
        uint32_t state = atomic_load_explicit(&ep->state, memory_order_relaxed);

        if (shm_ep_of(ep)->peer == peer && state == FAB_EP_READY) {
            found = ep;
            break;
        }
    }
    orl_unlock(&shm->base.tx);
    return found;
}

static void fail_peer(struct shm_engine *shm, struct shm_peer *peer)
{
    const struct fab_node_ctl *ctl = &shm->node->ctl[peer->local];
    uint32_t state = atomic_load_explicit(&ctl->state, memory_order_relaxed);
    const char *how = state == FAB_RANK_FINAL ? "left" : "died";
    struct fab_ep *ep;
    char cause[64];

    /* What it sent before its end counts. */
    while (peer->rx.ring != NULL && poll_ring(shm, peer) == FAB_BATCH) {
    }
    (void)snprintf(cause, sizeof(cause), "its process %d has %s", ctl->pid,
                   state == FAB_RANK_ABORTED ? "aborted" : how);
    while ((ep = next_ep_of(shm, peer)) != NULL) {
        fab_ep_fail(ep, ORL_ERR_PEER, cause);
    }
    peer->owed_count = 0;
    orl_lock(&shm->base.tx);
    for (unsigned i = 0; i < SHM_WINDOW; i++) {
        if (peer->pending[i].serial != 0) {
            peer->pending[i] = (struct shm_pending){ .serial = 0 };
            (void)atomic_fetch_sub_explicit(&shm->nunanswered, 1, memory_order_relaxed);
        }
    }
    atomic_store_explicit(&peer->free_mask, UINT32_MAX, memory_order_release);
    if (shm->has_cells) {
        shm_cells_reclaim(&shm->cells, peer->local);
    }
    orl_trace_mark(&shm->base.trace, ORL_TRACE_PEER_GONE, peer->local, (uint64_t)ctl->pid, state);
    orl_unlock(&shm->base.tx);
}

static void fail_gone(struct shm_engine *shm)
{
    atomic_store_explicit(&shm->has_gone, false, memory_order_relaxed);
    for (int i = 0; i < shm->node->nranks; i++) {
        struct shm_peer *peer = atomic_load_explicit(&shm->peers[i], memory_order_acquire);

        if (peer != NULL && atomic_load_explicit(&peer->gone, memory_order_relaxed)) {
            fail_peer(shm, peer);
        }
    }
}

/* Peers that owe an answer or room; all of them when somebody has proved a death. */
static void check_peers(struct shm_engine *shm, bool all)
{
    atomic_store_explicit(&shm->has_blocked, false, memory_order_relaxed);
    for (int i = 0; i < shm->node->nranks; i++) {
        struct shm_peer *peer = atomic_load_explicit(&shm->peers[i], memory_order_acquire);

        if (peer == NULL) {
            continue;
        }
        bool owes = atomic_exchange_explicit(&peer->blocked, false, memory_order_relaxed) ||
                    atomic_load_explicit(&peer->free_mask, memory_order_relaxed) != UINT32_MAX;
        if (owes && i != shm->node->local) {
            (void)fab_node_is_alive(shm->node, i);
        }
        if (owes || (all && fab_node_is_dead(shm->node, i))) {
            (void)shm_peer_is_gone(shm, peer);
        }
    }
}

static void look_after_peers(struct shm_engine *shm, int events)
{
    uint32_t deaths = atomic_load_explicit(&shm->node->header->deaths, memory_order_acquire);
    bool waits = atomic_load_explicit(&shm->nunanswered, memory_order_relaxed) != 0 ||
                 atomic_load_explicit(&shm->has_blocked, memory_order_relaxed);

    if (ORL_UNLIKELY(deaths != shm->deaths)) {
        shm->deaths = deaths;
        check_peers(shm, true);
    } else if (waits && (events == 0 || ++shm->turn % 64 == 0)) {
        uint64_t now = orl_clock_ns();

        if (now - shm->checked_ns >= SHM_CHECK_NS) {
            shm->checked_ns = now;
            check_peers(shm, false);
        }
    }
    if (ORL_UNLIKELY(atomic_load_explicit(&shm->has_gone, memory_order_acquire))) {
        fail_gone(shm);
    }
}

static int shm_progress(struct fab_engine *engine)
{
    struct shm_engine *shm = shm_of(engine);

    find_rings(shm);
    int events = poll_rings(shm);
    events += fab_engine_serve(engine, shm_try, SHM_QUANTUM);
    look_after_peers(shm, events);
    return events;
}

static void shm_rx_release(struct fab_engine *engine, struct fab_rx *rx)
{
    if (rx->word[1] != 0) {
        shm_cell_free((struct shm_cell *)rx->word[0]);
    } else {
        orl_pool_free(&shm_of(engine)->bufs, (void *)rx->word[0]);
    }
}

/* ---------------------------------------------------------------- registrations */

static int shm_reg(struct fab_engine *engine, struct fab_region *region)
{
    uint32_t slot = 0;
    uint64_t gen = 0;
    int status = fab_node_reg(shm_of(engine)->node, region->base, region->bytes, region->access,
                              &slot, &gen);

    region->slot[engine->index].word[0] = slot;
    region->slot[engine->index].word[1] = gen;
    return status;
}

static void shm_dereg(struct fab_engine *engine, struct fab_region *region)
{
    fab_node_dereg(shm_of(engine)->node, (uint32_t)region->slot[engine->index].word[0]);
}

static void shm_rkey_pack(struct fab_engine *engine, const struct fab_region *region, void *blob)
{
    struct shm_blob made = {
        .magic = SHM_MAGIC,
        .local = (uint32_t)shm_of(engine)->node->local,
        .slot = (uint32_t)region->slot[engine->index].word[0],
        .gen = region->slot[engine->index].word[1],
    };

    memcpy(blob, &made, sizeof(made));
}

static int check_blob(const struct fab_ep *ep, const struct shm_blob *blob)
{
    const struct fab_node *node = shm_of(ep->engine)->node;
    uint32_t owner = shm_ep_of_const(ep)->peer->local;

    if (blob->magic != SHM_MAGIC || blob->zero != 0 || blob->local != owner || blob->gen % 2 == 0 ||
        blob->slot >= atomic_load_explicit(&node->ctl[owner].reg_high, memory_order_acquire)) {
        return orl_fail(ORL_ERR_INVAL, "this is no key of memory of %s", ep->label);
    }
    return 0;
}

/* Cross-memory attach that was asked for by name but is refused: said now, not at the first put. */
static int check_forced(struct fab_ep *ep)
{
    if (orl_conf.shm_copy != ORL_CONF_SHM_COPY_CMA) {
        return 0;
    }
    orl_lock(&ep->engine->tx);
    int status = shm_cma_ask(shm_of(ep->engine), shm_ep_of(ep)->peer);
    orl_unlock(&ep->engine->tx);
    return status;
}

static int shm_rkey_open(struct fab_ep *ep, const void *blob, size_t bytes, struct fab_rkey *rkey)
{
    const struct fab_node *node = shm_of(ep->engine)->node;
    struct shm_blob got;

    memcpy(&got, blob, sizeof(got) < bytes ? sizeof(got) : bytes);
    int status = check_blob(ep, &got);
    if (status != 0) {
        return status;
    }
    struct fab_reg *reg = &node->regs[(size_t)got.local * FAB_REGS_MAX + got.slot];
    struct fab_rkey made = {
        .live = &reg->gen,
        .gen = got.gen,
        .hazard = fab_hazard_word(got.local, got.slot, got.gen),
    };
    bool live = atomic_load_explicit(&reg->gen, memory_order_acquire) == got.gen;
    bool is_direct = reg->direct != 0;

    made.bytes = reg->bytes;
    made.addr = reg->addr;
    made.word[0] = (uint64_t)got.local << 32 | got.slot;
    made.word[1] = reg->access;
    /* The entry may have changed while it was read: then the generation has, too. */
    atomic_thread_fence(memory_order_acquire);
    if (!live || atomic_load_explicit(&reg->gen, memory_order_relaxed) != got.gen) {
        return orl_fail(ORL_ERR_GONE, "%s has ended this registration", ep->label);
    }
    if ((made.word[1] & ~(uint64_t)FAB_ACCESS_LOCAL) == 0 ||
        (is_direct && (made.addr > node->bytes || made.bytes > node->bytes - made.addr))) {
        return orl_fail(ORL_ERR_INVAL, "this key of %s is not for use by peers", ep->label);
    }
    if (is_direct) {
        made.direct = node->base + made.addr;
        made.addr = (uintptr_t)made.direct;
    }
    if (!is_direct && got.local == (uint32_t)node->local) {
        made.direct = (unsigned char *)(uintptr_t)made.addr;
    }
    status = made.direct == NULL ? check_forced(ep) : 0;
    if (status == 0) {
        *rkey = made;
    }
    return status;
}

/* ---------------------------------------------------------------- open and close */

static int shm_probe(struct fab *fabric, struct fab_nic *nics, int cap)
{
    (void)fabric;
    if (cap < 1) {
        return 0;
    }
    memset(&nics[0], 0, sizeof(nics[0]));
    nics[0].transport = &fab_shm_ops;
    memcpy(nics[0].name, "shm", sizeof("shm"));
    return 1;
}

static void free_engine(struct shm_engine *shm)
{
    orl_pool_fini(&shm->bufs);
    free(shm->bounce);
    free(shm->open);
    free(shm->peers);
    free(shm);
}

static int fill_engine(struct shm_engine *shm, struct fab_node *node)
{
    size_t nranks = (size_t)node->nranks;
    size_t page = orl_sys_page_bytes();

    shm->node = node;
    shm->peers = calloc(nranks, sizeof(*shm->peers));
    shm->open = calloc(nranks, sizeof(void *));
    shm->bounce = aligned_alloc(page, SHM_BOUNCE + page);
    if (shm->peers == NULL || shm->open == NULL || shm->bounce == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for the engine of shm with %zu ranks", nranks);
    }
    int status =
        orl_pool_init(&shm->bufs, "shm receive buffers", SHM_LINE_PAYLOAD, 64, 64, SHM_BUFS_MAX);
    if (status == 0) {
        status = orl_sys_random(&shm->probe[0], sizeof(shm->probe[0]));
    }
    /* Serials of an earlier engine of this rank, whose answers are still to come, are not ours. */
    if (status == 0) {
        status = orl_sys_random(&shm->serial, sizeof(shm->serial));
    }
    shm->probe[1] = node->header->job;
    shm->serial >>= 8;
    shm->deaths = atomic_load_explicit(&node->header->deaths, memory_order_acquire);
    return status != 0 || node->nranks == 1 ? status : shm_bell_open(shm);
}

static int shm_open(struct fab *fabric, const struct fab_nic *nic, struct fab_engine **engine)
{
    if (fabric->node == NULL) {
        return orl_fail(ORL_ERR_INVAL, "transport shm needs a node segment and there is none");
    }
    struct shm_engine *shm = calloc(1, sizeof(*shm));
    if (shm == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for the engine of shm");
    }
    int status = fill_engine(shm, fabric->node);
    if (status != 0) {
        free_engine(shm);
        return status;
    }
    fab_engine_init(&shm->base, &fab_shm_ops, fabric, nic->name);
    shm->base.limits = (struct fab_limits){
        .put_short = SHM_PUT_PIECE,
        .send_short = SHM_LINE_PAYLOAD,
        .send_max = SHM_CELL_PAYLOAD,
        .op_max = FAB_UNLIMITED,
        .poll_unit = SIZE_MAX,
        .amo_widths = 4 | 8,
        .amo_align = 8,
        .address_bytes = sizeof(struct shm_address),
        .rkey_bytes = sizeof(struct shm_blob),
        .ordered = true,
    };
    *engine = &shm->base;
    return 0;
}

static void shm_close(struct fab_engine *engine)
{
    struct shm_engine *shm = shm_of(engine);

    for (int i = 0; i < shm->node->nranks; i++) {
        struct shm_peer *peer = atomic_load_explicit(&shm->peers[i], memory_order_acquire);

        if (peer == NULL) {
            continue;
        }
        if (peer->tx.ring != NULL) {
            shm_ring_tx_fini(&peer->tx);
        }
        if (peer->rx.ring != NULL) {
            shm_ring_rx_fini(&peer->rx);
        }
        free(peer);
    }
    orl_pool_free(&shm->bufs, shm->buf);
    fab_engine_fini(engine);
    free_engine(shm);
}

static void shm_address(struct fab_engine *engine, void *blob)
{
    const struct shm_engine *shm = shm_of(engine);
    struct shm_address made = {
        .magic = SHM_MAGIC,
        .local = (uint32_t)shm->node->local,
        .job = shm->node->header->job,
        .probe_at = (uintptr_t)shm->probe,
        .probe_value = shm->probe[0],
        .pid = (int32_t)getpid(),
    };

    memcpy(blob, &made, sizeof(made));
}

const struct fab_transport_ops fab_shm_ops = {
    "shm",             /* name */
    shm_probe,         /* probe */
    shm_open,          /* open */
    shm_close,         /* close */
    shm_address,       /* address */
    shm_reg,           /* reg */
    shm_dereg,         /* dereg */
    shm_rkey_pack,     /* rkey_pack */
    shm_rkey_open,     /* rkey_open */
    fab_no_rkey_close, /* rkey_close */
    shm_ep_open,       /* ep_open */
    shm_ep_stop,       /* ep_stop */
    shm_ep_close,      /* ep_close */
    shm_progress,      /* progress */
    fab_no_arm,        /* arm */
    shm_rx_release,    /* rx_release */
};
