/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of one ordered pair of ranks and the sender's pool of cells. Both take their memory as
 * an argument and know nothing of engines. The producing side is for one thread at a time, and so
 * is the consuming side; the callers' locks see to it (tx, poller).
 *
 * Layout. A ring is 64 lines of 64 bytes. A message takes one first line (word, header, 48 bytes
 * of payload) and as many following lines (word, 56 bytes) as its payload needs, at most 1 KiB in
 * all; a longer one lies in a cell of the sender, named in its only line. Lines are counted from
 * the first ever; line n of that count lies in place n mod 64.
 *
 * Argument. Every word carries the lap of its line, n / 64 reduced to 1..255, so a word left over
 * from the lap before never looks like the one expected, and neither side reads a shared counter
 * per message. The producer writes all data and the words of following lines, then the word of the
 * first line with release; the consumer's acquire load of that word sees everything. The consumer
 * copies the message out, then publishes the number of lines it has taken with release, every 16
 * lines, in a line of its own; the producer loads that number with acquire before it writes a line
 * again, so it never overwrites what is still being read.
 *
 * Cells. `busy` in a cell's trailer is set by the sender, before the ring line that names the cell,
 * and cleared with release by the receiver when it has read the cell; the sender loads it with
 * acquire when its turn comes round again. The pool is used in address order, first in first out:
 * a cell must have left the receiver's cache before it is written again.
 *
 * Death. A producer that dies between data and word has sent nothing. A consumer that dies leaves
 * lines taken and cells busy; the producer frees the cells when the death is proved.
 */
#ifndef FABRIC_SHM_SHM_RING_H
#define FABRIC_SHM_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHM_RING_LINES   64
#define SHM_FIRST_BYTES  48   /* payload of a first line */
#define SHM_MORE_BYTES   56   /* payload of a following line */
#define SHM_LINE_PAYLOAD 1024 /* largest payload in lines */
#define SHM_PUBLISH      16   /* lines between two publications of the consumer */
#define SHM_BELL_WORDS   16   /* one bit per rank of a node */

#define SHM_CELL_BYTES   8192
#define SHM_CELL_PAYLOAD (SHM_CELL_BYTES - 64)
#define SHM_CELL_SKIP    8 /* stuck cells passed over in one search */
#define SHM_NO_CELL      UINT32_MAX

struct shm_line {
    _Alignas(64) _Atomic uint64_t word; /* lap:8 kind:8 handler:8 cell:1 _:7 bytes:32 */
    uint64_t header;                    /* following lines: payload starts here */
    unsigned char data[SHM_FIRST_BYTES];
};

struct shm_ring {
    struct shm_line line[SHM_RING_LINES]; /* producer */
    _Alignas(64) _Atomic uint64_t taken;  /* consumer: lines it has done with */
    _Alignas(64) _Atomic uint64_t pushed; /* producer: lines pushed, stored when it closes */
    /* Of a rank's ring to itself: bit i says that rank i has opened its ring to this rank. */
    _Alignas(64) _Atomic uint64_t bell[SHM_BELL_WORDS];
};

struct shm_cell {
    unsigned char data[SHM_CELL_PAYLOAD];
    _Alignas(64) _Atomic uint32_t busy;
    _Atomic uint32_t to; /* receiver, written by the sender */
};

_Static_assert(sizeof(struct shm_line) == 64, "one line");
_Static_assert(sizeof(struct shm_cell) == SHM_CELL_BYTES, "one cell");

/* Kinds are the user's, 1 to 127. */
struct shm_msg {
    uint8_t kind;
    uint8_t handler;
    bool in_cell;
    uint64_t header;
    uint32_t bytes;
    uint32_t cell;    /* of a message in a cell */
    const void *data; /* of a message in lines: where pop copied it */
};

/* A payload in two pieces, either of which may be empty. */
struct shm_parts {
    const void *head;
    size_t head_bytes;
    const void *body;
    size_t body_bytes;
};

/* ---------------------------------------------------------------- producer */

struct shm_ring_tx {
    struct shm_ring *ring; /* borrows */
    uint64_t at;           /* next line */
    uint64_t taken;        /* the consumer's count when last looked at */
};

void shm_ring_tx_init(struct shm_ring_tx *tx, struct shm_ring *ring);
/* Leave the position for a later producer of the same ring. */
void shm_ring_tx_fini(struct shm_ring_tx *tx);
/* True when a message with that much payload in lines can be pushed now. */
bool shm_ring_has_room(struct shm_ring_tx *tx, size_t bytes);
/* Push a message whose payload goes into lines. False: no room, nothing has happened. */
bool shm_ring_push(struct shm_ring_tx *tx, const struct shm_msg *msg,
                   const struct shm_parts *parts);
/* Push a message whose payload the caller has put into msg->cell. */
bool shm_ring_push_cell(struct shm_ring_tx *tx, const struct shm_msg *msg);

/* ---------------------------------------------------------------- consumer */

struct shm_ring_rx {
    struct shm_ring *ring; /* borrows */
    uint64_t at;           /* next line */
    uint64_t published;
};

void shm_ring_rx_init(struct shm_ring_rx *rx, struct shm_ring *ring);
void shm_ring_rx_fini(struct shm_ring_rx *rx);
/* Is there a message? One load. */
bool shm_ring_has_message(const struct shm_ring_rx *rx);
/* Take the next message; payload in lines is copied to buffer (SHM_LINE_PAYLOAD bytes). False:
 * there is none. A message that no producer of ours can have written has kind 0. */
bool shm_ring_pop(struct shm_ring_rx *rx, void *buffer, struct shm_msg *msg);

/* ---------------------------------------------------------------- cells */

struct shm_cells {
    struct shm_cell *cell; /* borrows */
    uint32_t next;         /* where the next search starts */
    uint32_t limit;        /* cells in use so far: [0, limit) */
    uint32_t max;
};

void shm_cells_init(struct shm_cells *cells, void *memory, uint32_t limit, uint32_t max);
/* The next free cell, marked as sent to `to`; SHM_NO_CELL: none of those looked at. */
uint32_t shm_cells_take(struct shm_cells *cells, uint32_t to);
/* Sender, when the cell was not sent after all: it is the next one to be taken. */
void shm_cells_untake(struct shm_cells *cells, uint32_t index);
void shm_cells_fill(struct shm_cells *cells, uint32_t index, const struct shm_parts *parts);
/* Receiver: done with it. */
void shm_cell_free(struct shm_cell *cell);
/* Sender: the receiver is dead. */
void shm_cells_reclaim(struct shm_cells *cells, uint32_t to);

#endif
