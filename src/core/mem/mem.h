/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that peers reach: oriel_mem (mine), oriel_remote (somebody's, opened from a token), and
 * the token's bytes. mem.c owns mine, token.c the bytes and the remotes, rma.c the blocking data
 * calls on them, batch.c the request form, notify.c counters.
 */
#ifndef CORE_MEM_MEM_H
#define CORE_MEM_MEM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/core.h"
#include "core/path/peer.h"
#include "fabric/fabric.h"

#define CORE_MEM_MAGIC    0x4f724d65u
#define CORE_REMOTE_MAGIC 0x4f725265u

#define CORE_TOKEN_ALIGN 64 /* what a token tells of the address */

struct oriel_mem {
    uint32_t magic;  /* CORE_MEM_MAGIC while alive */
    uint32_t access; /* ORIEL_ACCESS_ bits */
    int atomicity;
    bool allocated; /* base came from the node arena or, without one, from us */
    bool revoked;   /* a peer asked to release it, or it is being freed */
    void *base;
    uint64_t bytes;
    uint64_t id;               /* never repeats in this process: the token's generation */
    struct fab_region *region; /* holds */
    struct orl_list all;       /* in the list of mem.c */
};

/* The fields a put looks at come first and fill one line. */
struct oriel_remote {
    uint32_t magic;  /* CORE_REMOTE_MAGIC while alive */
    uint32_t access; /* ORIEL_ACCESS_ bits */
    struct fab_rkey
        key; /* direct, live, gen, hazard, bytes, …: of the best rail there is one for */
    const struct core_peer *peer; /* borrows; the owner's */
    int owner;
    int atomicity;
    uint64_t id;
    uint32_t misalign;      /* address of byte 0, modulo CORE_TOKEN_ALIGN */
    uint32_t rails;         /* bit r: keys[r] is there */
    struct fab_rkey *keys;  /* owns unless it is &key; one per rail of the path */
    struct core_path *path; /* to the owner */
    atomic_uint refs;       /* the user's, and one per posted part */
    struct orl_list all;    /* in the list of token.c */
};

void core_remote_hold(struct oriel_remote *remote);
void core_remote_drop(void *held);
int core_mem_open(void) ORL_MUST_CHECK;
void core_mem_close(void);

/* token.c: pool of remotes; the engine whose keys tokens carry (shm, else self). */
int core_remotes_open(void) ORL_MUST_CHECK;
void core_remotes_close(void);
struct fab_engine *core_token_engine(void);
/* A message of oriel_token_release on another host; set by core_mem_open. */
void core_release_came(void *user, struct fab_rx *rx);
/* End the registration of my memory of this id, if it lives, for everybody. */
void core_mem_revoke(uint64_t id);
/* 0 when mem is alive and [offset, offset + bytes) lies in it; else INVAL, RANGE, STATE. */
int core_mem_check(const struct oriel_mem *mem, uint64_t offset, uint64_t bytes) ORL_MUST_CHECK;

/* 0 when [offset, offset + bytes) lies in the remote and the access is allowed; else RANGE, INVAL
 * with texts. Cold half of the checks of rma.c, whole check of batch.c. */
int core_remote_check(const struct oriel_remote *remote, uint64_t offset, const void *local,
                      uint64_t bytes, uint32_t access) ORL_MUST_CHECK;

/* 0 when an 8-byte counter may be at this offset: in range and aligned, writable. */
int core_counter_check(const struct oriel_remote *remote, uint64_t offset) ORL_MUST_CHECK;
/* The same for an atomic or compare-and-swap: width 4 or 8, operation known, aligned, in range. */
int core_atomic_check(const struct oriel_remote *remote, const struct oriel_xfer *x) ORL_MUST_CHECK;
/* enum fab_amo of a checked atomic. */
uint8_t core_amo_of(const struct oriel_xfer *x);
/* Everything oriel_start asks of one operation. */
int core_xfer_check(const struct oriel_xfer *x) ORL_MUST_CHECK;

/* Count one operation that was posted; those done in place count themselves. */
void core_count(const struct oriel_xfer *x);
/* Add what all threads of this process have done to sum. */
void core_count_sum(struct orl_stats *sum);

/* One operation on directly mapped memory, in place, inside a hazard line (batch.c, rma.c): status.
 */
int core_direct_run(const struct oriel_xfer *x) ORL_MUST_CHECK;

#endif
