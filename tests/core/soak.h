/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random operations between ranks, all drawn from a seed: parts of test_soak. Each step of a rank
 * draws from numbers of its own, so that what a step does depends on nothing that went before.
 */
#ifndef TESTS_CORE_SOAK_H
#define TESTS_CORE_SOAK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "oriel.h"

#define SOAK_RANKS  3
#define SOAK_GUESTS 2 /* memories of a rank that come and go */

struct soak_plan {
    uint64_t seed;
    uint64_t ops;    /* of all ranks together */
    uint64_t large;  /* bytes of the large cell of a slice, a multiple of 64 */
    uint64_t rarely; /* one operation in so many goes to a large cell */
    bool is_railed;  /* over several rails: something must have gone over more than one */
};

struct soak_token {
    size_t bytes;
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
};

/* What lies in t_shared. */
struct soak_shared {
    struct soak_token cells[SOAK_RANKS];
    struct soak_lobby {
        atomic_uint lock;
        uint32_t version;
        struct soak_token token;
    } lobby[SOAK_RANKS][SOAK_GUESTS];
};

/* Start the numbers of step `step` of stream `stream`. */
void soak_seed(uint64_t seed, uint64_t stream, uint64_t step);
/* The next number below `below`, which is not 0. */
uint64_t soak_draw(uint64_t below);
/* A size of 0 to `most`, often at or next to one where something changes. */
uint64_t soak_draw_bytes(uint64_t most);
/* A flush, also of operations that have met memory that is gone. */
void soak_flush(int rank);

/* Cells: every rank owns a slice of every rank's memory and knows each byte of it (soak_cells.c).
 */
void soak_cells_open(const struct soak_plan *plan, int rank);
void soak_cells_step(void);
/* Ends what is under way and looks at every byte. */
void soak_cells_check(void);
void soak_cells_close(void);

/* Guests: registrations that end while others use them (soak_guests.c). */
void soak_guests_open(int rank);
void soak_guests_step(void);
void soak_guests_leave(void);
void soak_guests_close(void); /* after all have left */

#endif
