/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names and sums of counter blocks.
 *
 * Called by whoever shows counters; adding is inline in stats.h. No state, no lock. It does not
 * know where the blocks are.
 */
#include "base/stats.h"

#include <inttypes.h>

#include "base/strbuf.h"

struct stat_row {
    const char *name;
    const char *unit;
    const char *text;
};

static const struct stat_row rows[] = {
#define ORL_STAT(id, name, unit, text) [ORL_STAT_##id] = { name, unit, text },
#include "base/stats.def"
#undef ORL_STAT
    [ORL_STAT_COUNT] = { "", "", "" },
};

static const struct stat_row *row_of(enum orl_stat id)
{
    return &rows[(unsigned)id < ORL_STAT_COUNT ? id : ORL_STAT_COUNT];
}

const char *orl_stats_name(enum orl_stat id)
{
    return row_of(id)->name;
}

const char *orl_stats_unit(enum orl_stat id)
{
    return row_of(id)->unit;
}

const char *orl_stats_text(enum orl_stat id)
{
    return row_of(id)->text;
}

void orl_stats_sum(struct orl_stats *sum, const struct orl_stats *part)
{
    for (unsigned i = 0; i < ORL_STAT_COUNT; i++) {
        orl_stat_add(sum, (enum orl_stat)i, orl_stat_get(part, (enum orl_stat)i));
    }
}

void orl_stats_describe(const struct orl_stats *stats, struct orl_strbuf *out)
{
    for (unsigned i = 0; i < ORL_STAT_COUNT; i++) {
        uint64_t value = orl_stat_get(stats, (enum orl_stat)i);
        if (value > 0) {
            orl_strbuf_addf(out, "%-16s %20" PRIu64 " %s\n", rows[i].name, value, rows[i].unit);
        }
    }
}
