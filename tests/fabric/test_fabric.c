/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which transports are opened, and the verdict on each: every combination of what three transports
 * may be, each with the user's word and without. Fakes stand in for transports; they are the
 * table of self with another probe and another open.
 */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/strbuf.h"
#include "fabric/fabric.h"
#include "fabric/transport.h"

enum fate {
    OUT,     /* not in the list */
    NOWHERE, /* no device on this machine */
    FAILS,
    WORKS,
    FATES
};

#define FAKES 3

static enum fate fates[FAKES];
static int opened; /* engines alive */
static struct fab_transport_ops ops[FAKES];
static struct fab_known known[FAKES + 1];
static const char *const names[FAKES] = { "near", "host", "far" };

static int probe(struct fab_nic *nics, int cap, int i)
{
    cr_assert_neq(fates[i], OUT, "%s is left out, and was looked for all the same", names[i]);
    if (fates[i] == NOWHERE || cap < 1) {
        return 0;
    }
    memset(&nics[0], 0, sizeof(nics[0]));
    nics[0].transport = &ops[i];
    memcpy(nics[0].name, names[i], strlen(names[i]) + 1);
    return 1;
}

static int open_one(struct fab *fabric, const struct fab_nic *nic, struct fab_engine **engine,
                    int i)
{
    int status;

    if (fates[i] == FAILS) {
        return orl_fail(i == 0 ? ORL_ERR_NOMEM : ORL_ERR_SYS, "%s has no luck", names[i]);
    }
    status = fab_self_ops.open(fabric, nic, engine);
    if (status == 0) {
        (*engine)->transport = &ops[i];
        opened++;
    }
    return status;
}

static void close_one(struct fab_engine *engine)
{
    opened--;
    fab_self_ops.close(engine);
}

#define FAKE(i)                                                                            \
 static int probe_##i(struct fab *fabric, struct fab_nic *nics, int cap)                   \
 {                                                                                         \
  (void)fabric;                                                                            \
  return probe(nics, cap, i);                                                              \
 }                                                                                         \
 static int open_##i(struct fab *fabric, const struct fab_nic *nic, struct fab_engine **e) \
 {                                                                                         \
  return open_one(fabric, nic, e, i);                                                      \
 }
FAKE(0)
FAKE(1)
FAKE(2)

static void make_fakes(void)
{
    int (*const probes[])(struct fab *, struct fab_nic *, int) = { probe_0, probe_1, probe_2 };
    int (*const opens[])(struct fab *, const struct fab_nic *,
                         struct fab_engine **) = { open_0, open_1, open_2 };

    for (int i = 0; i < FAKES; i++) {
        ops[i] = fab_self_ops;
        ops[i].name = names[i];
        ops[i].probe = probes[i];
        ops[i].open = opens[i];
        ops[i].close = close_one;
        known[i] = (struct fab_known){ names[i], (enum fab_level)i, &ops[i], NULL };
    }
    known[FAKES] =
        (struct fab_known){ "pigeon", FAB_LEVEL_NETWORK, NULL, "no pigeon was found by configure" };
}

/* The list of what is not left out, in words. */
static const char *list_of_fates(void)
{
    static char list[64];
    struct orl_strbuf sb;

    orl_strbuf_init(&sb, list, sizeof(list));
    for (int i = 0; i < FAKES; i++) {
        if (fates[i] != OUT) {
            orl_strbuf_join(&sb, ",", names[i]);
        }
    }
    return list;
}

static int count(enum fate fate)
{
    int n = 0;

    for (int i = 0; i < FAKES; i++) {
        n += fates[i] == fate;
    }
    return n;
}

/* Whether something that works reaches at least as far as transport i. */
static bool is_replaced(int i)
{
    for (int j = i; j < FAKES; j++) {
        if (fates[j] == WORKS) {
            return true;
        }
    }
    return false;
}

/* What fab_open has to say: alone with its own memory anything may replace anything. */
static bool must_succeed(bool is_forced, bool is_alone)
{
    for (int i = 0; i < FAKES; i++) {
        bool is_spare = is_alone ? count(WORKS) > 0 : is_replaced(i);

        if ((fates[i] == FAILS && (is_forced || !is_spare)) || (fates[i] == NOWHERE && is_forced)) {
            return false;
        }
    }
    return count(WORKS) > 0;
}

static void check_verdict(const struct fab_verdict *verdict, int i, bool is_forced, bool has_opened)
{
    static const enum fab_verdict_state states[FATES] = {
        [OUT] = FAB_DISABLED, [NOWHERE] = FAB_ABSENT, [FAILS] = FAB_FAILED, [WORKS] = FAB_CHOSEN
    };
    enum fab_verdict_state want = states[fates[i]];

    want = fates[i] == NOWHERE && is_forced ? FAB_FAILED : want;
    want = fates[i] == WORKS && !has_opened ? FAB_IDLE : want;
    cr_assert_str_eq(verdict->name, names[i]);
    cr_assert_eq((int)verdict->level, i);
    cr_assert_eq(verdict->state, want, "%s: %s", names[i], verdict->reason);
    cr_assert_eq(verdict->status != 0, want == FAB_FAILED);
    cr_assert_gt(strlen(verdict->reason), 8);
    if (fates[i] == FAILS) {
        cr_assert_not_null(strstr(verdict->reason, "has no luck"));
        cr_assert_eq(verdict->status, i == 0 ? ORL_ERR_NOMEM : ORL_ERR_SYS);
    }
    if (fates[i] == OUT) {
        cr_assert_not_null(strstr(verdict->reason, "ORIEL_TRANSPORTS"));
    }
}

/* One error for all: each that failed is named with its reason, and nothing stays open. */
static void check_error(struct fab *fabric, int status, bool is_forced, bool is_alone)
{
    const char *words = orl_last_error();

    cr_assert_neq(status, 0);
    cr_assert_eq(fabric->nengines, 0);
    cr_assert_eq(opened, 0);
    for (int i = 0; i < FAKES; i++) {
        bool is_spare = !is_forced && (is_alone ? count(WORKS) > 0 : is_replaced(i));
        char name[16];

        (void)snprintf(name, sizeof(name), "%s: ", names[i]);
        if (fates[i] == FAILS && !is_spare) {
            cr_assert_not_null(strstr(words, name), "%s", words);
        }
        if (fates[i] == WORKS) {
            cr_assert_null(strstr(words, name), "%s", words);
        }
    }
}

static void try_fates(bool is_forced, struct fab_node *node)
{
    struct fab fabric;
    bool is_alone = node != NULL;
    const struct fab_choice choice = { known, FAKES + 1, list_of_fates(), is_forced };
    int status = fab_open_choice(&fabric, &choice, node);
    bool succeeds = must_succeed(is_forced, is_alone);

    if (count(OUT) == FAKES) {
        cr_assert_eq(status, ORL_ERR_CONF, "an empty list");
        return;
    }
    cr_assert_eq(status == 0, succeeds, "near %d host %d far %d forced %d alone %d: %s", fates[0],
                 fates[1], fates[2], is_forced, is_alone, orl_last_error());
    cr_assert_eq(fabric.nverdicts, FAKES + 1);
    for (int i = 0; i < FAKES; i++) {
        check_verdict(&fabric.verdict[i], i, is_forced, succeeds);
        cr_assert_eq(fab_engine_find(&fabric, names[i]) != NULL, succeeds && fates[i] == WORKS);
    }
    cr_assert_eq(fabric.verdict[FAKES].state, FAB_ABSENT);
    cr_assert_str_eq(fabric.verdict[FAKES].reason, "no pigeon was found by configure");
    if (!succeeds) {
        check_error(&fabric, status, is_forced, is_alone);
    }
    fab_close(&fabric);
    cr_assert_eq(opened, 0);
    cr_assert_eq(fabric.nverdicts, FAKES + 1, "they stay");
}

/* covers: L2 L6 L13 */
Test(fabric, every_combination_of_transports)
{
    struct fab_node alone = { .nranks = 1 };

    make_fakes();
    for (int n = 0; n < FATES * FATES * FATES; n++) {
        fates[0] = (enum fate)(n % FATES);
        fates[1] = (enum fate)(n / FATES % FATES);
        fates[2] = (enum fate)(n / FATES / FATES);
        for (int forced = 0; forced < 2; forced++) {
            try_fates(forced == 1, NULL);
            try_fates(forced == 1, &alone);
        }
    }
}

/* A transport that is known and not in this build is not a word nobody knows. */
/* covers: L12 L14 */
Test(fabric, a_transport_that_is_not_built_says_why)
{
    struct fab fabric;
    struct fab_choice choice = { known, FAKES + 1, "near,pigeon", true };

    make_fakes();
    fates[0] = WORKS;
    cr_assert_eq(fab_open_choice(&fabric, &choice, NULL), ORL_ERR_CONF);
    cr_assert_not_null(strstr(orl_last_error(), "\"pigeon\" is not in this build"));
    cr_assert_not_null(strstr(orl_last_error(), "no pigeon was found by configure"));
    cr_assert_eq(opened, 0);
    cr_assert_eq(fab_open(&fabric, "verbs", NULL), ORL_ERR_UNSUPP);
    cr_assert_not_null(strstr(orl_last_error(), "verbs: "));
    cr_assert_not_null(strstr(orl_last_error(), "configure"), "%s", orl_last_error());
    cr_assert_eq(fab_open(&fabric, "libfabric", NULL), ORL_ERR_CONF, "nobody knows this one");
}

/* The default names all there could be, so what a build lacks is missed only by who asks for it. */
Test(fabric, a_default_does_not_insist)
{
    struct fab fabric;
    struct fab_choice choice = { known, FAKES + 1, "near,pigeon", false };

    make_fakes();
    fates[0] = WORKS;
    cr_assert_eq(fab_open_choice(&fabric, &choice, NULL), 0, "%s", orl_last_error());
    cr_assert_eq(fabric.verdict[FAKES].state, FAB_ABSENT);
    cr_assert_not_null(fab_engine_find(&fabric, "near"));
    fab_close(&fabric);
    choice.list = "near,crow";
    cr_assert_eq(fab_open_choice(&fabric, &choice, NULL), ORL_ERR_CONF);
}

/* A table with a hole is a defect that no other transport makes good. */
Test(fabric, a_defect_is_never_spare)
{
    struct fab_node alone = { .nranks = 1 };
    struct fab fabric;
    struct fab_choice choice = { known, FAKES, "near,host", false };

    make_fakes();
    fates[0] = WORKS;
    fates[1] = WORKS;
    ops[0].progress = NULL;
    cr_assert_eq(fab_open_choice(&fabric, &choice, &alone), ORL_ERR_INTERNAL);
    cr_assert_not_null(strstr(orl_last_error(), "near"));
    cr_assert_eq(opened, 0);
}

Test(fabric, judged_before_anything_is_started)
{
    static struct fab fabric;
    char text[512];
    struct orl_strbuf sb;

    fab_judge(&fabric, "self");
    cr_assert_eq(fabric.nengines, 0);
    cr_assert_eq(fabric.verdict[0].state, FAB_IDLE);
    cr_assert_eq(fabric.verdict[1].state, FAB_DISABLED);
    orl_strbuf_init(&sb, text, sizeof(text));
    fab_explain(&fabric, &sb);
    cr_assert_not_null(strstr(text, "shm: ORIEL_TRANSPORTS leaves it out; verbs: "), "%s", text);
    fab_judge(&fabric, NULL);
    cr_assert_not_null(strstr(fabric.verdict[1].reason, "wrong"));
    cr_assert_str_eq(fab_level_name(FAB_LEVEL_HOST), "host");
}

/* The setting, given or not, decides whether a failure is spare. */
Test(fabric, a_named_transport_must_start)
{
    struct fab fabric;

    cr_assert_eq(orl_conf_load(), 0);
    cr_assert(!orl_conf_is_given("TRANSPORTS"));
    orl_conf_reset_for_test();
    cr_assert_eq(orl_conf_override("TRANSPORTS", "self,shm"), 0);
    cr_assert_eq(orl_conf_load(), 0);
    cr_assert(orl_conf_is_given("TRANSPORTS"));
    cr_assert_eq(fab_open(&fabric, "self,shm", NULL), ORL_ERR_INVAL, "shm has no node here");
    cr_assert_eq(fabric.verdict[0].state, FAB_IDLE);
    cr_assert_eq(fabric.verdict[1].state, FAB_FAILED);
}
