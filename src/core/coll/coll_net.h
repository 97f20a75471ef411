/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives by message: the mailbox of one process, and exchanges, of which all algorithms
 * between hosts are made. How messages leave and how one waits are functions of the caller, so that
 * tests run several ranks in one process.
 *
 * Who takes part numbers the collectives of a team alike, from 1: a step. Within a step a phase
 * (kind of move and its round) and the source name a move of bytes from one rank to another, of
 * which there is one at most. A move is cut into pieces, one message each, in order.
 *
 * Wire. The header of a message is kind (8 bits), team (24, 0: world) and source rank (32). A piece
 * starts with struct coll_head, then its bytes. Every piece says how many pieces of its receiver
 * the sender has taken; COLL_TAKEN is a message that says only this. COLL_ENDED says that a rank
 * cannot go on and why; the collectives of the job end there. Hosts of one job have one byte order.
 *
 * Memory. A piece that comes before its move is asked for (ranks run ahead) is kept. No rank sends
 * another more than `window` pieces beyond those it is known to have taken, so at most that many
 * are kept of each source. No circle of ranks waits for room: a rank takes the pieces of one step
 * in the order in which all ranks send them, and during an exchange it sends and takes at once.
 *
 * Threads. One thread at a time runs collectives; messages arrive on any. The lock guards what both
 * touch: the early pieces and the moves waited for. Bytes go into the caller's buffer under it, so
 * that nothing is written there after an exchange has given up. `moved` of a receive, the counts of
 * a peer and `left` are atomic: a release by the one who stored bytes, an acquire by the reader.
 */
#ifndef CORE_COLL_COLL_NET_H
#define CORE_COLL_COLL_NET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/lock.h"
#include "core/coll/coll.h"

#define COLL_MESSAGE_BYTES 4096 /* largest message, head included */

enum coll_kind {
    COLL_PIECE = 1,
    COLL_TAKEN,
    COLL_ENDED
};

struct coll_head {
    uint64_t step;
    uint64_t total; /* bytes of the move */
    uint64_t at;    /* of this piece in it */
    uint32_t phase;
    uint32_t taken; /* pieces of the receiver that the sender has taken, in all */
};

/* What COLL_ENDED says. */
struct coll_ending {
    int32_t rank;
    int32_t status;
};

#define COLL_KIND_SHIFT  56
#define COLL_PIECE_BYTES (COLL_MESSAGE_BYTES - sizeof(struct coll_head))

/* Kinds of moves: the upper bits of a phase. */
#define COLL_ROUND_BITS 24
enum coll_phase {
    COLL_MEET = 1,
    COLL_CAST, /* kept apart: its source is not known before it comes */
    COLL_WHOLE,
    COLL_SLICE,
    COLL_RESULT,
    COLL_FOLD,
    COLL_DOUBLE,
    COLL_UNFOLD
};

static inline uint32_t coll_phase(enum coll_phase kind, uint64_t round)
{
    return (uint32_t)kind << COLL_ROUND_BITS | (uint32_t)round;
}

/* Bytes from one rank to another, either side of it. */
struct coll_move {
    int rank; /* the other side */
    uint32_t phase;
    unsigned char *data; /* a send's is only read */
    uint64_t bytes;
    const struct coll_move *after; /* of a send: what this receive has brought may go; NULL: all */
    _Atomic uint64_t moved;
    _Atomic bool is_done;
};

struct coll_early; /* a piece that waits for its move */

struct coll_queue {
    struct coll_early *first, *last;
};

struct coll_peer {
    uint32_t sent;          /* pieces I have sent it */
    _Atomic uint32_t taken; /* of these, as it says */
    _Atomic uint32_t got;   /* pieces of its that I have taken */
    uint32_t told;          /* what it knows of `got` */
    uint32_t kept; /* early pieces; lock. Never more than a window, or it breaks the rule */
    struct coll_queue early;
    struct coll_move *awaited; /* borrows; the receive its pieces go to */
};

struct coll_net;

/* Moves that are under way at once. */
struct coll_exchange {
    struct coll_net *net;
    const char *call;
    struct coll_move *send, *recv;
    int nsends, nrecvs;
    _Atomic int left;   /* receives that are not done */
    _Atomic int status; /* of what went wrong, 0: nothing */
    _Atomic int wrong;  /* INVAL: the rank with another number of bytes */
    bool settling;      /* waits until all that was ever sent has been taken */
    bool peeking;       /* waits for any piece of a cast of this step */
    int guess;          /* of a peek: whom it probably comes from */
};

struct coll_ports {
    /* Takes the message over, at most COLL_MESSAGE_BYTES, without waiting. In order to each rank.
     */
    int (*send)(void *user, int rank, uint64_t header, const void *data, size_t bytes);
    /* Until coll_exchange_is_ready; or the status that ends it, for instance since one of those it
     * misses has gone. Drives the arrival of messages. */
    int (*wait)(void *user, struct coll_exchange *x);
    /* Somebody has said that this rank cannot go on: the status of the collective, with its text.
     */
    int (*ended)(void *user, int rank, int status);
    /* This rank cannot go on, for the sake of that one, perhaps itself: to be told to all, since
     * they may wait for it. Leaves the last error as it is. */
    void (*gave_up)(void *user, int rank, int status);
    void *user;
};

struct coll_net {
    struct coll_ports ports;
    int me, nranks;
    uint32_t window;
    struct orl_lock lock;
    uint64_t step;                 /* collectives begun; written under the lock */
    struct coll_exchange *current; /* borrows; lock */
    struct coll_peer *peer;        /* owns; [nranks]; NULL: closed */
    struct coll_queue cast;        /* early pieces of casts, of whatever source */
    struct coll_move *move;        /* owns; room for `nmoves` of a step */
    int nmoves;
    _Alignas(ORL_CACHE_LINE) unsigned char message[COLL_MESSAGE_BYTES]; /* on its way out */
    _Alignas(ORL_CACHE_LINE) unsigned char block[COLL_BLOCK_BYTES];     /* half-combined operands */
    unsigned char *scratch; /* owns; operands on their way */
    uint64_t scratch_bytes;
    _Atomic uint64_t ending; /* who cannot go on, and his status; 0: nobody has said so */
};

/* A mailbox for all ranks of a job. Errors: NOMEM. */
int coll_net_open(struct coll_net *net, int me, int nranks,
                  const struct coll_ports *ports) ORL_MUST_CHECK;
/* Messages that come later are dropped. */
void coll_net_close(struct coll_net *net);

/* A message has come. Any thread; the bytes are copied. What makes no sense is dropped. */
void coll_net_arrived(struct coll_net *net, uint64_t header, const void *data, size_t bytes);

/* Begin the next step: by all ranks alike, whether they take part in it or not. */
void coll_net_begin(struct coll_net *net);

/* What went wrong in an exchange, for the sake of which rank. Any thread. */
void coll_exchange_fail(struct coll_exchange *x, int status, int rank);
/* From now on pieces go to this receive; those that came before go first. And: no longer. */
void coll_mail_await(struct coll_exchange *x, struct coll_move *move);
void coll_mail_withdraw(struct coll_exchange *x);
/* True when a piece of a cast of the present step waits: where it comes from, and its total. */
bool coll_mail_cast(struct coll_net *net, int *source, uint64_t *total);

/* Do these moves of the present step. Returns when all sends are taken over and all receives are
 * there, or with the status that ended it; the buffers are the caller's again in any case. INVAL
 * when the other side of a receive has another number of bytes. */
int coll_exchange_run(struct coll_exchange *x) ORL_MUST_CHECK;
/* Wait for the first piece of a cast of the present step, probably from rank `guess`: where it
 * comes from, and its total. */
int coll_net_peek(struct coll_net *net, const char *call, int guess, int *source,
                  uint64_t *total) ORL_MUST_CHECK;
/* Tell all what has been taken, and wait until all have taken what was sent to them. */
int coll_net_settle(struct coll_net *net, const char *call) ORL_MUST_CHECK;

/* For the waiting port: sends what may go; true when the wait is over. Its thread only. */
bool coll_exchange_is_ready(void *exchange);
/* The next rank from `rank` on whose message is missed, -1: none. */
int coll_exchange_misses(const struct coll_exchange *x, int rank);

/* Say to one rank that `rank` (perhaps myself) cannot go on. */
int coll_net_tell_end(struct coll_net *net, int to, int rank, int status) ORL_MUST_CHECK;
/* Mark that it cannot: every exchange from now on ends with the port's `ended`. Any thread. */
void coll_net_end(struct coll_net *net, int rank, int status);
/* 0, or what the port `ended` makes of it. */
int coll_net_ended(struct coll_net *net) ORL_MUST_CHECK;
/* The same for what has happened here, told by the port `gave_up`; returns status. */
int coll_net_give_up(struct coll_net *net, int rank, int status) ORL_MUST_CHECK;

/* Room for moves and for operands, kept for the next step. NULL with NOMEM and its text. */
struct coll_move *coll_net_moves(struct coll_net *net, int n);
unsigned char *coll_net_scratch(struct coll_net *net, uint64_t bytes);

static inline void coll_move_set(struct coll_move *move, int rank, uint32_t phase, const void *data,
                                 uint64_t bytes)
{
    union {
        const void *in;
        unsigned char *out;
    } at = { .in = data };

    move->rank = rank;
    move->phase = phase;
    move->data = at.out;
    move->bytes = bytes;
    move->after = NULL;
    atomic_store_explicit(&move->moved, 0, memory_order_relaxed);
    atomic_store_explicit(&move->is_done, false, memory_order_relaxed);
}

_Static_assert(sizeof(struct coll_head) == 32, "a head is part of the wire");

#endif
