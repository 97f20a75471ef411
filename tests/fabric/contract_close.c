/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract: what is opened is given back. Endpoints, keys, registrations and whole fabrics are
 * opened and closed over and over; descriptors, mappings and heap stay as they were.
 */
#include "contract_list.h"

#include <string.h>

#define TIMES 1000

/* Compare with the state after a first round, when lazily made things exist. A few mappings come
 * and go with the allocator; one a round would be more. */
static void check_same(const struct ct_holdings *before, size_t rounds, size_t heap_slack)
{
    struct ct_holdings now;

    ct_holdings_now(&now);
    ct_check(now.fds <= before->fds, "%zu rounds left %zu descriptors open", rounds,
             now.fds - before->fds);
    ct_check(now.maps <= before->maps + 20, "%zu rounds left %zu mappings", rounds,
             now.maps - before->maps);
    ct_check(now.heap_bytes <= before->heap_bytes + heap_slack, "%zu rounds left %zu heap bytes",
             rounds, now.heap_bytes - before->heap_bytes);
}

static void use_ep(struct ct_rig *rig, struct fab_ep *ep, const struct ct_mem *mem,
                   const struct ct_mem *src)
{
    struct ct_tally tally = { 0 };
    struct fab_rkey key;
    struct ct_op op;

    ct_check(ct_mem_key(mem, ep, &key) == 0, "no key");
    ct_op_put(&op, &tally, &key, 0, src, 0, 64);
    ct_check(ct_do(rig, ep, &op) == 0, "a put fails");
    ct_check(ct_flush_wait(rig, ep) == 0, "a flush fails");
    fab_rkey_close(ep, &key);
}

/* covers: J2 */
void ct_close_eps(struct ct_rig *rig)
{
    struct ct_holdings before = { 0 };
    struct ct_mem mem;
    struct ct_mem src;
    unsigned i;

    if (!ct_mem_open(rig, CT_AT_B, 4096, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, 4096, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    for (i = 0; i < TIMES && ct_is_fine(); i++) {
        struct fab_ep *ep;

        if (i == 10) {
            ct_settle(rig);
            ct_holdings_now(&before);
        }
        if (!ct_ep_open(&rig->a, &rig->b, "one of many", &ep)) {
            return;
        }
        if (i % 3 == 0) {
            use_ep(rig, ep, &mem, &src);
        }
        if (i % 3 == 1) {
            ct_ep_stop(ep);
        }
        if (ct_is_fine()) {
            fab_ep_close(ep);
        }
    }
    ct_settle(rig); /* where the far end has a part in it, that goes by message */
    check_same(&before, TIMES, 4096);
    ct_mem_close(&mem);
    ct_mem_close(&src);
}

void ct_close_regions(struct ct_rig *rig)
{
    static unsigned char memory[4096];
    struct ct_holdings before = { 0 };
    unsigned i;

    for (i = 0; i < TIMES * 3 && ct_is_fine(); i++) {
        unsigned char blob[FAB_RKEY_BYTES];
        struct fab_region *region;
        struct fab_rkey key;
        size_t bytes = sizeof blob;

        if (i == 10) {
            ct_holdings_now(&before);
        }
        if (!ct_check(fab_region_open(rig->b.fab, memory, sizeof memory, FAB_ACCESS_ALL, &region) ==
                          0,
                      "region: %s", orl_last_error()) ||
            !ct_check(fab_rkey_pack(region, rig->b.engine, blob, &bytes) == 0, "pack: %s",
                      orl_last_error()) ||
            !ct_check(fab_rkey_open(rig->ab, blob, bytes, &key) == 0, "key: %s",
                      orl_last_error())) {
            return;
        }
        fab_region_hold(region);
        if (i % 2 == 0) {
            fab_region_revoke(region);
        }
        fab_region_drop(region);
        fab_rkey_close(rig->ab, &key);
        fab_region_drop(region);
    }
    check_same(&before, (size_t)TIMES * 3, 4096);
}

static void one_rig(const struct ct_row *row)
{
    static struct ct_rig rig;
    struct ct_tally tally = { 0 };
    struct ct_op op;
    struct ct_mem mem;
    struct ct_mem src;

    ct_rig_open(&rig, row);
    if (!ct_is_fine() || !ct_mem_open(&rig, CT_AT_B, 65536, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(&rig, CT_AT_A, 65536, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    ct_op_put(&op, &tally, &mem.key, 0, &src, 0, 65536);
    ct_check(ct_do(&rig, rig.ab, &op) == 0, "a put fails");
    ct_op_get(&op, &tally, &mem.key, 0, &src, 0, 65536);
    ct_check(ct_do(&rig, rig.ab, &op) == 0, "a get fails");
    ct_message(&rig, &op, &tally, 0, 0, &src, 0, 100);
    (void)ct_wait(&rig, &tally);
    (void)ct_wait_messages(&rig, &rig.inbox_b, 1);
    ct_mem_close(&mem);
    ct_mem_close(&src);
    ct_rig_close(&rig);
}

void ct_close_rigs(struct ct_rig *rig)
{
    const struct ct_row *row = rig->row;
    struct ct_holdings before = { 0 };
    unsigned i;

    for (i = 0; i < 30 && ct_is_fine(); i++) {
        if (i == 3) {
            ct_holdings_now(&before);
        }
        one_rig(row);
    }
    if (ct_is_fine()) {
        check_same(&before, 30, 16384 + 30 * row->lost);
    }
}
