/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the operations of a cell are, and what each of them must bring about.
 */
#include "tests/core/soak_cell.h"

#include <string.h>

#include "base/crc.h"
#include "tests/t.h"

enum {
    GUARD = 8 /* bytes before and behind a landing */
};

static void choose_atomic(struct soak_cell *cell, unsigned i, uint64_t from, uint64_t room)
{
    struct oriel_xfer *x = &cell->xfer[i];
    uint64_t before = 0;

    x->bytes = soak_draw(2) == 0 ? 4 : 8;
    x->offset = (from + soak_draw(room - 2 * x->bytes) + x->bytes - 1) / x->bytes * x->bytes;
    x->operand = x->bytes == 4 ? soak_draw(UINT32_MAX) : soak_draw(UINT64_MAX);
    memcpy(&before, cell->known + x->offset, x->bytes);
    x->expected = before + soak_draw(2);
    x->expected = x->bytes == 4 ? (uint32_t)x->expected : x->expected;
    x->atomic = (int)soak_draw(ORIEL_ATOMIC_XOR + 1);
    x->dst = &cell->old[i];
    cell->old[i] = 0;
}

static void choose_copy(struct soak_cell *cell, unsigned i, uint64_t from, uint64_t room)
{
    struct oriel_xfer *x = &cell->xfer[i];
    unsigned char *local;

    x->bytes = soak_draw_bytes(room - 2 * GUARD);
    x->offset = from + GUARD + soak_draw(room - 2 * GUARD - x->bytes + 1);
    local = cell->local + soak_draw(SOAK_LINE) + x->offset;
    if (x->kind == ORIEL_GET) {
        x->dst = local + GUARD;
        memset(local, 0xee, x->bytes + 2 * (size_t)GUARD);
        return;
    }
    x->src = local + GUARD;
    t_fill(local + GUARD, x->bytes, (uint64_t)t_rank, soak_draw(1000000), x->offset);
    x->counter = cell->base + cell->bytes;
    x->operand = soak_draw(1000);
}

void soak_cell_choose(struct soak_cell *cell, struct oriel_remote *remote)
{
    static const int kinds[] = { ORIEL_PUT, ORIEL_PUT, ORIEL_PUT,        ORIEL_GET,
                                 ORIEL_GET, ORIEL_GET, ORIEL_PUT_NOTIFY, ORIEL_ATOMIC,
                                 ORIEL_PUT, ORIEL_GET, ORIEL_ATOMIC,     ORIEL_COMPARE_SWAP };
    uint64_t room;

    cell->count = soak_draw(4) == 0 ? 1 + (unsigned)soak_draw(SOAK_BATCH) : 1;
    room = cell->bytes / cell->count / SOAK_LINE * SOAK_LINE;
    for (unsigned i = 0; i < cell->count; i++) {
        struct oriel_xfer *x = &cell->xfer[i];

        *x = (struct oriel_xfer){ .remote = remote };
        x->kind = kinds[soak_draw(12)];
        if (x->kind == ORIEL_ATOMIC || x->kind == ORIEL_COMPARE_SWAP) {
            choose_atomic(cell, i, i * room, room);
        } else {
            choose_copy(cell, i, i * room, room - SOAK_LINE);
        }
        x->offset += cell->base;
    }
    cell->opts = (struct oriel_run_opts)ORIEL_RUN_OPTS_INIT;
    cell->opts.results = cell->result;
    cell->opts.timeout_ns = soak_draw(10) == 0 ? 1 + (int64_t)soak_draw(200000) : 0;
    cell->opts.flags = soak_draw(10) == 0 ? ORIEL_CRC32C : 0;
    cell->opts.flags |= soak_draw(10) == 0 ? ORIEL_NOWAIT : 0;
}

/* ---------------------------------------------------------------- what it must bring about */

static void apply_add(unsigned char *known, const struct oriel_xfer *x)
{
    uint64_t sum;

    memcpy(&sum, known, sizeof(sum));
    sum += x->operand;
    memcpy(known, &sum, sizeof(sum));
}

static uint64_t atomic_result(const struct oriel_xfer *x, uint64_t before)
{
    if (x->kind == ORIEL_COMPARE_SWAP) {
        return before == x->expected ? x->operand : before;
    }
    switch (x->atomic) {
    case ORIEL_ATOMIC_ADD:
        return before + x->operand;
    case ORIEL_ATOMIC_SWAP:
        return x->operand;
    case ORIEL_ATOMIC_AND:
        return before & x->operand;
    case ORIEL_ATOMIC_OR:
        return before | x->operand;
    default:
        return before ^ x->operand;
    }
}

static void apply_atomic(const struct soak_cell *cell, unsigned i, unsigned char *known)
{
    const struct oriel_xfer *x = &cell->xfer[i];
    uint64_t before = 0;
    uint64_t after;

    memcpy(&before, known, x->bytes);
    t_check_eq((long long)cell->old[i], (long long)before);
    after = atomic_result(x, before);
    memcpy(known, &after, x->bytes);
}

static void check_got(const unsigned char *known, const struct oriel_xfer *x)
{
    const unsigned char *local = x->dst;

    t_check(memcmp(known, local, x->bytes) == 0);
    for (int i = 1; i <= GUARD; i++) {
        t_check(local[-i] == 0xee);
        t_check(local[x->bytes + (unsigned)i - 1] == 0xee);
    }
}

void soak_cell_apply(struct soak_cell *cell)
{
    for (unsigned i = 0; i < cell->count; i++) {
        const struct oriel_xfer *x = &cell->xfer[i];
        unsigned char *known = cell->known + (x->offset - cell->base);

        if (x->kind == ORIEL_GET) {
            check_got(known, x);
        } else if (x->kind == ORIEL_ATOMIC || x->kind == ORIEL_COMPARE_SWAP) {
            apply_atomic(cell, i, known);
        } else {
            memcpy(known, x->src, x->bytes);
        }
        if (x->kind == ORIEL_PUT_NOTIFY) {
            apply_add(cell->known + cell->bytes, x);
        }
    }
}

void soak_cell_check_results(const struct soak_cell *cell)
{
    for (unsigned i = 0; i < cell->count; i++) {
        const struct oriel_xfer *x = &cell->xfer[i];
        const void *data = x->kind == ORIEL_GET ? x->dst : x->src;

        t_check_eq(cell->result[i].error, 0);
        t_check_eq((long long)cell->result[i].bytes, (long long)x->bytes);
        if ((cell->opts.flags & ORIEL_CRC32C) != 0 && data != NULL) {
            t_check_eq(cell->result[i].crc32c, orl_crc32c(0, data, x->bytes));
        }
    }
}

bool soak_cell_writes(const struct soak_cell *cell)
{
    bool found = false;

    for (unsigned i = 0; i < cell->count; i++) {
        found = found || cell->xfer[i].kind != ORIEL_GET;
    }
    return found;
}
