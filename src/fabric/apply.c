/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a CPU does for an op, the same in every transport: is the op well formed and within its
 * range, and the atomics themselves. Called by transports under whatever lock their memory needs;
 * the atomics need none. Does not know whether the memory is alive: see fab_hazard_enter.
 */
#include <string.h>

#include "base/copy.h"
#include "fabric/fabric.h"
#include "fabric/transport.h"

static int check_range(const struct fab_op *op, uint64_t offset, uint64_t bytes)
{
    if (offset > op->rkey->bytes || bytes > op->rkey->bytes - offset) {
        return orl_fail(ORL_ERR_RANGE, "%llu bytes at offset %llu leave the registered %llu bytes",
                        (unsigned long long)bytes, (unsigned long long)offset,
                        (unsigned long long)op->rkey->bytes);
    }
    return 0;
}

static int check_access(unsigned has, enum fab_access wanted, const char *what)
{
    if ((has & (unsigned)wanted) == 0) {
        return orl_fail(ORL_ERR_INVAL, "the registration does not allow a remote %s", what);
    }
    return 0;
}

static int check_aligned(const struct fab_op *op, uint64_t offset, unsigned width)
{
    /* The registration's own address counts too: what is aligned is the word, not the offset. */
    if ((op->rkey->addr + offset) % width != 0) {
        return orl_fail(ORL_ERR_INVAL, "an atomic of %u bytes at offset %llu is not aligned", width,
                        (unsigned long long)offset);
    }
    return 0;
}

static int check_amo(const struct fab_op *op, unsigned access)
{
    if (op->width != 4 && op->width != 8) {
        return orl_fail(ORL_ERR_INVAL, "an atomic has 4 or 8 bytes, not %u", (unsigned)op->width);
    }
    if (op->amo >= FAB_AMO_KINDS) {
        return orl_fail(ORL_ERR_INVAL, "there is no atomic of kind %u", (unsigned)op->amo);
    }
    int status = check_access(access, FAB_ACCESS_REMOTE_ATOMIC, "atomic");
    if (status == 0) {
        status = check_range(op, op->offset, op->width);
    }
    return status != 0 ? status : check_aligned(op, op->offset, op->width);
}

static int check_put(const struct fab_op *op, unsigned access)
{
    int status = check_access(access, FAB_ACCESS_REMOTE_WRITE, "write");

    if (status == 0) {
        status = check_range(op, op->offset, op->bytes);
    }
    if (status != 0 || op->kind == FAB_OP_PUT) {
        return status;
    }
    status = check_range(op, op->notify, sizeof(uint64_t));
    return status != 0 ? status : check_aligned(op, op->notify, sizeof(uint64_t));
}

int fab_op_check(const struct fab_op *op, unsigned access)
{
    int status;

    switch ((enum fab_op_kind)op->kind) {
    case FAB_OP_PUT:
    case FAB_OP_PUT_NOTIFY:
        return check_put(op, access);
    case FAB_OP_GET:
        status = check_access(access, FAB_ACCESS_REMOTE_READ, "read");
        return status != 0 ? status : check_range(op, op->offset, op->bytes);
    case FAB_OP_AMO:
        return check_amo(op, access);
    case FAB_OP_SEND:
    case FAB_OP_FLUSH:
        return 0;
    case FAB_OP_KINDS:
        break;
    }
    return orl_fail(ORL_ERR_INVAL, "there is no operation of kind %u", (unsigned)op->kind);
}

static uint32_t apply4(_Atomic uint32_t *at, enum fab_amo amo, uint32_t operand, uint32_t compare)
{
    switch (amo) {
    case FAB_AMO_ADD:
        return atomic_fetch_add(at, operand);
    case FAB_AMO_SWAP:
        return atomic_exchange(at, operand);
    case FAB_AMO_CSWAP:
        (void)atomic_compare_exchange_strong(at, &compare, operand);
        return compare;
    case FAB_AMO_AND:
        return atomic_fetch_and(at, operand);
    case FAB_AMO_OR:
        return atomic_fetch_or(at, operand);
    case FAB_AMO_XOR:
        return atomic_fetch_xor(at, operand);
    case FAB_AMO_KINDS:
        break;
    }
    return 0;
}

static uint64_t apply8(_Atomic uint64_t *at, enum fab_amo amo, uint64_t operand, uint64_t compare)
{
    switch (amo) {
    case FAB_AMO_ADD:
        return atomic_fetch_add(at, operand);
    case FAB_AMO_SWAP:
        return atomic_exchange(at, operand);
    case FAB_AMO_CSWAP:
        (void)atomic_compare_exchange_strong(at, &compare, operand);
        return compare;
    case FAB_AMO_AND:
        return atomic_fetch_and(at, operand);
    case FAB_AMO_OR:
        return atomic_fetch_or(at, operand);
    case FAB_AMO_XOR:
        return atomic_fetch_xor(at, operand);
    case FAB_AMO_KINDS:
        break;
    }
    return 0;
}

uint64_t fab_amo_apply(void *at, enum fab_amo amo, unsigned width, uint64_t operand,
                       uint64_t compare)
{
    if (width == 4) {
        return apply4((_Atomic uint32_t *)at, amo, (uint32_t)operand, (uint32_t)compare);
    }
    return apply8((_Atomic uint64_t *)at, amo, operand, compare);
}

void fab_put_apply(void *dst, const void *src, size_t bytes)
{
    size_t head = bytes > sizeof(uint64_t) ? bytes - sizeof(uint64_t) : 0;

    orl_copy(dst, src, head);
    /* Pairs with the acquire load of whoever polls the last word: all of the rest is there. */
    atomic_thread_fence(memory_order_release);
    orl_copy((unsigned char *)dst + head, (const unsigned char *)src + head, bytes - head);
}

void fab_amo_store_old(const struct fab_op *op, uint64_t old)
{
    uint32_t narrow = (uint32_t)old;

    if (op->local == NULL) {
        return;
    }
    if (op->width == 4) {
        memcpy(op->local, &narrow, sizeof(narrow));
    } else {
        memcpy(op->local, &old, sizeof(old));
    }
}
