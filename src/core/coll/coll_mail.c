/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mailbox: pieces that come early wait in it, others go where they belong; see coll_net.h. One
 * lock, for what arriving messages and the thread of the collective both touch.
 */
#include "core/coll/coll_net.h"

#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/status.h"

/* Pieces on their way to one rank: enough at WINDOW_MAX for 256 KiB; less where many ranks could
 * use all of it at once, so that what is kept stays below WINDOW_TOTAL pieces, 16 MiB, as far as
 * WINDOW_MIN, which a single latency needs, allows. */
#define WINDOW_MAX   64
#define WINDOW_MIN   4
#define WINDOW_TOTAL 4096

struct coll_early {
    struct coll_early *next;
    struct coll_head head;
    int source;
    size_t bytes;
    unsigned char data[];
};

/* ---------------------------------------------------------------- queues */

static void append(struct coll_queue *queue, struct coll_early *early)
{
    early->next = NULL;
    if (queue->last == NULL) {
        queue->first = early;
    } else {
        queue->last->next = early;
    }
    queue->last = early;
}

static void drop_all(struct coll_queue *queue)
{
    while (queue->first != NULL) {
        struct coll_early *early = queue->first;

        queue->first = early->next;
        free(early);
    }
    queue->last = NULL;
}

static bool is_cast(uint32_t phase)
{
    return phase >> COLL_ROUND_BITS == COLL_CAST;
}

static struct coll_queue *queue_of(struct coll_net *net, int source, uint32_t phase)
{
    return is_cast(phase) ? &net->cast : &net->peer[source].early;
}

static void count_taken(struct coll_net *net, int source)
{
    (void)atomic_fetch_add_explicit(&net->peer[source].got, 1, memory_order_relaxed);
}

/* Takes the first piece of this move off its queue, NULL: there is none. Pieces of steps that have
 * ended, as only failed ones leave behind, go away. Lock held. */
static struct coll_early *detach(struct coll_net *net, int source, uint32_t phase)
{
    struct coll_queue *queue = queue_of(net, source, phase);
    struct coll_early **link = &queue->first;
    struct coll_early *before = NULL;

    while (*link != NULL) {
        struct coll_early *early = *link;
        bool is_old = early->head.step < net->step;
        bool is_it =
            early->head.step == net->step && early->head.phase == phase && early->source == source;

        if (!is_old && !is_it) {
            before = early;
            link = &early->next;
            continue;
        }
        *link = early->next;
        if (queue->last == early) {
            queue->last = before;
        }
        net->peer[early->source].kept--;
        if (is_it) {
            return early;
        }
        count_taken(net, early->source);
        free(early);
    }
    return NULL;
}

/* ---------------------------------------------------------------- arrival */

void coll_exchange_fail(struct coll_exchange *x, int status, int rank)
{
    atomic_store_explicit(&x->wrong, rank, memory_order_relaxed);
    atomic_store_explicit(&x->status, status, memory_order_release);
}

/* A piece goes to its place. By the thread of the collective before the move is awaited, and by
 * whoever it arrives at, with the lock held, after that. */
static void deposit(struct coll_net *net, struct coll_exchange *x, struct coll_move *move,
                    const struct coll_head *head, const void *data, size_t bytes)
{
    uint64_t moved = atomic_load_explicit(&move->moved, memory_order_relaxed);

    count_taken(net, move->rank);
    if (head->total != move->bytes || head->at != moved) {
        coll_exchange_fail(x, head->total != move->bytes ? ORL_ERR_INVAL : ORL_ERR_INTERNAL,
                           move->rank);
        return;
    }
    if (bytes != 0) {
        orl_copy(move->data + moved, data, bytes);
    }
    moved += bytes;
    atomic_store_explicit(&move->moved, moved, memory_order_release);
    if (moved == move->bytes) {
        atomic_store_explicit(&move->is_done, true, memory_order_relaxed);
        (void)atomic_fetch_sub_explicit(&x->left, 1, memory_order_release);
    }
}

/* Lock held. */
static bool deposit_awaited(struct coll_net *net, int source, const struct coll_head *head,
                            const void *data, size_t bytes)
{
    struct coll_peer *peer = &net->peer[source];
    struct coll_move *move = peer->awaited;

    if (head->step < net->step) {
        count_taken(net, source);
        return true;
    }
    if (move == NULL || head->step != net->step || head->phase != move->phase) {
        return false;
    }
    deposit(net, net->current, move, head, data, bytes);
    if (atomic_load_explicit(&move->is_done, memory_order_relaxed)) {
        peer->awaited = NULL;
    }
    return true;
}

/* The lock is not held over malloc: what a source sends arrives one after the other, so nothing
 * overtakes this piece meanwhile. */
static void take_in(struct coll_net *net, int source, const struct coll_head *head,
                    const void *data, size_t bytes)
{
    struct coll_early *early;

    orl_lock(&net->lock);
    bool is_done = net->peer == NULL || deposit_awaited(net, source, head, data, bytes);
    orl_unlock(&net->lock);
    if (is_done) {
        return;
    }
    early = malloc(sizeof(*early) + bytes);
    if (early == NULL) {
        coll_net_end(net, net->me, ORL_ERR_NOMEM);
        return;
    }
    early->head = *head;
    early->source = source;
    early->bytes = bytes;
    memcpy(early->data, data, bytes);
    orl_lock(&net->lock);
    is_done = net->peer == NULL || deposit_awaited(net, source, head, data, bytes);
    bool is_kept = !is_done && net->peer[source].kept < net->window;
    if (is_kept) {
        net->peer[source].kept++;
        append(queue_of(net, source, head->phase), early);
    }
    orl_unlock(&net->lock);
    if (!is_kept) {
        free(early);
    }
}

/* A count only grows. What would say that more was taken than sent is not believed. */
static void learn_taken(struct coll_peer *peer, uint32_t taken)
{
    uint32_t known = atomic_load_explicit(&peer->taken, memory_order_relaxed);

    if (taken - known <= WINDOW_MAX) {
        atomic_store_explicit(&peer->taken, taken, memory_order_release);
    }
}

static bool is_sound(const struct coll_head *head, size_t bytes)
{
    return bytes <= COLL_PIECE_BYTES && head->at <= head->total &&
           bytes <= head->total - head->at && (bytes != 0 || head->total == 0) &&
           head->phase >> COLL_ROUND_BITS != 0 && head->step != 0;
}

void coll_net_arrived(struct coll_net *net, uint64_t header, const void *data, size_t bytes)
{
    uint64_t source = header & UINT32_MAX;
    unsigned kind = (unsigned)(header >> COLL_KIND_SHIFT);
    struct coll_head head;
    struct coll_ending ending;

    if (source >= (uint64_t)net->nranks || (header << 8) >> 40 != 0) {
        return;
    }
    if (kind == COLL_ENDED && bytes == sizeof(ending)) {
        memcpy(&ending, data, sizeof(ending));
        if (ending.rank >= 0 && ending.rank < net->nranks && ending.status < 0) {
            coll_net_end(net, ending.rank, ending.status);
        }
        return;
    }
    if ((kind != COLL_PIECE && kind != COLL_TAKEN) || bytes < sizeof(head)) {
        return;
    }
    memcpy(&head, data, sizeof(head));
    orl_lock(&net->lock);
    if (net->peer != NULL) {
        learn_taken(&net->peer[source], head.taken);
    }
    orl_unlock(&net->lock);
    bytes -= sizeof(head);
    if (kind == COLL_PIECE && is_sound(&head, bytes)) {
        take_in(net, (int)source, &head, (const unsigned char *)data + sizeof(head), bytes);
    }
}

void coll_net_end(struct coll_net *net, int rank, int status)
{
    uint64_t none = 0;
    uint64_t ending = (uint64_t)(uint32_t)rank << 32 | (uint32_t)status;

    (void)atomic_compare_exchange_strong(&net->ending, &none, ending);
}

/* ---------------------------------------------------------------- the collective's side */

static const struct coll_early *cast_of_step(const struct coll_net *net)
{
    const struct coll_early *early = net->cast.first;

    while (early != NULL && early->head.step != net->step) {
        early = early->next;
    }
    return early;
}

bool coll_mail_cast(struct coll_net *net, int *source, uint64_t *total)
{
    orl_lock(&net->lock);
    const struct coll_early *early = cast_of_step(net);
    if (early != NULL) {
        *source = early->source;
        *total = early->head.total;
    }
    orl_unlock(&net->lock);
    return early != NULL;
}

/* From now on its pieces go to the move; those that came before go first. */
void coll_mail_await(struct coll_exchange *x, struct coll_move *move)
{
    struct coll_net *net = x->net;
    struct coll_early *early;

    do {
        orl_lock(&net->lock);
        early = detach(net, move->rank, move->phase);
        if (early == NULL && !atomic_load_explicit(&move->is_done, memory_order_relaxed)) {
            net->peer[move->rank].awaited = move;
        }
        orl_unlock(&net->lock);
        if (early != NULL) {
            deposit(net, x, move, &early->head, early->data, early->bytes);
            free(early);
        }
    } while (early != NULL);
}

void coll_mail_withdraw(struct coll_exchange *x)
{
    orl_lock(&x->net->lock);
    for (int i = 0; i < x->nrecvs; i++) {
        x->net->peer[x->recv[i].rank].awaited = NULL;
    }
    x->net->current = NULL;
    orl_unlock(&x->net->lock);
}

/* ---------------------------------------------------------------- life */

void coll_net_begin(struct coll_net *net)
{
    orl_lock(&net->lock);
    net->step++;
    orl_unlock(&net->lock);
}

static uint32_t window_of(int nranks)
{
    int share = WINDOW_TOTAL / nranks;

    share = share < WINDOW_MAX ? share : WINDOW_MAX;
    return (uint32_t)(share > WINDOW_MIN ? share : WINDOW_MIN);
}

int coll_net_open(struct coll_net *net, int me, int nranks, const struct coll_ports *ports)
{
    memset(net, 0, sizeof(*net));
    net->ports = *ports;
    net->me = me;
    net->nranks = nranks;
    net->window = window_of(nranks);
    orl_lock_init(&net->lock, ORL_RANK_TEAM, "collectives");
    net->peer = calloc((size_t)nranks, sizeof(*net->peer));
    if (net->peer == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for the messages of %d ranks, %zu bytes", nranks,
                        (size_t)nranks * sizeof(*net->peer));
    }
    return 0;
}

void coll_net_close(struct coll_net *net)
{
    orl_lock(&net->lock);
    struct coll_peer *peer = net->peer;
    net->peer = NULL;
    orl_unlock(&net->lock);
    for (int r = 0; peer != NULL && r < net->nranks; r++) {
        drop_all(&peer[r].early);
    }
    drop_all(&net->cast);
    free(peer);
    free(net->move);
    free(net->scratch);
    net->move = NULL;
    net->scratch = NULL;
    net->nmoves = 0;
    net->scratch_bytes = 0;
}
