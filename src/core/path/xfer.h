/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on a path with several rails. Each is carried out by a struct core_xfer: large puts
 * and gets are cut into pieces for several rails (plan.h), the rest goes whole by the first rail
 * that lives. Puts and gets that a dying rail gives back are posted again on another; done twice
 * they are the same. Atomics, and the counting half of a put with notice, end with LINK, since
 * nobody knows whether they were done. A put_notify in several pieces flushes them before it
 * counts.
 */
#ifndef CORE_PATH_XFER_H
#define CORE_PATH_XFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "core/path/path.h"
#include "fabric/fabric.h"

struct core_xfer;

struct core_xfer_piece {
    struct fab_op op; /* its user is this piece */
    struct core_xfer *xfer;
    int rail;
};

struct core_xfer {
    struct core_path *path;
    struct fab_op *whole; /* what the caller asked for: its done runs when all has ended */
    uint32_t rails;       /* that there are keys for */
    int phase;
    int npieces;
    _Atomic int status; /* first error */
    _Atomic uint32_t live;
    struct core_xfer_piece piece[CORE_RAILS_MAX];
};

/* Carry out `whole`, for which room was taken, and run whole->done at its end; that must call
 * core_path_done. whole->rkey is the first of an array with a key for each rail, bit r of
 * whole->flags says that there is one for rail r. The xfer is the caller's until then. Never calls
 * back. */
void core_xfer_start(struct core_xfer *xfer, struct core_path *path, struct fab_op *whole);

/* Take a copy of a small put and let it go by itself; its errors come to the next flush. False: it
 * is no small put, or there is no room for it now. */
bool core_xfer_put_small(struct core_path *path, const struct fab_op *op);

/* From a pool, for operations whose memory is not the caller's; NULL: no memory. */
struct core_xfer *core_xfer_alloc(void);
void core_xfer_free(struct core_xfer *xfer);
int core_xfers_open(void) ORL_MUST_CHECK;
void core_xfers_close(void);

#endif
