/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The networks of a job; see nets.h. Part of the sequence in init.c: one thread, no lock.
 */
#include "core/boot/nets.h"

#include "base/conf.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "core/core.h"

static bool has_shm(void)
{
    return orl_conf_list_has(orl_conf.transports, "shm");
}

static bool needs_network(void)
{
    return core.size > core.nlocal || (core.size > 1 && !has_shm());
}

/* How many ranks only a network reaches. */
static int out_of_reach(void)
{
    return core.size - (has_shm() ? core.nlocal : 1);
}

/* Names of the networks of this build that the setting leaves out. False: it has one that this
 * build knows, so the setting is not what is wrong. */
static bool are_left_out(struct orl_strbuf *names)
{
    bool has_one = false;

    for (unsigned i = 0; i < core.fabric.nverdicts; i++) {
        const struct fab_verdict *verdict = &core.fabric.verdict[i];

        if (verdict->level < FAB_LEVEL_NIC) {
            continue;
        }
        if (verdict->state == FAB_DISABLED) {
            orl_strbuf_join(names, " or ", verdict->name);
        }
        has_one = has_one || orl_conf_list_has(orl_conf.transports, verdict->name);
    }
    return !has_one && names->length > 0;
}

static int fail_without(void)
{
    char text[ORL_ERROR_TEXT_BYTES];
    struct orl_strbuf sb;

    orl_strbuf_init(&sb, text, sizeof(text));
    if (core.size == core.nlocal) {
        orl_strbuf_add(&sb, "shm");
    }
    if (are_left_out(&sb)) {
        return orl_fail(ORL_ERR_CONF,
                        "ORIEL_TRANSPORTS is '%s': no transport reaches the other %d rank%s; add "
                        "%s",
                        orl_conf.transports, out_of_reach(), out_of_reach() == 1 ? "" : "s",
                        orl_strbuf_str(&sb));
    }
    orl_strbuf_init(&sb, text, sizeof(text));
    fab_explain(&core.fabric, &sb);
    return orl_fail(ORL_ERR_UNSUPP,
                    "no network reaches %d of this job's %d ranks (ORIEL_TRANSPORTS, ORIEL_NICS "
                    "and ORIEL_OFI_PROVIDER choose): %s",
                    out_of_reach(), core.size, orl_strbuf_str(&sb));
}

/* Loopback and its like lead to other hosts in pretence only. */
static bool is_of_use(const struct fab_engine *engine)
{
    bool is_here = core.size == core.nlocal || core.boot->is_pretence;

    return engine->level >= FAB_LEVEL_NIC && (is_here || !fab_engine_is_alone(engine));
}

int core_nets_open(void)
{
    core.nnetworks = 0;
    if (!needs_network()) {
        fab_judge(&core.fabric, orl_conf.transports);
        return 0;
    }
    int st = fab_open_networks(&core.fabric, orl_conf.transports);
    for (unsigned i = 0; st == 0 && i < core.fabric.nengines; i++) {
        if (is_of_use(core.fabric.engine[i]) && core.nnetworks < CORE_NETWORKS_MAX) {
            core.network[core.nnetworks++] = core.fabric.engine[i];
        }
    }
    if (st == 0 && core.nnetworks == 0) {
        st = fail_without();
    }
    return st;
}

void core_nets_fill(struct core_record *mine)
{
    _Static_assert(CORE_NETWORKS_MAX <= CORE_CARDS_MAX, "a card for each network");
    mine->ncards = (uint32_t)core.nnetworks;
    for (int i = 0; i < core.nnetworks; i++) {
        fab_engine_card(core.network[i], &mine->card[i]);
    }
}

static bool speaks_to_any(const struct fab_engine *engine, const struct fab_card *cards, int n)
{
    for (int j = 0; j < n; j++) {
        if (fab_engine_speaks(engine, &cards[j])) {
            return true;
        }
    }
    return false;
}

static bool have_one_in_common(const struct fab_card *cards, int n)
{
    for (int i = 0; i < core.nnetworks; i++) {
        if (speaks_to_any(core.network[i], cards, n)) {
            return true;
        }
    }
    return false;
}

static void name_own(struct orl_strbuf *names)
{
    for (int i = 0; i < core.nnetworks; i++) {
        orl_strbuf_join(names, ", ", core.network[i]->tag);
    }
}

static void name_theirs(struct orl_strbuf *names, const struct fab_card *cards, int n)
{
    for (int j = 0; j < n; j++) {
        orl_strbuf_join(names, ", ", cards[j].tag);
    }
}

int core_nets_check(int rank, const char *hostname, const struct fab_card *cards, int n)
{
    char text[2][96];
    struct orl_strbuf theirs;
    struct orl_strbuf ours;

    if (have_one_in_common(cards, n)) {
        return 0;
    }
    orl_strbuf_init(&theirs, text[0], sizeof(text[0]));
    orl_strbuf_init(&ours, text[1], sizeof(text[1]));
    name_theirs(&theirs, cards, n);
    name_own(&ours);
    return orl_fail(ORL_ERR_UNSUPP,
                    "rank %d on %s speaks %s and rank %d on %s speaks %s: no network protocol and "
                    "version in common; give all hosts the same ORIEL_TRANSPORTS, "
                    "ORIEL_OFI_PROVIDER, libfabric and liboriel",
                    rank, hostname, n > 0 ? orl_strbuf_str(&theirs) : "none", core.rank, core.host,
                    core.nnetworks > 0 ? orl_strbuf_str(&ours) : "none");
}
