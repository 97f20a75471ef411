/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Discovery, private parts: what this host has (ofi_pick_host.c), what libfabric offers
 * (ofi_pick_info.c), and the choice among it (ofi_pick.c).
 */
#ifndef FABRIC_OFI_OFI_PICK_H
#define FABRIC_OFI_OFI_PICK_H

#include "fabric/nics.h"
#include "fabric/ofi/ofi.h"

#define OFI_IFACE_ADDRESSES 8 /* of one interface that are looked at */

/* How far an interface reaches, as far as this host can tell; better first. */
enum ofi_reach {
    OFI_REACH_NETWORK,
    OFI_REACH_DOUBTFUL, /* a tunnel: after the others */
    OFI_REACH_BRIDGE,   /* to containers or guests of this host: when there is nothing surer */
    OFI_REACH_HOST      /* this host alone: when there is nothing else */
};

struct ofi_address {
    uint8_t family; /* 4 or 6 */
    uint8_t bits;   /* of its prefix */
    uint8_t byte[16];
};

/* An interface of this host. */
struct ofi_iface {
    char name[FAB_NAME_BYTES];
    char pci[FAB_TAG_BYTES];
    uint64_t mbps; /* 0: unknown */
    unsigned index;
    unsigned flags; /* IFF_ */
    enum ofi_reach reach;
    struct ofi_address address[OFI_IFACE_ADDRESSES]; /* without link-local ones, IPv4 first */
    unsigned naddresses;
    bool has_link_local;
    char refusal[64]; /* why it cannot be used; "" where it can */
};

/* The interfaces of this host, in the order of the system; the caller frees *ifaces. Errors: NOMEM,
 * SYS. */
int ofi_ifaces(struct ofi_iface **ifaces, unsigned *n) ORL_MUST_CHECK;
/* Fill speed, PCI address, reach and refusal from its flags, its addresses and the tree below
 * `root`, which is /sys/class/net but for tests. */
void ofi_iface_judge(struct ofi_iface *iface, const char *root);
/* "10.77.0.1/24" */
void ofi_address_words(const struct ofi_address *address, char *text, size_t capacity);

/* What libfabric offers under this name: a provider, or the fabric "efa-direct". *list is what can
 * be used of it, the caller's to free with fi_freeinfo, or NULL. `why` says what was offered and
 * could not be used, or is "". Errors: SYS with libfabric's words; NOMEM. */
int ofi_offers(const char *provider, struct fi_info **list, char *why,
               size_t capacity) ORL_MUST_CHECK;
/* What is missing in an offer, in words; NULL: nothing. */
const char *ofi_offer_lacks(const struct fi_info *info);
/* The address of an offer, when it is one of IP. */
bool ofi_offer_address(const struct fi_info *info, struct ofi_address *address);
/* The name it has among ports when no interface of the host is meant: its card's or domain's. */
const char *ofi_offer_device(const struct fi_info *info);
/* "efa-direct", or the provider's name. */
const char *ofi_offer_provider(const struct fi_info *info);
/* Append the names of all providers that libfabric has loaded. */
void ofi_providers(struct orl_strbuf *out);

#endif
