/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ranks and several loopback engines in one process; see two_rails.h.
 */
#include "tests/core/two_rails.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "core/boot/boot.h"
#include "core/path/peer.h"
#include "core/path/progress.h"
#include "core/path/req.h"
#include "fabric/transport.h"

static struct fab_node node;
static void *node_memory;
static int local_rank;

static void must(int status, const char *what)
{
    if (status != 0) {
        (void)fprintf(stderr, "%s: %s\n", what, orl_last_error());
        abort();
    }
}

/* The record of whichever rank: its engines are mine. */
static int give_record(int rank, void *bytes, size_t *length)
{
    struct core_record record = { .rank = rank, .ncards = (uint32_t)core.nnetworks };

    record.version = CORE_WIRE_VERSION;
    (void)snprintf(record.hostname, sizeof(record.hostname), "loop");
    for (int i = 0; i < core.nnetworks; i++) {
        fab_engine_card(core.network[i], &record.card[i]);
    }
    *length = core_record_encode(&record, bytes, *length);
    return 0;
}

static const struct core_boot loop_boot = { .name = "loop", .get = give_record };

static void add_engine(int i, uint32_t mbps)
{
    struct fab_nic nic = { .transport = &fab_self_ops, .mbps = mbps };
    struct fab_engine *engine;

    (void)snprintf(nic.name, sizeof(nic.name), "loop%d", i);
    nic.net[0] = 4;
    nic.net[4] = (uint8_t)(i + 1);
    must(fab_self_ops.open(&core.fabric, &nic, &engine), "open");
    engine->level = FAB_LEVEL_NETWORK;
    engine->nic = nic;
    engine->index = core.fabric.nengines;
    (void)snprintf(engine->tag, sizeof(engine->tag), "loop");
    core.fabric.engine[core.fabric.nengines++] = engine;
    core.network[core.nnetworks++] = engine;
}

void loop_open(int nengines, const uint32_t *mbps)
{
    must(orl_conf_load(), "settings");
    memset(&core.fabric, 0, sizeof(core.fabric));
    node_memory = calloc(1, (size_t)fab_node_lay_bytes(1, 1 << 20));
    if (node_memory == NULL || fab_node_lay(&node, node_memory, 1, 1 << 20, 0) != 0) {
        must(-1, "node memory");
    }
    core.node = &node;
    core.local_rank = &local_rank;
    core.rank = 0;
    core.size = 2;
    core.local = 0;
    core.nlocal = 1;
    core.nnetworks = 0;
    core.job = 77;
    core.boot = &loop_boot;
    (void)snprintf(core.host, sizeof(core.host), "loop");
    for (int i = 0; i < nengines; i++) {
        add_engine(i, mbps[i]);
    }
    core.self = core.network[0];
    core_progress_open();
    must(core_peers_open(), "peers");
    must(core_reqs_open(), "requests");
    must(core_mem_open(), "memories");
    atomic_store(&core.users, 1);
}

void loop_close(void)
{
    (void)core_reqs_close();
    core_mem_close();
    core_progress_close();
    core_peers_close();
    for (int i = 0; i < core.nnetworks; i++) {
        core.network[i]->transport->close(core.network[i]);
    }
    core.nnetworks = 0;
    core.fabric.nengines = 0;
    core.self = NULL;
    core.node = NULL;
    fab_node_unlay(&node);
    free(node_memory);
    atomic_store(&core.users, 0);
}

struct core_path *loop_path(void)
{
    struct core_path *path;

    must(core_path_of(LOOP_PEER, &path), "path");
    return path;
}

struct oriel_remote *loop_remote(void *base, uint64_t bytes, struct oriel_mem **mem)
{
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
    struct oriel_remote *remote;
    size_t length;

    must(oriel_mem_register(base, bytes, NULL, mem), "register");
    core.rank = LOOP_PEER;
    must(oriel_token_pack(*mem, token, sizeof(token), &length), "pack");
    core.rank = 0;
    (void)loop_path();
    must(oriel_token_open(token, length, &remote), "token");
    /* Loopback copies by the address in its keys; the operations shall be posted nevertheless. */
    remote->key.direct = NULL;
    return remote;
}

void loop_kill(int rail)
{
    struct fab_ep *ep = atomic_load(&loop_path()->rail[rail].ep);
    bool taken = fab_poller_take(ep->engine);

    fab_ep_fail(ep, ORL_ERR_LINK, "the test has cut it");
    if (taken) {
        fab_poller_give(ep->engine);
    }
}

void loop_settle(void)
{
    for (int quiet = 0; quiet < 4;) {
        quiet = core_progress() == 0 ? quiet + 1 : 0;
    }
}
