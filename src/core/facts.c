/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel_fact_query, and the facts of the build, of this job's start and of its collectives. Any
 * thread may ask at any time; what is told lives in memory of the thread.
 */
#include "core/facts.h"

#include <string.h>

#include "base/conf.h"
#include "base/sys.h"
#include "core/boot/boot.h"
#include "core/coll/coll.h"
#include "core/core.h"
#include "core/topo/topo.h"

/* The makefile says it; code analysers do not. */
#ifndef ORL_BUILD_KIND
 #define ORL_BUILD_KIND  "unknown"
 #define ORL_BUILD_FLAGS "unknown"
#endif

/* ---------------------------------------------------------------- build */

static void tell_version(struct core_fact *fact)
{
    orl_strbuf_add(&fact->value, oriel_version(NULL, NULL, NULL));
}

static void tell_compiler(struct core_fact *fact)
{
    orl_strbuf_add(&fact->value, ORL_COMPILER);
}

static void tell_flags(struct core_fact *fact)
{
    orl_strbuf_add(&fact->value, ORL_BUILD_FLAGS);
}

static void tell_kind(struct core_fact *fact)
{
    orl_strbuf_add(&fact->value, ORL_BUILD_KIND);
}

static void tell_hwloc(struct core_fact *fact)
{
    orl_strbuf_add(&fact->value, core_topo_version());
}

static void tell_pmix(struct core_fact *fact)
{
    const char *words = core_boot_pmix_version();
    size_t n = strcspn(words, ",(");
    while (n > 0 && words[n - 1] == ' ') {
        n--;
    }
    orl_strbuf_addf(&fact->value, "%.*s", (int)n, words);
}

static void tell_transports(struct core_fact *fact)
{
    orl_strbuf_add(&fact->value, fab_transports());
}

static void tell_optional(struct core_fact *fact, const char *name)
{
    struct fab judged;
    fab_judge(&judged, NULL);
    for (unsigned i = 0; i < judged.nverdicts; i++) {
        const struct fab_verdict *verdict = &judged.verdict[i];
        if (strcmp(verdict->name, name) == 0) {
            bool is_absent = verdict->state == FAB_ABSENT;
            orl_strbuf_add(&fact->value, is_absent ? "not built" : "built");
            orl_strbuf_addf(&fact->text, "%s%s", is_absent ? "; " : "",
                            is_absent ? verdict->reason : "");
        }
    }
}

static void tell_verbs(struct core_fact *fact)
{
    tell_optional(fact, "verbs");
}

static void tell_libfabric(struct core_fact *fact)
{
    tell_optional(fact, "ofi");
}

/* ---------------------------------------------------------------- job */

static void tell_count(struct core_fact *fact, int count)
{
    if (core_is_open()) {
        fact->number = (uint64_t)count;
        return;
    }
    orl_strbuf_add(&fact->value, "unknown");
    orl_strbuf_add(&fact->text, "; no job is running");
}

static void tell_size(struct core_fact *fact)
{
    tell_count(fact, core.size);
}

static void tell_local_size(struct core_fact *fact)
{
    tell_count(fact, core.nlocal);
}

static bool has_variable(const char *name)
{
    const char *text = orl_conf_launcher_variable(name);
    return text != NULL && text[0] != 0;
}

/* Who started this process, as far as its environment tells. Launchers name their jobs in a way of
 * their own; the variables of an outer launcher are inherited, so those are asked second. */
static void tell_launcher(struct core_fact *fact)
{
    static const struct {
        const char *start; /* of PMIx's name of the job */
        const char *name;
    } jobs[] = { { "oriel-run", "oriel-run" }, { "slurm.", "srun" }, { "prte", "prterun" } };
    static const struct {
        const char *variable;
        const char *name;
    } launchers[] = {
        { "OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun" },
        { "PMI_SIZE", "a launcher with PMI-1 (hydra)" },
        { "PALS_SIZE", "PALS" },
        { "SLURM_STEP_ID", "srun" },
        { "ORIEL_RUN_SIZE", "oriel-run" },
        { "PMIX_NAMESPACE", "a launcher with PMIx" },
    };
    const char *nspace = orl_conf_launcher_variable("PMIX_NAMESPACE");
    for (size_t i = 0; nspace != NULL && i < sizeof(jobs) / sizeof(jobs[0]); i++) {
        if (strncmp(nspace, jobs[i].start, strlen(jobs[i].start)) == 0) {
            orl_strbuf_add(&fact->value, jobs[i].name);
            orl_strbuf_addf(&fact->text, "; PMIX_NAMESPACE is %.80s", nspace);
            return;
        }
    }
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        if (has_variable(launchers[i].variable)) {
            orl_strbuf_add(&fact->value, launchers[i].name);
            orl_strbuf_addf(&fact->text, "; %s is set", launchers[i].variable);
            return;
        }
    }
    orl_strbuf_add(&fact->value, "none");
}

/* Why the bootstrap is what it is, beside the setting. */
static const char *reason_of(const char *name)
{
    if (strcmp(name, "pmix") == 0) {
        return "the launcher left PMIX_NAMESPACE and PMIX_RANK";
    }
    if (strcmp(name, "local") == 0) {
        return "this process was forked into a group";
    }
    return "no launcher left PMIX_NAMESPACE or PMIX_RANK";
}

static void tell_bootstrap(struct core_fact *fact)
{
    if (core.boot == NULL) {
        bool has_pmix = has_variable("PMIX_NAMESPACE") || has_variable("PMIX_RANK");
        orl_strbuf_add(&fact->value, "none");
        orl_strbuf_addf(&fact->text, "; no job is running; PMIX_NAMESPACE or PMIX_RANK %s set",
                        has_pmix ? "is" : "are not");
        return;
    }
    orl_strbuf_add(&fact->value, core.boot->name);
    orl_strbuf_addf(&fact->text, "; %s",
                    orl_conf_is_given("BOOT") ? "ORIEL_BOOT says so" : reason_of(core.boot->name));
}

static void tell_node(struct core_fact *fact)
{
    if (core.node == NULL) {
        orl_strbuf_add(&fact->value, "none");
        orl_strbuf_add(&fact->text, "; no job is running");
        return;
    }
    fact->number = core.node->bytes;
    orl_strbuf_addf(&fact->text, "; %d rank%s, mostly never touched", core.node->nranks,
                    core.node->nranks == 1 ? "" : "s");
}

/* ---------------------------------------------------------------- collectives */

static void tell_form(struct core_fact *fact)
{
    if (!core_is_open()) {
        orl_strbuf_add(&fact->value, "unknown");
        orl_strbuf_add(&fact->text, "; no job is running");
        return;
    }
    bool is_flat = core.nlocal <= orl_conf.coll_flat_max;
    if (core.nlocal == 1) {
        orl_strbuf_add(&fact->value, "alone");
    } else if (is_flat) {
        orl_strbuf_add(&fact->value, "flat");
    } else {
        orl_strbuf_addf(&fact->value, "groups of %d", orl_conf.coll_flat_max);
    }
    orl_strbuf_addf(&fact->text, "; %d rank%s, and ORIEL_COLL_FLAT_MAX is %d", core.nlocal,
                    core.nlocal == 1 ? "" : "s", orl_conf.coll_flat_max);
}

static void tell_inline(struct core_fact *fact)
{
    fact->number = FAB_FLAG_BYTES;
}

/* False: said already that nothing goes between hosts. */
static bool has_hosts(struct core_fact *fact, struct core_coll_forms *forms)
{
    if (core_is_open() && core_coll_query(forms)) {
        return true;
    }
    orl_strbuf_add(&fact->value, core_is_open() ? "none" : "unknown");
    orl_strbuf_addf(&fact->text, "; %s",
                    core_is_open() ? "this job has one host" : "no job is running");
    return false;
}

static void tell_bcast(struct core_fact *fact)
{
    struct core_coll_forms forms;
    if (!has_hosts(fact, &forms)) {
        return;
    }
    orl_strbuf_add(&fact->value, "tree");
    if (forms.bcast_chain_from != UINT64_MAX) {
        orl_strbuf_add(&fact->value, ", chain from ");
        orl_strbuf_add_bytes(&fact->value, forms.bcast_chain_from);
    }
    orl_strbuf_addf(&fact->text, "; %d hosts", forms.hosts);
}

static void tell_allreduce(struct core_fact *fact)
{
    struct core_coll_forms forms;
    if (!has_hosts(fact, &forms)) {
        return;
    }
    if (!forms.is_in_order) {
        orl_strbuf_add(&fact->value, "from rank to rank");
        orl_strbuf_add(&fact->text, "; ranks of a host do not follow one another");
        return;
    }
    orl_strbuf_add(&fact->value, forms.allreduce_doubles ? "doubling" : "all to all");
    if (forms.allreduce_sliced_from != UINT64_MAX) {
        orl_strbuf_add(&fact->value, ", in slices from ");
        orl_strbuf_add_bytes(&fact->value, forms.allreduce_sliced_from);
    }
    orl_strbuf_addf(&fact->text, "; %d ranks exchange operands", forms.allreduce_ranks);
}

/* ---------------------------------------------------------------- the query */

static const struct core_fact_row rows[] = {
    { "build", "version", NULL, "of the library that is loaded", tell_version },
    { "build", "compiler", NULL, "that built it", tell_compiler },
    { "build", "flags", NULL, "it was given", tell_flags },
    { "build", "kind", NULL, "release, or what was switched on in configure", tell_kind },
    { "build", "hwloc", NULL, "version of its interface that is loaded", tell_hwloc },
    { "build", "pmix", NULL, "version that is loaded", tell_pmix },
    { "build", "transports", NULL, "of this build", tell_transports },
    { "build", "verbs", NULL, "transport over NICs", tell_verbs },
    { "build", "libfabric", NULL, "transport over networks", tell_libfabric },
    { "job", "launcher", NULL, "who started this process", tell_launcher },
    { "job", "bootstrap", NULL, "how the ranks find each other", tell_bootstrap },
    { "job", "ranks", "ranks", "of this job", tell_size },
    { "job", "ranks_here", "ranks", "of them on this host", tell_local_size },
    { "job", "node_memory", "bytes", "address space shared by the ranks of this host", tell_node },
    { "collectives", "form", NULL, "how the ranks of this host meet", tell_form },
    { "collectives", "inline", "bytes", "up to this size data travels with the flag", tell_inline },
    { "collectives", "bcast", NULL, "between hosts", tell_bcast },
    { "collectives", "allreduce", NULL, "between hosts", tell_allreduce },
};

static const struct core_fact_table here = { rows, sizeof(rows) / sizeof(rows[0]) };

static const struct core_fact_row *row_at(size_t i)
{
    const struct core_fact_table *const tables[] = { &here, &core_facts_host, &core_facts_net };
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        if (i < tables[t]->count) {
            return &tables[t]->row[i];
        }
        i -= tables[t]->count;
    }
    return NULL;
}

static void add_number(struct core_fact *fact, const char *unit)
{
    if (fact->number == UINT64_MAX) {
        orl_strbuf_add(&fact->value, "no limit");
    } else if (strcmp(unit, "bytes") == 0) {
        orl_strbuf_add_bytes(&fact->value, fact->number);
    } else {
        orl_strbuf_addf(&fact->value, "%llu", (unsigned long long)fact->number);
    }
}

ORL_PUBLIC int oriel_fact_query(size_t i, struct oriel_fact *fact)
{
    static _Thread_local char value[256];
    static _Thread_local char text[320];
    if (fact == NULL || fact->size < sizeof(*fact)) {
        return orl_fail(ORL_ERR_INVAL, "fact is NULL, or fact->size is not sizeof(*fact)");
    }
    const struct core_fact_row *row = row_at(i);
    if (row == NULL) {
        return orl_fail(ORL_ERR_RANGE, "there are fewer than %zu facts", i + 1);
    }
    struct core_fact told = { .number = 0 };
    orl_strbuf_init(&told.value, value, sizeof(value));
    orl_strbuf_init(&told.text, text, sizeof(text));
    orl_strbuf_add(&told.text, row->text);
    row->tell(&told);
    bool is_number = row->unit != NULL && (told.value.length == 0 || told.number != 0);
    if (told.value.length == 0 && is_number) {
        add_number(&told, row->unit);
    }
    fact->group = row->group;
    fact->name = row->name;
    fact->value = value;
    fact->text = text;
    fact->unit = is_number ? row->unit : NULL;
    fact->number = is_number ? told.number : 0;
    return 0;
}
