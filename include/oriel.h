/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Oriel: windows, collectives and messages for programs of many ranks.
 *
 * Conventions, once for all functions
 * -----------------------------------
 * Result. Functions return ORIEL_OK (0) or a negative ORIEL_ERR_ code unless said otherwise.
 *   oriel_error_detail() then holds one line that names what was wrong and what would be right.
 * Objects. Opaque, made and ended by the named pair of calls. Handles of predefined objects
 *   (ORIEL_WORLD, ORIEL_INT32, ORIEL_SUM …) are constants and are never freed.
 * Numbers. Counts, offsets and lengths are 64 bits, in bytes where not said otherwise. Ranks are
 *   int, from 0 to size - 1.
 * Options. A struct that starts with its own size; ORIEL_..._INIT zeroes the rest; zero always
 * means the default; fields are only ever appended. NULL means all defaults. Times. Nanoseconds. A
 * timeout of ORIEL_FOREVER never ends, ORIEL_NOW looks once. Threads. Every function may be called
 * from any thread at any time between oriel_init and oriel_finalize, except where two calls would
 * work on the same request, or be collective on the same team, at once. No function may be called
 * from a signal handler, nor in a forked child. Ordering. A put, an atomic or a notified put is
 * *locally complete* when the call returns or its request completes: the source may be changed. It
 * is *visible* after a later oriel_flush of that rank: any CPU of the target's host loads it, and
 * any NIC gets it. Two operations without a flush between them are not ordered, except that a
 * counter is never seen before its notified data, and that atomics of one rank to one word stay in
 * order. Failure. An error of one operation leaves every object usable. When a rank dies, calls
 * that need it end with ORIEL_ERR_PEER within about a second and name it; nothing waits for ever in
 * silence.
 */
#ifndef ORIEL_H
#define ORIEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ================================================================ constants */

#define ORIEL_VERSION_MAJOR 0
#define ORIEL_VERSION_MINOR 1
#define ORIEL_VERSION_PATCH 0

#define ORIEL_OK           0
#define ORIEL_ERR_INVAL    (-1)  /* an argument is wrong */
#define ORIEL_ERR_NOMEM    (-2)  /* no memory, or a limit of memory was met */
#define ORIEL_ERR_AGAIN    (-3)  /* would have to wait, and ORIEL_NOWAIT was given */
#define ORIEL_ERR_TRUNC    (-4)  /* the data is longer than the buffer */
#define ORIEL_ERR_RANGE    (-5)  /* the access passes the end of the memory */
#define ORIEL_ERR_STATE    (-6)  /* not now: before init, after finalize, in a forked child */
#define ORIEL_ERR_BUSY     (-7)  /* the object is in use */
#define ORIEL_ERR_UNSUPP   (-8)  /* cannot be done here */
#define ORIEL_ERR_TIMEOUT  (-9)  /* the deadline passed */
#define ORIEL_ERR_CANCELED (-10) /* ended before it was done */
#define ORIEL_ERR_LINK     (-11) /* a rail to the peer is lost */
#define ORIEL_ERR_PEER     (-12) /* the peer process is gone */
#define ORIEL_ERR_GONE     (-13) /* the memory behind the token was released */
#define ORIEL_ERR_SYNC     (-14) /* outside of the epoch it needs */
#define ORIEL_ERR_RANK     (-15) /* no such rank */
#define ORIEL_ERR_TYPE     (-16) /* the datatype or operator does not fit */
#define ORIEL_ERR_SYS      (-17) /* the operating system refused */
#define ORIEL_ERR_BOOT     (-18) /* start-up failed */
#define ORIEL_ERR_CONF     (-19) /* a setting is wrong */
#define ORIEL_ERR_INTERNAL (-20) /* a defect of the library */

#define ORIEL_FOREVER INT64_C(-1)
#define ORIEL_NOW     INT64_C(0)

#define ORIEL_TOKEN_BYTES_MAX 512 /* no token is longer */

/* Send buffer argument: the data is already in the receive buffer. */
#define ORIEL_IN_PLACE ((void *)1)

struct oriel_team;    /* an ordered set of ranks */
struct oriel_type;    /* a datatype */
struct oriel_op;      /* a reduction operator */
struct oriel_mem;     /* memory of mine that peers may reach */
struct oriel_remote;  /* memory of some rank, opened from a token */
struct oriel_request; /* something under way */

#define ORIEL_WORLD ((struct oriel_team *)1)
#define ORIEL_SELF  ((struct oriel_team *)2)

/* Predefined datatypes: C's fixed-width and floating types, and untyped bytes. */
#define ORIEL_BYTE   ((const struct oriel_type *)1)
#define ORIEL_INT8   ((const struct oriel_type *)2)
#define ORIEL_INT16  ((const struct oriel_type *)3)
#define ORIEL_INT32  ((const struct oriel_type *)4)
#define ORIEL_INT64  ((const struct oriel_type *)5)
#define ORIEL_UINT8  ((const struct oriel_type *)6)
#define ORIEL_UINT16 ((const struct oriel_type *)7)
#define ORIEL_UINT32 ((const struct oriel_type *)8)
#define ORIEL_UINT64 ((const struct oriel_type *)9)
#define ORIEL_FLOAT  ((const struct oriel_type *)10)
#define ORIEL_DOUBLE ((const struct oriel_type *)11)

/* Predefined operators. LAND, LOR, LXOR and the bitwise ones take integers only (ORIEL_BYTE:
 * bitwise ones only). */
#define ORIEL_SUM  ((const struct oriel_op *)1)
#define ORIEL_PROD ((const struct oriel_op *)2)
#define ORIEL_MIN  ((const struct oriel_op *)3)
#define ORIEL_MAX  ((const struct oriel_op *)4)
#define ORIEL_BAND ((const struct oriel_op *)5)
#define ORIEL_BOR  ((const struct oriel_op *)6)
#define ORIEL_BXOR ((const struct oriel_op *)7)
#define ORIEL_LAND ((const struct oriel_op *)8)
#define ORIEL_LOR  ((const struct oriel_op *)9)
#define ORIEL_LXOR ((const struct oriel_op *)10)

/* ================================================================ lifecycle */

/* A setting given by the program: name without ORIEL_, as in "SPIN_TIME"; stands over the
 * environment. */
struct oriel_setting {
    const char *name;
    const char *value;
};

struct oriel_init_opts {
    size_t size;
    const struct oriel_setting *settings; /* [nsettings], copied */
    size_t nsettings;
    uint32_t flags; /* ORIEL_INIT_ bits */
    uint32_t reserved;
};
#define ORIEL_INIT_OPTS_INIT                    \
 {                                              \
  sizeof(struct oriel_init_opts), NULL, 0, 0, 0 \
 }
#define ORIEL_INIT_ONE_THREAD 1u /* only one thread of this process calls Oriel: no locks */

/* Start: learn the job from PMIx (mpirun, srun) or, without a launcher, be a job of one rank.
 * Collective over the job. May be called again; each call wants its oriel_finalize, and only the
 * first one's options count.
 * Errors: BOOT (launcher, time-out: names the step and the ranks that are missing; or quotes a rank
 * that cannot start), PEER (names a rank that has ended before it could take part), CONF (names the
 * setting, its value and the valid range), NOMEM (names the size needed), STATE (forked child). */
int oriel_init(const struct oriel_init_opts *opts);

/* Undo one oriel_init; the last one waits (bounded) for the other ranks, ends what is under way and
 * frees everything, also memory and tokens the program still holds. Collective. Operations still
 * outstanding end with ORIEL_ERR_CANCELED and are reported by ORIEL_ERR_BUSY, after everything has
 * been cleaned up all the same. A further oriel_init is not possible then. STATE when not
 * initialised. */
int oriel_finalize(void);

/* True between a successful oriel_init and the last oriel_finalize. Never fails. */
bool oriel_is_initialized(void);

/* End the whole job with this exit code, 0 becoming 1 since an abort is no success; text (may be
 * NULL) says why. Takes three seconds at most and does not return. */
void oriel_abort(int code, const char *text);

/* ================================================================ ranks and teams */

/* My rank in the job, the number of ranks, the same among the ranks of my host, ordered by rank.
 * -1 when not initialised. */
int oriel_rank(void);
int oriel_size(void);
int oriel_local_rank(void);
int oriel_local_size(void);

/* 1: that rank is on my host and shares memory with me. 0: it does not. ORIEL_ERR_RANK. */
int oriel_is_local(int rank);

/* Rank and size in a team. ORIEL_ERR_INVAL for what is not a team. */
int oriel_team_rank(const struct oriel_team *team);
int oriel_team_size(const struct oriel_team *team);

/* ================================================================ memory */

/* Who performs the atomics on a registration; never both. */
enum oriel_atomicity {
    ORIEL_ATOMICITY_CPU = 0, /* the default: atomic also against the owner's own C11 atomics */
    ORIEL_ATOMICITY_NIC = 1
};

struct oriel_mem_opts {
    size_t size;
    int atomicity;   /* enum oriel_atomicity; NIC is UNSUPP while no NIC is open */
    uint32_t access; /* ORIEL_ACCESS_ bits; 0: all */
};
#define ORIEL_MEM_OPTS_INIT           \
 {                                    \
  sizeof(struct oriel_mem_opts), 0, 0 \
 }
#define ORIEL_ACCESS_READ   1u
#define ORIEL_ACCESS_WRITE  2u
#define ORIEL_ACCESS_ATOMIC 4u

/* Allocate memory that peers of this host reach by plain loads and stores, registered, zeroed,
 * aligned to 64 bytes (2 MiB from 1 MiB up). bytes may be 0. Owned by the caller until
 * oriel_mem_free. Errors: NOMEM naming the bytes asked, what is left and what limits it. */
int oriel_mem_alloc(uint64_t bytes, const struct oriel_mem_opts *opts, struct oriel_mem **mem);

/* Register memory the program already has. It must stay mapped until oriel_mem_free. base may be
 * NULL only when bytes is 0. Overlapping registrations must agree in atomicity (INVAL). */
int oriel_mem_register(void *base, uint64_t bytes, const struct oriel_mem_opts *opts,
                       struct oriel_mem **mem);

/* End it: no access of any rank is under way when it returns, and every later one ends with GONE.
 * Memory of oriel_mem_alloc is given back to the system. NULL is fine. */
int oriel_mem_free(struct oriel_mem *mem);

/* Address and length. NULL and 0 for NULL. */
void *oriel_mem_base(const struct oriel_mem *mem);
uint64_t oriel_mem_size(const struct oriel_mem *mem);

/* ================================================================ tokens */

/* Write the token of mem to token[0..capacity): bytes that any rank of the job may receive by any
 * means (message, file, collective) and open. *bytes gets the length, at most
 * ORIEL_TOKEN_BYTES_MAX. TRUNC when capacity is too small; *bytes is set then too. */
int oriel_token_pack(const struct oriel_mem *mem, void *token, size_t capacity, size_t *bytes);

/* Open a token. The same memory may be opened any number of times.
 * Errors: INVAL (truncated, too long, damaged: the checksum covers every bit; of another job or
 * version), GONE (already released), PEER (owner is gone). */
int oriel_token_open(const void *token, size_t bytes, struct oriel_remote **remote);

/* Ask the owner to release the memory behind the token, from any rank, without waiting: from some
 * moment on every access ends with GONE. The owner keeps the bytes until it calls oriel_mem_free.
 * Releasing twice, or what is gone, is fine. */
int oriel_token_release(const void *token, size_t bytes);

/* What the token said. */
struct oriel_remote_info {
    size_t size;         /* in: sizeof; */
    uint64_t bytes;      /* length of the memory */
    uint64_t generation; /* of the registration; never repeats in a process */
    int owner;           /* rank */
    int atomicity;       /* enum oriel_atomicity */
    uint32_t access;     /* ORIEL_ACCESS_ bits */
    uint32_t direct;     /* 1: reached by loads and stores */
};
int oriel_remote_query(const struct oriel_remote *remote, struct oriel_remote_info *info);

/* Close; operations under way go on. NULL is fine. */
int oriel_remote_close(struct oriel_remote *remote);

/* ================================================================ put, get, atomics: blocking */

/* Copy bytes from src to remote + offset. The source is free on return; visible after a flush.
 * bytes may be 0 (src may be NULL then). Errors: RANGE, GONE, PEER, INVAL, STATE. */
int oriel_put(struct oriel_remote *remote, uint64_t offset, const void *src, uint64_t bytes);

/* Copy bytes from remote + offset to dst; the data is there on return. */
int oriel_get(struct oriel_remote *remote, uint64_t offset, void *dst, uint64_t bytes);

enum oriel_atomic {
    ORIEL_ATOMIC_ADD,
    ORIEL_ATOMIC_SWAP,
    ORIEL_ATOMIC_AND,
    ORIEL_ATOMIC_OR,
    ORIEL_ATOMIC_XOR
};

/* Atomic operation on the 4 or 8 bytes at remote + offset (naturally aligned, else INVAL). The
 * value before goes to *old; old may be NULL. */
int oriel_atomic32(struct oriel_remote *remote, uint64_t offset, enum oriel_atomic op,
                   uint32_t operand, uint32_t *old);
int oriel_atomic64(struct oriel_remote *remote, uint64_t offset, enum oriel_atomic op,
                   uint64_t operand, uint64_t *old);

/* Store desired if the value is expected; the value before goes to *old, which may be NULL. */
int oriel_compare_swap32(struct oriel_remote *remote, uint64_t offset, uint32_t expected,
                         uint32_t desired, uint32_t *old);
int oriel_compare_swap64(struct oriel_remote *remote, uint64_t offset, uint64_t expected,
                         uint64_t desired, uint64_t *old);

/* Put, then add `add` to the 8-byte counter at remote + counter (8-aligned): who sees the counter
 * sees the data. Wakes the owner if it waits in oriel_counter_wait. */
int oriel_put_notify(struct oriel_remote *remote, uint64_t offset, const void *src, uint64_t bytes,
                     uint64_t counter, uint64_t add);

/* Wait until the counter (8 aligned bytes in my memory) is at least `at_least`, as unsigned number.
 * *value, if not NULL, gets what was seen. The data of the puts it counts can be read on return.
 * Errors: TIMEOUT, INVAL, RANGE; PEER when a rank of this host is gone before the counter got
 * there, since what it counted on may never come. */
int oriel_counter_wait(const struct oriel_mem *mem, uint64_t offset, uint64_t at_least,
                       int64_t timeout_ns, uint64_t *value);

/* Everything this process has put to (or done atomically at) that rank is visible when it returns.
 * RANK; PEER when it is gone. */
int oriel_flush(int rank);
/* The same for every rank. */
int oriel_flush_all(void);

/* ================================================================ requests and batches */

enum oriel_kind {
    ORIEL_PUT,
    ORIEL_GET,
    ORIEL_PUT_NOTIFY,
    ORIEL_ATOMIC,
    ORIEL_COMPARE_SWAP
};

/* One operation of a batch. Fields not used by its kind are ignored. */
struct oriel_xfer {
    int kind;   /* enum oriel_kind */
    int atomic; /* enum oriel_atomic */
    struct oriel_remote *remote;
    uint64_t offset;
    const void *src;   /* put */
    void *dst;         /* get: landing; atomics: the value before, or NULL */
    uint64_t bytes;    /* atomics: 4 or 8 */
    uint64_t operand;  /* atomics; put_notify: what is added */
    uint64_t expected; /* compare_swap */
    uint64_t counter;  /* put_notify: offset of the counter */
};

/* How one operation of a batch ended. */
struct oriel_result {
    int error;       /* ORIEL_OK or ORIEL_ERR_ */
    uint32_t crc32c; /* of the moved bytes, when ORIEL_CRC32C was given and error is ORIEL_OK */
    uint64_t bytes;  /* moved; 0 on error */
};

struct oriel_run_opts {
    size_t size;
    int64_t timeout_ns;           /* 0: no deadline; counts from the call */
    struct oriel_result *results; /* [count], written until the request completes; NULL: none */
    uint32_t flags;               /* ORIEL_NOWAIT, ORIEL_CRC32C */
    uint32_t reserved;
};
#define ORIEL_RUN_OPTS_INIT                    \
 {                                             \
  sizeof(struct oriel_run_opts), 0, NULL, 0, 0 \
 }
#define ORIEL_NOWAIT 1u /* AGAIN instead of waiting for room (ORIEL_INFLIGHT) */
#define ORIEL_CRC32C 2u /* checksum each operation (RFC 3720 B.4), off the calling thread */

/* How a request ended. */
struct oriel_status {
    int source; /* of a message */
    int tag;    /* of a message */
    int error;  /* ORIEL_OK or the first operation's ORIEL_ERR_ */
    int cancelled;
    uint64_t bytes;  /* moved by all its operations */
    uint64_t failed; /* operations that ended with an error */
    uint32_t crc32c; /* with ORIEL_CRC32C and one operation */
    uint32_t reserved;
};

/* Start count operations with one completion. ops is copied; the buffers it names belong to the
 * library until the request has settled. count may be 0: the request is complete. Operations of one
 * batch are not ordered. *request is set on ORIEL_OK only. Each operation ends by itself: an error
 * of one does not stop the others, and is reported by the request.
 * Errors of the call itself: INVAL, NOMEM, AGAIN, TIMEOUT (no room before the deadline). */
int oriel_start(const struct oriel_xfer *ops, uint64_t count, const struct oriel_run_opts *opts,
                struct oriel_request **request);

/* The same and wait. Returns the first error. With a deadline the buffers are the caller's again on
 * return, also after TIMEOUT. */
int oriel_run(const struct oriel_xfer *ops, uint64_t count, const struct oriel_run_opts *opts);

/* Shorthands for one operation of request form. */
int oriel_put_start(struct oriel_remote *remote, uint64_t offset, const void *src, uint64_t bytes,
                    struct oriel_request **request);
int oriel_get_start(struct oriel_remote *remote, uint64_t offset, void *dst, uint64_t bytes,
                    struct oriel_request **request);

/* Wait until the request has completed, free it and set *request to NULL. A NULL *request is
 * complete. status may be NULL. Returns the request's error, or TIMEOUT: when the wait's own
 * timeout passed *request stays; when the deadline given at start passed the request is complete,
 * but its buffers stay leased until it has settled, and it is kept until then (see
 * oriel_request_settled). */
int oriel_wait(struct oriel_request **request, struct oriel_status *status);
int oriel_wait_for(struct oriel_request **request, int64_t timeout_ns, struct oriel_status *status);

/* Look once and make progress: *done is 1 when it has completed (then as oriel_wait), else 0. */
int oriel_test(struct oriel_request **request, int *done, struct oriel_status *status);

/* Wait until one of count requests has completed; *index is its place, count when all are NULL. */
int oriel_wait_any(struct oriel_request **requests, uint64_t count, int64_t timeout_ns,
                   uint64_t *index, struct oriel_status *status);

/* Wait for all. statuses [count] may be NULL. Returns the first error. */
int oriel_wait_all(struct oriel_request **requests, uint64_t count, struct oriel_status *statuses);

/* True when no operation of the request touches its buffers any more. True for NULL. */
bool oriel_request_settled(struct oriel_request *request);

/* Give the request up; it goes on and frees itself. *request becomes NULL. */
int oriel_request_free(struct oriel_request **request);

/* ================================================================ collectives */

/* Collective over the team: every rank calls, in the same order. Errors: PEER names the rank that
 * is gone; INVAL, TYPE, RANK are found locally, before anything is sent. */

/* No rank leaves before every rank has entered. Does not flush puts. */
int oriel_barrier(struct oriel_team *team);

/* Copy count elements from root's buffer to everybody's. count, type and root agree on all ranks.
 */
int oriel_bcast(void *buffer, uint64_t count, const struct oriel_type *type, int root,
                struct oriel_team *team);

/* Reduce count elements of all ranks and give everybody the result, bitwise the same on every rank
 * and from run to run: operands are taken in rank order. send may be ORIEL_IN_PLACE. */
int oriel_allreduce(const void *send, void *recv, uint64_t count, const struct oriel_type *type,
                    const struct oriel_op *op, struct oriel_team *team);

/* ================================================================ what is going on */

/* Version of the library that is loaded, "0.1.0"; major, minor, patch may be NULL. */
const char *oriel_version(int *major, int *minor, int *patch);

/* Name ("ORIEL_ERR_GONE") and one line of text of a code. Never NULL. */
const char *oriel_error_name(int code);
const char *oriel_error_text(int code);
/* The last error of this thread in words: what was wrong, what would be right. "" when there was
 * none. Valid until this thread's next failing call. */
const char *oriel_error_detail(void);

/* Counters of this process: i from 0; RANGE behind the last one. */
struct oriel_counter {
    size_t size; /* in: sizeof */
    const char *name;
    const char *unit;
    const char *text;
    uint64_t value;
};
int oriel_counter_query(size_t i, struct oriel_counter *counter);

/* Where the value of a setting comes from. */
enum oriel_origin {
    ORIEL_ORIGIN_DEFAULT,
    ORIEL_ORIGIN_ENVIRONMENT,
    ORIEL_ORIGIN_PROGRAM /* the options of oriel_init */
};

/* Settings: what there is and what holds now; before oriel_init, and after one that failed, what it
 * finds. i from 0; RANGE behind the last one. Strings live as long as the library; value and
 * problem until the next call of this function in this thread. */
struct oriel_setting_info {
    size_t size;      /* in: sizeof */
    const char *name; /* "ORIEL_SPIN_TIME" */
    const char *value;
    const char *fallback; /* the default */
    const char *range;
    const char *text;    /* when to change it */
    const char *problem; /* what is wrong with the value, in words; NULL: nothing */
    int origin;          /* enum oriel_origin */
};
int oriel_setting_query(size_t i, struct oriel_setting_info *info);

/* All settings as text, as the table of the README, or as a section of the man page. Works before
 * oriel_init. TRUNC when capacity is too small; *bytes gets the length needed (without the final
 * zero) in any case. */
enum oriel_form {
    ORIEL_FORM_TEXT,
    ORIEL_FORM_MARKDOWN,
    ORIEL_FORM_MAN
};
int oriel_settings_print(enum oriel_form form, char *text, size_t capacity, size_t *bytes);

enum oriel_transport_state {
    ORIEL_TRANSPORT_ABSENT,   /* not in this build, or nothing on this machine it could use */
    ORIEL_TRANSPORT_DISABLED, /* left out by a setting */
    ORIEL_TRANSPORT_IDLE,     /* would be used, and is not started */
    ORIEL_TRANSPORT_FAILED,   /* could not be started */
    ORIEL_TRANSPORT_CHOSEN
};

/* Transports: those this version knows of, what became of each and why. Works before oriel_init,
 * and after one that failed. i from 0; RANGE behind the last one. reason is valid until the next
 * call of this function in this thread. */
struct oriel_transport_info {
    size_t size;        /* in: sizeof */
    const char *name;   /* "shm" */
    const char *level;  /* how far it reaches: "process", "host", "NIC" or "network" */
    const char *reason; /* one line, never NULL */
    int state;          /* enum oriel_transport_state */
    int error;          /* of FAILED: the code; else ORIEL_OK */
};
int oriel_transport_query(size_t i, struct oriel_transport_info *info);

/* Ports that networks could use: interfaces and cards, what became of each and why, the better ones
 * first. After oriel_init in a job with networks: those it has considered. Else what it would find;
 * nothing is opened for the answer. i from 0; RANGE behind the last one, or the error of a search
 * that found none. Strings are valid until the next call of this function in this thread; "" and 0
 * where nothing is known. */
struct oriel_nic_info {
    size_t size;           /* in: sizeof */
    const char *name;      /* "eth1" */
    const char *transport; /* "ofi" */
    const char *provider;  /* of libfabric: "net" */
    const char *address;   /* "10.77.0.1/16" */
    const char *network;   /* "10.77.0.0/16" */
    const char *pci;       /* "0000:00:05.0" */
    const char *reason;    /* one line, never NULL */
    int state;             /* enum oriel_transport_state */
    uint32_t ordered;      /* 1: what one rank sends another becomes visible in that order */
    uint32_t needs_target; /* 1: the target's CPU moves the data */
    uint64_t mbit_per_s;   /* of the link; 0: unknown */
    uint64_t message_max;  /* bytes of the largest message; 0: not open */
    uint64_t transfer_max; /* the same of a put or get; UINT64_MAX: no limit */
};
int oriel_nic_query(size_t i, struct oriel_nic_info *info);

/* Facts: how the library was built ("build"), where it runs ("topology"), what bounds it
 * ("limits"), how this job came to be ("job"), what its network can do ("network") and how its
 * collectives work ("collectives"). Works before oriel_init, and after one that failed, as far as
 * each is known then. i from 0; RANGE behind the last one. Names and groups may grow in number;
 * value and text are for people, valid until the next call of this function in this thread. */
struct oriel_fact {
    size_t size;       /* in: sizeof */
    const char *group; /* "topology" */
    const char *name;  /* "l2_cache" */
    const char *value; /* in words: "1 MiB" */
    const char *text;  /* what it is, and why it is so; never NULL */
    const char *unit;  /* of number: "bytes"; NULL: the value is no number */
    uint64_t number;   /* UINT64_MAX: no limit */
};
int oriel_fact_query(size_t i, struct oriel_fact *fact);

#ifdef __cplusplus
}
#endif

#endif
