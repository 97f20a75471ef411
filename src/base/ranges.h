/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ordered set of non-overlapping address ranges [start, end), a pointer with each: the
 * registration cache, the cache of memory kinds, the free space of an arena. All look-ups and
 * changes take O(log n). No lock of its own; reads do not write. It does not merge neighbours
 * and does not own what the pointers point to.
 */
#ifndef BASE_RANGES_H
#define BASE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

/* One range as callers see it. Valid until that range is deleted; only data may be written. */
struct orl_range {
    uint64_t start;
    uint64_t end; /* first address behind the range */
    void *data;   /* borrows */
};

struct orl_range_node;

struct orl_ranges {
    struct orl_range_node *root; /* owns */
    size_t count;
    uint64_t seed; /* state of the tree's coin */
};

/* Makes an empty set. Allocates nothing. */
void orl_ranges_init(struct orl_ranges *ranges);

/* Frees all nodes, not what their data points to. The set is empty and usable afterwards. */
void orl_ranges_fini(struct orl_ranges *ranges);

/*
 * Adds [start, end).
 * Errors: INVAL when end is not above start, BUSY when it overlaps a range of the set, NOMEM.
 */
ORL_MUST_CHECK int orl_ranges_add(struct orl_ranges *ranges, uint64_t start, uint64_t end,
                                  void *data);

/* Takes out the range that begins exactly at start; false when there is none. */
bool orl_ranges_del(struct orl_ranges *ranges, uint64_t start);

/* Range that contains addr, NULL when none does. */
struct orl_range *orl_ranges_find(const struct orl_ranges *ranges, uint64_t addr);

/* Lowest range that shares an address with [start, end), NULL when none does. */
struct orl_range *orl_ranges_find_overlap(const struct orl_ranges *ranges, uint64_t start,
                                          uint64_t end);

/*
 * Range behind prev in address order, the lowest for NULL; NULL at the end. To delete while
 * walking, take the next before deleting the current.
 */
struct orl_range *orl_ranges_next(const struct orl_ranges *ranges, const struct orl_range *prev);

/* Number of ranges. */
size_t orl_ranges_count(const struct orl_ranges *ranges);

#endif
