/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hash map: open addressing with linear probing in a table of a power of two slots, at most
 * three quarters full. An entry lies in the first free slot at or behind its home, and a delete
 * pulls later entries of the same run forward, so runs never hold dead slots and a map that
 * lives long does not slow down. Callers bring their own lock.
 */
#include "base/map.h"

#include "base/status.h"

#include <stdlib.h>

#define FIRST_SLOTS ((size_t)16)

/* 2^64 divided by the golden ratio, made odd: neighbouring keys land far apart. */
#define SPREAD UINT64_C(0x9e3779b97f4a7c15)

static size_t home_of(const struct orl_map *map, uint64_t key)
{
    uint64_t mixed = key * SPREAD;

    /* The high bits of a product depend on all bits of the key; fold them down. */
    return (size_t)(mixed ^ (mixed >> 32)) & (map->slot_count - 1);
}

static size_t slot_behind(const struct orl_map *map, size_t slot)
{
    return (slot + 1) & (map->slot_count - 1);
}

/* Slot that holds key, or the free one where it would go. The table has a free slot. */
static size_t find_slot(const struct orl_map *map, uint64_t key)
{
    size_t slot = home_of(map, key);

    while (map->slots[slot].value != NULL && map->slots[slot].key != key) {
        slot = slot_behind(map, slot);
    }
    return slot;
}

void orl_map_init(struct orl_map *map)
{
    map->slots = NULL;
    map->slot_count = 0;
    map->count = 0;
}

void orl_map_fini(struct orl_map *map)
{
    if (map == NULL) {
        return;
    }
    free(map->slots);
    orl_map_init(map);
}

static int grow(struct orl_map *map)
{
    struct orl_map bigger = {
        .slot_count = map->slot_count == 0 ? FIRST_SLOTS : map->slot_count * 2,
        .count = map->count,
    };

    bigger.slots = calloc(bigger.slot_count, sizeof *bigger.slots);
    if (bigger.slots == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for a map of %zu slots", bigger.slot_count);
    }
    for (size_t i = 0; i < map->slot_count; i++) {
        if (map->slots[i].value != NULL) {
            bigger.slots[find_slot(&bigger, map->slots[i].key)] = map->slots[i];
        }
    }
    free(map->slots);
    *map = bigger;
    return ORL_OK;
}

int orl_map_put(struct orl_map *map, uint64_t key, void *value)
{
    struct orl_map_slot *slot;

    if (value == NULL) {
        return orl_fail(ORL_ERR_INVAL, "a map cannot hold a null value");
    }
    if (map->count != 0) {
        slot = &map->slots[find_slot(map, key)];
        if (slot->value != NULL) {
            slot->value = value;
            return ORL_OK;
        }
    }
    if (map->count >= map->slot_count / 4 * 3) {
        int st = grow(map);

        if (st != ORL_OK) {
            return st;
        }
    }
    slot = &map->slots[find_slot(map, key)];
    slot->key = key;
    slot->value = value;
    map->count++;
    return ORL_OK;
}

void *orl_map_get(const struct orl_map *map, uint64_t key)
{
    return map->count == 0 ? NULL : map->slots[find_slot(map, key)].value;
}

/*
 * Fills the hole with the next entry of the run whose home is not behind the hole, and goes on
 * with the hole that this entry leaves, until the run ends.
 */
static void close_hole(struct orl_map *map, size_t hole)
{
    size_t mask = map->slot_count - 1;
    size_t slot = slot_behind(map, hole);

    while (map->slots[slot].value != NULL) {
        size_t from_home = (slot - home_of(map, map->slots[slot].key)) & mask;

        if (from_home >= ((slot - hole) & mask)) {
            map->slots[hole] = map->slots[slot];
            hole = slot;
        }
        slot = slot_behind(map, slot);
    }
    map->slots[hole].value = NULL;
}

void *orl_map_del(struct orl_map *map, uint64_t key)
{
    size_t slot;
    void *value;

    if (map->count == 0) {
        return NULL;
    }
    slot = find_slot(map, key);
    value = map->slots[slot].value;
    if (value != NULL) {
        close_hole(map, slot);
        map->count--;
    }
    return value;
}

size_t orl_map_count(const struct orl_map *map)
{
    return map->count;
}

bool orl_map_each(const struct orl_map *map, size_t *index, uint64_t *key, void **value)
{
    size_t i = *index;

    while (i < map->slot_count && map->slots[i].value == NULL) {
        i++;
    }
    if (i >= map->slot_count) {
        *index = i;
        return false;
    }
    if (key != NULL) {
        *key = map->slots[i].key;
    }
    *value = map->slots[i].value;
    *index = i + 1;
    return true;
}
