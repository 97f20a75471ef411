/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of ports: which interfaces and cards, each by the best provider that has it, in which
 * order; and a verdict on every port that was looked at. Knows nothing of peers: what no host can
 * tell alone is left to the handshake. Doubtful ports come last, and bridges to what runs on this
 * host not at all where a surer port is, so that nobody there finds a rank listening.
 */
#include "fabric/ofi/ofi_pick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/strbuf.h"

#define PORTS_MAX 8 /* opened by one process */

/* Providers that are used unasked, best first. The others work worse, or are for tests. */
static const char allow_list[] = "efa-direct,efa,cxi,net,tcp,tcp;ofi_rxm";

struct candidate {
    struct fab_nic nic;
    enum ofi_reach reach;
    enum fab_nics_answer answer;
    unsigned order;                /* in which it was found */
    unsigned naddress;             /* of its interface; which one is used */
    const struct ofi_iface *iface; /* NULL: a card without one */
    char refusal[128];             /* "": usable */
};

/* What is looked at, while it is. */
struct search {
    struct ofi_iface *ifaces; /* owns */
    unsigned nifaces;
    struct candidate *found; /* owns; [FAB_PORTS_MAX] */
    unsigned nfound;
    unsigned nmissed; /* for which there was no room */
    struct fab_nics nics;
    char why[96]; /* of the last offer that could not be used */
};

/* ---------------------------------------------------------------- candidates */

static enum fab_nics_answer ask(const struct search *search, const struct candidate *candidate,
                                const struct ofi_address *address)
{
    struct fab_nics_port port = { .name = candidate->nic.device, .pci = candidate->nic.pci };

    if (address != NULL) {
        port.family = address->family;
        memcpy(port.address, address->byte, sizeof(port.address));
    }
    return fab_nics_ask(&search->nics, &port);
}

/* The best of its addresses: one that is named, else the first that is not left out. */
static void choose_address(const struct search *search, struct candidate *candidate)
{
    const struct ofi_iface *iface = candidate->iface;

    candidate->naddress = 0;
    candidate->answer = ask(search, candidate, iface->naddresses > 0 ? &iface->address[0] : NULL);
    for (unsigned i = 1; i < iface->naddresses; i++) {
        enum fab_nics_answer answer = ask(search, candidate, &iface->address[i]);
        bool is_better = (answer == FAB_NICS_PINNED && candidate->answer != FAB_NICS_PINNED) ||
                         (answer == FAB_NICS_FREE && candidate->answer >= FAB_NICS_UNNAMED);

        if (is_better) {
            candidate->answer = answer;
            candidate->naddress = i;
        }
    }
}

static struct candidate *add(struct search *search, const char *device)
{
    struct candidate *candidate;

    if (search->nfound == FAB_PORTS_MAX) {
        search->nmissed++;
        return NULL;
    }
    candidate = &search->found[search->nfound];
    memset(candidate, 0, sizeof(*candidate));
    candidate->order = search->nfound++;
    candidate->nic.transport = &fab_ofi_ops;
    (void)snprintf(candidate->nic.device, sizeof(candidate->nic.device), "%s", device);
    (void)snprintf(candidate->nic.name, sizeof(candidate->nic.name), "ofi:%.27s", device);
    return candidate;
}

static void describe_iface(struct candidate *candidate)
{
    const struct ofi_iface *iface = candidate->iface;
    const struct ofi_address *address = &iface->address[candidate->naddress];
    struct fab_nic *nic = &candidate->nic;

    nic->mbps = iface->mbps;
    memcpy(nic->pci, iface->pci, sizeof(nic->pci));
    candidate->reach = iface->reach;
    if (iface->naddresses == 0) {
        return;
    }
    ofi_address_words(address, nic->address, sizeof(nic->address));
    if (iface->reach == OFI_REACH_HOST) {
        fab_net_fill_alone(nic->net, address->family);
    } else {
        fab_net_fill(nic->net, address->family, address->byte, address->bits);
    }
}

/* Every interface is a candidate, and has its refusal already where it cannot be used. */
static void add_ifaces(struct search *search)
{
    for (unsigned i = 0; i < search->nifaces; i++) {
        struct candidate *candidate = add(search, search->ifaces[i].name);

        if (candidate == NULL) {
            continue;
        }
        candidate->iface = &search->ifaces[i];
        memcpy(candidate->nic.pci, candidate->iface->pci, sizeof(candidate->nic.pci));
        choose_address(search, candidate);
        describe_iface(candidate);
        (void)snprintf(candidate->refusal, sizeof(candidate->refusal), "%s",
                       candidate->iface->refusal);
    }
}

/* ---------------------------------------------------------------- offers */

static bool is_nic_provider(const char *provider)
{
    return strncmp(provider, "efa", 3) == 0 || strncmp(provider, "cxi", 3) == 0 ||
           strncmp(provider, "verbs", 5) == 0;
}

static void describe_card(struct candidate *candidate, const struct fi_info *offer)
{
    const struct fid_nic *card = offer->nic;
    struct fab_nic *nic = &candidate->nic;

    if (card == NULL) {
        return;
    }
    if (card->bus_attr != NULL && card->bus_attr->bus_type == FI_BUS_PCI) {
        const struct fi_pci_attr *pci = &card->bus_attr->attr.pci;

        (void)snprintf(nic->pci, sizeof(nic->pci), "%04x:%02x:%02x.%x", pci->domain_id, pci->bus_id,
                       pci->device_id, pci->function_id & 0xf);
    }
    if (card->link_attr != NULL) {
        nic->mbps = card->link_attr->speed / 1000000;
        if (card->link_attr->state == FI_LINK_DOWN) {
            (void)snprintf(candidate->refusal, sizeof(candidate->refusal), "its link is down");
        }
    }
}

/* Whether the offer is for the address of that interface which was chosen, or, with an address of
 * no known kind, for the interface itself. */
static bool serves(const struct candidate *candidate, const struct fi_info *offer)
{
    const struct ofi_iface *iface = candidate->iface;
    struct ofi_address address;

    if (iface == NULL || iface->naddresses == 0 || !ofi_offer_address(offer, &address)) {
        return strcmp(candidate->nic.device, ofi_offer_device(offer)) == 0;
    }
    return address.family == iface->address[candidate->naddress].family &&
           memcmp(address.byte, iface->address[candidate->naddress].byte, sizeof(address.byte)) ==
               0;
}

/* A card has this offer; an interface is found by it. What has a provider already keeps it: the
 * same network is never opened twice. */
static void take_offer(struct search *search, const struct fi_info *offer)
{
    const char *provider = ofi_offer_provider(offer);
    struct ofi_address address;
    struct candidate *candidate = NULL;

    for (unsigned i = 0; i < search->nfound && candidate == NULL; i++) {
        candidate = serves(&search->found[i], offer) ? &search->found[i] : NULL;
    }
    if (candidate == NULL && !ofi_offer_address(offer, &address)) {
        candidate = add(search, ofi_offer_device(offer));
        if (candidate != NULL) {
            describe_card(candidate, offer);
            candidate->answer = ask(search, candidate, NULL);
        }
    }
    if (candidate == NULL || candidate->nic.provider[0] != '\0') {
        return;
    }
    (void)snprintf(candidate->nic.provider, sizeof(candidate->nic.provider), "%s", provider);
    candidate->nic.level = is_nic_provider(provider) ? FAB_LEVEL_NIC : FAB_LEVEL_NETWORK;
}

static int fail_provider(const char *provider, const char *why)
{
    const char *path = orl_conf_launcher_variable("FI_PROVIDER_PATH");
    char names[256];
    struct orl_strbuf sb;

    orl_strbuf_init(&sb, names, sizeof(names));
    ofi_providers(&sb);
    return orl_fail(
        ORL_ERR_CONF,
        "ORIEL_OFI_PROVIDER asks for '%.32s', of which libfabric %s offers nothing that "
        "can be used here%s%s; it has: %s (FI_PROVIDER_PATH %s%s)",
        provider, fab_ofi_version(), why[0] != '\0' ? ": " : "", why, names,
        path != NULL ? "is " : "is not set", path != NULL ? path : "");
}

/* Each provider of the list in turn takes what those before it have left. */
static int add_offers(struct search *search, const char *list, bool is_asked)
{
    while (*list != '\0') {
        char provider[FAB_NAME_BYTES];
        size_t length = strcspn(list, ",");
        struct fi_info *offers;
        int status;

        (void)snprintf(provider, sizeof(provider), "%.*s", (int)length, list);
        status = ofi_offers(provider, &offers, search->why, sizeof(search->why));
        if (status == 0 && offers == NULL && is_asked) {
            status = fail_provider(provider, search->why);
        }
        for (const struct fi_info *offer = offers; offer != NULL; offer = offer->next) {
            take_offer(search, offer);
        }
        fi_freeinfo(offers);
        if (status != 0) {
            return status;
        }
        list += length + (list[length] == ',');
        list += strspn(list, " ");
    }
    return 0;
}

/* ---------------------------------------------------------------- the choice */

static void refuse(struct candidate *candidate, const char *why)
{
    (void)snprintf(candidate->refusal, sizeof(candidate->refusal), "%s", why);
}

/* The setting comes before everything else, but cannot make a port better than it is. */
static void apply_setting(struct search *search)
{
    for (unsigned i = 0; i < search->nfound; i++) {
        struct candidate *candidate = &search->found[i];

        if (candidate->answer == FAB_NICS_OUT) {
            refuse(candidate, "ORIEL_NICS leaves it out");
        } else if (candidate->answer == FAB_NICS_UNNAMED) {
            refuse(candidate, "ORIEL_NICS names others");
        } else if (candidate->refusal[0] == '\0' && candidate->nic.provider[0] == '\0') {
            refuse(candidate, "no provider offers it");
        }
    }
}

static bool has_usable(const struct search *search, enum ofi_reach worst)
{
    for (unsigned i = 0; i < search->nfound; i++) {
        if (search->found[i].refusal[0] == '\0' && search->found[i].reach <= worst) {
            return true;
        }
    }
    return false;
}

static void refuse_bridges(struct search *search)
{
    for (unsigned i = 0; i < search->nfound; i++) {
        struct candidate *candidate = &search->found[i];

        if (candidate->refusal[0] == '\0' && candidate->reach == OFI_REACH_BRIDGE &&
            candidate->answer != FAB_NICS_PINNED) {
            refuse(candidate,
                   "a bridge without a card, and there are surer ones (ORIEL_NICS can name it)");
        }
    }
}

/* What reaches this host alone is used when it is named; or the first of such, when nothing else is
 * left: another would lead nowhere else. */
static void apply_reach(struct search *search)
{
    bool has_one = has_usable(search, OFI_REACH_BRIDGE);

    if (has_usable(search, OFI_REACH_NETWORK)) {
        refuse_bridges(search);
    }
    for (unsigned i = 0; i < search->nfound; i++) {
        struct candidate *candidate = &search->found[i];

        if (candidate->refusal[0] != '\0' || candidate->reach != OFI_REACH_HOST ||
            candidate->answer == FAB_NICS_PINNED) {
            continue;
        }
        if (has_one) {
            refuse(candidate, "it reaches this host alone");
        }
        has_one = true;
    }
}

/* Better ones first; what cannot be used at the end. */
static int compare(const void *left, const void *right)
{
    const struct candidate *a = left;
    const struct candidate *b = right;
    bool a_is_out = a->refusal[0] != '\0';
    bool b_is_out = b->refusal[0] != '\0';

    if (a_is_out != b_is_out) {
        return a_is_out ? 1 : -1;
    }
    if (!a_is_out && a->nic.level != b->nic.level) {
        return a->nic.level < b->nic.level ? -1 : 1;
    }
    if (!a_is_out && a->reach != b->reach) {
        return a->reach < b->reach ? -1 : 1;
    }
    if (!a_is_out && a->nic.mbps != b->nic.mbps) {
        return a->nic.mbps > b->nic.mbps ? -1 : 1;
    }
    return a->order < b->order ? -1 : 1;
}

static const char *words_of(const struct candidate *candidate)
{
    if (candidate->answer == FAB_NICS_PINNED) {
        return "ORIEL_NICS names it";
    }
    if (candidate->reach == OFI_REACH_HOST) {
        return "it reaches this host alone, and there is nothing better";
    }
    if (candidate->reach == OFI_REACH_BRIDGE) {
        return "a bridge without a card, and there is nothing surer";
    }
    return candidate->reach == OFI_REACH_DOUBTFUL ? "a tunnel: tried after the others" : "it is up";
}

/* Sorted candidates to descriptions; returns their number. */
static int choose(struct fab *fabric, const struct search *search, struct fab_nic *nics, int cap)
{
    int chosen = 0;

    cap = cap < PORTS_MAX ? cap : PORTS_MAX;
    for (unsigned i = 0; i < search->nfound; i++) {
        const struct candidate *candidate = &search->found[i];

        if (candidate->refusal[0] != '\0') {
            bool is_setting = candidate->answer >= FAB_NICS_UNNAMED;

            fab_port_judge(fabric, &candidate->nic, is_setting ? FAB_DISABLED : FAB_ABSENT, "%s",
                           candidate->refusal);
        } else if (chosen == cap) {
            fab_port_judge(fabric, &candidate->nic, FAB_ABSENT,
                           "%d better ones are in use, which is as many as can be", cap);
        } else {
            fab_port_judge(fabric, &candidate->nic, FAB_CHOSEN, "%s", words_of(candidate));
            nics[chosen++] = candidate->nic;
        }
    }
    return chosen;
}

/* ---------------------------------------------------------------- pins that match nothing */

static bool item_names(const struct fab_nics_item *item, const struct candidate *candidate)
{
    const struct ofi_iface *iface = candidate->iface;
    struct fab_nics_port port = { .name = candidate->nic.device, .pci = candidate->nic.pci };

    if (fab_nics_item_names(item, &port)) {
        return true;
    }
    for (unsigned i = 0; iface != NULL && i < iface->naddresses; i++) {
        port.family = iface->address[i].family;
        memcpy(port.address, iface->address[i].byte, sizeof(port.address));
        if (fab_nics_item_names(item, &port)) {
            return true;
        }
    }
    return false;
}

/* An item that names no port of this host is wrong, if it is to be used; what is to be left out may
 * be missing on some hosts of a job. */
static bool item_is_met(const struct search *search, const struct fab_nics_item *item)
{
    for (unsigned i = 0; i < search->nfound; i++) {
        if (item_names(item, &search->found[i])) {
            return true;
        }
    }
    return false;
}

static void add_ports_there(const struct search *search, struct orl_strbuf *out)
{
    for (unsigned i = 0; i < search->nfound; i++) {
        const struct fab_nic *nic = &search->found[i].nic;

        orl_strbuf_addf(out, "%s%s%s%s", i > 0 ? ", " : "", nic->device,
                        nic->address[0] != '\0' ? " " : "", nic->address);
    }
}

static int check_pins(const struct search *search)
{
    char there[320];
    struct orl_strbuf sb;

    for (unsigned i = 0; i < search->nics.nitems; i++) {
        const struct fab_nics_item *item = &search->nics.item[i];

        if (item->is_left_out || item_is_met(search, item)) {
            continue;
        }
        orl_strbuf_init(&sb, there, sizeof(there));
        add_ports_there(search, &sb);
        return orl_fail(ORL_ERR_CONF, "ORIEL_NICS names '%s%s', and there is no such port here: %s",
                        item->word, item->is_start ? "*" : "", there);
    }
    return 0;
}

/* Ports that are named, and cannot be used, are as good as missing. */
static int check_choice(const struct search *search, int chosen)
{
    char text[320];
    struct orl_strbuf sb;

    if (chosen > 0 || !search->nics.has_pin) {
        return chosen;
    }
    orl_strbuf_init(&sb, text, sizeof(text));
    for (unsigned i = 0; i < search->nfound; i++) {
        const struct candidate *candidate = &search->found[i];

        if (candidate->answer == FAB_NICS_PINNED) {
            orl_strbuf_addf(&sb, "%s%s: %s", sb.length > 0 ? "; " : "", candidate->nic.device,
                            candidate->refusal);
        }
    }
    return orl_fail(ORL_ERR_CONF, "ORIEL_NICS names nothing that can be used: %s",
                    sb.length > 0 ? text : "it leaves out what it names");
}

/* ---------------------------------------------------------------- the slot */

static int look(struct search *search)
{
    const char *asked = orl_conf.ofi_provider;
    bool is_asked = asked != NULL && asked[0] != '\0';
    int status = fab_nics_parse(orl_conf.nics, &search->nics);

    if (status == 0) {
        status = ofi_ifaces(&search->ifaces, &search->nifaces);
    }
    if (status != 0) {
        return status;
    }
    add_ifaces(search);
    status = add_offers(search, is_asked ? asked : allow_list, is_asked);
    return status != 0 ? status : check_pins(search);
}

int ofi_pick(struct fab *fabric, struct fab_nic *nics, int cap)
{
    struct search *search = calloc(1, sizeof(*search));
    int chosen;
    int status;

    if (search != NULL) {
        search->found = calloc(FAB_PORTS_MAX, sizeof(*search->found));
    }
    if (search == NULL || search->found == NULL) {
        free(search);
        return orl_fail(ORL_ERR_NOMEM, "no memory to look for ports");
    }
    status = look(search);
    /* Also after an error: whoever asks what is wrong wants to see what there is. */
    apply_setting(search);
    apply_reach(search);
    qsort(search->found, search->nfound, sizeof(*search->found), compare);
    chosen = choose(fabric, search, nics, cap);
    status = status != 0 ? status : check_choice(search, chosen);
    free(search->ifaces);
    free(search->found);
    free(search);
    return status;
}
