/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring and its cells with producer and consumer as threads, under thread sanitizer. Messages of
 * all sizes, some cells freed late and out of order, and both sides replaced now and then, as
 * when an engine closes and another opens. The consumer checks every byte.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "fabric/shm/shm_ring.h"

#define MESSAGES 20000
#define CELLS    6 /* so few that a cell comes round before the ring does */
#define LATE     7 /* cells the consumer keeps for a while */

static struct shm_ring ring;
static struct shm_cell cells[CELLS];
static atomic_bool failed;
static bool mostly_cells; /* else mostly lines: each way must be safe without the other's help */

static uint32_t size_of(uint32_t i)
{
    uint32_t mixed = i * UINT32_C(2654435761);

    if (mostly_cells ? mixed >> 31 == 0 : mixed >> 28 == 0) {
        return mixed % (SHM_CELL_PAYLOAD - SHM_LINE_PAYLOAD) + SHM_LINE_PAYLOAD + 1;
    }
    return mixed >> 27 == 31 || !mostly_cells ? mixed % (SHM_LINE_PAYLOAD + 1) : mixed % 64;
}

static void fill(unsigned char *p, uint32_t i, uint32_t bytes)
{
    for (uint32_t k = 0; k < bytes; k++) {
        p[k] = (unsigned char)(i * 31 + k);
    }
}

static void wait_turn(void)
{
    (void)sched_yield();
}

static bool try_push(struct shm_ring_tx *tx, struct shm_cells *pool, uint32_t i,
                     const unsigned char *payload, uint32_t bytes)
{
    struct shm_msg msg = { .kind = 1, .handler = (uint8_t)i, .header = i, .bytes = bytes };
    struct shm_parts parts = { payload, bytes / 3, payload + bytes / 3, bytes - bytes / 3 };

    if (bytes <= SHM_LINE_PAYLOAD) {
        return shm_ring_push(tx, &msg, &parts);
    }
    msg.cell = shm_cells_take(pool, 1);
    if (msg.cell == SHM_NO_CELL) {
        return false;
    }
    msg.in_cell = true;
    shm_cells_fill(pool, msg.cell, &parts);
    if (!shm_ring_push_cell(tx, &msg)) {
        shm_cells_untake(pool, msg.cell);
        return false;
    }
    return true;
}

static void *produce(void *arg)
{
    static unsigned char payload[SHM_CELL_PAYLOAD];
    struct shm_ring_tx tx;
    struct shm_cells pool;

    (void)arg;
    shm_ring_tx_init(&tx, &ring);
    shm_cells_init(&pool, cells, 3, CELLS);
    for (uint32_t i = 0; i < MESSAGES && !atomic_load(&failed); i++) {
        uint32_t bytes = size_of(i);

        fill(payload, i, bytes);
        while (!try_push(&tx, &pool, i, payload, bytes) && !atomic_load(&failed)) {
            pool.limit = CELLS;
            wait_turn();
        }
        if (i % 1000 == 999) {
            shm_ring_tx_fini(&tx);
            shm_ring_tx_init(&tx, &ring);
        }
    }
    return NULL;
}

static bool is_right(const struct shm_msg *msg, const unsigned char *data, uint32_t i)
{
    if (msg->kind != 1 || msg->handler != (uint8_t)i || msg->header != i ||
        msg->bytes != size_of(i)) {
        return false;
    }
    for (uint32_t k = 0; k < msg->bytes; k++) {
        if (data[k] != (unsigned char)(i * 31 + k)) {
            return false;
        }
    }
    return true;
}

/* Every seventh cell is kept until the next one that is. */
static void free_cell(uint32_t cell, uint32_t *kept)
{
    static uint32_t count;

    if (++count % LATE != 0) {
        shm_cell_free(&cells[cell]);
        return;
    }
    if (*kept != SHM_NO_CELL) {
        shm_cell_free(&cells[*kept]);
    }
    *kept = cell;
}

static void *consume(void *arg)
{
    static unsigned char buffer[SHM_LINE_PAYLOAD];
    struct shm_ring_rx rx;
    uint32_t kept = SHM_NO_CELL;

    (void)arg;
    shm_ring_rx_init(&rx, &ring);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        struct shm_msg msg;

        while (!shm_ring_pop(&rx, buffer, &msg)) {
            wait_turn();
        }
        if (!is_right(&msg, msg.in_cell ? cells[msg.cell].data : buffer, i)) {
            (void)fprintf(stderr, "message %u of %u bytes is damaged\n", i, msg.bytes);
            atomic_store(&failed, true);
            return NULL;
        }
        if (msg.in_cell) {
            free_cell(msg.cell, &kept);
        }
        if (i % 700 == 699) {
            shm_ring_rx_fini(&rx);
            shm_ring_rx_init(&rx, &ring);
        }
    }
    return NULL;
}

static bool run(void)
{
    pthread_t producer;
    pthread_t consumer;

    memset(&ring, 0, sizeof ring);
    memset(cells, 0, sizeof cells);
    if (pthread_create(&producer, NULL, produce, NULL) != 0 ||
        pthread_create(&consumer, NULL, consume, NULL) != 0) {
        (void)fprintf(stderr, "no threads\n");
        return false;
    }
    (void)pthread_join(producer, NULL);
    (void)pthread_join(consumer, NULL);
    return !atomic_load(&failed);
}

int main(void)
{
    /* The sanitizer does not see accesses of vector width. */
    if (orl_copy_select("words") != 0) {
        return EXIT_FAILURE;
    }
    bool fine = run();
    mostly_cells = true;
    fine = run() && fine;
    (void)printf("%s: race_ring\n", fine ? "PASS" : "FAIL");
    return fine ? EXIT_SUCCESS : EXIT_FAILURE;
}
