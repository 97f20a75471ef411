/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See strict_rig.h.
 */
#include "tests/fabric/strict_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ok(call) cr_assert_eq((call), 0, #call)

void sr_setting(const char *name, const char *value)
{
    char full[64];

    (void)snprintf(full, sizeof full, "STRICT_%s", name);
    (void)setenv(full, value, 1);
}

struct fi_info *sr_hints(void)
{
    struct fi_info *hints = fi_allocinfo();

    cr_assert_not_null(hints);
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT2;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
    hints->domain_attr->name = strdup("lo");
    hints->fabric_attr->prov_name = strdup("strict");
    return hints;
}

bool sr_find(struct sr_rig *rig)
{
    const char *build = getenv("top_builddir");
    struct fi_info *hints;
    char path[4096];
    int rc;

    memset(rig, 0, sizeof *rig);
    if (getenv("FI_PROVIDER_PATH") == NULL) {
        (void)snprintf(path, sizeof path, "%s/tests/fake/strict/.libs",
                       build == NULL ? "." : build);
        (void)setenv("FI_PROVIDER_PATH", path, 1);
    }
    hints = sr_hints();
    rc = fi_getinfo(FI_VERSION(1, 11), NULL, NULL, 0, hints, &rig->info);
    fi_freeinfo(hints);
    return rc == 0;
}

void sr_side_open(struct sr_rig *rig, struct sr_side *side, size_t cq_size)
{
    struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_DATA, .size = cq_size };
    struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
    void *api = NULL;
    void *memory = NULL;

    cq_attr.wait_obj = getenv("STRICT_WAIT") == NULL ? FI_WAIT_FD : FI_WAIT_NONE;
    cr_assert_eq(posix_memalign(&memory, 4096, SR_BYTES), 0);
    side->memory = memory;
    memset(memory, 0, SR_BYTES);
    ok(fi_fabric(rig->info->fabric_attr, &side->fabric, NULL));
    ok(fi_domain(side->fabric, rig->info, &side->domain, NULL));
    ok(fi_cq_open(side->domain, &cq_attr, &side->cq, NULL));
    ok(fi_av_open(side->domain, &av_attr, &side->av, NULL));
    ok(fi_endpoint(side->domain, rig->info, &side->ep, NULL));
    ok(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV));
    ok(fi_ep_bind(side->ep, &side->av->fid, 0));
    ok(fi_enable(side->ep));
    ok(fi_open_ops(&side->fabric->fid, STRICT_OPS, 0, &api, NULL));
    rig->api = api;
}

static void reg(struct sr_side *side)
{
    int rc = fi_mr_reg(side->domain, side->memory, SR_BYTES,
                       FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                       0, 0, &side->mr, NULL);

    cr_assert_eq(rc, 0, "fi_mr_reg: %d", rc);
}

static void insert(struct sr_side *side, const struct sr_side *peer)
{
    unsigned char address[64];
    size_t bytes = sizeof address;

    ok(fi_getname(&peer->ep->fid, address, &bytes));
    cr_assert_eq(fi_av_insert(side->av, address, 1, &side->peer, 0, NULL), 1);
}

void sr_meet(struct sr_rig *rig)
{
    insert(&rig->a, &rig->b);
    insert(&rig->b, &rig->a);
}

void sr_open(struct sr_rig *rig)
{
    if (!sr_find(rig)) {
        cr_assert_fail("the provider strict is not found in %s", getenv("FI_PROVIDER_PATH"));
    }
    sr_side_open(rig, &rig->a, 128);
    sr_side_open(rig, &rig->b, 128);
    reg(&rig->a);
    reg(&rig->b);
    sr_meet(rig);
}

void sr_side_close(struct sr_side *side)
{
    if (side->ep != NULL) {
        ok(fi_close(&side->ep->fid));
    }
    if (side->mr != NULL) {
        ok(fi_close(&side->mr->fid));
    }
    ok(fi_close(&side->av->fid));
    ok(fi_close(&side->cq->fid));
    ok(fi_close(&side->domain->fid));
    ok(fi_close(&side->fabric->fid));
    free(side->memory);
    memset(side, 0, sizeof *side);
}

void sr_close(struct sr_rig *rig)
{
    const struct strict_counts *counts = rig->api->counts();

    sr_side_close(&rig->a);
    sr_side_close(&rig->b);
    fi_freeinfo(rig->info);
    cr_assert_eq(counts->fids, 0, "%llu objects left", (unsigned long long)counts->fids);
    cr_assert_eq(counts->mrs, 0);
    cr_assert_eq(counts->av_entries, 0);
    cr_assert_eq(counts->contexts, 0);
    cr_assert_eq(counts->receives, 0);
}

/* ---------------------------------------------------------------- moving */

static void poll_side(struct sr_side *side)
{
    struct fi_cq_data_entry entry;
    ssize_t n = fi_cq_read(side->cq, &entry, 1);

    if (n == 1) {
        side->last = entry;
        side->done[side->ndone++ % 1024] = entry.op_context;
    } else if (n == -FI_EAVAIL && fi_cq_readerr(side->cq, &side->error, 0) == 1) {
        side->done[side->ndone++ % 1024] = side->error.op_context;
        side->nerrors++;
    } else {
        cr_assert(n == -FI_EAGAIN, "fi_cq_read: %zd", n);
    }
}

void sr_poll(struct sr_rig *rig)
{
    poll_side(&rig->a);
    poll_side(&rig->b);
}

void sr_wait(struct sr_rig *rig, const struct sr_side *side, unsigned n)
{
    unsigned rounds;

    for (rounds = 0; side->ndone < n; rounds++) {
        cr_assert_lt(rounds, SR_ROUNDS, "%u of %u completions", side->ndone, n);
        sr_poll(rig);
    }
}

ssize_t sr_send(struct sr_side *side, unsigned slot, size_t at, size_t bytes, uint64_t flags)
{
    struct iovec iov = { side->memory + at, bytes };
    void *desc = side->mr == NULL ? NULL : fi_mr_desc(side->mr);
    const struct fi_msg msg = { .msg_iov = &iov,
                                .desc = &desc,
                                .iov_count = 1,
                                .addr = side->peer,
                                .context = &side->slot[slot] };

    return fi_sendmsg(side->ep, &msg, flags);
}

ssize_t sr_recv(struct sr_side *side, unsigned slot, size_t at, size_t bytes)
{
    return fi_recv(side->ep, side->memory + at, bytes, fi_mr_desc(side->mr), FI_ADDR_UNSPEC,
                   &side->slot[slot]);
}

ssize_t sr_rma(struct sr_side *side, bool is_write, unsigned slot, size_t at, size_t bytes,
               const struct sr_side *peer, size_t peer_at, uint64_t flags)
{
    struct iovec iov = { side->memory + at, bytes };
    struct fi_rma_iov rma = { (uintptr_t)peer->memory + peer_at, bytes, fi_mr_key(peer->mr) };
    void *desc = fi_mr_desc(side->mr);
    const struct fi_msg_rma msg = { .msg_iov = &iov,
                                    .desc = &desc,
                                    .iov_count = 1,
                                    .addr = side->peer,
                                    .rma_iov = &rma,
                                    .rma_iov_count = 1,
                                    .context = &side->slot[slot],
                                    .data = slot };

    return is_write ? fi_writemsg(side->ep, &msg, flags) : fi_readmsg(side->ep, &msg, flags);
}

void sr_expect(struct sr_rig *rig, uint64_t violations, const char *text)
{
    const char *last = rig->api->violation();

    cr_assert_eq(rig->api->counts()->violations, violations, "%llu violations, the last: %s",
                 (unsigned long long)rig->api->counts()->violations, last);
    cr_assert(violations == 0 || strstr(last, text) != NULL, "not '%s' but: %s", text, last);
}
