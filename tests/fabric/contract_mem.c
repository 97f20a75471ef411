/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract: registrations and keys. A key made from a blob reaches exactly the range; blobs that
 * are wrong, ranges that are exceeded and rights that were not given are refused, and a refused
 * access touches nothing.
 */
#include "contract_list.h"

#include <string.h>

#define RANGE CT_RANGE

void ct_mem_keys(struct ct_rig *rig)
{
    struct ct_mem mem;
    struct ct_mem src;
    struct fab_rkey second;
    struct ct_tally tally = { 0 };
    struct ct_op op;
    unsigned char blob[FAB_RKEY_BYTES];
    size_t bytes = sizeof blob;

    if (!ct_mem_open(rig, CT_AT_B, RANGE, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, RANGE, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    ct_check(fab_region_reg(mem.region, rig->b.engine) == 0, "registering again fails");
    ct_check(fab_rkey_pack(mem.region, rig->b.engine, blob, &bytes) == 0, "packing fails");
    ct_check(bytes == rig->b.engine->limits.rkey_bytes && bytes > 0, "a blob of %zu bytes", bytes);
    ct_check(ct_mem_key(&mem, rig->ab2, &second) == 0, "no key for a second endpoint");
    ct_fill(src.base, RANGE, 3);
    ct_op_put(&op, &tally, &second, 8, &src, 0, 64);
    ct_check(ct_do(rig, rig->ab2, &op) == 0, "a put by the second key fails");
    ct_check(ct_flush_wait(rig, rig->ab2) == 0, "a flush fails");
    ct_check(ct_is_filled(mem.base + 8, 64, 3), "a put by the second key went elsewhere");
    if (mem.key.direct != NULL) {
        mem.key.direct[100] = 0x42;
        ct_check(mem.base[100] == 0x42, "the direct address is other memory");
    }
    fab_rkey_close(rig->ab2, &second);
    ct_check(ct_flush_wait(rig, rig->ab) == 0, "a flush fails");
    ct_mem_close(&mem);
    ct_mem_close(&src);
}

static void try_blob(struct ct_rig *rig, const void *blob, size_t bytes, bool may_open)
{
    struct fab_rkey key;
    int rc = fab_rkey_open(rig->ab, blob, bytes, &key);

    if (rc != 0) {
        ct_check(rc == ORL_ERR_INVAL || rc == ORL_ERR_GONE, "a malformed blob gives %s",
                 orl_status_name(rc));
        return;
    }
    ct_check(may_open, "a malformed blob of %zu bytes was accepted", bytes);
    ct_check(key.bytes <= RANGE, "a damaged blob gave a larger range");
    fab_rkey_close(rig->ab, &key);
}

void ct_mem_malformed(struct ct_rig *rig)
{
    struct ct_mem mem;
    unsigned char blob[FAB_RKEY_BYTES + 8] = { 0 };
    size_t bytes = FAB_RKEY_BYTES;
    size_t i;

    if (!ct_mem_open(rig, CT_AT_B, RANGE, FAB_ACCESS_ALL, &mem)) {
        return;
    }
    ct_check(fab_rkey_pack(mem.region, rig->b.engine, blob, &bytes) == 0, "packing fails");
    for (i = 0; i < bytes + 8; i++) {
        if (i != bytes) {
            try_blob(rig, blob, i, false);
        }
    }
    for (i = 0; i < bytes * 8; i++) {
        blob[i / 8] = (unsigned char)(blob[i / 8] ^ 1u << i % 8);
        try_blob(rig, blob, bytes, true);
        blob[i / 8] = (unsigned char)(blob[i / 8] ^ 1u << i % 8);
    }
    try_blob(rig, blob, bytes, true);
    memset(blob, 0, sizeof blob);
    try_blob(rig, blob, bytes, false);
    memset(blob, 0xff, sizeof blob);
    try_blob(rig, blob, bytes, false);
    ct_mem_close(&mem);
}

void ct_refused(struct ct_rig *rig, const struct fab_rkey *key, uint64_t offset, size_t bytes,
                int want, const struct ct_mem *local)
{
    struct ct_tally tally = { 0 };
    struct ct_op op[4];
    const size_t n = sizeof op / sizeof op[0];
    size_t i;
    int rc;

    ct_op_put(&op[0], &tally, key, offset, local, 0, bytes);
    ct_op_get(&op[1], &tally, key, offset, local, RANGE, bytes);
    if (rig->a.engine->limits.amo_align != 0) {
        ct_op_amo(&op[2], &tally, key, offset & ~(uint64_t)7, FAB_AMO_ADD, 8, 1);
        ct_op_fetch(&op[2], local, RANGE);
    } else {
        ct_op_get(&op[2], &tally, key, offset, local, RANGE, bytes);
    }
    ct_op_put(&op[3], &tally, key, offset, local, 0, bytes);
    ct_op_notify(&op[3], offset & ~(uint64_t)7, 1);
    for (i = 0; i < n; i++) {
        ct_post(rig->ab, &op[i]);
    }
    if (!ct_wait(rig, &tally)) {
        return;
    }
    for (i = 0; i < n; i++) {
        ct_check(op[i].status == want, "op kind %d, %zu bytes at %llu: %s instead of %s",
                 op[i].op.kind, bytes, (unsigned long long)offset, orl_status_name(op[i].status),
                 orl_status_name(want));
    }
    if (bytes <= rig->a.engine->limits.put_short) {
        rc = ct_put_short_wait(rig, rig->ab, key, offset, local->base, bytes);
        rc = rc != 0 ? rc : ct_flush_wait(rig, rig->ab);
        ct_check(rc == want, "put_short: %s instead of %s", orl_status_name(rc),
                 orl_status_name(want));
    }
    ct_check(ct_is_byte(local->base + RANGE, RANGE, 0xa5), "a refused access wrote local memory");
}

/* covers: D9 */
void ct_mem_range(struct ct_rig *rig)
{
    static const struct {
        uint64_t offset;
        size_t bytes;
    } bad[] = {
        { RANGE, 8 },
        { RANGE - 7, 8 },
        { RANGE - 23, 24 },
        { RANGE + 4096, 16 },
        { UINT64_MAX - 7, 8 },
        { UINT64_MAX - 15, 24 },
        { (uint64_t)1 << 63, 8 },
        { (uint64_t)1 << 40, 64 },
    };
    struct ct_mem mem;
    struct ct_mem local;
    struct ct_tally tally = { 0 };
    struct ct_op op;
    size_t i;

    if (!ct_mem_open(rig, CT_AT_B, RANGE, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, (size_t)2 * RANGE, FAB_ACCESS_LOCAL, &local)) {
        return;
    }
    memset(local.base, 0x3c, RANGE);
    for (i = 0; i < sizeof bad / sizeof bad[0] && ct_is_fine(); i++) {
        /* Atomic and counter are aligned down; where that brings them inside, ask put and get. */
        if ((bad[i].offset & ~(uint64_t)7) + 8 > RANGE || bad[i].offset > RANGE) {
            ct_refused(rig, &mem.key, bad[i].offset, bad[i].bytes, ORL_ERR_RANGE, &local);
        } else {
            ct_op_put(&op, &tally, &mem.key, bad[i].offset, &local, 0, bad[i].bytes);
            ct_check(ct_do(rig, rig->ab, &op) == ORL_ERR_RANGE, "a put over the end is no RANGE");
            ct_op_get(&op, &tally, &mem.key, bad[i].offset, &local, RANGE, bad[i].bytes);
            ct_check(ct_do(rig, rig->ab, &op) == ORL_ERR_RANGE, "a get over the end is no RANGE");
        }
        ct_check(ct_is_byte(mem.base, RANGE, 0xa5), "a refused access wrote memory");
    }
    ct_op_put(&op, &tally, &mem.key, 0, &local, 0, 8);
    ct_op_notify(&op, RANGE - 4, 1);
    ct_check(ct_do(rig, rig->ab, &op) != 0, "a counter over the end is accepted");
    ct_op_put(&op, &tally, &mem.key, RANGE - 8, &local, 0, 8);
    ct_check(ct_do(rig, rig->ab, &op) == 0, "a put to the last bytes fails");
    ct_check(ct_flush_wait(rig, rig->ab) == 0, "a flush fails");
    ct_mem_close(&mem);
    ct_mem_close(&local);
}

/* covers: A4 */
/* A registration grants what it was asked to grant, and local memory is nobody else's. */
void ct_mem_access(struct ct_rig *rig)
{
    struct ct_mem mem;
    struct ct_mem local;
    struct ct_mem mine;
    struct ct_tally tally = { 0 };
    struct ct_op op;
    unsigned char blob[FAB_RKEY_BYTES];
    size_t bytes = sizeof blob;

    if (!ct_mem_open(rig, CT_AT_A, (size_t)2 * RANGE, FAB_ACCESS_LOCAL, &local) ||
        !ct_mem_open(rig, CT_AT_B, RANGE, FAB_ACCESS_LOCAL, &mine) ||
        !ct_mem_open(rig, CT_AT_B, RANGE, FAB_ACCESS_REMOTE_READ, &mem)) {
        return;
    }
    memset(local.base, 0x3c, RANGE);
    ct_check(fab_rkey_pack(mine.region, rig->b.engine, blob, &bytes) != 0,
             "a blob was made of local memory");
    ct_op_put(&op, &tally, &mem.key, 0, &local, 0, 64);
    ct_check(ct_do(rig, rig->ab, &op) != 0, "a put to memory that may only be read succeeds");
    ct_op_amo(&op, &tally, &mem.key, 0, FAB_AMO_ADD, 8, 1);
    ct_check(ct_do(rig, rig->ab, &op) != 0, "an atomic on memory that may only be read succeeds");
    ct_op_get(&op, &tally, &mem.key, 0, &local, 0, 64);
    ct_check(ct_do(rig, rig->ab, &op) == 0, "a get from memory that may be read fails");
    ct_check(ct_is_byte(mem.base, RANGE, 0xa5), "memory that may only be read was written");
    ct_mem_close(&mem);
    ct_mem_close(&mine);
    ct_mem_close(&local);
}

#define MANY 500

void ct_mem_many(struct ct_rig *rig)
{
    static struct ct_mem mem[MANY];
    static struct ct_op op[MANY];
    struct ct_mem src;
    struct ct_tally tally = { 0 };
    size_t i;

    if (!ct_mem_open(rig, CT_AT_A, MANY * 64, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    for (i = 0; i < MANY; i++) {
        if (!ct_mem_open(rig, CT_AT_B, 64 + i % 7 * 8, FAB_ACCESS_ALL, &mem[i])) {
            return;
        }
        ct_fill(src.base + i * 64, 64, (unsigned)i);
        ct_op_put(&op[i], &tally, &mem[i].key, i % 7 * 8, &src, i * 64, 64);
        ct_post(rig->ab, &op[i]);
    }
    (void)ct_wait_fine(rig, &tally);
    ct_check(ct_flush_wait(rig, rig->ab) == 0, "a flush fails");
    for (i = 0; i < MANY && ct_is_fine(); i++) {
        ct_check(ct_is_filled(mem[i].base + i % 7 * 8, 64, (unsigned)i),
                 "registration %zu holds another one's data", i);
        ct_mem_close(&mem[i]);
    }
    ct_mem_close(&src);
}
