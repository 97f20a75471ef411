/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations and the keys of them. A registration is a slot with a generation that grows at
 * every use; whoever touches the memory for a peer looks the generation up under tx, and a release
 * takes tx, so an access is complete before the release returns or does not happen. A key carries
 * a checksum over itself and the owner's cookie: a damaged one, or one of another engine, opens
 * nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/crc.h"
#include "fabric/ofi/ofi.h"

#define REGS_MAX (1u << 24)
#define GEN_LAST UINT32_MAX
#define NO_SLOT  UINT32_MAX

struct key_blob {
    uint64_t base;
    uint64_t bytes;
    uint32_t slot;
    uint32_t gen;
    uint32_t access;
    uint32_t crc; /* over the owner's cookie and all before */
};

_Static_assert(sizeof(struct key_blob) <= FAB_RKEY_BYTES, "fits a key");

size_t ofi_rkey_bytes(void)
{
    return sizeof(struct key_blob);
}

static uint32_t sum(const struct key_blob *blob, uint64_t cookie)
{
    return orl_crc32c(orl_crc32c(0, &cookie, sizeof(cookie)), blob, offsetof(struct key_blob, crc));
}

/* tx held. */
static int take_slot(struct ofi_regs *regs, uint32_t *slot)
{
    if (regs->used != 0 && regs->free != NO_SLOT) {
        *slot = regs->free;
        regs->free = regs->at[*slot].next_free;
        return 0;
    }
    if (regs->used == regs->size) {
        uint32_t size = regs->size == 0 ? 64 : regs->size * 2;
        struct ofi_reg *wider;

        if (size > REGS_MAX) {
            return orl_fail(ORL_ERR_NOMEM, "%u registrations are alive, the most of one engine",
                            regs->used);
        }
        wider = realloc(regs->at, size * sizeof(*wider));
        if (wider == NULL) {
            return orl_fail(ORL_ERR_NOMEM, "no memory for %u registrations", size);
        }
        memset(wider + regs->size, 0, (size - regs->size) * sizeof(*wider));
        regs->at = wider;
        regs->size = size;
    }
    regs->free = NO_SLOT;
    *slot = regs->used++;
    return 0;
}

int ofi_reg(struct fab_engine *engine, struct fab_region *region)
{
    struct ofi_engine *ofi = ofi_of(engine);
    uint32_t slot = 0;

    orl_lock(&engine->tx);
    int status = take_slot(&ofi->regs, &slot);
    if (status == 0) {
        struct ofi_reg *reg = &ofi->regs.at[slot];

        reg->gen++;
        reg->is_live = true;
        reg->base = region->base;
        reg->bytes = region->bytes;
        reg->access = region->access;
        reg->users = 0;
        reg->lent = NULL;
        region->slot[engine->index].word[0] = slot;
        region->slot[engine->index].word[1] = reg->gen;
    }
    orl_unlock(&engine->tx);
    return status;
}

void ofi_dereg(struct fab_engine *engine, struct fab_region *region)
{
    struct ofi_engine *ofi = ofi_of(engine);
    uint32_t slot = (uint32_t)region->slot[engine->index].word[0];

    orl_lock(&engine->tx);
    struct ofi_reg *reg = &ofi->regs.at[slot];
    ofi_reg_end_use(ofi, reg);
    reg->is_live = false;
    /* A slot whose generations are used up is never given out again. */
    if (reg->gen != GEN_LAST) {
        reg->next_free = ofi->regs.free;
        ofi->regs.free = slot;
    }
    orl_unlock(&engine->tx);
}

struct ofi_reg *ofi_reg_find(const struct ofi_engine *ofi, uint32_t slot, uint32_t gen)
{
    struct ofi_reg *reg;

    if (slot >= ofi->regs.used) {
        return NULL;
    }
    reg = &ofi->regs.at[slot];
    return reg->is_live && reg->gen == gen ? reg : NULL;
}

void ofi_rkey_pack(struct fab_engine *engine, const struct fab_region *region, void *blob)
{
    struct key_blob made = {
        .base = (uintptr_t)region->base,
        .bytes = region->bytes,
        .slot = (uint32_t)region->slot[engine->index].word[0],
        .gen = (uint32_t)region->slot[engine->index].word[1],
        .access = region->access,
    };

    made.crc = sum(&made, ofi_of(engine)->cookie);
    memcpy(blob, &made, sizeof(made));
}

int ofi_rkey_open(struct fab_ep *base, const void *blob, size_t bytes, struct fab_rkey *rkey)
{
    struct ofi_peer *peer = ofi_ep_of(base)->peer;
    struct key_blob got;

    memcpy(&got, blob, sizeof(got) < bytes ? sizeof(got) : bytes);
    if (got.crc != sum(&got, peer->cookie)) {
        return orl_fail(ORL_ERR_INVAL, "these %zu bytes are no key of %s", bytes, base->label);
    }
    orl_lock(&base->engine->tx);
    bool is_dead = ofi_peer_knows_dead(peer, got.slot, got.gen);
    orl_unlock(&base->engine->tx);
    if (is_dead) {
        return orl_fail(ORL_ERR_GONE, "registration %u of %s has been ended", got.slot,
                        base->label);
    }
    rkey->bytes = got.bytes;
    rkey->addr = got.base;
    rkey->word[0] = (uint64_t)got.slot << 32 | got.gen;
    rkey->word[1] = got.access;
    return 0;
}

/* ---------------------------------------------------------------- the provider's */

static int complain(const struct ofi_engine *ofi, size_t bytes, const char *what, int rc)
{
    struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

    if ((rc == -FI_ENOMEM || rc == -EPERM || rc == -FI_EAGAIN) &&
        getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        return orl_fail(ORL_ERR_NOMEM,
                        "%s cannot register %zu bytes of %s: %s; at most %llu KiB of memory may be "
                        "locked here (ulimit -l)",
                        ofi->base.name, bytes, what, fi_strerror(-rc),
                        (unsigned long long)limit.rlim_cur / 1024);
    }
    return orl_fail(ORL_ERR_SYS, "%s cannot register %zu bytes of %s: %s", ofi->base.name, bytes,
                    what, fi_strerror(-rc));
}

int ofi_local_reg(struct ofi_engine *ofi, void *memory, size_t bytes, const char *what,
                  struct fid_mr **mr, void **desc)
{
    int mode = ofi->info->domain_attr->mr_mode;
    uint64_t key = (mode & FI_MR_PROV_KEY) != 0 ? 0 : ofi->next_key++;
    int rc;

    *mr = NULL;
    *desc = NULL;
    if ((mode & FI_MR_LOCAL) == 0) {
        return 0;
    }
    rc = fi_mr_reg(ofi->domain, memory, bytes, FI_SEND | FI_RECV, 0, key, 0, mr, NULL);
    if (rc == 0 && (mode & FI_MR_ENDPOINT) != 0) {
        rc = fi_mr_bind(*mr, &ofi->carrier->fid, 0);
        rc = rc != 0 ? rc : fi_mr_enable(*mr);
        if (rc != 0) {
            ofi_local_dereg(mr);
        }
    }
    if (rc != 0) {
        *mr = NULL;
        return complain(ofi, bytes, what, rc);
    }
    *desc = fi_mr_desc(*mr);
    return 0;
}

void ofi_local_dereg(struct fid_mr **mr)
{
    if (*mr != NULL) {
        (void)fi_close(&(*mr)->fid);
        *mr = NULL;
    }
}

/* ---------------------------------------------------------------- what peers have ended */

void ofi_peer_note_dead(struct ofi_peer *peer, const struct fab_rkey *rkey)
{
    uint32_t slot = ofi_rkey_slot(rkey);
    uint32_t gen = ofi_rkey_gen(rkey);

    if (ofi_peer_knows_dead(peer, slot, gen)) {
        return;
    }
    /* Without memory the peer goes on to say it each time. */
    if (orl_map_put(&peer->dead, slot, (void *)((uintptr_t)gen + 1)) != 0) {
        orl_last_error_clear();
    }
}

bool ofi_peer_knows_dead(const struct ofi_peer *peer, uint32_t slot, uint32_t gen)
{
    return (uintptr_t)orl_map_get(&peer->dead, slot) > gen;
}
