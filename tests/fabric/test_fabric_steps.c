/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening in two steps, and ports with fates of their own: networks first, the rest when the node's
 * memory exists, or no network at all. A fake network with three ports stands beside self.
 */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/strbuf.h"
#include "fabric/fabric.h"
#include "fabric/nics.h"
#include "fabric/transport.h"

#define PORTS 3

enum fate {
    MISSING, /* it is there and cannot be used */
    FAILS,
    ALONE, /* works, and reaches this host only */
    WORKS
};

static enum fate fates[PORTS];
static int probe_status;
static int opened;
static struct fab_transport_ops far_ops;
static const char *const devices[PORTS] = { "net0", "net1", "net2" };

static int far_probe(struct fab *fabric, struct fab_nic *nics, int cap)
{
    int n = 0;

    for (int i = 0; i < PORTS; i++) {
        struct fab_nic nic = { .transport = &far_ops, .mbps = UINT64_C(1) << 40 };

        (void)snprintf(nic.name, sizeof(nic.name), "far:%s", devices[i]);
        (void)snprintf(nic.device, sizeof(nic.device), "%s", devices[i]);
        (void)snprintf(nic.provider, sizeof(nic.provider), "raven");
        nic.net[0] = 4;
        nic.net[1] = fates[i] == ALONE ? FAB_NET_ALONE : 24;
        if (fates[i] == MISSING) {
            fab_port_judge(fabric, &nic, FAB_ABSENT, "it has no wings");
        } else if (n < cap) {
            fab_port_judge(fabric, &nic, FAB_CHOSEN, "it is up");
            nics[n++] = nic;
        }
    }
    return probe_status != 0 ? orl_fail(probe_status, "the setting is wrong") : n;
}

static int far_open(struct fab *fabric, const struct fab_nic *nic, struct fab_engine **engine)
{
    int i = nic->device[3] - '0';
    int status;

    if (fates[i] == FAILS) {
        return orl_fail(ORL_ERR_SYS, "%s has no luck", nic->device);
    }
    status = fab_self_ops.open(fabric, nic, engine);
    if (status == 0) {
        (*engine)->transport = &far_ops;
        (void)snprintf((*engine)->name, sizeof((*engine)->name), "%s", nic->name);
        (void)snprintf((*engine)->tag, sizeof((*engine)->tag), "raven/1");
        opened++;
    }
    return status;
}

static void far_close(struct fab_engine *engine)
{
    opened--;
    fab_self_ops.close(engine);
}

static struct fab fabric;
static struct fab_known known[2];
static struct fab_choice choice = { known, 2, "self,far", false };

static void make_far(void)
{
    far_ops = fab_self_ops;
    far_ops.name = "far";
    far_ops.probe = far_probe;
    far_ops.open = far_open;
    far_ops.close = far_close;
    known[0] = (struct fab_known){ "self", FAB_LEVEL_PROCESS, &fab_self_ops, NULL };
    known[1] = (struct fab_known){ "far", FAB_LEVEL_NETWORK, &far_ops, NULL };
    cr_assert_eq(orl_conf_load(), 0);
}

TestSuite(steps, .init = make_far);

static void set_fates(enum fate a, enum fate b, enum fate c)
{
    fates[0] = a;
    fates[1] = b;
    fates[2] = c;
}

static const char *explained(void)
{
    static char text[ORL_ERROR_TEXT_BYTES];
    struct orl_strbuf sb;

    orl_strbuf_init(&sb, text, sizeof(text));
    fab_explain(&fabric, &sb);
    return text;
}

/* ---------------------------------------------------------------- two steps */

/* covers: L2 L13 */
Test(steps, networks_then_the_rest)
{
    set_fates(WORKS, MISSING, WORKS);
    cr_assert_eq(fab_open_networks_choice(&fabric, &choice), 0, "%s", orl_last_error());
    cr_assert_eq(fabric.nengines, 2);
    cr_assert_null(fab_engine_find(&fabric, "self"));
    cr_assert_eq(fabric.verdict[0].state, FAB_IDLE);
    cr_assert_str_eq(fabric.verdict[1].reason, "net0 by raven, net2 by raven");
    fab_handler_set(&fabric, 3, (fab_handler_fn)(void (*)(void))make_far, NULL);
    cr_assert_eq(fab_open_node(&fabric, NULL), 0, "%s", orl_last_error());
    cr_assert_not_null(fabric.handler[3].fn, "what was set in between stays");
    cr_assert_eq(fabric.nengines, 3);
    cr_assert_eq(fab_engine_find(&fabric, "far"), fabric.engine[0], "the first of its transport");
    cr_assert_eq(fabric.engine[1]->level, FAB_LEVEL_NETWORK);
    cr_assert_eq(fab_engine_find(&fabric, "self")->level, FAB_LEVEL_PROCESS);
    cr_assert_eq(fabric.nports, PORTS);
    fab_close(&fabric);
    cr_assert_eq(opened, 0);
    cr_assert_eq(fabric.nports, 0);
}

/* covers: L12 */
Test(steps, a_job_that_needs_a_network_has_one_or_an_error)
{
    set_fates(MISSING, MISSING, MISSING);
    cr_assert_eq(fab_open_networks_choice(&fabric, &choice), 0, "none is no error yet");
    cr_assert_null(strstr(explained(), "self"), "it has not been its turn: %s", explained());
    cr_assert_not_null(strstr(explained(), "net1: it has no wings"), "%s", explained());
    cr_assert_eq(fab_open_node(&fabric, NULL), ORL_ERR_UNSUPP);
    cr_assert_not_null(strstr(orl_last_error(), "reaches the other ranks"), "%s", orl_last_error());
    cr_assert_not_null(strstr(orl_last_error(), "net2: it has no wings"), "%s", orl_last_error());
    cr_assert_eq(fabric.nengines, 0);
    cr_assert_eq(fabric.nports, PORTS, "whoever asks why is told");
    fab_close(&fabric);
}

Test(steps, a_port_that_leads_nowhere_is_told_of)
{
    set_fates(ALONE, MISSING, FAILS);
    cr_assert_eq(fab_open_networks_choice(&fabric, &choice), 0);
    cr_assert(fab_engine_is_alone(fabric.engine[0]));
    cr_assert_not_null(strstr(explained(), "net0: it is up"), "%s", explained());
    cr_assert_not_null(strstr(explained(), "net2: net2 has no luck"), "%s", explained());
    cr_assert_eq(fab_open_node(&fabric, NULL), 0, "the ranks may all be here");
    fab_close(&fabric);
}

Test(steps, no_network_where_none_is_needed)
{
    struct fab_node four = { .nranks = 4 };
    struct fab_node one = { .nranks = 1 };

    set_fates(FAILS, FAILS, FAILS);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(fab_open_choice(&fabric, &(struct fab_choice){ known, 2, "self", false },
                                     i == 0 ? &four : &one),
                     0);
        fab_close(&fabric);
        fab_judge(&fabric, "self,ofi");
        cr_assert_eq(fab_open_node(&fabric, i == 0 ? &four : &one), 0, "%s", orl_last_error());
        cr_assert_eq(fabric.nengines, 1);
        for (unsigned v = 0; v < fabric.nverdicts; v++) {
            if (strcmp(fabric.verdict[v].name, "ofi") == 0 &&
                fabric.verdict[v].state != FAB_ABSENT) {
                cr_assert_eq(fabric.verdict[v].state, FAB_IDLE);
                cr_assert_str_eq(fabric.verdict[v].reason,
                                 i == 0 ? "not needed: all 4 ranks are on this host"
                                        : "not needed: this job has one rank");
            }
        }
        fab_close(&fabric);
    }
}

/* ---------------------------------------------------------------- ports */

/* covers: G19 L2 */
Test(steps, one_port_makes_good_for_another)
{
    set_fates(FAILS, WORKS, MISSING);
    cr_assert_eq(fab_open_networks_choice(&fabric, &choice), 0, "%s", orl_last_error());
    cr_assert_eq(fabric.nengines, 1);
    cr_assert_eq(fabric.port[0].state, FAB_FAILED);
    cr_assert_str_eq(fabric.port[0].reason, "net0 has no luck");
    cr_assert_eq(fabric.port[1].state, FAB_CHOSEN);
    cr_assert_eq(fabric.port[2].state, FAB_ABSENT);
    fab_close(&fabric);
}

/* covers: F11 */
Test(steps, a_port_that_is_pinned_must_start)
{
    orl_conf_reset_for_test();
    cr_assert_eq(orl_conf_override("NICS", "net0,net1"), 0);
    cr_assert_eq(orl_conf_load(), 0);
    set_fates(WORKS, FAILS, WORKS);
    cr_assert_eq(fab_open_networks_choice(&fabric, &choice), ORL_ERR_SYS);
    cr_assert_not_null(strstr(orl_last_error(), "net1 has no luck"), "%s", orl_last_error());
    cr_assert_eq(opened, 0);
    fab_close(&fabric);
}

/* covers: F10 F11 */
Test(steps, a_wrong_setting_is_an_error_at_once)
{
    struct fab_choice forced = choice;

    set_fates(WORKS, WORKS, WORKS);
    probe_status = ORL_ERR_CONF;
    cr_assert_eq(fab_open_networks_choice(&fabric, &choice), ORL_ERR_CONF);
    cr_assert_not_null(strstr(orl_last_error(), "the setting is wrong"));
    cr_assert_eq(fabric.nports, PORTS);
    cr_assert_eq(fabric.port[0].state, FAB_IDLE, "could be used");
    fab_close(&fabric);
    probe_status = 0;
    set_fates(MISSING, MISSING, MISSING);
    forced.is_forced = true;
    cr_assert_eq(fab_open_networks_choice(&fabric, &forced), ORL_ERR_UNSUPP, "the user named it");
    fab_close(&fabric);
    orl_conf_reset_for_test();
    cr_assert_eq(orl_conf_override("NICS", "net0,,"), 0);
    cr_assert_eq(orl_conf_load(), 0);
    cr_assert_eq(fab_open_networks_choice(&fabric, &choice), ORL_ERR_CONF);
    fab_judge(&fabric, "self");
    cr_assert_eq(fab_open_node(&fabric, NULL), ORL_ERR_CONF, "also where no network is needed");
    fab_close(&fabric);
}

Test(steps, the_list_of_ports_has_an_end)
{
    fab_judge(&fabric, "self");
    for (int i = 0; i < FAB_PORTS_MAX + 9; i++) {
        struct fab_nic nic = { .transport = &far_ops };

        (void)snprintf(nic.name, sizeof(nic.name), "far:%d", i);
        fab_port_judge(&fabric, &nic, FAB_ABSENT, "%d", i);
        fab_port_judge(&fabric, &nic, FAB_FAILED, "again %d", i);
    }
    cr_assert_eq(fabric.nports, FAB_PORTS_MAX);
    cr_assert_str_eq(fabric.port[FAB_PORTS_MAX - 1].reason, "again 63");
    fab_close(&fabric);
}

/* ---------------------------------------------------------------- cards */

Test(steps, who_speaks_to_whom)
{
    struct fab_card card;
    struct fab_card self;

    set_fates(WORKS, ALONE, MISSING);
    cr_assert_eq(fab_open_choice(&fabric, &choice, NULL), 0);
    fab_engine_card(fab_engine_find(&fabric, "self"), &self);
    for (size_t i = 0; i < sizeof(self); i++) {
        cr_assert_eq(((const unsigned char *)&self)[i], 0, "nobody can reach self");
    }
    fab_engine_card(fab_engine_find(&fabric, "far:net0"), &card);
    cr_assert_str_eq(card.tag, "raven/1");
    cr_assert_eq(card.mbps, UINT32_MAX, "faster than can be said");
    cr_assert(fab_engine_speaks(fab_engine_find(&fabric, "far:net0"), &card));
    cr_assert(!fab_engine_speaks(fab_engine_find(&fabric, "far:net1"), &card), "it ends here");
    cr_assert(!fab_engine_speaks(fab_engine_find(&fabric, "self"), &card));
    cr_assert(!fab_engine_speaks(fab_engine_find(&fabric, "self"), &self));
    card.net[1] = 16;
    cr_assert(fab_engine_speaks(fab_engine_find(&fabric, "far:net0"), &card), "another network");
    card.net[0] = 6;
    cr_assert(!fab_engine_speaks(fab_engine_find(&fabric, "far:net0"), &card), "another family");
    card.net[0] = 0;
    cr_assert(fab_engine_speaks(fab_engine_find(&fabric, "far:net0"), &card), "unknown");
    card.tag[6] = '2';
    cr_assert(!fab_engine_speaks(fab_engine_find(&fabric, "far:net0"), &card), "another version");
    fab_close(&fabric);
}
