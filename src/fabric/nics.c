/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The grammar of ORIEL_NICS and the arithmetic of subnets; see nics.h. No state.
 */
#include "fabric/nics.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/strbuf.h"
#include "base/sys.h"

#define PCI_FULL  12 /* "0000:00:05.0" */
#define PCI_SHORT 7  /* "00:05.0" */

/* ---------------------------------------------------------------- networks */

static unsigned bytes_of(unsigned family)
{
    return family == 4 ? 4 : 16;
}

void fab_net_fill(uint8_t net[FAB_NET_BYTES], unsigned family, const uint8_t *address,
                  unsigned bits)
{
    memset(net, 0, FAB_NET_BYTES);
    net[0] = (uint8_t)family;
    net[1] = (uint8_t)bits;
    for (unsigned i = 0; i < bytes_of(family) && bits > i * 8; i++) {
        unsigned left = bits - i * 8;
        unsigned mask = left >= 8 ? 0xff : 0xff << (8 - left);

        net[FAB_ADDRESS_FAMILY + i] = (uint8_t)(address[i] & mask);
    }
}

void fab_net_fill_alone(uint8_t net[FAB_NET_BYTES], unsigned family)
{
    memset(net, 0, FAB_NET_BYTES);
    net[0] = (uint8_t)family;
    net[1] = FAB_NET_ALONE;
    orl_sys_host_id(net + FAB_ADDRESS_FAMILY);
}

void fab_net_words(const uint8_t net[FAB_NET_BYTES], struct orl_strbuf *out)
{
    char text[INET6_ADDRSTRLEN];

    if (net[0] == 0) {
        return;
    }
    if (net[1] == FAB_NET_ALONE) {
        orl_strbuf_add(out, "this host alone");
        return;
    }
    if (inet_ntop(net[0] == 4 ? AF_INET : AF_INET6, net + FAB_ADDRESS_FAMILY, text, sizeof(text)) !=
        NULL) {
        orl_strbuf_addf(out, "%s/%u", text, net[1]);
    }
}

/* ---------------------------------------------------------------- one item */

/* "00:05.0" or "0000:00:05.0": digits where the letters are h, the rest as it stands. */
bool fab_nics_is_pci(const char *word)
{
    static const char full[] = "hhhh:hh:hh.h";
    size_t length = strlen(word);
    const char *shape = full + (PCI_FULL - length);

    if (length != PCI_FULL && length != PCI_SHORT) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (shape[i] == 'h' ? !isxdigit((unsigned char)word[i]) : word[i] != shape[i]) {
            return false;
        }
    }
    return true;
}

/* The bits after an address's slash; 0 to `most`, or -1. */
static int parse_bits(const char *text, unsigned most)
{
    char *end;
    unsigned long bits;

    if (!isdigit((unsigned char)text[0])) {
        return -1;
    }
    bits = strtoul(text, &end, 10);
    return *end == '\0' && bits <= most ? (int)bits : -1;
}

/* What is wrong with it, or NULL; *is_address says whether it is one at all. */
static const char *parse_subnet(struct fab_nics_item *item, bool *is_address)
{
    char word[FAB_NICS_WORD];
    uint8_t address[16];
    unsigned family;
    int bits;
    char *slash;

    memcpy(word, item->word, sizeof(word));
    slash = strchr(word, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    if (inet_pton(AF_INET, word, address) == 1) {
        family = 4;
    } else if (inet_pton(AF_INET6, word, address) == 1) {
        family = 6;
    } else {
        *is_address = slash != NULL;
        return slash != NULL ? "no address before the slash" : NULL;
    }
    *is_address = true;
    bits = slash == NULL ? (int)bytes_of(family) * 8 : parse_bits(slash + 1, bytes_of(family) * 8);
    if (bits < 0) {
        return family == 4 ? "after the slash of a subnet stands 0 to 32"
                           : "after the slash of a subnet stands 0 to 128";
    }
    item->kind = FAB_NICS_SUBNET;
    fab_net_fill(item->net, family, address, (unsigned)bits);
    return NULL;
}

static const char *parse_name(struct fab_nics_item *item)
{
    size_t length = strlen(item->word);
    size_t plain = strcspn(item->word, "*^/ \t");

    if (item->word[plain] == '*' && plain + 1 == length) {
        item->is_start = true;
        item->word[plain] = '\0';
        return NULL;
    }
    if (item->word[plain] == '*') {
        return "`*` stands at the end of a name only";
    }
    return plain < length ? "a name has no `^`, slash or space in it" : NULL;
}

/* What is wrong with the item, or NULL. */
static const char *parse_item(const char *text, size_t length, struct fab_nics_item *item)
{
    bool is_address = false;
    const char *wrong;

    memset(item, 0, sizeof(*item));
    if (length > 0 && text[0] == '^') {
        item->is_left_out = true;
        text++;
        length--;
    }
    if (length == 0) {
        return "an item is empty";
    }
    if (length >= sizeof(item->word)) {
        return "an item is longer than 63 characters";
    }
    memcpy(item->word, text, length);
    if (fab_nics_is_pci(item->word)) {
        item->kind = FAB_NICS_PCI;
        return NULL;
    }
    wrong = parse_subnet(item, &is_address);
    return wrong != NULL || is_address ? wrong : parse_name(item);
}

/* ---------------------------------------------------------------- the list */

static int fail_at(const char *text, size_t place, const char *what)
{
    return orl_fail(ORL_ERR_CONF,
                    "ORIEL_NICS is '%.64s': %s (at character %zu); valid: names (eth1, ib*), PCI "
                    "addresses (0000:00:05.0) and subnets (10.77.0.0/16), separated by commas, "
                    "with `^` before those to leave out",
                    text, what, place + 1);
}

int fab_nics_parse(const char *text, struct fab_nics *nics)
{
    const char *at = text;

    memset(nics, 0, sizeof(*nics));
    if (text == NULL || text[strspn(text, " \t")] == '\0') {
        return 0;
    }
    for (;;) {
        at += strspn(at, " \t");
        size_t length = strcspn(at, ",");
        const char *next = at + length;
        const char *wrong;

        while (length > 0 && (at[length - 1] == ' ' || at[length - 1] == '\t')) {
            length--;
        }
        wrong = nics->nitems < FAB_NICS_MAX ? parse_item(at, length, &nics->item[nics->nitems])
                                            : "there are more than 64 items";
        if (wrong != NULL) {
            return fail_at(text, (size_t)(at - text), wrong);
        }
        nics->has_pin = nics->has_pin || !nics->item[nics->nitems].is_left_out;
        nics->nitems++;
        if (*next == '\0') {
            return 0;
        }
        at = next + 1;
    }
}

/* A list is 8 KiB: too much for a frame of the library. */
static int parse_briefly(const char *text, bool *has_pin)
{
    struct fab_nics *nics;
    int status;

    *has_pin = false;
    if (text == NULL || *text == '\0') {
        return 0;
    }
    nics = malloc(sizeof(*nics));
    if (nics == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory to read ORIEL_NICS");
    }
    status = fab_nics_parse(text, nics);
    *has_pin = status == 0 && nics->has_pin;
    free(nics);
    return status;
}

int fab_nics_check(const char *text)
{
    bool has_pin;

    return parse_briefly(text, &has_pin);
}

bool fab_nics_has_pin(const char *text)
{
    bool has_pin;

    return parse_briefly(text, &has_pin) == 0 && has_pin;
}

/* ---------------------------------------------------------------- asking */

static bool names(const struct fab_nics_item *item, const char *name)
{
    if (name == NULL || name[0] == '\0') {
        return false;
    }
    return item->is_start ? strncmp(name, item->word, strlen(item->word)) == 0
                          : strcmp(name, item->word) == 0;
}

static bool names_pci(const struct fab_nics_item *item, const char *pci)
{
    size_t length = strlen(pci);
    size_t part = strlen(item->word);

    /* Without a domain it means the first one. */
    return length == PCI_FULL && strcasecmp(pci + (length - part), item->word) == 0 &&
           (part == PCI_FULL || strncmp(pci, "0000:", 5) == 0);
}

bool fab_nics_item_names(const struct fab_nics_item *item, const struct fab_nics_port *port)
{
    uint8_t net[FAB_NET_BYTES];

    switch (item->kind) {
    case FAB_NICS_PCI:
        return names_pci(item, port->pci);
    case FAB_NICS_SUBNET:
        if (port->family != item->net[0]) {
            return false;
        }
        fab_net_fill(net, port->family, port->address, item->net[1]);
        return memcmp(net, item->net, sizeof(net)) == 0;
    case FAB_NICS_NAME:
    default:
        return names(item, port->name) || names(item, port->other);
    }
}

enum fab_nics_answer fab_nics_ask(const struct fab_nics *nics, const struct fab_nics_port *port)
{
    bool is_pinned = false;

    for (unsigned i = 0; i < nics->nitems; i++) {
        if (!fab_nics_item_names(&nics->item[i], port)) {
            continue;
        }
        if (nics->item[i].is_left_out) {
            return FAB_NICS_OUT;
        }
        is_pinned = true;
    }
    if (is_pinned) {
        return FAB_NICS_PINNED;
    }
    return nics->has_pin ? FAB_NICS_UNNAMED : FAB_NICS_FREE;
}
