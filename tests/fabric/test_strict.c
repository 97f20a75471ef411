/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The provider `strict` by itself: each breach of the contract is caught. What is not offered and
 * what it does on command is in test_strict_offer.c, what it does to those who keep the contract is
 * in test_strict_shape.c.
 */
/* covers: OFI-04 OFI-05 */
#include "tests/fabric/strict_rig.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>

static struct sr_rig rig;

static void open_mild(void)
{
    sr_setting("EAGAIN", "0");
    sr_setting("DEPTH", "4");
    sr_open(&rig);
}

TestSuite(strict, .init = open_mild, .timeout = 60);

/* Polling on shows what comes late. */
static void poll_long(void)
{
    int i;

    for (i = 0; i < 1000; i++) {
        sr_poll(&rig);
    }
}

/* ---------------------------------------------------------------- contexts */

Test(strict, context_missing)
{
    cr_assert_eq(fi_send(rig.a.ep, rig.a.memory, 8, fi_mr_desc(rig.a.mr), rig.a.peer, NULL),
                 -FI_EINVAL);
    sr_expect(&rig, 1, "without a context");
    cr_assert_eq(fi_recv(rig.a.ep, rig.a.memory, 8, fi_mr_desc(rig.a.mr), FI_ADDR_UNSPEC, NULL),
                 -FI_EINVAL);
    sr_expect(&rig, 2, "without a context");
    sr_close(&rig);
}

Test(strict, context_reused)
{
    cr_assert_eq(sr_recv(&rig.b, 0, 0, 64), 0);
    cr_assert_eq(sr_recv(&rig.b, 0, 64, 64), -FI_EINVAL);
    sr_expect(&rig, 1, "in use already");
    cr_assert_eq(fi_recv(rig.b.ep, rig.b.memory, 8, fi_mr_desc(rig.b.mr), FI_ADDR_UNSPEC,
                         (char *)&rig.b.slot[0] + 32),
                 -FI_EINVAL);
    sr_expect(&rig, 2, "in use already");
    sr_close(&rig);
}

/* covers: G15 */
Test(strict, context_written)
{
    cr_assert_eq(sr_recv(&rig.b, 0, 0, 64), 0);
    memset((char *)&rig.b.slot[0] + 60, 0, 4);
    cr_assert_eq(sr_send(&rig.a, 0, 0, 8, FI_COMPLETION), 0);
    sr_wait(&rig, &rig.b, 1);
    sr_expect(&rig, 1, "was written to");
    sr_close(&rig);
}

/* ---------------------------------------------------------------- memory here */

Test(strict, memory_without_descriptor)
{
    int dummy = 0;

    cr_assert_eq(fi_send(rig.a.ep, rig.a.memory, 8, NULL, rig.a.peer, &rig.a.slot[0]), -FI_EINVAL);
    sr_expect(&rig, 1, "no registration");
    cr_assert_eq(fi_recv(rig.a.ep, rig.a.memory, 8, &dummy, FI_ADDR_UNSPEC, &rig.a.slot[0]),
                 -FI_EINVAL);
    sr_expect(&rig, 2, "no registration");
    /* the descriptor of another domain */
    cr_assert_eq(
        fi_send(rig.a.ep, rig.a.memory, 8, fi_mr_desc(rig.b.mr), rig.a.peer, &rig.a.slot[0]),
        -FI_EINVAL);
    sr_expect(&rig, 3, "no registration");
    sr_close(&rig);
}

Test(strict, memory_out_of_bounds)
{
    cr_assert_eq(sr_send(&rig.a, 0, SR_BYTES - 4, 8, FI_COMPLETION), -FI_EINVAL);
    sr_expect(&rig, 1, "with the registration of");
    sr_close(&rig);
}

Test(strict, memory_for_another_use)
{
    struct fid_mr *mr;

    cr_assert_eq(fi_mr_reg(rig.a.domain, rig.a.memory, 64, FI_RECV, 0, 0, 0, &mr, NULL), 0);
    cr_assert_eq(fi_send(rig.a.ep, rig.a.memory, 8, fi_mr_desc(mr), rig.a.peer, &rig.a.slot[0]),
                 -FI_EINVAL);
    sr_expect(&rig, 1, "not made for it");
    cr_assert_eq(fi_close(&mr->fid), 0);
    sr_close(&rig);
}

Test(strict, memory_ended_in_use)
{
    cr_assert_eq(sr_recv(&rig.b, 0, 0, 64), 0);
    cr_assert_eq(fi_close(&rig.b.mr->fid), 0);
    rig.b.mr = NULL;
    sr_expect(&rig, 1, "ended under 1 operations");
}

Test(strict, memory_that_is_not_there)
{
    unsigned char *hole = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct fid_mr *mr;

    cr_assert_eq(munmap(hole + 4096, 4096), 0);
    cr_assert_eq(fi_mr_reg(rig.a.domain, hole, 8192, FI_SEND, 0, 0, 0, &mr, NULL), -FI_EFAULT);
    sr_expect(&rig, 1, "no memory is");
    sr_close(&rig);
}

Test(strict, registration_refused)
{
    struct fid_mr *mr[6];
    unsigned refused = 0;
    int i;

    cr_assert(rig.api->set("REG_FAIL", 3));
    for (i = 0; i < 6; i++) {
        int rc = fi_mr_reg(rig.a.domain, rig.a.memory, 64, FI_SEND, 0, 0, 0, &mr[i], NULL);

        cr_assert(rc == 0 || rc == -FI_ENOMEM);
        refused += rc != 0;
        if (rc == 0) {
            cr_assert_eq(fi_close(&mr[i]->fid), 0);
        }
    }
    cr_assert_eq(refused, 2);
    sr_expect(&rig, 0, "");
    sr_close(&rig);
}

/* ---------------------------------------------------------------- memory there */

static void expect_error(int provider_errno)
{
    sr_wait(&rig, &rig.a, 1);
    cr_assert_eq(rig.a.nerrors, 1);
    cr_assert_eq(rig.a.error.err, FI_EIO);
    cr_assert_eq(rig.a.error.prov_errno, provider_errno);
    cr_assert_eq(rig.a.error.op_context, &rig.a.slot[0]);
}

Test(strict, key_of_other_memory)
{
    cr_assert_eq(sr_rma(&rig.a, true, 0, 0, 64, &rig.b, SR_BYTES - 32, FI_DELIVERY_COMPLETE), 0);
    expect_error(7);
    sr_expect(&rig, 1, "a peer used the key");
    sr_close(&rig);
}

Test(strict, key_for_another_use)
{
    struct fid_mr *mr = rig.b.mr;

    cr_assert_eq(
        fi_mr_reg(rig.b.domain, rig.b.memory, 64, FI_REMOTE_READ, 0, 0, 0, &rig.b.mr, NULL), 0);
    cr_assert_eq(sr_rma(&rig.a, true, 0, 0, 64, &rig.b, 0, FI_DELIVERY_COMPLETE), 0);
    expect_error(7);
    sr_expect(&rig, 1, "a peer used the key");
    cr_assert_eq(fi_close(&mr->fid), 0);
    sr_close(&rig);
}

/* An ended registration is no breach: it is what revoking is for. */
Test(strict, key_ended)
{
    struct fid_mr *mr = rig.b.mr;
    struct fid_mr dead = *mr;

    cr_assert_eq(fi_close(&mr->fid), 0);
    rig.b.mr = &dead;
    cr_assert_eq(sr_rma(&rig.a, false, 0, 0, 64, &rig.b, 0, 0), 0);
    rig.b.mr = NULL;
    expect_error(7);
    sr_expect(&rig, 0, "");
    cr_assert_eq(rig.api->counts()->refused, 1);
    sr_close(&rig);
}

Test(strict, initiator_unknown_at_target)
{
    cr_assert_eq(fi_av_remove(rig.b.av, &rig.b.peer, 1, 0), 0);
    memset(rig.a.memory, 7, 64);
    cr_assert_eq(sr_rma(&rig.a, true, 0, 0, 64, &rig.b, SR_HALF, FI_DELIVERY_COMPLETE), 0);
    expect_error(14);
    cr_assert_eq(rig.b.memory[SR_HALF], 0);
    /* a message needs no entry, and says that there is none */
    cr_assert_eq(sr_recv(&rig.b, 0, 0, 64), 0);
    cr_assert_eq(sr_send(&rig.a, 1, 0, 64, FI_COMPLETION), 0);
    sr_wait(&rig, &rig.b, 1);
    cr_assert_eq(rig.b.nerrors, 0);
    sr_wait(&rig, &rig.a, 2);
    /* known again, it works */
    sr_meet(&rig);
    cr_assert_eq(sr_rma(&rig.a, true, 0, 0, 64, &rig.b, SR_HALF, FI_DELIVERY_COMPLETE), 0);
    sr_wait(&rig, &rig.a, 3);
    cr_assert_eq(rig.a.nerrors, 1);
    cr_assert_eq(rig.b.memory[SR_HALF], 7);
    sr_expect(&rig, 0, "");
    sr_close(&rig);
}

/* ---------------------------------------------------------------- sizes and shapes */

Test(strict, too_large)
{
    struct iovec iov[2] = { { rig.a.memory, 8 }, { rig.a.memory + 8, 8 } };
    void *desc[2] = { fi_mr_desc(rig.a.mr), fi_mr_desc(rig.a.mr) };

    cr_assert_eq(sr_send(&rig.a, 0, 0, 4097, FI_COMPLETION), -FI_EMSGSIZE);
    sr_expect(&rig, 1, "where at most 4096 go");
    cr_assert_eq(sr_rma(&rig.a, false, 0, 0, 4097, &rig.b, 0, 0), -FI_EMSGSIZE);
    sr_expect(&rig, 2, "where at most 4096 go");
    cr_assert_eq(fi_writev(rig.a.ep, iov, desc, 2, rig.a.peer, (uintptr_t)rig.b.memory,
                           fi_mr_key(rig.b.mr), &rig.a.slot[0]),
                 -FI_EINVAL);
    sr_expect(&rig, 3, "of 2 pieces");
    cr_assert_eq(fi_writedata(rig.a.ep, rig.a.memory, 8, desc[0], UINT64_C(1) << 32, rig.a.peer,
                              (uintptr_t)rig.b.memory, fi_mr_key(rig.b.mr), &rig.a.slot[0]),
                 -FI_EINVAL);
    sr_expect(&rig, 4, "of which 4 bytes go");
    sr_close(&rig);
}

Test(strict, receive_too_small)
{
    cr_assert_eq(sr_recv(&rig.b, 0, 0, 32), 0);
    cr_assert_eq(sr_send(&rig.a, 0, 0, 64, FI_DELIVERY_COMPLETE), 0);
    sr_wait(&rig, &rig.b, 1);
    sr_wait(&rig, &rig.a, 1);
    cr_assert_eq(rig.b.error.err, FI_ETRUNC);
    cr_assert_eq(rig.a.nerrors, 1);
    sr_close(&rig);
}

Test(strict, address_not_in_the_table)
{
    rig.a.peer = 5;
    cr_assert_eq(sr_send(&rig.a, 0, 0, 8, FI_COMPLETION), -FI_EINVAL);
    sr_expect(&rig, 1, "not in the table");
    cr_assert_eq(fi_av_remove(rig.a.av, &rig.a.peer, 1, 0), -FI_EINVAL);
    sr_expect(&rig, 2, "is removed and is not in");
    sr_close(&rig);
}

Test(strict, address_removed_in_use)
{
    cr_assert_eq(sr_send(&rig.a, 0, 0, 8, FI_DELIVERY_COMPLETE), 0);
    cr_assert_eq(fi_av_remove(rig.a.av, &rig.a.peer, 1, 0), 0);
    sr_expect(&rig, 1, "removed under 1 operations");
    sr_close(&rig);
}

Test(strict, queue_overrun)
{
    unsigned i;

    sr_side_close(&rig.b);
    sr_side_open(&rig, &rig.b, 2);
    cr_assert_eq(fi_mr_reg(rig.b.domain, rig.b.memory, SR_BYTES, FI_RECV, 0, 0, 0, &rig.b.mr, NULL),
                 0);
    sr_meet(&rig);
    for (i = 0; i < 3; i++) {
        cr_assert_eq(sr_recv(&rig.b, i, 0, 64), 0);
    }
    cr_assert_gt(rig.api->counts()->tight, 0);
    cr_assert(rig.api->set("REORDER", 0));
    for (i = 0; i < 3; i++) {
        cr_assert_eq(sr_send(&rig.a, i, 0, 8, FI_DELIVERY_COMPLETE), 0);
    }
    /* b's queue is moved, by empty reads, and not read */
    for (i = 0; i < SR_ROUNDS && rig.api->counts()->violations == 0; i++) {
        (void)fi_cq_read(rig.a.cq, NULL, 0);
        (void)fi_cq_read(rig.b.cq, NULL, 0);
    }
    sr_expect(&rig, 1, "of 2 entries is overrun");
}

Test(strict, more_and_nothing_after)
{
    int i;

    cr_assert_eq(sr_recv(&rig.b, 0, 0, 64), 0);
    cr_assert_eq(sr_send(&rig.a, 0, 0, 8, FI_COMPLETION | FI_MORE), 0);
    poll_long();
    cr_assert_eq(rig.b.ndone, 0, "it went without a doorbell");
    cr_assert_eq(rig.api->counts()->posts, 1);
    cr_assert_eq(rig.api->counts()->doorbells, 0);
    for (i = 0; i < 20; i++) {
        poll_long();
    }
    sr_expect(&rig, 1, "nothing after it");
    cr_assert_eq(sr_recv(&rig.b, 1, 0, 64), 0);
    cr_assert_eq(sr_send(&rig.a, 1, 0, 8, FI_COMPLETION), 0);
    sr_wait(&rig, &rig.b, 2);
    cr_assert_eq(rig.api->counts()->doorbells, 1);
    sr_close(&rig);
}
