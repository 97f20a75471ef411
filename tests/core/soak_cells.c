/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of test_soak that knows every byte. A slice of memory is cut into cells. A cell has one
 * request of up to four operations at a time, a copy of what must be there, and a counter. What was
 * given up at a deadline leaves a cell unknown, and it is then written anew.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/core/soak_cell.h"
#include "tests/t.h"

enum {
    CELLS = 8, /* of a slice; the last one is the large one */
    SMALL = 24576,
    SINK = 65536
};

static struct soak_cell cells[SOAK_RANKS][CELLS];
static struct oriel_remote *remote[SOAK_RANKS];
static struct oriel_mem *mem;
static unsigned char *sink; /* where gets land that nobody waits for */
static uint64_t rarely;

/* ---------------------------------------------------------------- the end of an operation */

static void flush_cells(int rank)
{
    soak_flush(rank);
    for (unsigned i = 0; i < CELLS; i++) {
        cells[rank][i].is_dirty = cells[rank][i].request != NULL && cells[rank][i].is_dirty;
    }
}

/* A write that was given up may have come in part: now that it has settled all is written anew. */
static void make_known(struct soak_cell *cell)
{
    flush_cells(cell->rank);
    t_check_ok(oriel_put(remote[cell->rank], cell->base, cell->known, cell->bytes + SOAK_LINE));
    flush_cells(cell->rank);
    cell->is_unknown = false;
}

static void conclude(struct soak_cell *cell, int rc)
{
    int done = 0;

    if (rc == ORIEL_ERR_TIMEOUT && cell->opts.timeout_ns != 0) {
        while (!oriel_request_settled(cell->request)) {
            (void)oriel_test(&cell->request, &done, NULL);
        }
        t_check_ok(oriel_request_free(&cell->request));
        cell->is_unknown = soak_cell_writes(cell);
    } else {
        t_check_ok(rc);
        t_check(cell->request == NULL);
        soak_cell_check_results(cell);
        soak_cell_apply(cell);
    }
    if (cell->is_unknown) {
        make_known(cell);
    }
}

static void finish(struct soak_cell *cell)
{
    int done = 0;
    int rc;

    if (cell->request == NULL) {
        return;
    }
    switch (cell->opts.timeout_ns != 0 ? 2 : soak_draw(3)) {
    case 0:
        do {
            rc = oriel_test(&cell->request, &done, NULL);
        } while (done == 0);
        break;
    case 1:
        do {
            rc = oriel_wait_for(&cell->request, (int64_t)soak_draw(50000), NULL);
        } while (rc == ORIEL_ERR_TIMEOUT);
        break;
    default:
        rc = oriel_wait(&cell->request, NULL);
    }
    conclude(cell, rc);
}

/* ---------------------------------------------------------------- the start of one */

/* The blocking form of a single operation. */
static void call(struct soak_cell *cell)
{
    struct oriel_xfer *x = &cell->xfer[0];
    uint32_t old = 0;
    int rc;

    if (x->kind == ORIEL_PUT) {
        rc = oriel_put(x->remote, x->offset, x->src, x->bytes);
    } else if (x->kind == ORIEL_GET) {
        rc = oriel_get(x->remote, x->offset, x->dst, x->bytes);
    } else if (x->kind == ORIEL_PUT_NOTIFY) {
        rc = oriel_put_notify(x->remote, x->offset, x->src, x->bytes, x->counter, x->operand);
    } else if (x->kind == ORIEL_ATOMIC && x->bytes == 8) {
        rc = oriel_atomic64(x->remote, x->offset, x->atomic, x->operand, &cell->old[0]);
    } else if (x->kind == ORIEL_ATOMIC) {
        rc = oriel_atomic32(x->remote, x->offset, x->atomic, (uint32_t)x->operand, &old);
        cell->old[0] = old;
    } else if (x->bytes == 8) {
        rc = oriel_compare_swap64(x->remote, x->offset, x->expected, x->operand, &cell->old[0]);
    } else {
        rc = oriel_compare_swap32(x->remote, x->offset, (uint32_t)x->expected, (uint32_t)x->operand,
                                  &old);
        cell->old[0] = old;
    }
    t_check_ok(rc);
    soak_cell_apply(cell);
}

/* Given up: it goes on, and a flush still waits for it. Only for what brings nothing back. */
static void give_up(struct soak_cell *cell)
{
    for (unsigned i = 0; i < cell->count; i++) {
        if (cell->xfer[i].dst != NULL) {
            return;
        }
    }
    t_check_ok(oriel_request_free(&cell->request));
    flush_cells(cell->rank);
    soak_cell_apply(cell);
}

static void run(struct soak_cell *cell)
{
    int rc = oriel_run(cell->xfer, cell->count, &cell->opts);

    if (rc == ORIEL_ERR_TIMEOUT && cell->opts.timeout_ns != 0) {
        make_known(cell);
    } else if (rc != ORIEL_ERR_AGAIN || (cell->opts.flags & ORIEL_NOWAIT) == 0) {
        t_check_ok(rc);
        soak_cell_check_results(cell);
        soak_cell_apply(cell);
    }
}

static void start(struct soak_cell *cell)
{
    int rc;

    finish(cell);
    if (cell->is_dirty) {
        flush_cells(cell->rank);
    }
    soak_cell_choose(cell, remote[cell->rank]);
    cell->is_dirty = soak_cell_writes(cell);
    if (cell->count == 1 && soak_draw(8) == 0) {
        call(cell);
        return;
    }
    if (soak_draw(8) == 0) {
        run(cell);
        return;
    }
    rc = oriel_start(cell->xfer, cell->count, &cell->opts, &cell->request);
    if ((rc == ORIEL_ERR_TIMEOUT && cell->opts.timeout_ns != 0) ||
        (rc == ORIEL_ERR_AGAIN && (cell->opts.flags & ORIEL_NOWAIT) != 0)) {
        cell->request = NULL; /* it found no room */
        return;
    }
    t_check_ok(rc);
    if (cell->opts.timeout_ns == 0 && soak_draw(50) == 0) {
        give_up(cell);
    }
}

/* A get that nobody waits for. */
static void get_blindly(const struct soak_cell *cell)
{
    struct oriel_request *request;
    uint64_t bytes = soak_draw_bytes(SMALL);

    t_check_ok(oriel_get_start(remote[cell->rank], cell->base, sink, bytes, &request));
    t_check_ok(oriel_request_free(&request));
}

/* The first of whatever is under way without a deadline. */
static void finish_any(void)
{
    struct oriel_request *under_way[SOAK_RANKS * CELLS];
    struct soak_cell *of[SOAK_RANKS * CELLS];
    uint64_t index;
    unsigned n = 0;
    int rc;

    for (unsigned i = 0; i < SOAK_RANKS * CELLS; i++) {
        struct soak_cell *cell = &cells[i / CELLS][i % CELLS];

        if (cell->request != NULL && cell->opts.timeout_ns == 0) {
            of[n] = cell;
            under_way[n++] = cell->request;
        }
    }
    rc = oriel_wait_any(under_way, n, ORIEL_FOREVER, &index, NULL);
    if (n == 0) {
        t_check_ok(rc);
        return;
    }
    t_check(index < n && under_way[index] == NULL);
    of[index]->request = NULL;
    conclude(of[index], rc);
}

void soak_cells_step(void)
{
    uint64_t what = soak_draw(100);
    unsigned index = soak_draw(rarely) == 0 ? CELLS - 1 : (unsigned)soak_draw(CELLS - 1);
    struct soak_cell *cell = &cells[soak_draw(SOAK_RANKS)][index];

    if (what < 2) {
        flush_cells(cell->rank);
    } else if (what < 4) {
        finish_any();
    } else if (what < 6) {
        get_blindly(cell);
    } else {
        start(cell);
    }
}

/* ---------------------------------------------------------------- all of them */

void soak_cells_open(const struct soak_plan *plan, int rank)
{
    struct soak_token *tokens = ((struct soak_shared *)t_shared)->cells;
    uint64_t slice = (CELLS - 1) * (uint64_t)(SMALL + SOAK_LINE) + plan->large + SOAK_LINE;

    rarely = plan->rarely;
    sink = malloc(SINK);
    t_check_ok(oriel_mem_alloc(SOAK_RANKS * slice, NULL, &mem));
    t_check_ok(
        oriel_token_pack(mem, tokens[rank].token, sizeof(tokens[rank].token), &tokens[rank].bytes));
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    for (int r = 0; r < SOAK_RANKS; r++) {
        t_check_ok(oriel_token_open(tokens[r].token, tokens[r].bytes, &remote[r]));
        for (unsigned i = 0; i < CELLS; i++) {
            struct soak_cell *cell = &cells[r][i];

            *cell = (struct soak_cell){ .rank = r, .bytes = i < CELLS - 1 ? SMALL : plan->large };
            cell->base = (uint64_t)rank * slice + i * (uint64_t)(SMALL + SOAK_LINE);
            cell->known = calloc(1, cell->bytes + SOAK_LINE);
            cell->local = calloc(1, cell->bytes + 3 * (size_t)SOAK_LINE);
        }
    }
}

void soak_cells_check(void)
{
    for (unsigned i = 0; i < SOAK_RANKS * CELLS; i++) {
        finish(&cells[i / CELLS][i % CELLS]);
    }
    for (unsigned i = 0; i < SOAK_RANKS * CELLS; i++) {
        struct soak_cell *cell = &cells[i / CELLS][i % CELLS];
        unsigned char *seen = malloc(cell->bytes + SOAK_LINE);

        flush_cells(cell->rank);
        t_check_ok(oriel_get(remote[cell->rank], cell->base, seen, cell->bytes + SOAK_LINE));
        t_check(memcmp(seen, cell->known, cell->bytes + SOAK_LINE) == 0);
        free(seen);
    }
}

void soak_cells_close(void)
{
    for (unsigned i = 0; i < SOAK_RANKS * CELLS; i++) {
        struct soak_cell *cell = &cells[i / CELLS][i % CELLS];

        t_check(cell->request == NULL);
        free(cell->known);
        free(cell->local);
    }
    for (int r = 0; r < SOAK_RANKS; r++) {
        t_check_ok(oriel_remote_close(remote[r]));
    }
    t_check_ok(oriel_mem_free(mem));
    free(sink);
}
