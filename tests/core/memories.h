/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two memories of every rank, opened by every rank: one that peers map, one that only its owner
 * reaches. For tests of batches; one set per process.
 */
#ifndef TESTS_CORE_MEMORIES_H
#define TESTS_CORE_MEMORIES_H

#include <stdbool.h>

#include "oriel.h"

#define RANKS 3
#define SPAN  8192 /* bytes of each origin in each target's memory */
/* Behind the spans: words for atomics and counters. */
#define WORDS_AT ((uint64_t)(RANKS * SPAN))
#define BYTES    (WORDS_AT + 128)

enum {
    MAPPED,
    PRIVATE,
    MEMORIES
};

extern struct oriel_mem *mem[MEMORIES];
extern struct oriel_remote *remote[MEMORIES][RANKS];
extern unsigned char *private_memory;

/* By every rank, after oriel_init. Both meet without the library. */
void open_memory(int rank);
void close_memory(void);
bool is_mapped(struct oriel_remote *remote);

#endif
