/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One cell of test_soak: a piece of some rank's memory of which one rank knows every byte, and the
 * request that works on it.
 */
#ifndef TESTS_CORE_SOAK_CELL_H
#define TESTS_CORE_SOAK_CELL_H

#include "tests/core/soak.h"

#define SOAK_BATCH 4  /* operations of a request */
#define SOAK_LINE  64 /* bytes behind the data of a cell: its counter */

struct soak_cell {
    int rank;
    uint64_t base; /* offset in that rank's memory */
    uint64_t bytes;
    struct oriel_request *request;
    unsigned count;
    struct oriel_xfer xfer[SOAK_BATCH];
    struct oriel_result result[SOAK_BATCH];
    uint64_t old[SOAK_BATCH];
    struct oriel_run_opts opts;
    bool is_dirty;        /* written since the last flush of that rank */
    bool is_unknown;      /* a write was given up */
    unsigned char *known; /* [bytes + SOAK_LINE] what is there */
    unsigned char *local; /* [SOAK_LINE + bytes + SOAK_LINE] sources and landings */
};

/* Draw what the next request does: operations whose places, here and there, are their own. */
void soak_cell_choose(struct soak_cell *cell, struct oriel_remote *remote);
/* They have ended well: look at what they brought, and note what they have changed. */
void soak_cell_apply(struct soak_cell *cell);
/* What the request itself says of them. */
void soak_cell_check_results(const struct soak_cell *cell);
/* Some of them changes the cell. */
bool soak_cell_writes(const struct soak_cell *cell);

#endif
