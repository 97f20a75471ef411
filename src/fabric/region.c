/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions: a range of this process's memory with one registration per engine, made on first use
 * there, and the keys peers get. Called by the core. Lock: the region's own, around filling and
 * ending its slots; a registration may be slow and a release waits for accesses under way, so
 * callers hold nothing. References belong to whoever made or held the region, posters included;
 * the fabric takes none for an op.
 */
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/transport.h"

int fab_region_open(struct fab *fabric, void *base, uint64_t bytes, unsigned access,
                    struct fab_region **region)
{
    if ((base == NULL && bytes != 0) || bytes > UINTPTR_MAX - (uintptr_t)base) {
        return orl_fail(ORL_ERR_INVAL, "memory at %p of %llu bytes cannot be registered", base,
                        (unsigned long long)bytes);
    }
    if (access == 0 || (access & ~(unsigned)FAB_ACCESS_ALL) != 0) {
        return orl_fail(ORL_ERR_INVAL, "access %#x of a registration is not a set of rights",
                        access);
    }
    struct fab_region *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for a region of %zu bytes", sizeof(*made));
    }
    made->fabric = fabric;
    made->base = base;
    made->bytes = bytes;
    made->access = access;
    made->in_node = fabric->node != NULL && fab_node_holds(fabric->node, base, bytes);
    atomic_init(&made->refs, 1);
    orl_lock_init(&made->lock, ORL_RANK_RCACHE, "region");
    *region = made;
    return 0;
}

void fab_region_hold(struct fab_region *region)
{
    /* Relaxed: whoever holds has a reference already, so the object cannot go meanwhile. */
    (void)atomic_fetch_add_explicit(&region->refs, 1, memory_order_relaxed);
}

void fab_region_drop(struct fab_region *region)
{
    if (region == NULL) {
        return;
    }
    /* Release what this holder did, acquire what all the others did before the end. */
    if (atomic_fetch_sub_explicit(&region->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    fab_region_revoke(region);
    orl_lock_fini(&region->lock);
    free(region);
}

/* Region lock held. */
static int fill_slot(struct fab_region *region, struct fab_engine *engine)
{
    unsigned i = engine->index;

    if (atomic_load_explicit(&region->slot[i].ready, memory_order_relaxed)) {
        return atomic_load_explicit(&region->slot[i].status, memory_order_relaxed);
    }
    int status = engine->transport->reg(engine, region);
    if (status == 0 || status == ORL_ERR_UNSUPP || status == ORL_ERR_INVAL) {
        atomic_store_explicit(&region->slot[i].status, status, memory_order_relaxed);
        atomic_store_explicit(&region->slot[i].ready, true, memory_order_release);
    }
    if (status == 0) {
        orl_lock(&engine->tx);
        orl_stat_add(&engine->stats, ORL_STAT_REGISTRATIONS, 1);
        orl_trace_mark(&engine->trace, ORL_TRACE_REGISTER, (uint32_t)region->slot[i].word[0],
                       (uintptr_t)region->base, region->bytes);
        orl_unlock(&engine->tx);
    }
    return status;
}

int fab_region_reg(struct fab_region *region, struct fab_engine *engine)
{
    unsigned i = engine->index;
    int status;

    if (ORL_LIKELY(atomic_load_explicit(&region->slot[i].ready, memory_order_acquire))) {
        status = atomic_load_explicit(&region->slot[i].status, memory_order_relaxed);
    } else {
        orl_lock(&region->lock);
        status = fill_slot(region, engine);
        orl_unlock(&region->lock);
    }
    if (status == ORL_ERR_GONE) {
        return orl_fail(status, "the registration of %p has been ended", region->base);
    }
    return status;
}

void fab_region_revoke(struct fab_region *region)
{
    struct fab *fabric = region->fabric;

    orl_lock(&region->lock);
    for (unsigned i = 0; i < fabric->nengines; i++) {
        bool live = atomic_load_explicit(&region->slot[i].ready, memory_order_relaxed) &&
                    atomic_load_explicit(&region->slot[i].status, memory_order_relaxed) == 0;

        if (live) {
            fabric->engine[i]->transport->dereg(fabric->engine[i], region);
            orl_lock(&fabric->engine[i]->tx);
            orl_trace_mark(&fabric->engine[i]->trace, ORL_TRACE_RELEASE,
                           (uint32_t)region->slot[i].word[0], (uintptr_t)region->base,
                           region->slot[i].word[1]);
            orl_unlock(&fabric->engine[i]->tx);
        }
        /* Ended for good: a registration in future would not be the one that peers know. */
        atomic_store_explicit(&region->slot[i].status, ORL_ERR_GONE, memory_order_relaxed);
        atomic_store_explicit(&region->slot[i].ready, true, memory_order_release);
    }
    orl_unlock(&region->lock);
}

int fab_rkey_pack(struct fab_region *region, struct fab_engine *engine, void *blob, size_t *bytes)
{
    if ((region->access & ~(unsigned)FAB_ACCESS_LOCAL) == 0) {
        return orl_fail(ORL_ERR_INVAL, "memory registered for local use alone has no remote key");
    }
    int status = fab_region_reg(region, engine);
    if (status != 0) {
        return status;
    }
    engine->transport->rkey_pack(engine, region, blob);
    *bytes = engine->limits.rkey_bytes;
    return 0;
}

int fab_rkey_open(struct fab_ep *ep, const void *blob, size_t bytes, struct fab_rkey *rkey)
{
    const struct fab_engine *engine = ep->engine;

    if (bytes != engine->limits.rkey_bytes) {
        return orl_fail(ORL_ERR_INVAL, "a key of %s has %zu bytes, not %zu", engine->name,
                        engine->limits.rkey_bytes, bytes);
    }
    memset(rkey, 0, sizeof(*rkey));
    return engine->transport->rkey_open(ep, blob, bytes, rkey);
}

void fab_rkey_close(struct fab_ep *ep, struct fab_rkey *rkey)
{
    if (rkey == NULL) {
        return;
    }
    ep->engine->transport->rkey_close(ep, rkey);
    memset(rkey, 0, sizeof(*rkey));
}

int fab_rkey_end(const struct fab_rkey *rkey)
{
    uint64_t gen = rkey->gen;

    if (rkey->live == NULL) {
        return orl_fail(ORL_ERR_UNSUPP, "this registration can be ended by its owner alone");
    }
    /* In the one order of fab_hazard_enter: an access that is published later sees the end. Failure
     * means that it had been ended before. */
    (void)atomic_compare_exchange_strong_explicit(rkey->live, &gen, gen + 1, memory_order_seq_cst,
                                                  memory_order_relaxed);
    return 0;
}
