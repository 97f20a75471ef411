/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings and cells, both sides in one thread: every payload size over many laps, exact room, words
 * left over from earlier laps, positions kept over an end of either side, and the order of cells.
 * tests/race/race_ring.c runs the sides as threads.
 */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "fabric/shm/shm_ring.h"

#define CELLS 12

static struct shm_ring ring;
static struct shm_ring_tx tx;
static struct shm_ring_rx rx;
static unsigned char in[SHM_LINE_PAYLOAD];
static unsigned char out[SHM_LINE_PAYLOAD];

static void open_both(void)
{
    shm_ring_tx_init(&tx, &ring);
    shm_ring_rx_init(&rx, &ring);
}

static void fill(unsigned seed, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        in[i] = (unsigned char)(seed * 13 + i * 7);
    }
}

/* The payload in two pieces, cut at `cut`. */
static bool push(uint64_t header, size_t bytes, size_t cut)
{
    struct shm_msg msg = { .kind = 3, .handler = 9, .header = header };
    struct shm_parts parts = { in, cut, in + cut, bytes - cut };

    return shm_ring_push(&tx, &msg, &parts);
}

static void pop(uint64_t header, size_t bytes)
{
    struct shm_msg msg;

    memset(out, 0xcc, sizeof out);
    cr_assert(shm_ring_has_message(&rx));
    cr_assert(shm_ring_pop(&rx, out, &msg));
    cr_assert_eq(msg.kind, 3);
    cr_assert_eq(msg.handler, 9);
    cr_assert_eq(msg.header, header);
    cr_assert_eq(msg.bytes, bytes);
    cr_assert_eq(msg.in_cell, false);
    cr_assert_eq(msg.data, out);
    cr_assert(memcmp(in, out, bytes) == 0, "payload of %zu bytes", bytes);
    cr_assert(bytes == sizeof out || out[bytes] == 0xcc, "written behind the payload");
}

Test(shm_ring, empty)
{
    struct shm_msg msg;

    open_both();
    cr_assert_not(shm_ring_has_message(&rx));
    cr_assert_not(shm_ring_pop(&rx, out, &msg));
}

Test(shm_ring, every_size_over_many_laps)
{
    open_both();
    for (size_t lap = 0; lap < 3; lap++) {
        for (size_t bytes = 0; bytes <= SHM_LINE_PAYLOAD; bytes++) {
            fill((unsigned)(bytes + lap), bytes);
            cr_assert(push(bytes * 3 + lap, bytes, bytes == 0 ? 0 : (bytes * 31 + lap) % bytes));
            pop(bytes * 3 + lap, bytes);
            cr_assert_not(shm_ring_has_message(&rx));
        }
    }
    cr_assert_gt(tx.at, 255 * SHM_RING_LINES, "the lap number has not come round");
}

Test(shm_ring, exact_room)
{
    open_both();
    for (size_t i = 0; i < SHM_RING_LINES; i++) {
        cr_assert(shm_ring_has_room(&tx, SHM_FIRST_BYTES));
        cr_assert(push(i, 0, 0));
    }
    cr_assert_not(shm_ring_has_room(&tx, 0));
    cr_assert_not(push(1, 0, 0));
    /* The consumer tells every 16 lines, not before. */
    for (size_t i = 0; i < SHM_PUBLISH - 1; i++) {
        pop(i, 0);
    }
    cr_assert_not(shm_ring_has_room(&tx, 0));
    pop(SHM_PUBLISH - 1, 0);
    cr_assert(shm_ring_has_room(&tx, SHM_FIRST_BYTES + 15 * SHM_MORE_BYTES));
    cr_assert_not(shm_ring_has_room(&tx, SHM_FIRST_BYTES + 15 * SHM_MORE_BYTES + 1));
    for (size_t i = SHM_PUBLISH; i < SHM_RING_LINES; i++) {
        pop(i, 0);
    }
    cr_assert_not(shm_ring_has_message(&rx));
}

/* Whatever the consumer has not yet told, the largest message always fits once it has read all. */
Test(shm_ring, largest_fits_after_silence)
{
    open_both();
    for (size_t i = 0; i < 500; i++) {
        cr_assert(push(i, 0, 0));
        pop(i, 0);
        cr_assert(shm_ring_has_room(&tx, SHM_LINE_PAYLOAD));
    }
}

/* Payload that looks like the word expected next must not be taken for a message. */
Test(shm_ring, payload_is_never_a_word)
{
    open_both();
    for (unsigned lap = 1; lap < 20; lap++) {
        uint64_t words[SHM_LINE_PAYLOAD / 8];

        for (size_t i = 0; i < SHM_LINE_PAYLOAD / 8; i++) {
            words[i] = UINT64_C(0x300) | lap;
        }
        memcpy(in, words, sizeof in);
        for (size_t i = 0; i < 4; i++) {
            cr_assert(push(i, SHM_LINE_PAYLOAD, 8));
            pop(i, SHM_LINE_PAYLOAD);
            cr_assert_not(shm_ring_has_message(&rx), "lap %u", lap);
        }
    }
}

Test(shm_ring, positions_outlive_the_ends)
{
    open_both();
    for (size_t i = 0; i < 1000; i++) {
        fill((unsigned)i, 100);
        cr_assert(push(i, 100, 50));
        if (i % 3 == 0) {
            shm_ring_tx_fini(&tx);
            shm_ring_tx_init(&tx, &ring);
        }
        pop(i, 100);
        if (i % 5 == 0) {
            shm_ring_rx_fini(&rx);
            shm_ring_rx_init(&rx, &ring);
        }
    }
}

Test(shm_ring, nonsense_is_marked)
{
    struct shm_msg msg;

    open_both();
    cr_assert(push(0, 8, 0));
    ring.line[0].word |= UINT64_C(0xffffff) << 32;
    cr_assert(shm_ring_pop(&rx, out, &msg));
    cr_assert_eq(msg.kind, 0);
    cr_assert_not(shm_ring_has_message(&rx));
}

/* ---------------------------------------------------------------- cells */

static struct shm_cell *make_cells(struct shm_cells *cells, uint32_t limit)
{
    struct shm_cell *memory = aligned_alloc(64, CELLS * sizeof(struct shm_cell));

    cr_assert_not_null(memory);
    memset(memory, 0, CELLS * sizeof(struct shm_cell));
    shm_cells_init(cells, memory, limit, CELLS);
    return memory;
}

Test(shm_ring, cell_messages)
{
    struct shm_cells cells;
    struct shm_cell *memory = make_cells(&cells, CELLS);
    static unsigned char payload[SHM_CELL_PAYLOAD];
    struct shm_msg msg;

    open_both();
    for (unsigned i = 0; i < 200; i++) {
        memset(payload, (int)i, sizeof payload);
        struct shm_parts parts = { payload, 48, payload + 48, sizeof payload - 48 };
        struct shm_msg sent = { .kind = 3, .in_cell = true, .header = i, .bytes = sizeof payload };

        sent.cell = shm_cells_take(&cells, 5);
        cr_assert_eq(sent.cell, i % CELLS, "cells go first in, first out");
        shm_cells_fill(&cells, sent.cell, &parts);
        cr_assert(shm_ring_push_cell(&tx, &sent));
        cr_assert(shm_ring_pop(&rx, out, &msg));
        cr_assert(msg.in_cell);
        cr_assert_eq(msg.cell, sent.cell);
        cr_assert_eq(msg.bytes, sizeof payload);
        cr_assert(memcmp(memory[msg.cell].data, payload, sizeof payload) == 0);
        shm_cell_free(&memory[msg.cell]);
    }
    free(memory);
}

Test(shm_ring, stuck_cells_are_passed_over)
{
    struct shm_cells cells;
    struct shm_cell *memory = make_cells(&cells, CELLS);

    for (uint32_t i = 0; i < CELLS; i++) {
        cr_assert_eq(shm_cells_take(&cells, 1), i);
    }
    cr_assert_eq(shm_cells_take(&cells, 1), SHM_NO_CELL);
    shm_cell_free(&memory[3]);
    /* At most SHM_CELL_SKIP are looked at; a second search goes on where the first ended. */
    uint32_t first = shm_cells_take(&cells, 1);
    uint32_t second = first == 3 ? 3 : shm_cells_take(&cells, 1);
    cr_assert_eq(second, 3);
    shm_cells_untake(&cells, 3);
    cr_assert_eq(shm_cells_take(&cells, 2), 3);
    free(memory);
}

Test(shm_ring, cells_of_the_dead_come_back)
{
    struct shm_cells cells;
    struct shm_cell *memory = make_cells(&cells, 4);

    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_eq(shm_cells_take(&cells, i % 2), i);
    }
    shm_cells_reclaim(&cells, 1);
    cr_assert_eq(shm_cells_take(&cells, 7), 1);
    cr_assert_eq(shm_cells_take(&cells, 7), 3);
    cr_assert_eq(shm_cells_take(&cells, 7), SHM_NO_CELL);
    free(memory);
}
