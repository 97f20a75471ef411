/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts of the job; see hosts.h. Whoever asks first reads the records of all ranks, which the
 * exchange in oriel_init has brought to this host. A host is named in them by the lowest rank that
 * shares its node memory. The table is made in private and published whole; of two threads that
 * make it at once one throws its own away.
 */
#include "core/path/hosts.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/boot/boot.h"
#include "core/core.h"
#include "core/path/peer.h"

static _Atomic(struct core_hosts *) table;

static void free_hosts(struct core_hosts *hosts)
{
    if (hosts != NULL) {
        free(hosts->of);
        free(hosts->leader);
        free(hosts->nranks);
        free(hosts->name);
        free(hosts);
    }
}

/* Room for as many hosts as there are ranks: pages of those that are not there are never made. */
static struct core_hosts *new_hosts(int size)
{
    struct core_hosts *hosts = calloc(1, sizeof(*hosts));

    if (hosts == NULL) {
        return NULL;
    }
    hosts->of = calloc((size_t)size, sizeof(*hosts->of));
    hosts->leader = calloc((size_t)size, sizeof(*hosts->leader));
    hosts->nranks = calloc((size_t)size, sizeof(*hosts->nranks));
    hosts->name = calloc((size_t)size, sizeof(*hosts->name));
    if (hosts->of == NULL || hosts->leader == NULL || hosts->nranks == NULL ||
        hosts->name == NULL) {
        free_hosts(hosts);
        return NULL;
    }
    return hosts;
}

static int new_host(struct core_hosts *hosts, int leader, const char *name)
{
    int h = hosts->nhosts++;

    hosts->leader[h] = leader;
    memcpy(hosts->name[h], name, strnlen(name, sizeof(hosts->name[h]) - 1));
    return h;
}

/* Ranks come in ascending order, so a host's lowest comes before its others. */
static int add_rank(struct core_hosts *hosts, int rank, int leader, const char *name)
{
    int h;

    if (leader < 0 || leader == rank) {
        h = new_host(hosts, rank, name);
    } else {
        h = hosts->of[leader];
        if (hosts->leader[h] != leader) {
            return orl_fail(ORL_ERR_BOOT, "rank %d says that rank %d is the lowest of its host, %s",
                            rank, leader, name);
        }
    }
    hosts->of[rank] = h;
    hosts->nranks[h]++;
    return 0;
}

static int read_hosts(struct core_hosts *hosts)
{
    int st = 0;

    for (int rank = 0; st == 0 && rank < core.size; rank++) {
        struct core_record record;

        st = core_record_of(core.boot, rank, &record);
        if (st == 0) {
            st = add_rank(hosts, rank, record.leader, record.hostname);
        }
    }
    return st;
}

static bool is_one_host(void)
{
    return core.node != NULL && core.node->nranks == core.size;
}

/* Without a look at any record. */
static int fill_one(struct core_hosts *hosts)
{
    int st = 0;

    for (int rank = 0; st == 0 && rank < core.size; rank++) {
        st = add_rank(hosts, rank, 0, core.host);
    }
    return st;
}

int core_hosts(const struct core_hosts **hosts)
{
    struct core_hosts *known = atomic_load_explicit(&table, memory_order_acquire);

    if (known == NULL) {
        struct core_hosts *mine = new_hosts(core.size);

        if (mine == NULL) {
            return orl_fail(ORL_ERR_NOMEM, "no memory for a table of the hosts of %d ranks",
                            core.size);
        }
        int st = is_one_host() ? fill_one(mine) : read_hosts(mine);

        if (st != 0) {
            free_hosts(mine);
            return st;
        }
        mine->mine = mine->of[core.rank];
        if (atomic_compare_exchange_strong(&table, &known, mine)) {
            known = mine;
        } else {
            free_hosts(mine);
        }
    }
    *hosts = known;
    return 0;
}

const char *core_host_name(int rank)
{
    const struct core_hosts *known = atomic_load_explicit(&table, memory_order_acquire);
    const char *name = NULL;

    if (rank == core.rank || core.peers[rank].local >= 0) {
        return core.host;
    }
    name = known != NULL ? known->name[known->of[rank]] : core_peer_host(rank);
    return name != NULL ? name : "another host";
}

void core_hosts_close(void)
{
    free_hosts(atomic_exchange(&table, NULL));
}
