/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large transfers, the target's side. A pull reads into the registration it names and is done in
 * its turn; of two that overlap the second waits for the first. A loan keeps a registration in use
 * until it is returned. A registration that ends while it is in use ends all reads with it, both
 * ways: closing the bulk endpoint is what makes that sure.
 */
#include <stdlib.h>

#include "fabric/ofi/ofi.h"

#define LOANS_MOST 64 /* of a half */

void ofi_half_large_init(struct ofi_half *half)
{
    orl_list_init(&half->bulk.pulls);
    orl_list_init(&half->bulk.loans);
}

static struct ofi_large *first_of(const struct orl_list *list)
{
    struct orl_list *head = orl_list_head(list);

    return head == NULL ? NULL : container_of(head, struct ofi_large, of);
}

uint32_t ofi_half_done(const struct ofi_half *half)
{
    const struct ofi_large *first = first_of(&half->bulk.pulls);

    return first == NULL ? half->next : first->seq;
}

/* ---------------------------------------------------------------- registrations in use */

/* Register it with the provider where that is not done. */
static int lend(struct ofi_engine *ofi, struct ofi_reg *reg)
{
    bool is_readable = (reg->access & FAB_ACCESS_REMOTE_READ) != 0;
    bool is_needed = is_readable || (ofi->info->domain_attr->mr_mode & FI_MR_LOCAL) != 0;

    if (reg->lent != NULL && (reg->lent->mr != NULL || !is_needed)) {
        return 0;
    }
    if (reg->lent == NULL) {
        reg->lent = calloc(1, sizeof(*reg->lent));
        if (reg->lent == NULL) {
            return ORL_ERR_NOMEM;
        }
        orl_list_init(&reg->lent->all);
    }
    orl_list_del(&reg->lent->all);
    return ofi_lend(ofi, reg->base, reg->bytes, FI_READ | (is_readable ? FI_REMOTE_READ : 0),
                    reg->lent);
}

/* The registration that was found good is in use from now on; OFI_BY_MESSAGES: it cannot be. */
static int use(struct ofi_engine *ofi, struct ofi_large *large)
{
    struct ofi_reg *reg = ofi_reg_find(ofi, large->body.slot, large->body.gen);
    const struct ofi_bulk *bulk = ofi->bulk;

    if (bulk->ep == NULL || large->body.mine != large->peer->far.gen ||
        large->body.yours != bulk->gen || lend(ofi, reg) != 0) {
        return OFI_BY_MESSAGES;
    }
    reg->users++;
    large->to = reg->base + large->body.offset;
    large->desc = reg->lent->mr == NULL ? NULL : fi_mr_desc(reg->lent->mr);
    large->is_using = true;
    return 0;
}

static void unuse(struct ofi_engine *ofi, struct ofi_large *large)
{
    struct ofi_reg *reg = ofi_reg_find(ofi, large->body.slot, large->body.gen);

    if (reg != NULL && large->is_using) {
        reg->users--;
    }
    large->is_using = false;
}

void ofi_reg_end_use(struct ofi_engine *ofi, struct ofi_reg *reg)
{
    if (reg->users != 0) {
        ofi_bulk_reset(ofi);
        reg->users = 0;
    }
    if (reg->lent != NULL) {
        ofi_unlend(reg->lent);
        free(reg->lent);
        reg->lent = NULL;
    }
}

void ofi_regs_unlend(struct ofi_regs *regs)
{
    for (uint32_t i = 0; i < regs->used; i++) {
        if (regs->at[i].lent != NULL) {
            ofi_unlend(regs->at[i].lent);
            free(regs->at[i].lent);
            regs->at[i].lent = NULL;
        }
    }
}

/* ---------------------------------------------------------------- pulls */

static int check_pull(struct ofi_engine *ofi, const struct ofi_half *half,
                      const struct ofi_large_body *body)
{
    const struct ofi_reg *reg = ofi_reg_find(ofi, body->slot, body->gen);
    int status = ofi_access_check(reg, FAB_ACCESS_REMOTE_WRITE, body->offset, body->bytes);

    if (status == 0 && body->notifies != 0) {
        status = ofi_access_check(reg, FAB_ACCESS_REMOTE_WRITE, body->other, sizeof(uint64_t));
        if (status == 0 && ((uintptr_t)reg->base + body->other) % sizeof(uint64_t) != 0) {
            status = ORL_ERR_INVAL;
        }
    }
    if (status == 0 && half->bulk.refused_epoch == body->epoch + 1) {
        status = OFI_BY_MESSAGES;
    }
    return status;
}

static void refuse(struct ofi_half *half, uint32_t seq, uint32_t epoch, int status)
{
    struct ofi_debt debt = { .kind = OFI_KIND_REFUSAL, .status = status, .number = seq };

    if (status == OFI_BY_MESSAGES) {
        half->bulk.refused_epoch = epoch + 1;
    }
    half->refused++;
    ofi_owe(half, &debt);
}

/* The turn of one has come that is through. */
static void finish(struct ofi_engine *ofi, struct ofi_large *large)
{
    struct ofi_half *half = large->half;
    const struct ofi_large_body *body = &large->body;
    const struct ofi_reg *reg = ofi_reg_find(ofi, body->slot, body->gen);
    int status = large->status;

    if (status == OFI_BY_MESSAGES || status == 0) {
        status = reg == NULL                                   ? ORL_ERR_GONE
                 : half->bulk.refused_epoch == body->epoch + 1 ? OFI_BY_MESSAGES
                                                               : status;
    }
    if (status == 0 && body->notifies != 0) {
        (void)fab_amo_apply(reg->base + body->other, FAB_AMO_ADD, 8, body->operand, 0);
    }
    unuse(ofi, large);
    half->bulk.npulls--;
    half->held--;
    if (status != 0) {
        refuse(half, large->seq, body->epoch, status);
    }
    ofi_large_free(ofi, large);
}

static bool overlaps(const struct ofi_large *a, const struct ofi_large *b)
{
    return a->to < b->to + b->bytes && b->to < a->to + a->bytes;
}

/* Whether one before it in the list must be through first. */
static bool must_wait(const struct ofi_half *half, const struct ofi_large *large)
{
    struct orl_list *it;

    for (it = half->bulk.pulls.next; it != &large->of; it = it->next) {
        const struct ofi_large *earlier = container_of(it, struct ofi_large, of);

        if (!earlier->is_over && overlaps(earlier, large)) {
            return true;
        }
    }
    return false;
}

static void settle(struct ofi_engine *ofi, struct ofi_half *half)
{
    struct ofi_large *large;
    struct orl_list *it;

    while ((large = first_of(&half->bulk.pulls)) != NULL && large->is_over) {
        finish(ofi, large);
    }
    orl_list_each(it, &half->bulk.pulls) {
        large = container_of(it, struct ofi_large, of);
        if (large->is_over || large->has_begun) {
            continue;
        }
        if (must_wait(half, large)) {
            break;
        }
        ofi_haul_begin(ofi, large);
    }
    ofi_half_owes(ofi, half);
}

void ofi_serve_pull(struct ofi_engine *ofi, struct ofi_half *half,
                    const struct ofi_large_body *body)
{
    struct ofi_large *large = ofi_bulk_open(ofi) ? ofi_large_new(ofi, half->peer) : NULL;
    int status = check_pull(ofi, half, body);

    if (large == NULL) {
        refuse(half, half->next, body->epoch, status != 0 ? status : OFI_BY_MESSAGES);
        return;
    }
    large->half = half;
    large->body = *body;
    large->bytes = body->bytes;
    large->from = body->from;
    large->key = body->key;
    large->seq = half->next;
    large->status = status != 0 ? status : use(ofi, large);
    large->is_over = large->status != 0;
    orl_list_add_tail(&half->bulk.pulls, &large->of);
    half->bulk.npulls++;
    half->held++;
    settle(ofi, half);
}

void ofi_pull_over(struct ofi_engine *ofi, struct ofi_large *large, int status)
{
    large->is_over = true;
    large->status = status;
    settle(ofi, large->half);
}

/* ---------------------------------------------------------------- loans */

static int make_loan(struct ofi_engine *ofi, struct ofi_half *half,
                     const struct ofi_large_body *body, struct ofi_debt *debt)
{
    const struct ofi_reg *reg = ofi_reg_find(ofi, body->slot, body->gen);
    int status = ofi_access_check(reg, FAB_ACCESS_REMOTE_READ, body->offset, body->bytes);
    struct ofi_large *large;

    if (status != 0) {
        return status;
    }
    if (half->bulk.nloans >= LOANS_MOST || !ofi_bulk_open(ofi) ||
        (large = ofi_large_new(ofi, half->peer)) == NULL) {
        return OFI_BY_MESSAGES;
    }
    large->half = half;
    large->body = *body;
    status = use(ofi, large);
    if (status != 0) {
        ofi_large_free(ofi, large);
        return status;
    }
    large->id = ++half->bulk.last_loan;
    half->bulk.nloans++;
    orl_list_add_tail(&half->bulk.loans, &large->of);
    debt->is_grant = true;
    debt->slot = large->id;
    debt->offset = ofi_lent_address(ofi, reg->base, body->offset);
    debt->value = fi_mr_key(reg->lent->mr);
    return 0;
}

void ofi_serve_borrow(struct ofi_engine *ofi, struct ofi_half *half,
                      const struct ofi_large_body *body)
{
    struct ofi_debt debt = { .kind = OFI_KIND_ANSWER,
                             .number = body->request,
                             .serial = body->serial };

    debt.status = make_loan(ofi, half, body, &debt);
    ofi_owe(half, &debt);
}

static void end_loan(struct ofi_engine *ofi, struct ofi_large *large)
{
    large->half->bulk.nloans--;
    unuse(ofi, large);
    ofi_large_free(ofi, large);
}

void ofi_on_return(struct ofi_engine *ofi, uint32_t id, uint32_t loan)
{
    struct ofi_half *half = ofi_table_get(&ofi->halves, id);
    struct orl_list *it;

    if (half == NULL) {
        return;
    }
    orl_list_each(it, &half->bulk.loans) {
        struct ofi_large *large = container_of(it, struct ofi_large, of);

        if (large->id == loan) {
            end_loan(ofi, large);
            return;
        }
    }
}

/* ---------------------------------------------------------------- the end of a half */

static bool is_reading(const struct ofi_half *half)
{
    struct orl_list *it;

    orl_list_each(it, &half->bulk.pulls) {
        if (container_of(it, struct ofi_large, of)->under_way != 0) {
            return true;
        }
    }
    return false;
}

void ofi_half_large_end(struct ofi_engine *ofi, struct ofi_half *half)
{
    struct ofi_large *large;

    if (is_reading(half)) {
        ofi_bulk_reset(ofi);
    }
    while ((large = first_of(&half->bulk.pulls)) != NULL) {
        unuse(ofi, large);
        ofi_large_free(ofi, large);
    }
    while ((large = first_of(&half->bulk.loans)) != NULL) {
        end_loan(ofi, large);
    }
}
