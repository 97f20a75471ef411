/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random operations between ranks that reach each other over a network alone: kinds, sizes, peers,
 * deadlines and requests that are given up, all drawn from a seed (T_SEED, 1). Every rank owns a
 * slice of every rank's memory and knows what each byte of it must be. At the end every operation
 * is resolved, every byte is right, and nothing is left. T_SOAK=1 makes it a million operations.
 */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oriel.h"
#include "tests/core/over.h"
#include "tests/t.h"

TestSuite(soak, .init = over_network, .timeout = 3600);

enum {
    RANKS = 3,
    CELLS = 8, /* of a slice: each has one operation at a time */
    CELL = 24576,
    SLICE = CELLS * CELL
};

struct cell {
    int rank;
    unsigned index;
    struct oriel_request *request;
    struct oriel_xfer xfer;
    bool is_dirty;        /* written since the last flush of that rank */
    bool is_unknown;      /* a write was given up */
    unsigned char *known; /* [CELL] what is there */
    unsigned char *local; /* [CELL] source or landing */
    uint64_t old;
    struct oriel_result result;
};

static struct cell cells[RANKS][CELLS];
static struct oriel_remote *remote[RANKS];
static uint64_t state;

static uint64_t draw(uint64_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % below;
}

/* ---------------------------------------------------------------- the end of an operation */

static void flush_cells(int rank)
{
    t_check_ok(oriel_flush(rank));
    for (unsigned i = 0; i < CELLS; i++) {
        cells[rank][i].is_dirty = cells[rank][i].request != NULL && cells[rank][i].is_dirty;
    }
}

static void apply(struct cell *cell)
{
    uint64_t at = cell->xfer.offset - (uint64_t)t_rank * SLICE - (uint64_t)cell->index * CELL;

    if (cell->xfer.kind == ORIEL_PUT) {
        memcpy(cell->known + at, cell->local, cell->xfer.bytes);
    } else if (cell->xfer.kind == ORIEL_GET) {
        t_check(memcmp(cell->known + at, cell->local, cell->xfer.bytes) == 0);
        t_check(cell->xfer.bytes == CELL || cell->local[cell->xfer.bytes] == 0xee);
    } else {
        uint64_t sum;

        memcpy(&sum, cell->known + at, 8);
        t_check_eq((long long)cell->old, (long long)sum);
        sum += cell->xfer.operand;
        memcpy(cell->known + at, &sum, 8);
    }
}

/* A write that was given up may have come in part: once it has settled all is written anew. */
static void make_known(struct cell *cell)
{
    uint64_t base = (uint64_t)t_rank * SLICE + (uint64_t)cell->index * CELL;

    flush_cells(cell->rank);
    t_check_ok(oriel_put(remote[cell->rank], base, cell->known, CELL));
    flush_cells(cell->rank);
    cell->is_unknown = false;
}

static void finish(struct cell *cell)
{
    struct oriel_status status;
    int rc;

    if (cell->request == NULL) {
        return;
    }
    rc = oriel_wait(&cell->request, &status);
    if (rc == ORIEL_ERR_TIMEOUT) {
        int done = 0;

        while (!oriel_request_settled(cell->request)) {
            (void)oriel_test(&cell->request, &done, NULL);
        }
        if (cell->request != NULL) {
            t_check_ok(oriel_request_free(&cell->request));
        }
        cell->is_unknown = cell->xfer.kind != ORIEL_GET;
    } else {
        t_check_ok(rc);
        t_check_eq((long long)status.bytes, (long long)cell->xfer.bytes);
        apply(cell);
    }
    if (cell->is_unknown) {
        make_known(cell);
    }
}

/* ---------------------------------------------------------------- the start of one */

static void choose(struct cell *cell)
{
    static const uint64_t most[] = { 8, 64, 1024, 4096, 9000, CELL };
    uint64_t bytes = 1 + draw(most[draw(sizeof(most) / sizeof(most[0]))]);
    uint64_t base = (uint64_t)t_rank * SLICE + (uint64_t)cell->index * CELL;
    uint64_t at = draw(CELL - bytes + 1);
    unsigned kind = (unsigned)draw(10);

    cell->xfer = (struct oriel_xfer){ .remote = remote[cell->rank], .bytes = bytes };
    if (kind < 5) {
        cell->xfer.kind = ORIEL_PUT;
        cell->xfer.src = cell->local;
        t_fill(cell->local, bytes, (uint64_t)t_rank, draw(1000000), at);
    } else if (kind < 8) {
        cell->xfer.kind = ORIEL_GET;
        cell->xfer.dst = cell->local;
        memset(cell->local, 0xee, CELL);
    } else {
        cell->xfer.kind = ORIEL_ATOMIC;
        cell->xfer.atomic = ORIEL_ATOMIC_ADD;
        cell->xfer.operand = draw(1000);
        cell->xfer.bytes = 8;
        cell->xfer.dst = &cell->old;
        at = draw(CELL / 8) * 8;
    }
    cell->xfer.offset = base + at;
}

static void start(struct cell *cell)
{
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    int rc;

    finish(cell);
    if (cell->is_dirty) {
        flush_cells(cell->rank);
    }
    choose(cell);
    opts.results = &cell->result;
    opts.timeout_ns = draw(10) == 0 ? 1 + (int64_t)draw(200000) : 0;
    cell->is_dirty = cell->xfer.kind != ORIEL_GET;
    rc = oriel_start(&cell->xfer, 1, &opts, &cell->request);
    if (rc == ORIEL_ERR_TIMEOUT) {
        cell->request = NULL; /* it found no room in time */
        return;
    }
    t_check_ok(rc);
    /* Given up: it goes on, and a flush still waits for it. Only reads, whose landing is not used
     * before the next finish; writes are followed to their end. */
    if (opts.timeout_ns == 0 && cell->xfer.kind == ORIEL_PUT && draw(50) == 0) {
        t_check_ok(oriel_request_free(&cell->request));
        flush_cells(cell->rank);
        apply(cell);
    }
}

/* ---------------------------------------------------------------- the run */

static uint64_t counter_of(const char *name)
{
    struct oriel_counter counter = { .size = sizeof(counter) };

    for (size_t i = 0; oriel_counter_query(i, &counter) == 0; i++) {
        if (strcmp(counter.name, name) == 0) {
            return counter.value;
        }
    }
    return 0;
}

/* The last messages of a barrier may still be under way. */
static bool is_resolved(void)
{
    double end = t_now() + 60;

    while (counter_of("posted") > counter_of("completed") + counter_of("failed")) {
        if (t_now() > end) {
            return false;
        }
        t_check_ok(oriel_flush_all());
    }
    return true;
}

static void check_all(void)
{
    unsigned char *seen = malloc(CELL);

    t_check_ok(oriel_flush_all());
    for (int r = 0; r < RANKS; r++) {
        for (unsigned i = 0; i < CELLS; i++) {
            uint64_t base = (uint64_t)t_rank * SLICE + (uint64_t)i * CELL;

            t_check_ok(oriel_get(remote[r], base, seen, CELL));
            t_check(memcmp(seen, cells[r][i].known, CELL) == 0);
        }
    }
    free(seen);
}

static struct box {
    size_t bytes;
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
} * boxes;

static void set_up(int rank, struct oriel_mem **mem)
{
    t_check_ok(oriel_mem_alloc((uint64_t)RANKS * SLICE, NULL, mem));
    t_check_ok(
        oriel_token_pack(*mem, boxes[rank].token, sizeof(boxes[rank].token), &boxes[rank].bytes));
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    for (int r = 0; r < RANKS; r++) {
        t_check_ok(oriel_token_open(boxes[r].token, boxes[r].bytes, &remote[r]));
        for (unsigned i = 0; i < CELLS; i++) {
            cells[r][i] = (struct cell){ .rank = r, .index = i };
            cells[r][i].known = calloc(1, CELL);
            cells[r][i].local = calloc(1, CELL);
        }
    }
}

static void take_down(struct oriel_mem *mem)
{
    for (int r = 0; r < RANKS; r++) {
        t_check_ok(oriel_remote_close(remote[r]));
        for (unsigned i = 0; i < CELLS; i++) {
            t_check(cells[r][i].request == NULL);
            free(cells[r][i].known);
            free(cells[r][i].local);
        }
    }
    t_check_ok(oriel_mem_free(mem));
}

static int soak(int rank, void *arg)
{
    uint64_t n = *(const uint64_t *)arg / RANKS;
    const char *seed = getenv("T_SEED");
    struct oriel_mem *mem;

    boxes = t_shared;
    state = (seed == NULL ? 1 : strtoull(seed, NULL, 10)) * 1000003 + (uint64_t)rank;
    set_up(rank, &mem);
    for (uint64_t i = 0; i < n; i++) {
        start(&cells[draw(RANKS)][draw(CELLS)]);
    }
    for (int r = 0; r < RANKS; r++) {
        for (unsigned i = 0; i < CELLS; i++) {
            finish(&cells[r][i]);
        }
    }
    check_all();
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    t_check(is_resolved());
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    take_down(mem);
    return 0;
}

static void run(uint64_t n)
{
    int rc;

    t_limit_s = 3000;
    rc = t_job(RANKS, soak, &n);
    cr_assert_eq(rc, 0, "T_SEED=%s STRICT_SEED=%s", getenv("T_SEED"), getenv("STRICT_SEED"));
}

/* covers: OFI-03 */
Test(soak, network)
{
    run(getenv("T_SOAK") != NULL ? 1000000 : 10000);
}

/* The same on the provider that enforces the contract of EFA, and reports what was left. */
/* covers: OFI-04 OFI-05 */
Test(soak, strict)
{
    const char *build = getenv("top_builddir");
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/tests/fake/strict/.libs", build == NULL ? "." : build);
    (void)setenv("FI_PROVIDER_PATH", path, 0);
    (void)setenv("ORIEL_OFI_PROVIDER", "strict", 1);
    (void)setenv("STRICT_ABORT", "1", 1);
    run(getenv("T_SOAK") != NULL ? 1000000 : 3000);
}
