/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is anybody there? A provider hides from us that a connection was refused, or gives "try again"
 * for ever; so a peer under suspicion is asked by a plain connect to its port, which its system
 * answers even while the process is stopped. Refused: the process is gone. Accepted: it lives, and
 * is waited for. Silence: the host is not reached. For providers whose addresses are of IP; others
 * are given a time.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/ofi/ofi.h"

#define BEFORE  (20 * ORL_NS_PER_MS) /* a connection may take so long to come about */
#define PAUSE   ORL_NS_PER_S         /* between two questions; doubled up to 64 times */
#define SILENCE (15 * ORL_NS_PER_S)  /* five tries of a TCP connect */
#define STUCK   (60 * ORL_NS_PER_S)  /* where nobody can be asked */

static bool is_ip(const struct ofi_engine *ofi)
{
    return ofi->info->addr_format == FI_SOCKADDR_IN || ofi->info->addr_format == FI_SOCKADDR_IN6;
}

void ofi_probe_end(struct ofi_peer *peer)
{
    if (peer->probe_fd >= 0) {
        (void)close(peer->probe_fd);
        peer->probe_fd = -1;
    }
}

void ofi_peer_suspect(struct ofi_engine *ofi, struct ofi_peer *peer)
{
    if (peer->suspect_since == 0) {
        peer->suspect_since = orl_clock_ns();
        peer->probe_at = peer->suspect_since + BEFORE;
        peer->probes = 0;
    }
    if (orl_list_is_empty(&peer->troubled)) {
        orl_list_add_tail(&ofi->troubled, &peer->troubled);
    }
}

void ofi_peer_heard(struct ofi_peer *peer)
{
    if (ORL_UNLIKELY(peer->suspect_since != 0)) {
        peer->suspect_since = 0;
        peer->is_silent = false;
        ofi_probe_end(peer);
    }
}

static void answered(const struct ofi_engine *ofi, struct ofi_peer *peer, int error)
{
    ofi_probe_end(peer);
    if (error != 0) {
        peer->failure = error;
        return;
    }
    peer->probe_at = ofi->now + (PAUSE << (peer->probes < 6 ? peer->probes : 6));
    peer->probes++;
}

static void ask(const struct ofi_engine *ofi, struct ofi_peer *peer)
{
    struct sockaddr_storage to;
    int domain = ofi->info->addr_format == FI_SOCKADDR_IN ? AF_INET : AF_INET6;

    memset(&to, 0, sizeof(to));
    memcpy(&to, peer->name, ofi->name_bytes);
    peer->probe_fd = socket(domain, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (peer->probe_fd < 0) {
        peer->probe_at = ofi->now + PAUSE;
        return;
    }
    peer->probe_since = ofi->now;
    if (connect(peer->probe_fd, (struct sockaddr *)&to, (socklen_t)ofi->name_bytes) == 0) {
        answered(ofi, peer, 0);
    } else if (errno != EINPROGRESS && errno != EINTR) {
        answered(ofi, peer, errno);
    }
}

static void look(const struct ofi_engine *ofi, struct ofi_peer *peer)
{
    struct pollfd wait = { .fd = peer->probe_fd, .events = POLLOUT };
    socklen_t bytes = sizeof(int);
    int error = 0;

    if (poll(&wait, 1, 0) == 1) {
        (void)getsockopt(peer->probe_fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
        answered(ofi, peer, error);
    } else if (peer->probes == 0 && ofi->now > peer->probe_since + SILENCE) {
        answered(ofi, peer, ETIMEDOUT);
    }
}

void ofi_probe(struct ofi_engine *ofi, struct ofi_peer *peer)
{
    if (peer->failure != 0 || peer->suspect_since == 0) {
        return;
    }
    if (!is_ip(ofi)) {
        if (ofi->now > peer->suspect_since + STUCK && peer->busy == 0) {
            peer->failure = ETIMEDOUT;
        }
    } else if (peer->probe_fd >= 0) {
        look(ofi, peer);
    } else if (ofi->now >= peer->probe_at) {
        ask(ofi, peer);
    }
}

uint64_t ofi_probe_next(const struct ofi_engine *ofi, const struct ofi_peer *peer)
{
    if (peer->failure != 0) {
        return ofi->now;
    }
    if (peer->suspect_since == 0) {
        return ORL_NEVER;
    }
    if (!is_ip(ofi)) {
        return ofi->now + PAUSE;
    }
    return peer->probe_fd >= 0 ? ofi->now + BEFORE : peer->probe_at;
}
