/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pool of equal objects, so that the fast path does not call malloc: operations, requests,
 * descriptors. Memory comes in chunks and stays until the end; the object freed last is given
 * out first, while its lines are hot (staging memory that two processes share wants the
 * opposite: use a FIFO there). Each pool has its own lock of rank ORL_RANK_POOL. It neither
 * clears objects nor runs constructors.
 *
 * Builds with ORL_DEBUG fill free objects with a pattern and stop the process when an object
 * is freed twice, belongs to another pool, or was written to while it was free.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stddef.h>

#include "base/attr.h"
#include "base/lock.h"

struct orl_pool_chunk;
struct orl_pool_slot;

struct orl_pool {
    struct orl_lock lock;
    const char *name;              /* borrows */
    struct orl_pool_chunk *chunks; /* owns; newest first; lock */
    struct orl_pool_slot *free;    /* freed objects, newest first; lock */
    unsigned char *fresh;          /* objects of the newest chunk never given out; lock */
    size_t fresh_count;            /* lock */
    size_t size;                   /* bytes of an object as asked for */
    size_t stride;                 /* distance between objects */
    size_t align;
    size_t per_chunk;
    size_t max;  /* most objects alive at once */
    size_t live; /* lock */
    size_t high; /* most ever alive; lock */
};

/*
 * Makes a pool of objects of size bytes, aligned to align (a power of two; 0 for that of a
 * pointer), allocated per_chunk at a time, at most max alive (0 for no limit). Allocates nothing
 * yet. The name is kept, not copied.
 * Errors: INVAL for a zero size or per_chunk, or an align that is no power of two; RANGE when a
 * chunk would exceed the address space.
 */
ORL_MUST_CHECK int orl_pool_init(struct orl_pool *pool, const char *name, size_t size, size_t align,
                                 size_t per_chunk, size_t max);

/* Frees all memory, also of objects still alive, which it logs. Accepts a zeroed pool. */
void orl_pool_fini(struct orl_pool *pool);

/* One object with undefined content; NULL when max are alive or memory is short. Any thread. */
ORL_MUST_CHECK void *orl_pool_alloc(struct orl_pool *pool);

/* Gives an object back. Accepts NULL. Any thread. */
void orl_pool_free(struct orl_pool *pool, void *object);

/* Objects alive now and the most that ever were. Either pointer may be NULL. */
void orl_pool_stats(struct orl_pool *pool, size_t *live, size_t *high);

#endif
