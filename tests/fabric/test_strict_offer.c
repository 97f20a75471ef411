/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The provider `strict` by itself: what it offers to whom, what it refuses, and what a test may
 * command.
 */
#include "tests/fabric/strict_rig.h"

#include <criterion/criterion.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_tagged.h>

static struct sr_rig rig;

static void open_mild(void)
{
    sr_setting("EAGAIN", "0");
    sr_setting("DEPTH", "4");
    sr_open(&rig);
}

TestSuite(strict_offer, .init = open_mild, .timeout = 60);

/* ---------------------------------------------------------------- not offered */

Test(strict_offer, not_offered)
{
    const struct strict_counts *counts = rig.api->counts();

    cr_assert_eq(fi_cancel(&rig.a.ep->fid, &rig.a.slot[0]), -FI_EOPNOTSUPP);
    cr_assert_eq(fi_inject(rig.a.ep, rig.a.memory, 8, rig.a.peer), -FI_EOPNOTSUPP);
    cr_assert_eq(fi_inject_write(rig.a.ep, rig.a.memory, 8, rig.a.peer, 0, 0), -FI_EOPNOTSUPP);
    cr_assert_eq(fi_tsend(rig.a.ep, rig.a.memory, 8, NULL, rig.a.peer, 1, &rig.a.slot[0]),
                 -FI_EOPNOTSUPP);
    cr_assert_eq(fi_atomic(rig.a.ep, rig.a.memory, 1, NULL, rig.a.peer, 0, 0, FI_UINT64, FI_SUM,
                           &rig.a.slot[0]),
                 -FI_EOPNOTSUPP);
    cr_assert_eq(fi_compare_atomicvalid(rig.a.ep, FI_UINT64, FI_CSWAP, NULL), -FI_EOPNOTSUPP);
    cr_assert_eq(sr_send(&rig.a, 0, 0, 8, FI_FENCE), -FI_EOPNOTSUPP);
    cr_assert_eq(counts->unsupported, 7);
    sr_expect(&rig, 0, "");
    sr_close(&rig);
}

static bool is_offered(void (*change)(struct fi_info *hints))
{
    struct fi_info *hints = sr_hints();
    struct fi_info *info = NULL;
    int rc;

    change(hints);
    rc = fi_getinfo(FI_VERSION(1, 11), NULL, NULL, 0, hints, &info);
    fi_freeinfo(hints);
    fi_freeinfo(info);
    return rc == 0;
}

static void as_is(struct fi_info *hints)
{
    (void)hints;
}

static void no_context(struct fi_info *hints)
{
    hints->mode = FI_CONTEXT;
}

static void no_local(struct fi_info *hints)
{
    hints->domain_attr->mr_mode &= ~FI_MR_LOCAL;
}

static void atomics(struct fi_info *hints)
{
    hints->caps |= FI_ATOMIC;
}

static void tagged(struct fi_info *hints)
{
    hints->caps |= FI_TAGGED;
}

static void order(struct fi_info *hints)
{
    hints->tx_attr->msg_order = FI_ORDER_SAS;
}

static void deep(struct fi_info *hints)
{
    hints->tx_attr->size = 5;
}

Test(strict_offer, offers)
{
    cr_assert(is_offered(as_is));
    cr_assert_not(is_offered(no_context));
    cr_assert_not(is_offered(no_local));
    cr_assert_not(is_offered(atomics));
    cr_assert_not(is_offered(tagged));
    cr_assert_not(is_offered(order));
    cr_assert_not(is_offered(deep));
    sr_close(&rig);
}

/* ---------------------------------------------------------------- on command */

Test(strict_offer, peer_dropped)
{
    unsigned char address[64];
    size_t bytes = sizeof address;

    cr_assert_eq(fi_getname(&rig.b.ep->fid, address, &bytes), 0);
    cr_assert_eq(sr_send(&rig.a, 0, 0, 8, FI_DELIVERY_COMPLETE), 0);
    rig.api->drop(address, bytes);
    cr_assert_eq(sr_send(&rig.a, 1, 0, 8, FI_DELIVERY_COMPLETE), 0);
    sr_wait(&rig, &rig.a, 2);
    cr_assert_eq(rig.a.nerrors, 2);
    cr_assert_eq(rig.a.error.prov_errno, 13);
    sr_expect(&rig, 0, "");
    sr_close(&rig);
}

Test(strict_offer, peer_closed)
{
    cr_assert_eq(sr_recv(&rig.b, 0, 0, 64), 0);
    cr_assert_eq(sr_send(&rig.a, 0, 0, 8, FI_DELIVERY_COMPLETE), 0);
    sr_wait(&rig, &rig.a, 1);
    cr_assert_eq(fi_close(&rig.b.ep->fid), 0);
    rig.b.ep = NULL;
    cr_assert_eq(sr_rma(&rig.a, true, 1, 0, 8, &rig.b, 0, FI_DELIVERY_COMPLETE), 0);
    while (rig.a.ndone < 2) {
        sr_poll(&rig);
    }
    cr_assert_eq(rig.a.nerrors, 1);
    sr_expect(&rig, 0, "");
    sr_close(&rig);
}

Test(strict_offer, queue_fails)
{
    struct fi_cq_data_entry entry;

    cr_assert(rig.api->set("CQ_FAIL", 1));
    (void)fi_cq_read(rig.a.cq, &entry, 1);
    cr_assert_eq(fi_cq_read(rig.a.cq, &entry, 1), -FI_EIO);
    cr_assert_eq(fi_cq_read(rig.a.cq, &entry, 1), -FI_EIO);
    sr_close(&rig);
}
