/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path to one peer: its endpoint, how many operations are under way on it, and whether a flush
 * has anything to do. Made on first use by core_path_of, kept until finalize, also after the peer
 * is gone. What is reached by loads and stores needs no path. Any thread may use one at any time.
 *
 * Argument for flush. `posted` is raised after each post and before the posting call returns; a
 * flush remembers `posted`, then posts its own operation, and raises `visible` to what it
 * remembered when that is done. So every operation that `posted` counts was ahead of the flush that
 * made it `visible`, and a thread that comes while another's flush is under way sees the two differ
 * and makes a flush of its own.
 */
#ifndef CORE_PATH_PATH_H
#define CORE_PATH_PATH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "fabric/fabric.h"

struct core_path {
    int rank;
    struct fab_ep *ep;         /* owns; self or shm */
    _Atomic uint64_t inflight; /* operations posted and not done, and room taken for more */
    _Atomic uint64_t posted;   /* operations ever posted */
    _Atomic uint64_t visible;  /* so many of them are known to be visible */
    struct core_path *next;    /* in the list of all paths; constant */
};

/* The path to a rank, made on first use (address from its control block in node memory). Errors:
 * PEER when it is known to be gone, UNSUPP when no transport leads there. */
int core_path_of(int rank, struct core_path **path) ORL_MUST_CHECK;

/* Stop all endpoints: whatever is under way ends with CANCELED, and its done has run on return.
 * Idempotent. Only finalize may call it. */
void core_paths_stop(void);
/* After the engines are open: publishes this rank's address to the ranks of its host. */
int core_paths_open(void) ORL_MUST_CHECK;
/* Stop, close and free all paths. */
void core_paths_close(void);

/* Do one operation and wait until its buffers are free, a get's data there, an atomic's old value
 * stored. The buffers may lie on the caller's stack: it returns when they are free, whatever
 * happens to the peer. Small puts leave without an operation. A deadline that has passed before it
 * begins is TIMEOUT; later ones are not looked at. op is copied. */
int core_path_run(struct core_path *path, const struct fab_op *op,
                  uint64_t deadline) ORL_MUST_CHECK;

/* Everything posted to this rank before the call is visible on return. Drives progress. Errors:
 * PEER, TIMEOUT. */
int core_path_flush(struct core_path *path, uint64_t deadline) ORL_MUST_CHECK;

/* Take room for up to n operations (ORIEL_INFLIGHT of one peer); returns how many there was room
 * for. core_path_post gives it to its operations, core_path_unroom back. */
uint64_t core_path_room(struct core_path *path, uint64_t n);
void core_path_unroom(struct core_path *path, uint64_t n);
bool core_path_has_room(struct core_path *path);
/* Post a chain of n operations for which room was taken. Every done must call core_path_done. */
void core_path_post(struct core_path *path, struct fab_op *chain, uint64_t n);
/* An operation has ended: gives its room back. */
void core_path_done(struct core_path *path);

/* Words for an operation that ended with this status: the endpoint's cause, or the code's text. */
const char *core_path_cause(const struct core_path *path, int status);

#endif
