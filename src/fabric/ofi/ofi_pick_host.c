/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interfaces of this host: addresses from the system, the rest from the sys tree. Says of each
 * how far it may reach, or why it cannot be used. What reaches a peer in truth is shown by the
 * handshake; here only what cannot, or is unlikely to, is told apart.
 */
#include "fabric/ofi/ofi_pick.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "base/sys.h"

#define PATH_BYTES 320
#define STEP       16 /* interfaces that room is made for at once */
#define STACK_MAX  4  /* interfaces on top of each other that are looked through */

/* ---------------------------------------------------------------- the sys tree */

/* The attribute of an interface; false when there is none. */
static bool read_attribute(const char *root, const char *name, const char *attribute, char *text,
                           size_t capacity)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof(path), "%s/%s/%s", root, name, attribute);
    if (!orl_sys_read_text(path, text, capacity)) {
        return false;
    }
    text[strcspn(text, "\n")] = '\0';
    return true;
}

static bool has_entry(const char *root, const char *name, const char *entry)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof(path), "%s/%s/%s", root, name, entry);
    return access(path, F_OK) == 0;
}

static uint64_t speed_of(const char *root, const char *name)
{
    char text[32];
    long mbps =
        read_attribute(root, name, "speed", text, sizeof(text)) ? strtol(text, NULL, 10) : 0;

    /* Unknown is -1, which some drivers store in 32 bits. */
    return mbps > 0 && mbps < INT_MAX ? (uint64_t)mbps : 0;
}

/* The last part of the path that has the shape of a PCI address: a virtio device is a child of its
 * PCI function. */
static void find_pci_in(char *path, char *pci, size_t capacity)
{
    for (char *slash = strrchr(path, '/'); slash != NULL; slash = strrchr(path, '/')) {
        if (fab_nics_is_pci(slash + 1)) {
            (void)snprintf(pci, capacity, "%s", slash + 1);
            return;
        }
        *slash = '\0';
    }
}

static void find_pci(const char *root, const char *name, char *pci, size_t capacity)
{
    char path[PATH_BYTES];
    char *target;

    pci[0] = '\0';
    (void)snprintf(path, sizeof(path), "%s/%s/device", root, name);
    target = realpath(path, NULL);
    if (target != NULL) {
        find_pci_in(target, pci, capacity);
        free(target);
    }
}

/* A tree that was mounted in another network namespace speaks of other interfaces. */
static bool has_tree(const struct ofi_iface *iface, const char *root)
{
    char text[16];

    return read_attribute(root, iface->name, "ifindex", text, sizeof(text)) &&
           strtoul(text, NULL, 10) == iface->index;
}

static bool port_is_up(const char *root, const char *name)
{
    char text[16];

    return read_attribute(root, name, "carrier", text, sizeof(text)) && strcmp(text, "1") == 0;
}

/* The interface below that one, as the card of a VLAN; "": none. */
static void find_below(const char *root, const char *name, char *below, size_t capacity)
{
    static const char head[] = "lower_";
    char path[PATH_BYTES];
    struct dirent *entry;
    DIR *entries;

    below[0] = '\0';
    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    entries = opendir(path);
    if (entries == NULL) {
        return;
    }
    while (below[0] == '\0' && (entry = readdir(entries)) != NULL) {
        if (strncmp(entry->d_name, head, sizeof(head) - 1) == 0) {
            (void)snprintf(below, capacity, "%.31s", entry->d_name + sizeof(head) - 1);
        }
    }
    (void)closedir(entries);
}

/* Whether it is a card's, or a VLAN or bond of such. */
static bool has_card(const char *root, const char *name)
{
    char top[FAB_NAME_BYTES];
    char below[FAB_NAME_BYTES];

    (void)snprintf(top, sizeof(top), "%.31s", name);
    for (int depth = 0; depth < STACK_MAX && !has_entry(root, top, "device"); depth++) {
        find_below(root, top, below, sizeof(below));
        if (below[0] == '\0') {
            return false;
        }
        memcpy(top, below, sizeof(top));
    }
    return has_entry(root, top, "device");
}

/* How far a bridge reaches by its ports: a card that is up, only virtual ones, or none. */
static enum ofi_reach reach_of_bridge(const char *root, const char *name, bool *has_port)
{
    char path[PATH_BYTES];
    enum ofi_reach reach = OFI_REACH_BRIDGE;
    DIR *ports;

    *has_port = false;
    (void)snprintf(path, sizeof(path), "%s/%s/brif", root, name);
    ports = opendir(path);
    if (ports == NULL) {
        return reach;
    }
    for (struct dirent *entry = readdir(ports); entry != NULL; entry = readdir(ports)) {
        if (entry->d_name[0] == '.' || !port_is_up(root, entry->d_name)) {
            continue;
        }
        *has_port = true;
        if (has_card(root, entry->d_name)) {
            reach = OFI_REACH_NETWORK;
        }
    }
    (void)closedir(ports);
    return reach;
}

/* ---------------------------------------------------------------- the judgement */

static void refuse(struct ofi_iface *iface, const char *why)
{
    (void)snprintf(iface->refusal, sizeof(iface->refusal), "%s", why);
}

/* Its kind alone. An Ethernet device that asks nobody for addresses is a dummy. */
static void judge_kind(struct ofi_iface *iface, const char *root)
{
    bool is_virtual = !has_entry(root, iface->name, "device");
    bool is_tunnel = is_virtual && (iface->flags & IFF_POINTOPOINT) != 0;
    bool is_dummy = is_virtual && !is_tunnel && (iface->flags & IFF_NOARP) != 0;
    bool has_port = true;

    if (has_entry(root, iface->name, "bridge")) {
        iface->reach = reach_of_bridge(root, iface->name, &has_port);
        if (!has_port) {
            refuse(iface, "a bridge without a port that is up");
        }
    } else if (is_dummy || (iface->flags & IFF_LOOPBACK) != 0) {
        iface->reach = OFI_REACH_HOST;
    } else if (is_tunnel) {
        iface->reach = OFI_REACH_DOUBTFUL;
    }
}

void ofi_iface_judge(struct ofi_iface *iface, const char *root)
{
    root = has_tree(iface, root) ? root : "/nowhere";
    iface->mbps = speed_of(root, iface->name);
    find_pci(root, iface->name, iface->pci, sizeof(iface->pci));
    iface->reach = OFI_REACH_NETWORK;
    iface->refusal[0] = '\0';
    judge_kind(iface, root);
    if ((iface->flags & IFF_UP) == 0) {
        refuse(iface, "it is down");
    } else if (iface->refusal[0] == '\0' && (iface->flags & IFF_RUNNING) == 0) {
        refuse(iface, "it has no carrier");
    } else if (iface->refusal[0] == '\0' && iface->naddresses == 0) {
        refuse(iface,
               iface->has_link_local ? "it has a link-local address only" : "it has no address");
    }
}

/* ---------------------------------------------------------------- addresses */

void ofi_address_words(const struct ofi_address *address, char *text, size_t capacity)
{
    char words[INET6_ADDRSTRLEN];

    text[0] = '\0';
    if (inet_ntop(address->family == 4 ? AF_INET : AF_INET6, address->byte, words, sizeof(words)) !=
        NULL) {
        (void)snprintf(text, capacity, "%s/%u", words, address->bits);
    }
}

static uint8_t bits_of(const uint8_t *mask, size_t bytes)
{
    unsigned bits = 0;

    for (size_t i = 0; i < bytes; i++) {
        bits += (unsigned)__builtin_popcount(mask[i]);
    }
    return (uint8_t)bits;
}

/* False for an address of a family that is not looked at. */
static bool read_address(const struct ifaddrs *entry, struct ofi_address *address)
{
    memset(address, 0, sizeof(*address));
    if (entry->ifa_addr == NULL || entry->ifa_netmask == NULL) {
        return false;
    }
    if (entry->ifa_addr->sa_family == AF_INET) {
        struct sockaddr_in in;
        struct sockaddr_in mask;

        memcpy(&in, entry->ifa_addr, sizeof(in));
        memcpy(&mask, entry->ifa_netmask, sizeof(mask));
        address->family = 4;
        memcpy(address->byte, &in.sin_addr, 4);
        address->bits = bits_of((const uint8_t *)&mask.sin_addr, 4);
        return true;
    }
    if (entry->ifa_addr->sa_family == AF_INET6) {
        struct sockaddr_in6 in;
        struct sockaddr_in6 mask;

        memcpy(&in, entry->ifa_addr, sizeof(in));
        memcpy(&mask, entry->ifa_netmask, sizeof(mask));
        address->family = 6;
        memcpy(address->byte, &in.sin6_addr, 16);
        address->bits = bits_of((const uint8_t *)&mask.sin6_addr, 16);
        return true;
    }
    return false;
}

static bool is_link_local(const struct ofi_address *address)
{
    if (address->family == 4) {
        return address->byte[0] == 169 && address->byte[1] == 254;
    }
    return address->byte[0] == 0xfe && (address->byte[1] & 0xc0) == 0x80;
}

static void add_address(struct ofi_iface *iface, const struct ofi_address *address)
{
    unsigned place = iface->naddresses;

    if (is_link_local(address)) {
        iface->has_link_local = true;
        return;
    }
    if (place == OFI_IFACE_ADDRESSES) {
        return;
    }
    while (address->family == 4 && place > 0 && iface->address[place - 1].family == 6) {
        iface->address[place] = iface->address[place - 1];
        place--;
    }
    iface->address[place] = *address;
    iface->naddresses++;
}

/* ---------------------------------------------------------------- the list */

/* The interface of this name, a new one where there is none; NULL: no memory. */
static struct ofi_iface *iface_of(struct ofi_iface **ifaces, unsigned *n, const char *name)
{
    struct ofi_iface *iface;

    for (unsigned i = 0; i < *n; i++) {
        if (strcmp((*ifaces)[i].name, name) == 0) {
            return &(*ifaces)[i];
        }
    }
    if (*n % STEP == 0) {
        struct ofi_iface *grown = realloc(*ifaces, (*n + STEP) * sizeof(*grown));

        if (grown == NULL) {
            return NULL;
        }
        *ifaces = grown;
    }
    iface = &(*ifaces)[(*n)++];
    memset(iface, 0, sizeof(*iface));
    (void)snprintf(iface->name, sizeof(iface->name), "%s", name);
    iface->index = if_nametoindex(name);
    return iface;
}

static int collect(const struct ifaddrs *entries, struct ofi_iface **ifaces, unsigned *n)
{
    for (const struct ifaddrs *entry = entries; entry != NULL; entry = entry->ifa_next) {
        struct ofi_iface *iface = iface_of(ifaces, n, entry->ifa_name);
        struct ofi_address address;

        if (iface == NULL) {
            return orl_fail(ORL_ERR_NOMEM, "no memory for a list of %u interfaces", *n + 1);
        }
        iface->flags = entry->ifa_flags;
        if (read_address(entry, &address)) {
            add_address(iface, &address);
        }
    }
    return 0;
}

int ofi_ifaces(struct ofi_iface **ifaces, unsigned *n)
{
    struct ifaddrs *entries;
    int status;

    *ifaces = NULL;
    *n = 0;
    if (getifaddrs(&entries) != 0) {
        return orl_fail(ORL_ERR_SYS, "the interfaces of this host cannot be listed: getifaddrs: %s",
                        orl_os_text(errno));
    }
    status = collect(entries, ifaces, n);
    freeifaddrs(entries);
    if (status != 0) {
        free(*ifaces);
        *ifaces = NULL;
        return status;
    }
    for (unsigned i = 0; i < *n; i++) {
        ofi_iface_judge(&(*ifaces)[i], "/sys/class/net");
    }
    return 0;
}
