/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract a transport implements: 15 control functions in one constant table, and the four
 * data functions of fabric.h in one table per endpoint state. Included by transports and by the
 * common half of the fabric only. Every slot is filled; what a transport cannot do points at
 * fab_no_<slot>. tests/fabric/contract_*.c is the definition of what the words below mean.
 *
 * Below the table: what the common half (engine.c, ep.c, am.c) offers to transports.
 */
#ifndef FABRIC_TRANSPORT_H
#define FABRIC_TRANSPORT_H

#include "fabric/fabric.h"

#define FAB_BATCH 16 /* events one progress call of a transport takes at most, of each source */

struct fab_transport_ops {
    const char *name;

    /* Append a description for each usable port to nics[0..cap) and return their number, or the
     * status of a setting that names what is not there. No hardware is not an error. Leaves nothing
     * allocated but verdicts on ports (fab_port_judge), touches no other process. */
    int (*probe)(struct fab *fabric, struct fab_nic *nics, int cap);
    /* Bring one port up: the engine can register memory, open endpoints and progress; limits are
     * final; fab_engine_init has been called. On failure nothing remains. */
    int (*open)(struct fab *fabric, const struct fab_nic *nic, struct fab_engine **engine);
    /* Precondition: no endpoint, registration or outstanding op. Never fails; bounded time. */
    void (*close)(struct fab_engine *engine);
    /* Write the address blob (limits.address_bytes). */
    void (*address)(struct fab_engine *engine, void *blob);
    /* Register region for this engine: fills region->slot[engine->index].word. No lock held but the
     * region's; may be slow. */
    int (*reg)(struct fab_engine *engine, struct fab_region *region);
    /* Undo, and no access of a peer is under way any more when it returns. Later ones are GONE. */
    void (*dereg)(struct fab_engine *engine, struct fab_region *region);
    /* Write the blob (limits.rkey_bytes) that lets a peer address this registration. */
    void (*rkey_pack)(struct fab_engine *engine, const struct fab_region *region, void *blob);
    /* From blob to usable key. Blobs come from peers: check everything. */
    int (*rkey_open)(struct fab_ep *ep, const void *blob, size_t bytes, struct fab_rkey *rkey);
    void (*rkey_close)(struct fab_ep *ep, struct fab_rkey *rkey);
    /* Create an endpoint (allocates, calls fab_ep_init). It may be connecting: posting is legal. */
    int (*ep_open)(struct fab_engine *engine, const void *address, size_t bytes, const char *label,
                   struct fab_ep **ep);
    /* Called with the poller and no other lock held, the endpoint's table already the failed one
     * and its queue already emptied: when it returns no op of this endpoint touches local memory
     * and each op the transport had taken is in the batch with `status` (fab_op_finish). */
    void (*ep_stop)(struct fab_ep *ep, int status);
    /* Free. Precondition: idle. */
    void (*ep_close)(struct fab_ep *ep);
    /* Called by the one poller: serve waiting ops, poll a bounded batch, hand finished ops and
     * arrived messages to the batch. Never blocks, never runs user code. Returns events. */
    int (*progress)(struct fab_engine *engine);
    /* See fab_engine_arm. Finished ops not yet handed out count as events that are there. */
    int (*arm)(struct fab_engine *engine, int *fd);
    /* Give back a receive buffer that a handler kept. Any thread. */
    void (*rx_release)(struct fab_engine *engine, struct fab_rx *rx);
};

_Static_assert(sizeof(struct fab_transport_ops) == sizeof(char *) + 15 * sizeof(void (*)(void)),
               "the control table has 15 functions");
_Static_assert(sizeof(struct fab_ep_ops) == 4 * sizeof(void (*)(void)),
               "the data table has 4 functions");

int fab_no_arm(struct fab_engine *engine, int *fd);
void fab_no_rx_release(struct fab_engine *engine, struct fab_rx *rx);
void fab_no_rkey_close(struct fab_ep *ep, struct fab_rkey *rkey);

/* The transports of this build (fabric.c). */
extern const struct fab_transport_ops fab_self_ops;
extern const struct fab_transport_ops fab_shm_ops;
extern const struct fab_transport_ops fab_ofi_ops; /* where configure found libfabric */
const char *fab_ofi_version(void);                 /* of libfabric, as it is loaded */

/* A transport there is a verdict for, whether this build has it or not. */
struct fab_known {
    const char *name;
    enum fab_level level;
    const struct fab_transport_ops *ops; /* NULL: not in this build */
    const char *absent;                  /* then: why, and what would bring it */
};

/* What fab_open chooses from, by what. */
struct fab_choice {
    const struct fab_known *known; /* [nknown] */
    size_t nknown;                 /* at most FAB_KNOWN_MAX */
    const char *list;
    bool is_forced; /* the user wrote the list: each of its transports must start */
};

/* fab_open and fab_open_networks, with a table of transports as argument so that tests may bring
 * their own. */
int fab_open_choice(struct fab *fabric, const struct fab_choice *choice,
                    struct fab_node *node) ORL_MUST_CHECK;
int fab_open_networks_choice(struct fab *fabric, const struct fab_choice *choice) ORL_MUST_CHECK;

/* ---------------------------------------------------------------- offered to transports */

/* Enter a verdict on a port in the fabric's list, for oriel-info and for errors; it replaces an
 * earlier one on a port of that transport, name and provider. The list has an end: what is beyond
 * FAB_PORTS_MAX is dropped. */
void fab_port_judge(struct fab *fabric, const struct fab_nic *nic, enum fab_verdict_state state,
                    const char *format, ...) ORL_PRINTF(4, 5);

/* Fill the common part; call first in open. */
void fab_engine_init(struct fab_engine *engine, const struct fab_transport_ops *ops,
                     struct fab *fabric, const char *name);
void fab_engine_fini(struct fab_engine *engine);
/* Fill the common part with the given data table; state is READY, or CONNECTING when the table is
 * fab_connecting_ops. Enters engine->eps. */
void fab_ep_init(struct fab_ep *ep, struct fab_engine *engine, const struct fab_ep_ops *ops,
                 const char *label);
void fab_ep_fini(struct fab_ep *ep);

/* Tables shared by all transports: connecting queues every op; failed finishes every op with the
 * endpoint's status from the next progress. */
extern const struct fab_ep_ops fab_connecting_ops;
extern const struct fab_ep_ops fab_failed_ops;

/* Handshake done: swap the table. Waiting ops are served from the next progress. Takes tx. */
void fab_ep_ready(struct fab_ep *ep, const struct fab_ep_ops *ops);
/* Link or peer is lost: swap to the failed table, finish what waits with status, then call the
 * transport's ep_stop for what it holds. Poller held. The first cause stays. */
void fab_ep_fail(struct fab_ep *ep, int status, const char *cause);

/* Put a chain at the end of the endpoint's queue (takes tx; counts posted). For post slots of
 * transports that work from progress, this is all of post. */
void fab_ep_queue(struct fab_ep *ep, struct fab_op *chain);
/* The same for a flush slot: makes the op a flush and queues it alone. */
void fab_ep_queue_flush(struct fab_ep *ep, struct fab_op *op);
/* An op is or may be waiting here: the short calls say AGAIN. */
static inline bool fab_ep_has_queue(const struct fab_ep *ep)
{
    return !orl_fifo_is_empty(&ep->queue);
}

enum fab_try {
    FAB_TRY_TAKEN, /* the op left the queue; the transport will call fab_op_finish */
    FAB_TRY_MORE,  /* moved *bytes of it; it stays at the head */
    FAB_TRY_STOP   /* no room now: this endpoint's turn ends */
};
/* Try to start or continue the op at an endpoint's head. At most *bytes bytes; stores how many it
 * moved. Called under poller and tx. */
typedef enum fab_try (*fab_try_fn)(struct fab_ep *ep, struct fab_op *op, uint64_t *bytes);
/* Serve endpoints with waiting ops round-robin by bytes (quantum a turn), so that an 8-byte op
 * never waits behind another endpoint's GiB. Poller held; takes tx. Returns events. */
int fab_engine_serve(struct fab_engine *engine, fab_try_fn fn, uint64_t quantum);

/* An op is finished: its done runs when the transport's progress has returned. Poller held. */
void fab_op_finish(struct fab_engine *engine, struct fab_op *op, int status);
/* Same, from any thread and without the poller (failed table). */
void fab_op_finish_later(struct fab_engine *engine, struct fab_op *op, int status);

/* What every transport checks before it touches peer memory: kind, the range against rkey->bytes,
 * alignment of atomics, and `access`, the registration's enum fab_access bits. 0, INVAL or RANGE.
 */
int fab_op_check(const struct fab_op *op, unsigned access);
/* The CPU atomic that an amo op asks for, on memory of this process. Returns the old value. */
uint64_t fab_amo_apply(void *at, enum fab_amo amo, unsigned width, uint64_t operand,
                       uint64_t compare);
/* Copy to memory that a peer may be polling: the last 8 bytes are stored after all others. */
void fab_put_apply(void *dst, const void *src, size_t bytes);
/* Store the old value of an atomic where the op wants it. */
void fab_amo_store_old(const struct fab_op *op, uint64_t old);

/* A message has arrived: runs the handler now, poller held and tx not held. Returns true when the
 * handler kept the buffer (it comes back through rx_release). */
bool fab_rx_deliver(struct fab_engine *engine, unsigned handler, struct fab_rx *rx);

/* ---------------------------------------------------------------- inside the common half */

/* Take the poller, yielding until it is free. False: this thread has it already (a done function
 * or a handler is running), and must not give it back. */
bool fab_poller_take(struct fab_engine *engine) ORL_NO_LOCK_ANALYSIS;
void fab_poller_give(struct fab_engine *engine) ORL_NO_LOCK_ANALYSIS;
/* Finish a whole chain with one status from outside the poller; counts it as posted. */
void fab_ep_reject(struct fab_ep *ep, struct fab_op *chain, int status);

#endif
