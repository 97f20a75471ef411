/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fake network; see fake_net.h. Its descriptor works like a completion channel: an event writes
 * to it only when it has been armed since the last, and arming forgets what came before, so whoever
 * does not look again after arming loses a wake-up.
 */
#include "tests/core/fake_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/core.h"
#include "core/path/peer.h"

struct fake_net fake_net;

static void trace(char letter)
{
    uint32_t place = atomic_fetch_add(&fake_net.ntrace, 1);

    if (place < FAKE_TRACE) {
        fake_net.trace[place] = letter;
    }
}

static int net_probe(struct fab *fabric, struct fab_nic *nics, int cap)
{
    (void)fabric;
    (void)nics;
    (void)cap;
    return 0;
}

static int net_open(struct fab *fabric, const struct fab_nic *nic, struct fab_engine **engine)
{
    (void)fabric;
    (void)nic;
    (void)engine;
    return ORL_ERR_UNSUPP;
}

static void net_close(struct fab_engine *engine)
{
    (void)engine;
}

static void net_address(struct fab_engine *engine, void *blob)
{
    memset(blob, 0, engine->limits.address_bytes);
}

static int net_reg(struct fab_engine *engine, struct fab_region *region)
{
    (void)engine;
    (void)region;
    if (fake_net.reg != NULL) {
        fake_net.reg();
    }
    return 0;
}

static void net_dereg(struct fab_engine *engine, struct fab_region *region)
{
    (void)engine;
    (void)region;
}

static void net_rkey_pack(struct fab_engine *engine, const struct fab_region *region, void *blob)
{
    (void)region;
    memset(blob, 0, engine->limits.rkey_bytes);
}

static int net_rkey_open(struct fab_ep *ep, const void *blob, size_t bytes, struct fab_rkey *rkey)
{
    (void)ep;
    (void)blob;
    (void)bytes;
    (void)rkey;
    return 0;
}

static int net_ep_open(struct fab_engine *engine, const void *address, size_t bytes,
                       const char *label, struct fab_ep **ep)
{
    (void)engine;
    (void)address;
    (void)bytes;
    (void)label;
    (void)ep;
    return ORL_ERR_UNSUPP;
}

static void net_ep_stop(struct fab_ep *ep, int status)
{
    (void)ep;
    (void)status;
}

static void net_ep_close(struct fab_ep *ep)
{
    (void)ep;
}

static int net_progress(struct fab_engine *engine)
{
    uint64_t found = atomic_exchange(&fake_net.events, 0);

    (void)engine;
    atomic_fetch_add(&fake_net.looks, 1);
    if (found == 0) {
        trace('p');
        return 0;
    }
    trace('e');
    atomic_fetch_add_explicit(&fake_net.polled, found, memory_order_release);
    return (int)found;
}

static int net_arm(struct fab_engine *engine, int *fd)
{
    eventfd_t old;

    (void)engine;
    atomic_fetch_add(&fake_net.arms, 1);
    trace('a');
    if (fake_net.arm != FAKE_ARM_FD) {
        return fake_net.arm == FAKE_ARM_AGAIN ? ORL_ERR_AGAIN : ORL_ERR_UNSUPP;
    }
    atomic_store(&fake_net.armed, 0);
    (void)!eventfd_read(fake_net.fd, &old);
    atomic_store(&fake_net.armed, 1);
    *fd = fake_net.fd;
    return 0;
}

static const struct fab_transport_ops net_ops = {
    "fake",            /* name */
    net_probe,         /* probe */
    net_open,          /* open */
    net_close,         /* close */
    net_address,       /* address */
    net_reg,           /* reg */
    net_dereg,         /* dereg */
    net_rkey_pack,     /* rkey_pack */
    net_rkey_open,     /* rkey_open */
    fab_no_rkey_close, /* rkey_close */
    net_ep_open,       /* ep_open */
    net_ep_stop,       /* ep_stop */
    net_ep_close,      /* ep_close */
    net_progress,      /* progress */
    net_arm,           /* arm */
    fab_no_rx_release, /* rx_release */
};

/* ---------------------------------------------------------------- endpoints */

static int net_put_short(struct fab_ep *ep, const struct fab_rkey *rkey, uint64_t offset,
                         const void *src, size_t bytes)
{
    (void)ep;
    (void)rkey;
    (void)offset;
    (void)src;
    (void)bytes;
    return ORL_ERR_AGAIN;
}

static int net_send_short(struct fab_ep *ep, unsigned handler, uint64_t header, const void *src,
                          size_t bytes)
{
    uint32_t place = atomic_load(&fake_net.nsent);

    (void)ep;
    (void)src;
    (void)bytes;
    if (place < FAKE_SENT) {
        fake_net.sent[place].handler = handler;
        fake_net.sent[place].header = header;
        atomic_store(&fake_net.nsent, place + 1);
    }
    return 0;
}

static const struct fab_ep_ops ep_ops = {
    .put_short = net_put_short,
    .send_short = net_send_short,
    .post = fab_ep_queue,
    .flush = fab_ep_queue_flush,
};

void fake_net_path(struct core_path *path, struct fab_ep *ep, int rank)
{
    char label[FAB_LABEL_BYTES];

    memset(path, 0, sizeof(*path));
    memset(ep, 0, sizeof(*ep));
    (void)snprintf(label, sizeof(label), "rank %d on fake", rank);
    fab_ep_init(ep, &fake_net.engine, &ep_ops, label);
    path->rank = rank;
    path->ep = ep;
    path->nrails = 1;
    path->rail[0].ep = ep;
    path->rail[0].engine = &fake_net.engine;
    atomic_store(&core.peers[rank].path, path);
}

/* ---------------------------------------------------------------- what a test does */

void fake_net_open(enum fake_arm arm)
{
    memset(&fake_net, 0, sizeof(fake_net));
    fab_engine_init(&fake_net.engine, &net_ops, &core.fabric, "fake:net0");
    fake_net.engine.limits = (struct fab_limits){ .send_short = 64,
                                                  .send_max = 4096,
                                                  .op_max = FAB_UNLIMITED,
                                                  .address_bytes = 8,
                                                  .rkey_bytes = 8 };
    fake_net.engine.level = FAB_LEVEL_NETWORK;
    fake_net.arm = arm;
    fake_net.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fake_net.fd < 0) {
        abort();
    }
    core.fabric.engine[0] = &fake_net.engine;
    core.fabric.nengines = 1;
    core.network[0] = &fake_net.engine;
    core.nnetworks = 1;
}

void fake_net_close(void)
{
    core.nnetworks = 0;
    core.fabric.nengines = 0;
    for (int rank = 0; rank < core.size; rank++) {
        atomic_store(&core.peers[rank].path, NULL);
    }
    fab_engine_fini(&fake_net.engine);
    (void)close(fake_net.fd);
}

void fake_net_event(void)
{
    atomic_fetch_add(&fake_net.events, 1);
    if (atomic_exchange(&fake_net.armed, 0) != 0) {
        (void)!eventfd_write(fake_net.fd, 1);
    }
}

void fake_net_message(unsigned handler, uint64_t header)
{
    struct fab_rx rx = { .engine = &fake_net.engine, .header = header };

    core.fabric.handler[handler].fn(core.fabric.handler[handler].user, &rx);
}
