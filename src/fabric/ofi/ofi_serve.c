/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target's side of an access: applied by this CPU, under tx, after a look at the registration,
 * so that none is under way when a release returns. Answers are debts of the half, at most one for
 * each message whose credit is not given back, and are paid as the provider has room; an
 * acknowledgement goes when nothing else does.
 */
#include <string.h>

#include "fabric/ofi/ofi.h"

static bool is_within(const struct ofi_reg *reg, uint64_t offset, uint64_t bytes)
{
    return offset <= reg->bytes && bytes <= reg->bytes - offset;
}

static bool is_aligned(const struct ofi_reg *reg, uint64_t offset, unsigned width)
{
    return ((uintptr_t)reg->base + offset) % width == 0;
}

void ofi_owe(struct ofi_half *half, const struct ofi_debt *debt)
{
    half->debt[(half->first_debt + half->ndebts) % OFI_WINDOW] = *debt;
    half->ndebts++;
    half->held++;
}

/* The origin has checked the same before: a difference is damage or malice. */
int ofi_access_check(const struct ofi_reg *reg, enum fab_access wanted, uint64_t offset,
                     uint64_t bytes)
{
    if (reg == NULL) {
        return ORL_ERR_GONE;
    }
    if ((reg->access & (unsigned)wanted) == 0) {
        return ORL_ERR_INVAL;
    }
    return is_within(reg, offset, bytes) ? 0 : ORL_ERR_RANGE;
}

static void serve_put(struct ofi_engine *ofi, struct ofi_half *half,
                      const struct ofi_access *access, bool notifies, const unsigned char *data,
                      size_t bytes)
{
    const struct ofi_reg *reg = ofi_reg_find(ofi, access->slot, access->gen);
    int status = ofi_access_check(reg, FAB_ACCESS_REMOTE_WRITE, access->offset, bytes);

    if (status == 0 && notifies) {
        status = ofi_access_check(reg, FAB_ACCESS_REMOTE_WRITE, access->other, sizeof(uint64_t));
        status = status == 0 && !is_aligned(reg, access->other, 8) ? ORL_ERR_INVAL : status;
    }
    if (status != 0) {
        struct ofi_debt debt = { .kind = OFI_KIND_REFUSAL, .status = status, .number = half->next };

        half->refused++;
        ofi_owe(half, &debt);
        return;
    }
    fab_put_apply(reg->base + access->offset, data, bytes);
    if (notifies) {
        (void)fab_amo_apply(reg->base + access->other, FAB_AMO_ADD, 8, access->operand, 0);
    }
}

static void serve_get(struct ofi_half *half, const struct ofi_access *access)
{
    struct ofi_debt debt = { .kind = OFI_KIND_ANSWER,
                             .number = access->request,
                             .serial = access->serial,
                             .slot = access->slot,
                             .gen = access->gen,
                             .offset = access->offset,
                             .length = access->length,
                             .is_get = true };

    ofi_owe(half, &debt);
}

static void serve_amo(struct ofi_engine *ofi, struct ofi_half *half,
                      const struct ofi_access *access)
{
    const struct ofi_reg *reg = ofi_reg_find(ofi, access->slot, access->gen);
    struct ofi_debt debt = { .kind = OFI_KIND_ANSWER,
                             .number = access->request,
                             .serial = access->serial };

    debt.status = ofi_access_check(reg, FAB_ACCESS_REMOTE_ATOMIC, access->offset, access->width);
    if (debt.status == 0 &&
        ((access->width != 4 && access->width != 8) || access->amo >= FAB_AMO_KINDS ||
         !is_aligned(reg, access->offset, access->width))) {
        debt.status = ORL_ERR_INVAL;
    }
    if (debt.status == 0) {
        debt.value = fab_amo_apply(reg->base + access->offset, (enum fab_amo)access->amo,
                                   access->width, access->operand, access->other);
    }
    ofi_owe(half, &debt);
}

void ofi_serve(struct ofi_engine *ofi, struct ofi_half *half, const struct ofi_piece *piece,
               const unsigned char *body)
{
    size_t bytes = ofi_wire_body(piece->kind);
    struct ofi_access access = { 0 };
    struct ofi_large_body large;

    if (piece->kind == OFI_KIND_PULL || piece->kind == OFI_KIND_BORROW) {
        memcpy(&large, body, sizeof(large));
        (piece->kind == OFI_KIND_PULL ? ofi_serve_pull : ofi_serve_borrow)(ofi, half, &large);
        return;
    }
    memcpy(&access, body, bytes);
    switch (piece->kind) {
    case OFI_KIND_PUT:
    case OFI_KIND_NOTIFY:
        serve_put(ofi, half, &access, piece->kind == OFI_KIND_NOTIFY, body + bytes,
                  piece->bytes - bytes);
        break;
    case OFI_KIND_GET:
        serve_get(half, &access);
        break;
    default:
        serve_amo(ofi, half, &access);
        break;
    }
}

/* ---------------------------------------------------------------- debts */

static int pay_one(struct ofi_engine *ofi, struct ofi_half *half)
{
    const struct ofi_debt *debt = &half->debt[half->first_debt];
    struct ofi_answer answer = { .ep = half->ep,
                                 .number = debt->number,
                                 .serial = debt->serial,
                                 .status = debt->status,
                                 .value = debt->value };
    struct ofi_parts parts = { .kind = debt->kind, .body = &answer, .body_bytes = sizeof(answer) };

    const struct ofi_grant grant = { .from = debt->offset, .key = debt->value, .loan = debt->slot };

    if (debt->is_grant) {
        parts.data = &grant;
        parts.data_bytes = sizeof(grant);
    }
    if (debt->is_get) {
        const struct ofi_reg *reg = ofi_reg_find(ofi, debt->slot, debt->gen);

        answer.status = ofi_access_check(reg, FAB_ACCESS_REMOTE_READ, debt->offset, debt->length);
        if (answer.status == 0 && debt->length > ofi->room - sizeof(answer)) {
            answer.status = ORL_ERR_RANGE;
        }
        if (answer.status == 0) {
            parts.data = reg->base + debt->offset;
            parts.data_bytes = debt->length;
        }
    }
    int status = ofi_append(ofi, half->peer, &parts);
    if (status != 0) {
        return status;
    }
    half->held--;
    half->first_debt = (half->first_debt + 1) % OFI_WINDOW;
    half->ndebts--;
    return 0;
}

/* What follows anyway is waited for, as long as that stops nobody. */
static bool has_news(const struct ofi_half *half)
{
    if (half->is_followed && !half->wants_ack && half->next - half->told_seq < OFI_WINDOW / 4) {
        return false;
    }
    return half->wants_ack || half->told_seq != ofi_half_done(half) ||
           half->told_limit != half->next + OFI_WINDOW - half->held;
}

/* What one half owes. False: no room for all of it. */
static bool pay_half(struct ofi_engine *ofi, struct ofi_half *half, int *events)
{
    struct ofi_header header = { .kind = OFI_KIND_ACK };

    /* What rides along is taken from the head of the peer's list: let it be this one. */
    orl_list_del(&half->owing);
    orl_list_add_head(&half->peer->owing, &half->owing);
    if (half->wants_welcome && ofi_say_welcome(ofi, half) != 0) {
        return false;
    }
    while (half->ndebts != 0) {
        if (pay_one(ofi, half) != 0) {
            return false;
        }
        (*events)++;
    }
    /* The acknowledgement rides on what is to go to the peer anyway. */
    if (ofi_send_open(ofi, half->peer) != 0) {
        return false;
    }
    if (has_news(half)) {
        if (ofi_send(ofi, half->peer, &header, NULL, 0) != 0) {
            return false;
        }
        (*events)++;
    }
    orl_list_del(&half->owing);
    orl_list_del(&half->engine_owing);
    return true;
}

int ofi_pay(struct ofi_engine *ofi)
{
    int events = 0;

    if (orl_list_is_empty(&ofi->owing)) {
        return 0;
    }
    orl_lock(&ofi->base.tx);
    for (int i = 0; i < OFI_EVENTS && !orl_list_is_empty(&ofi->owing); i++) {
        struct ofi_half *half = container_of(ofi->owing.next, struct ofi_half, engine_owing);

        if (!pay_half(ofi, half, &events)) {
            /* Its peer may be the one without room: the others have their turn. */
            orl_list_del(&half->engine_owing);
            orl_list_add_tail(&ofi->owing, &half->engine_owing);
        }
    }
    orl_unlock(&ofi->base.tx);
    return events;
}
