/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large transfers by the provider's reads, without a copy at either end. Whose memory is written
 * does the reading: the target of a put (a pull), the origin of a get (a fetch of what the target
 * lends). Reads have an endpoint of their own, the bulk endpoint. Closing that is the one sure way
 * to end all that a provider does with memory of the user's, and it may be closed at any time:
 * what was under way goes by messages instead. README.md tells the story.
 *
 * Everything here under the engine's tx lock.
 */
#ifndef FABRIC_OFI_OFI_LARGE_H
#define FABRIC_OFI_OFI_LARGE_H

#include "base/list.h"
#include "base/pool.h"
#include "fabric/fabric.h"
#include "fabric/ofi/ofi_wire.h"
#include "fabric/transport.h"

/* After ours: it brings a container_of where there is none. */
#include <rdma/fabric.h>

struct ofi_engine;
struct ofi_ep;
struct ofi_half;
struct ofi_peer;
struct ofi_context;
struct ofi_reads;
struct ofi_reg;
struct ofi_regs;
struct fid_mr;

#define OFI_BY_MESSAGES 1 /* status of a large piece that must go by messages */

/* A peer's bulk endpoint. */
struct ofi_far {
    fi_addr_t address;
    uint32_t gen;       /* counts its lives; 0: not known */
    uint32_t told;      /* the life of ours that the peer knows */
    uint32_t failures;  /* in a row */
    uint32_t under_way; /* reads */
    uint64_t ask_at;    /* when to ask for it (again) */
};

/* Memory that is registered for reads. */
struct ofi_lent {
    struct fid_mr *mr; /* owns; NULL: it need not be, or is not any more */
    struct orl_list all;
};

/* A large piece at one of its ends. */
struct ofi_large {
    struct orl_list of; /* the endpoint's pulls, fetches or again; the half's pulls or loans */
    struct ofi_peer *peer;
    uint64_t bytes;
    int status;
    bool is_over; /* of a pull at the target: but for those before it */
    struct ofi_lent lent;
    /* Origin. */
    struct ofi_ep *ep;
    struct fab_op *op;
    uint64_t at;    /* place in the op */
    uint64_t moved; /* of it, by messages */
    uint32_t seq;
    uint32_t request;
    bool owes_return;
    /* Target. */
    struct ofi_half *half;
    struct ofi_large_body body;
    uint32_t id;   /* of a loan */
    bool is_using; /* counts as a user of its registration */
    /* What is read, and how far that is. */
    struct orl_list hauling; /* bulk->hauls */
    unsigned char *to;
    void *desc;
    uint64_t from;
    uint64_t key;
    uint64_t asked;
    uint64_t landed;
    uint32_t under_way;
    uint64_t stuck_since; /* 0, or since when the provider takes nothing of it */
    bool has_failed;
    bool has_begun;
};

/* The part of an endpoint. */
struct ofi_ep_large {
    struct orl_list pulls; /* in their order; not acknowledged */
    struct orl_list fetches;
    struct orl_list again;     /* to go by messages */
    struct orl_list resending; /* bulk->resending, while there are such */
    uint32_t npulls;
    uint32_t nfetches;
    uint32_t epoch; /* pulls of one that was refused are refused as well */
};

/* The part of a receiving half. */
struct ofi_half_large {
    struct orl_list pulls; /* in their order */
    struct orl_list loans;
    uint32_t npulls;
    uint32_t nloans;
    uint32_t last_loan;
    uint32_t refused_epoch; /* 1 + of pulls that are refused, 0: none */
};

/* The part of an engine; made when first needed. */
struct ofi_bulk {
    struct fid_ep *ep; /* owns; NULL: it cannot be had */
    uint32_t gen;
    uint8_t name[OFI_NAME_BYTES];
    size_t chunk;              /* bytes of a read */
    struct ofi_reads *reads;   /* owns; contexts */
    struct ofi_reads *retired; /* owns; those of earlier lives */
    uint32_t under_way;
    uint64_t nreads; /* that were done */
    struct orl_list hauls;
    struct orl_list lents;
    struct orl_list resending;
    struct orl_pool pool;
};

/* ---------------------------------------------------------------- the endpoint (ofi_bulk.c) */

/* Open it where that was not done; false: there is none. */
bool ofi_bulk_open(struct ofi_engine *ofi);
/* Close it and open a new one: when this returns the provider touches no memory of the user's, and
 * what was under way has failed. */
void ofi_bulk_reset(struct ofi_engine *ofi);
/* For good. */
void ofi_bulk_close(struct ofi_engine *ofi);
/* What the contexts take; when the queue is closed. */
void ofi_bulk_fini(struct ofi_engine *ofi);
/* Whether both ends know the other's. Asks for it when not. */
bool ofi_bulk_is_ready(struct ofi_engine *ofi, struct ofi_peer *peer);
/* Something failed there: wait a little before the next. */
void ofi_bulk_failed(struct ofi_engine *ofi, struct ofi_peer *peer);
/* Takes tx. */
void ofi_on_bulk(struct ofi_engine *ofi, const struct ofi_header *header,
                 const struct ofi_hello *hello);

/* Register memory for `access` (FI_READ: reads land there; FI_REMOTE_READ: a peer reads it). 0 or
 * an error, after which nothing is registered. */
int ofi_lend(struct ofi_engine *ofi, void *base, uint64_t bytes, uint64_t access,
             struct ofi_lent *lent) ORL_MUST_CHECK;
void ofi_unlend(struct ofi_lent *lent);
/* What a peer names a place in it by, `offset` bytes from its begin at `base`. */
uint64_t ofi_lent_address(const struct ofi_engine *ofi, const void *base, uint64_t offset);

struct ofi_large *ofi_large_new(struct ofi_engine *ofi, struct ofi_peer *peer);
void ofi_large_free(struct ofi_engine *ofi, struct ofi_large *large);

/* ---------------------------------------------------------------- reading (ofi_haul.c) */

/* Read what large->to, desc, from, key and bytes say; ends in ofi_haul_over. */
void ofi_haul_begin(struct ofi_engine *ofi, struct ofi_large *large);
/* Forget it: nothing of it may be under way. */
void ofi_haul_drop(struct ofi_large *large);
/* The endpoint is closed. */
void ofi_hauls_fail(struct ofi_engine *ofi);
/* A read is done, or has failed. Poller held. */
void ofi_on_read(struct ofi_engine *ofi, struct ofi_context *context, bool has_failed);
/* Ask for more, end what is over, resend what failed. Poller held. Takes tx. Returns events. */
int ofi_large_progress(struct ofi_engine *ofi);
/* There is something to do that nothing will tell of. */
bool ofi_large_has_work(const struct ofi_engine *ofi);

/* ---------------------------------------------------------------- the origin (ofi_pull.c) */

void ofi_ep_large_init(struct ofi_ep *ep);
/* Whether the next of the op is to go this way. */
bool ofi_large_wants(struct ofi_ep *ep, const struct fab_op *op);
/* FAB_TRY_TAKEN: all of it is under way; MORE: a part; STOP: not now, or (*by_messages) not so. */
enum fab_try ofi_large_try(struct ofi_ep *ep, struct fab_op *op, bool *by_messages);
/* Nothing else may be sent before the pulls are acknowledged: it would overtake them. */
static inline bool ofi_large_bars(const struct ofi_ep_large *large)
{
    return large->npulls != 0 || !orl_list_is_empty(&large->again);
}
/* The number has been acknowledged; it may be a pull's. */
void ofi_pull_acked(struct ofi_engine *ofi, struct ofi_ep *ep, uint32_t seq);
/* False: the number is no pull's. */
bool ofi_pull_refused(struct ofi_ep *ep, uint32_t seq, int status);
/* A loan was asked for: granted (data: struct ofi_grant), or not. */
void ofi_fetch_answered(struct ofi_engine *ofi, struct ofi_large *large, int status,
                        const void *data, size_t bytes);
/* All of it has been read, or (status) not. */
void ofi_fetch_over(struct ofi_engine *ofi, struct ofi_large *large, int status);
/* Send what goes by messages. True: all of it is out. */
bool ofi_resend(struct ofi_engine *ofi, struct ofi_ep *ep);
/* The endpoint ends: all its ops with `status`. Poller held. */
void ofi_ep_large_stop(struct ofi_ep *ep, int status);

/* ---------------------------------------------------------------- the target (ofi_loan.c) */

void ofi_half_large_init(struct ofi_half *half);
/* Below this all numbers of the half have been done. */
uint32_t ofi_half_done(const struct ofi_half *half);
void ofi_serve_pull(struct ofi_engine *ofi, struct ofi_half *half,
                    const struct ofi_large_body *body);
void ofi_serve_borrow(struct ofi_engine *ofi, struct ofi_half *half,
                      const struct ofi_large_body *body);
void ofi_on_return(struct ofi_engine *ofi, uint32_t id, uint32_t loan);
void ofi_pull_over(struct ofi_engine *ofi, struct ofi_large *large, int status);
/* The half ends: nothing of it lands any more. */
void ofi_half_large_end(struct ofi_engine *ofi, struct ofi_half *half);
/* The registration ends; when this returns no read uses it. */
void ofi_reg_end_use(struct ofi_engine *ofi, struct ofi_reg *reg);
void ofi_regs_unlend(struct ofi_regs *regs);

#endif
