/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Push and pop on rings, and the pool of cells; see shm_ring.h for layout and argument. Called by
 * the shm transport, and by tests that run both sides as threads. Takes no lock, allocates
 * nothing, makes no system call.
 */
#include "fabric/shm/shm_ring.h"

#include "base/copy.h"

#define KIND_MORE 0x80u /* word of a following line */
#define CELL_BIT  (UINT64_C(1) << 24)

/* Bytes from which a cell is filled past the caches. The receiver has read the cell's lines before,
 * and where the two cores share no cache an ordinary store fetches each back (5 to 7 GB/s against
 * 20, measured); where they do, the two differ little. */
#define STREAM_MIN 2048

static uint64_t lap_of(uint64_t at)
{
    return at / SHM_RING_LINES % 255 + 1;
}

static struct shm_line *line_at(struct shm_ring *ring, uint64_t at)
{
    return &ring->line[at % SHM_RING_LINES];
}

static uint64_t lines_of(size_t bytes)
{
    if (bytes <= SHM_FIRST_BYTES) {
        return 1;
    }
    return 1 + (bytes - SHM_FIRST_BYTES + SHM_MORE_BYTES - 1) / SHM_MORE_BYTES;
}

static uint64_t word_of(const struct shm_msg *msg, uint64_t at, size_t bytes)
{
    return lap_of(at) | (uint64_t)msg->kind << 8 | (uint64_t)msg->handler << 16 |
           (msg->in_cell ? CELL_BIT : 0) | (uint64_t)bytes << 32;
}

/* ---------------------------------------------------------------- producer */

void shm_ring_tx_init(struct shm_ring_tx *tx, struct shm_ring *ring)
{
    tx->ring = ring;
    tx->at = atomic_load_explicit(&ring->pushed, memory_order_acquire);
    tx->taken = atomic_load_explicit(&ring->taken, memory_order_acquire);
}

void shm_ring_tx_fini(struct shm_ring_tx *tx)
{
    atomic_store_explicit(&tx->ring->pushed, tx->at, memory_order_release);
    tx->ring = NULL;
}

static bool has_lines(struct shm_ring_tx *tx, uint64_t lines)
{
    if (tx->at - tx->taken + lines <= SHM_RING_LINES) {
        return true;
    }
    tx->taken = atomic_load_explicit(&tx->ring->taken, memory_order_acquire);
    return tx->at - tx->taken + lines <= SHM_RING_LINES;
}

bool shm_ring_has_room(struct shm_ring_tx *tx, size_t bytes)
{
    return has_lines(tx, lines_of(bytes));
}

/* Where payload goes next: the rest of a line, then the lines after it. */
struct cursor {
    struct shm_ring *ring;
    uint64_t at;
    unsigned char *place;
    size_t room;
};

static void next_line(struct cursor *cursor)
{
    struct shm_line *line = line_at(cursor->ring, ++cursor->at);

    /* Relaxed: the first line's word is what publishes. */
    atomic_store_explicit(&line->word, lap_of(cursor->at) | KIND_MORE << 8, memory_order_relaxed);
    cursor->place = (unsigned char *)&line->header;
    cursor->room = SHM_MORE_BYTES;
}

static void put_piece(struct cursor *cursor, const void *src, size_t bytes)
{
    const unsigned char *from = src;

    while (bytes > 0) {
        if (cursor->room == 0) {
            next_line(cursor);
        }
        size_t n = bytes < cursor->room ? bytes : cursor->room;

        orl_copy(cursor->place, from, n);
        cursor->place += n;
        cursor->room -= n;
        from += n;
        bytes -= n;
    }
}

bool shm_ring_push(struct shm_ring_tx *tx, const struct shm_msg *msg, const struct shm_parts *parts)
{
    size_t bytes = parts->head_bytes + parts->body_bytes;
    uint64_t lines = lines_of(bytes);
    struct shm_line *first = line_at(tx->ring, tx->at);
    struct cursor cursor = { tx->ring, tx->at, first->data, SHM_FIRST_BYTES };

    if (!has_lines(tx, lines)) {
        return false;
    }
    first->header = msg->header;
    put_piece(&cursor, parts->head, parts->head_bytes);
    put_piece(&cursor, parts->body, parts->body_bytes);
    /* Release: whoever sees this word sees header, payload and the words of the other lines. */
    atomic_store_explicit(&first->word, word_of(msg, tx->at, bytes), memory_order_release);
    tx->at += lines;
    return true;
}

bool shm_ring_push_cell(struct shm_ring_tx *tx, const struct shm_msg *msg)
{
    struct shm_line *first = line_at(tx->ring, tx->at);

    if (!has_lines(tx, 1)) {
        return false;
    }
    first->header = msg->header;
    orl_copy(first->data, &msg->cell, sizeof(msg->cell));
    /* Release: also for the content of the cell and its busy word. */
    atomic_store_explicit(&first->word, word_of(msg, tx->at, msg->bytes), memory_order_release);
    tx->at++;
    return true;
}

/* ---------------------------------------------------------------- consumer */

void shm_ring_rx_init(struct shm_ring_rx *rx, struct shm_ring *ring)
{
    rx->ring = ring;
    rx->at = atomic_load_explicit(&ring->taken, memory_order_acquire);
    rx->published = rx->at;
}

void shm_ring_rx_fini(struct shm_ring_rx *rx)
{
    atomic_store_explicit(&rx->ring->taken, rx->at, memory_order_release);
    rx->ring = NULL;
}

bool shm_ring_has_message(const struct shm_ring_rx *rx)
{
    uint64_t word = atomic_load_explicit(&line_at(rx->ring, rx->at)->word, memory_order_relaxed);

    return (word & 0xff) == lap_of(rx->at);
}

static void take_lines(struct shm_ring_rx *rx, uint64_t lines)
{
    rx->at += lines;
    if (rx->at - rx->published >= SHM_PUBLISH) {
        rx->published = rx->at;
        /* Release: our reads of these lines come before the producer's next writes. */
        atomic_store_explicit(&rx->ring->taken, rx->at, memory_order_release);
    }
}

static void copy_lines(const struct shm_ring_rx *rx, unsigned char *to, size_t bytes)
{
    const struct shm_line *line = line_at(rx->ring, rx->at);
    size_t n = bytes < SHM_FIRST_BYTES ? bytes : SHM_FIRST_BYTES;
    uint64_t at = rx->at;

    orl_copy(to, line->data, n);
    for (to += n, bytes -= n; bytes > 0; to += n, bytes -= n) {
        line = line_at(rx->ring, ++at);
        n = bytes < SHM_MORE_BYTES ? bytes : SHM_MORE_BYTES;
        orl_copy(to, (const unsigned char *)&line->header, n);
    }
}

bool shm_ring_pop(struct shm_ring_rx *rx, void *buffer, struct shm_msg *msg)
{
    const struct shm_line *first = line_at(rx->ring, rx->at);
    uint64_t word = atomic_load_explicit(&first->word, memory_order_acquire);

    if ((word & 0xff) != lap_of(rx->at)) {
        return false;
    }
    msg->kind = (uint8_t)(word >> 8);
    msg->handler = (uint8_t)(word >> 16);
    msg->in_cell = (word & CELL_BIT) != 0;
    msg->bytes = (uint32_t)(word >> 32);
    msg->header = first->header;
    msg->cell = SHM_NO_CELL;
    msg->data = NULL;
    if (msg->in_cell) {
        orl_copy(&msg->cell, first->data, sizeof(msg->cell));
        take_lines(rx, 1);
        return true;
    }
    if (msg->bytes > SHM_LINE_PAYLOAD || (msg->kind & KIND_MORE) != 0) {
        msg->kind = 0;
        take_lines(rx, 1);
        return true;
    }
    copy_lines(rx, buffer, msg->bytes);
    msg->data = buffer;
    take_lines(rx, lines_of(msg->bytes));
    return true;
}

/* ---------------------------------------------------------------- cells */

void shm_cells_init(struct shm_cells *cells, void *memory, uint32_t limit, uint32_t max)
{
    cells->cell = memory;
    cells->next = 0;
    cells->limit = limit;
    cells->max = max;
}

uint32_t shm_cells_take(struct shm_cells *cells, uint32_t to)
{
    for (uint32_t i = 0; i < SHM_CELL_SKIP && i < cells->limit; i++) {
        uint32_t index = cells->next;
        struct shm_cell *cell = &cells->cell[index];

        cells->next = index + 1 < cells->limit ? index + 1 : 0;
        /* Acquire: the receiver has read it before we write it again. */
        if (atomic_load_explicit(&cell->busy, memory_order_acquire) == 0) {
            atomic_store_explicit(&cell->to, to, memory_order_relaxed);
            atomic_store_explicit(&cell->busy, 1, memory_order_relaxed);
            return index;
        }
    }
    return SHM_NO_CELL;
}

void shm_cells_untake(struct shm_cells *cells, uint32_t index)
{
    atomic_store_explicit(&cells->cell[index].busy, 0, memory_order_relaxed);
    cells->next = index;
}

void shm_cells_fill(struct shm_cells *cells, uint32_t index, const struct shm_parts *parts)
{
    unsigned char *data = cells->cell[index].data;

    orl_copy(data, parts->head, parts->head_bytes);
    if (parts->body_bytes >= STREAM_MIN) {
        orl_copy_stream(data + parts->head_bytes, parts->body, parts->body_bytes);
    } else {
        orl_copy(data + parts->head_bytes, parts->body, parts->body_bytes);
    }
}

void shm_cell_free(struct shm_cell *cell)
{
    atomic_store_explicit(&cell->busy, 0, memory_order_release);
}

void shm_cells_reclaim(struct shm_cells *cells, uint32_t to)
{
    for (uint32_t i = 0; i < cells->limit; i++) {
        struct shm_cell *cell = &cells->cell[i];

        if (atomic_load_explicit(&cell->to, memory_order_relaxed) == to) {
            atomic_store_explicit(&cell->busy, 0, memory_order_relaxed);
        }
    }
}
