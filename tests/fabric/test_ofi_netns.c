/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of ports on hosts of the test's own making: each case is a child in a network
 * namespace with the interfaces it needs, and with the real libfabric. Skipped where namespaces are
 * not allowed.
 */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include <criterion/criterion.h>

#include "base/conf.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "fabric/nics.h"
#include "fabric/ofi/ofi_pick.h"
#include "tests/t.h"

#define NOT_ALLOWED 77

TestSuite(ofi_netns, .timeout = 120);

/* ---------------------------------------------------------------- a host */

ORL_PRINTF(1, 2)
static void ip(const char *format, ...)
{
    char line[256] = "ip ";
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line + 3, sizeof(line) - 3, format, args);
    va_end(args);
    t_check_eq(system(line), 0); /* NOLINT(cert-env33-c): the command is the test's */
}

/* A host with an idle loopback, its own sys tree, and nothing else. */
static void begin(void)
{
    if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("sysfs", "/sys", "sysfs", 0, NULL) != 0 ||
        system("ip link show lo >/dev/null") != 0) { /* NOLINT(cert-env33-c) */
        exit(NOT_ALLOWED);                           /* NOLINT(concurrency-mt-unsafe) */
    }
}

/* A wire with an address at this end. */
static void wire(const char *name, const char *address)
{
    ip("link add %s type veth peer name %s_peer", name, name);
    ip("link set %s_peer up", name);
    ip("link set %s up", name);
    ip("addr add %s dev %s%s", address, name, strchr(address, ':') != NULL ? " nodad" : "");
}

/* ---------------------------------------------------------------- what is picked */

static struct fab fabric;
static struct fab_nic nics[FAB_ENGINES_MAX];

static int pick(void)
{
    t_check_ok(orl_conf_load());
    return ofi_pick(&fabric, nics, FAB_ENGINES_MAX);
}

static const struct fab_port *port(const char *device)
{
    for (unsigned i = 0; i < fabric.nports; i++) {
        if (strcmp(fabric.port[i].nic.device, device) == 0) {
            return &fabric.port[i];
        }
    }
    return NULL;
}

static bool is_refused(const char *device, const char *words)
{
    const struct fab_port *p = port(device);

    if (p == NULL || p->state == FAB_CHOSEN || strstr(p->reason, words) == NULL) {
        (void)fprintf(stderr, "%s: %s\n", device, p != NULL ? p->reason : "not considered");
        return false;
    }
    return true;
}

static void run(t_rank_fn fn)
{
    int result;

    t_limit_s = 60;
    result = t_child(fn, NULL);
    if (result == NOT_ALLOWED) {
        cr_skip_test("network namespaces are not allowed here");
    }
    cr_assert_eq(result, 0);
}

/* ---------------------------------------------------------------- cases */

static int loopback_only(int rank, void *arg)
{
    (void)rank;
    (void)arg;
    begin();
    t_check_eq(pick(), 0);
    t_check(is_refused("lo", "it is down"));
    ip("link set lo up");
    t_check_eq(pick(), 1);
    t_check(strcmp(nics[0].device, "lo") == 0);
    t_check_eq(nics[0].net[1], FAB_NET_ALONE);
    t_check(strcmp(nics[0].address, "127.0.0.1/8") == 0);
    t_check_eq(nics[0].level, FAB_LEVEL_NETWORK);
    return 0;
}

/* covers: L5 G19 */
Test(ofi_netns, loopback_is_the_last_resort)
{
    run(loopback_only);
}

static int several(int rank, void *arg)
{
    (void)rank;
    (void)arg;
    begin();
    ip("link set lo up");
    wire("v1", "10.1.0.1/24");
    wire("v0", "10.0.0.1/24");
    wire("cut", "10.2.0.1/24");
    ip("link set cut_peer down");
    wire("off", "10.3.0.1/24");
    ip("link set off down");
    wire("auto", "169.254.3.4/16");
    ip("addr flush dev v0_peer");
    ip("link add bare type veth peer name bare_peer");
    ip("link set bare addrgenmode none");
    ip("link set bare up");
    ip("link set bare_peer up");
    t_check_eq(pick(), 2);
    t_check(strcmp(nics[0].device, "v1") == 0);
    t_check(strcmp(nics[1].device, "v0") == 0);
    t_check(strcmp(nics[0].address, "10.1.0.1/24") == 0);
    t_check_eq(nics[0].net[0], 4);
    t_check_eq(nics[0].net[1], 24);
    t_check(nics[0].mbps > 0);
    t_check(is_refused("lo", "this host alone"));
    t_check(is_refused("cut", "no carrier"));
    t_check(is_refused("off", "is down"));
    t_check(is_refused("auto", "link-local"));
    t_check(is_refused("bare", "no address"));
    return 0;
}

/* Both of equal speed: in the order of the system. */
/* covers: L2 */
Test(ofi_netns, those_that_are_up_are_picked_and_the_others_have_reasons)
{
    run(several);
}

static int dummies(int rank, void *arg)
{
    (void)rank;
    (void)arg;
    begin();
    ip("link set lo up");
    for (int i = 0; i < 20; i++) {
        ip("link add d%d type dummy 2>/dev/null || ip link add d%d type ifb", i, i);
        ip("link set d%d up", i);
        ip("addr add 10.9.%d.1/24 dev d%d", i, i);
    }
    t_check_eq(pick(), 1);
    t_check(strcmp(nics[0].device, "lo") == 0);
    wire("v0", "10.0.0.1/24");
    fab_close(&fabric);
    t_check_eq(ofi_pick(&fabric, nics, FAB_ENGINES_MAX), 1);
    t_check(strcmp(nics[0].device, "v0") == 0);
    for (int i = 0; i < 20; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "d%d", i);
        t_check(is_refused(name, "this host alone"));
    }
    return 0;
}

/* covers: DEV-02 */
Test(ofi_netns, twenty_dummies_are_considered_and_left)
{
    run(dummies);
}

static int bridges(int rank, void *arg)
{
    (void)rank;
    (void)arg;
    begin();
    ip("link add docker0 type bridge");
    ip("link set docker0 up");
    ip("addr add 172.17.0.1/16 dev docker0");
    ip("link add virbr0 type bridge");
    ip("link set virbr0 up");
    ip("addr add 192.168.122.1/24 dev virbr0");
    ip("link add vm type veth peer name vm_peer");
    ip("link set vm master virbr0");
    ip("link set vm up");
    ip("link set vm_peer up");
    wire("v0", "10.0.0.1/24");
    t_sleep_ms(200); /* a bridge takes a moment to see its port */
    t_check_eq(pick(), 1);
    t_check(strcmp(nics[0].device, "v0") == 0);
    t_check(is_refused("docker0", "a bridge without a port that is up"));
    t_check(is_refused("virbr0", "a bridge without a card"));
    fab_close(&fabric);
    ip("link set v0 down");
    t_check_eq(ofi_pick(&fabric, nics, FAB_ENGINES_MAX), 1);
    t_check(strcmp(nics[0].device, "virbr0") == 0);
    ip("link set v0 up");
    fab_close(&fabric);
    orl_conf_reset_for_test();
    setenv("ORIEL_NICS", "v0,virbr0", 1);
    t_check_eq(pick(), 2);
    return 0;
}

/* covers: DEV-01 SEC-01 */
Test(ofi_netns, bridges_are_for_want_of_better_ones)
{
    run(bridges);
}

static int ipv6_only(int rank, void *arg)
{
    struct fi_info *info = NULL;

    (void)rank;
    (void)arg;
    begin();
    ip("link set lo up");
    wire("v6", "fd77::1/64");
    t_check_eq(pick(), 1);
    t_check(strcmp(nics[0].device, "v6") == 0);
    t_check(strcmp(nics[0].address, "fd77::1/64") == 0);
    t_check_eq(nics[0].net[0], 6);
    t_check_eq(nics[0].net[1], 64);
    t_check_ok(ofi_pick_info(&nics[0], &info));
    t_check_eq(info->addr_format, FI_SOCKADDR_IN6);
    fi_freeinfo(info);
    return 0;
}

Test(ofi_netns, a_network_of_ipv6_alone)
{
    run(ipv6_only);
}

/* ---------------------------------------------------------------- the setting */

static int picks_by(const char *list)
{
    fab_close(&fabric);
    orl_conf_reset_for_test();
    setenv("ORIEL_NICS", list, 1);
    return pick();
}

static int setting(int rank, void *arg)
{
    (void)rank;
    (void)arg;
    begin();
    ip("link set lo up");
    wire("v0", "10.0.0.1/24");
    ip("addr add 10.5.0.1/24 dev v0");
    wire("v1", "10.1.0.1/24");
    wire("off", "10.2.0.1/24");
    ip("link set off down");
    t_check_eq(picks_by("v1"), 1);
    t_check(strcmp(nics[0].device, "v1") == 0);
    t_check(is_refused("v0", "ORIEL_NICS names others"));
    t_check_eq(picks_by("^v1"), 1);
    t_check(is_refused("v1", "ORIEL_NICS leaves it out"));
    t_check_eq(picks_by("10.5.0.0/24"), 1);
    t_check(strcmp(nics[0].address, "10.5.0.1/24") == 0);
    t_check_eq(picks_by("10.0.0.0/8,^10.1.0.0/16"), 1);
    t_check_eq(picks_by("lo"), 1);
    t_check(strcmp(nics[0].device, "lo") == 0);
    t_check_eq(picks_by("^nowhere0"), 2); /* to leave out what is not there is fine */
    t_check_eq(picks_by("ib0"), ORL_ERR_CONF);
    t_check(strstr(orl_last_error(), "'ib0'") != NULL);
    t_check(strstr(orl_last_error(), "v0 10.0.0.1/24") != NULL);
    t_check(port("v0") != NULL); /* for whoever asks why */
    t_check_eq(picks_by("v0,ib*"), ORL_ERR_CONF);
    t_check_eq(picks_by("off"), ORL_ERR_CONF);
    t_check(strstr(orl_last_error(), "off: it is down") != NULL);
    t_check_eq(picks_by("v0,^v*"), ORL_ERR_CONF);
    t_check_eq(picks_by("v0,,v1"), ORL_ERR_CONF);
    return 0;
}

/* covers: F10 F11 L4 */
Test(ofi_netns, the_setting_pins_and_leaves_out)
{
    run(setting);
}

static int providers(int rank, void *arg)
{
    (void)rank;
    (void)arg;
    begin();
    wire("v0", "10.0.0.1/24");
    setenv("ORIEL_OFI_PROVIDER", "pigeon", 1);
    setenv("FI_PROVIDER_PATH", "/no/such/place", 1);
    t_check_eq(pick(), ORL_ERR_CONF);
    t_check(strstr(orl_last_error(), "'pigeon'") != NULL);
    t_check(strstr(orl_last_error(), "tcp") != NULL);
    t_check(strstr(orl_last_error(), "/no/such/place") != NULL);
    t_check(is_refused("v0", "no provider"));
    orl_conf_reset_for_test();
    fab_close(&fabric);
    setenv("ORIEL_OFI_PROVIDER", "tcp;ofi_rxm,sockets", 1);
    t_check_eq(pick(), 1); /* once, by the first that has it */
    t_check(strcmp(nics[0].provider, "tcp;ofi_rxm") == 0);
    return 0;
}

/* covers: F11 L14 */
Test(ofi_netns, a_provider_that_is_not_there_is_an_error)
{
    run(providers);
}

/* ---------------------------------------------------------------- offers */

static int agrees(int rank, void *arg)
{
    struct fi_info *info = NULL;
    struct ofi_address address;

    (void)rank;
    (void)arg;
    begin();
    wire("v0", "10.0.0.1/24");
    ip("addr add 10.5.0.1/24 dev v0");
    t_check_eq(pick(), 1);
    t_check_ok(ofi_pick_info(&nics[0], &info));
    t_check(ofi_offer_lacks(info) == NULL);
    t_check(ofi_offer_address(info, &address));
    t_check_eq(address.byte[1], 0); /* 10.0.0.1, not the second address */
    t_check(strcmp(ofi_offer_provider(info), nics[0].provider) == 0);
    t_check_eq(info->tx_attr->op_flags, 0);
    fi_freeinfo(info);
    (void)snprintf(nics[0].address, sizeof(nics[0].address), "10.6.0.1/24");
    t_check_eq(ofi_pick_info(&nics[0], &info), ORL_ERR_UNSUPP);
    t_check(info == NULL && strstr(orl_last_error(), "v0") != NULL);
    return 0;
}

/* covers: G12 G24 */
Test(ofi_netns, what_is_picked_is_what_is_offered)
{
    run(agrees);
}
