/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Facts of the networks: the library they come from, and what the engine that is used first can do.
 * The ports themselves are told by oriel_nic_query.
 */
#include "core/facts.h"

#include "base/conf.h"
#include "core/core.h"

/* The network that is used first, or NULL; then the fact says so. */
static const struct fab_engine *first(struct core_fact *fact)
{
    if (core_is_open() && core.nnetworks > 0) {
        return core.network[0];
    }
    orl_strbuf_add(&fact->value, core_is_open() ? "none" : "unknown");
    orl_strbuf_addf(&fact->text, "; %s",
                    core_is_open() ? "this job needs no network" : "no job is running");
    return NULL;
}

static void tell_library(struct core_fact *fact)
{
    const char *version = fab_library_version();
    orl_strbuf_add(&fact->value, version[0] != '\0' ? version : "not built");
}

static void tell_path(struct core_fact *fact)
{
    const char *path = orl_conf_launcher_variable("FI_PROVIDER_PATH");
    orl_strbuf_add(&fact->value, path != NULL ? path : "not set");
}

static void tell_provider(struct core_fact *fact)
{
    const struct fab_engine *engine = first(fact);
    if (engine != NULL) {
        orl_strbuf_add(&fact->value, engine->nic.provider);
        orl_strbuf_addf(&fact->text, "; over %s, %s", engine->nic.device, engine->tag);
    }
}

static void tell_limit(struct core_fact *fact, uint64_t limit)
{
    if (limit == FAB_UNLIMITED) {
        orl_strbuf_add(&fact->value, "no limit");
    } else {
        fact->number = limit;
    }
}

static void tell_message(struct core_fact *fact)
{
    const struct fab_engine *engine = first(fact);
    if (engine != NULL) {
        tell_limit(fact, engine->limits.send_max);
    }
}

static void tell_transfer(struct core_fact *fact)
{
    const struct fab_engine *engine = first(fact);
    if (engine != NULL) {
        tell_limit(fact, engine->limits.op_max);
    }
}

static void tell_order(struct core_fact *fact)
{
    const struct fab_engine *engine = first(fact);
    if (engine != NULL) {
        orl_strbuf_add(&fact->value, engine->limits.ordered ? "as posted" : "none");
    }
}

static void tell_mover(struct core_fact *fact)
{
    const struct fab_engine *engine = first(fact);
    if (engine != NULL) {
        orl_strbuf_add(&fact->value, engine->limits.needs_target ? "the target's CPU" : "the NIC");
    }
}

static const struct core_fact_row rows[] = {
    { "network", "libfabric", NULL, "version that is loaded", tell_library },
    { "network", "FI_PROVIDER_PATH", NULL, "where libfabric looks for more providers", tell_path },
    { "network", "provider", NULL, "that the first network uses", tell_provider },
    { "network", "largest_message", "bytes", "longer ones go in pieces", tell_message },
    { "network", "largest_transfer", "bytes", "longer ones go in pieces", tell_transfer },
    { "network", "order", NULL, "in which transfers become visible", tell_order },
    { "network", "moved_by", NULL, "who copies at the target", tell_mover },
};

const struct core_fact_table core_facts_net = { rows, sizeof(rows) / sizeof(rows[0]) };
