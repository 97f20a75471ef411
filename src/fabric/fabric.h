/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric: everything the core may know of transports. Objects (fabric, nic, engine,
 * endpoint, region, rkey, op), their limits, and the inline dispatch of the four data calls.
 * The control table of a transport is in fabric/transport.h, which the core must not see.
 *
 * Three rules carry the layer. Posting cannot fail: every result arrives once, through `done`.
 * `done` and message handlers run from fab_progress() only, with the engine's poller lock held and
 * no other lock. The caller owns operation memory from post to done; the fabric allocates nothing
 * per operation.
 */
#ifndef FABRIC_FABRIC_H
#define FABRIC_FABRIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/fifo.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/stats.h"
#include "base/status.h"
#include "base/trace.h"
#include "fabric/node.h"

struct orl_strbuf;

#define FAB_ENGINES_MAX   16 /* engines of one process */
#define FAB_KNOWN_MAX     8  /* transports with a verdict, built or not */
#define FAB_ADDRESS_BYTES 64 /* largest address blob of an engine */
#define FAB_RKEY_BYTES    32 /* largest blob of a registration */
#define FAB_LABEL_BYTES   32 /* an endpoint's name in messages, "rank 3 on h2" */
#define FAB_NAME_BYTES    32 /* an engine's or nic's name */
#define FAB_HANDLERS_MAX  32 /* active-message handlers of a process */
#define FAB_WORDS_BYTES   48 /* an address with its prefix in words */
#define FAB_TAG_BYTES     16 /* names a wire protocol: only engines of one tag reach each other */
#define FAB_NET_BYTES     20 /* names a network */
#define FAB_PORTS_MAX     64 /* ports with a verdict of their own */
#define FAB_UNLIMITED     UINT64_MAX

struct fab;
struct fab_engine;
struct fab_ep;
struct fab_op;
struct fab_transport_ops;
struct fab_known;

/* ---------------------------------------------------------------- descriptions */

/* How far a transport reaches. */
enum fab_level {
    FAB_LEVEL_PROCESS, /* this process only */
    FAB_LEVEL_HOST,    /* processes of this host */
    FAB_LEVEL_NIC,     /* other hosts, by a NIC that reads and writes memory */
    FAB_LEVEL_NETWORK, /* other hosts, by a plain network */
    FAB_LEVELS
};

/* A usable port, as discovery found it. Plain data; empty and 0 where a field means nothing. */
struct fab_nic {
    const struct fab_transport_ops *transport;
    char name[FAB_NAME_BYTES];     /* of its engine: "shm", "self", "ofi:eth0" */
    char device[FAB_NAME_BYTES];   /* interface or card: "eth0" */
    char provider[FAB_NAME_BYTES]; /* of libfabric: "net", "efa-direct" */
    char address[FAB_WORDS_BYTES]; /* in words: "10.77.0.1/24" */
    char pci[FAB_TAG_BYTES];       /* "0000:00:05.0" */
    enum fab_level level;          /* of its engine; 0: its transport's */
    uint8_t net[FAB_NET_BYTES];    /* see struct fab_card */
    uint64_t mbps;                 /* 0: unknown */
};

/* What a peer needs to know of an engine: travels in the bootstrap record. */
struct fab_card {
    char tag[FAB_TAG_BYTES];    /* wire protocol and its version */
    uint8_t net[FAB_NET_BYTES]; /* the network it is attached to: engines of equal ones surely reach
                                   each other (family, prefix length, prefix); zero: unknown */
    uint32_t mbps;              /* 0: unknown */
    uint8_t bytes;              /* of address */
    uint8_t pad[3];
    uint8_t address[FAB_ADDRESS_BYTES];
};

/* What an opened engine can do: filled by open, constant afterwards. A missing ability is zero. */
struct fab_limits {
    size_t put_short;     /* largest put_short, bytes */
    size_t send_short;    /* largest payload of send_short, bytes */
    size_t send_max;      /* largest payload of a send op, bytes */
    uint64_t op_max;      /* largest put or get op, bytes */
    size_t poll_unit;     /* largest put whose arrival may be seen by polling its last word */
    uint32_t amo_widths;  /* sum of the widths of atomics: 4 | 8 */
    uint32_t amo_align;   /* alignment of atomics; 0: none offered */
    size_t address_bytes; /* size of the address blob */
    size_t rkey_bytes;    /* size of a registration's blob */
    bool ordered;         /* ops of one endpoint become visible in posting order */
    bool needs_target;    /* ops move only while the target's process makes progress */
};

/* ---------------------------------------------------------------- memory */

enum fab_access {
    FAB_ACCESS_LOCAL = 1, /* local operand only: never addressable by a peer */
    FAB_ACCESS_REMOTE_READ = 2,
    FAB_ACCESS_REMOTE_WRITE = 4,
    FAB_ACCESS_REMOTE_ATOMIC = 8,
    FAB_ACCESS_ALL = 15
};

/* A range of this process's memory with one registration per engine, filled on first use there.
 * Held by every posted operation that names it and by whoever made it; freed at the last drop. */
struct fab_region {
    struct fab *fabric; /* borrows */
    void *base;
    uint64_t bytes;
    unsigned access; /* enum fab_access bits */
    bool in_node;    /* the range lies in this node's arena: peers reach it directly */
    atomic_uint refs;
    struct orl_lock lock; /* guards slot[] filling */
    struct {
        atomic_bool ready;
        _Atomic int status; /* a registration that failed for good (UNSUPP, INVAL) stays failed */
        uint64_t word[3];   /* transport private: lkey, handle, generation, … */
    } slot[FAB_ENGINES_MAX];
};

/* Peer memory made usable by rkey_open. By value; closed by fab_rkey_close.
 * While *live equals gen the registration exists. An origin that touches `direct`, or reaches the
 * memory by cross-memory attach, does so inside fab_hazard_enter / fab_hazard_leave (node.h). */
struct fab_rkey {
    unsigned char *direct;  /* my address of the range's first byte, or NULL */
    _Atomic uint64_t *live; /* generation word in the node segment, or NULL */
    uint64_t gen;           /* its value while the registration lives */
    uint64_t hazard;        /* word to publish while touching the memory */
    uint64_t bytes;         /* length of the range */
    uint64_t addr;          /* what the native call expects for byte 0 (address, offset) */
    uint64_t word[2];       /* transport private */
};

/* ---------------------------------------------------------------- operations */

enum fab_op_kind {
    FAB_OP_PUT,
    FAB_OP_PUT_NOTIFY, /* put, then add `operand` to the 8-byte counter at notify: never seen before
                          the data */
    FAB_OP_GET,
    FAB_OP_AMO,
    FAB_OP_SEND,
    FAB_OP_FLUSH, /* done: everything earlier on this endpoint is visible at the target */
    FAB_OP_KINDS
};

enum fab_amo {
    FAB_AMO_ADD,
    FAB_AMO_SWAP,
    FAB_AMO_CSWAP, /* stores operand if the old value equals compare */
    FAB_AMO_AND,
    FAB_AMO_OR,
    FAB_AMO_XOR,
    FAB_AMO_KINDS
};

typedef void (*fab_done_fn)(struct fab_op *op, int status);

/* One asynchronous operation: caller-owned, untouchable between post and done. Two cache lines. */
struct fab_op {
    struct orl_link link; /* chains ops for one post; then the queue it waits in */
    fab_done_fn done;     /* runs exactly once, later, from progress; may post; may not block */
    uint8_t kind;         /* enum fab_op_kind */
    uint8_t amo;          /* enum fab_amo */
    uint8_t width;        /* bytes of an atomic: 4 or 8 */
    uint8_t handler;      /* of a send */
    uint32_t flags;       /* transport private while posted */
    void *local; /* put, send: source; get: landing; amo: where the old value goes or NULL */
    uint64_t bytes;
    uint64_t offset;             /* into the rkey's range */
    const struct fab_rkey *rkey; /* borrows until done */
    uint64_t operand;            /* amo operand; notify increment; header of a send */
    uint64_t compare;
    uint64_t notify; /* put_notify: offset of the counter in the rkey's range, 8-aligned */
    struct fab_region *region; /* holds: local memory's registration, NULL where none is needed */
    uint64_t moved;            /* bytes the transport has dealt with so far (chunking) */
    uint64_t serial;           /* transport private: id on the wire */
    struct fab_ep *ep;         /* set by post */
    void *user;                /* the poster's */
    int status;                /* filled before done */
    uint32_t pad;
};

/* ---------------------------------------------------------------- messages */

/* A message that arrived. `data` is valid during the handler, or until fab_rx_release when the
 * handler called fab_rx_keep (the exception: the engine's receive memory is bounded). */
struct fab_rx {
    struct fab_engine *engine;
    uint64_t header;
    const void *data;
    size_t bytes;
    uint64_t word[2]; /* transport private */
    bool kept;
};

/* Runs from progress with the poller held; may post and take core locks; may not block. */
typedef void (*fab_handler_fn)(void *user, struct fab_rx *rx);

/* ---------------------------------------------------------------- data table */

/* The four data calls, pointed to by each endpoint and swapped on a change of state (connecting,
 * ready, failed), so that the fast path asks nothing. Every slot is set in every table. */
struct fab_ep_ops {
    /* Copy bytes (at most limits.put_short) to rkey + offset. The source is free on return.
     * 0, or AGAIN: out of credits, connecting, or ops wait on this endpoint; then use post.
     * A dead endpoint gives its status. Visible after a later flush. */
    int (*put_short)(struct fab_ep *ep, const struct fab_rkey *rkey, uint64_t offset,
                     const void *src, size_t bytes);
    /* Same for an active message of at most limits.send_short bytes. Messages of one endpoint
     * arrive in posting order, sends by post included. */
    int (*send_short)(struct fab_ep *ep, unsigned handler, uint64_t header, const void *src,
                      size_t bytes);
    /* Take over a chain of ops linked by op->link.next, NULL at its end, in order. Never fails and
     * never calls back: done runs later. For put and send done means the local buffer is free, for
     * get that the data is there, for amo that the old value is stored. */
    void (*post)(struct fab_ep *ep, struct fab_op *chain);
    /* Like post of one FAB_OP_FLUSH: its done means that everything earlier on this endpoint is
     * visible at the target: any CPU of the target's host loads it and any NIC gets it. */
    void (*flush)(struct fab_ep *ep, struct fab_op *op);
};

enum fab_ep_state {
    FAB_EP_CONNECTING,
    FAB_EP_READY,
    FAB_EP_STOPPING,
    FAB_EP_FAILED
};

/* A one-way path from an engine to one peer engine. Transports embed it as their first member. */
struct fab_ep {
    const struct fab_ep_ops *_Atomic ops; /* swapped under the engine's tx lock */
    struct fab_engine *engine;            /* borrows */
    _Atomic uint32_t state;               /* enum fab_ep_state */
    int status;                           /* of a failed endpoint */
    struct orl_fifo queue;                /* ops that wait; tx lock */
    struct orl_list active;               /* in engine->active while queue is not empty; tx lock */
    int64_t deficit;                      /* bytes this endpoint may still move in this round */
    uint64_t posted;                      /* ops taken by post and flush; tx lock */
    uint64_t finished;                    /* ops whose done ran or is in the batch; poller */
    uint32_t number;                      /* names it in the flight recorder */
    struct orl_list all;                  /* in engine->eps; tx lock */
    void *user;                           /* the opener's */
    char label[FAB_LABEL_BYTES];
    char cause[96]; /* text of a failed endpoint: peer, native code, what */
};

/* One opened port. Transports embed it as their first member. */
struct fab_engine {
    const struct fab_transport_ops *transport;
    struct fab *fabric;       /* borrows */
    struct fab_limits limits; /* constant after open */
    char name[FAB_NAME_BYTES];
    unsigned index;            /* slot in regions */
    enum fab_level level;      /* how far it reaches; constant after open */
    struct fab_nic nic;        /* the port it has opened; constant after open */
    char tag[FAB_TAG_BYTES];   /* see struct fab_card; filled by open where peers need a card */
    struct orl_lock poller;    /* try only: who holds it polls and runs done and handlers */
    struct orl_lock tx;        /* leaf: building requests, endpoint queues and states */
    struct orl_list eps;       /* all endpoints; tx */
    struct orl_list active;    /* endpoints with waiting ops, round robin; tx */
    struct orl_fifo finished;  /* this batch's ops; poller */
    struct orl_mpsc failed;    /* ops finished outside the poller (failed table), any thread */
    _Atomic uint32_t nwaiting; /* ops in endpoint queues: a cheap "is there work" */
    _Atomic uint64_t nposted;  /* ops ever posted; tx */
    _Atomic uint64_t ndone;    /* ops whose done has run; poller */
    void *_Atomic polling;     /* names the thread that holds the poller, NULL: nobody */
    uint32_t neps;             /* endpoints ever made; tx */
    struct orl_stats stats;    /* owner of the lock writes */
    struct orl_trace trace;
};

/* ---------------------------------------------------------------- verdicts */

enum fab_verdict_state {
    FAB_ABSENT,   /* not in this build, or nothing on this machine that it could use */
    FAB_DISABLED, /* the setting leaves it out */
    FAB_IDLE,     /* would be used; nothing has been started */
    FAB_FAILED,   /* could not be started */
    FAB_CHOSEN
};

/* What became of one known transport, and why. */
struct fab_verdict {
    const char *name;
    enum fab_level level;
    enum fab_verdict_state state;
    int status;       /* of FAILED, else 0 */
    char reason[320]; /* one line, never empty */
};

/* A port that was considered for an engine, and what became of it. */
struct fab_port {
    struct fab_nic nic;
    enum fab_verdict_state state;
    char reason[128]; /* one line, never empty */
};

/* ---------------------------------------------------------------- the fabric */

struct fab {
    struct fab_engine *engine[FAB_ENGINES_MAX]; /* owns */
    unsigned nengines;
    struct fab_node *node; /* borrows; NULL: no node memory */
    struct {
        fab_handler_fn fn;
        void *user;
    } handler[FAB_HANDLERS_MAX];
    uint64_t inflight;                         /* per-endpoint bound on posted ops, settings */
    struct fab_verdict verdict[FAB_KNOWN_MAX]; /* of the last fab_open or fab_judge; they stay */
    unsigned nverdicts;
    const struct fab_known *known; /* borrows; [nverdicts]: what was chosen from */
    const char *list;              /* borrows; what is to be opened; NULL: the setting is wrong */
    bool is_forced;                /* the user wrote the list: each of them must start */
    bool is_far; /* fab_open_networks was called: there are peers that no memory reaches */
    struct fab_port *port; /* owns; those of networks, in the order of consideration */
    unsigned nports;
};

/* Open every compiled-in transport whose name is in the list `transports` ("self,shm"). `node` may
 * be NULL when shm is not among them. Clears *fabric first, so handlers are set afterwards. On
 * failure nothing remains but the verdicts. A name that is not compiled in is CONF and lists what
 * is. One that cannot be started is an error that gives its reason when the user has named it, when
 * nothing else reaches the peers, or when it is the only one; else it is a warning. */
int fab_open(struct fab *fabric, const char *transports, struct fab_node *node) ORL_MUST_CHECK;
/* The same in two steps, since the addresses of networks must be known before the ranks meet and
 * the node's memory exists only afterwards. The first is for a job with ranks that no memory of
 * this host reaches: it clears *fabric and opens what reaches other hosts. None at all is no error
 * yet; a wrong setting is, and what the user asked for and cannot be started. */
int fab_open_networks(struct fab *fabric, const char *transports) ORL_MUST_CHECK;
/* The second opens what is left, by the first step's list, and weighs all verdicts like fab_open;
 * after fab_open_networks it insists on a network. On failure the networks are closed as well. In a
 * job that needs no network fab_judge takes the first step's place. Handlers may be set in
 * between. */
int fab_open_node(struct fab *fabric, struct fab_node *node) ORL_MUST_CHECK;
/* Every endpoint must be closed and every region dropped. After an open that failed, or
 * fab_consider, it gives back what was noted of ports; the verdicts stay. */
void fab_close(struct fab *fabric);
/* By its name, or the first one of the transport of that name. */
struct fab_engine *fab_engine_find(struct fab *fabric, const char *name);
/* Names of the compiled-in transports, comma separated. */
const char *fab_transports(void);
/* Version of libfabric that is loaded, "" without it. */
const char *fab_library_version(void);
/* Fill *fabric with the verdicts that hold before anything is started; opens nothing. `transports`
 * NULL: the setting is wrong, so nothing can be said of it. */
void fab_judge(struct fab *fabric, const char *transports);
/* The same, and look at each port that a network could use, without opening it: those that
 * would be used are IDLE. Ends with fab_close. Errors: as the transport's discovery says. */
int fab_consider(struct fab *fabric, const char *transports) ORL_MUST_CHECK;
/* Append "name: reason" of every transport that is not chosen, separated by "; ", with the ports
 * that it did not use. Between fab_open_networks and fab_open_node: of networks that lead to no
 * other host. */
void fab_explain(const struct fab *fabric, struct orl_strbuf *out);
/* "process", "host", "NIC" or "network". */
const char *fab_level_name(enum fab_level level);
/* The name of the transport that found it. */
const char *fab_nic_transport(const struct fab_nic *nic);
/* Append the network of that name (see struct fab_card) in words: "10.77.0.0/16", "this host
 * alone", nothing where it is unknown. */
void fab_net_words(const uint8_t net[FAB_NET_BYTES], struct orl_strbuf *out);
/* Set before the first message can arrive; a message for an unset handler is dropped and logged. */
void fab_handler_set(struct fab *fabric, unsigned id, fab_handler_fn fn, void *user);

/* Poll every engine once (a bounded batch each) and run what came of it. Returns the number of
 * events; 0 also when another thread is polling. Never blocks. */
int fab_progress(struct fab *fabric);
int fab_engine_progress(struct fab_engine *engine);
/* True when some op waits in a queue or is in flight on any engine (cheap, may be stale). */
bool fab_is_busy(const struct fab *fabric);
/* Descriptor that becomes readable on the engine's next event. AGAIN: events are there already, or
 * work has a time of its own; progress instead of sleeping. UNSUPP where the engine must be polled.
 * The caller arms, makes progress once more, and sleeps only if that returned 0. */
int fab_engine_arm(struct fab_engine *engine, int *fd) ORL_MUST_CHECK;
/* Address blob: any peer that holds it, and nothing else, can open an endpoint. `blob` has room for
 * FAB_ADDRESS_BYTES; *bytes is set to what it takes. */
int fab_engine_address(struct fab_engine *engine, void *blob, size_t *bytes) ORL_MUST_CHECK;

/* What a peer needs to reach this engine. All zero for one that reaches this process alone. */
void fab_engine_card(struct fab_engine *engine, struct fab_card *card);
/* Whether an endpoint of this engine can lead to the engine of that card. */
bool fab_engine_speaks(const struct fab_engine *engine, const struct fab_card *card);
/* True for one that is attached to no network that leaves this host: the loopback. */
bool fab_engine_is_alone(const struct fab_engine *engine);

/* Endpoint to the engine whose address blob this is. Returns at once; posting is legal at once. */
int fab_ep_open(struct fab_engine *engine, const void *address, size_t bytes, const char *label,
                struct fab_ep **ep) ORL_MUST_CHECK;
/* End it: when it returns no posted op touches local memory any more, and each op that had not
 * finished has been given CANCELED (its done runs from the next progress). Drives progress. */
void fab_ep_stop(struct fab_ep *ep);
/* Precondition: flushed, stopped or failed, and every done has run. */
void fab_ep_close(struct fab_ep *ep);
/* The peer is gone, found out above (liveness): fails the endpoint as if the transport had. */
void fab_ep_peer_gone(struct fab_ep *ep, const char *cause);

/* Make a region with one reference. Registers nothing yet. */
int fab_region_open(struct fab *fabric, void *base, uint64_t bytes, unsigned access,
                    struct fab_region **region) ORL_MUST_CHECK;
void fab_region_hold(struct fab_region *region);
/* The last drop deregisters everywhere, then frees. Waits for hazards, so: no lock held. */
void fab_region_drop(struct fab_region *region);
/* Register now with this engine (no-op when done already). May be slow; no lock held. */
int fab_region_reg(struct fab_region *region, struct fab_engine *engine) ORL_MUST_CHECK;
/* End the registration for peers on every engine: when it returns no access of a peer is under way
 * and every later one is GONE. The region object stays until its last drop. */
void fab_region_revoke(struct fab_region *region);
/* Blob a peer needs; registers first where that was not done. `blob` has room for FAB_RKEY_BYTES;
 * *bytes is set to what it takes. */
int fab_rkey_pack(struct fab_region *region, struct fab_engine *engine, void *blob,
                  size_t *bytes) ORL_MUST_CHECK;
/* GONE when the registration is already ended, INVAL when the blob is malformed. */
int fab_rkey_open(struct fab_ep *ep, const void *blob, size_t bytes,
                  struct fab_rkey *rkey) ORL_MUST_CHECK;
void fab_rkey_close(struct fab_ep *ep, struct fab_rkey *rkey);
/* End the registration from afar, without waiting for accesses under way: every later one is GONE.
 * Ended already is fine. UNSUPP where only the owner can (no live word). */
int fab_rkey_end(const struct fab_rkey *rkey) ORL_MUST_CHECK;

void fab_rx_keep(struct fab_rx *rx, struct fab_rx *copy);
void fab_rx_release(struct fab_rx *rx);

/* ---------------------------------------------------------------- dispatch */

static inline int fab_put_short(struct fab_ep *ep, const struct fab_rkey *rkey, uint64_t offset,
                                const void *src, size_t bytes)
{
    return atomic_load_explicit(&ep->ops, memory_order_acquire)
        ->put_short(ep, rkey, offset, src, bytes);
}

static inline int fab_send_short(struct fab_ep *ep, unsigned handler, uint64_t header,
                                 const void *src, size_t bytes)
{
    return atomic_load_explicit(&ep->ops, memory_order_acquire)
        ->send_short(ep, handler, header, src, bytes);
}

static inline void fab_post(struct fab_ep *ep, struct fab_op *chain)
{
    atomic_load_explicit(&ep->ops, memory_order_acquire)->post(ep, chain);
}

static inline void fab_flush(struct fab_ep *ep, struct fab_op *op)
{
    atomic_load_explicit(&ep->ops, memory_order_acquire)->flush(ep, op);
}

_Static_assert(sizeof(struct fab_card) == 108, "cards travel");
_Static_assert(sizeof(struct fab_op) <= 192, "an op is at most three lines");
_Static_assert(sizeof(struct fab_ep) <= 320, "an endpoint is small");

#endif
