/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bell: how peers of the host wake an agent that sleeps on descriptors, where no futex word
 * wakes it. A datagram socket with an abstract name, made of the node's cookie and the local rank:
 * it leaves no file behind and vanishes with its owner. The name is no secret and needs none: all
 * that can be done with it is to ring. An abstract name belongs to the network namespace, so ranks
 * that share memory but no namespace cannot ring each other; the one that finds out says so in the
 * control block.
 *
 * The protocol is that of node_park.c. The bell is set and ended by the agent's thread; any thread
 * of any rank rings.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/status.h"
#include "fabric/node.h"
#include "fabric/node_priv.h"

#define RINGS_MAX 1024 /* taken off at once: more than a queue holds */

static socklen_t bell_name(const struct fab_node *node, int local, struct sockaddr_un *name)
{
    int n;

    memset(name, 0, sizeof(*name));
    name->sun_family = AF_UNIX;
    n = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "oriel-%016llx-%d",
                 (unsigned long long)node->header->cookie, local);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int make_socket(void)
{
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

int fab_node_bell_open(struct fab_node *node, int *fd)
{
    struct sockaddr_un name;
    socklen_t bytes = bell_name(node, node->local, &name);
    int made = make_socket();

    if (made < 0) {
        return orl_fail(ORL_ERR_SYS, "the socket of the agent's bell could not be made: %s",
                        orl_os_text(errno));
    }
    if (bind(made, (const struct sockaddr *)&name, bytes) != 0) {
        int error = errno;

        (void)close(made);
        return orl_fail(ORL_ERR_SYS, "the agent's bell could not get its name %s: %s",
                        name.sun_path + 1, orl_os_text(error));
    }
    node->priv->bell_fd = made;
    node->priv->is_deaf = false;
    *fd = made;
    return 0;
}

void fab_node_bell_close(struct fab_node *node)
{
    if (node->priv->bell_fd >= 0) {
        (void)close(node->priv->bell_fd);
        node->priv->bell_fd = -1;
    }
}

void fab_node_bells_fini(struct fab_node *node)
{
    int ring = atomic_exchange_explicit(&node->priv->ring_fd, -1, memory_order_acq_rel);

    fab_node_bell_close(node);
    if (ring >= 0) {
        (void)close(ring);
    }
}

/* ---------------------------------------------------------------- the agent */

void fab_node_bell_begin(struct fab_node *node)
{
    atomic_store_explicit(&node->ctl[node->local].bell, FAB_BELL_SET, memory_order_relaxed);
    (void)fab_node_park_begin(node, FAB_AGENT);
}

void fab_node_bell_end(struct fab_node *node)
{
    char ring;
    int rings = 0;

    fab_node_park_cancel(node, FAB_AGENT);
    if (atomic_exchange_explicit(&node->ctl[node->local].bell, FAB_BELL_OFF,
                                 memory_order_acquire) == FAB_BELL_DEAF) {
        node->priv->is_deaf = true;
    }
    /* Also a ring that was meant for an earlier sleep, or that stays readable for ever. */
    while (rings < RINGS_MAX && recv(node->priv->bell_fd, &ring, sizeof(ring), 0) >= 0) {
        rings++;
    }
}

bool fab_node_bell_is_deaf(const struct fab_node *node)
{
    return node->priv->is_deaf;
}

/* ---------------------------------------------------------------- whoever rings */

static int ring_socket(struct fab_node *node)
{
    _Atomic int *place = &node->priv->ring_fd;
    int known = atomic_load_explicit(place, memory_order_acquire);
    int made;

    if (known >= 0) {
        return known;
    }
    made = make_socket();
    if (made < 0) {
        return -1;
    }
    if (!atomic_compare_exchange_strong_explicit(place, &known, made, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        (void)close(made);
        return known;
    }
    return made;
}

void fab_node_ring(struct fab_node *node, int local)
{
    struct sockaddr_un name;
    socklen_t bytes = bell_name(node, local, &name);
    uint32_t rung = FAB_BELL_RUNG;
    int fd = ring_socket(node);

    /* A full queue is as good as a ring. */
    if (fd >= 0 && (sendto(fd, "", 1, MSG_NOSIGNAL, (const struct sockaddr *)&name, bytes) == 1 ||
                    errno == EAGAIN || errno == EWOULDBLOCK)) {
        return;
    }
    (void)atomic_compare_exchange_strong_explicit(&node->ctl[local].bell, &rung, FAB_BELL_DEAF,
                                                  memory_order_relaxed, memory_order_relaxed);
}
