/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Argument checks of operations on remotes, with their words. The fast calls of rma.c ask the same
 * questions in one expression and come here only when an answer was no; batch.c comes here for
 * every operation before the first is started. No state, no lock.
 */
#include "core/mem/mem.h"

static const char *name_of_access(uint32_t access)
{
    switch (access) {
    case ORIEL_ACCESS_READ:
        return "reading";
    case ORIEL_ACCESS_WRITE:
        return "writing";
    default:
        return "atomics";
    }
}

/* The object itself: initialised, a remote, its owner alive. */
static int check_remote(const struct oriel_remote *remote)
{
    if (!core_is_open()) {
        return core_state_error();
    }
    if (remote == NULL) {
        return orl_fail(ORL_ERR_INVAL, "remote is NULL; open one with oriel_token_open");
    }
    if (remote->magic != CORE_REMOTE_MAGIC) {
        return orl_fail(ORL_ERR_INVAL, "remote %p is closed or was never one",
                        (const void *)remote);
    }
    if (core_peer_is_failed(remote->owner)) {
        return core_peer_error(remote->owner);
    }
    return 0;
}

static int check_range(const struct oriel_remote *remote, uint64_t offset, uint64_t bytes,
                       uint32_t access)
{
    if ((remote->access & access) == 0) {
        return orl_fail(ORL_ERR_INVAL, "memory %llu of rank %d was not registered for %s",
                        (unsigned long long)remote->id, remote->owner, name_of_access(access));
    }
    if (bytes > remote->key.bytes || offset > remote->key.bytes - bytes) {
        return orl_fail(ORL_ERR_RANGE,
                        "%llu bytes at offset %llu pass the end of memory %llu of rank %d, which "
                        "has %llu bytes",
                        (unsigned long long)bytes, (unsigned long long)offset,
                        (unsigned long long)remote->id, remote->owner,
                        (unsigned long long)remote->key.bytes);
    }
    return 0;
}

int core_remote_check(const struct oriel_remote *remote, uint64_t offset, const void *local,
                      uint64_t bytes, uint32_t access)
{
    int st = check_remote(remote);
    if (st == 0) {
        st = check_range(remote, offset, bytes, access);
    }
    if (st == 0 && local == NULL && bytes != 0) {
        return orl_fail(ORL_ERR_INVAL, "the local buffer is NULL with a length of %llu bytes",
                        (unsigned long long)bytes);
    }
    return st;
}

static int check_aligned(const struct oriel_remote *remote, uint64_t offset, uint64_t width)
{
    if (((remote->misalign + offset) & (width - 1)) != 0) {
        return orl_fail(ORL_ERR_INVAL,
                        "offset %llu is not aligned for an atomic of %llu bytes on memory %llu of "
                        "rank %d",
                        (unsigned long long)offset, (unsigned long long)width,
                        (unsigned long long)remote->id, remote->owner);
    }
    return 0;
}

int core_counter_check(const struct oriel_remote *remote, uint64_t offset)
{
    int st = check_remote(remote);
    if (st == 0) {
        st = check_range(remote, offset, 8, ORIEL_ACCESS_WRITE);
    }
    return st != 0 ? st : check_aligned(remote, offset, 8);
}

int core_atomic_check(const struct oriel_remote *remote, const struct oriel_xfer *x)
{
    int st = check_remote(remote);
    if (st != 0) {
        return st;
    }
    if (x->bytes != 4 && x->bytes != 8) {
        return orl_fail(ORL_ERR_INVAL, "an atomic has 4 or 8 bytes, not %llu",
                        (unsigned long long)x->bytes);
    }
    if (x->kind == ORIEL_ATOMIC && (unsigned)x->atomic > ORIEL_ATOMIC_XOR) {
        return orl_fail(ORL_ERR_INVAL, "%d is not an enum oriel_atomic (0 to %d)", x->atomic,
                        ORIEL_ATOMIC_XOR);
    }
    st = check_range(remote, x->offset, x->bytes, ORIEL_ACCESS_ATOMIC);
    return st != 0 ? st : check_aligned(remote, x->offset, x->bytes);
}

uint8_t core_amo_of(const struct oriel_xfer *x)
{
    static const uint8_t amo[] = {
        [ORIEL_ATOMIC_ADD] = FAB_AMO_ADD, [ORIEL_ATOMIC_SWAP] = FAB_AMO_SWAP,
        [ORIEL_ATOMIC_AND] = FAB_AMO_AND, [ORIEL_ATOMIC_OR] = FAB_AMO_OR,
        [ORIEL_ATOMIC_XOR] = FAB_AMO_XOR,
    };
    return x->kind == ORIEL_COMPARE_SWAP ? (uint8_t)FAB_AMO_CSWAP : amo[x->atomic];
}

int core_xfer_check(const struct oriel_xfer *x)
{
    int st;
    switch (x->kind) {
    case ORIEL_PUT:
        return core_remote_check(x->remote, x->offset, x->src, x->bytes, ORIEL_ACCESS_WRITE);
    case ORIEL_GET:
        return core_remote_check(x->remote, x->offset, x->dst, x->bytes, ORIEL_ACCESS_READ);
    case ORIEL_PUT_NOTIFY:
        st = core_remote_check(x->remote, x->offset, x->src, x->bytes, ORIEL_ACCESS_WRITE);
        return st != 0 ? st : core_counter_check(x->remote, x->counter);
    case ORIEL_ATOMIC:
    case ORIEL_COMPARE_SWAP:
        return core_atomic_check(x->remote, x);
    default:
        return orl_fail(ORL_ERR_INVAL, "%d is not an enum oriel_kind (0 to %d)", x->kind,
                        ORIEL_COMPARE_SWAP);
    }
}
