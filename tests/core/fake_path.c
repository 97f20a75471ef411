/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fake path; see fake_path.h. One thread posts and ends at a time, except that ending takes the
 * operation out before its done runs, so that done may post.
 */
#include "tests/core/fake_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/conf.h"
#include "core/path/peer.h"
#include "core/path/progress.h"
#include "core/path/req.h"
#include "tests/t.h"

static struct fab_engine engine;
static struct fab_hazard line; /* of the thread that starts operations: there is no node memory */

static struct fake_path *fake_of(struct fab_ep *ep)
{
    return container_of(ep, struct fake_path, ep);
}

static void fake_post(struct fab_ep *ep, struct fab_op *chain)
{
    struct fake_path *fake = fake_of(ep);
    struct fab_op *next;

    if (fake->lock != NULL) {
        orl_lock(fake->lock);
    }
    fake->nposts++;
    for (struct fab_op *op = chain; op != NULL; op = next) {
        next = op->link.next == NULL ? NULL : container_of(op->link.next, struct fab_op, link);
        if (fake->nheld == FAKE_HELD) {
            (void)fprintf(stderr, "the fake path is full\n");
            abort();
        }
        op->ep = ep;
        fake->held[fake->nheld++] = op;
    }
    if (fake->lock != NULL) {
        orl_unlock(fake->lock);
    }
}

static void fake_flush(struct fab_ep *ep, struct fab_op *op)
{
    op->link.next = NULL;
    fake_post(ep, op);
}

static int fake_put_short(struct fab_ep *ep, const struct fab_rkey *rkey, uint64_t offset,
                          const void *src, size_t bytes)
{
    (void)ep;
    (void)rkey;
    (void)offset;
    (void)src;
    (void)bytes;
    return ORL_ERR_AGAIN;
}

static int fake_send_short(struct fab_ep *ep, unsigned handler, uint64_t header, const void *src,
                           size_t bytes)
{
    (void)ep;
    (void)handler;
    (void)header;
    (void)src;
    (void)bytes;
    return ORL_ERR_AGAIN;
}

static const struct fab_ep_ops fake_ops = {
    .put_short = fake_put_short,
    .send_short = fake_send_short,
    .post = fake_post,
    .flush = fake_flush,
};

void fake_open(int size)
{
    if (orl_conf_load() != 0) {
        (void)fprintf(stderr, "%s\n", orl_last_error());
        abort();
    }
    fab_hazard_mine = &line;
    core.size = size;
    core.nlocal = 0;
    core.rank = 0;
    (void)snprintf(core.host, sizeof(core.host), "fake");
    core_progress_open();
    if (core_peers_open() != 0 || core_reqs_open() != 0) {
        abort();
    }
    atomic_store(&core.users, 1);
}

uint64_t fake_close(void)
{
    uint64_t outstanding = core_reqs_close();

    core_progress_close();
    core_peers_close();
    atomic_store(&core.users, 0);
    return outstanding;
}

void fake_path_init(struct fake_path *fake, int rank)
{
    memset(fake, 0, sizeof(*fake));
    atomic_init(&fake->ep.ops, &fake_ops);
    atomic_init(&fake->ep.state, FAB_EP_READY);
    fake->ep.engine = &engine;
    (void)snprintf(fake->ep.label, sizeof(fake->ep.label), "rank %d on fake", rank);
    fake->path.rank = rank;
    fake->path.ep = &fake->ep;
    fake->path.nrails = 1;
    atomic_init(&fake->path.rail[0].ep, &fake->ep);
    fake->path.rail[0].engine = &engine;
    fake->remote.magic = CORE_REMOTE_MAGIC;
    fake->remote.access = ORIEL_ACCESS_READ | ORIEL_ACCESS_WRITE | ORIEL_ACCESS_ATOMIC;
    fake->remote.key.bytes = FAKE_BYTES;
    fake->remote.keys = &fake->remote.key;
    fake->remote.rails = 1;
    fake->remote.owner = rank;
    fake->remote.peer = &core.peers[rank];
    fake->remote.path = &fake->path;
    atomic_init(&fake->remote.refs, 1);
}

struct fab_op *fake_take(struct fake_path *fake, int place)
{
    struct fab_op *op = fake->held[place];

    fake->nheld--;
    for (int i = place; i < fake->nheld; i++) {
        fake->held[i] = fake->held[i + 1];
    }
    return op;
}

void fake_end(struct fake_path *fake, int place, int status)
{
    struct fab_op *op = fake_take(fake, place);

    if (status == 0 && op->kind == FAB_OP_GET) {
        t_fill(op->local, op->bytes, (uint64_t)fake->path.rank, 0, op->offset);
    }
    op->status = status;
    op->done(op, status);
}

void fake_end_all(struct fake_path *fake, int status)
{
    while (fake->nheld > 0) {
        fake_end(fake, 0, status);
    }
}
