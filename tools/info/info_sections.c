/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sections, each a table made from what the library's queries say. A section prints what can
 * be known, whether a job runs or not.
 */
#include "info.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_BYTES 24

static const char *decimal(char *text, uint64_t number)
{
    (void)snprintf(text, NUMBER_BYTES, "%" PRIu64, number);
    return text;
}

/* ---------------------------------------------------------------- facts */

static const struct info_column fact_columns[] = {
    { "name", false, false }, { "value", false, false }, { "text", false, false },
    { "number", true, true }, { "unit", false, true },
};

const char *info_fact(const char *group, const char *name)
{
    static struct oriel_fact fact;

    fact.size = sizeof(fact);
    for (size_t i = 0; oriel_fact_query(i, &fact) == ORIEL_OK; i++) {
        if (strcmp(fact.group, group) == 0 && strcmp(fact.name, name) == 0) {
            return fact.value;
        }
    }
    return "";
}

static void add_facts(struct info_doc *doc, const char *group)
{
    struct oriel_fact fact = { .size = sizeof(fact) };
    char number[NUMBER_BYTES];

    info_table_begin(doc, group, fact_columns, 5);
    for (size_t i = 0; oriel_fact_query(i, &fact) == ORIEL_OK; i++) {
        bool has_number = fact.unit != NULL && fact.number != UINT64_MAX;
        const char *const cells[] = { fact.name, fact.value, fact.text,
                                      has_number ? decimal(number, fact.number) : NULL, fact.unit };
        if (strcmp(fact.group, group) == 0) {
            info_table_row(doc, cells);
        }
    }
}

static void print_facts(struct info_doc *doc, const struct info_section *section,
                        const struct info_scene *scene)
{
    (void)scene;
    add_facts(doc, section->name);
    info_table_end(doc);
}

/* ---------------------------------------------------------------- limits */

static void add_attach(struct info_doc *doc, const struct info_scene *scene)
{
    char value[64];
    char text[160];
    int tried = 0;
    int straight = 0;
    const char *const cells[] = { "cross_memory_attach", value, text, NULL, NULL };

    for (int r = 0; scene->ranks != NULL && r < scene->nranks; r++) {
        tried += scene->ranks[r].is_tried != 0;
        straight += scene->ranks[r].is_direct != 0;
    }
    if (tried == 0) {
        (void)snprintf(value, sizeof(value), "%s", info_attach_alone());
        (void)snprintf(
            text, sizeof(text),
            "copies straight between private memories; a child tried it on this process");
    } else {
        (void)snprintf(value, sizeof(value), "%s",
                       straight == tried ? "works"
                       : straight == 0   ? "not in use"
                                         : "works for some");
        (void)snprintf(text, sizeof(text),
                       "copies straight between private memories; %d of %d ranks reached rank 0's",
                       straight, tried);
    }
    info_table_row(doc, cells);
}

static void print_limits(struct info_doc *doc, const struct info_section *section,
                         const struct info_scene *scene)
{
    add_facts(doc, section->name);
    add_attach(doc, scene);
    info_table_end(doc);
}

/* ---------------------------------------------------------------- transports */

static const char *const states[] = {
    [ORIEL_TRANSPORT_ABSENT] = "absent", [ORIEL_TRANSPORT_DISABLED] = "not used",
    [ORIEL_TRANSPORT_IDLE] = "idle",     [ORIEL_TRANSPORT_FAILED] = "failed",
    [ORIEL_TRANSPORT_CHOSEN] = "chosen",
};

static void print_transports(struct info_doc *doc, const struct info_section *section,
                             const struct info_scene *scene)
{
    static const struct info_column columns[] = { { "name", false, false },
                                                  { "state", false, false },
                                                  { "reaches", false, false },
                                                  { "reason", false, false } };
    struct oriel_transport_info info = { .size = sizeof(info) };

    (void)scene;
    info_table_begin(doc, section->name, columns, 4);
    for (size_t i = 0; oriel_transport_query(i, &info) == ORIEL_OK; i++) {
        const char *const cells[] = { info.name, states[info.state], info.level, info.reason };
        info_table_row(doc, cells);
    }
    info_table_end(doc);
}

/* ---------------------------------------------------------------- ports of networks */

static const char *speed(char *text, uint64_t mbit_per_s)
{
    bool is_giga = mbit_per_s >= 1000;

    (void)snprintf(text, NUMBER_BYTES, "%g %s", (double)mbit_per_s / (is_giga ? 1000 : 1),
                   is_giga ? "Gbit/s" : "Mbit/s");
    return mbit_per_s != 0 ? text : NULL;
}

static void add_nic(struct info_doc *doc, const struct oriel_nic_info *info)
{
    char words[NUMBER_BYTES];
    char mbits[NUMBER_BYTES];
    char message[NUMBER_BYTES];
    char transfer[NUMBER_BYTES];
    bool is_open = info->state == ORIEL_TRANSPORT_CHOSEN && info->message_max != 0;
    bool is_bounded = is_open && info->transfer_max != UINT64_MAX;
    const char *const cells[] = {
        info->name,
        states[info->state],
        info->provider,
        info->address,
        info->network,
        speed(words, info->mbit_per_s),
        info->reason,
        info->transport,
        info->pci,
        info->mbit_per_s != 0 ? decimal(mbits, info->mbit_per_s) : NULL,
        is_open ? decimal(message, info->message_max) : NULL,
        is_bounded ? decimal(transfer, info->transfer_max) : NULL,
    };

    info_table_row(doc, cells);
}

static void print_nics(struct info_doc *doc, const struct info_section *section,
                       const struct info_scene *scene)
{
    static const struct info_column columns[] = {
        { "name", false, false },     { "state", false, false },     { "provider", false, false },
        { "address", false, false },  { "network", false, false },   { "speed", false, false },
        { "reason", false, false },   { "transport", false, true },  { "pci", false, true },
        { "mbit_per_s", true, true }, { "message_max", true, true }, { "transfer_max", true, true },
    };
    struct oriel_nic_info info = { .size = sizeof(info) };

    (void)scene;
    info_table_begin(doc, section->name, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; oriel_nic_query(i, &info) == ORIEL_OK; i++) {
        add_nic(doc, &info);
    }
    info_table_end(doc);
}

/* ---------------------------------------------------------------- settings and counters */

static void print_settings(struct info_doc *doc, const struct info_section *section,
                           const struct info_scene *scene)
{
    static const char *const origins[] = { [ORIEL_ORIGIN_DEFAULT] = "default",
                                           [ORIEL_ORIGIN_ENVIRONMENT] = "environment",
                                           [ORIEL_ORIGIN_PROGRAM] = "program" };
    static const struct info_column columns[] = {
        { "name", false, false },    { "value", false, false }, { "origin", false, false },
        { "default", false, false }, { "range", false, false }, { "problem", false, false },
        { "text", false, true },
    };
    struct oriel_setting_info info = { .size = sizeof(info) };
    char problem[320];

    (void)scene;
    info_table_begin(doc, section->name, columns, 7);
    for (size_t i = 0; oriel_setting_query(i, &info) == ORIEL_OK; i++) {
        const char *const cells[] = { info.name,     info.value, origins[info.origin],
                                      info.fallback, info.range, problem,
                                      info.text };
        problem[0] = '\0';
        if (info.problem != NULL) {
            (void)snprintf(problem, sizeof(problem), "WRONG: %s", info.problem);
        }
        info_table_row(doc, cells);
    }
    info_table_end(doc);
}

static void print_counters(struct info_doc *doc, const struct info_section *section,
                           const struct info_scene *scene)
{
    static const struct info_column columns[] = { { "name", false, false },
                                                  { "value", true, false },
                                                  { "unit", false, false },
                                                  { "text", false, false } };
    struct oriel_counter counter = { .size = sizeof(counter) };
    char number[NUMBER_BYTES];

    (void)scene;
    info_table_begin(doc, section->name, columns, 4);
    for (size_t i = 0; oriel_counter_query(i, &counter) == ORIEL_OK; i++) {
        const char *const cells[] = { counter.name, decimal(number, counter.value), counter.unit,
                                      counter.text };
        info_table_row(doc, cells);
    }
    info_table_end(doc);
}

/* ---------------------------------------------------------------- ranks */

static void print_ranks(struct info_doc *doc, const struct info_section *section,
                        const struct info_scene *scene)
{
    static const struct info_column columns[] = {
        { "rank", true, false },  { "host", false, false },      { "pid", true, false },
        { "cpus", false, false }, { "to_rank_0", false, false }, { "private_memory", false, false },
    };
    char rank[NUMBER_BYTES];
    char pid[NUMBER_BYTES];

    info_table_begin(doc, section->name, columns, 6);
    for (int r = 0; scene->ranks != NULL && r < scene->nranks; r++) {
        const struct info_rank *row = &scene->ranks[r];
        const char *const cells[] = { decimal(rank, (uint64_t)row->rank),
                                      row->host,
                                      decimal(pid, (uint64_t)row->pid),
                                      row->cpus,
                                      row->transport,
                                      row->memory };
        info_table_row(doc, cells);
    }
    info_table_end(doc);
}

/* ---------------------------------------------------------------- the list */

const struct info_section info_sections[] = {
    { "build", "version, compiler, flags, optional parts", false, print_facts },
    { "topology", "host, CPUs, caches, memory, copy and checksum methods", false, print_facts },
    { "job", "launcher, bootstrap, ranks", false, print_facts },
    { "ranks", "each rank: host, process, CPUs, the way to rank 0", true, print_ranks },
    { "transports", "each transport: chosen or not, and why", false, print_transports },
    { "nics", "each interface and card: chosen or not, and why", false, print_nics },
    { "network", "libfabric, its provider and what that can do", false, print_facts },
    { "limits", "of the library and of this system", true, print_limits },
    { "collectives", "how collectives are done here", false, print_facts },
    { "settings", "each setting: value, where it comes from, default, range", false,
      print_settings },
    { "counters", "what rank 0 has counted since oriel_init", false, print_counters },
    { NULL, NULL, false, NULL },
};
