/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active messages: the handler table and the life of a receive buffer. Handlers are set by the
 * core before the first message can arrive and run from a transport's progress, poller held. Has
 * no lock: the table is constant while messages arrive. Does not know where buffers come from.
 */
#include <stddef.h>

#include "base/log.h"
#include "fabric/fabric.h"
#include "fabric/transport.h"

void fab_handler_set(struct fab *fabric, unsigned id, fab_handler_fn fn, void *user)
{
    if (id >= FAB_HANDLERS_MAX) {
        orl_log_error(ORL_CAT_FABRIC, "message handler %u is beyond the last one, %d", id,
                      FAB_HANDLERS_MAX - 1);
        return;
    }
    fabric->handler[id].fn = fn;
    fabric->handler[id].user = user;
}

bool fab_rx_deliver(struct fab_engine *engine, unsigned handler, struct fab_rx *rx)
{
    const struct fab *fabric = engine->fabric;

    rx->engine = engine;
    rx->kept = false;
    orl_stat_add(&engine->stats, ORL_STAT_MSGS_RECEIVED, 1);
    if (handler >= FAB_HANDLERS_MAX || fabric->handler[handler].fn == NULL) {
        orl_log_warn(ORL_CAT_FABRIC,
                     "a message of %zu bytes for handler %u, which is not set, is "
                     "dropped by %s",
                     rx->bytes, handler, engine->name);
        return false;
    }
    fabric->handler[handler].fn(fabric->handler[handler].user, rx);
    return rx->kept;
}

void fab_rx_keep(struct fab_rx *rx, struct fab_rx *copy)
{
    rx->kept = true;
    *copy = *rx;
}

void fab_rx_release(struct fab_rx *rx)
{
    if (rx == NULL || !rx->kept) {
        return;
    }
    rx->kept = false;
    rx->engine->transport->rx_release(rx->engine, rx);
}

/* ---------------------------------------------------------------- slots that do nothing */

/* The slot's type says int *fd. NOLINTNEXTLINE(readability-non-const-parameter) */
int fab_no_arm(struct fab_engine *engine, int *fd)
{
    (void)fd;
    return orl_fail(ORL_ERR_UNSUPP, "engine %s has no descriptor to sleep on; it must be polled",
                    engine->name);
}

void fab_no_rx_release(struct fab_engine *engine, struct fab_rx *rx)
{
    (void)engine;
    (void)rx;
}

void fab_no_rkey_close(struct fab_ep *ep, struct fab_rkey *rkey)
{
    (void)ep;
    (void)rkey;
}
