/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving: a buffer comes in, is judged, and goes where its header says. Numbered messages are
 * delivered in order, those that are early wait in their buffers; what has no place in the window
 * was delivered before or was never allowed, and is dropped. Handlers run without tx.
 */
#include <string.h>

#include "base/log.h"
#include "fabric/ofi/ofi.h"

void ofi_buffer_post(struct ofi_engine *ofi, struct ofi_buffer *buffer)
{
    ssize_t rc = fi_recv(ofi->carrier, buffer->data, ofi->message_bytes, buffer->desc,
                         FI_ADDR_UNSPEC, buffer);

    if (rc != 0) {
        /* Progress tries again. */
        orl_fifo_push(&ofi->unposted, &buffer->link);
    }
}

void ofi_half_owes(struct ofi_engine *ofi, struct ofi_half *half)
{
    if (orl_list_is_empty(&half->owing)) {
        orl_list_add_tail(&half->peer->owing, &half->owing);
        orl_list_add_tail(&ofi->owing, &half->engine_owing);
    }
}

void ofi_rx_release(struct fab_engine *engine, struct fab_rx *rx)
{
    struct ofi_engine *ofi = ofi_of(engine);
    struct ofi_buffer *buffer = (struct ofi_buffer *)(uintptr_t)rx->word[0];

    orl_lock(&engine->tx);
    struct ofi_half *half = ofi_table_get(&ofi->halves, (uint32_t)rx->word[1]);
    if (half != NULL) {
        half->held--;
        ofi_half_owes(ofi, half);
    }
    ofi_buffer_post(ofi, buffer);
    orl_unlock(&engine->tx);
}

/* A message for a handler. True: the buffer is kept. */
static bool deliver_message(struct ofi_engine *ofi, uint32_t half, const struct ofi_header *header,
                            struct ofi_buffer *buffer)
{
    struct fab_rx rx = { .header = header->word,
                         .data = buffer->data + sizeof(*header),
                         .bytes = header->bytes,
                         .word = { (uintptr_t)buffer, half } };

    return fab_rx_deliver(&ofi->base, header->handler, &rx);
}

/* The message whose turn it is. */
static void deliver(struct ofi_engine *ofi, uint32_t id, struct ofi_buffer *buffer)
{
    struct ofi_header header;
    bool is_kept = false;

    memcpy(&header, buffer->data, sizeof(header));
    if (header.kind == OFI_KIND_MESSAGE) {
        is_kept = deliver_message(ofi, id, &header, buffer);
    }
    orl_lock(&ofi->base.tx);
    /* A handler may have closed something, but halves end from progress only. */
    struct ofi_half *half = ofi_table_get(&ofi->halves, id);
    if (header.kind != OFI_KIND_MESSAGE) {
        ofi_serve(ofi, half, &header, buffer->data + sizeof(header));
    }
    half->next++;
    half->held += is_kept;
    ofi_half_owes(ofi, half);
    if (!is_kept) {
        ofi_buffer_post(ofi, buffer);
    }
    orl_unlock(&ofi->base.tx);
}

/* Take the early one whose turn has come. */
static struct ofi_buffer *next_early(struct ofi_engine *ofi, struct ofi_half *half)
{
    struct ofi_buffer **at = &half->early[half->next % OFI_WINDOW];
    struct ofi_buffer *buffer;

    orl_lock(&ofi->base.tx);
    buffer = *at;
    *at = NULL;
    half->nearly -= buffer != NULL;
    orl_unlock(&ofi->base.tx);
    return buffer;
}

static void drop(struct ofi_engine *ofi, struct ofi_buffer *buffer, bool is_strange)
{
    orl_lock(&ofi->base.tx);
    ofi->strangers += is_strange;
    ofi_buffer_post(ofi, buffer);
    orl_unlock(&ofi->base.tx);
}

static void numbered(struct ofi_engine *ofi, const struct ofi_header *header,
                     struct ofi_buffer *buffer)
{
    struct ofi_half *half = ofi_table_get(&ofi->halves, header->to);

    if (half == NULL) {
        drop(ofi, buffer, false);
        return;
    }
    int32_t ahead = ofi_wire_ahead(header->seq, half->next);
    if (ahead < 0 || ahead >= (int32_t)(OFI_WINDOW - half->held)) {
        drop(ofi, buffer, ahead > 0);
        return;
    }
    if (ahead > 0) {
        struct ofi_buffer **at = &half->early[header->seq % OFI_WINDOW];

        if (*at != NULL) {
            drop(ofi, buffer, false);
        } else {
            *at = buffer;
            half->nearly++;
        }
        return;
    }
    uint32_t id = half->id;
    do {
        deliver(ofi, id, buffer);
    } while (half->nearly != 0 && (buffer = next_early(ofi, half)) != NULL);
}

/* Bodies are copied out: a buffer need not be aligned for them. */
static void alone(struct ofi_engine *ofi, const struct ofi_header *header, const uint8_t *body)
{
    struct ofi_hello hello;
    struct ofi_welcome welcome;
    struct ofi_answer answer;

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
    case OFI_KIND_ANSWER:
        memcpy(&answer, body, sizeof(answer));
        ofi_on_answer(ofi, header, &answer, body + sizeof(answer));
        break;
    case OFI_KIND_REFUSAL:
        memcpy(&answer, body, sizeof(answer));
        ofi_on_refusal(ofi, header, &answer);
        break;
    default:
        break;
    }
}

void ofi_arrived(struct ofi_engine *ofi, struct ofi_buffer *buffer, size_t bytes)
{
    struct ofi_header header;
    enum ofi_arrival arrival = ofi_wire_check(buffer->data, bytes, ofi->cookie, &header);

    if (ofi->is_closing || arrival == OFI_ARRIVAL_STRANGE ||
        (arrival == OFI_ARRIVAL_OTHER && header.kind != OFI_KIND_HELLO &&
         header.kind != OFI_KIND_WELCOME)) {
        drop(ofi, buffer, true);
        return;
    }
    /* First: an answer may be the last thing that is said to an endpoint. */
    if (arrival == OFI_ARRIVAL_GOOD && header.ack_ep != OFI_NO_ID) {
        ofi_on_ack(ofi, &header);
    }
    if (header.kind >= OFI_KIND_FIRST_NUMBERED) {
        numbered(ofi, &header, buffer);
        return;
    }
    alone(ofi, &header, buffer->data + sizeof(header));
    drop(ofi, buffer, false);
}
