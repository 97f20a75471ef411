/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bulk endpoint: opened when first needed, introduced to each peer that it is to be used with,
 * closed and opened anew when memory must be given back while reads may be under way. Each opening
 * is a life with a number; whoever names another life than the one that runs is told to send
 * messages. Also the registrations of memory for reads.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/sys.h"
#include "fabric/ofi/ofi.h"

#define ASK_AGAIN (100 * ORL_NS_PER_MS) /* after the question for a peer's endpoint */
#define PAUSE     ORL_NS_PER_MS         /* after a failure; then doubled */
#define PAUSES    13                    /* doublings at most */
#define PER_CHUNK 8                     /* large pieces that are made at once */
#define KEY_TRIES 4

/* ---------------------------------------------------------------- open and close */

static void close_endpoint(struct ofi_bulk *bulk)
{
    if (bulk->ep != NULL) {
        (void)fi_close(&bulk->ep->fid);
        bulk->ep = NULL;
    }
}

static int open_endpoint(struct ofi_engine *ofi, struct ofi_bulk *bulk)
{
    size_t bytes = sizeof(bulk->name);
    int rc = fi_endpoint(ofi->domain, ofi->info, &bulk->ep, NULL);

    rc = rc != 0 ? rc : fi_ep_bind(bulk->ep, &ofi->av->fid, 0);
    rc = rc != 0 ? rc : fi_ep_bind(bulk->ep, &ofi->cq->fid, FI_TRANSMIT | FI_RECV);
    rc = rc != 0 ? rc : fi_enable(bulk->ep);
    rc = rc != 0 ? rc : fi_getname(&bulk->ep->fid, bulk->name, &bytes);
    if (rc == 0 && bytes != ofi->name_bytes) {
        rc = -FI_EINVAL;
    }
    if (rc != 0) {
        orl_log_info(ORL_CAT_FABRIC, "%s: large transfers go by messages: %s", ofi->base.name,
                     fi_strerror(-rc));
        close_endpoint(bulk);
    }
    bulk->gen++;
    return rc;
}

static bool is_offered(const struct ofi_engine *ofi)
{
    const uint64_t reads = FI_RMA | FI_READ | FI_REMOTE_READ;

    return ofi->facts->bulk_from != UINT64_MAX && (ofi->info->caps & reads) == reads &&
           (ofi->info->domain_attr->mr_mode & FI_MR_RAW) == 0;
}

bool ofi_bulk_open(struct ofi_engine *ofi)
{
    struct ofi_bulk *made;

    if (ofi->bulk != NULL) {
        return ofi->bulk->ep != NULL;
    }
    if (!is_offered(ofi) || ofi->is_closing || (made = calloc(1, sizeof(*made))) == NULL) {
        return false;
    }
    if (orl_pool_init(&made->pool, "large pieces", sizeof(struct ofi_large), sizeof(void *),
                      PER_CHUNK, 0) != 0) {
        free(made);
        return false;
    }
    orl_list_init(&made->hauls);
    orl_list_init(&made->lents);
    orl_list_init(&made->resending);
    made->chunk = ofi->facts->bulk_chunk;
    if (made->chunk > ofi->info->ep_attr->max_msg_size) {
        made->chunk = ofi->info->ep_attr->max_msg_size;
    }
    ofi->bulk = made;
    return open_endpoint(ofi, made) == 0;
}

/* Registrations that are bound to the endpoint go before it. */
static void unbind(struct ofi_engine *ofi)
{
    struct orl_list *it;

    if ((ofi->info->domain_attr->mr_mode & FI_MR_ENDPOINT) == 0) {
        return;
    }
    orl_list_each(it, &ofi->bulk->lents) {
        ofi_local_dereg(&container_of(it, struct ofi_lent, all)->mr);
    }
}

void ofi_bulk_reset(struct ofi_engine *ofi)
{
    if (ofi->bulk == NULL || ofi->bulk->ep == NULL) {
        return;
    }
    unbind(ofi);
    close_endpoint(ofi->bulk);
    ofi_hauls_fail(ofi);
    if (!ofi->is_closing) {
        (void)open_endpoint(ofi, ofi->bulk);
    }
}

void ofi_bulk_close(struct ofi_engine *ofi)
{
    if (ofi->bulk == NULL) {
        return;
    }
    unbind(ofi);
    close_endpoint(ofi->bulk);
    ofi_hauls_fail(ofi);
    ofi_regs_unlend(&ofi->regs);
}

/* ---------------------------------------------------------------- introductions */

static int introduce(struct ofi_engine *ofi, struct ofi_peer *peer)
{
    struct ofi_header header = { .kind = OFI_KIND_BULK, .seq = peer->far.gen };
    struct ofi_hello hello = { .cookie = ofi->cookie,
                               .ep = ofi->bulk->gen,
                               .name_bytes = (uint16_t)ofi->name_bytes };

    memcpy(hello.name, ofi->bulk->name, ofi->name_bytes);
    return ofi_send(ofi, peer, &header, &hello, sizeof(hello));
}

bool ofi_bulk_is_ready(struct ofi_engine *ofi, struct ofi_peer *peer)
{
    struct ofi_far *far = &peer->far;

    if (ofi->now < far->ask_at || !ofi_bulk_open(ofi)) {
        return false;
    }
    if (far->gen != 0 && far->told == ofi->bulk->gen) {
        return true;
    }
    if (introduce(ofi, peer) == 0) {
        far->ask_at = ofi->now + ASK_AGAIN;
    }
    return false;
}

void ofi_bulk_failed(struct ofi_engine *ofi, struct ofi_peer *peer)
{
    struct ofi_far *far = &peer->far;

    far->told = 0;
    far->ask_at = ofi->now + (PAUSE << (far->failures < PAUSES ? far->failures : PAUSES));
    far->failures++;
}

/* The provider takes the address before the peer may be told of ours: some serve no stranger. */
static bool learn(struct ofi_engine *ofi, struct ofi_peer *peer, const struct ofi_hello *hello)
{
    struct ofi_far *far = &peer->far;
    fi_addr_t address;

    if (far->gen == hello->ep) {
        return true;
    }
    if (hello->name_bytes != ofi->name_bytes ||
        fi_av_insert(ofi->av, hello->name, 1, &address, 0, NULL) != 1) {
        return false;
    }
    ofi_far_forget(ofi, peer);
    far->address = address;
    far->gen = hello->ep;
    return true;
}

void ofi_on_bulk(struct ofi_engine *ofi, const struct ofi_header *header,
                 const struct ofi_hello *hello)
{
    orl_lock(&ofi->base.tx);
    struct ofi_peer *peer = orl_map_get(&ofi->peer_of, hello->cookie);
    if (peer != NULL && ofi_bulk_open(ofi) && learn(ofi, peer, hello)) {
        if (header->seq == ofi->bulk->gen) {
            peer->far.told = header->seq;
            peer->far.ask_at = 0;
        } else {
            (void)introduce(ofi, peer);
        }
    }
    orl_unlock(&ofi->base.tx);
}

/* ---------------------------------------------------------------- memory */

/* The key of a registration where it is ours to choose. */
static int draw_key(const struct ofi_engine *ofi, uint64_t *key)
{
    size_t bytes = ofi->info->domain_attr->mr_key_size;

    *key = 0;
    if ((ofi->info->domain_attr->mr_mode & FI_MR_PROV_KEY) != 0) {
        return 0;
    }
    return orl_sys_random(key, bytes != 0 && bytes < sizeof(*key) ? bytes : sizeof(*key));
}

static int enable(const struct ofi_engine *ofi, struct fid_mr *mr)
{
    int rc;

    if ((ofi->info->domain_attr->mr_mode & FI_MR_ENDPOINT) == 0) {
        return 0;
    }
    rc = fi_mr_bind(mr, &ofi->bulk->ep->fid, 0);
    return rc != 0 ? rc : fi_mr_enable(mr);
}

int ofi_lend(struct ofi_engine *ofi, void *base, uint64_t bytes, uint64_t access,
             struct ofi_lent *lent)
{
    bool is_remote = (access & FI_REMOTE_READ) != 0;
    uint64_t key = 0;
    int rc = -FI_ENOKEY;

    lent->mr = NULL;
    if (!is_remote && (ofi->info->domain_attr->mr_mode & FI_MR_LOCAL) == 0) {
        return 0;
    }
    for (int i = 0; i < KEY_TRIES && rc == -FI_ENOKEY; i++) {
        if (draw_key(ofi, &key) != 0) {
            return ORL_ERR_SYS;
        }
        rc = fi_mr_reg(ofi->domain, base, bytes, access, 0, key, 0, &lent->mr, NULL);
    }
    if (rc == 0) {
        rc = enable(ofi, lent->mr);
        orl_list_add_tail(&ofi->bulk->lents, &lent->all);
        if (rc != 0) {
            ofi_unlend(lent);
        }
    }
    return rc == 0 ? 0 : ORL_ERR_UNSUPP;
}

void ofi_unlend(struct ofi_lent *lent)
{
    ofi_local_dereg(&lent->mr);
    orl_list_del(&lent->all);
}

uint64_t ofi_lent_address(const struct ofi_engine *ofi, const void *base, uint64_t offset)
{
    bool is_virtual = (ofi->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;

    return is_virtual ? (uintptr_t)base + offset : offset;
}

struct ofi_large *ofi_large_new(struct ofi_engine *ofi, struct ofi_peer *peer)
{
    struct ofi_large *made = orl_pool_alloc(&ofi->bulk->pool);

    if (made != NULL) {
        memset(made, 0, sizeof(*made));
        made->peer = peer;
        orl_list_init(&made->of);
        orl_list_init(&made->hauling);
        orl_list_init(&made->lent.all);
    }
    return made;
}

void ofi_large_free(struct ofi_engine *ofi, struct ofi_large *large)
{
    orl_list_del(&large->of);
    orl_list_del(&large->hauling);
    ofi_unlend(&large->lent);
    orl_pool_free(&ofi->bulk->pool, large);
}
