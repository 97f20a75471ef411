/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process object: what a rank knows of itself and its job, filled by init.c in one visible
 * sequence and constant between oriel_init and oriel_finalize, except where said otherwise.
 * Every room of core may include this; it holds no logic.
 */
#ifndef CORE_CORE_H
#define CORE_CORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/lock.h"
#include "base/stats.h"
#include "fabric/fabric.h"
#include "oriel.h"

struct core_boot;
struct core_peer;

#define CORE_NETWORKS_MAX 8

/* Message handlers of the core, by the number they have in struct fab. */
enum core_handler {
    CORE_ON_COLL = 1, /* a piece of a collective between hosts */
    CORE_ON_PING,     /* are you there? */
    CORE_ON_PONG,
    CORE_ON_RELEASE, /* oriel_token_release from another host */
    CORE_ON_RAILED,  /* one of the others, numbered: it came over one of several rails */
    CORE_ON_PROBE,   /* does nothing: proves that a rail works */
    CORE_ON_ABORT    /* oriel_abort on another host, where the launcher does not end the job */
};

struct core {
    _Atomic int users;   /* successful oriel_init not yet undone; 0: not initialised */
    _Atomic bool forked; /* this is a child of an initialised process */
    bool was_open;       /* initialised once: no second start in one process */
    int rank, size;      /* in the job */
    int local, nlocal;   /* among the ranks of this host */
    uint64_t job;        /* names the job; in every token and wire header */
    char host[64];       /* this host's name, for messages */
    bool oversubscribed; /* more local ranks than cores: never spin */
    const struct core_boot *boot;
    struct fab fabric;
    struct fab_node *node;                         /* owns; NULL without shm */
    struct fab_engine *shm;                        /* borrows; NULL without shm */
    struct fab_engine *self;                       /* borrows */
    struct fab_engine *network[CORE_NETWORKS_MAX]; /* borrows; engines that reach other hosts, by
                                                      their number in my record and tokens */
    int nnetworks;
    struct core_peer *peers; /* owns; [size] */
    int *local_rank;         /* owns; [nlocal]: world rank of each local index, ascending */
    struct orl_stats stats;  /* of the core; counters added without atomics by their owner */
};

extern struct core core;

/* OK while Oriel is usable by this process, else STATE with its text. Every public function that
 * has no object of its own to look at starts with this. */
static inline bool core_is_open(void)
{
    return ORL_LIKELY(atomic_load_explicit(&core.users, memory_order_relaxed) > 0);
}
/* The cold half: stores the text and returns STATE. */
int core_state_error(void);
/* Adds to the last error where it happened, as far as that is known: rank and host. Returns
 * status. */
int core_failed_here(int status) ORL_MUST_CHECK;
/* 0, or RANK with its text. */
int core_rank_check(int rank) ORL_MUST_CHECK;

#endif
