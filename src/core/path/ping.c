/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pings; see ping.h. One record per rank that was ever waited for long, under one lock that is held
 * for a few instructions: never while sending, logging or marking. A ping and its answer carry the
 * sender's rank and a number in their header; an answer to an older ping counts as well, since
 * whoever sends it lives.
 */
#include "core/path/ping.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "core/core.h"
#include "core/path/path.h"
#include "core/path/peer.h"

#define QUIET_NS (2 * ORL_NS_PER_S) /* of waiting, before the first ping and between pings */
#define TELL_NS  (2 * ORL_NS_PER_S) /* of silence, before it is reported */
#define LAPSE_NS (1 * ORL_NS_PER_S) /* between two looks of one wait, at most */

struct ping {
    uint64_t since;  /* when the present wait began */
    uint64_t looked; /* when somebody looked last */
    uint64_t asked;  /* silence counts from here; 0: no ping is out */
    uint64_t heard;  /* when the last answer came */
    uint32_t number; /* of the last ping */
    bool is_told;    /* its silence has been reported */
};

/* What a look has found to do, once the lock is free. */
struct deed {
    bool send;
    bool tell;
    bool fail;
    uint32_t number;
    uint64_t silence;
};

static struct {
    struct orl_lock lock;
    struct ping **of; /* owns; [size], NULL until the first; lock */
    int size;
} pings;

static bool is_remote(int rank)
{
    return core.nnetworks > 0 && rank >= 0 && rank < core.size && rank != core.rank &&
           core.peers != NULL && core.peers[rank].local < 0;
}

/* Lock held. NULL: never asked for, or no memory, and then nothing is lost but a report. */
static struct ping *ping_of(int rank, bool make)
{
    if (pings.of == NULL && make) {
        pings.of = calloc((size_t)core.size, sizeof(struct ping *));
        pings.size = pings.of == NULL ? 0 : core.size;
    }
    if (pings.of == NULL || rank >= pings.size) {
        return NULL;
    }
    if (pings.of[rank] == NULL && make) {
        pings.of[rank] = calloc(1, sizeof(struct ping));
    }
    return pings.of[rank];
}

/* ---------------------------------------------------------------- words */

static void add_silence(struct orl_strbuf *out, uint64_t ns)
{
    orl_strbuf_addf(out, "%llu.%llu s", (unsigned long long)(ns / ORL_NS_PER_S),
                    (unsigned long long)(ns / (ORL_NS_PER_S / 10) % 10));
}

static void add_name(struct orl_strbuf *out, int rank)
{
    const char *host = core_peer_host(rank);

    orl_strbuf_addf(out, "rank %d", rank);
    if (host != NULL) {
        orl_strbuf_addf(out, " on %s", host);
    }
}

static const char *state_of(const struct core_rail *rail)
{
    const struct fab_ep *ep = atomic_load_explicit(&rail->ep, memory_order_acquire);
    uint32_t state = ep == NULL ? FAB_EP_FAILED : atomic_load(&ep->state);

    if (atomic_load_explicit(&rail->dead, memory_order_relaxed) != 0 || state == FAB_EP_FAILED) {
        return "dead";
    }
    return state == FAB_EP_CONNECTING ? "connecting" : "up";
}

static void add_rails(struct orl_strbuf *out, int rank)
{
    const struct core_path *path = atomic_load(&core.peers[rank].path);

    if (path == NULL) {
        orl_strbuf_add(out, "no connection");
        return;
    }
    for (int i = 0; i < path->nrails; i++) {
        const struct core_rail *rail = &path->rail[i];

        orl_strbuf_addf(out, "%s%s is %s", i == 0 ? "" : ", ",
                        rail->engine == NULL ? "?" : rail->engine->name, state_of(rail));
    }
}

static uint64_t silence_of(int rank)
{
    uint64_t silence = 0;
    struct ping *ping;

    orl_lock(&pings.lock);
    ping = ping_of(rank, false);
    if (ping != NULL && ping->asked != 0) {
        silence = orl_clock_ns() - ping->asked;
    }
    orl_unlock(&pings.lock);
    return silence;
}

void core_ping_explain(int rank, struct orl_strbuf *out)
{
    uint64_t silence;

    if (!is_remote(rank)) {
        return;
    }
    orl_strbuf_add(out, " (");
    add_rails(out, rank);
    silence = silence_of(rank);
    if (silence != 0) {
        orl_strbuf_add(out, ", no answer to ping for ");
        add_silence(out, silence);
    }
    orl_strbuf_add(out, ")");
}

static ORL_COLD void tell(int rank, uint64_t silence)
{
    struct orl_strbuf text;
    char room[256];

    orl_strbuf_init(&text, room, sizeof(room));
    add_name(&text, rank);
    orl_strbuf_add(&text, " has not answered for ");
    add_silence(&text, silence);
    orl_strbuf_add(&text, " (");
    add_rails(&text, rank);
    orl_log_warn(ORL_CAT_PEER,
                 "%s): its process is stopped, runs without an agent, or cannot be "
                 "reached; whoever waits for it goes on waiting",
                 room);
}

static ORL_COLD int give_up(int rank, uint64_t silence)
{
    struct orl_strbuf text;
    char room[160];

    orl_strbuf_init(&text, room, sizeof(room));
    orl_strbuf_add(&text, "it has not answered for ");
    add_silence(&text, silence);
    orl_strbuf_add(&text, ", longer than ORIEL_PEER_TIMEOUT (");
    add_rails(&text, rank);
    orl_strbuf_add(&text, ")");
    core_peer_fail(rank, room);
    return core_peer_error(rank);
}

/* ---------------------------------------------------------------- asking */

/* Lock held. */
static struct deed judge(struct ping *ping, uint64_t now)
{
    struct deed deed = { .send = false };
    uint64_t lapse = now - ping->looked;

    if (lapse > LAPSE_NS) {
        /* Nobody waited, or we stood still: it is a new wait, and the silence did not go on. */
        ping->since = now;
        ping->asked += ping->asked == 0 ? 0 : lapse;
    }
    ping->looked = now;
    if (ping->asked == 0) {
        deed.send = now - ping->since >= QUIET_NS && now - ping->heard >= QUIET_NS;
        if (deed.send) {
            ping->asked = now;
            deed.number = ++ping->number;
        }
        return deed;
    }
    deed.silence = now - ping->asked;
    deed.fail = orl_conf.peer_timeout != 0 && deed.silence >= orl_conf.peer_timeout;
    deed.tell = !deed.fail && !ping->is_told && deed.silence >= TELL_NS;
    ping->is_told |= deed.tell;
    return deed;
}

static uint64_t header_of(uint32_t number)
{
    return (uint64_t)(uint32_t)core.rank << 32 | number;
}

/* A ping that cannot be sent is one that is not answered: the silence is reported all the same. */
static void send_to(int rank, enum core_handler handler, uint32_t number)
{
    struct core_path *path;

    if (core_path_of(rank, &path) == 0) {
        (void)!core_path_send(path, handler, header_of(number), NULL, 0);
    }
}

int core_ping_look(int rank)
{
    struct deed deed = { .send = false };
    struct ping *ping;

    if (!is_remote(rank)) {
        return 0;
    }
    if (core_peer_is_failed(rank)) {
        return core_peer_error(rank);
    }
    orl_lock(&pings.lock);
    ping = ping_of(rank, true);
    if (ping != NULL) {
        deed = judge(ping, orl_clock_ns());
    }
    orl_unlock(&pings.lock);
    if (deed.send) {
        send_to(rank, CORE_ON_PING, deed.number);
    }
    if (deed.tell) {
        tell(rank, deed.silence);
    }
    return deed.fail ? give_up(rank, deed.silence) : 0;
}

/* ---------------------------------------------------------------- answering and hearing */

static void on_ping(void *user, struct fab_rx *rx)
{
    int rank = (int)(rx->header >> 32);

    (void)user;
    if (is_remote(rank) && !core_peer_is_failed(rank)) {
        send_to(rank, CORE_ON_PONG, (uint32_t)rx->header);
    }
}

static void on_pong(void *user, struct fab_rx *rx)
{
    int rank = (int)(rx->header >> 32);
    uint64_t silence = 0;
    struct ping *ping;

    (void)user;
    if (!is_remote(rank)) {
        return;
    }
    orl_lock(&pings.lock);
    ping = ping_of(rank, false);
    if (ping != NULL) {
        ping->heard = orl_clock_ns();
        silence = ping->is_told ? ping->heard - ping->asked : 0;
        ping->asked = 0;
        ping->is_told = false;
    }
    orl_unlock(&pings.lock);
    if (silence != 0) {
        orl_log_warn(ORL_CAT_PEER, "rank %d answers again, after %llu.%llu s", rank,
                     (unsigned long long)(silence / ORL_NS_PER_S),
                     (unsigned long long)(silence / (ORL_NS_PER_S / 10) % 10));
    }
}

void core_pings_open(void)
{
    orl_lock_init(&pings.lock, ORL_RANK_POOL, "pings");
    fab_handler_set(&core.fabric, CORE_ON_PING, on_ping, NULL);
    fab_handler_set(&core.fabric, CORE_ON_PONG, on_pong, NULL);
}

void core_pings_close(void)
{
    orl_lock(&pings.lock);
    for (int i = 0; i < pings.size; i++) {
        free(pings.of[i]);
    }
    free(pings.of);
    pings.of = NULL;
    pings.size = 0;
    orl_unlock(&pings.lock);
}
