/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ORIEL_NICS, and names of networks: words in, bytes out, nothing of the machine. Shared by all
 * transports that have ports, so that one setting means the same to each.
 *
 * The setting is a list of items, separated by commas. An item is the name of a port ("eth1"; "ib*"
 * for all that begin so), a PCI address with or without its domain, an address, or a subnet. `^`
 * before it leaves ports out. With at least one item without `^` only ports so named are left in;
 * from these, or from all, the others are taken out.
 */
#ifndef FABRIC_NICS_H
#define FABRIC_NICS_H

#include "base/attr.h"
#include "fabric/fabric.h"

#define FAB_NICS_MAX       64 /* items of a list */
#define FAB_NICS_WORD      64 /* longest item */
#define FAB_ADDRESS_FAMILY 4  /* bytes of a network's name before its prefix */
#define FAB_NET_ALONE      255

enum fab_nics_kind {
    FAB_NICS_NAME,
    FAB_NICS_PCI,
    FAB_NICS_SUBNET
};

struct fab_nics_item {
    enum fab_nics_kind kind;
    bool is_left_out;           /* `^` */
    bool is_start;              /* of a name: `*` at its end */
    char word[FAB_NICS_WORD];   /* without `^` and `*` */
    uint8_t net[FAB_NET_BYTES]; /* of a subnet */
};

struct fab_nics {
    struct fab_nics_item item[FAB_NICS_MAX];
    unsigned nitems;
    bool has_pin; /* an item without `^` */
};

enum fab_nics_answer {
    FAB_NICS_FREE,    /* the setting does not speak of it, and leaves it in */
    FAB_NICS_PINNED,  /* it is named */
    FAB_NICS_UNNAMED, /* others are named */
    FAB_NICS_OUT      /* it is named to be left out */
};

/* What is held against the setting: a port by one of its addresses. */
struct fab_nics_port {
    const char *name;
    const char *other;   /* a second name, or NULL: the RDMA device of an interface */
    const char *pci;     /* "0000:00:05.0", or "" */
    unsigned family;     /* 4, 6; 0: it has no address */
    uint8_t address[16]; /* 4 or 16 bytes of it */
};

/* CONF names the place that is wrong. */
int fab_nics_parse(const char *text, struct fab_nics *nics) ORL_MUST_CHECK;
/* The same, for whoever only wants to know. */
int fab_nics_check(const char *text) ORL_MUST_CHECK;
/* Whether the setting names ports that are to be used; false where it is wrong. */
bool fab_nics_has_pin(const char *text);

/* Whether it has the shape of a PCI address, with or without its domain. */
bool fab_nics_is_pci(const char *word);

enum fab_nics_answer fab_nics_ask(const struct fab_nics *nics, const struct fab_nics_port *port);
bool fab_nics_item_names(const struct fab_nics_item *item, const struct fab_nics_port *port);

/* The name of the network that an address of `bits` prefix bits belongs to. */
void fab_net_fill(uint8_t net[FAB_NET_BYTES], unsigned family, const uint8_t *address,
                  unsigned bits);
/* The name of a network that ends at this host: no other has the same. */
void fab_net_fill_alone(uint8_t net[FAB_NET_BYTES], unsigned family);

#endif
