/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data of the ranks of coll_rig.h, and a bcast of it.
 */
#include <string.h>

#include "tests/core/coll_rig.h"
#include "tests/t.h"

void rig_after(void *out, const void *left, const void *right, uint64_t n)
{
    const unsigned char *l = left;
    const unsigned char *r = right;
    unsigned char *o = out;

    for (uint64_t i = 0; i < n; i++) {
        unsigned a = (l[i] >> 4) * (r[i] >> 4);
        unsigned b = (r[i] >> 4) * (l[i] & 15u) + (r[i] & 15u);
        o[i] = (unsigned char)((a & 15) << 4 | (b & 15));
    }
}

/* Odd factors, so that no operand is forgotten. */
unsigned char rig_operand(int rank, uint64_t i)
{
    uint64_t mix = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)rank * 0x1f3d5b79;

    return (unsigned char)((mix >> 23) | 0x10);
}

unsigned char rig_result(int n, uint64_t i)
{
    unsigned char sum = rig_operand(0, i);

    for (int r = 1; r < n; r++) {
        unsigned char next = rig_operand(r, i);
        rig_after(&sum, &sum, &next, 1);
    }
    return sum;
}

int rig_bcast(struct rig_rank *me, unsigned char *data, size_t bytes, int root)
{
    memset(data, 0, bytes + 1);
    if (rig_rank_of(me) == root) {
        t_fill(data, bytes, (uint64_t)root, bytes, 0);
    }
    RIG_NEED(coll_hosts_bcast(&me->hosts, "test", data, bytes, root) == 0);
    RIG_NEED(t_differs(data, bytes, (uint64_t)root, bytes, 0) == bytes);
    RIG_NEED(data[bytes] == 0);
    return 0;
}
