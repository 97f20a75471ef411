/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract: a peer that is gone. Every op ends once, with PEER where it had not finished; the
 * error text names endpoint and cause; short calls fail with the same status; the process goes on.
 */
#include "contract_list.h"

#include <stdlib.h>
#include <string.h>

#define DOOMED 2000

/* The text of a short call's failure names the endpoint and the cause. */
static void check_text(const struct fab_ep *ep, const char *label)
{
    const char *text = orl_last_error();

    ct_check(ep->cause[0] != '\0', "a failed endpoint has no cause");
    ct_check(strstr(text, ep->cause) != NULL, "the error \"%s\" does not give the cause", text);
    ct_check(strstr(text, label) != NULL, "the error \"%s\" does not name %s", text, label);
}

static void check_dead(struct ct_rig *rig, const struct fab_rkey *key, const char *label)
{
    struct ct_tally tally = { 0 };
    struct ct_op op;
    struct ct_mem src;
    int rc;

    if (!ct_mem_open(rig, CT_AT_A, 64, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    ct_check(atomic_load(&rig->ab->state) == FAB_EP_FAILED, "the endpoint has not failed");
    ct_check(rig->ab->status == ORL_ERR_PEER, "the endpoint's status is %s",
             orl_status_name(rig->ab->status));
    ct_op_put(&op, &tally, key, 0, &src, 0, 8);
    ct_check(ct_do(rig, rig->ab, &op) == ORL_ERR_PEER, "a put to a dead peer gives %s",
             orl_status_name(op.status));
    ct_check(ct_flush_wait(rig, rig->ab) == ORL_ERR_PEER, "a flush to a dead peer does not say so");
    orl_last_error_clear();
    rc = ct_send_short(rig, rig->ab, CT_MSG_B, 0, src.base, 8);
    ct_check(rc == ORL_ERR_PEER, "send_short to a dead peer gives %s", orl_status_name(rc));
    check_text(rig->ab, label);
    rc = ct_put_short(rig, rig->ab, key, 0, src.base, 8);
    ct_check(rc == ORL_ERR_PEER, "put_short to a dead peer gives %s", orl_status_name(rc));
    ct_mem_close(&src);
}

/* Sends, puts, gets and a flush now and then. */
static void post_doomed(struct ct_rig *rig, struct ct_op *op, struct ct_tally *tally,
                        const struct fab_rkey *key, const struct ct_mem *src, size_t i)
{
    size_t bytes = rig->a.engine->limits.send_max < 4096 ? 200 : 4096;

    if (i % 5 == 4) {
        ct_op_flush(op, tally);
    } else if (i % 5 == 3) {
        ct_op_put(op, tally, key, i * 8, src, 0, 8);
    } else if (i % 5 == 2) {
        ct_op_get(op, tally, key, i * 8, src, 8192, 2000);
    } else {
        ct_op_send(op, tally, CT_MSG_B, ct_header(0, i, bytes), src, 0, bytes);
    }
    ct_post(rig->ab, op);
}

static void check_statuses(const struct ct_op *op, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        ct_check(op[i].times == 1, "an op to a dead peer was done %u times", op[i].times);
        ct_check(op[i].status == 0 || op[i].status == ORL_ERR_PEER, "an op to a dead peer: %s",
                 orl_status_name(op[i].status));
    }
}

/* The layer above has found the peer gone. */
void ct_fail_told(struct ct_rig *rig)
{
    struct ct_op *op = calloc(DOOMED, sizeof *op);
    struct ct_tally tally = { 0 };
    struct ct_mem mem;
    struct ct_mem src;
    size_t i;

    if (!ct_check(op != NULL, "no memory") ||
        !ct_mem_open(rig, CT_AT_B, 64 * CT_KIB, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, 64 * CT_KIB, FAB_ACCESS_LOCAL, &src)) {
        free(op);
        return;
    }
    atomic_store(&rig->b_sleeps, true);
    for (i = 0; i < DOOMED; i++) {
        if (i % 5 < 2) {
            ct_op_flush(&op[i], &tally); /* no messages: their handler would judge the gaps */
            ct_post(rig->ab, &op[i]);
        } else {
            post_doomed(rig, &op[i], &tally, &mem.key, &src, i);
        }
    }
    fab_ep_peer_gone(rig->ab, "lease is over");
    fab_ep_peer_gone(rig->ab, "a second cause");
    atomic_store(&rig->b_sleeps, false);
    (void)ct_wait(rig, &tally);
    check_statuses(op, DOOMED);
    check_dead(rig, &mem.key, "rank 1 on b");
    ct_check(strstr(rig->ab->cause, "lease is over") != NULL, "the first cause is lost: %s",
             rig->ab->cause);
    ct_check(atomic_load(&rig->ab2->state) == FAB_EP_READY, "another endpoint failed too");
    ct_mem_close(&mem);
    ct_mem_close(&src);
    free(op);
}

struct doomed_wait {
    struct ct_rig *rig;
    struct ct_tally *tally;
    struct ct_op *probe;
    struct ct_mem *src;
};

/* Keep asking with small ops until the endpoint has noticed. */
static bool has_noticed(void *arg)
{
    struct doomed_wait *wait = arg;

    if (wait->tally->done == wait->tally->posted &&
        atomic_load(&wait->rig->ab->state) != FAB_EP_FAILED && ct_is_fine()) {
        ct_op_send(wait->probe, wait->tally, CT_MSG_B, ct_header(0, 0, 0), wait->src, 0, 0);
        ct_post(wait->rig->ab, wait->probe);
    }
    return wait->tally->done == wait->tally->posted &&
           atomic_load(&wait->rig->ab->state) == FAB_EP_FAILED;
}

/* Post nops ops and kill the peer when `when` of them are out. */
static void killed(struct ct_rig *rig, enum ct_peer_mode mode, size_t nops, size_t when)
{
    const struct ct_row *row = rig->row;
    struct ct_op *op = calloc(nops + 1, sizeof *op);
    struct ct_tally tally = { 0 };
    struct ct_mem mem;
    struct ct_mem src;
    struct doomed_wait wait = { rig, &tally, op + nops, &src };
    size_t i;

    ct_peer_open(rig, row, mode, 64 * CT_KIB, &mem);
    if (!ct_check(op != NULL, "no memory") || !ct_is_fine() ||
        !ct_mem_open(rig, CT_AT_A, 64 * CT_KIB, FAB_ACCESS_LOCAL, &src)) {
        free(op);
        return;
    }
    for (i = 0; i < nops; i++) {
        post_doomed(rig, &op[i], &tally, &mem.key, &src, i);
        if (i % 16 == 0) {
            (void)ct_progress(rig);
        }
        if (i == when) {
            ct_peer_kill(rig);
        }
    }
    if (when >= nops) {
        ct_peer_kill(rig);
    }
    ct_check(ct_until(rig, has_noticed, &wait), "ops to a killed peer never end: %u of %u",
             tally.posted - tally.done, tally.posted);
    check_statuses(op, nops);
    check_dead(rig, &mem.key, "rank 1 on b");
    ct_mem_close(&src);
    ct_peer_close(rig, &mem);
    free(op);
}

/* covers: R6 E19 */
void ct_fail_killed(struct ct_rig *rig)
{
    static const size_t moments[] = { 0, 1, 40, DOOMED / 2, DOOMED };
    size_t i;

    for (i = 0; i < sizeof moments / sizeof moments[0] && ct_is_fine(); i++) {
        killed(rig, CT_PEER_POLLS, DOOMED, moments[i]);
    }
}

void ct_fail_killed_asleep(struct ct_rig *rig)
{
    killed(rig, CT_PEER_SLEEPS, DOOMED, DOOMED / 2);
}

void ct_fail_killed_idle(struct ct_rig *rig)
{
    killed(rig, CT_PEER_POLLS, 0, 0);
}
