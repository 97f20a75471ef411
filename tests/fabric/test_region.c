/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions and keys over the loopback engine: one registration per engine, what ends it, and what a
 * key says afterwards.
 */
#include <criterion/criterion.h>

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "fabric/node.h"

static struct fab fabric;
static struct fab_engine *engine;
static struct fab_ep *ep;
static unsigned char memory[4096];

static void open_self(struct fab_node *node)
{
    unsigned char blob[FAB_ADDRESS_BYTES];
    size_t bytes;

    cr_assert_eq(fab_open(&fabric, "self", node), 0);
    engine = fab_engine_find(&fabric, "self");
    cr_assert_not_null(engine);
    cr_assert_eq(fab_engine_address(engine, blob, &bytes), 0);
    cr_assert_eq(fab_ep_open(engine, blob, bytes, "myself", &ep), 0);
}

static void close_self(void)
{
    fab_ep_close(ep);
    fab_close(&fabric);
}

static struct fab_region *region_of(unsigned access)
{
    struct fab_region *region;

    cr_assert_eq(fab_region_open(&fabric, memory, sizeof memory, access, &region), 0);
    return region;
}

static int key_of(struct fab_region *region, struct fab_rkey *key)
{
    unsigned char blob[FAB_RKEY_BYTES];
    size_t bytes;
    int status = fab_rkey_pack(region, engine, blob, &bytes);

    return status != 0 ? status : fab_rkey_open(ep, blob, bytes, key);
}

static void done(struct fab_op *op, int status)
{
    *(int *)op->user = status;
}

static int put8(const struct fab_rkey *key, uint64_t offset)
{
    uint64_t word = 42;
    int status = 77;
    struct fab_op op = { .done = done,
                         .kind = FAB_OP_PUT,
                         .local = &word,
                         .bytes = 8,
                         .offset = offset,
                         .rkey = key,
                         .user = &status };

    fab_post(ep, &op);
    while (status == 77) {
        (void)fab_progress(&fabric);
    }
    return status;
}

Test(region, lists_of_transports)
{
    cr_assert_eq(fab_open(&fabric, "", NULL), ORL_ERR_CONF);
    cr_assert_eq(fab_open(&fabric, "self,tin-can", NULL), ORL_ERR_CONF);
    cr_assert_not_null(strstr(orl_last_error(), "tin-can"));
    cr_assert_not_null(strstr(orl_last_error(), fab_transports()));
    cr_assert_eq(fabric.nengines, 0);
    cr_assert_eq(fab_open(&fabric, "shm", NULL), ORL_ERR_INVAL);
}

Test(region, refuses_nonsense)
{
    struct fab_region *region;

    open_self(NULL);
    cr_assert_eq(fab_region_open(&fabric, NULL, 8, FAB_ACCESS_ALL, &region), ORL_ERR_INVAL);
    cr_assert_eq(fab_region_open(&fabric, memory, UINT64_MAX, FAB_ACCESS_ALL, &region),
                 ORL_ERR_INVAL);
    cr_assert_eq(fab_region_open(&fabric, memory, 8, 0, &region), ORL_ERR_INVAL);
    cr_assert_eq(fab_region_open(&fabric, memory, 8, 16, &region), ORL_ERR_INVAL);
    close_self();
}

/* covers: A6 A11 */
Test(region, one_registration_per_engine)
{
    struct fab_region *region;
    struct fab_rkey first;
    struct fab_rkey second;

    open_self(NULL);
    region = region_of(FAB_ACCESS_ALL);
    cr_assert_eq(orl_stat_get(&engine->stats, ORL_STAT_REGISTRATIONS), 0);
    cr_assert_eq(fab_region_reg(region, engine), 0);
    cr_assert_eq(fab_region_reg(region, engine), 0);
    cr_assert_eq(key_of(region, &first), 0);
    cr_assert_eq(key_of(region, &second), 0);
    cr_assert_eq(orl_stat_get(&engine->stats, ORL_STAT_REGISTRATIONS), 1);
    cr_assert_eq(first.bytes, sizeof memory);
    cr_assert_eq(first.direct, memory);
    cr_assert_eq(put8(&first, 16), 0);
    cr_assert_eq(memory[16], 42);
    cr_assert_eq(put8(&first, sizeof memory - 7), ORL_ERR_RANGE);
    fab_rkey_close(ep, &first);
    fab_rkey_close(ep, &second);
    fab_region_drop(region);
    close_self();
}

struct packer {
    pthread_t thread;
    struct fab_region *region;
    unsigned char blob[FAB_RKEY_BYTES];
    size_t bytes;
    int status;
};

static void *pack_at_once(void *arg)
{
    struct packer *packer = arg;

    packer->status = fab_rkey_pack(packer->region, engine, packer->blob, &packer->bytes);
    return NULL;
}

/* All find it unregistered, since the test holds the region while they come. */
/* covers: A12 */
Test(region, threads_at_once_register_once)
{
    enum {
        N = 4
    };
    struct packer packer[N];
    struct fab_region *region;

    open_self(NULL);
    region = region_of(FAB_ACCESS_ALL);
    orl_lock(&region->lock);
    for (int i = 0; i < N; i++) {
        packer[i] = (struct packer){ .region = region };
        cr_assert_eq(pthread_create(&packer[i].thread, NULL, pack_at_once, &packer[i]), 0);
    }
    (void)usleep(100000);
    orl_unlock(&region->lock);
    for (int i = 0; i < N; i++) {
        (void)pthread_join(packer[i].thread, NULL);
        cr_assert_eq(packer[i].status, 0);
        cr_assert_eq(packer[i].bytes, packer[0].bytes);
        cr_assert_arr_eq(packer[i].blob, packer[0].blob, packer[0].bytes);
    }
    cr_assert_eq(orl_stat_get(&engine->stats, ORL_STAT_REGISTRATIONS), 1);
    fab_region_drop(region);
    close_self();
}

/* covers: A13 */
Test(region, what_failed_for_want_of_room_may_be_tried_again)
{
    struct fab_node_ticket ticket;
    struct fab_node *node;
    struct fab_region *region;
    struct fab_rkey key;
    uint32_t slot = 0;
    uint64_t gen = 0;

    cr_assert_eq(fab_node_create(&node, 1, 99, 1 << 20, &ticket), 0);
    cr_assert_eq(fab_node_join(node, 0, 0), 0);
    open_self(node);
    for (unsigned i = 0; i < FAB_REGS_MAX; i++) {
        cr_assert_eq(fab_node_reg(node, memory, 8, FAB_ACCESS_ALL, &slot, &gen), 0);
    }
    region = region_of(FAB_ACCESS_ALL);
    cr_assert_eq(fab_region_reg(region, engine), ORL_ERR_NOMEM);
    cr_assert_eq(key_of(region, &key), ORL_ERR_NOMEM);
    fab_node_dereg(node, slot);
    cr_assert_eq(fab_region_reg(region, engine), 0, "%s", orl_last_error());
    cr_assert_eq(key_of(region, &key), 0);
    cr_assert_eq(put8(&key, 0), 0);
    fab_region_drop(region);
    close_self();
    fab_node_close(node);
}

/* covers: A4 */
Test(region, local_memory_has_no_key)
{
    struct fab_rkey key;
    struct fab_region *region;

    open_self(NULL);
    region = region_of(FAB_ACCESS_LOCAL);
    cr_assert_eq(key_of(region, &key), ORL_ERR_INVAL);
    fab_region_drop(region);
    fab_region_drop(NULL);
    close_self();
}

/* covers: D10 */
Test(region, end_of_last_reference)
{
    struct fab_region *region;
    struct fab_rkey key;

    open_self(NULL);
    region = region_of(FAB_ACCESS_ALL);
    cr_assert_eq(key_of(region, &key), 0);
    fab_region_hold(region);
    fab_region_drop(region);
    cr_assert_eq(put8(&key, 0), 0);
    fab_region_drop(region);
    cr_assert_eq(put8(&key, 0), ORL_ERR_GONE);
    cr_assert_eq(fab_put_short(ep, &key, 0, memory, 8), ORL_ERR_GONE);
    close_self();
}

/* The slot is used again; the old key does not open the new registration. */
/* covers: A15 */
Test(region, revoked_for_good)
{
    unsigned char blob[FAB_RKEY_BYTES];
    struct fab_region *region;
    struct fab_region *other;
    struct fab_rkey key;
    struct fab_rkey fresh;
    size_t bytes;

    open_self(NULL);
    region = region_of(FAB_ACCESS_ALL);
    cr_assert_eq(key_of(region, &key), 0);
    cr_assert_eq(fab_rkey_pack(region, engine, blob, &bytes), 0);
    fab_region_revoke(region);
    fab_region_revoke(region);
    other = region_of(FAB_ACCESS_ALL);
    cr_assert_eq(key_of(other, &fresh), 0);
    cr_assert_eq(fab_region_reg(region, engine), ORL_ERR_GONE);
    cr_assert_eq(fab_rkey_pack(region, engine, blob, &bytes), ORL_ERR_GONE);
    cr_assert_eq(fab_rkey_open(ep, blob, bytes, &key), ORL_ERR_GONE);
    cr_assert_eq(put8(&fresh, 0), 0);
    fab_region_drop(region);
    fab_region_drop(other);
    close_self();
}

Test(region, malformed_keys)
{
    unsigned char blob[FAB_RKEY_BYTES] = { 0 };
    struct fab_region *region;
    struct fab_rkey key;
    size_t bytes;

    open_self(NULL);
    region = region_of(FAB_ACCESS_ALL);
    cr_assert_eq(fab_rkey_open(ep, blob, engine->limits.rkey_bytes, &key), ORL_ERR_INVAL);
    cr_assert_eq(fab_rkey_pack(region, engine, blob, &bytes), 0);
    cr_assert_eq(fab_rkey_open(ep, blob, bytes - 1, &key), ORL_ERR_INVAL);
    memset(blob + 4, 0xff, 4);
    cr_assert_eq(fab_rkey_open(ep, blob, bytes, &key), ORL_ERR_INVAL);
    fab_region_drop(region);
    close_self();
}

/* covers: D7 */
Test(region, ended_from_afar)
{
    struct fab_node_ticket ticket;
    struct fab_node *node;
    struct fab_region *region;
    struct fab_rkey key;

    cr_assert_eq(fab_node_create(&node, 1, 99, 1 << 20, &ticket), 0);
    cr_assert_eq(fab_node_join(node, 0, 0), 0);
    open_self(node);
    region = region_of(FAB_ACCESS_ALL);
    cr_assert_eq(key_of(region, &key), 0);
    cr_assert_not_null(key.live);
    cr_assert_eq(put8(&key, 0), 0);
    cr_assert_eq(fab_rkey_end(&key), 0);
    cr_assert_eq(put8(&key, 0), ORL_ERR_GONE);
    cr_assert_eq(fab_rkey_end(&key), 0);
    fab_region_drop(region);
    close_self();
    fab_node_close(node);
}

Test(region, only_the_owner_without_a_node)
{
    struct fab_region *region;
    struct fab_rkey key;

    open_self(NULL);
    region = region_of(FAB_ACCESS_ALL);
    cr_assert_eq(key_of(region, &key), 0);
    cr_assert_null(key.live);
    cr_assert_eq(fab_rkey_end(&key), ORL_ERR_UNSUPP);
    fab_region_drop(region);
    close_self();
}
