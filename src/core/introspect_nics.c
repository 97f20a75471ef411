/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel_nic_query: the ports of this host. In a job that has networks the answer is what its start
 * has found; else the search is made for the answer, and kept for the calls that ask for the next
 * port, under a lock since any thread may ask.
 */
#include "core/introspect.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/strbuf.h"
#include "core/core.h"

static pthread_mutex_t search_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fab *found; /* owns; of the last search */

/* One answer; its strings live until the thread asks again. */
struct answer {
    struct fab_port port;
    char network[FAB_WORDS_BYTES];
};
static _Thread_local struct answer answer;

/* Holds the lock. 0, or why no port could be found. */
static int search(void)
{
    if (found == NULL) {
        found = calloc(1, sizeof(*found));
    }
    if (found == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory to look for ports");
    }
    orl_conf_load_sound(); /* before oriel_init nobody has */
    fab_close(found);
    int st = fab_consider(found, core_transports_wanted());
    return found->nports > 0 ? 0 : st;
}

/* The engine that has this port open, or NULL. */
static const struct fab_engine *engine_of(const struct fab_port *port)
{
    for (unsigned e = 0; core_is_open() && e < core.fabric.nengines; e++) {
        const struct fab_engine *engine = core.fabric.engine[e];
        if (port->state == FAB_CHOSEN && strcmp(engine->name, port->nic.name) == 0) {
            return engine;
        }
    }
    return NULL;
}

static void tell_engine(struct oriel_nic_info *info, const struct fab_port *port)
{
    const struct fab_engine *engine = engine_of(port);
    info->ordered = engine != NULL && engine->limits.ordered;
    info->needs_target = engine != NULL && engine->limits.needs_target;
    info->message_max = engine != NULL ? engine->limits.send_max : 0;
    info->transfer_max = engine != NULL ? engine->limits.op_max : 0;
}

static void tell(struct oriel_nic_info *info, const struct fab_port *port)
{
    struct orl_strbuf sb;
    answer.port = *port;
    orl_strbuf_init(&sb, answer.network, sizeof(answer.network));
    fab_net_words(port->nic.net, &sb);
    info->name = answer.port.nic.device;
    info->transport = fab_nic_transport(&port->nic);
    info->provider = answer.port.nic.provider;
    info->address = answer.port.nic.address;
    info->network = answer.network;
    info->pci = answer.port.nic.pci;
    info->reason = answer.port.reason;
    info->state = (int)port->state;
    info->mbit_per_s = port->nic.mbps;
    tell_engine(info, port);
}

static int pick(const struct fab *fabric, size_t i, struct oriel_nic_info *info)
{
    if (i >= fabric->nports) {
        return orl_fail(ORL_ERR_RANGE, "there are %u ports, from 0", fabric->nports);
    }
    tell(info, &fabric->port[i]);
    return 0;
}

ORL_PUBLIC int oriel_nic_query(size_t i, struct oriel_nic_info *info)
{
    if (info == NULL || info->size < sizeof(*info)) {
        return orl_fail(ORL_ERR_INVAL, "info is NULL, or info->size is not sizeof(*info)");
    }
    if (core.fabric.nports > 0) {
        return pick(&core.fabric, i, info);
    }
    pthread_mutex_lock(&search_lock);
    int st = i == 0 || found == NULL ? search() : 0;
    if (st == 0) {
        st = pick(found, i, info);
    }
    pthread_mutex_unlock(&search_lock);
    return st;
}
