/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the provider says of itself: one offer for each of the inner provider's, in the shape of
 * EFA's direct fabric. Hints that ask for more are refused, and so are hints that give less than it
 * needs (contexts, modes of registration).
 */
#include "strict.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/providers/fi_prov.h>

#define CAPS                                                                                    \
 (FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | \
  FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM)
#define TX_CAPS (FI_MSG | FI_RMA | FI_SEND | FI_READ | FI_WRITE)
#define RX_CAPS (FI_MSG | FI_RMA | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_SOURCE)
#define MR_MODE (FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR)
#define OP_FLAGS \
 (FI_COMPLETION | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_INJECT_COMPLETE | FI_MORE)

static _Thread_local bool is_inside;

/* ---------------------------------------------------------------- hints */

static bool mode_fits(const struct fi_info *hints)
{
    const struct fi_domain_attr *domain = hints->domain_attr;
    bool has_context = (hints->mode & FI_CONTEXT2) != 0;

    if (!has_context) {
        st_say("hints without FI_CONTEXT2");
        return false;
    }
    if (domain == NULL || ((unsigned)domain->mr_mode & MR_MODE) != MR_MODE) {
        st_say("hints without one of FI_MR_LOCAL, ALLOCATED, PROV_KEY, VIRT_ADDR");
        return false;
    }
    return st_conf.rx_data == 0 || (hints->mode & FI_RX_CQ_DATA) != 0;
}

static bool domain_fits(const struct fi_domain_attr *attr)
{
    return attr == NULL ||
           (attr->data_progress != FI_PROGRESS_AUTO && attr->resource_mgmt != FI_RM_ENABLED &&
            attr->cq_data_size <= 4 && attr->mr_key_size <= 8 &&
            (attr->caps & ~(uint64_t)(FI_LOCAL_COMM | FI_REMOTE_COMM)) == 0);
}

static bool ep_fits(const struct fi_ep_attr *attr)
{
    size_t most = st_conf.rma_max > st_conf.msg_max ? st_conf.rma_max : st_conf.msg_max;

    return attr == NULL ||
           ((attr->type == FI_EP_UNSPEC || attr->type == FI_EP_RDM) && attr->max_msg_size <= most &&
            attr->max_order_raw_size == 0 && attr->max_order_war_size == 0 &&
            attr->max_order_waw_size == 0 && attr->tx_ctx_cnt <= 1 && attr->rx_ctx_cnt <= 1);
}

static bool tx_fits(const struct fi_tx_attr *attr)
{
    uint64_t flags = OP_FLAGS & ~(st_conf.dc == 0 ? FI_DELIVERY_COMPLETE : 0);

    return attr == NULL ||
           (attr->msg_order == 0 && (attr->caps & ~(uint64_t)CAPS) == 0 &&
            (attr->op_flags & ~flags) == 0 && attr->inject_size <= st_conf.inject &&
            attr->size <= st_conf.depth && attr->iov_limit <= ST_IOV && attr->rma_iov_limit <= 1);
}

static bool rx_fits(const struct fi_rx_attr *attr)
{
    return attr == NULL || (attr->msg_order == 0 && (attr->caps & ~(uint64_t)CAPS) == 0 &&
                            attr->size <= st_conf.rx_size && attr->iov_limit <= 1);
}

static bool hints_fit(const struct fi_info *hints)
{
    if (hints == NULL) {
        return true;
    }
    if ((hints->caps & ~(uint64_t)CAPS) != 0) {
        st_say("hints ask for capabilities 0x%llx",
               (unsigned long long)(hints->caps & ~(uint64_t)CAPS));
        return false;
    }
    if (!mode_fits(hints)) {
        return false;
    }
    if (!domain_fits(hints->domain_attr) || !ep_fits(hints->ep_attr)) {
        st_say("hints ask for more of a domain or an endpoint");
        return false;
    }
    if (!tx_fits(hints->tx_attr) || !rx_fits(hints->rx_attr)) {
        st_say("hints ask for more of sending or receiving, or for an order");
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- the inner provider */

/* Hints for the inner provider: messages alone. */
static struct fi_info *inner_hints(const struct fi_info *like)
{
    struct fi_info *hints = fi_allocinfo();

    if (hints == NULL) {
        return NULL;
    }
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = 0;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->fabric_attr->prov_name = strdup(st_conf.inner);
    if (like != NULL) {
        hints->addr_format = like->addr_format;
        if (like->fabric_attr != NULL && like->fabric_attr->name != NULL) {
            hints->fabric_attr->name = strdup(like->fabric_attr->name);
        }
        if (like->domain_attr != NULL && like->domain_attr->name != NULL) {
            hints->domain_attr->name = strdup(like->domain_attr->name);
        }
        if (like->src_addr != NULL) {
            hints->src_addr = malloc(like->src_addrlen);
            hints->src_addrlen = hints->src_addr == NULL ? 0 : like->src_addrlen;
            if (hints->src_addr != NULL) {
                memcpy(hints->src_addr, like->src_addr, like->src_addrlen);
            }
        }
        if (like->dest_addr != NULL) {
            hints->dest_addr = malloc(like->dest_addrlen);
            hints->dest_addrlen = hints->dest_addr == NULL ? 0 : like->dest_addrlen;
            if (hints->dest_addr != NULL) {
                memcpy(hints->dest_addr, like->dest_addr, like->dest_addrlen);
            }
        }
    }
    return hints;
}

static int ask_inner(const char *node, const char *service, uint64_t flags,
                     const struct fi_info *like, struct fi_info **info)
{
    struct fi_info *hints = inner_hints(like);
    int rc;

    if (hints == NULL) {
        return -FI_ENOMEM;
    }
    is_inside = true;
    rc = fi_getinfo(FI_VERSION(1, 11), node, service, flags, hints, info);
    is_inside = false;
    fi_freeinfo(hints);
    return rc;
}

int st_inner_info(const struct fi_info *like, struct fi_info **inner)
{
    return ask_inner(NULL, NULL, 0, like, inner);
}

/* ---------------------------------------------------------------- our offer */

static void shape_sides(struct fi_info *info, const struct fi_info *hints)
{
    struct fi_tx_attr *tx = info->tx_attr;
    struct fi_rx_attr *rx = info->rx_attr;

    tx->caps = TX_CAPS;
    tx->mode = FI_CONTEXT2;
    tx->op_flags = hints == NULL || hints->tx_attr == NULL ? 0 : hints->tx_attr->op_flags;
    tx->msg_order = 0;
    tx->comp_order = 0;
    tx->inject_size = st_conf.inject;
    tx->size = st_conf.depth;
    tx->iov_limit = ST_IOV;
    tx->rma_iov_limit = 1;
    rx->caps = RX_CAPS;
    rx->mode = FI_CONTEXT2;
    rx->op_flags = hints == NULL || hints->rx_attr == NULL ? 0 : hints->rx_attr->op_flags;
    rx->msg_order = 0;
    rx->comp_order = 0;
    rx->total_buffered_recv = 0;
    rx->size = st_conf.rx_size;
    rx->iov_limit = 1;
}

static void shape(struct fi_info *info, const struct fi_info *hints)
{
    struct fi_ep_attr *ep = info->ep_attr;
    struct fi_domain_attr *domain = info->domain_attr;

    info->caps = CAPS;
    info->mode = FI_CONTEXT2 | (st_conf.rx_data != 0 ? FI_RX_CQ_DATA : 0);
    shape_sides(info, hints);
    ep->protocol = FI_PROTO_UNSPEC;
    ep->max_msg_size = st_conf.rma_max > st_conf.msg_max ? st_conf.rma_max : st_conf.msg_max;
    ep->max_order_raw_size = 0;
    ep->max_order_war_size = 0;
    ep->max_order_waw_size = 0;
    ep->mem_tag_format = 0;
    domain->threading = hints == NULL || hints->domain_attr == NULL ||
                                hints->domain_attr->threading == FI_THREAD_UNSPEC
                            ? FI_THREAD_SAFE
                            : hints->domain_attr->threading;
    domain->control_progress = FI_PROGRESS_AUTO;
    domain->data_progress = FI_PROGRESS_MANUAL;
    domain->resource_mgmt = FI_RM_DISABLED;
    domain->av_type = FI_AV_TABLE;
    domain->mr_mode = MR_MODE;
    domain->mr_key_size = 4;
    domain->cq_data_size = 4;
    domain->mr_iov_limit = 1;
    domain->caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
    domain->mode = 0;
    free(info->fabric_attr->prov_name);
    info->fabric_attr->prov_name = NULL;
}

int st_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const struct fi_info *hints, struct fi_info **info)
{
    struct fi_info *at;
    int rc;

    (void)version;
    st_conf_load();
    if (is_inside || !hints_fit(hints)) {
        return -FI_ENODATA;
    }
    rc = ask_inner(node, service, flags, hints, info);
    for (at = rc == 0 ? *info : NULL; at != NULL; at = at->next) {
        shape(at, hints);
    }
    return rc;
}

static void cleanup(void)
{
}

static struct fi_provider provider = {
    .version = FI_VERSION(1, 0),
    .fi_version = FI_VERSION(1, 17),
    .name = "strict",
    .getinfo = st_getinfo,
    .fabric = st_fabric_open,
    .cleanup = cleanup,
};

__attribute__((visibility("default"))) struct fi_provider *fi_prov_ini(void);

struct fi_provider *fi_prov_ini(void)
{
    return &provider;
}
