/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What only the files node*.c know of a node: the part of the handle that lives in this process's
 * own memory, and the calls between those files. Nobody else includes it.
 */
#ifndef FABRIC_NODE_PRIV_H
#define FABRIC_NODE_PRIV_H

#include <sys/types.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "fabric/node.h"

#define FAB_NODE_MAGIC  UINT64_C(0x65646f6e6c65726f) /* "orelnode" */
#define FAB_HUGE_BYTES  (UINT64_C(2) << 20)
#define FAB_SPACE_MAX   (UINT64_C(64) << 40) /* half of what a 48-bit processor can map */
#define FAB_HEADER_PART UINT64_C(4096)
#define FAB_ARENA_BINS  64

/* [start, end); empty when end is not above start. */
struct fab_span {
    uint64_t start;
    uint64_t end;
};

/* The allocator of my arena: every byte of it belongs to one block, free or used; no two free
 * blocks touch. A page exists exactly when some used block overlaps it, or it is idle. */
struct fab_arena {
    struct orl_lock lock;
    struct orl_list blocks;               /* owns: all, by address */
    struct orl_list bins[FAB_ARENA_BINS]; /* free blocks by the logarithm of their size */
    uint64_t bins_used;                   /* bit i: bin i is not empty */
    struct orl_map used;                  /* start -> block: what fab_node_free accepts */
    uint64_t free_bytes;
    struct fab_span idle; /* pages the last small block left, not given back yet */
};

/* Slots of my part of the registration table. */
struct fab_reg_slots {
    struct orl_lock lock;
    uint32_t *free; /* owns: ring of slots that were used and ended */
    uint32_t head;  /* oldest of them */
    uint32_t nfree;
    uint32_t fresh;    /* first slot never used */
    uint32_t reserved; /* slots whose pages exist */
};

struct fab_node_priv {
    pid_t maker;            /* the process that opened the handle */
    pid_t joiner;           /* the process that joined; 0: none yet */
    struct orl_list handle; /* in the process's list of handles */
    uint64_t device;        /* with inode: which file the handle is of */
    uint64_t inode;
    int bell_fd;                /* owns: my agent's bell; -1: none */
    _Atomic int ring_fd;        /* owns: what I ring others' with; -1: not yet made */
    bool is_deaf;               /* see fab_node_bell_is_deaf */
    int kept_fd;                /* see node.c, "Descriptors" */
    struct fab_node_priv *kept; /* owns */
    struct fab_arena arena;
    struct fab_reg_slots slots;
};

/* node_shape.c */

/* Where each part lies from the start of the segment. */
struct fab_node_shape {
    uint64_t ctl;
    uint64_t hazards;
    uint64_t flags;
    uint64_t done;
    uint64_t stage;
    uint64_t regs;
    uint64_t rings;
    uint64_t cells;
    uint64_t arena;
    uint64_t bytes;
};

struct fab_node_shape fab_node_shape(uint64_t n, uint64_t arena_stride);
/* Fills in everything of the handle that follows from where the segment is mapped. */
void fab_node_lay_out(struct fab_node *node, void *base, int nranks, uint64_t arena_stride);
/* What an arena of that many bytes takes. */
uint64_t fab_node_arena_stride(uint64_t arena_bytes);
/* Address space per rank when the user does not say: see there. */
uint64_t fab_node_automatic_arena(int nranks);

/* node_arena.c */
int fab_arena_init(struct fab_node *node) ORL_MUST_CHECK;
void fab_arena_fini(struct fab_node *node);

/* node_reg.c */
int fab_reg_slots_init(struct fab_node *node) ORL_MUST_CHECK;
void fab_reg_slots_fini(struct fab_node *node);

/* node_bell.c */

/* Ring the bell of a rank's agent. */
void fab_node_ring(struct fab_node *node, int local);
/* Close what rings and is rung. */
void fab_node_bells_fini(struct fab_node *node);

/* node_hazard.c. Take the lines of this node from all threads of the process. */
void fab_hazard_forget(struct fab_node *node);
/* Whether the calling thread itself is in the access that the line shows: waiting is in vain. */
bool fab_hazard_is_mine(const struct fab_node *node, const struct fab_hazard *line);

static inline struct fab_hazard *fab_node_lines(const struct fab_node *node, int local)
{
    return node->hazards + (size_t)local * FAB_HAZARD_SLOTS;
}

static inline unsigned char *fab_node_my_arena(const struct fab_node *node)
{
    return node->arena + (uint64_t)node->local * node->arena_stride;
}

#endif
