/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared memory: what the files of this transport know of each other. Three ways to a peer's
 * memory, chosen per key and peer: `direct` for memory in the node's arena; cross-memory attach for
 * private memory where a probe of that peer showed it allowed; else messages to the peer, which
 * its own progress serves.
 *
 * Locks. tx: producing ends of rings, my cells, handing out of requests. Poller: consuming ends,
 * completion of requests, replies owed. A request is begun under tx (and, unless it is a
 * short put, the poller) and ends under the poller. An endpoint is failed by progress only; what
 * finds a peer gone elsewhere marks it.
 */
#ifndef FABRIC_SHM_SHM_H
#define FABRIC_SHM_SHM_H

#include "base/pool.h"
#include "fabric/fabric.h"
#include "fabric/shm/shm_ring.h"
#include "fabric/transport.h"

#define SHM_WINDOW   32                    /* requests to one peer that may be unanswered */
#define SHM_QUANTUM  ((uint64_t)256 << 10) /* bytes of one turn of an endpoint */
#define SHM_BUFS_MAX 1024                  /* receive buffers that may be kept */
#define SHM_POLL     16 /* rings polled before one with a message may end the round */
#define SHM_CHECK_NS                                                                           \
 UINT64_C(10000000)                   /* liveness checks of a peer that owes us: at most every \
                                       */
#define SHM_BOUNCE ((size_t)64 << 10) /* bytes of a misaligned cross-memory copy at a time */
#define SHM_MAGIC  UINT32_C(0x53686d31)

/* op->flags: the low bits count pieces whose reply is due. */
#define SHM_OP_TAKEN    (UINT32_C(1) << 31) /* all pieces are begun; the op has left its queue */
#define SHM_OP_MESSAGES (UINT32_C(1) << 30) /* some piece went by message */
#define SHM_OP_COUNT    (SHM_OP_MESSAGES - 1)

/* Kinds of ring messages. */
enum shm_kind {
    SHM_KIND_BAD,
    SHM_KIND_AM,      /* payload for a handler */
    SHM_KIND_REQUEST, /* struct shm_request, then data of a put; header: serial */
    SHM_KIND_REPLY    /* struct shm_reply, then data of a get; header: serial */
};

/* What a request wants. */
enum shm_want {
    SHM_WANT_PUT,
    SHM_WANT_GET,
    SHM_WANT_AMO
};

/* Wire: access to memory of the receiver through a registration of the receiver. */
struct shm_request {
    uint8_t want; /* enum shm_want */
    uint8_t amo;
    uint8_t width;
    uint8_t notify; /* 1: then add operand at compare, which is an offset */
    uint32_t slot;
    uint64_t gen;
    uint64_t offset;
    uint64_t bytes;
    uint64_t operand;
    uint64_t compare;
};

struct shm_reply {
    int32_t status;
    uint32_t bytes; /* of the data that follows */
    uint64_t old;
};

_Static_assert(sizeof(struct shm_request) == 48, "fills a first line");
_Static_assert(sizeof(struct shm_reply) == 16, "wire format");

#define SHM_PUT_PIECE (SHM_CELL_PAYLOAD - sizeof(struct shm_request))
#define SHM_GET_PIECE (SHM_CELL_PAYLOAD - sizeof(struct shm_reply))

/* Wire: address of an engine. */
struct shm_address {
    uint32_t magic;
    uint32_t local;
    uint64_t job;
    uint64_t probe_at;    /* where the engine has probe[2] */
    uint64_t probe_value; /* and what is there */
    int32_t pid;
    uint32_t zero;
};

/* Wire: a registration. The rest is in the node's table. */
struct shm_blob {
    uint32_t magic;
    uint32_t local;
    uint32_t slot;
    uint32_t zero;
    uint64_t gen;
};

_Static_assert(sizeof(struct shm_address) <= FAB_ADDRESS_BYTES, "fits an address");
_Static_assert(sizeof(struct shm_blob) <= FAB_RKEY_BYTES, "fits a key");

/* A request without its reply. op and ep are cleared when the endpoint stops; the entry stays until
 * the reply comes or the peer is dead, so a late reply finds nobody. */
struct shm_pending {
    uint64_t serial;
    struct fab_op *op;    /* borrows; NULL: a short put, or nobody any more */
    struct shm_ep *ep;    /* borrows; NULL: nobody any more */
    unsigned char *local; /* where data of a get goes */
    uint64_t bytes;
};

/* A reply that this process owes. Data of a get is read when the reply is sent. */
struct shm_owed {
    uint64_t serial;
    int32_t status;
    bool is_get;
    uint64_t old;
    struct shm_request get;
};

enum shm_cma {
    SHM_CMA_UNKNOWN,
    SHM_CMA_YES,
    SHM_CMA_NO
};

/* Another rank of the node, or this one. Made on first use, freed with the engine. */
struct shm_peer {
    uint32_t local;
    struct shm_ring_tx tx; /* ring NULL until the first message; tx */
    struct shm_ring_rx rx; /* ring NULL until the peer has opened it; poller */
    struct shm_pending pending[SHM_WINDOW];
    _Atomic uint32_t free_mask;       /* bit i: pending[i] is free; taken under tx */
    struct shm_owed owed[SHM_WINDOW]; /* FIFO; poller */
    uint32_t owed_head;
    uint32_t owed_count;
    struct shm_ep *hungry; /* borrows: who found no room in a whole turn, and is next; tx */
    _Atomic bool blocked;  /* a push found no room since the last check */
    _Atomic bool gone;     /* found dead or left; progress fails its endpoints */
    uint64_t checked_ns;   /* last liveness check before a cross-memory copy; tx */
    enum shm_cma cma;      /* tx */
    int32_t pid;           /* tx */
    uint64_t probe_at;     /* tx */
    uint64_t probe_value;  /* tx */
};

struct shm_ep {
    struct fab_ep base;
    struct shm_peer *peer;     /* borrows */
    _Atomic uint32_t inflight; /* requests without a reply: direct access must wait for them */
    _Atomic int short_status;  /* first failure of a short put by message, told by the next flush */
    bool was_fed;              /* its last try for room was fine: not the next to be hungry; tx */
};

struct shm_engine {
    struct fab_engine base;
    struct fab_node *node;           /* borrows */
    struct shm_peer *_Atomic *peers; /* owns; [nranks], NULL until used */
    struct shm_cells cells;          /* mine; tx */
    bool has_cells;                  /* the first of them are reserved; tx */
    struct shm_ring *_Atomic bell;   /* my ring to myself, NULL until reserved */
    uint64_t known[SHM_BELL_WORDS];  /* bell bits already seen; poller */
    struct shm_peer **open;          /* owns; peers whose rings to me are open; poller */
    uint32_t nopen;
    uint32_t cursor;
    struct orl_pool bufs;         /* receive buffers of SHM_LINE_PAYLOAD */
    void *buf;                    /* owns: the next one, NULL: none left; poller */
    uint64_t serial;              /* tx */
    uint64_t probe[2];            /* what peers read to see whether they may */
    unsigned char *bounce;        /* owns; tx */
    _Atomic uint32_t nunanswered; /* requests without reply, all peers */
    _Atomic bool has_blocked;
    _Atomic bool has_gone;
    uint32_t deaths;     /* of the node header when last looked at; poller */
    uint32_t turn;       /* poller */
    uint64_t checked_ns; /* poller */
};

static inline struct shm_engine *shm_of(struct fab_engine *engine)
{
    return container_of(engine, struct shm_engine, base);
}

static inline const struct shm_ep *shm_ep_of_const(const struct fab_ep *ep)
{
    return (const struct shm_ep *)ep;
}

static inline struct shm_ep *shm_ep_of(struct fab_ep *ep)
{
    return container_of(ep, struct shm_ep, base);
}

/* rkey.word[0]: owner and slot; word[1]: access. */
static inline uint32_t shm_rkey_slot(const struct fab_rkey *rkey)
{
    return (uint32_t)rkey->word[0];
}

/* The owner has not ended it, as far as this moment goes. */
static inline bool shm_rkey_is_live(const struct fab_rkey *rkey)
{
    return atomic_load_explicit(rkey->live, memory_order_acquire) == rkey->gen;
}

static inline struct shm_ring *shm_ring_at(const struct fab_node *node, uint32_t to, uint32_t from)
{
    uint64_t index = (uint64_t)to * (uint64_t)node->nranks + from;

    return (struct shm_ring *)(void *)(node->rings + index * node->ring_stride);
}

/* ---------------------------------------------------------------- shm.c */

/* The peer's record, made when it is not there yet. tx not held. */
int shm_peer_find(struct shm_engine *shm, uint32_t local, struct shm_peer **peer) ORL_MUST_CHECK;
/* Dead, or has left; marks it. Two loads of its control block. */
bool shm_peer_is_gone(struct shm_engine *shm, struct shm_peer *peer);
/* Make the bell's page exist. */
int shm_bell_open(struct shm_engine *shm) ORL_MUST_CHECK;

/* ---------------------------------------------------------------- shm_ep.c */

extern const struct fab_ep_ops shm_ep_ops;
/* Says that the registration has been ended; GONE. */
int shm_say_gone(const struct shm_ep *ep) ORL_MUST_CHECK;
enum fab_try shm_try(struct fab_ep *base, struct fab_op *op, uint64_t *bytes);
int shm_ep_open(struct fab_engine *engine, const void *address, size_t bytes, const char *label,
                struct fab_ep **ep);
void shm_ep_stop(struct fab_ep *ep, int status);
void shm_ep_close(struct fab_ep *ep);

/* ---------------------------------------------------------------- shm_am.c */

/* Room at a peer is shared by its endpoints. One whose op found none has the next turn, so that
 * others cannot take whatever comes free. tx held. May this endpoint send now? */
bool shm_may_send(const struct shm_ep *ep);
/* An op of the endpoint was sent (0) or found no room (AGAIN). */
void shm_note_room(struct shm_ep *ep, int status);

/* Send one message, in lines or in a cell; opens the ring first. tx held. 0, AGAIN, NOMEM. */
int shm_push(struct shm_engine *shm, struct shm_peer *peer, const struct shm_msg *msg,
             const struct shm_parts *parts) ORL_MUST_CHECK;
/* Continue a put, get or atomic by messages. tx and poller held. */
enum fab_try shm_request_try(struct shm_ep *ep, struct fab_op *op, uint64_t *bytes);
/* A short put by message. tx held. */
int shm_request_put(struct shm_ep *ep, const struct fab_rkey *rkey, uint64_t offset,
                    const void *src, size_t bytes) ORL_MUST_CHECK;
/* A message came; poller held. */
void shm_request_arrived(struct shm_engine *shm, struct shm_peer *peer, uint64_t serial,
                         const void *data, size_t bytes);
void shm_reply_arrived(struct shm_engine *shm, struct shm_peer *peer, uint64_t serial,
                       const void *data, size_t bytes);
/* Send replies that are owed, as far as there is room. Poller held. */
int shm_pay_owed(struct shm_engine *shm, struct shm_peer *peer);
/* An endpoint stops: nobody waits for its replies any more. Poller and tx held. */
void shm_requests_drop(struct shm_ep *ep, int status);

/* ---------------------------------------------------------------- shm_copy.c */

/* May private memory of the peer be reached by cross-memory attach? Probes on first use. tx held.
 * 0 yes, AGAIN no (use messages), CONF no though it was insisted on. */
int shm_cma_ask(struct shm_engine *shm, struct shm_peer *peer) ORL_MUST_CHECK;
enum shm_direction {
    SHM_READ,
    SHM_WRITE
};
/* Copy up to bytes between local and the range at rkey + offset; *moved says how many. 0; GONE,
 * INVAL, NOMEM, SYS; PEER: its process is gone; AGAIN: refused now, nothing moved, use messages;
 * CONF. tx held. */
int shm_cma_copy(struct shm_engine *shm, struct shm_peer *peer, const struct fab_rkey *rkey,
                 uint64_t offset, void *local, uint64_t bytes, enum shm_direction direction,
                 uint64_t *moved) ORL_MUST_CHECK;

#endif
