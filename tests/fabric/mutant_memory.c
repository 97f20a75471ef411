/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Planted faults in which bytes are touched: lengths, offsets, ranges, rights, atomics.
 */
#include "mutant.h"

#include <string.h>

/* ---------------------------------------------------------------- lengths and offsets */

static bool has_room(const struct fab_op *op)
{
    return op->offset < op->rkey->bytes && op->rkey->bytes - op->offset > op->bytes;
}

static void put_long(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->kind == FAB_OP_PUT && op->bytes > 0 && has_room(op)) {
        shadow->op.bytes++;
    }
    mutant_post(shadow);
}

static int short_long(struct mutant_ep *mep, const struct fab_rkey *key, uint64_t offset,
                      const void *src, size_t bytes)
{
    unsigned char copy[MUTANT_BUFFER];

    if (bytes == 0 || bytes >= sizeof copy) {
        return mep->real->put_short(mep->ep, key, offset, src, bytes);
    }
    memcpy(copy, src, bytes);
    copy[bytes] = 0;
    return mep->real->put_short(mep->ep, key, offset, copy, bytes + 1);
}

static void drop_tail(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->kind == FAB_OP_PUT && op->offset % 8 != 0 && op->bytes > 8) {
        shadow->op.bytes--;
    }
    mutant_post(shadow);
}

static void cut_offset(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->kind == FAB_OP_PUT) {
        shadow->op.offset &= 0xfffff;
    }
    mutant_post(shadow);
}

static void drop_chunk(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->kind == FAB_OP_PUT && op->bytes > 262144) {
        shadow->op.bytes = 262144;
    }
    mutant_post(shadow);
}

static void lose_empty(struct mutant_ep *mep, struct fab_op *op)
{
    if (op->kind == FAB_OP_FLUSH || op->bytes > 0) {
        mutant_post(mutant_shadow(mep, op));
    }
}

static void get_long(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->kind == FAB_OP_GET && op->bytes > 0 && has_room(op)) {
        shadow->op.bytes++;
    }
    mutant_post(shadow);
}

static void get_shifted(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->kind == FAB_OP_GET) {
        shadow->op.offset &= ~(uint64_t)7;
    }
    mutant_post(shadow);
}

/* The range grows by what lies behind it; guards are there. */
static void pass_range(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->rkey != NULL) {
        shadow->key = *op->rkey;
        shadow->key.bytes += MUTANT_BUFFER;
        shadow->op.rkey = &shadow->key;
    }
    mutant_post(shadow);
}

/* Rights are not looked at: what may be read may be written. */
static void pass_rights(struct mutant_ep *mep, struct fab_op *op)
{
    if (op->kind == FAB_OP_PUT && op->rkey->direct != NULL &&
        op->offset + op->bytes <= op->rkey->bytes) {
        memcpy(op->rkey->direct + op->offset, op->local, op->bytes);
        mutant_later(mutant_shadow(mep, op), 0, mutant_finish_fine);
    } else {
        mutant_post(mutant_shadow(mep, op));
    }
}

/* ---------------------------------------------------------------- atomics */

static void wrong_old(struct mutant_shadow *shadow, int status)
{
    if (shadow->op.kind == FAB_OP_AMO && shadow->op.local != NULL && status == 0) {
        ++*(unsigned char *)shadow->op.local;
    }
    mutant_finish(shadow, status);
    mutant_free(shadow);
}

/* Second half of an atomic made of a get and a put. */
static void put_sum(struct mutant_shadow *shadow, int status)
{
    uint64_t value;

    if (status != 0) {
        mutant_finish(shadow, status);
        mutant_free(shadow);
        return;
    }
    memcpy(&value, shadow->buffer, sizeof value);
    if (shadow->user->local != NULL) {
        memcpy(shadow->user->local, &value, sizeof value);
    }
    value += shadow->user->operand;
    memcpy(shadow->buffer, &value, sizeof value);
    shadow->op.kind = FAB_OP_PUT;
    shadow->finish = NULL;
    mutant_post(shadow);
}

static void add_by_parts(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->kind == FAB_OP_AMO && op->amo == FAB_AMO_ADD && op->width == 8) {
        shadow->op.kind = FAB_OP_GET;
        shadow->op.bytes = 8;
        shadow->op.local = shadow->buffer;
        shadow->finish = put_sum;
    }
    mutant_post(shadow);
}

static void store_wide(struct mutant_shadow *shadow, int status)
{
    if (shadow->user->local != NULL) {
        memcpy(shadow->user->local, shadow->buffer, 8);
    }
    mutant_finish(shadow, status);
    mutant_free(shadow);
}

static void amo_wide(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->kind == FAB_OP_AMO && op->width == 4 && op->offset % 8 == 0) {
        shadow->op.width = 8;
        shadow->op.bytes = 8;
        shadow->op.local = shadow->buffer;
        shadow->finish = store_wide;
    }
    mutant_post(shadow);
}

static void swap_always(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->kind == FAB_OP_AMO && op->amo == FAB_AMO_CSWAP) {
        shadow->op.amo = FAB_AMO_SWAP;
    }
    mutant_post(shadow);
}

static void store_narrow(struct mutant_shadow *shadow, int status)
{
    if (shadow->user->local != NULL) {
        memcpy(shadow->user->local, shadow->buffer, 4);
    }
    mutant_finish(shadow, status);
    mutant_free(shadow);
}

/* Eight bytes are fetched right, but only half of the old value is handed over. */
static void amo_narrow(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->kind == FAB_OP_AMO && op->width == 8) {
        shadow->op.local = shadow->buffer;
        shadow->finish = store_narrow;
    }
    mutant_post(shadow);
}

static void align_amo(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = mutant_shadow(mep, op);

    if (op->kind == FAB_OP_AMO && (op->width == 4 || op->width == 8)) {
        shadow->op.offset -= op->offset % op->width;
    }
    mutant_post(shadow);
}

const struct mutant_fault mutant_memory_faults[] = {
    { "a put is one byte too long", "put_aligns", .post = put_long },
    { "a short put is one byte too long", "put_shorts", .put_short = short_long },
    { "a misaligned put loses its last byte", "put_aligns", .post = drop_tail },
    { "an offset is cut to 20 bits", "put_sizes", .post = cut_offset },
    { "a large put loses its end", "put_sizes", .post = drop_chunk },
    { "an empty put is never done", "put_sizes", .post = lose_empty },
    { "a get is one byte too long", "get_sizes", .post = get_long },
    { "a get starts at a word", "get_aligns", .post = get_shifted },
    { "the range is not checked", "mem_range", .post = pass_range },
    { "rights are not checked", "mem_access", .post = pass_rights },
    { "an atomic gives a wrong old value", "amo_kinds", .finish = wrong_old },
    { "an atomic is a get and a put", "amo_atomic", .post = add_by_parts },
    { "an atomic loses additions of the CPU", "amo_cpu", .post = add_by_parts },
    { "an atomic of 4 bytes takes 8", "amo_kinds", .post = amo_wide },
    { "an atomic of 8 bytes gives 4", "amo_kinds", .post = amo_narrow },
    { "compare and swap always swaps", "amo_kinds", .post = swap_always },
    { "a misaligned atomic is moved", "amo_refused", .post = align_amo },
};
const size_t mutant_nmemory_faults = sizeof mutant_memory_faults / sizeof mutant_memory_faults[0];
