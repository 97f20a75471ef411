/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract test: what every transport must do, as cases that run unchanged on each row of
 * ct_rows. A case talks to fabric.h only. Two sides, a and b, live in one process and progress
 * by hand, so that a case decides who polls and when; where a peer has to die, b is a child.
 *
 * A case records what it finds wrong with ct_check and returns; the first finding is the verdict.
 * Both the Criterion front end (test_contract.c) and the planted faults (test_mutants.c) run
 * cases through ct_run.
 */
#ifndef TESTS_FABRIC_CONTRACT_H
#define TESTS_FABRIC_CONTRACT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "fabric/fabric.h"

#define CT_GUARD   256 /* bytes before and behind every range that must stay as they are */
#define CT_MSG_A   9   /* handler of messages that go to side a */
#define CT_MSG_B   5   /* handler of messages that go to side b */
#define CT_STREAMS 8   /* independent message sequences of an inbox */
#define CT_KIB     ((size_t)1024)
#define CT_MIB     (CT_KIB * CT_KIB)

struct ct_rig;
struct ct_rx_note;

/* ---------------------------------------------------------------- rows and cases */

enum ct_row_flags {
    CT_ROW_ARENA = 1, /* b's memory comes from the node arena; else it is private */
    CT_ROW_FORK = 2   /* b can be another process and die */
};

/* One line per way of reaching a peer. */
struct ct_row {
    const char *name;
    const char *transports;           /* list for fab_open; its last name is the engine used */
    const char *copy;                 /* value of ORIEL_SHM_COPY, NULL where it means nothing */
    const char *provider;             /* value of ORIEL_OFI_PROVIDER, likewise */
    void (*open)(struct ct_rig *rig); /* makes the two fabrics, or one that talks to itself */
    unsigned flags;                   /* enum ct_row_flags */
    size_t lost;                      /* heap bytes that a library below loses with each rig */
};

extern const struct ct_row ct_rows[];
extern const size_t ct_nrows;

enum ct_case_flags {
    CT_CASE_OWN_RIG = 1, /* opens what it needs itself; rig has its row only */
    CT_CASE_FORK = 2     /* only for rows whose peer can be another process */
};

struct ct_case {
    const char *name;
    void (*run)(struct ct_rig *rig);
    unsigned flags; /* enum ct_case_flags */
};

extern const struct ct_case ct_cases[];
extern const size_t ct_ncases;

const struct ct_case *ct_case_find(const char *name);
const struct ct_row *ct_row_find(const char *name);
/* Run one case on one row. NULL: it holds; else what was found, in static memory. One a process. */
const char *ct_run(const struct ct_case *test, const struct ct_row *row);

enum ct_result {
    CT_HOLDS,
    CT_FOUND,   /* text says what */
    CT_CRASHED, /* text says by which signal */
    CT_HUNG     /* not over after `seconds` */
};
/* ct_run in a child that calls prepare(arg) first and ends at the first finding. */
enum ct_result ct_run_child(const struct ct_case *test, const struct ct_row *row,
                            void (*prepare)(void *arg), void *arg, unsigned seconds, char *text,
                            size_t cap);

/* Called with the first finding, on the thread that made it; may end the process. */
extern void (*ct_finding_hook)(const char *text);
/* Called for each engine right after fab_open, before any endpoint: where faults are planted. */
extern void (*ct_engine_hook)(struct fab_engine *engine);
/* How long a wait goes on without any event before it counts as lost. */
extern uint64_t ct_patience_ns;

/* ---------------------------------------------------------------- findings */

/* Record a finding unless ok. The first one stays. Returns ok. Any thread. */
bool ct_check(bool ok, const char *format, ...) ORL_PRINTF(2, 3);
/* The first finding, or NULL. */
const char *ct_finding(void);
static inline bool ct_is_fine(void)
{
    return ct_finding() == NULL;
}

/* ---------------------------------------------------------------- the rig */

struct ct_side {
    struct fab fabric;
    struct fab *fab; /* &fabric, or the other side's where one talks to itself */
    struct fab_engine *engine;
    struct fab_node *node;
};

/* Messages of one side, checked on arrival: stream, sequence, size and every byte. */
struct ct_inbox {
    struct ct_rig *rig;
    uint64_t next[CT_STREAMS]; /* sequence expected next on each stream */
    _Atomic uint64_t count;    /* messages so far */
    /* Called after the checks, may post or keep; NULL: nothing more. */
    void (*hook)(struct ct_inbox *inbox, struct fab_rx *rx, unsigned stream, uint64_t seq);
    void *user;
};

struct ct_rig {
    const struct ct_row *row;
    struct ct_side a;
    struct ct_side b;
    struct fab_ep *ab;  /* from a to b */
    struct fab_ep *ab2; /* a second one, independent */
    struct fab_ep *ba;  /* back */
    struct ct_inbox inbox_a;
    struct ct_inbox inbox_b;
    atomic_bool b_sleeps; /* ct_progress leaves b alone (and a, where they are one) */
    bool is_threaded;     /* several threads: no check that needs a quiet endpoint */
    pid_t peer;           /* child that is side b, 0 when b lives here */
    int peer_socket;
};

void ct_open_loop(struct ct_rig *rig);      /* one fabric, endpoints lead back to it */
void ct_open_loop_node(struct ct_rig *rig); /* the same, with a node of one rank */
void ct_open_node(struct ct_rig *rig);      /* two local ranks of one node in this process */
void ct_open_network(struct ct_rig *rig);   /* two fabrics that share nothing */

/* Open fabrics, endpoints and handlers. On a finding the rig is left as it is. */
void ct_rig_open(struct ct_rig *rig, const struct ct_row *row);
/* Flush, close all. Does nothing after a finding: the process ends anyway. */
void ct_rig_close(struct ct_rig *rig);
bool ct_ep_open(struct ct_side *from, struct ct_side *to, const char *label, struct fab_ep **ep);
/* The settings of a row. */
void ct_load_settings(const struct ct_row *row);
/* Settings of the row, then one fabric over node. */
bool ct_side_open(struct ct_side *side, const struct ct_row *row, struct fab_node *node);

/* Poll every side that is awake. Returns events. */
int ct_progress(struct ct_rig *rig);
typedef bool (*ct_ready_fn)(void *arg);
/* Progress until is_ready(arg), or until patience ends: false. */
bool ct_until(struct ct_rig *rig, ct_ready_fn is_ready, void *arg);
/* Progress until the transport has been silent for a while. */
void ct_settle(struct ct_rig *rig);
/* Stop an endpoint; done functions may run meanwhile. */
void ct_ep_stop(struct fab_ep *ep);

/* ---------------------------------------------------------------- memory */

enum ct_place {
    CT_AT_A, /* local memory of side a, private */
    CT_AT_B  /* memory of side b, of the row's sort, with a key for ab */
};

struct ct_mem {
    struct ct_rig *rig;
    enum ct_place place;
    unsigned char *block; /* owns: guard, base, guard */
    unsigned char *base;
    size_t bytes;
    struct fab_region *region;
    struct fab_rkey key; /* for ab */
    bool has_key;
};

bool ct_mem_open(struct ct_rig *rig, enum ct_place place, size_t bytes, unsigned access,
                 struct ct_mem *mem);
void ct_mem_close(struct ct_mem *mem);
/* A key for another endpoint; close with fab_rkey_close. */
int ct_mem_key(const struct ct_mem *mem, struct fab_ep *ep, struct fab_rkey *key);

void ct_fill(void *p, size_t n, unsigned seed);
/* True when the n bytes are what ct_fill wrote. */
bool ct_is_filled(const void *p, size_t n, unsigned seed);
/* True when all n bytes are `byte`. */
bool ct_is_byte(const void *p, size_t n, unsigned char byte);

/* ---------------------------------------------------------------- operations */

/* Counts of a group of operations. */
struct ct_tally {
    _Atomic uint32_t posted;
    _Atomic uint32_t done;
    _Atomic uint32_t failed; /* of done: with a status other than 0 */
    _Atomic int status;      /* the last status other than 0 */
};

struct ct_op {
    struct fab_op op;
    struct ct_tally *tally;
    void (*then)(struct ct_op *op); /* runs inside done, after the checks */
    void *arg;                      /* of then */
    uint64_t index;                 /* of then */
    uint32_t times;                 /* done calls */
    uint32_t place;                 /* how many of the tally were done before */
    int status;
};

/* What every op and handler of the contract runs first: checks the rules of an upcall. */
void ct_on_done(struct fab_op *op, int status);
void ct_on_message(void *user, struct fab_rx *rx);
/* Marks this thread as inside a post or short call. */
void ct_posting_begin(void);
void ct_posting_end(void);

void ct_op_put(struct ct_op *op, struct ct_tally *tally, const struct fab_rkey *key,
               uint64_t offset, const struct ct_mem *src, size_t at, uint64_t bytes);
void ct_op_get(struct ct_op *op, struct ct_tally *tally, const struct fab_rkey *key,
               uint64_t offset, const struct ct_mem *dst, size_t at, uint64_t bytes);
void ct_op_amo(struct ct_op *op, struct ct_tally *tally, const struct fab_rkey *key,
               uint64_t offset, enum fab_amo amo, unsigned width, uint64_t operand);
/* The old value goes to dst. */
void ct_op_fetch(struct ct_op *op, const struct ct_mem *dst, size_t at);
/* Turn a put into a put_notify. */
void ct_op_notify(struct ct_op *op, uint64_t counter, uint64_t add);
void ct_op_send(struct ct_op *op, struct ct_tally *tally, unsigned handler, uint64_t header,
                const struct ct_mem *src, size_t at, uint64_t bytes);
void ct_op_flush(struct ct_op *op, struct ct_tally *tally);

void ct_post(struct fab_ep *ep, struct ct_op *op);
void ct_post_chain(struct fab_ep *ep, struct ct_op *ops, size_t n);
void ct_flush(struct fab_ep *ep, struct ct_op *op);
int ct_put_short(struct ct_rig *rig, struct fab_ep *ep, const struct fab_rkey *key, uint64_t offset,
                 const void *src, size_t bytes);
int ct_send_short(struct ct_rig *rig, struct fab_ep *ep, unsigned handler, uint64_t header,
                  const void *src, size_t bytes);
/* Same, repeated with progress while the answer is AGAIN. */
int ct_put_short_wait(struct ct_rig *rig, struct fab_ep *ep, const struct fab_rkey *key,
                      uint64_t offset, const void *src, size_t bytes);

/* Wait for every op of the tally. False, with a finding, when some are lost. */
bool ct_wait(struct ct_rig *rig, struct ct_tally *tally);
/* ct_wait, then none may have failed. */
bool ct_wait_fine(struct ct_rig *rig, struct ct_tally *tally);
/* Post one op and wait; its status. */
int ct_do(struct ct_rig *rig, struct fab_ep *ep, struct ct_op *op);
/* Flush an endpoint and wait; the status. */
int ct_flush_wait(struct ct_rig *rig, struct fab_ep *ep);

/* ---------------------------------------------------------------- messages */

/* A header that says what must arrive: payload is ct_fill with ct_seed(stream, seq). */
uint64_t ct_header(unsigned stream, uint64_t seq, size_t bytes);
unsigned ct_seed(unsigned stream, uint64_t seq);
/* Next message of a stream: short when that is possible at once, else posted from src with op. */
void ct_message(struct ct_rig *rig, struct ct_op *op, struct ct_tally *tally, unsigned stream,
                uint64_t seq, const struct ct_mem *src, size_t at, size_t bytes);
/* Wait for `count` messages in all. False, with a finding, when they do not come. */
bool ct_wait_messages(struct ct_rig *rig, struct ct_inbox *inbox, uint64_t count);

/* ---------------------------------------------------------------- a peer that can die */

enum ct_peer_mode {
    CT_PEER_POLLS, /* progresses until it is killed */
    CT_PEER_SLEEPS /* opens everything, then does nothing */
};

/* Like ct_rig_open with b in a child. mem gets a key for memory at b of `bytes` bytes. */
void ct_peer_open(struct ct_rig *rig, const struct ct_row *row, enum ct_peer_mode mode,
                  size_t bytes, struct ct_mem *mem);
void ct_peer_kill(struct ct_rig *rig);
void ct_peer_close(struct ct_rig *rig, struct ct_mem *mem);

/* ---------------------------------------------------------------- what a process holds */

struct ct_holdings {
    size_t fds;
    size_t maps;
    size_t heap_bytes;
};
void ct_holdings_now(struct ct_holdings *holdings);

#endif
