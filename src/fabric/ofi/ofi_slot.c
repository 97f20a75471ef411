/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for outgoing messages, and objects by number. Whatever is sent is copied here first, so
 * that no provider ever holds an address of the user's, and an endpoint can be stopped at once. Two
 * sizes: small ones for control and short data, large ones for pieces of transfers. Chunks are
 * made when first needed and stay. Everything under the engine's tx lock.
 */
#include <stdlib.h>

#include "fabric/ofi/ofi.h"

#define CHUNK_SLOTS 16
#define STAGGER     192 /* neighbours must not share the sets of a cache */

struct ofi_chunk {
    struct ofi_chunk *next;
    unsigned char *memory; /* owns */
    struct fid_mr *mr;
    struct ofi_slot slot[CHUNK_SLOTS];
};

void ofi_slots_dereg(struct ofi_slots *slots)
{
    for (struct ofi_chunk *chunk = slots->chunks; chunk != NULL; chunk = chunk->next) {
        ofi_local_dereg(&chunk->mr);
    }
}

void ofi_slots_fini(struct ofi_slots *slots)
{
    while (slots->chunks != NULL) {
        struct ofi_chunk *chunk = slots->chunks;

        slots->chunks = chunk->next;
        free(chunk->memory);
        free(chunk);
    }
}

static void grow(struct ofi_engine *ofi, struct ofi_slots *slots, bool is_large)
{
    size_t stride = ((slots->bytes + 63) & ~(size_t)63) + STAGGER;
    struct ofi_chunk *chunk;
    void *desc = NULL;

    if (slots->count >= slots->most) {
        return;
    }
    chunk = calloc(1, sizeof(*chunk));
    if (chunk == NULL) {
        (void)!orl_fail(ORL_ERR_NOMEM, "no memory for send buffers");
        return;
    }
    if (posix_memalign((void **)&chunk->memory, ORL_CACHE_LINE, stride * CHUNK_SLOTS) != 0) {
        free(chunk);
        return;
    }
    /* Without it the ones there are must do; when there are none, that is an error at open. */
    if (ofi_local_reg(ofi, chunk->memory, stride * CHUNK_SLOTS, "send buffers", &chunk->mr,
                      &desc) != 0) {
        slots->most = slots->count;
        free(chunk->memory);
        free(chunk);
        return;
    }
    for (size_t i = 0; i < CHUNK_SLOTS; i++) {
        chunk->slot[i].context.use = OFI_USE_SEND;
        chunk->slot[i].is_large = is_large;
        chunk->slot[i].desc = desc;
        chunk->slot[i].data = chunk->memory + i * stride;
        orl_fifo_push(&slots->free, &chunk->slot[i].link);
    }
    chunk->next = slots->chunks;
    slots->chunks = chunk;
    slots->count += CHUNK_SLOTS;
}

int ofi_slots_init(struct ofi_engine *ofi, struct ofi_slots *slots, size_t bytes, uint32_t most)
{
    orl_fifo_init(&slots->free);
    slots->chunks = NULL;
    slots->bytes = bytes;
    slots->count = 0;
    slots->most = most;
    grow(ofi, slots, slots == &ofi->large);
    return slots->count != 0 ? 0 : ORL_ERR_NOMEM;
}

struct ofi_slot *ofi_slot_get(struct ofi_engine *ofi, size_t bytes)
{
    bool is_large = bytes > ofi->small.bytes;
    struct ofi_slots *slots = is_large ? &ofi->large : &ofi->small;

    if (orl_fifo_is_empty(&slots->free)) {
        grow(ofi, slots, is_large);
    }
    struct orl_link *link = orl_fifo_pop(&slots->free);
    return link == NULL ? NULL : container_of(link, struct ofi_slot, link);
}

void ofi_slot_put(struct ofi_engine *ofi, struct ofi_slot *slot)
{
    /* The one used last is in the cache. */
    orl_fifo_push_head(slot->is_large ? &ofi->large.free : &ofi->small.free, &slot->link);
}

/* ---------------------------------------------------------------- numbers */

#define INDEX_BITS 20
#define INDEX_MASK ((1u << INDEX_BITS) - 1)
#define USES_MASK  ((1u << (32 - INDEX_BITS)) - 1)

static int widen(struct ofi_table *table)
{
    uint32_t size = table->size == 0 ? 16 : table->size * 2;
    struct ofi_entry *wider;

    if (size > INDEX_MASK) {
        return orl_fail(ORL_ERR_NOMEM, "%u connections are open, the most of one engine",
                        table->size);
    }
    wider = realloc(table->entry, size * sizeof(*wider));
    if (wider == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for %u connections", size);
    }
    for (uint32_t i = table->size; i < size; i++) {
        wider[i] = (struct ofi_entry){ .uses = 1, .next_free = i + 1 };
    }
    table->entry = wider;
    table->free = table->size;
    table->size = size;
    return 0;
}

int ofi_table_add(struct ofi_table *table, void *object, uint32_t *id)
{
    int status = table->free == table->size ? widen(table) : 0;

    if (status != 0) {
        return status;
    }
    uint32_t i = table->free;
    table->free = table->entry[i].next_free;
    table->entry[i].object = object;
    *id = table->entry[i].uses << INDEX_BITS | i;
    return 0;
}

void ofi_table_del(struct ofi_table *table, uint32_t id)
{
    uint32_t i = id & INDEX_MASK;
    struct ofi_entry *entry = &table->entry[i];

    entry->object = NULL;
    entry->uses = entry->uses == USES_MASK ? 1 : entry->uses + 1;
    entry->next_free = table->free;
    table->free = i;
}

void *ofi_table_get(const struct ofi_table *table, uint32_t id)
{
    uint32_t i = id & INDEX_MASK;

    if (i >= table->size || table->entry[i].uses != id >> INDEX_BITS) {
        return NULL;
    }
    return table->entry[i].object;
}

void ofi_table_fini(struct ofi_table *table)
{
    free(table->entry);
    table->entry = NULL;
    table->size = 0;
    table->free = 0;
}
