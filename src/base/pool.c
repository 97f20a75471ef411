/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pools: chunks of equal objects, a list of freed ones on top of them, and a mark behind which
 * the newest chunk was never given out (so that a large chunk costs no page it does not use).
 * Called from every layer. Everything below a public function runs under the pool's lock. It
 * returns no chunk to the system before the end.
 *
 * In builds with ORL_DEBUG each object is followed by one word that says whether it is alive,
 * and a free object is filled with POISON behind its list link.
 */
#include "base/pool.h"

#include "base/log.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

#define POISON     0xdb
#define MARK_LIVE  UINT64_C(0x4c49564520202020)
#define MARK_FREE  UINT64_C(0x4652454520202020)
#define MARK_BYTES ((size_t)(ORL_IS_DEBUG ? sizeof(uint64_t) : 0))

/* In front of a chunk's objects. */
struct orl_pool_chunk {
    struct orl_pool_chunk *next;
};

/* What a freed object begins with. */
struct orl_pool_slot {
    struct orl_pool_slot *next;
};

static size_t round_up(size_t n, size_t align)
{
    return (n + align - 1) & ~(align - 1);
}

/* Objects begin behind the chunk's own struct, at their alignment. */
static size_t chunk_head_bytes(const struct orl_pool *pool)
{
    return round_up(sizeof(struct orl_pool_chunk), pool->align);
}

int orl_pool_init(struct orl_pool *pool, const char *name, size_t size, size_t align,
                  size_t per_chunk, size_t max)
{
    const size_t object_max = SIZE_MAX / 4;

    if (align == 0) {
        align = sizeof(void *);
    }
    if (size == 0 || per_chunk == 0 || (align & (align - 1)) != 0) {
        return orl_fail(ORL_ERR_INVAL,
                        "pool %s: size %zu and chunk %zu must be positive, align %zu a power of 2",
                        name, size, per_chunk, align);
    }
    memset(pool, 0, sizeof *pool);
    pool->name = name;
    pool->size = size;
    pool->align = align < sizeof(void *) ? sizeof(void *) : align;
    pool->per_chunk = per_chunk;
    pool->max = max == 0 ? SIZE_MAX : max;
    if (size > object_max || pool->align > object_max) {
        return orl_fail(ORL_ERR_RANGE, "pool %s: objects of %zu bytes do not fit in memory", name,
                        size);
    }
    pool->stride = round_up(round_up(size, sizeof(uint64_t)) + MARK_BYTES, pool->align);
    if (per_chunk > (SIZE_MAX / 2 - pool->align) / pool->stride) {
        return orl_fail(ORL_ERR_RANGE, "pool %s: %zu objects of %zu bytes do not fit in memory",
                        name, per_chunk, size);
    }
    orl_lock_init(&pool->lock, ORL_RANK_POOL, name);
    return ORL_OK;
}

void orl_pool_fini(struct orl_pool *pool)
{
    struct orl_pool_chunk *chunk;

    if (pool == NULL) {
        return;
    }
    if (pool->live != 0) {
        orl_log_warn(ORL_CAT_BASE, "pool %s ends with %zu objects still in use", pool->name,
                     pool->live);
    }
    chunk = pool->chunks;
    while (chunk != NULL) {
        struct orl_pool_chunk *next = chunk->next;

        free(chunk);
        chunk = next;
    }
    orl_lock_fini(&pool->lock);
    memset(pool, 0, sizeof *pool);
}

/* ---- Checks of builds with ORL_DEBUG ---- */

static void insist(bool is_so, const char *what)
{
    if (!is_so) {
        orl_assert_failed(what, __FILE__, __LINE__);
    }
}

static uint64_t *mark_of(const struct orl_pool *pool, void *object)
{
    return (uint64_t *)(void *)((unsigned char *)object + round_up(pool->size, sizeof(uint64_t)));
}

static bool is_of_chunk(const struct orl_pool *pool, struct orl_pool_chunk *chunk,
                        const void *object)
{
    uintptr_t first = (uintptr_t)chunk + chunk_head_bytes(pool);
    uintptr_t at = (uintptr_t)object;

    return at >= first && (at - first) / pool->stride < pool->per_chunk &&
           (at - first) % pool->stride == 0;
}

static bool is_of_pool(const struct orl_pool *pool, const void *object)
{
    struct orl_pool_chunk *chunk = pool->chunks;

    while (chunk != NULL && !is_of_chunk(pool, chunk, object)) {
        chunk = chunk->next;
    }
    return chunk != NULL;
}

static bool is_poison_whole(const struct orl_pool *pool, const void *object)
{
    const unsigned char *byte = object;
    size_t i = sizeof(struct orl_pool_slot);

    while (i < pool->size && byte[i] == POISON) {
        i++;
    }
    return i >= pool->size;
}

static void poison(const struct orl_pool *pool, void *object)
{
    unsigned char *byte = object;

    if (pool->size > sizeof(struct orl_pool_slot)) {
        memset(byte + sizeof(struct orl_pool_slot), POISON,
               pool->size - sizeof(struct orl_pool_slot));
    }
    *mark_of(pool, object) = MARK_FREE;
}

/* ---- Allocation ---- */

static bool grow(struct orl_pool *pool)
{
    size_t align = pool->align < ORL_CACHE_LINE ? ORL_CACHE_LINE : pool->align;
    size_t bytes = chunk_head_bytes(pool) + pool->per_chunk * pool->stride;
    struct orl_pool_chunk *chunk = aligned_alloc(align, round_up(bytes, align));

    if (chunk == NULL) {
        return false;
    }
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    pool->fresh = (unsigned char *)chunk + chunk_head_bytes(pool);
    pool->fresh_count = pool->per_chunk;
    return true;
}

static void *take_freed(struct orl_pool *pool)
{
    struct orl_pool_slot *slot = pool->free;

    if (ORL_IS_DEBUG) {
        insist(*mark_of(pool, slot) == MARK_FREE && is_poison_whole(pool, slot),
               "a pool's free object is untouched");
    }
    pool->free = slot->next;
    return slot;
}

static void *take_fresh(struct orl_pool *pool)
{
    void *object = pool->fresh;

    pool->fresh += pool->stride;
    pool->fresh_count--;
    return object;
}

static void *take(struct orl_pool *pool)
{
    if (pool->live == pool->max) {
        return NULL;
    }
    if (pool->free != NULL) {
        return take_freed(pool);
    }
    if (pool->fresh_count == 0 && !grow(pool)) {
        return NULL;
    }
    return take_fresh(pool);
}

void *orl_pool_alloc(struct orl_pool *pool)
{
    void *object;

    orl_lock(&pool->lock);
    object = take(pool);
    if (object != NULL) {
        pool->live++;
        pool->high = pool->live > pool->high ? pool->live : pool->high;
        if (ORL_IS_DEBUG) {
            *mark_of(pool, object) = MARK_LIVE;
        }
    }
    orl_unlock(&pool->lock);
    return object;
}

void orl_pool_free(struct orl_pool *pool, void *object)
{
    struct orl_pool_slot *slot = object;

    if (object == NULL) {
        return;
    }
    orl_lock(&pool->lock);
    if (ORL_IS_DEBUG) {
        insist(is_of_pool(pool, object), "an object goes back to its own pool");
        insist(*mark_of(pool, object) == MARK_LIVE, "an object goes back to its pool once");
        poison(pool, object);
    }
    slot->next = pool->free;
    pool->free = slot;
    pool->live--;
    orl_unlock(&pool->lock);
}

void orl_pool_stats(struct orl_pool *pool, size_t *live, size_t *high)
{
    orl_lock(&pool->lock);
    if (live != NULL) {
        *live = pool->live;
    }
    if (high != NULL) {
        *high = pool->high;
    }
    orl_unlock(&pool->lock);
}
