/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What bare_ofi never measures: numbers and bytes that go by the plain socket, and the tests of
 * oriel-perf that it has not.
 */
#include "bare_ofi.h"

#include <string.h>

#include "bare_link.h"

enum {
    SHARE_BYTES = 64 << 10,
    NUMBERS = 1024
};

void bare_swap(const void *mine, void *theirs, size_t bytes)
{
    if (!bare_link_swap(mine, theirs, bytes, bare_idle)) {
        ops_abort("bare_ofi: the other process is gone");
    }
}

void ops_sync(struct ops_mem *mem)
{
    uint64_t nothing = 0;

    (void)mem;
    ops_largest(&nothing, 1);
}

void ops_share(void *data, size_t bytes, int root)
{
    static unsigned char theirs[SHARE_BYTES];

    if (bytes > sizeof(theirs)) {
        ops_abort("bare_ofi: too much to share");
    }
    bare_swap(data, theirs, bytes);
    if (bare_rank != root) {
        memcpy(data, theirs, bytes);
    }
}

static void combine(uint64_t *numbers, size_t n, bool is_sum)
{
    static uint64_t theirs[NUMBERS];

    if (n > NUMBERS) {
        ops_abort("bare_ofi: too many numbers");
    }
    bare_swap(numbers, theirs, n * sizeof(*numbers));
    for (size_t i = 0; i < n; i++) {
        if (is_sum) {
            numbers[i] += theirs[i];
        } else if (theirs[i] > numbers[i]) {
            numbers[i] = theirs[i];
        }
    }
}

void ops_largest(uint64_t *numbers, size_t n)
{
    combine(numbers, n, false);
}

void ops_sum(uint64_t *numbers, size_t n)
{
    combine(numbers, n, true);
}

static _Noreturn void refuse(void)
{
    ops_abort("bare_ofi: only the put and get tests are here");
}

uint64_t ops_add(struct ops_mem *mem, int target, uint64_t at, uint64_t operand, uint64_t n)
{
    (void)mem;
    (void)target;
    (void)at;
    (void)operand;
    (void)n;
    refuse();
}

uint64_t ops_swap(struct ops_mem *mem, int target, uint64_t at, uint64_t first, uint64_t n)
{
    return ops_add(mem, target, at, first, n);
}

void ops_barrier(uint64_t n)
{
    (void)n;
    refuse();
}

void ops_bcast(void *data, size_t bytes, int root, uint64_t n)
{
    (void)data;
    (void)bytes;
    (void)root;
    (void)n;
    refuse();
}

void ops_allreduce(const void *send, void *recv, size_t count, uint64_t n)
{
    (void)send;
    (void)recv;
    (void)count;
    (void)n;
    refuse();
}
