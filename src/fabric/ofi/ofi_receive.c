/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving: a buffer comes in, is judged, and goes where its header says. Answers are taken at
 * once; numbered pieces are delivered in order, bundle by bundle, those that are early wait in
 * their buffers; what has no place in the window was delivered before or was never allowed, and is
 * dropped. Under tx, but for handlers, which run without it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/log.h"
#include "fabric/ofi/ofi.h"

void ofi_buffer_post(struct ofi_engine *ofi, struct ofi_buffer *buffer)
{
    if (buffer->is_copy) {
        free(buffer);
        return;
    }
    ssize_t rc = fi_recv(ofi->carrier, buffer->data, ofi->message_bytes, buffer->desc,
                         FI_ADDR_UNSPEC, buffer);

    if (rc != 0) {
        /* Progress tries again. */
        orl_fifo_push(&ofi->unposted, &buffer->link);
    } else {
        ofi->nposted++;
    }
}

void ofi_buffer_drop(struct ofi_engine *ofi, struct ofi_buffer *buffer)
{
    buffer->refs--;
    if (buffer->refs == 0) {
        ofi_buffer_post(ofi, buffer);
    }
}

void ofi_half_owes(struct ofi_engine *ofi, struct ofi_half *half)
{
    if (orl_list_is_empty(&half->owing)) {
        orl_list_add_tail(&half->peer->owing, &half->owing);
        orl_list_add_tail(&ofi->owing, &half->engine_owing);
    }
}

static void give_credit(struct ofi_engine *ofi, uint32_t id)
{
    struct ofi_half *half = ofi_table_get(&ofi->halves, id);

    if (half != NULL) {
        half->held--;
        ofi_half_owes(ofi, half);
    }
}

void ofi_rx_release(struct fab_engine *engine, struct fab_rx *rx)
{
    struct ofi_engine *ofi = ofi_of(engine);

    orl_lock(&engine->tx);
    give_credit(ofi, (uint32_t)rx->word[1]);
    ofi_buffer_drop(ofi, (struct ofi_buffer *)(uintptr_t)rx->word[0]);
    orl_unlock(&engine->tx);
}

/* ---------------------------------------------------------------- numbered pieces */

/* A message for a handler, which runs without tx. What it may keep is counted before, since it is
 * given back by whatever thread, whenever. */
static void deliver_message(struct ofi_engine *ofi, struct ofi_half *half,
                            const struct ofi_piece *piece, const unsigned char *body,
                            struct ofi_buffer *buffer) ORL_NO_LOCK_ANALYSIS
{
    uint32_t id = half->id;
    struct fab_rx rx = { .data = body + sizeof(uint64_t),
                         .bytes = piece->bytes - sizeof(uint64_t),
                         .word = { (uintptr_t)buffer, id } };

    memcpy(&rx.header, body, sizeof(rx.header));
    half->held++;
    buffer->refs++;
    orl_unlock(&ofi->base.tx);
    bool is_kept = fab_rx_deliver(&ofi->base, piece->handler, &rx);
    orl_lock(&ofi->base.tx);
    if (!is_kept) {
        give_credit(ofi, id);
        ofi_buffer_drop(ofi, buffer);
    }
}

/* The bundle whose turn it is. A handler may close something, but halves end from progress only. */
static void deliver(struct ofi_engine *ofi, struct ofi_half *half, struct ofi_buffer *buffer)
{
    const unsigned char *at = NULL;
    struct ofi_header header;
    struct ofi_piece piece;

    while (ofi_wire_next(buffer->data, buffer->bytes, &at, &piece)) {
        const unsigned char *body = ofi_wire_inside(at);

        if (piece.kind < OFI_KIND_FIRST_NUMBERED) {
            continue;
        }
        if (piece.kind == OFI_KIND_MESSAGE) {
            deliver_message(ofi, half, &piece, body, buffer);
        } else {
            ofi_serve(ofi, half, &piece, body);
        }
        half->next++;
    }
    memcpy(&header, buffer->data, sizeof(header));
    half->is_followed = (header.flags & OFI_FOLLOWED) != 0;
    ofi_half_owes(ofi, half);
    ofi_buffer_drop(ofi, buffer);
}

/* Take the early one whose turn has come. One from within what has been delivered is nonsense. */
static struct ofi_buffer *next_early(struct ofi_engine *ofi, struct ofi_half *half)
{
    struct ofi_buffer **at = &half->early[half->next % OFI_WINDOW];
    struct ofi_buffer *buffer = *at;
    struct ofi_header header;

    if (buffer == NULL) {
        return NULL;
    }
    *at = NULL;
    half->nearly--;
    memcpy(&header, buffer->data, sizeof(header));
    if (header.seq != half->next || header.numbered > OFI_WINDOW - half->held) {
        ofi->strangers++;
        ofi_buffer_drop(ofi, buffer);
        return NULL;
    }
    return buffer;
}

/* What waits for its turn must not hold the buffers that what it waits for will need. */
static struct ofi_buffer *to_keep(struct ofi_engine *ofi, struct ofi_buffer *buffer)
{
    struct ofi_buffer *copy;

    if (ofi->nposted > ofi->nbuffers / 2) {
        return buffer;
    }
    copy = malloc(sizeof(*copy) + buffer->bytes);
    if (copy == NULL) {
        return buffer;
    }
    *copy = (struct ofi_buffer){ .bytes = buffer->bytes, .refs = 1, .is_copy = true };
    copy->data = (unsigned char *)(copy + 1);
    orl_copy(copy->data, buffer->data, buffer->bytes);
    ofi_buffer_drop(ofi, buffer);
    return copy;
}

static void numbered(struct ofi_engine *ofi, const struct ofi_header *header,
                     struct ofi_buffer *buffer)
{
    struct ofi_half *half = ofi_table_get(&ofi->halves, header->to);

    if (half == NULL) {
        ofi_buffer_drop(ofi, buffer);
        return;
    }
    int32_t ahead = ofi_wire_ahead(header->seq, half->next);
    uint32_t room = OFI_WINDOW - half->held;
    struct ofi_buffer **at = &half->early[header->seq % OFI_WINDOW];
    if (ahead < 0 || (uint32_t)ahead >= room || header->numbered > room - (uint32_t)ahead ||
        (ahead > 0 && *at != NULL)) {
        ofi->strangers += ahead > 0 && *at == NULL;
        ofi_buffer_drop(ofi, buffer);
        return;
    }
    if (ahead > 0) {
        *at = to_keep(ofi, buffer);
        half->nearly++;
        return;
    }
    do {
        deliver(ofi, half, buffer);
    } while (half->nearly != 0 && (buffer = next_early(ofi, half)) != NULL);
}

/* ---------------------------------------------------------------- what has come in */

/* The pieces that do not wait for a turn. */
static void take_answers(struct ofi_engine *ofi, const struct ofi_buffer *buffer)
{
    const unsigned char *at = NULL;
    struct ofi_answer answer;
    struct ofi_piece piece;

    while (ofi_wire_next(buffer->data, buffer->bytes, &at, &piece)) {
        const unsigned char *body = ofi_wire_inside(at);

        if (piece.kind >= OFI_KIND_FIRST_NUMBERED) {
            continue;
        }
        memcpy(&answer, body, sizeof(answer));
        if (piece.kind == OFI_KIND_ANSWER) {
            ofi_on_answer(ofi, &answer, body + sizeof(answer), piece.bytes - sizeof(answer));
        } else if (piece.kind == OFI_KIND_RETURN) {
            ofi_on_return(ofi, answer.ep, answer.number);
        } else {
            ofi_on_refusal(ofi, &answer);
        }
    }
}

/* A bundle of this version, or an acknowledgement. */
static void take(struct ofi_engine *ofi, const struct ofi_header *header, struct ofi_buffer *buffer)
{
    if (header->kind == OFI_KIND_BUNDLE) {
        take_answers(ofi, buffer);
    }
    if (header->numbered != 0 && header->kind == OFI_KIND_BUNDLE) {
        numbered(ofi, header, buffer);
    } else {
        ofi_buffer_drop(ofi, buffer);
    }
}

/* What stands alone. Bodies are copied out: a buffer need not be aligned for them. */
static void take_alone(struct ofi_engine *ofi, const struct ofi_header *header, const uint8_t *body)
{
    struct ofi_hello hello;
    struct ofi_welcome welcome;

    switch (header->kind) {
    case OFI_KIND_HELLO:
        memcpy(&hello, body, sizeof(hello));
        ofi_on_hello(ofi, header, &hello);
        break;
    case OFI_KIND_WELCOME:
        memcpy(&welcome, body, sizeof(welcome));
        ofi_on_welcome(ofi, header, &welcome);
        break;
    case OFI_KIND_BYE:
        memcpy(&hello, body, sizeof(hello));
        ofi_on_bye(ofi, &hello);
        break;
    case OFI_KIND_PING:
        memcpy(&hello, body, sizeof(hello));
        ofi_on_ping(ofi, header, &hello);
        break;
    case OFI_KIND_BULK:
        memcpy(&hello, body, sizeof(hello));
        ofi_on_bulk(ofi, header, &hello);
        break;
    default:
        break;
    }
}

void ofi_arrived(struct ofi_engine *ofi, struct ofi_buffer *buffer, size_t bytes)
{
    struct ofi_header header = { 0 };
    enum ofi_arrival arrival = ofi_wire_check(buffer->data, bytes, ofi->cookie, &header);
    bool is_introduction = header.kind == OFI_KIND_HELLO || header.kind == OFI_KIND_WELCOME;
    bool is_bundle = header.kind == OFI_KIND_BUNDLE || header.kind == OFI_KIND_ACK;

    buffer->bytes = (uint32_t)bytes;
    buffer->refs = 1;
    orl_lock(&ofi->base.tx);
    ofi->nposted--;
    if (ofi->is_closing || arrival == OFI_ARRIVAL_STRANGE ||
        (arrival == OFI_ARRIVAL_OTHER && !is_introduction)) {
        ofi->strangers++;
        ofi_buffer_drop(ofi, buffer);
        orl_unlock(&ofi->base.tx);
        return;
    }
    /* First: an answer may be the last thing that is said to an endpoint. */
    if (arrival == OFI_ARRIVAL_GOOD && header.ack_ep != OFI_NO_ID) {
        ofi_on_ack(ofi, &header);
    }
    if (is_bundle) {
        take(ofi, &header, buffer);
        orl_unlock(&ofi->base.tx);
        return;
    }
    orl_unlock(&ofi->base.tx);
    take_alone(ofi, &header, buffer->data + sizeof(header));
    orl_lock(&ofi->base.tx);
    ofi_buffer_drop(ofi, buffer);
    orl_unlock(&ofi->base.tx);
}
