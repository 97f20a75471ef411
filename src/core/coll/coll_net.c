/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchanges: cutting, sending, room at the other side, waiting; see coll_net.h. The mailbox is in
 * coll_mail.c. Knows nothing of hosts, paths and peers' lives.
 *
 * Cost of a move of n bytes: a message's latency, then its cost per message for every
 * COLL_PIECE_BYTES; the window covers two latencies of a fast network at its full pace.
 */
#include "core/coll/coll_net.h"

#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/status.h"

int coll_net_give_up(struct coll_net *net, int rank, int status)
{
    coll_net_end(net, rank, status);
    net->ports.gave_up(net->ports.user, rank, status);
    return status;
}

/* ---------------------------------------------------------------- sending */

static uint64_t header_of(const struct coll_net *net, enum coll_kind kind)
{
    return (uint64_t)kind << COLL_KIND_SHIFT | (uint32_t)net->me;
}

/* A message with a head, which also tells what has been taken. */
static int emit(struct coll_net *net, enum coll_kind kind, int rank, struct coll_head *head,
                const void *data, size_t bytes)
{
    struct coll_peer *peer = &net->peer[rank];
    unsigned char *message = net->message;

    head->taken = atomic_load_explicit(&peer->got, memory_order_relaxed);
    memcpy(message, head, sizeof(*head));
    if (bytes != 0) {
        orl_copy(message + sizeof(*head), data, bytes);
    }
    int st = net->ports.send(net->ports.user, rank, header_of(net, kind), message,
                             sizeof(*head) + bytes);
    if (st == 0) {
        peer->told = head->taken;
    }
    return st;
}

static int tell_taken(struct coll_net *net, int rank)
{
    return emit(net, COLL_TAKEN, rank, &(struct coll_head){ 0 }, NULL, 0);
}

int coll_net_tell_end(struct coll_net *net, int to, int rank, int status)
{
    struct coll_ending ending = { .rank = rank, .status = status };

    return net->ports.send(net->ports.user, to, header_of(net, COLL_ENDED), &ending,
                           sizeof(ending));
}

static bool is_full(const struct coll_net *net, const struct coll_peer *peer)
{
    uint32_t taken = atomic_load_explicit(&peer->taken, memory_order_acquire);

    return (int32_t)(peer->sent - taken) >= (int32_t)net->window;
}

/* Sends the next piece, if there is something to send and room for it. */
static bool push(struct coll_exchange *x, struct coll_move *move)
{
    struct coll_net *net = x->net;
    struct coll_peer *peer = &net->peer[move->rank];
    uint64_t at = atomic_load_explicit(&move->moved, memory_order_relaxed);
    uint64_t end = move->after == NULL
                       ? move->bytes
                       : atomic_load_explicit(&move->after->moved, memory_order_acquire);
    uint64_t bytes = end - at < COLL_PIECE_BYTES ? end - at : COLL_PIECE_BYTES;

    if (atomic_load_explicit(&move->is_done, memory_order_relaxed) ||
        (bytes == 0 && move->bytes != 0) || is_full(net, peer)) {
        return false;
    }
    struct coll_head head = {
        .step = net->step, .total = move->bytes, .at = at, .phase = move->phase
    };
    int st = emit(net, COLL_PIECE, move->rank, &head, move->data + at, bytes);
    if (st != 0) {
        coll_exchange_fail(x, st, move->rank);
        return false;
    }
    peer->sent++;
    atomic_store_explicit(&move->moved, at + bytes, memory_order_relaxed);
    if (at + bytes == move->bytes) {
        atomic_store_explicit(&move->is_done, true, memory_order_relaxed);
    }
    return true;
}

/* A piece of each in turn, as long as there is room. True when all are gone. */
static bool push_all(struct coll_exchange *x)
{
    bool is_moving = true;
    int done = 0;

    while (is_moving) {
        is_moving = false;
        done = 0;
        for (int i = 0; i < x->nsends; i++) {
            is_moving |= push(x, &x->send[i]);
            done += atomic_load_explicit(&x->send[i].is_done, memory_order_relaxed) ? 1 : 0;
        }
    }
    return done == x->nsends;
}

static bool owes_room(const struct coll_net *net, const struct coll_peer *peer)
{
    uint32_t got = atomic_load_explicit(&peer->got, memory_order_relaxed);

    return got - peer->told >= net->window / 2;
}

/* Gives room back to those I receive from, once for half a window. */
static void give_room(struct coll_exchange *x)
{
    for (int i = 0; i < x->nrecvs; i++) {
        int rank = x->recv[i].rank;
        int st = owes_room(x->net, &x->net->peer[rank]) ? tell_taken(x->net, rank) : 0;

        if (st != 0) {
            coll_exchange_fail(x, st, rank);
        }
    }
}

/* ---------------------------------------------------------------- exchanges */

static bool all_taken(struct coll_net *net)
{
    for (int r = 0; r < net->nranks; r++) {
        struct coll_peer *peer = &net->peer[r];
        if (peer->sent != atomic_load_explicit(&peer->taken, memory_order_acquire)) {
            return false;
        }
    }
    return true;
}

bool coll_exchange_is_ready(void *exchange)
{
    struct coll_exchange *x = exchange;

    if (atomic_load_explicit(&x->status, memory_order_acquire) != 0 ||
        atomic_load_explicit(&x->net->ending, memory_order_acquire) != 0) {
        return true;
    }
    if (x->settling) {
        return all_taken(x->net);
    }
    if (x->peeking) {
        int source;
        uint64_t total;
        return coll_mail_cast(x->net, &source, &total);
    }
    bool is_sent = push_all(x);
    give_room(x);
    return is_sent && atomic_load_explicit(&x->left, memory_order_acquire) == 0;
}

static bool misses(const struct coll_exchange *x, int rank)
{
    const struct coll_peer *peer = &x->net->peer[rank];

    if (x->settling) {
        return peer->sent != atomic_load_explicit(&peer->taken, memory_order_relaxed);
    }
    if (x->peeking) {
        return rank == x->guess;
    }
    for (int i = 0; i < x->nsends + x->nrecvs; i++) {
        const struct coll_move *move = i < x->nsends ? &x->send[i] : &x->recv[i - x->nsends];
        if (move->rank == rank && !atomic_load_explicit(&move->is_done, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

int coll_exchange_misses(const struct coll_exchange *x, int rank)
{
    while (rank < x->net->nranks && !misses(x, rank)) {
        rank++;
    }
    return rank < x->net->nranks ? rank : -1;
}

int coll_net_ended(struct coll_net *net)
{
    uint64_t ending = atomic_load_explicit(&net->ending, memory_order_acquire);

    return ending == 0 ? 0
                       : net->ports.ended(net->ports.user, (int)(ending >> 32),
                                          (int)(int32_t)(uint32_t)ending);
}

/* How a wait that ended ended. */
static int outcome(struct coll_exchange *x)
{
    int st = coll_net_ended(x->net);
    if (st != 0) {
        return st;
    }
    st = atomic_load_explicit(&x->status, memory_order_acquire);
    int wrong = atomic_load_explicit(&x->wrong, memory_order_relaxed);
    if (st == ORL_ERR_INVAL) {
        st =
            orl_fail(st,
                     "%s: this rank and rank %d do not have the same number of bytes; they must be "
                     "the same on all ranks",
                     x->call, wrong);
    } else if (st == ORL_ERR_INTERNAL) {
        st = orl_fail(st, "%s: pieces of rank %d came out of order", x->call, wrong);
    }
    return st == 0 ? 0 : coll_net_give_up(x->net, st == ORL_ERR_PEER ? wrong : x->net->me, st);
}

static int wait_for(struct coll_exchange *x)
{
    int st = coll_exchange_is_ready(x) ? 0 : x->net->ports.wait(x->net->ports.user, x);

    return st != 0 ? st : outcome(x);
}

static int closed(const char *call)
{
    return orl_fail(ORL_ERR_NOMEM, "%s: there was no memory for messages between hosts", call);
}

int coll_exchange_run(struct coll_exchange *x)
{
    struct coll_net *net = x->net;

    if (net->peer == NULL) {
        return closed(x->call);
    }
    atomic_store_explicit(&x->left, x->nrecvs, memory_order_relaxed);
    orl_lock(&net->lock);
    net->current = x;
    orl_unlock(&net->lock);
    for (int i = 0; i < x->nrecvs; i++) {
        coll_mail_await(x, &x->recv[i]);
    }
    int st = wait_for(x);
    coll_mail_withdraw(x);
    return st;
}

int coll_net_peek(struct coll_net *net, const char *call, int guess, int *source, uint64_t *total)
{
    struct coll_exchange x = { .net = net, .call = call, .peeking = true, .guess = guess };

    if (net->peer == NULL) {
        return closed(call);
    }
    int st = wait_for(&x);
    if (st == 0) {
        (void)coll_mail_cast(net, source, total);
    }
    return st;
}

int coll_net_settle(struct coll_net *net, const char *call)
{
    struct coll_exchange x = { .net = net, .call = call, .settling = true };
    int st = 0;

    if (net->peer == NULL) {
        return 0;
    }
    for (int r = 0; st == 0 && r < net->nranks; r++) {
        if (net->peer[r].told != atomic_load_explicit(&net->peer[r].got, memory_order_relaxed)) {
            st = tell_taken(net, r);
        }
    }
    return st != 0 ? st : wait_for(&x);
}

struct coll_move *coll_net_moves(struct coll_net *net, int n)
{
    if (n > net->nmoves) {
        struct coll_move *more = realloc(net->move, (size_t)n * sizeof(*more));
        if (more == NULL) {
            (void)!coll_net_give_up(
                net, net->me, orl_fail(ORL_ERR_NOMEM, "no memory for %d moves of a collective", n));
            return NULL;
        }
        net->move = more;
        net->nmoves = n;
    }
    return net->move;
}

unsigned char *coll_net_scratch(struct coll_net *net, uint64_t bytes)
{
    if (bytes > net->scratch_bytes) {
        free(net->scratch);
        net->scratch = malloc(bytes);
        net->scratch_bytes = net->scratch != NULL ? bytes : 0;
        if (net->scratch == NULL) {
            (void)!coll_net_give_up(net, net->me,
                                    orl_fail(ORL_ERR_NOMEM,
                                             "no memory for %llu bytes of operands on their way",
                                             (unsigned long long)bytes));
        }
    }
    return net->scratch;
}
