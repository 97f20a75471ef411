/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake and everything that runs on time: an endpoint says hello until it is welcomed, asks
 * a silent peer whether it is there, and says bye when it is closed. The one who is asked makes a
 * receiving half for each endpoint that says hello; asking again is harmless. An engine of another
 * wire version is told so in words, at both ends.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "fabric/ofi/ofi.h"

#define HELLO_FIRST                                                           \
 (50 * ORL_NS_PER_MS) /* between the first and the second hello; then doubled \
                       */
#define HELLO_LAST (2 * ORL_NS_PER_S)
#define RETRY      ORL_NS_PER_MS         /* after a shortage */
#define PING_FIRST (200 * ORL_NS_PER_MS) /* silence after which a peer is asked; then doubled */
#define PING_LAST  (5 * ORL_NS_PER_S)
#define PINGS_MOST 3 /* that may be unanswered before the peer is suspected */

/* A BYE that found no room. */
struct ofi_farewell {
    struct ofi_farewell *next;
    struct ofi_peer *peer;
    uint32_t ep;
};

/* ---------------------------------------------------------------- being asked */

static struct ofi_half *find_half(const struct ofi_peer *peer, uint32_t ep)
{
    struct orl_list *it;

    orl_list_each(it, &peer->halves) {
        struct ofi_half *half = container_of(it, struct ofi_half, of_peer);

        if (half->ep == ep) {
            return half;
        }
    }
    return NULL;
}

static int make_half(struct ofi_engine *ofi, struct ofi_peer *peer, uint32_t ep,
                     struct ofi_half **half)
{
    struct ofi_half *made = calloc(1, sizeof(*made));
    int status;

    if (made == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for a connection of %zu bytes", sizeof(*made));
    }
    status = ofi_table_add(&ofi->halves, made, &made->id);
    if (status != 0) {
        free(made);
        return status;
    }
    made->peer = peer;
    made->ep = ep;
    made->told_limit = OFI_WINDOW;
    orl_list_init(&made->of_peer);
    orl_list_init(&made->owing);
    orl_list_init(&made->engine_owing);
    ofi_half_large_init(made);
    orl_list_add_tail(&peer->halves, &made->of_peer);
    *half = made;
    return 0;
}

/* Not remembered: whoever asks again is told again. */
static void refuse(struct ofi_engine *ofi, struct ofi_peer *peer, uint32_t ep, int status,
                   const char *text)
{
    struct ofi_header header = { .to = ep, .kind = OFI_KIND_WELCOME };
    struct ofi_welcome welcome = { .ep = ep, .status = status, .version = OFI_WIRE_VERSION };

    (void)snprintf(welcome.text, sizeof(welcome.text), "%s", text);
    if (ofi_send(ofi, peer, &header, &welcome, sizeof(welcome)) != 0) {
        ofi_peer_drop(ofi, peer);
    }
}

void ofi_on_hello(struct ofi_engine *ofi, const struct ofi_header *header,
                  const struct ofi_hello *hello)
{
    struct ofi_half *half = NULL;
    struct ofi_peer *peer = NULL;

    orl_lock(&ofi->base.tx);
    int status = ofi_peer_get(ofi, hello->cookie, hello->name, hello->name_bytes, &peer);
    if (status == 0 && header->version != OFI_WIRE_VERSION) {
        char text[OFI_TEXT_BYTES];

        (void)snprintf(text, sizeof(text), "it speaks version %d of the wire, this end %u",
                       OFI_WIRE_VERSION, header->version);
        refuse(ofi, peer, hello->ep, ORL_ERR_UNSUPP, text);
        orl_log_warn(ORL_CAT_FABRIC,
                     "%s: a peer of another version of the library asks for a connection: it "
                     "speaks version %u of the wire, this end %d",
                     ofi->base.name, header->version, OFI_WIRE_VERSION);
    } else if (status == 0) {
        half = find_half(peer, hello->ep);
        status = half == NULL ? make_half(ofi, peer, hello->ep, &half) : 0;
    }
    if (status != 0 && peer != NULL) {
        refuse(ofi, peer, hello->ep, status, orl_last_error());
    } else if (half != NULL) {
        half->wants_welcome = true;
        ofi_half_owes(ofi, half);
    }
    orl_unlock(&ofi->base.tx);
}

int ofi_say_welcome(struct ofi_engine *ofi, struct ofi_half *half)
{
    struct ofi_header header = { .to = half->ep, .kind = OFI_KIND_WELCOME };
    struct ofi_welcome welcome = {
        .ep = half->ep, .in = half->id, .limit = OFI_WINDOW, .version = OFI_WIRE_VERSION
    };
    int status = ofi_send(ofi, half->peer, &header, &welcome, sizeof(welcome));

    half->wants_welcome = status != 0;
    return status;
}

/* By its endpoint, not by the half: it may not have heard of the half yet. */
void ofi_on_bye(struct ofi_engine *ofi, const struct ofi_hello *bye)
{
    orl_lock(&ofi->base.tx);
    struct ofi_peer *peer = orl_map_get(&ofi->peer_of, bye->cookie);
    struct ofi_half *half = peer == NULL ? NULL : find_half(peer, bye->ep);
    if (half != NULL) {
        ofi_half_end(ofi, half);
    }
    orl_unlock(&ofi->base.tx);
}

/* Whether what the endpoint sent before its ping has come: one end may have seen the connection
 * fail and have forgotten it while the other saw nothing, and what a provider had taken may be lost
 * without a word. Without order the missing ones may still be on their way. */
static bool is_intact(const struct ofi_engine *ofi, const struct ofi_half *half,
                      const struct ofi_header *header, const struct ofi_hello *hello)
{
    return half != NULL && half->ep == hello->ep &&
           (!ofi->facts->is_ordered || half->next == header->seq);
}

void ofi_on_ping(struct ofi_engine *ofi, const struct ofi_header *header,
                 const struct ofi_hello *hello)
{
    struct ofi_peer *peer = NULL;

    orl_lock(&ofi->base.tx);
    struct ofi_half *half = ofi_table_get(&ofi->halves, header->to);
    if (is_intact(ofi, half, header, hello)) {
        half->wants_ack = true;
        ofi_half_owes(ofi, half);
    } else if (ofi_peer_get(ofi, hello->cookie, hello->name, hello->name_bytes, &peer) == 0) {
        half = find_half(peer, hello->ep);
        refuse(ofi, peer, hello->ep, ORL_ERR_LINK, "the connection was lost on the way");
        if (half != NULL) {
            ofi_half_end(ofi, half); /* nothing more of it may land */
        }
    }
    orl_unlock(&ofi->base.tx);
}

/* ---------------------------------------------------------------- asking */

void ofi_on_welcome(struct ofi_engine *ofi, const struct ofi_header *header,
                    const struct ofi_welcome *welcome)
{
    struct ofi_welcome got = *welcome;
    char cause[160];

    got.text[sizeof(got.text) - 1] = '\0';
    orl_lock(&ofi->base.tx);
    struct ofi_ep *ep = ofi_table_get(&ofi->eps, got.ep);
    bool is_news = ep != NULL && !orl_list_is_empty(&ep->connecting);
    bool is_end = ep != NULL && !is_news && got.status != 0;
    if (is_news) {
        orl_list_del(&ep->connecting);
        ep->half = got.in;
        ep->limit = got.limit;
    }
    orl_unlock(&ofi->base.tx);
    if (!is_news && !is_end) {
        return;
    }
    if (got.status == 0 && header->version == OFI_WIRE_VERSION) {
        fab_ep_ready(&ep->base, &ofi_ep_ops);
        return;
    }
    (void)snprintf(cause, sizeof(cause), "%s%s", is_end ? "" : "refused: ", got.text);
    fab_ep_fail(&ep->base, ORL_ERR_LINK, cause);
}

/* A hello of an endpoint, its ping or its bye: what says who is speaking. */
static int introduce(struct ofi_engine *ofi, struct ofi_peer *peer, uint32_t ep,
                     struct ofi_header header)
{
    struct ofi_hello hello = { .cookie = ofi->cookie,
                               .ep = ep,
                               .name_bytes = (uint16_t)ofi->name_bytes };

    /* What the endpoint has said before comes before. */
    if (ofi_send_open(ofi, peer) != 0) {
        return ORL_ERR_AGAIN;
    }
    memcpy(hello.name, ofi->name, ofi->name_bytes);
    return ofi_send(ofi, peer, &header, &hello, sizeof(hello));
}

static int say_hello(struct ofi_engine *ofi, struct ofi_ep *ep)
{
    if (introduce(ofi, ep->peer, ep->id, (struct ofi_header){ .kind = OFI_KIND_HELLO }) != 0) {
        ep->hello_at = ofi->now + RETRY;
        return 0;
    }
    uint64_t pause = HELLO_FIRST << (ep->hellos < 6 ? ep->hellos : 6);
    ep->hello_at = ofi->now + (pause < HELLO_LAST ? pause : HELLO_LAST);
    ep->hellos++;
    return 1;
}

static int ping(struct ofi_engine *ofi, struct ofi_ep *ep)
{
    const struct ofi_header asks = { .to = ep->half, .kind = OFI_KIND_PING, .seq = ep->next };
    uint64_t pause = PING_FIRST << (ep->pings < 6 ? ep->pings : 6);

    /* What the provider still has is a question as good as ours, and there may be no room for that.
     */
    if (ep->ping_at != 0) {
        if (ep->peer->busy == 0) {
            (void)introduce(ofi, ep->peer, ep->id, asks);
        }
        ep->pings++;
    }
    if (ep->pings >= PINGS_MOST && ep->peer->suspect_since == 0) {
        ep->peer->is_silent = true;
        ofi_peer_suspect(ofi, ep->peer);
    }
    ep->ping_at = ofi->now + (pause < PING_LAST ? pause : PING_LAST);
    return 0;
}

/* ---------------------------------------------------------------- bye */

void ofi_say_bye(struct ofi_engine *ofi, struct ofi_ep *ep)
{
    struct ofi_farewell *farewell;

    const struct ofi_header bye = { .kind = OFI_KIND_BYE };

    if (ep->hellos == 0 || introduce(ofi, ep->peer, ep->id, bye) == 0) {
        return;
    }
    farewell = malloc(sizeof(*farewell));
    if (farewell != NULL) {
        farewell->peer = ep->peer;
        farewell->ep = ep->id;
        farewell->next = ofi->farewells;
        ofi->farewells = farewell;
        ep->peer->busy++;
    }
}

static int retry_farewells(struct ofi_engine *ofi)
{
    const struct ofi_header bye = { .kind = OFI_KIND_BYE };
    struct ofi_farewell **at = &ofi->farewells;
    int n = 0;

    while (*at != NULL) {
        struct ofi_farewell *farewell = *at;
        struct ofi_peer *peer = farewell->peer;

        if (peer->failure == 0 && introduce(ofi, peer, farewell->ep, bye) != 0) {
            at = &farewell->next;
            continue;
        }
        *at = farewell->next;
        free(farewell);
        peer->busy--;
        ofi_peer_drop(ofi, peer);
        n++;
    }
    return n;
}

void ofi_farewells_drop(struct ofi_engine *ofi, const struct ofi_peer *peer)
{
    struct ofi_farewell **at = &ofi->farewells;

    while (*at != NULL) {
        struct ofi_farewell *farewell = *at;

        if (peer == NULL || farewell->peer == peer) {
            *at = farewell->next;
            farewell->peer->busy--;
            free(farewell);
        } else {
            at = &farewell->next;
        }
    }
}

/* ---------------------------------------------------------------- time */

static const char *words_of(int failure)
{
    return failure == FI_ETIMEDOUT || failure == EHOSTUNREACH
               ? "no answer: is the host down, or a firewall between?"
               : fi_strerror(failure);
}

/* Ask after those under suspicion, and end one that cannot be reached. */
static void see_troubled(struct ofi_engine *ofi)
{
    struct orl_list *it;
    struct orl_list *after;
    struct ofi_peer *failed = NULL;

    orl_lock(&ofi->base.tx);
    orl_list_each_safe(it, after, &ofi->troubled) {
        struct ofi_peer *peer = container_of(it, struct ofi_peer, troubled);

        ofi_probe(ofi, peer);
        if (peer->failure != 0) {
            failed = peer;
        } else if (peer->suspect_since == 0) {
            orl_list_del(&peer->troubled);
        }
    }
    orl_unlock(&ofi->base.tx);
    if (failed != NULL) {
        ofi_peer_fail(ofi, failed, failed->failure, words_of(failed->failure));
    }
}

int ofi_timers(struct ofi_engine *ofi)
{
    struct orl_list *it;
    struct orl_list *after;
    int n = 0;

    if (!orl_list_is_empty(&ofi->troubled)) {
        see_troubled(ofi);
    }
    orl_lock(&ofi->base.tx);
    orl_list_each_safe(it, after, &ofi->connecting) {
        struct ofi_ep *ep = container_of(it, struct ofi_ep, connecting);

        if (ofi->now >= ep->hello_at) {
            n += say_hello(ofi, ep);
        }
    }
    orl_list_each_safe(it, after, &ofi->waiting) {
        struct ofi_ep *ep = container_of(it, struct ofi_ep, waiting);

        if (ofi->now >= ep->ping_at) {
            n += ping(ofi, ep);
        }
    }
    if (ofi->farewells != NULL) {
        n += retry_farewells(ofi);
    }
    orl_unlock(&ofi->base.tx);
    return n;
}

uint64_t ofi_timers_next(const struct ofi_engine *ofi)
{
    uint64_t next = ORL_NEVER;
    struct orl_list *it;

    if (ofi->farewells != NULL) {
        next = ofi->now + RETRY;
    }
    orl_list_each(it, &ofi->troubled) {
        uint64_t probe = ofi_probe_next(ofi, container_of(it, struct ofi_peer, troubled));

        next = probe < next ? probe : next;
    }
    orl_list_each(it, &ofi->connecting) {
        const struct ofi_ep *ep = container_of(it, struct ofi_ep, connecting);

        next = ep->hello_at < next ? ep->hello_at : next;
    }
    orl_list_each(it, &ofi->waiting) {
        const struct ofi_ep *ep = container_of(it, struct ofi_ep, waiting);

        next = ep->ping_at < next ? ep->ping_at : next;
    }
    return next;
}
