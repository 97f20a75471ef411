/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract: the end of a registration. Afterwards every access is GONE and touches nothing, also
 * when the end comes while accesses are under way, and also when the place is taken again.
 */
#include "contract_list.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#define RANGE CT_RANGE

/* covers: D8 A15 */
void ct_gone_all(struct ct_rig *rig)
{
    struct ct_mem mem;
    struct ct_mem local;
    struct fab_rkey key;
    struct fab_rkey late;
    unsigned char blob[FAB_RKEY_BYTES];
    size_t bytes;
    unsigned round;

    if (!ct_mem_open(rig, CT_AT_A, (size_t)2 * RANGE, FAB_ACCESS_LOCAL, &local)) {
        return;
    }
    memset(local.base, 0x3c, RANGE);
    for (round = 0; round < 3 && ct_is_fine(); round++) {
        if (!ct_mem_open(rig, CT_AT_B, RANGE, FAB_ACCESS_ALL, &mem)) {
            return;
        }
        ct_check(ct_mem_key(&mem, rig->ab, &key) == 0, "no key");
        bytes = sizeof blob;
        ct_check(fab_rkey_pack(mem.region, rig->b.engine, blob, &bytes) == 0, "packing fails");
        fab_region_revoke(mem.region);
        ct_refused(rig, &key, 8, 24, ORL_ERR_GONE, &local);
        ct_settle(rig);
        ct_check(ct_is_byte(mem.base, RANGE, 0xa5), "memory was written after revoke");
        ct_check(fab_rkey_open(rig->ab, blob, bytes, &late) == ORL_ERR_GONE,
                 "a blob opens after its registration has ended");
        ct_mem_close(&mem);
        /* The place is taken again: the old key must not reach the new owner. */
        if (ct_mem_open(rig, CT_AT_B, RANGE, FAB_ACCESS_ALL, &mem)) {
            ct_refused(rig, &key, 8, 24, ORL_ERR_GONE, &local);
            ct_check(ct_is_byte(mem.base, RANGE, 0xa5), "an old key reached a new registration");
            ct_mem_close(&mem);
        }
        fab_rkey_close(rig->ab, &key);
    }
    ct_mem_close(&local);
}

/* Ended by a peer: no wait, but every later access is GONE, and the owner's end still works. */
/* covers: D7 D8 */
void ct_gone_from_afar(struct ct_rig *rig)
{
    struct ct_mem mem;
    struct ct_mem local;
    struct fab_rkey key;
    unsigned round;

    if (!ct_mem_open(rig, CT_AT_A, (size_t)2 * RANGE, FAB_ACCESS_LOCAL, &local)) {
        return;
    }
    memset(local.base, 0x3c, RANGE);
    for (round = 0; round < 5 && ct_is_fine(); round++) {
        if (!ct_mem_open(rig, CT_AT_B, RANGE, FAB_ACCESS_ALL, &mem)) {
            return;
        }
        if (mem.key.live == NULL) {
            ct_check(fab_rkey_end(&mem.key) == ORL_ERR_UNSUPP, "an end without a live word");
        } else {
            ct_check(fab_rkey_end(&mem.key) == 0, "a registration cannot be ended from afar");
            ct_check(fab_rkey_end(&mem.key) == 0, "ending it twice fails");
            ct_refused(rig, &mem.key, 8, 24, ORL_ERR_GONE, &local);
            ct_check(ct_is_byte(mem.base, RANGE, 0xa5), "memory was written after its end");
            ct_check(ct_mem_key(&mem, rig->ab, &key) == ORL_ERR_GONE, "an ended key opens");
        }
        ct_mem_close(&mem);
    }
    ct_mem_close(&local);
}

struct revoker {
    struct ct_rig *rig;
    struct ct_mem *mem;
    struct ct_mem *src;
    atomic_bool has_begun;
    atomic_bool is_over;
};

/* Puts until the key is GONE, and a little longer. */
static void *put_on(void *arg)
{
    struct revoker *revoker = arg;
    struct ct_tally tally = { 0 };
    struct ct_op op;
    unsigned late = 0;

    while (late < 20 && ct_is_fine()) {
        size_t bytes = 8 + (late * 8192 + 280000) % (revoker->src->bytes - 8);
        int status;

        ct_op_put(&op, &tally, &revoker->mem->key, 0, revoker->src, 0, bytes);
        status = ct_do(revoker->rig, revoker->rig->ab, &op);
        ct_check(status == 0 || status == ORL_ERR_GONE, "a put during revoke gives %s",
                 orl_status_name(status));
        late += status != 0;
        atomic_store(&revoker->has_begun, true);
    }
    ct_check(ct_flush_wait(revoker->rig, revoker->rig->ab) != ORL_ERR_INTERNAL, "a flush is lost");
    atomic_store(&revoker->is_over, true);
    return NULL;
}

/* covers: D8 A10 */
void ct_gone_live(struct ct_rig *rig)
{
    struct ct_mem mem;
    struct ct_mem src;
    struct revoker revoker = { rig, &mem, &src, false, false };
    pthread_t thread;
    unsigned round;

    rig->is_threaded = true;
    if (!ct_mem_open(rig, CT_AT_A, 300000, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    for (round = 0; round < 8 && ct_is_fine(); round++) {
        if (!ct_mem_open(rig, CT_AT_B, 310000, FAB_ACCESS_ALL, &mem)) {
            return;
        }
        atomic_store(&revoker.has_begun, false);
        atomic_store(&revoker.is_over, false);
        if (!ct_check(pthread_create(&thread, NULL, put_on, &revoker) == 0, "no thread")) {
            return;
        }
        while (!atomic_load(&revoker.has_begun) && ct_is_fine()) {
            (void)sched_yield();
        }
        fab_region_revoke(mem.region);
        memset(mem.base, 0x5a, mem.bytes);
        (void)pthread_join(thread, NULL);
        ct_check(ct_is_byte(mem.base, mem.bytes, 0x5a), "memory was written after revoke returned");
        ct_mem_close(&mem);
    }
    ct_mem_close(&src);
}
