/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of mine that peers may reach: allocated from the node arena, or the program's own. Makes
 * and ends the registration; the token's bytes are in token.c. The list of what is alive is guarded
 * by one lock (rank MEM), so that finalize can end what the program forgot.
 */
#include "core/mem/mem.h"

#include <string.h>

#include "base/log.h"
#include "base/pool.h"
#include "core/path/progress.h"

/* From a pool, so that a handle that was freed stays readable and is refused with words. */
static struct orl_pool mems;
static struct orl_lock lock;
static struct orl_list alive; /* of struct oriel_mem; lock */
static uint64_t next_id;      /* lock */

int core_mem_open(void)
{
    orl_lock_init(&lock, ORL_RANK_MEM, "mem");
    orl_list_init(&alive);
    next_id = 1;
    fab_handler_set(&core.fabric, CORE_ON_RELEASE, core_release_came, NULL);
    int st = orl_pool_init(&mems, "memories", sizeof(struct oriel_mem), ORL_CACHE_LINE, 64, 0);
    if (st != 0) {
        return st;
    }
    st = core_remotes_open();
    if (st != 0) {
        orl_pool_fini(&mems);
    }
    return st;
}

static int check_opts(const struct oriel_mem_opts *opts)
{
    if (!core_is_open()) {
        return core_state_error();
    }
    if (opts == NULL) {
        return 0;
    }
    if (opts->size < sizeof(*opts)) {
        return orl_fail(ORL_ERR_INVAL,
                        "opts.size is %zu; start it with ORIEL_MEM_OPTS_INIT (%zu bytes)",
                        opts->size, sizeof(*opts));
    }
    if (opts->atomicity == ORIEL_ATOMICITY_NIC) {
        return orl_fail(ORL_ERR_UNSUPP, "atomicity by NIC: this process has no NIC open; use "
                                        "ORIEL_ATOMICITY_CPU");
    }
    if (opts->atomicity != ORIEL_ATOMICITY_CPU) {
        return orl_fail(ORL_ERR_INVAL, "opts.atomicity is %d, not an enum oriel_atomicity",
                        opts->atomicity);
    }
    const uint32_t all = ORIEL_ACCESS_READ | ORIEL_ACCESS_WRITE | ORIEL_ACCESS_ATOMIC;
    if ((opts->access & ~all) != 0) {
        return orl_fail(ORL_ERR_INVAL, "opts.access is 0x%x; valid bits are 0x%x",
                        (unsigned)opts->access, (unsigned)all);
    }
    return 0;
}

static unsigned fabric_access(uint32_t access)
{
    unsigned bits = FAB_ACCESS_LOCAL;
    bits |= (access & ORIEL_ACCESS_READ) != 0 ? FAB_ACCESS_REMOTE_READ : 0u;
    bits |= (access & ORIEL_ACCESS_WRITE) != 0 ? FAB_ACCESS_REMOTE_WRITE : 0u;
    bits |= (access & ORIEL_ACCESS_ATOMIC) != 0 ? FAB_ACCESS_REMOTE_ATOMIC : 0u;
    return bits;
}

/* Wrap [base, base + bytes) in an object and its registration. */
static int enrol(void *base, uint64_t bytes, const struct oriel_mem_opts *opts, bool allocated,
                 struct oriel_mem **out)
{
    struct oriel_mem *mem = orl_pool_alloc(&mems);
    if (mem == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for a registration of %zu bytes", sizeof(*mem));
    }
    memset(mem, 0, sizeof(*mem));
    mem->access = opts != NULL ? opts->access : 0;
    if (mem->access == 0) {
        mem->access = ORIEL_ACCESS_READ | ORIEL_ACCESS_WRITE | ORIEL_ACCESS_ATOMIC;
    }
    mem->base = base;
    mem->bytes = bytes;
    mem->allocated = allocated;
    int st = fab_region_open(&core.fabric, base, bytes, fabric_access(mem->access), &mem->region);
    if (st != 0) {
        orl_pool_free(&mems, mem);
        return st;
    }
    st = fab_region_reg(mem->region, core_token_engine());
    if (st != 0) {
        fab_region_drop(mem->region);
        orl_pool_free(&mems, mem);
        return st;
    }
    mem->magic = CORE_MEM_MAGIC;
    orl_lock(&lock);
    mem->id = next_id++;
    orl_list_add_tail(&alive, &mem->all);
    orl_unlock(&lock);
    *out = mem;
    return 0;
}

ORL_PUBLIC int oriel_mem_alloc(uint64_t bytes, const struct oriel_mem_opts *opts,
                               struct oriel_mem **mem)
{
    int st = check_opts(opts);
    if (st != 0) {
        return st;
    }
    if (mem == NULL) {
        return orl_fail(ORL_ERR_INVAL, "mem is NULL; give the address of a pointer");
    }
    void *base = NULL;
    st = fab_node_alloc(core.node, bytes, &base);
    if (st != 0) {
        return st;
    }
    st = enrol(base, bytes, opts, true, mem);
    if (st != 0) {
        (void)!fab_node_free(core.node, base);
        return st;
    }
    orl_stat_add(&core.stats, ORL_STAT_ALLOCS, 1);
    return 0;
}

ORL_PUBLIC int oriel_mem_register(void *base, uint64_t bytes, const struct oriel_mem_opts *opts,
                                  struct oriel_mem **mem)
{
    int st = check_opts(opts);
    if (st != 0) {
        return st;
    }
    if (mem == NULL) {
        return orl_fail(ORL_ERR_INVAL, "mem is NULL; give the address of a pointer");
    }
    if (base == NULL && bytes != 0) {
        return orl_fail(ORL_ERR_INVAL, "base is NULL with a length of %llu bytes",
                        (unsigned long long)bytes);
    }
    if ((uintptr_t)base > UINTPTR_MAX - bytes) {
        return orl_fail(ORL_ERR_INVAL,
                        "base %p plus %llu bytes passes the end of the address space", base,
                        (unsigned long long)bytes);
    }
    if (core.node->nranks > 1 && !fab_node_holds(core.node, base, bytes)) {
        st = core_agent_start(); /* peers may need this process's CPU to reach it */
    }
    return st != 0 ? st : enrol(base, bytes, opts, false, mem);
}

static int check_mem(const struct oriel_mem *mem)
{
    if (!core_is_open()) {
        return core_state_error();
    }
    if (mem == NULL || mem->magic != CORE_MEM_MAGIC) {
        return orl_fail(ORL_ERR_INVAL,
                        "mem %p is freed or was never memory of "
                        "oriel_mem_alloc or oriel_mem_register",
                        (const void *)mem);
    }
    return 0;
}

/* Order matters: no access under way, then the registration object, then the memory. */
static int retire(struct oriel_mem *mem)
{
    mem->magic = 0;
    fab_region_revoke(mem->region);
    fab_region_drop(mem->region);
    int st = mem->allocated ? fab_node_free(core.node, mem->base) : 0;
    orl_pool_free(&mems, mem);
    return st;
}

ORL_PUBLIC int oriel_mem_free(struct oriel_mem *mem)
{
    if (mem == NULL) {
        return 0;
    }
    int st = check_mem(mem);
    if (st != 0) {
        return st;
    }
    orl_lock(&lock);
    orl_list_del(&mem->all);
    orl_unlock(&lock);
    return retire(mem);
}

void core_mem_revoke(uint64_t id)
{
    struct fab_region *region = NULL;
    struct orl_list *it;
    orl_lock(&lock);
    orl_list_each(it, &alive) {
        struct oriel_mem *mem = container_of(it, struct oriel_mem, all);
        if (mem->id == id) {
            region = mem->region;
            fab_region_hold(region);
            break;
        }
    }
    orl_unlock(&lock);
    if (region != NULL) {
        fab_region_revoke(region);
        fab_region_drop(region);
    }
}

void core_mem_close(void)
{
    size_t forgotten = 0;
    while (!orl_list_is_empty(&alive)) {
        struct oriel_mem *mem = container_of(alive.next, struct oriel_mem, all);
        orl_list_del(&mem->all);
        (void)!retire(mem);
        forgotten++;
    }
    if (forgotten > 0) {
        orl_log_debug(ORL_CAT_MEM, "finalize freed %zu memories the program still held", forgotten);
    }
    core_remotes_close();
    orl_pool_fini(&mems);
    orl_lock_fini(&lock);
}

ORL_PUBLIC void *oriel_mem_base(const struct oriel_mem *mem)
{
    return core_is_open() && mem != NULL && mem->magic == CORE_MEM_MAGIC ? mem->base : NULL;
}

ORL_PUBLIC uint64_t oriel_mem_size(const struct oriel_mem *mem)
{
    return core_is_open() && mem != NULL && mem->magic == CORE_MEM_MAGIC ? mem->bytes : 0;
}

int core_mem_check(const struct oriel_mem *mem, uint64_t offset, uint64_t bytes)
{
    int st = check_mem(mem);
    if (st != 0) {
        return st;
    }
    if (bytes > mem->bytes || offset > mem->bytes - bytes) {
        return orl_fail(
            ORL_ERR_RANGE, "%llu bytes at offset %llu pass the end of this memory of %llu bytes",
            (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)mem->bytes);
    }
    return 0;
}
