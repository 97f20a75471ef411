/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rules that hold for every operation, checked at every done: once, with the poller held,
 * inside a progress call of this thread, never inside a post, never two at a time on one engine.
 * Also findings and waiting. Operations are built in contract_op.c; no case lives here.
 */
#include "contract.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"

uint64_t ct_patience_ns = 10000000000u;

static pthread_mutex_t finding_lock = PTHREAD_MUTEX_INITIALIZER;
static char finding_text[400];
static atomic_bool has_finding;

static _Thread_local unsigned polling; /* progress calls this thread is inside */
static _Thread_local unsigned posting; /* post and short calls this thread is inside */

/* Engines that are running a done function or handler right now. */
static struct {
    struct fab_engine *_Atomic engine;
} busy[8];

void (*ct_finding_hook)(const char *text);

bool ct_check(bool ok, const char *format, ...)
{
    va_list args;

    if (ok) {
        return true;
    }
    pthread_mutex_lock(&finding_lock);
    if (!atomic_load(&has_finding)) {
        va_start(args, format);
        (void)vsnprintf(finding_text, sizeof finding_text, format, args);
        va_end(args);
        atomic_store(&has_finding, true);
        if (ct_finding_hook != NULL) {
            ct_finding_hook(finding_text);
        }
    }
    pthread_mutex_unlock(&finding_lock);
    return false;
}

const char *ct_finding(void)
{
    return atomic_load(&has_finding) ? finding_text : NULL;
}

/* ---------------------------------------------------------------- upcalls */

/* The rules of an upcall. Returns the slot to leave, -1 when none was taken. */
static int upcall_enter(const char *what, struct fab_engine *engine)
{
    size_t i;

    ct_check(posting == 0, "%s ran inside a post", what);
    ct_check(polling != 0, "%s ran outside a progress call of this thread", what);
    ct_check(orl_lock_is_held(&engine->poller), "%s ran without the poller lock", what);
    for (i = 0; i < sizeof busy / sizeof busy[0]; i++) {
        if (atomic_load(&busy[i].engine) == engine) {
            ct_check(false, "%s ran while another ran on the same engine", what);
            return -1;
        }
    }
    for (i = 0; i < sizeof busy / sizeof busy[0]; i++) {
        struct fab_engine *none = NULL;

        if (atomic_compare_exchange_strong(&busy[i].engine, &none, engine)) {
            return (int)i;
        }
    }
    return -1;
}

static void upcall_leave(int slot)
{
    if (slot >= 0) {
        atomic_store(&busy[slot].engine, NULL);
    }
}

void ct_on_done(struct fab_op *op, int status)
{
    struct ct_op *mine = container_of(op, struct ct_op, op);
    struct ct_tally *tally = mine->tally;
    int slot = upcall_enter("done", op->ep->engine);

    mine->times++;
    ct_check(mine->times == 1, "done ran %u times for one op", mine->times);
    ct_check(op->status == status, "op->status is %d, done was given %d", op->status, status);
    ct_check(op->user == mine, "the poster's user pointer was changed");
    ct_check(status <= 0, "done was given the positive status %d", status);
    ct_check(status != ORL_ERR_AGAIN, "AGAIN came through done");
    mine->status = status;
    if (status != 0) {
        atomic_store(&tally->status, status);
        atomic_fetch_add(&tally->failed, 1);
    }
    mine->place = atomic_load(&tally->done);
    if (mine->then != NULL) {
        mine->then(mine);
    }
    upcall_leave(slot);
    /* Last: the waiter may free the op at once. */
    atomic_fetch_add(&tally->done, 1);
}

uint64_t ct_header(unsigned stream, uint64_t seq, size_t bytes)
{
    return (uint64_t)bytes << 40 | (uint64_t)stream << 32 | (seq & 0xffffffffu);
}

unsigned ct_seed(unsigned stream, uint64_t seq)
{
    return stream * 77u + (unsigned)seq * 3u + 1u;
}

void ct_on_message(void *user, struct fab_rx *rx)
{
    struct ct_inbox *inbox = user;
    size_t bytes = (size_t)(rx->header >> 40);
    unsigned stream = (unsigned)(rx->header >> 32) & 0xffu;
    uint64_t seq = rx->header & 0xffffffffu;
    int slot = upcall_enter("a handler", rx->engine);

    if (ct_check(stream < CT_STREAMS, "a message arrived with a header nobody sent")) {
        ct_check(rx->bytes == bytes, "a message of %zu bytes arrived with %zu", bytes, rx->bytes);
        ct_check(seq == inbox->next[stream], "message %llu arrived where %llu was next",
                 (unsigned long long)seq, (unsigned long long)inbox->next[stream]);
        ct_check(rx->bytes != bytes || ct_is_filled(rx->data, bytes, ct_seed(stream, seq)),
                 "the payload of a message of %zu bytes is damaged", bytes);
        inbox->next[stream] = seq + 1;
        if (inbox->hook != NULL) {
            inbox->hook(inbox, rx, stream, seq);
        }
    }
    upcall_leave(slot);
    atomic_fetch_add(&inbox->count, 1);
}

/* ---------------------------------------------------------------- progress and waiting */

int ct_progress(struct ct_rig *rig)
{
    bool is_loop = rig->b.fab == rig->a.fab;
    bool b_sleeps = atomic_load(&rig->b_sleeps);
    int events = 0;

    polling++;
    if (!is_loop || !b_sleeps) {
        events += fab_progress(rig->a.fab);
    }
    if (!is_loop && !b_sleeps && rig->b.fab != NULL) {
        events += fab_progress(rig->b.fab);
    }
    polling--;
    return events;
}

bool ct_until(struct ct_rig *rig, ct_ready_fn is_ready, void *arg)
{
    uint64_t limit = orl_clock_ns() + ct_patience_ns;
    unsigned idle = 0;

    while (!is_ready(arg)) {
        if (ct_progress(rig) > 0) {
            idle = 0;
            limit = orl_clock_ns() + ct_patience_ns;
        } else if (++idle % 64 == 0) {
            if (orl_clock_ns() > limit) {
                return false;
            }
            (void)sched_yield();
        }
    }
    return true;
}

void ct_settle(struct ct_rig *rig)
{
    unsigned quiet = 0;

    while (quiet < 200) {
        quiet = ct_progress(rig) > 0 ? 0 : quiet + 1;
    }
}

void ct_ep_stop(struct fab_ep *ep)
{
    polling++;
    fab_ep_stop(ep);
    polling--;
}

static bool is_tally_done(void *arg)
{
    struct ct_tally *tally = arg;

    return atomic_load(&tally->done) >= atomic_load(&tally->posted);
}

bool ct_wait(struct ct_rig *rig, struct ct_tally *tally)
{
    bool ok = ct_until(rig, is_tally_done, tally);

    return ct_check(ok, "%u of %u ops were never done", tally->posted - tally->done,
                    tally->posted) &&
           ct_check(tally->done == tally->posted, "%u done calls for %u ops", tally->done,
                    tally->posted);
}

bool ct_wait_fine(struct ct_rig *rig, struct ct_tally *tally)
{
    return ct_wait(rig, tally) &&
           ct_check(tally->failed == 0, "%u ops of %u failed, with %s", tally->failed,
                    tally->posted, orl_status_name(tally->status));
}

int ct_do(struct ct_rig *rig, struct fab_ep *ep, struct ct_op *op)
{
    ct_post(ep, op);
    return ct_wait(rig, op->tally) ? op->status : ORL_ERR_INTERNAL;
}

void ct_posting_begin(void)
{
    posting++;
}

void ct_posting_end(void)
{
    posting--;
}

int ct_flush_wait(struct ct_rig *rig, struct fab_ep *ep)
{
    struct ct_tally tally = { 0 };
    struct ct_op op;

    ct_op_flush(&op, &tally);
    ct_flush(ep, &op);
    return ct_wait(rig, &tally) ? op.status : ORL_ERR_INTERNAL;
}
