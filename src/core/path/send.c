/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small messages between ranks, for the core's own use. On a path with one rail a message is the
 * fabric's, short where that works at once. On one with several each message travels in an envelope
 * with its number: who sends posts it again when its rail dies, who receives drops what it has seen
 * and holds back what came too early, so that handlers see one stream, in order, each message once.
 *
 * Handlers run with the poller of the engine held that brought the message. Two engines may bring
 * messages of one rank at the same time: the first thread delivers, the other leaves a copy behind
 * (inbox.delivering), so no lock is held while a handler runs.
 *
 *   envelope, little-endian: 0 u64 number, from 0 | 8 u32 rank of the sender | 12 u8 handler | 13 0
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/copy.h"
#include "base/log.h"
#include "base/pool.h"
#include "core/path/agent.h"
#include "core/path/path.h"
#include "core/path/peer.h"
#include "core/path/progress.h"
#include "core/path/rail.h"
#include "core/path/xfer.h"

#define ENVELOPE_BYTES 16
#define SMALL_BYTES    (256 + ENVELOPE_BYTES)
#define LARGE_BYTES    (CORE_SEND_MAX + ENVELOPE_BYTES)

/* On its way out. */
struct message {
    struct fab_op op;
    struct core_path *path;
    struct orl_pool *pool;
    int rail;
    unsigned char data[];
};

/* Came too early: waits in an inbox. */
struct held {
    struct orl_list link;
    uint64_t number;
    uint64_t header;
    unsigned handler;
    size_t bytes;
    _Alignas(16) unsigned char data[];
};

static struct orl_pool smalls;
static struct orl_pool larges;

static void envelope_came(void *user, struct fab_rx *rx);

int core_sends_open(void)
{
    int status = core_xfers_open();

    if (status != 0) {
        return status;
    }
    status =
        orl_pool_init(&smalls, "small messages", sizeof(struct message) + SMALL_BYTES, 16, 32, 0);
    if (status == 0) {
        status = orl_pool_init(&larges, "large messages", sizeof(struct message) + LARGE_BYTES, 16,
                               8, 0);
    }
    if (status != 0) {
        orl_pool_fini(&smalls);
        core_xfers_close();
        return status;
    }
    fab_handler_set(&core.fabric, CORE_ON_RAILED, envelope_came, NULL);
    return 0;
}

void core_sends_close(void)
{
    orl_pool_fini(&larges);
    orl_pool_fini(&smalls);
    core_xfers_close();
}

/* ---------------------------------------------------------------- out */

static void message_done(struct fab_op *op, int status)
{
    struct message *message = op->user;
    struct core_path *path = message->path;

    status = core_rail_ended(path, message->rail, status);
    if (status == ORL_ERR_LINK && core_path_is_railed(path)) {
        message->rail = core_rail_first(path, CORE_RAILS_ANY);
        message->rail = message->rail < 0 ? 0 : message->rail;
        core_rail_post(path, message->rail, op);
        return;
    }
    if (status != 0 && status != ORL_ERR_CANCELED && !core_peer_is_failed(path->rank)) {
        orl_log_info(ORL_CAT_PATH, "a message to %s was lost: %s", path->ep->label,
                     core_path_cause(path, status));
    }
    orl_pool_free(message->pool, message);
    if (atomic_fetch_sub_explicit(&path->messages, 1, memory_order_release) == 1) {
        core_wake(); /* somebody may wait for all to have left */
    }
}

/* Nobody may come to wait for what stands in the engine's queue. */
static void tell_agent(const struct fab_engine *engine)
{
    if (engine->level >= FAB_LEVEL_NIC) {
        core_agent_posted(engine);
    }
}

static struct message *make_message(struct core_path *path, uint64_t header, size_t bytes)
{
    struct orl_pool *pool = bytes <= SMALL_BYTES ? &smalls : &larges;
    struct message *message = orl_pool_alloc(pool);

    if (message == NULL) {
        (void)!orl_fail(ORL_ERR_NOMEM, "no memory for a message of %zu bytes to %s", bytes,
                        path->ep->label);
        return NULL;
    }
    message->path = path;
    message->pool = pool;
    message->rail = 0;
    message->op = (struct fab_op){ .kind = FAB_OP_SEND,
                                   .done = message_done,
                                   .user = message,
                                   .local = message->data,
                                   .bytes = bytes,
                                   .operand = header };
    return message;
}

/* The stream may be used by several threads: a number is taken once there is nothing left that can
 * fail, since a missing one would hold up all that follow. */
static int send_numbered(struct core_path *path, unsigned handler, uint64_t header,
                         const void *data, size_t bytes)
{
    struct message *message = make_message(path, header, bytes + ENVELOPE_BYTES);
    int rail = core_rail_first(path, CORE_RAILS_ANY);

    if (message == NULL) {
        return ORL_ERR_NOMEM;
    }
    memset(message->data, 0, ENVELOPE_BYTES);
    orl_store_le(message->data + 8, (uint32_t)core.rank, 4);
    message->data[12] = (unsigned char)handler;
    if (bytes != 0) {
        orl_copy(message->data + ENVELOPE_BYTES, data, bytes);
    }
    message->op.handler = CORE_ON_RAILED;
    message->rail = rail < 0 ? 0 : rail;
    (void)atomic_fetch_add_explicit(&path->messages, 1, memory_order_relaxed);
    orl_store_le(message->data, atomic_fetch_add(&path->sent, 1), 8);
    rail = message->rail;
    core_rail_post(path, rail, &message->op); /* the message may be gone */
    tell_agent(path->rail[rail].engine);
    return 0;
}

static int send_plain(struct core_path *path, unsigned handler, uint64_t header, const void *data,
                      size_t bytes)
{
    struct message *message;

    if (bytes <= path->ep->engine->limits.send_short) {
        int status = fab_send_short(path->ep, handler, header, data, bytes);

        if (status != ORL_ERR_AGAIN) {
            return ORL_LIKELY(status == 0) ? 0 : core_rail_ended(path, 0, status);
        }
    }
    message = make_message(path, header, bytes);
    if (message == NULL) {
        return ORL_ERR_NOMEM;
    }
    if (bytes != 0) {
        orl_copy(message->data, data, bytes);
    }
    message->op.handler = (uint8_t)handler;
    (void)atomic_fetch_add_explicit(&path->messages, 1, memory_order_relaxed);
    fab_post(path->ep, &message->op);
    tell_agent(path->ep->engine);
    return 0;
}

int core_path_send(struct core_path *path, enum core_handler handler, uint64_t header,
                   const void *data, size_t bytes)
{
    if (bytes > CORE_SEND_MAX) {
        return orl_fail(ORL_ERR_INVAL, "a message has at most %d bytes, not %zu", CORE_SEND_MAX,
                        bytes);
    }
    if (core_peer_is_failed(path->rank)) {
        return core_peer_error(path->rank);
    }
    if (atomic_load_explicit(&path->lost, memory_order_acquire) == CORE_PATH_LOST) {
        return orl_fail(ORL_ERR_PEER, "%s: %s", path->ep->label, path->cause);
    }
    return core_path_is_railed(path) ? send_numbered(path, handler, header, data, bytes)
                                     : send_plain(path, handler, header, data, bytes);
}

/* ---------------------------------------------------------------- in */

void core_inbox_init(struct core_inbox *inbox)
{
    orl_lock_init(&inbox->lock, ORL_RANK_POOL, "inbox");
    inbox->next = 0;
    inbox->delivering = false;
    orl_list_init(&inbox->held);
}

void core_inbox_fini(struct core_inbox *inbox)
{
    struct orl_list *link;
    struct orl_list *after;

    orl_list_each_safe(link, after, &inbox->held) {
        free(container_of(link, struct held, link));
    }
    orl_lock_fini(&inbox->lock);
}

static void run_handler(unsigned handler, struct fab_rx *rx)
{
    if (handler >= FAB_HANDLERS_MAX || handler == CORE_ON_RAILED ||
        core.fabric.handler[handler].fn == NULL) {
        orl_log_warn(ORL_CAT_PATH, "a message for handler %u, which is not set, is dropped",
                     handler);
        return;
    }
    core.fabric.handler[handler].fn(core.fabric.handler[handler].user, rx);
}

/* Inbox lock held. By number; one that is there already stays. False: it was. */
static bool insert(struct core_inbox *inbox, struct held *held)
{
    struct orl_list *at = inbox->held.prev;

    for (; at != &inbox->held; at = at->prev) {
        const struct held *other = container_of(at, struct held, link);

        if (other->number == held->number) {
            return false;
        }
        if (other->number < held->number) {
            break;
        }
    }
    orl_list_add_after(at, &held->link);
    return true;
}

static struct held *copy(uint64_t number, unsigned handler, const struct fab_rx *rx)
{
    struct held *held = malloc(sizeof(*held) + rx->bytes);

    if (held == NULL) {
        orl_log_error(ORL_CAT_PATH, "no memory for a message of %zu bytes, which is lost",
                      rx->bytes);
        return NULL;
    }
    held->number = number;
    held->header = rx->header;
    held->handler = handler;
    held->bytes = rx->bytes;
    if (rx->bytes != 0) {
        orl_copy(held->data, rx->data, rx->bytes);
    }
    return held;
}

/* The held message whose turn it is; NULL ends the delivery. */
static struct held *take_next(struct core_inbox *inbox)
{
    struct orl_list *head;
    struct held *held = NULL;

    orl_lock(&inbox->lock);
    head = orl_list_head(&inbox->held);
    if (head != NULL && container_of(head, struct held, link)->number == inbox->next) {
        orl_list_del(head);
        inbox->next++;
        held = container_of(head, struct held, link);
    } else {
        inbox->delivering = false;
    }
    orl_unlock(&inbox->lock);
    return held;
}

static void deliver_held(struct core_inbox *inbox, struct fab_engine *engine)
{
    struct held *held;

    while ((held = take_next(inbox)) != NULL) {
        struct fab_rx rx = {
            .engine = engine, .header = held->header, .data = held->data, .bytes = held->bytes
        };

        run_handler(held->handler, &rx);
        free(held);
    }
}

enum turn {
    TURN_NOW,
    TURN_LATER,
    TURN_PAST
};

/* Whether a message may be delivered at once; then nobody else delivers. */
static enum turn take_turn(struct core_inbox *inbox, uint64_t number)
{
    enum turn turn = number < inbox->next ? TURN_PAST : TURN_LATER;

    if (number == inbox->next && !inbox->delivering) {
        inbox->next++;
        inbox->delivering = true;
        turn = TURN_NOW;
    }
    return turn;
}

/* Leave a copy. When its turn came meanwhile, whoever delivers has seen it or is not there. */
static void hold(struct core_inbox *inbox, uint64_t number, unsigned handler,
                 const struct fab_rx *rx)
{
    struct held *held = copy(number, handler, rx);
    bool deliver = false;

    if (held == NULL) {
        return;
    }
    orl_lock(&inbox->lock);
    if (number < inbox->next || !insert(inbox, held)) {
        free(held);
    } else if (!inbox->delivering) {
        inbox->delivering = true;
        deliver = true;
    }
    orl_unlock(&inbox->lock);
    if (deliver) {
        deliver_held(inbox, rx->engine);
    }
}

static void envelope_came(void *user, struct fab_rx *rx)
{
    const unsigned char *at = rx->data;
    struct core_path *path;
    struct fab_rx inner = *rx;
    enum turn turn;
    uint64_t number;
    uint32_t from;

    (void)user;
    if (rx->bytes < ENVELOPE_BYTES) {
        return;
    }
    number = orl_load_le(at, 8);
    from = (uint32_t)orl_load_le(at + 8, 4);
    if (from >= (uint32_t)core.size || core_path_of((int)from, &path) != 0) {
        orl_last_error_clear();
        return; /* garbage, or of a rank that is gone */
    }
    inner.data = at + ENVELOPE_BYTES;
    inner.bytes = rx->bytes - ENVELOPE_BYTES;
    orl_lock(&path->inbox.lock);
    turn = take_turn(&path->inbox, number);
    orl_unlock(&path->inbox.lock);
    if (turn == TURN_NOW) {
        run_handler(at[12], &inner);
        deliver_held(&path->inbox, rx->engine);
    } else if (turn == TURN_LATER) {
        hold(&path->inbox, number, at[12], &inner);
    }
}
