/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A library that is wrong once in a while, for a build of oriel-perf whose calls the linker brings
 * here first (--wrap): its --verify must notice. FLIP in the environment names the kind of call; of
 * each three the third has one bit of what it moved flipped, or is lost (atomics), or lets pass
 * before all have come (barrier; lost on all ranks alike). FLIP_RANK leaves the other ranks right.
 * Control traffic of oriel-perf has types of its own and stays whole.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "oriel.h"

enum {
    EACH = 3,
    BIT = 0x10
};

int __real_oriel_put(struct oriel_remote *remote, uint64_t offset, const void *src, uint64_t bytes);
int __real_oriel_get(struct oriel_remote *remote, uint64_t offset, void *dst, uint64_t bytes);
int __real_oriel_run(const struct oriel_xfer *ops, uint64_t count,
                     const struct oriel_run_opts *opts);
int __real_oriel_atomic64(struct oriel_remote *remote, uint64_t offset, enum oriel_atomic op,
                          uint64_t operand, uint64_t *old);
int __real_oriel_compare_swap64(struct oriel_remote *remote, uint64_t offset, uint64_t expected,
                                uint64_t desired, uint64_t *old);
int __real_oriel_barrier(struct oriel_team *team);
int __real_oriel_bcast(void *buffer, uint64_t count, const struct oriel_type *type, int root,
                       struct oriel_team *team);
int __real_oriel_allreduce(const void *send, void *recv, uint64_t count,
                           const struct oriel_type *type, const struct oriel_op *op,
                           struct oriel_team *team);

int __wrap_oriel_put(struct oriel_remote *remote, uint64_t offset, const void *src, uint64_t bytes);
int __wrap_oriel_get(struct oriel_remote *remote, uint64_t offset, void *dst, uint64_t bytes);
int __wrap_oriel_run(const struct oriel_xfer *ops, uint64_t count,
                     const struct oriel_run_opts *opts);
int __wrap_oriel_atomic64(struct oriel_remote *remote, uint64_t offset, enum oriel_atomic op,
                          uint64_t operand, uint64_t *old);
int __wrap_oriel_compare_swap64(struct oriel_remote *remote, uint64_t offset, uint64_t expected,
                                uint64_t desired, uint64_t *old);
int __wrap_oriel_barrier(struct oriel_team *team);
int __wrap_oriel_bcast(void *buffer, uint64_t count, const struct oriel_type *type, int root,
                       struct oriel_team *team);
int __wrap_oriel_allreduce(const void *send, void *recv, uint64_t count,
                           const struct oriel_type *type, const struct oriel_op *op,
                           struct oriel_team *team);

/* Whether this call, of the named kind, is one to spoil. */
static int is_its_turn(const char *kind)
{
    static const char *wanted;
    static unsigned calls;

    if (wanted == NULL) {
        const char *rank = getenv("FLIP_RANK");

        wanted = getenv("FLIP");
        if (wanted == NULL || (rank != NULL && atoi(rank) != oriel_rank())) {
            wanted = "";
        }
    }
    return strcmp(wanted, kind) == 0 && ++calls % EACH == 0;
}

/* In the middle of what was moved. */
static void flip(void *data, uint64_t bytes)
{
    if (bytes > 0) {
        ((unsigned char *)data)[bytes / 2] ^= BIT;
    }
}

int __wrap_oriel_put(struct oriel_remote *remote, uint64_t offset, const void *src, uint64_t bytes)
{
    unsigned char wrong;

    if (!is_its_turn("put") || bytes == 0) {
        return __real_oriel_put(remote, offset, src, bytes);
    }
    wrong = ((const unsigned char *)src)[bytes / 2] ^ BIT;
    (void)__real_oriel_put(remote, offset, src, bytes);
    return __real_oriel_put(remote, offset + bytes / 2, &wrong, 1);
}

int __wrap_oriel_get(struct oriel_remote *remote, uint64_t offset, void *dst, uint64_t bytes)
{
    int status = __real_oriel_get(remote, offset, dst, bytes);

    if (is_its_turn("get")) {
        flip(dst, bytes);
    }
    return status;
}

int __wrap_oriel_run(const struct oriel_xfer *ops, uint64_t count,
                     const struct oriel_run_opts *opts)
{
    int status = __real_oriel_run(ops, count, opts);

    if (is_its_turn("run") && count > 0 && ops[count - 1].kind == ORIEL_GET) {
        flip(ops[count - 1].dst, ops[count - 1].bytes);
    }
    return status;
}

int __wrap_oriel_atomic64(struct oriel_remote *remote, uint64_t offset, enum oriel_atomic op,
                          uint64_t operand, uint64_t *old)
{
    return is_its_turn("atomic") ? ORIEL_OK
                                 : __real_oriel_atomic64(remote, offset, op, operand, old);
}

int __wrap_oriel_compare_swap64(struct oriel_remote *remote, uint64_t offset, uint64_t expected,
                                uint64_t desired, uint64_t *old)
{
    if (is_its_turn("compare_swap")) {
        *old = expected; /* claims to have been the one */
        return ORIEL_OK;
    }
    return __real_oriel_compare_swap64(remote, offset, expected, desired, old);
}

int __wrap_oriel_barrier(struct oriel_team *team)
{
    return is_its_turn("barrier") ? ORIEL_OK : __real_oriel_barrier(team);
}

int __wrap_oriel_bcast(void *buffer, uint64_t count, const struct oriel_type *type, int root,
                       struct oriel_team *team)
{
    int status = __real_oriel_bcast(buffer, count, type, root, team);

    if (type == ORIEL_BYTE && is_its_turn("bcast")) {
        flip(buffer, count);
    }
    return status;
}

int __wrap_oriel_allreduce(const void *send, void *recv, uint64_t count,
                           const struct oriel_type *type, const struct oriel_op *op,
                           struct oriel_team *team)
{
    int status = __real_oriel_allreduce(send, recv, count, type, op, team);

    if (type == ORIEL_UINT64 && is_its_turn("allreduce")) {
        flip(recv, count * sizeof(uint64_t));
    }
    return status;
}
