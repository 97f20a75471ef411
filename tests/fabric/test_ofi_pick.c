/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is said of interfaces and offers, without a machine that has them: sys trees of the test's
 * own, and offers of libfabric with one thing missing each.
 */
#include "fabric/ofi/ofi_pick.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "tests/t.h"

#define UP (IFF_UP | IFF_RUNNING | IFF_BROADCAST)

/* ---------------------------------------------------------------- a tree */

static char root[256];

static void make_tree(void)
{
    t_temp(root, sizeof(root), "sys");
    cr_assert_eq(mkdir(root, 0700), 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_tree(void)
{
    (void)nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(ofi_pick, .init = make_tree, .fini = remove_tree);

/* Directories on the way are made; no text: a directory. */
static void put(const char *name, const char *text)
{
    char path[512];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        cr_assert(mkdir(path, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    if (text == NULL) {
        cr_assert(mkdir(path, 0700) == 0 || errno == EEXIST);
        return;
    }
    file = fopen(path, "w");
    cr_assert_not_null(file, "%s", path);
    cr_assert_gt(fprintf(file, "%s\n", text), 0);
    cr_assert_eq(fclose(file), 0);
}

static void put_link(const char *name, const char *target)
{
    char path[512];

    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    cr_assert_eq(symlink(target, path), 0);
}

static struct ofi_iface judge(const char *name, unsigned flags, unsigned naddresses)
{
    struct ofi_iface iface = { .flags = flags, .naddresses = naddresses, .index = 7 };

    (void)snprintf(iface.name, sizeof(iface.name), "%s", name);
    ofi_iface_judge(&iface, root);
    return iface;
}

/* ---------------------------------------------------------------- interfaces */

Test(ofi_pick, a_card_has_speed_and_pci_address)
{
    struct ofi_iface iface;

    put("eth0/ifindex", "7");
    put("eth0/speed", "25000");
    put("devices/pci0000:00/0000:00:1f.6/virtio2", NULL);
    put_link("eth0/device", "../devices/pci0000:00/0000:00:1f.6/virtio2");
    iface = judge("eth0", UP, 1);
    cr_assert_str_eq(iface.refusal, "");
    cr_assert_eq(iface.reach, OFI_REACH_NETWORK);
    cr_assert_eq(iface.mbps, 25000);
    cr_assert_str_eq(iface.pci, "0000:00:1f.6");
    put("eth0/speed", "-1");
    cr_assert_eq(judge("eth0", UP, 1).mbps, 0, "unknown is not a speed");
    put("eth0/speed", "4294967295");
    cr_assert_eq(judge("eth0", UP, 1).mbps, 0);
}

/* A tree of another network namespace has interfaces of the same names. */
Test(ofi_pick, a_foreign_tree_is_not_believed)
{
    put("eth0/ifindex", "8");
    put("eth0/speed", "25000");
    put("eth0/bridge", NULL);
    cr_assert_eq(judge("eth0", UP, 1).mbps, 0);
    cr_assert_eq(judge("eth0", UP, 1).reach, OFI_REACH_NETWORK);
    cr_assert_str_eq(judge("eth0", UP, 1).refusal, "");
}

/* covers: G19 DEV-01 */
Test(ofi_pick, what_cannot_be_used_has_a_reason)
{
    struct ofi_iface local = { .name = "eth0", .flags = UP, .has_link_local = true };

    put("br0/ifindex", "7");
    put("br0/bridge", NULL);
    put("br0/brif", NULL);
    cr_assert_not_null(strstr(judge("br0", UP, 1).refusal, "bridge without a port"));
    cr_assert_not_null(strstr(judge("eth0", IFF_BROADCAST, 1).refusal, "is down"));
    cr_assert_not_null(strstr(judge("eth0", IFF_UP, 1).refusal, "no carrier"));
    cr_assert_not_null(strstr(judge("eth0", UP, 0).refusal, "no address"));
    ofi_iface_judge(&local, root);
    cr_assert_not_null(strstr(local.refusal, "link-local"));
}

/* covers: DEV-01 DEV-02 */
Test(ofi_pick, doubtful_ones_are_told_from_good_ones)
{
    put("br0/ifindex", "7");
    put("br0/bridge", NULL);
    put("br0/brif/veth1", NULL);
    put("veth1/carrier", "0");
    cr_assert_str_neq(judge("br0", UP, 1).refusal, "", "its port is down");
    put("veth1/carrier", "1");
    cr_assert_str_eq(judge("br0", UP, 1).refusal, "");
    cr_assert_eq(judge("br0", UP, 1).reach, OFI_REACH_BRIDGE, "virtual ports only");
    put("br0/brif/bond0.7", NULL);
    put("bond0.7/carrier", "1");
    put("bond0.7/lower_bond0", NULL);
    put("bond0/lower_eth6", NULL);
    cr_assert_eq(judge("br0", UP, 1).reach, OFI_REACH_BRIDGE, "no card at the bottom");
    put("eth6/device", NULL);
    cr_assert_eq(judge("br0", UP, 1).reach, OFI_REACH_NETWORK, "a VLAN of a bond of a card");
    put("bond0.7/carrier", "0");
    cr_assert_eq(judge("br0", UP, 1).reach, OFI_REACH_BRIDGE);
    put("br0/brif/eth5", NULL);
    put("eth5/carrier", "1");
    put("eth5/device", NULL);
    cr_assert_eq(judge("br0", UP, 1).reach, OFI_REACH_NETWORK, "a card is behind it");
    cr_assert_eq(judge("tun0", IFF_UP | IFF_RUNNING | IFF_POINTOPOINT | IFF_NOARP, 1).reach,
                 OFI_REACH_DOUBTFUL);
    cr_assert_eq(judge("dummy0", UP | IFF_NOARP, 1).reach, OFI_REACH_HOST);
    cr_assert_eq(judge("lo", IFF_UP | IFF_RUNNING | IFF_LOOPBACK, 1).reach, OFI_REACH_HOST);
    cr_assert_eq(judge("veth9", UP, 1).reach, OFI_REACH_NETWORK, "as containers have them");
}

/* ---------------------------------------------------------------- offers */

static struct fi_info *whole_offer(void)
{
    struct fi_info *info = fi_allocinfo();

    cr_assert_not_null(info);
    info->caps =
        FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    info->ep_attr->type = FI_EP_RDM;
    info->ep_attr->max_msg_size = 8192;
    info->fabric_attr->prov_name = strdup("efa");
    info->domain_attr->name = strdup("rdmap0s6-rdm");
    return info;
}

/* covers: G3 G12 */
Test(ofi_pick, an_offer_with_one_ability_missing_is_refused)
{
    static const uint64_t needed[] = { FI_MSG,   FI_RMA,         FI_READ,
                                       FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE };
    struct fi_info *info = whole_offer();
    uint64_t caps = info->caps;

    cr_assert_null(ofi_offer_lacks(info), "%s", ofi_offer_lacks(info));
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        info->caps = caps & ~needed[i];
        cr_assert_not_null(ofi_offer_lacks(info), "without 0x%llx", (unsigned long long)needed[i]);
    }
    info->caps = caps | FI_ATOMIC;
    cr_assert_null(ofi_offer_lacks(info), "more than was asked for is fine");
    info->ep_attr->type = FI_EP_DGRAM;
    cr_assert_not_null(strstr(ofi_offer_lacks(info), "FI_EP_RDM"));
    info->ep_attr->type = FI_EP_RDM;
    info->ep_attr->max_msg_size = 0;
    cr_assert_not_null(ofi_offer_lacks(info));
    fi_freeinfo(info);
}

/* covers: G13 G22 G23 */
Test(ofi_pick, each_mode_we_honour_is_taken_and_no_other)
{
    static const uint64_t ours[] = { 0, FI_CONTEXT, FI_CONTEXT2, FI_CONTEXT | FI_CONTEXT2 };
    static const uint64_t others[] = { FI_MSG_PREFIX, FI_ASYNC_IOV, FI_RESTRICTED_COMP };
    static const int registrations = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
                                     FI_MR_VIRT_ADDR | FI_MR_ENDPOINT | FI_MR_RAW;
    struct fi_info *info = whole_offer();

    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        info->mode = ours[i];
        cr_assert_null(ofi_offer_lacks(info));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        info->mode = FI_CONTEXT2 | others[i];
        cr_assert_not_null(strstr(ofi_offer_lacks(info), "mode"));
    }
    info->mode = 0;
    for (int bit = 1; bit <= registrations; bit *= 2) {
        info->domain_attr->mr_mode = bit;
        cr_assert_eq(ofi_offer_lacks(info) == NULL, (bit & registrations) != 0, "mr_mode %d", bit);
    }
    info->domain_attr->mr_mode = FI_MR_MMU_NOTIFY;
    cr_assert_not_null(strstr(ofi_offer_lacks(info), "registration"));
    fi_freeinfo(info);
}

/* covers: G1 G24 */
Test(ofi_pick, cards_go_by_their_own_name_and_addresses_may_be_anything)
{
    struct fi_info *info = whole_offer();
    struct sockaddr_in in = { .sin_family = AF_INET };
    struct ofi_address address;

    cr_assert_str_eq(ofi_offer_device(info), "rdmap0s6-rdm");
    cr_assert_str_eq(ofi_offer_provider(info), "efa");
    info->fabric_attr->name = strdup("efa-direct");
    cr_assert_str_eq(ofi_offer_provider(info), "efa-direct");
    info->addr_format = FI_ADDR_EFA;
    cr_assert(!ofi_offer_address(info, &address));
    info->addr_format = FI_SOCKADDR_IN;
    cr_assert(!ofi_offer_address(info, &address), "no address came with it");
    cr_assert_eq(inet_pton(AF_INET, "10.77.0.1", &in.sin_addr), 1);
    info->src_addr = malloc(sizeof(in));
    cr_assert_not_null(info->src_addr);
    memcpy(info->src_addr, &in, sizeof(in));
    info->src_addrlen = sizeof(in);
    cr_assert(ofi_offer_address(info, &address));
    cr_assert_eq(address.family, 4);
    cr_assert_eq(address.byte[0], 10);
    fi_freeinfo(info);
}
