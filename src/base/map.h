/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hash map from a 64-bit key to a pointer: ids of teams, windows, registrations. Every key is
 * legal, zero too; a NULL value is not, it stands for "absent". Reads do not write, so many may
 * read at once while nobody changes; no lock of its own. It does not own what the values point
 * to, and it never shrinks.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct orl_map_slot {
    uint64_t key;
    void *value; /* borrows; NULL in an empty slot */
};

struct orl_map {
    struct orl_map_slot *slots; /* owns; NULL before the first put */
    size_t slot_count;          /* zero or a power of two */
    size_t count;
};

/* Makes an empty map. Allocates nothing until the first put. A zeroed map is also empty. */
void orl_map_init(struct orl_map *map);

/* Frees the table, not what the values point to. The map is empty and usable afterwards. */
void orl_map_fini(struct orl_map *map);

/*
 * Stores value under key, in place of an earlier one.
 * Errors: INVAL for a NULL value, NOMEM when the table cannot grow (the map is as before; a put
 * that only replaces never fails).
 */
ORL_MUST_CHECK int orl_map_put(struct orl_map *map, uint64_t key, void *value);

/* Value under key, NULL when absent. */
void *orl_map_get(const struct orl_map *map, uint64_t key);

/* Takes key out and returns the value it had, NULL when absent. Leaves no dead slot behind. */
void *orl_map_del(struct orl_map *map, uint64_t key);

/* Number of keys. */
size_t orl_map_count(const struct orl_map *map);

/*
 * Steps through all entries in no particular order: start with *index zero and call until false.
 * key may be NULL. The map must not change meanwhile, except that the value of a key present may
 * be replaced.
 */
bool orl_map_each(const struct orl_map *map, size_t *index, uint64_t *key, void **value);

#endif
