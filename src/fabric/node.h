/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The node segment: one sparse memory file shared by the ranks of a host, mapped once by each.
 * Made by the lowest local rank, opened by the others from the creator's descriptor; nothing is
 * left by name. Holds, in this order: header, a control block per rank, the flag matrix of world's
 * collectives, hazard lines, stage blocks, the registration table, rings and cells of the shm
 * transport, and one arena per rank for memory that peers load and store directly.
 *
 * Who writes what is said at each structure. All shared words are C11 atomics with explicit orders.
 * Everything here survives kill -9 of any rank at any point: locks name their holder, liveness is
 * a file lock that the kernel drops, and a dead rank's lines are skipped.
 */
#ifndef FABRIC_NODE_H
#define FABRIC_NODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

#define FAB_NODE_VERSION       3
#define FAB_NODE_RANKS_MAX     1024
#define FAB_HAZARD_SLOTS       64 /* lines per rank; the last one is shared by threads beyond 63 */
#define FAB_REGS_MAX           65536 /* registrations alive per rank */
#define FAB_FLAG_BYTES         56    /* payload of a flag line */
#define FAB_FLAG_SETS          6 /* three levels (up, across, down), each double-buffered by parity */
#define FAB_STAGE_STRIDE       (8u << 20) /* address space of a rank's stage */
#define FAB_STAGE_READY        (68u << 10) /* bytes at its start that exist once the rank has joined */
#define FAB_NODE_ADDRESS_BYTES 48
#define FAB_NODE_WORDS_BYTES   128         /* of what a rank that gave up says, its end included */
#define FAB_RING_STRIDE        8192        /* address space of a ring */
#define FAB_CELL_STRIDE        (16u << 20) /* address space of a rank's cells */

/* ---------------------------------------------------------------- shared structures */

/* Who sleeps: a caller, woken by whatever is stored for it or for everybody; the agent, which waits
 * for nothing but what is addressed to its rank, so that a barrier does not wake every agent. */
enum fab_sleeper {
    FAB_CALLER,
    FAB_AGENT,
    FAB_SLEEPERS
};

/* An agent that waits for networks sleeps on descriptors; one of them is its bell, a datagram
 * socket that whoever wakes it rings. */
enum fab_bell {
    FAB_BELL_OFF,  /* it sleeps on the futex word */
    FAB_BELL_SET,  /* it sleeps on its bell: who changes this to RUNG rings */
    FAB_BELL_RUNG, /* it wakes, or is about to */
    FAB_BELL_DEAF  /* who was to ring could not */
};

enum fab_rank_state {
    FAB_RANK_ABSENT,
    FAB_RANK_RUNNING,
    FAB_RANK_FINAL,
    FAB_RANK_ABORTED, /* gave up: code and words are valid */
    FAB_RANK_FAILED   /* could not start: words are valid */
};

/* One rank's control block. Lines 0 and 3 to 5 are written by the owner (parked and epoch also by
 * those who wake it), line 1 by peers, line 2 by the owner's threads. */
struct fab_node_ctl {
    /* line 0 */
    _Alignas(64) _Atomic uint32_t state; /* enum fab_rank_state */
    int32_t pid;                         /* in the owner's pid namespace */
    uint64_t start_time;                 /* of that pid: tells a reused pid */
    int32_t rank;                        /* world rank */
    uint32_t pad0;
    /* line 1: parking */
    _Alignas(64) _Atomic uint32_t epoch[FAB_SLEEPERS]; /* futex words */
    _Atomic uint32_t parked[FAB_SLEEPERS]; /* threads of this rank that sleep, or are about to */
    _Atomic uint32_t bell;                 /* enum fab_bell: how the agent sleeps */
    /* line 2: high-water marks, so that scans stay short */
    _Alignas(64) _Atomic uint32_t hazard_high; /* hazard lines ever used */
    _Atomic uint32_t reg_high;    /* slots ever used; the pages of others may not exist */
    _Atomic uint64_t hazard_used; /* bit i: line i belongs to a thread */
    /* line 3 */
    _Alignas(64) _Atomic uint32_t dead;            /* 1: a peer has proved that this rank is gone */
    int32_t code;                                  /* of oriel_abort */
    _Atomic uint32_t address_bytes;                /* stored last, release; 0: not yet written */
    unsigned char address[FAB_NODE_ADDRESS_BYTES]; /* of the owner's shm engine; by the core */
    /* lines 4 and 5 */
    _Alignas(64) char words[FAB_NODE_WORDS_BYTES]; /* stored before the state that they explain */
};

/* Line of one thread: the registration it is touching right now, or 0. Written by that thread only.
 * The rest of the line is private to the thread. */
struct fab_hazard {
    _Alignas(64) _Atomic uint64_t word;
    uint64_t done[3];  /* puts, gets, atomics since start: every 64th looks at the time */
    uint64_t bytes[2]; /* put, got */
    uint64_t checked;  /* ticks of the last liveness check */
    uint32_t shared;   /* nonzero: guarded by the process's overflow lock; constant after join */
    uint32_t pad;
};

/* One registration. Written by its owner. gen is odd while the registration lives. */
struct fab_reg {
    _Atomic uint64_t gen;
    uint64_t addr; /* direct: offset in the segment; private: address in the owner */
    uint64_t bytes;
    uint32_t access; /* enum fab_access bits */
    uint32_t direct; /* 1: addr is an offset of the segment */
};

/* One rank's line in the flag matrix: one writer, many readers. seq is stored last, release. */
struct fab_flag {
    _Alignas(64) _Atomic uint64_t seq;
    unsigned char data[FAB_FLAG_BYTES];
};

struct fab_node_header {
    uint64_t magic;
    uint32_t version;
    uint32_t nranks;
    uint64_t job;
    uint64_t bytes;        /* of the whole file */
    uint64_t arena_stride; /* bytes of each rank's arena */
    uint64_t cookie;       /* random: no other node's bells have the names of ours */
    uint64_t pad0[2];
    _Alignas(64) _Atomic uint32_t ready; /* 1: the header is complete */
    uint32_t pad1[15];
    _Alignas(64) _Atomic uint32_t nparked[FAB_SLEEPERS]; /* threads parked on this node */
    uint32_t pad2[14];
    _Alignas(64) _Atomic uint32_t deaths; /* bumped when some rank is proved dead */
    uint32_t pad3[15];
};

/* ---------------------------------------------------------------- this process's handle */

struct fab_node {
    unsigned char *base; /* the mapping */
    uint64_t bytes;
    struct fab_node_header *header;
    struct fab_node_ctl *ctl;   /* [nranks] */
    struct fab_hazard *hazards; /* [nranks][FAB_HAZARD_SLOTS] */
    struct fab_reg *regs;       /* [nranks][FAB_REGS_MAX] */
    struct fab_flag *flags;     /* [FAB_FLAG_SETS][nranks] all-to-all flags */
    struct fab_flag *done;      /* [nranks] consumed sequence of rooted operations */
    unsigned char *stage;       /* [nranks][FAB_STAGE_STRIDE] */
    unsigned char *rings;       /* shm transport: rings_bytes for every (to, from) */
    unsigned char *cells;       /* shm transport: cells_bytes for every rank */
    unsigned char *arena;       /* [nranks][arena_stride] */
    uint64_t ring_stride;
    uint64_t cell_stride;
    uint64_t arena_stride;
    int fd; /* owns; for reserving, releasing and liveness */
    int nranks;
    int local;                  /* my index */
    int creator;                /* 1: I made the segment */
    char path[64];              /* of a named segment until unlinked, else "" */
    struct fab_node_priv *priv; /* owns: arena allocator, free slots, locks (node.c) */
};

/* What the others need to open the segment: travels in the bootstrap record or a blob. */
struct fab_node_ticket {
    int32_t pid;
    int32_t fd;
    uint64_t job;
    uint8_t host[16]; /* orl_sys_host_id of the creator */
    char path[64];    /* named fallback, or "" */
};

/* Make the segment for nranks local ranks. arena_bytes: address space per rank (rounded up).
 * Errors: NOMEM with the size needed and what limits it. */
int fab_node_create(struct fab_node **node, int nranks, uint64_t job, uint64_t arena_bytes,
                    struct fab_node_ticket *ticket) ORL_MUST_CHECK;
/* Open it in another local rank. */
int fab_node_attach(struct fab_node **node, const struct fab_node_ticket *ticket) ORL_MUST_CHECK;
/* Become local rank `local` (world rank `rank`): control block, liveness lock, hot pages. */
int fab_node_join(struct fab_node *node, int local, int rank) ORL_MUST_CHECK;
/* Say for good that local rank `local`, which is this process, gives up (ABORTED with a code, or
 * FAILED, perhaps before it has joined), with words for its peers, and wake them. */
void fab_node_give_up(struct fab_node *node, int local, enum fab_rank_state state, int code,
                      const char *words);
/* Remove the name of a named segment; every local rank has attached. */
void fab_node_unlink(struct fab_node *node);
/* Leave (state FINAL) and unmap. No thread of this process uses the node any more. In a child of
 * fork it unmaps only: the rank is the parent's. Accepts NULL. */
void fab_node_close(struct fab_node *node);

/* Make the pages of a part of the segment exist, for parts that are not reserved from the start:
 * the registration table, rings, cells and arenas. Whoever writes a part first reserves it; nobody
 * touches it before. Control blocks and flags exist, and of joined ranks the hazard lines and the
 * first FAB_STAGE_READY bytes of the stage. Cheap to repeat. Errors: NOMEM with the size needed and
 * what limits it. */
int fab_node_reserve(struct fab_node *node, const void *part, uint64_t bytes) ORL_MUST_CHECK;
/* Map reserved pages into this process now, so that the first touch takes no fault. Never fails:
 * pages it cannot map are mapped at their first touch. */
void fab_node_populate(struct fab_node *node, const void *part, uint64_t bytes);

/* Bytes of a segment of that shape, most of it never touched. */
uint64_t fab_node_lay_bytes(int nranks, uint64_t arena_bytes);
/* A joined node over memory of the caller's, zeroed by the caller before its first use; for tests
 * with all ranks in one process: there is no file and every rank counts as alive. */
int fab_node_lay(struct fab_node *node, void *memory, int nranks, uint64_t arena_bytes,
                 int local) ORL_MUST_CHECK;
void fab_node_unlay(struct fab_node *node);

/* ---------------------------------------------------------------- arena */

/* Memory from my arena, aligned to at least 64 (2 MiB from 1 MiB up, with huge pages where the
 * system offers them), reserved so that touching it can never raise SIGBUS. Zeroed. Errors: NOMEM
 * naming the bytes asked, what is free and the limit. */
int fab_node_alloc(struct fab_node *node, uint64_t bytes, void **memory) ORL_MUST_CHECK;
/* Give it back to the system. Accepts NULL. INVAL when it did not come from fab_node_alloc, or was
 * given back before. */
int fab_node_free(struct fab_node *node, void *memory) ORL_MUST_CHECK;
/* Whether the whole range lies in my arena. */
bool fab_node_holds(const struct fab_node *node, const void *memory, uint64_t bytes);

/* ---------------------------------------------------------------- registrations and hazards */

/* Enter a range in my registration table. Slot and generation name it for ever: a slot's next use
 * has another generation. Errors: NOMEM when FAB_REGS_MAX are alive. */
int fab_node_reg(struct fab_node *node, const void *base, uint64_t bytes, unsigned access,
                 uint32_t *slot, uint64_t *gen) ORL_MUST_CHECK;
/* End it: bumps the generation, then waits until no live thread of any rank has it in its hazard
 * line. Afterwards nobody touches the memory, and every later access is GONE. */
void fab_node_dereg(struct fab_node *node, uint32_t slot);

/* The word that names (owner, slot, generation) in a hazard line; never 0. */
static inline uint64_t fab_hazard_word(unsigned local, uint32_t slot, uint64_t gen)
{
    return (uint64_t)1 << 63 | (uint64_t)local << 48 | (uint64_t)slot << 32 | (gen & 0xffffffffu);
}

/* The line this thread used last, of whichever node; NULL before the first claim and after its node
 * was closed. Read it through fab_hazard_of. */
extern ORL_TLS struct fab_hazard *fab_hazard_mine;
/* This thread's line of the node, taken on first use and given back at thread exit. Never NULL. The
 * node is joined. */
struct fab_hazard *fab_hazard_claim(struct fab_node *node);
/* `shared` lines are locked by enter and unlocked by leave. */
void fab_hazard_lock_shared(struct fab_hazard *line);
void fab_hazard_unlock_shared(struct fab_hazard *line);

/* The same as fab_hazard_claim, without a call when the thread stays with one node. */
static inline struct fab_hazard *fab_hazard_of(struct fab_node *node)
{
    struct fab_hazard *lines = node->hazards + (size_t)node->local * FAB_HAZARD_SLOTS;
    uintptr_t place = (uintptr_t)fab_hazard_mine - (uintptr_t)lines;

    if (ORL_LIKELY(place < FAB_HAZARD_SLOTS * sizeof(*lines))) {
        return fab_hazard_mine;
    }
    return fab_hazard_claim(node);
}

/* Publish that this thread touches the registration, then prove that it still lives. False: it is
 * gone, nothing is published. The exchange is the full fence that fab_node_dereg pairs with: either
 * the owner's scan sees our word, or we see its new generation. For lines that are not shared. */
static inline bool fab_hazard_name(struct fab_hazard *line, uint64_t word,
                                   const _Atomic uint64_t *live, uint64_t gen)
{
    (void)atomic_exchange_explicit(&line->word, word, memory_order_seq_cst);
    if (ORL_LIKELY(atomic_load_explicit(live, memory_order_seq_cst) == gen)) {
        return true;
    }
    atomic_store_explicit(&line->word, 0, memory_order_release);
    return false;
}

/* The same for any line. */
static inline bool fab_hazard_enter(struct fab_hazard *line, uint64_t word,
                                    const _Atomic uint64_t *live, uint64_t gen)
{
    if (ORL_UNLIKELY(line->shared != 0)) {
        fab_hazard_lock_shared(line);
    }
    bool lives = fab_hazard_name(line, word, live, gen);
    if (ORL_UNLIKELY(!lives && line->shared != 0)) {
        fab_hazard_unlock_shared(line);
    }
    return lives;
}

static inline void fab_hazard_leave(struct fab_hazard *line)
{
    atomic_store_explicit(&line->word, 0, memory_order_release);
    if (ORL_UNLIKELY(line->shared != 0)) {
        fab_hazard_unlock_shared(line);
    }
}

/* ---------------------------------------------------------------- liveness */

/* False when that rank's process has ended without leaving (proved by its file lock, which the
 * kernel drops; zombies are dead): marks ctl.dead, bumps header.deaths and wakes everybody, once.
 * True while it runs, before it has joined and after it has left in order. A system call. */
bool fab_node_is_alive(struct fab_node *node, int local);
/* Cheap: somebody has already proved this rank dead. */
static inline bool fab_node_is_dead(const struct fab_node *node, int local)
{
    return atomic_load_explicit(&node->ctl[local].dead, memory_order_acquire) != 0;
}
/* Look at every rank once; returns how many are newly found dead. */
int fab_node_check_all(struct fab_node *node);

/* ---------------------------------------------------------------- parking */

/* Sleep until woken or timeout_ns passed. Protocol: fab_node_park_begin announces the sleeper (a
 * full fence), the caller looks once more for what it waits for, then either park_sleep or
 * park_cancel. A waker stores, then calls fab_node_wake, which fences before it looks. */
uint32_t fab_node_park_begin(struct fab_node *node, enum fab_sleeper who);
void fab_node_park_sleep(struct fab_node *node, enum fab_sleeper who, uint32_t epoch,
                         uint64_t timeout_ns);
void fab_node_park_cancel(struct fab_node *node, enum fab_sleeper who);

/* The agent's other way to sleep, with a bell among the descriptors it polls. Make the bell: fd
 * becomes readable when a peer rings; the node owns it. Errors: SYS, when the system refuses. */
int fab_node_bell_open(struct fab_node *node, int *fd) ORL_MUST_CHECK;
/* Nobody sleeps on it any more. Idempotent. */
void fab_node_bell_close(struct fab_node *node);
/* In place of fab_node_park_begin: the caller looks once more for what it waits for, polls, and
 * calls fab_node_bell_end in any case. Of one thread. */
void fab_node_bell_begin(struct fab_node *node);
void fab_node_bell_end(struct fab_node *node);
/* Some peer could not ring: it lives in another network namespace. Sleep short from now on. */
bool fab_node_bell_is_deaf(const struct fab_node *node);

/* Wakes one kind of sleeper of a rank; the caller has fenced after its store. */
void fab_node_wake_one(struct fab_node *node, int local, enum fab_sleeper who);
void fab_node_wake_slow(struct fab_node *node, int local);
/* Something that `local`, or its agent, may wait for has been stored. local -1: that callers of any
 * rank may wait for. */
static inline void fab_node_wake(struct fab_node *node, int local)
{
    const struct fab_node_header *header = node->header;

    atomic_thread_fence(memory_order_seq_cst);
    uint32_t sleepers = atomic_load_explicit(&header->nparked[FAB_CALLER], memory_order_relaxed);
    if (local >= 0) {
        sleepers |= atomic_load_explicit(&header->nparked[FAB_AGENT], memory_order_relaxed);
    }
    if (ORL_UNLIKELY(sleepers != 0)) {
        fab_node_wake_slow(node, local);
    }
}

_Static_assert(sizeof(struct fab_node_ctl) == 384, "six lines");
_Static_assert(sizeof(struct fab_hazard) == 64, "one line");
_Static_assert(sizeof(struct fab_flag) == 64, "one line");
_Static_assert(sizeof(struct fab_reg) == 32, "half a line");

#endif
