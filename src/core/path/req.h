/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: what users wait on. One request stands for a batch of operations; it owns the posted
 * fabric operations (parts), counts them down, keeps the first error and each one's result, and
 * holds leases on what they use until the transport has let go (settled), which can be later than
 * completion when a deadline passed.
 *
 * Ended by two flags: the user's hand (waited, tested or freed) and the library's (settled). The
 * second of the two to be set frees it. Every field that changes after the start is written under
 * the request's lock; `done` and `live` may be read without it.
 */
#ifndef CORE_PATH_REQ_H
#define CORE_PATH_REQ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/wheel.h"
#include "core/core.h"
#include "core/path/crc_pool.h"
#include "core/path/path.h"
#include "fabric/fabric.h"

struct core_part {
    struct fab_op op; /* its user is this part */
    struct core_crc_job crc;
    struct oriel_request *req;
    struct core_path *path;      /* of a posted part */
    uint64_t index;              /* place in the batch */
    void *user;                  /* of a staged part: where what landed in op.local belongs */
    void (*release)(void *held); /* lease on the remote: runs when the transport lets go */
    void *held;
    struct core_xfer *xfer; /* owns; of a posted part on a path with several rails */
    bool ended;
    int status; /* of an ended part */
};

enum {
    CORE_REQ_USER = 1,
    CORE_REQ_LIB = 2
};

struct oriel_request {
    uint32_t magic; /* CORE_REQ_MAGIC while alive */
    uint32_t flags; /* ORIEL_NOWAIT, ORIEL_CRC32C */
    struct orl_lock lock;
    _Atomic uint32_t done; /* 1: complete (successfully, with error, or by deadline) */
    uint32_t ended;        /* CORE_REQ_USER | CORE_REQ_LIB */
    _Atomic uint64_t live; /* operations not yet ended, plus 1 while starting */
    uint64_t count;        /* operations of the batch */
    uint64_t deadline;
    struct oriel_result *results; /* the user's [count] until completion, or NULL */
    uint64_t bytes;               /* moved */
    uint64_t failed;
    uint64_t error_index; /* of the operation that `error` belongs to */
    int error;            /* of the first operation in the batch that failed, or TIMEOUT */
    uint32_t crc32c;
    struct core_part *parts; /* [nparts]; owns unless it is &one */
    uint64_t nparts;
    unsigned char *stage; /* owns: copies of the user's buffers */
    struct orl_list all;  /* of requests with memory of their own */
    struct orl_timer due; /* of its deadline; see req_due.c */
    char cause[192];      /* text of the error, copied to the thread that reports it */
    struct core_part one; /* the part of a request of one operation */
};

#define CORE_REQ_MAGIC 0x4f724571u

/* How one operation ended. */
struct core_end {
    uint64_t index; /* place in the batch */
    int status;
    uint32_t crc32c;
    uint64_t bytes;         /* moved if it ended well */
    const char *cause;      /* words for an error; NULL: this thread's last error */
    struct core_part *part; /* NULL: it had none */
};

int core_reqs_open(void) ORL_MUST_CHECK;
/* Ends what is outstanding (core_paths_stop) and frees everything. Returns how many requests were
 * not complete. */
uint64_t core_reqs_close(void);

/* A request for a batch of `count` that is starting, with nparts parts whose op, release and
 * staging fields are zero. NOMEM. */
int core_req_new(uint64_t count, uint64_t nparts, struct oriel_request **made) ORL_MUST_CHECK;
/* Starting is over. The caller holds the user's hand on the request. */
void core_req_started(struct oriel_request *req);
/* An operation of the batch has ended; called once for each. May free the request, when the user
 * has given it up. */
void core_req_note(struct oriel_request *req, const struct core_end *end);
/* Undo core_req_new: nothing of the batch was posted. */
void core_req_cancel(struct oriel_request *req);

/* Give back what a part holds for the time of its operation. */
void core_part_drop(struct core_part *part);
/* The fab_done_fn of every part. */
void core_part_done(struct fab_op *op, int status);
/* A part whose operation was done in place: its words are this thread's last error. */
void core_part_done_here(struct core_part *part, int status);

/* Wait until it is complete, its own deadline included, or the given one has passed (TIMEOUT, with
 * `done` still 0). */
int core_req_await(struct oriel_request *req, uint64_t deadline, const char *call) ORL_MUST_CHECK;
/* Complete it with TIMEOUT if its own deadline has passed. */
void core_req_look(struct oriel_request *req);
/* Its deadline ends it also while nobody waits, from the start to core_req_undue. */
void core_req_due(struct oriel_request *req);
void core_req_undue(struct oriel_request *req);
/* Complete every request whose deadline has passed; when to look again (ORL_NEVER: no need). Any
 * thread, with no lock held; a load when there is nothing to do. */
uint64_t core_reqs_look(uint64_t now);
void core_reqs_due_open(void);
void core_reqs_due_close(void);
/* Look whether the ranks it waits for live; operations to the dead end with PEER. */
void core_req_check_peers(struct oriel_request *req);
/* How a complete request ended; status may be NULL. Returns its error, with the text. */
int core_req_report(struct oriel_request *req, struct oriel_status *status) ORL_MUST_CHECK;
/* Give the user's hand up: the request frees itself when it has settled, which may be now. */
void core_req_leave(struct oriel_request *req);
/* Copy what landed in library memory and ended well to the user's buffers. */
void core_req_land(struct oriel_request *req);

#endif
