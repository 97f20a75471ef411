/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libfabric offers: the one place where it is asked, with the one set of hints. An offer is
 * held against the hints again, since what comes back is the provider's word only.
 *
 * Asked for: a reliable endpoint for all peers with messages and remote memory. Offered in return:
 * contexts of the provider's, and every kind of memory registration there is. Left open: the form
 * of addresses, and who drives progress as long as it may be us. Not asked for: atomics, since with
 * them tcp;ofi_rxm gives up the order of its writes. Order is asked for first and done without
 * where there is none: nothing may count on an order that info->tx_attr->msg_order does not have.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "fabric/ofi/ofi_pick.h"

#define CAPS \
 (FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define MODES (FI_CONTEXT | FI_CONTEXT2)
#define MR_MODES \
 (FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ENDPOINT | FI_MR_RAW)

static const char direct_fabric[] = "efa-direct";

/* ---------------------------------------------------------------- hints */

/* The newest interface that both this build and the library that is loaded know. */
static uint32_t interface_version(void)
{
    uint32_t built = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
    uint32_t loaded = fi_version();

    return FI_VERSION_LT(loaded, built) ? loaded : built;
}

static struct fi_info *make_hints(const char *provider, uint64_t order)
{
    bool is_direct = strcmp(provider, direct_fabric) == 0;
    struct fi_info *hints = fi_allocinfo();

    if (hints == NULL) {
        return NULL;
    }
    hints->caps = CAPS;
    hints->mode = MODES;
    hints->addr_format = FI_FORMAT_UNSPEC;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = MR_MODES;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->av_type = FI_AV_TABLE;
    hints->tx_attr->msg_order = order;
    hints->rx_attr->msg_order = order;
    hints->fabric_attr->prov_name = strdup(is_direct ? "efa" : provider);
    hints->fabric_attr->name = is_direct ? strdup(direct_fabric) : NULL;
    if (hints->fabric_attr->prov_name == NULL || (is_direct && hints->fabric_attr->name == NULL)) {
        fi_freeinfo(hints);
        return NULL;
    }
    return hints;
}

const char *ofi_offer_lacks(const struct fi_info *info)
{
    if (info->ep_attr->type != FI_EP_RDM) {
        return "no reliable endpoint for all peers (FI_EP_RDM)";
    }
    if ((info->caps & FI_MSG) == 0) {
        return "no messages (FI_MSG)";
    }
    if ((info->caps & FI_RMA) == 0 || (info->caps & FI_READ) == 0 || (info->caps & FI_WRITE) == 0 ||
        (info->caps & FI_REMOTE_READ) == 0 || (info->caps & FI_REMOTE_WRITE) == 0) {
        return "it cannot both read and write remote memory (FI_RMA)";
    }
    if ((info->mode & ~(uint64_t)MODES) != 0 || (info->domain_attr->mode & ~(uint64_t)MODES) != 0) {
        return "it wants a mode that this version does not know";
    }
    if ((info->domain_attr->mr_mode & ~MR_MODES) != 0) {
        return "it wants a kind of memory registration that this version does not know";
    }
    if (info->ep_attr->max_msg_size == 0) {
        return "its largest message is 0 bytes";
    }
    return NULL;
}

/* ---------------------------------------------------------------- offers */

/* The name asked for, or a stack of layers that begins with it: "udp" brings "udp;ofi_rxd". */
static bool is_asked_for(const struct fi_info *info, const char *provider, bool is_exact)
{
    const char *name = ofi_offer_provider(info);
    size_t length = strlen(provider);

    return strncmp(name, provider, length) == 0 &&
           (name[length] == '\0' || (!is_exact && name[length] == ';'));
}

static bool has_exact(const struct fi_info *list, const char *provider)
{
    for (; list != NULL; list = list->next) {
        if (is_asked_for(list, provider, true)) {
            return true;
        }
    }
    return false;
}

/* Takes out of the list what is not usable and frees that. */
static struct fi_info *sift(struct fi_info *list, const char *provider, char *why, size_t capacity)
{
    bool is_exact = has_exact(list, provider);
    struct fi_info *kept = NULL;
    struct fi_info **end = &kept;

    while (list != NULL) {
        struct fi_info *info = list;
        bool is_asked = is_asked_for(info, provider, is_exact);
        const char *lacks = is_asked ? ofi_offer_lacks(info) : "";

        list = info->next;
        info->next = NULL;
        if (lacks == NULL) {
            *end = info;
            end = &info->next;
            continue;
        }
        if (is_asked) {
            (void)snprintf(why, capacity, "%s: %s", ofi_offer_provider(info), lacks);
        }
        fi_freeinfo(info);
    }
    return kept;
}

static int ask(const char *provider, uint64_t order, struct fi_info **list)
{
    struct fi_info *hints = make_hints(provider, order);
    int rc;

    *list = NULL;
    if (hints == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory to ask libfabric for %s", provider);
    }
    rc = fi_getinfo(interface_version(), NULL, NULL, 0, hints, list);
    fi_freeinfo(hints);
    if (rc != 0 && rc != -FI_ENODATA && rc != -FI_ENOSYS) {
        return orl_fail(ORL_ERR_SYS, "libfabric: fi_getinfo for %s: %s", provider,
                        fi_strerror(-rc));
    }
    return 0;
}

int ofi_offers(const char *provider, struct fi_info **list, char *why, size_t capacity)
{
    static const uint64_t orders[] = { FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAW, FI_ORDER_SAS,
                                       0 };
    int status = 0;

    why[0] = '\0';
    *list = NULL;
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]) && status == 0 && *list == NULL;
         i++) {
        status = ask(provider, orders[i], list);
        *list = sift(*list, provider, why, capacity);
    }
    return status;
}

bool ofi_offer_address(const struct fi_info *info, struct ofi_address *address)
{
    memset(address, 0, sizeof(*address));
    if (info->addr_format == FI_SOCKADDR_IN && info->src_addrlen >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in in;

        memcpy(&in, info->src_addr, sizeof(in));
        address->family = 4;
        memcpy(address->byte, &in.sin_addr, 4);
    }
    if (info->addr_format == FI_SOCKADDR_IN6 && info->src_addrlen >= sizeof(struct sockaddr_in6)) {
        struct sockaddr_in6 in;

        memcpy(&in, info->src_addr, sizeof(in));
        address->family = 6;
        memcpy(address->byte, &in.sin6_addr, 16);
    }
    return address->family != 0;
}

const char *ofi_offer_device(const struct fi_info *info)
{
    const struct fid_nic *nic = info->nic;

    if (nic != NULL && nic->device_attr != NULL && nic->device_attr->name != NULL) {
        return nic->device_attr->name;
    }
    return info->domain_attr->name != NULL ? info->domain_attr->name : "";
}

const char *ofi_offer_provider(const struct fi_info *info)
{
    const char *fabric = info->fabric_attr->name;

    if (fabric != NULL && strcmp(fabric, direct_fabric) == 0) {
        return direct_fabric;
    }
    return info->fabric_attr->prov_name != NULL ? info->fabric_attr->prov_name : "";
}

/* ---------------------------------------------------------------- for others */

void ofi_providers(struct orl_strbuf *out)
{
    struct fi_info *list = NULL;
    size_t before = out->length;

    if (fi_getinfo(interface_version(), NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &list) != 0) {
        return;
    }
    for (const struct fi_info *info = list; info != NULL; info = info->next) {
        const char *name = info->fabric_attr->prov_name;

        if (name != NULL && strncmp(name, "ofi_hook", 8) != 0) {
            orl_strbuf_addf(out, "%s%s", out->length > before ? ", " : "", name);
        }
    }
    fi_freeinfo(list);
}

const char *fab_ofi_version(void)
{
    static _Thread_local char words[32];
    uint32_t version = fi_version();

    (void)snprintf(words, sizeof(words), "%u.%u", FI_MAJOR(version), FI_MINOR(version));
    return words;
}

/* Whether the offer is the port that was picked. */
static bool is_port(const struct fi_info *info, const struct fab_nic *nic)
{
    struct ofi_address address;
    char words[FAB_WORDS_BYTES];

    if (strcmp(ofi_offer_provider(info), nic->provider) != 0) {
        return false;
    }
    if (nic->address[0] == '\0' || !ofi_offer_address(info, &address)) {
        return strcmp(ofi_offer_device(info), nic->device) == 0;
    }
    ofi_address_words(&address, words, sizeof(words));
    return strcspn(words, "/") == strcspn(nic->address, "/") &&
           strncmp(words, nic->address, strcspn(words, "/")) == 0;
}

int ofi_pick_info(const struct fab_nic *nic, struct fi_info **info)
{
    struct fi_info *list;
    char why[96];
    int status = ofi_offers(nic->provider, &list, why, sizeof(why));

    *info = NULL;
    for (const struct fi_info *offer = list; offer != NULL && *info == NULL; offer = offer->next) {
        if (is_port(offer, nic)) {
            *info = fi_dupinfo(offer);
            status = *info != NULL ? 0
                                   : orl_fail(ORL_ERR_NOMEM,
                                              "no memory for libfabric's offer of %s", nic->name);
        }
    }
    fi_freeinfo(list);
    if (status == 0 && *info == NULL) {
        return orl_fail(ORL_ERR_UNSUPP, "libfabric does not offer %s by %s%s%s", nic->device,
                        nic->provider, why[0] != '\0' ? ": " : "", why);
    }
    return status;
}
