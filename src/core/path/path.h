/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path to one peer: its rails, how many operations are under way on it, and whether a flush
 * has anything to do. Made on first use by core_path_of, kept until finalize, also after the peer
 * is gone. What is reached by loads and stores needs no path. Any thread may use one at any time.
 *
 * A rail is an endpoint from one of my engines to one of the peer's. A peer on this host has one,
 * over shm or self; a peer elsewhere, or here without shm, one per pair of networks that reach each
 * other, best first. Small operations and messages take the first rail that lives. Paths with one
 * rail post operations as they are; with several, xfer.h cuts them and saves them from dying rails.
 *
 * Argument for flush. `posted` is raised after each post and before the posting call returns; a
 * flush remembers `posted`, then posts its own operations, and raises `visible` to what it
 * remembered when those are done. So every operation that `posted` counts was ahead of the flush
 * that made it `visible`, and a thread that comes while another's flush is under way sees the two
 * differ and makes a flush of its own. What is posted again because its rail died is counted anew,
 * and then `moved` is raised: a flush that finds `moved` changed begins again. An endpoint ends its
 * operations in order, so a flush that a dying rail ends finds everything before it moved already.
 */
#ifndef CORE_PATH_PATH_H
#define CORE_PATH_PATH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/list.h"
#include "core/core.h"
#include "fabric/fabric.h"

#define CORE_RAILS_MAX 8

struct core_probe;

struct core_rail {
    struct fab_ep *_Atomic ep;   /* owns; another one once the rail has come back */
    const struct fab_card *card; /* borrows; of the peer's engine; NULL on this host */
    struct fab_engine *engine;   /* borrows */
    uint32_t weight;      /* of its share of a large transfer; 0: serves when no better one lives */
    uint8_t remote;       /* number of the peer's engine: which key of a token */
    _Atomic uint8_t dead; /* 1: failed, and the path lives on without it */
    _Atomic uint64_t live;    /* operations posted whose done has not run */
    _Atomic uint64_t posted;  /* operations ever posted */
    _Atomic uint64_t visible; /* so many of them are known to be visible */
    _Atomic uint64_t bytes;   /* of puts and gets ever posted */
    struct core_probe *probe; /* owns; under way or ended; whoever holds path->retrying */
    uint64_t retry_at;        /* when to try a dead rail again, orl_clock_ns */
    uint64_t backoff_ns;      /* wait before the next try */
    uint64_t back_since;      /* when it came back */
};

/* Numbered messages from the peer, on their way to their handlers in order (send.c). */
struct core_inbox {
    struct orl_lock lock;
    uint64_t next;        /* number of the next to be delivered; lock */
    bool delivering;      /* some thread runs handlers; lock */
    struct orl_list held; /* copies of those that came too early, by number; lock */
};

struct core_path {
    int rank;
    struct core_rail rail[CORE_RAILS_MAX];
    int nrails;
    struct fab_ep *ep;         /* borrows; the first rail's first: never closed before the path */
    _Atomic uint64_t inflight; /* operations posted and not done, and room taken for more */
    _Atomic uint64_t posted;   /* operations ever posted */
    _Atomic uint64_t visible;  /* so many of them are known to be visible */
    _Atomic uint64_t moved;    /* operations posted again after the loss of their rail */
    _Atomic int late;          /* first error of a small put that had left its caller, for flush */
    _Atomic uint32_t ndead;    /* rails */
    _Atomic uint32_t retrying; /* 1: a thread looks after dead rails */
    _Atomic uint32_t lost;     /* CORE_PATH_LOST: no rail is left, and cause is complete */
    char cause[160];
    struct core_probe *old;    /* owns; endpoints that a rail has replaced; retrying */
    _Atomic uint64_t sent;     /* numbered messages ever sent */
    _Atomic uint64_t messages; /* under way */
    struct core_inbox inbox;
    struct core_path *next; /* in the list of all paths; constant */
};

enum {
    CORE_PATH_WHOLE,
    CORE_PATH_LOSING,
    CORE_PATH_LOST
};

/* True when operations go by way of struct core_xfer. */
static inline bool core_path_is_railed(const struct core_path *path)
{
    return path->nrails > 1;
}

/* The path to a rank, made on first use. Errors: PEER when it is known to be gone, UNSUPP when no
 * transport leads there, BOOT when it left no address. To a rank of another host it waits for
 * nothing but the bootstrap, and handlers may call it. */
int core_path_of(int rank, struct core_path **path) ORL_MUST_CHECK;
/* Make the paths to all ranks of other hosts and wait until one message has gone to each
 * (ORIEL_CONNECT=eager). Errors: those of core_path_of; PEER, TIMEOUT (ORIEL_BOOT_TIMEOUT). */
int core_path_connect_all(void) ORL_MUST_CHECK;

/* Stop all endpoints: whatever is under way ends with CANCELED, and its done has run on return.
 * Messages get a bounded time to leave first. Idempotent. Only finalize may call it. */
void core_paths_stop(void);
/* After the engines are open: publishes this rank's address to the ranks of its host. */
int core_paths_open(void) ORL_MUST_CHECK;
/* Stop, close and free all paths. */
void core_paths_close(void);
/* The peer is gone, as its mark says already: fails the endpoints of all rails. Not from done
 * functions or handlers. */
void core_path_peer_gone(struct core_path *path, const char *how);
/* The peer's mark for a path that has lost its last rail. Not from done functions or handlers:
 * those who wait on a path, or begin something on it, call this. */
void core_path_settle(struct core_path *path);

/* The newest path; the others by `next`. */
struct core_path *core_path_first(void);
/* n operations have been posted: raises `posted`, of all paths together as well. */
void core_path_counted(struct core_path *path, uint64_t n);
void core_flush_open(void);

/* Do one operation and wait until its buffers are free, a get's data there, an atomic's old value
 * stored. The buffers may lie on the caller's stack: it returns when they are free, whatever
 * happens to the peer. Small puts leave without waiting. A deadline that has passed before it
 * begins is TIMEOUT; later ones are not looked at. op is copied; where the path has several rails,
 * op->rkey is the first of an array with one for each, and bit r of op->flags says that there is
 * one for rail r. */
int core_path_run(struct core_path *path, const struct fab_op *op,
                  uint64_t deadline) ORL_MUST_CHECK;

/* Everything posted to this rank before the call is visible on return. Drives progress. Errors:
 * PEER, TIMEOUT, those of small puts. */
int core_path_flush(struct core_path *path, uint64_t deadline) ORL_MUST_CHECK;
/* The first error; all paths are flushed nevertheless, at the same time. */
int core_paths_flush(uint64_t deadline) ORL_MUST_CHECK;

/* Take room for up to n operations (ORIEL_INFLIGHT of one peer); returns how many there was room
 * for. core_path_post gives it to its operations, core_path_unroom back. */
uint64_t core_path_room(struct core_path *path, uint64_t n);
void core_path_unroom(struct core_path *path, uint64_t n);
bool core_path_has_room(struct core_path *path);
/* Post a chain of n operations for which room was taken, on a path with one rail. Every done must
 * call core_path_done. */
void core_path_post(struct core_path *path, struct fab_op *chain, uint64_t n);
/* An operation has ended: gives its room back. Returns its status, which becomes PEER where a LINK
 * was the end of the path. */
int core_path_done(struct core_path *path, int status);

/* Send a message to the rank's handler (enum core_handler) there, at most CORE_SEND_MAX bytes,
 * which are copied. Messages of one thread to one rank arrive in order, each once, while a rail
 * lives. Never waits and never runs done functions, so handlers may call it: what finds no room
 * waits in the library's memory. The handler must not keep what it is given (fab_rx_keep).
 * Errors: NOMEM, PEER, INVAL (too long). */
#define CORE_SEND_MAX 4096
int core_path_send(struct core_path *path, enum core_handler handler, uint64_t header,
                   const void *data, size_t bytes) ORL_MUST_CHECK;
/* Memory of messages, and the handlers that make several rails look like one. */
int core_sends_open(void) ORL_MUST_CHECK;
void core_sends_close(void);
void core_inbox_init(struct core_inbox *inbox);
void core_inbox_fini(struct core_inbox *inbox);

/* Words for an operation that ended with this status: the endpoint's cause, or the code's text. */
const char *core_path_cause(const struct core_path *path, int status);
/* The words for a call whose operation on this path ended badly; returns status. */
int core_path_say(struct core_path *path, int status);

#endif
