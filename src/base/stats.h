/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters: plain numbers that say how much of what was done.
 *
 * A block belongs to one owner, who alone adds, under whatever lock makes it alone. Anyone may
 * read at any time and sees values that are whole and at most slightly old. There is no reset:
 * readers subtract. The rows are in stats.def.
 */
#ifndef BASE_STATS_H
#define BASE_STATS_H

#include "base/attr.h"

struct orl_strbuf;

enum orl_stat {
#define ORL_STAT(id, name, unit, text) ORL_STAT_##id,
#include "base/stats.def"
#undef ORL_STAT
    ORL_STAT_COUNT
};

struct orl_stats {
    uint64_t v[ORL_STAT_COUNT];
};

/* Adds; only the owner of the block may. A plain load and a plain store, no locked operation. */
static inline void orl_stat_add(struct orl_stats *stats, enum orl_stat id, uint64_t n)
{
    uint64_t old = __atomic_load_n(&stats->v[id], __ATOMIC_RELAXED);
    __atomic_store_n(&stats->v[id], old + n, __ATOMIC_RELAXED);
}

/* Anyone may ask. */
static inline uint64_t orl_stat_get(const struct orl_stats *stats, enum orl_stat id)
{
    return __atomic_load_n(&stats->v[id], __ATOMIC_RELAXED);
}

/* "put_bytes", "bytes", "data sent by puts". Never NULL; "" for an id of no row. */
const char *orl_stats_name(enum orl_stat id);
const char *orl_stats_unit(enum orl_stat id);
const char *orl_stats_text(enum orl_stat id);

/* Adds every counter of `part` to `sum`, of which the caller is the owner. */
void orl_stats_sum(struct orl_stats *sum, const struct orl_stats *part);

/* Appends one line per counter that is not zero: name, value, unit. */
void orl_stats_describe(const struct orl_stats *stats, struct orl_strbuf *out);

#endif
