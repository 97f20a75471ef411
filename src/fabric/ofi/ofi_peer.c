/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peer engines: one object for each, named by its cookie, holding the libfabric address and the two
 * kinds of connection halves. It lives as long as one of them or a message at the provider names
 * it. What a provider reports of a peer ends here: its endpoints fail, its halves are forgotten.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fabric/ofi/ofi.h"

int ofi_peer_get(struct ofi_engine *ofi, uint64_t cookie, const void *name, size_t name_bytes,
                 struct ofi_peer **peer)
{
    struct ofi_peer *made = orl_map_get(&ofi->peer_of, cookie);

    if (made != NULL) {
        *peer = made;
        return 0;
    }
    if (name_bytes != ofi->name_bytes) {
        return orl_fail(ORL_ERR_INVAL, "an address of %s has %zu bytes, not %zu", ofi->base.name,
                        ofi->name_bytes, name_bytes);
    }
    made = calloc(1, sizeof(*made));
    if (made == NULL || orl_map_put(&ofi->peer_of, cookie, made) != 0) {
        free(made);
        return orl_fail(ORL_ERR_NOMEM, "no memory for a peer of %s", ofi->base.name);
    }
    memcpy(made->name, name, name_bytes);
    int rc = fi_av_insert(ofi->av, made->name, 1, &made->address, 0, NULL);
    if (rc != 1) {
        (void)orl_map_del(&ofi->peer_of, cookie);
        free(made);
        return orl_fail(ORL_ERR_INVAL, "%s does not take the address of a peer: %s", ofi->base.name,
                        fi_strerror(rc < 0 ? -rc : FI_EINVAL));
    }
    made->cookie = cookie;
    made->probe_fd = -1;
    orl_list_init(&made->all);
    orl_list_init(&made->eps);
    orl_list_init(&made->halves);
    orl_list_init(&made->owing);
    orl_list_init(&made->troubled);
    orl_list_init(&made->unsent);
    orl_map_init(&made->dead);
    orl_list_add_tail(&ofi->peers, &made->all);
    *peer = made;
    return 0;
}

/* A provider may have one entry for an address that came twice, as of an engine and of the one
 * that took its place; it would go with the first removal. */
static bool is_shared(const struct ofi_engine *ofi, fi_addr_t address)
{
    struct orl_list *it;

    orl_list_each(it, &ofi->peers) {
        const struct ofi_peer *peer = container_of(it, struct ofi_peer, all);

        if (peer->address == address || (peer->far.gen != 0 && peer->far.address == address)) {
            return true;
        }
    }
    return false;
}

void ofi_far_forget(struct ofi_engine *ofi, struct ofi_peer *peer)
{
    bool is_known = peer->far.gen != 0;

    peer->far.gen = 0;
    if (is_known && peer->far.under_way == 0 && !is_shared(ofi, peer->far.address)) {
        (void)fi_av_remove(ofi->av, &peer->far.address, 1, 0);
    }
}

void ofi_peer_drop(struct ofi_engine *ofi, struct ofi_peer *peer)
{
    if (peer->busy != 0 || !orl_list_is_empty(&peer->eps) || !orl_list_is_empty(&peer->halves)) {
        return;
    }
    ofi_open_drop(ofi, peer);
    (void)orl_map_del(&ofi->peer_of, peer->cookie);
    ofi_probe_end(peer);
    orl_list_del(&peer->all);
    ofi_far_forget(ofi, peer);
    /* Not under traffic: what could not leave before the engine's end is still there. */
    if (!is_shared(ofi, peer->address) && (!ofi->is_closing || ofi->nsending == 0)) {
        (void)fi_av_remove(ofi->av, &peer->address, 1, 0);
    }
    orl_list_del(&peer->troubled);
    orl_map_fini(&peer->dead);
    free(peer);
}

void ofi_peer_words(const struct ofi_engine *ofi, const struct ofi_peer *peer, char *text,
                    size_t cap)
{
    size_t n = cap;

    if (fi_av_straddr(ofi->av, peer->name, text, &n) == NULL || n > cap) {
        (void)snprintf(text, cap, "an address of %s", ofi->base.nic.provider);
    }
}

void ofi_half_end(struct ofi_engine *ofi, struct ofi_half *half)
{
    struct ofi_peer *peer = half->peer;

    for (uint32_t i = 0; i < OFI_WINDOW; i++) {
        if (half->early[i] != NULL) {
            ofi_buffer_drop(ofi, half->early[i]);
        }
    }
    ofi_half_large_end(ofi, half);
    ofi_table_del(&ofi->halves, half->id);
    orl_list_del(&half->of_peer);
    orl_list_del(&half->owing);
    orl_list_del(&half->engine_owing);
    free(half);
    ofi_peer_drop(ofi, peer);
}

/* Whether the peer's own system says that nobody is there any more. */
static bool is_closed(int native)
{
    switch (native) {
    case FI_ECONNREFUSED:
    case FI_ECONNRESET:
    case FI_ECONNABORTED:
    case FI_ENOTCONN:
    case FI_ESHUTDOWN:
    case EPIPE:
        return true;
    default:
        return false;
    }
}

static struct ofi_ep *working_ep(struct ofi_engine *ofi, const struct ofi_peer *peer)
{
    struct orl_list *it;
    struct ofi_ep *found = NULL;

    orl_lock(&ofi->base.tx);
    orl_list_each(it, &peer->eps) {
        struct ofi_ep *ep = container_of(it, struct ofi_ep, of_peer);
        uint32_t state = atomic_load_explicit(&ep->base.state, memory_order_relaxed);

        if (state == FAB_EP_CONNECTING || state == FAB_EP_READY) {
            found = ep;
            break;
        }
    }
    orl_unlock(&ofi->base.tx);
    return found;
}

void ofi_peer_fail(struct ofi_engine *ofi, struct ofi_peer *peer, int native, const char *text)
{
    int status = is_closed(native) ? ORL_ERR_PEER : ORL_ERR_LINK;
    char words[64];
    char cause[160];
    struct ofi_ep *ep;

    ofi_peer_words(ofi, peer, words, sizeof(words));
    (void)snprintf(cause, sizeof(cause), "%s of %s: %s", words, ofi->base.nic.provider, text);
    /* A failed endpoint stays with the peer until it is closed, so the peer outlives this loop. */
    while ((ep = working_ep(ofi, peer)) != NULL) {
        fab_ep_fail(&ep->base, status, cause);
    }
    orl_lock(&ofi->base.tx);
    peer->failure = 0;
    ofi_open_drop(ofi, peer);
    ofi_farewells_drop(ofi, peer);
    ofi_peer_heard(peer);
    orl_list_del(&peer->troubled);
    peer->busy++;
    while (!orl_list_is_empty(&peer->halves)) {
        ofi_half_end(ofi, container_of(peer->halves.next, struct ofi_half, of_peer));
    }
    peer->busy--;
    ofi_peer_drop(ofi, peer);
    orl_unlock(&ofi->base.tx);
}
