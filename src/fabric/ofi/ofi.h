/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The libfabric transport, private parts. One engine per (provider, domain).
 *
 * Everything an endpoint does is a numbered message that the target's engine serves; README.md
 * draws it. Locks: the poller around all that reads the completion queue, delivers and finishes;
 * tx around every call that sends and around all fields below but those marked otherwise.
 */
#ifndef FABRIC_OFI_OFI_H
#define FABRIC_OFI_OFI_H

#include "base/map.h"
#include "fabric/fabric.h"
#include "fabric/ofi/ofi_wire.h"
#include "fabric/transport.h"

/* After ours: it brings a container_of where there is none. */
#include <rdma/fabric.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "fabric/ofi/ofi_large.h"

#define OFI_WINDOW   256 /* numbered pieces of an endpoint that may be unanswered; power of two */
#define OFI_REQUESTS 64  /* gets and atomics of an endpoint that may be; at most 64 */
#define OFI_SHORT    ((size_t)64 << 10)   /* largest put_short and send_short, where it fits */
#define OFI_EVENTS   64                   /* completions taken at once */
#define OFI_QUANTUM  ((uint64_t)64 << 10) /* bytes of one turn of an endpoint */
#define OFI_READS    64                   /* reads of large transfers at the provider */
#define OFI_NO_ID    0

/* ---------------------------------------------------------------- facts of providers */

#define OFI_GONE 2

struct ofi_facts {
    const char *provider;
    size_t message_bytes; /* largest message to use, headers included */
    int gone[OFI_GONE];   /* its own numbers for errors that mean: the peer has ended; 0: none */
    uint64_t bulk_from;   /* bytes from which reads are better than messages; UINT64_MAX: never */
    size_t bulk_chunk;    /* bytes of a read, at most */
    uint32_t bulk_depth;  /* reads from one peer at a time */
    bool is_ordered;      /* messages of one sender arrive in order */
};

/* What holds for the provider of that name; never NULL. */
const struct ofi_facts *ofi_facts_of(const char *provider);
/* Whether this number of an error, the provider's own, says that the peer has ended. */
bool ofi_facts_say_gone(const struct ofi_facts *fact, int native);

/* ---------------------------------------------------------------- ids that travel */

/* Objects by number. A number is not used again soon: its upper part counts the uses. */
struct ofi_table {
    struct ofi_entry {
        void *object; /* borrows; NULL: free */
        uint32_t uses;
        uint32_t next_free;
    } * entry; /* owns */
    uint32_t size;
    uint32_t free; /* first free one, or size */
};

int ofi_table_add(struct ofi_table *table, void *object, uint32_t *id) ORL_MUST_CHECK;
void ofi_table_del(struct ofi_table *table, uint32_t id);
/* NULL: nothing has that number. */
void *ofi_table_get(const struct ofi_table *table, uint32_t id);
void ofi_table_fini(struct ofi_table *table);

/* ---------------------------------------------------------------- buffers */

enum ofi_use {
    OFI_USE_SEND,
    OFI_USE_RECEIVE,
    OFI_USE_READ
};

/* First in everything the provider is given as context. */
struct ofi_context {
    struct fi_context2 native;
    uint32_t use; /* enum ofi_use */
};

/* What goes out in one piece: open while it is filled, busy from the send call to its completion.
 */
struct ofi_slot {
    struct ofi_context context;
    struct orl_link link;
    struct ofi_peer *peer; /* counted there while busy */
    uint32_t bytes;
    bool is_large;
    uint32_t ep; /* of a bundle: whose numbered pieces it has, OFI_NO_ID: it has none */
    uint32_t to; /* the half they are for */
    uint32_t seq;
    uint32_t numbered;
    unsigned char *data;
    void *desc;
};

struct ofi_slots {
    struct orl_fifo free;
    struct ofi_chunk *chunks; /* owns */
    size_t bytes;             /* of a slot's data */
    uint32_t count;
    uint32_t most;
};

/* A receive buffer: posted, being delivered, held back for order, or kept by handlers. */
struct ofi_buffer {
    struct ofi_context context;
    struct orl_link link; /* in engine->unposted when the provider had no room */
    uint32_t bytes;
    uint32_t refs; /* while it is not posted */
    bool is_copy;  /* of memory of its own, to be freed */
    unsigned char *data;
    void *desc;
};

/* ---------------------------------------------------------------- peers */

/* A peer engine. Lives while an endpoint, a receiving half or a busy slot names it. */
struct ofi_peer {
    uint64_t cookie;
    fi_addr_t address;
    uint8_t name[OFI_NAME_BYTES];
    struct orl_list all;      /* engine->peers */
    struct orl_list eps;      /* of struct ofi_ep */
    struct orl_list halves;   /* of struct ofi_half */
    struct orl_list owing;    /* those of the halves that have something to tell */
    struct orl_map dead;      /* registration slot -> 1 + newest generation known to be over */
    struct orl_list troubled; /* engine->troubled */
    uint64_t suspect_since;   /* 0, or since when nothing goes or comes */
    uint64_t probe_at;        /* when to ask its system next */
    uint64_t probe_since;     /* when the running question was asked */
    int probe_fd;             /* of it, -1: none runs */
    bool is_silent;           /* suspected for its silence, not for a provider that refuses */
    uint32_t probes;          /* that were answered: it lives */
    int failure;              /* errno: it cannot be reached */
    uint32_t busy;            /* slots at the provider */
    uint32_t large;           /* large ones of them */
    struct ofi_slot *open;    /* owns; a bundle that is being filled */
    struct orl_list unsent;   /* engine->unsent: it has one */
    bool is_promised;         /* the last bundle said that it is followed */
    bool is_counted;          /* as an op that waits: nothing under way brings another look */
    bool is_stalled;          /* the open slot has found no room; the end of a send brings some */
    struct ofi_far far;
};

struct ofi_request {
    struct fab_op *op;
    unsigned char *at;       /* landing of this piece */
    struct ofi_large *large; /* a loan is asked for; NULL: data are */
    uint32_t bytes;
    uint32_t serial;
};

/* The sending half of a connection. */
struct ofi_ep {
    struct fab_ep base;
    struct ofi_peer *peer;
    struct orl_list of_peer;
    struct orl_list connecting; /* engine->connecting */
    uint32_t id;
    uint32_t half;    /* the receiving half, at the peer; OFI_NO_ID while connecting */
    uint32_t next;    /* number of the next piece */
    uint32_t acked;   /* all below are answered */
    uint32_t told;    /* by the peer: acked, when all refusals have come */
    uint32_t limit;   /* numbers below may be sent */
    uint32_t refused; /* refusals that have come */
    uint32_t told_refused;
    uint32_t serial;
    uint32_t followers; /* short pieces since one that found nothing unanswered */
    bool is_burst;      /* that one had many followers the last time */
    int short_status;   /* first failure of a short call since the last flush */
    uint64_t idle;      /* bit per free request */
    struct orl_fifo flushes;
    struct fab_op *flight[OFI_WINDOW]; /* NULL: a short one, or its op is over */
    struct ofi_request request[OFI_REQUESTS];
    uint32_t hellos;
    uint64_t hello_at; /* when to say it (again) */
    uint64_t ping_at;
    uint32_t pings;
    struct orl_list waiting; /* engine->waiting: unanswered messages */
    struct ofi_ep_large bulk;
};

/* An answer that waits for its turn. */
struct ofi_debt {
    uint8_t kind; /* ANSWER or REFUSAL */
    bool is_get;
    bool is_grant; /* of a loan: slot names it, offset and value are where it is */
    int status;
    uint32_t number; /* of the request, or of the refused put */
    uint32_t serial;
    uint32_t slot; /* get: where to read */
    uint32_t gen;
    uint32_t length;
    uint64_t offset;
    uint64_t value;
};

/* The receiving half of a peer's endpoint. */
struct ofi_half {
    struct ofi_peer *peer;
    struct orl_list of_peer;
    struct orl_list owing;        /* peer->owing */
    struct orl_list engine_owing; /* engine->owing */
    uint32_t id;
    uint32_t ep;      /* the peer's endpoint */
    uint32_t next;    /* number expected */
    uint32_t held;    /* delivered pieces whose buffer or debt is still there */
    uint32_t refused; /* so far */
    uint32_t told_seq;
    uint32_t told_limit;
    bool wants_ack;     /* asked by a ping */
    bool is_followed;   /* what was delivered last said so */
    bool wants_welcome; /* asked by a hello */
    uint32_t first_debt;
    uint32_t ndebts;
    struct ofi_debt debt[OFI_WINDOW];
    struct ofi_buffer *early[OFI_WINDOW]; /* by the number of its first piece */
    uint32_t nearly;
    struct ofi_half_large bulk;
};

/* ---------------------------------------------------------------- registrations */

struct ofi_reg {
    uint32_t gen; /* of the newest use */
    uint32_t next_free;
    bool is_live;
    uint32_t access;
    uint32_t users; /* reads and loans */
    unsigned char *base;
    uint64_t bytes;
    struct ofi_lent *lent; /* owns; for reads, when first needed */
};

struct ofi_regs {
    struct ofi_reg *at; /* owns */
    uint32_t size;
    uint32_t used;
    uint32_t free;
};

/* ---------------------------------------------------------------- the engine */

struct ofi_engine {
    struct fab_engine base;
    const struct ofi_facts *facts;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *carrier;
    uint64_t cookie;
    uint8_t name[OFI_NAME_BYTES];
    size_t name_bytes;
    size_t message_bytes; /* largest message, header included */
    size_t room;          /* body and data of the largest piece */
    int wait_fd;          /* of the queue, -1: none */
    int epoll_fd;         /* wait_fd and timer_fd */
    int timer_fd;
    uint64_t timer_at;
    uint32_t nsending; /* at the provider */
    uint32_t send_cap;
    struct ofi_buffer *buffer; /* [nbuffers] owns */
    unsigned char *buffer_memory;
    struct fid_mr *buffer_mr;
    uint32_t nbuffers;
    uint32_t nposted;
    struct orl_fifo unposted;
    struct ofi_slots small;
    struct ofi_slots large;
    struct orl_list peers;
    struct orl_map peer_of; /* cookie -> struct ofi_peer */
    struct ofi_table eps;
    struct ofi_table halves;
    struct orl_list connecting;
    struct orl_list waiting;
    struct orl_list troubled;
    struct orl_list owing;
    struct orl_list unsent;         /* peers with an open slot */
    struct ofi_farewell *farewells; /* BYEs that found no room */
    struct ofi_regs regs;
    struct ofi_bulk *bulk; /* owns; NULL: not needed yet */
    uint64_t next_key;     /* of registrations whose key is ours to choose */
    uint64_t strangers;    /* messages dropped */
    int dead;              /* status once the queue gives nothing but errors */
    uint64_t now;          /* coarse clock; poller */
    uint32_t errors_in_a_row;
    bool is_closing; /* what arrives is dropped */
};

static inline struct ofi_engine *ofi_of(struct fab_engine *engine)
{
    return (struct ofi_engine *)(void *)engine;
}

static inline struct ofi_ep *ofi_ep_of(struct fab_ep *ep)
{
    return (struct ofi_ep *)(void *)ep;
}

/* ---------------------------------------------------------------- slots (ofi_slot.c) */

/* Makes the first ones. Errors: NOMEM, SYS. */
int ofi_slots_init(struct ofi_engine *ofi, struct ofi_slots *slots, size_t bytes,
                   uint32_t most) ORL_MUST_CHECK;
void ofi_slots_dereg(struct ofi_slots *slots);
void ofi_slots_fini(struct ofi_slots *slots);
/* A free slot for a message of `bytes`, or NULL: none now. tx held. */
struct ofi_slot *ofi_slot_get(struct ofi_engine *ofi, size_t bytes);
void ofi_slot_put(struct ofi_engine *ofi, struct ofi_slot *slot);

/* ---------------------------------------------------------------- sending (ofi_send.c) */

/* A piece of a bundle: its kind, a body, data. */
struct ofi_parts {
    uint8_t kind;
    uint8_t handler;
    const void *body;
    size_t body_bytes;
    const void *data;
    size_t data_bytes;
};

/* Send something that stands alone, now: adds cookie, version, sizes and what is owed to the peer.
 * tx held. 0, or AGAIN: no room now. */
int ofi_send(struct ofi_engine *ofi, struct ofi_peer *peer, struct ofi_header *header,
             const void *body, size_t bytes);
/* Add a piece that is not numbered to the peer's open slot. It leaves when that is full, or with
 * ofi_send_open or ofi_send_all: the caller sees to it. tx held. 0 or AGAIN. */
int ofi_append(struct ofi_engine *ofi, struct ofi_peer *peer, const struct ofi_parts *parts);
/* The same with a numbered piece of an endpoint; op may be NULL. */
int ofi_append_numbered(struct ofi_ep *ep, const struct ofi_parts *parts, struct fab_op *op);
/* The same from a caller who may not come back: leaves at once when nothing of the endpoint is
 * unanswered, since only an answer makes sure of another look; or, where the endpoint is used for
 * bursts, waits for more and counts as an op that waits. */
int ofi_append_short(struct ofi_ep *ep, const struct ofi_parts *parts);
/* Data bytes of a kind that the open slot has room for, or a new one when that is full. tx held. */
size_t ofi_open_room(const struct ofi_ep *ep, size_t body_bytes);
/* Send the peer's open slot, if there is one. tx held. 0 or AGAIN: it stays open. */
int ofi_send_open(struct ofi_engine *ofi, struct ofi_peer *peer);
/* Those of all peers. Takes tx. Returns how many went. */
int ofi_send_all(struct ofi_engine *ofi);
/* Whether one of them may go now; not those that wait for the end of a send. tx held. */
bool ofi_send_has_work(const struct ofi_engine *ofi);
/* Forget it. tx held. */
void ofi_open_drop(struct ofi_engine *ofi, struct ofi_peer *peer);
/* The endpoint has something unanswered: from now on its peer is asked when it is silent. tx held.
 */
void ofi_ep_waits(struct ofi_engine *ofi, struct ofi_ep *ep);

/* ---------------------------------------------------------------- peers (ofi_peer.c) */

/* Find or make; counts nothing. tx held. */
int ofi_peer_get(struct ofi_engine *ofi, uint64_t cookie, const void *name, size_t name_bytes,
                 struct ofi_peer **peer) ORL_MUST_CHECK;
/* Free when nothing names it any more. tx held. */
void ofi_peer_drop(struct ofi_engine *ofi, struct ofi_peer *peer);
/* A send to it has failed for good: fails its endpoints, ends its halves. Poller held, tx not. */
void ofi_peer_fail(struct ofi_engine *ofi, struct ofi_peer *peer, int native, const char *text);
/* The provider forgets the bulk endpoint that is known of it. */
void ofi_far_forget(struct ofi_engine *ofi, struct ofi_peer *peer);
/* Its address for people. */
void ofi_peer_words(const struct ofi_engine *ofi, const struct ofi_peer *peer, char *text,
                    size_t cap);
void ofi_half_end(struct ofi_engine *ofi, struct ofi_half *half); /* tx held */

/* ---------------------------------------------------------------- suspicion (ofi_probe.c) */

/* Nothing goes to the peer, or it is silent. tx held. */
void ofi_peer_suspect(struct ofi_engine *ofi, struct ofi_peer *peer);
/* Something went, or came. tx held. */
void ofi_peer_heard(struct ofi_peer *peer);
/* Ask, or look for the answer; sets peer->failure. Poller and tx held. */
void ofi_probe(struct ofi_engine *ofi, struct ofi_peer *peer);
void ofi_probe_end(struct ofi_peer *peer);
uint64_t ofi_probe_next(const struct ofi_engine *ofi, const struct ofi_peer *peer);

/* ---------------------------------------------------------------- handshake (ofi_hello.c) */

void ofi_on_hello(struct ofi_engine *ofi, const struct ofi_header *header,
                  const struct ofi_hello *hello);
void ofi_on_welcome(struct ofi_engine *ofi, const struct ofi_header *header,
                    const struct ofi_welcome *welcome);
void ofi_on_bye(struct ofi_engine *ofi, const struct ofi_hello *bye);
/* An ACK, or, when something of the connection is missing here, its end as a WELCOME that refuses.
 */
void ofi_on_ping(struct ofi_engine *ofi, const struct ofi_header *header,
                 const struct ofi_hello *hello);
/* Answer a hello. tx held. */
int ofi_say_welcome(struct ofi_engine *ofi, struct ofi_half *half);
/* Say what is due: hellos, pings, farewells. Poller held. */
int ofi_timers(struct ofi_engine *ofi);
void ofi_say_bye(struct ofi_engine *ofi, struct ofi_ep *ep); /* tx held */
void ofi_farewells_drop(struct ofi_engine *ofi, const struct ofi_peer *peer);
/* The next moment ofi_timers has something to do. tx held. */
uint64_t ofi_timers_next(const struct ofi_engine *ofi);

/* ---------------------------------------------------------------- receiving (ofi_receive.c) */

/* A buffer has come in with `bytes` bytes. Poller held. */
void ofi_arrived(struct ofi_engine *ofi, struct ofi_buffer *buffer, size_t bytes);
/* Give a buffer back to the provider. tx held. */
void ofi_buffer_post(struct ofi_engine *ofi, struct ofi_buffer *buffer);
/* One reference less. tx held. */
void ofi_buffer_drop(struct ofi_engine *ofi, struct ofi_buffer *buffer);
void ofi_rx_release(struct fab_engine *engine, struct fab_rx *rx);
/* There is news for the endpoint that this half serves. tx held. */
void ofi_half_owes(struct ofi_engine *ofi, struct ofi_half *half);

/* ---------------------------------------------------------------- serving (ofi_serve.c) */

/* Apply a numbered access. Poller and tx held. */
void ofi_serve(struct ofi_engine *ofi, struct ofi_half *half, const struct ofi_piece *piece,
               const unsigned char *body);
/* Whether a peer may have this access to what was found. 0, GONE, INVAL or RANGE. */
int ofi_access_check(const struct ofi_reg *reg, enum fab_access wanted, uint64_t offset,
                     uint64_t bytes);
void ofi_owe(struct ofi_half *half, const struct ofi_debt *debt);
/* Pay what is owed, as far as there is room. Poller held. */
int ofi_pay(struct ofi_engine *ofi);

/* ---------------------------------------------------------------- answers (ofi_answer.c) */

/* All: poller and tx held. */
void ofi_on_ack(struct ofi_engine *ofi, const struct ofi_header *header);
void ofi_on_answer(struct ofi_engine *ofi, const struct ofi_answer *answer, const void *data,
                   size_t bytes);
void ofi_on_refusal(struct ofi_engine *ofi, const struct ofi_answer *answer);
void ofi_ep_stop(struct fab_ep *base, int status);

/* ---------------------------------------------------------------- data calls (ofi_op.c) */

extern const struct fab_ep_ops ofi_ep_ops;
enum fab_try ofi_try(struct fab_ep *base, struct fab_op *op, uint64_t *bytes);

/* Flags of a posted op. */
#define OFI_OP_TAKEN 1u /* it has left the endpoint's queue */

/* A piece of the op is over. Finishes it when it was the last. Poller and tx held. */
void ofi_op_piece_over(struct ofi_engine *ofi, struct fab_op *op, int status);

/* ---------------------------------------------------------------- memory (ofi_mem.c) */

int ofi_reg(struct fab_engine *engine, struct fab_region *region);
void ofi_dereg(struct fab_engine *engine, struct fab_region *region);
void ofi_rkey_pack(struct fab_engine *engine, const struct fab_region *region, void *blob);
int ofi_rkey_open(struct fab_ep *base, const void *blob, size_t bytes, struct fab_rkey *rkey);
/* The registration, or NULL: it is over. tx held. */
struct ofi_reg *ofi_reg_find(const struct ofi_engine *ofi, uint32_t slot, uint32_t gen);
size_t ofi_rkey_bytes(void);
/* Memory that the provider sends from or receives into, where it wants that registered; else *mr
 * and *desc are NULL. `what` names it in errors. */
int ofi_local_reg(struct ofi_engine *ofi, void *memory, size_t bytes, const char *what,
                  struct fid_mr **mr, void **desc) ORL_MUST_CHECK;
/* *mr is NULL afterwards; it may be before. */
void ofi_local_dereg(struct fid_mr **mr);
/* Registration and rights as rkey->word has them. */
static inline uint32_t ofi_rkey_slot(const struct fab_rkey *rkey)
{
    return (uint32_t)(rkey->word[0] >> 32);
}
static inline uint32_t ofi_rkey_gen(const struct fab_rkey *rkey)
{
    return (uint32_t)rkey->word[0];
}
/* What a refusal taught: that generation and all before are over. tx held. */
void ofi_peer_note_dead(struct ofi_peer *peer, const struct fab_rkey *rkey);
bool ofi_peer_knows_dead(const struct ofi_peer *peer, uint32_t slot, uint32_t gen);

/* ---------------------------------------------------------------- engine (ofi_engine.c) */

int ofi_progress(struct fab_engine *engine);
int ofi_arm(struct fab_engine *engine, int *fd);

/* ---------------------------------------------------------------- discovery (ofi_pick.c) */

/* The probe slot: one description per port that may be used, best first, chosen by provider
 * (ORIEL_OFI_PROVIDER, or the allow list), by ORIEL_NICS and by reachability; a verdict on every
 * port that was considered. */
int ofi_pick(struct fab *fabric, struct fab_nic *nics, int cap);
/* What libfabric offers for a port of ofi_pick: the caller's to free with fi_freeinfo. Everything
 * the hints asked for has been checked. Errors: UNSUPP, SYS with libfabric's words. */
int ofi_pick_info(const struct fab_nic *nic, struct fi_info **info) ORL_MUST_CHECK;

#endif
