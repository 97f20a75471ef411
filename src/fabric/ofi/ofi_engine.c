/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress: takes a batch of completions, pays what is owed to peers, looks at the clock, and
 * serves the endpoints with waiting ops. Errors of the queue are resolved to the message they
 * belong to, and from there to the peer. A queue that gives nothing but errors ends the engine.
 */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"
#include "fabric/ofi/ofi.h"

#define ERRORS_MOST 1000 /* in a row, with nothing good between */

/* A completion that comes twice is counted once: the second finds no peer. */
static void sent(struct ofi_engine *ofi, struct ofi_slot *slot)
{
    struct ofi_peer *peer = slot->peer;

    orl_lock(&ofi->base.tx);
    if (ORL_UNLIKELY(peer == NULL)) {
        ofi->strangers++;
        orl_unlock(&ofi->base.tx);
        return;
    }
    slot->peer = NULL;
    ofi->nsending--;
    peer->busy--;
    peer->large -= slot->is_large;
    peer->is_stalled = false;
    ofi_slot_put(ofi, slot);
    if (ORL_UNLIKELY(peer->busy == 0)) {
        ofi_peer_drop(ofi, peer);
    }
    orl_unlock(&ofi->base.tx);
}

static void completed(struct ofi_engine *ofi, const struct fi_cq_data_entry *entry)
{
    struct ofi_context *context = entry->op_context;

    if (context == NULL) {
        return;
    }
    if (context->use == OFI_USE_SEND) {
        sent(ofi, container_of(context, struct ofi_slot, context));
    } else if (context->use == OFI_USE_READ) {
        ofi_on_read(ofi, context, false);
    } else {
        ofi_arrived(ofi, container_of(context, struct ofi_buffer, context), entry->len);
    }
}

/* ---------------------------------------------------------------- errors */

static void end_engine(struct ofi_engine *ofi, const char *text)
{
    struct orl_list *it;

    orl_log_error(ORL_CAT_FABRIC, "engine %s is given up: its queue gives nothing but errors: %s",
                  ofi->base.name, text);
    ofi->dead = ORL_ERR_LINK;
    for (;;) {
        struct fab_ep *working = NULL;

        orl_lock(&ofi->base.tx);
        orl_list_each(it, &ofi->base.eps) {
            struct fab_ep *ep = container_of(it, struct fab_ep, all);
            uint32_t state = atomic_load_explicit(&ep->state, memory_order_relaxed);

            working = state == FAB_EP_CONNECTING || state == FAB_EP_READY ? ep : working;
        }
        orl_unlock(&ofi->base.tx);
        if (working == NULL) {
            return;
        }
        fab_ep_fail(working, ORL_ERR_LINK, text);
    }
}

/* libfabric's words, and the provider's own where they say more. */
static const char *words_of(const struct ofi_engine *ofi, const struct fi_cq_err_entry *error,
                            char *text, size_t capacity)
{
    char own[96] = "";
    const char *native =
        fi_cq_strerror(ofi->cq, error->prov_errno, error->err_data, own, sizeof(own));
    const char *common = error->err != 0 || native == NULL ? fi_strerror(error->err) : native;
    bool is_more = native != NULL && native[0] != '\0' && strcmp(native, common) != 0;

    if (is_more && error->prov_errno != 0) {
        (void)snprintf(text, capacity, "%s (%s, %d)", common, native, error->prov_errno);
    } else {
        (void)snprintf(text, capacity, "%s", common);
    }
    return text;
}

/* One more error with nothing good since the last one. */
static void count_error(struct ofi_engine *ofi, const char *words)
{
    if (++ofi->errors_in_a_row == ERRORS_MOST) {
        end_engine(ofi, words);
    }
}

static void failed(struct ofi_engine *ofi)
{
    struct fi_cq_err_entry error = { 0 };
    char text[160];
    const char *words;
    ssize_t rc = fi_cq_readerr(ofi->cq, &error, 0);

    if (rc < 0) {
        count_error(ofi, fi_strerror((int)-rc));
        return;
    }
    words = words_of(ofi, &error, text, sizeof(text));
    if (ofi_facts_say_gone(ofi->facts, error.prov_errno)) {
        error.err = FI_ECONNABORTED;
    }
    count_error(ofi, words);
    struct ofi_context *context = error.op_context;
    if (context == NULL) {
        return;
    }
    if (context->use == OFI_USE_SEND) {
        struct ofi_slot *slot = container_of(context, struct ofi_slot, context);

        if (slot->peer != NULL && (error.err != FI_ECANCELED || slot->peer->failure == 0)) {
            ofi_peer_fail(ofi, slot->peer, error.err, words);
        }
        sent(ofi, slot);
    } else if (context->use == OFI_USE_READ) {
        ofi_on_read(ofi, context, true);
    } else {
        orl_lock(&ofi->base.tx);
        ofi->nposted--;
        ofi_buffer_post(ofi, container_of(context, struct ofi_buffer, context));
        orl_unlock(&ofi->base.tx);
    }
}

static int take_completions(struct ofi_engine *ofi)
{
    struct fi_cq_data_entry entry[OFI_EVENTS];
    ssize_t n = fi_cq_read(ofi->cq, entry, OFI_EVENTS);

    if (n == -FI_EAVAIL) {
        failed(ofi);
        return 1;
    }
    if (ORL_UNLIKELY(n < 0 && n != -FI_EAGAIN && n != -FI_EINTR)) {
        count_error(ofi, fi_strerror((int)-n));
        return 1;
    }
    if (n <= 0) {
        return 0;
    }
    ofi->errors_in_a_row = 0;
    for (ssize_t i = 0; i < n; i++) {
        completed(ofi, &entry[i]);
    }
    return (int)n;
}

static void repost(struct ofi_engine *ofi)
{
    struct orl_fifo again;
    struct orl_link *link;

    orl_lock(&ofi->base.tx);
    orl_fifo_init(&again);
    orl_fifo_splice(&again, &ofi->unposted);
    while ((link = orl_fifo_pop(&again)) != NULL) {
        ofi_buffer_post(ofi, container_of(link, struct ofi_buffer, link));
    }
    orl_unlock(&ofi->base.tx);
}

int ofi_progress(struct fab_engine *engine)
{
    struct ofi_engine *ofi = ofi_of(engine);

    if (ofi->dead != 0) {
        return 0;
    }
    ofi->now = orl_clock_ns();
    /* First what is to go: reading an empty queue asks the system for what has come. */
    int events = fab_engine_serve(engine, ofi_try, OFI_QUANTUM);
    events += ofi_send_all(ofi);
    events += take_completions(ofi);
    events += ofi_large_progress(ofi);
    if (ORL_UNLIKELY(!orl_fifo_is_empty(&ofi->unposted))) {
        repost(ofi);
    }
    events += ofi_pay(ofi);
    events += ofi_send_all(ofi);
    return events + ofi_timers(ofi);
}

/* ---------------------------------------------------------------- sleeping */

static int set_timer(struct ofi_engine *ofi, uint64_t at)
{
    struct itimerspec when = { { 0, 0 }, { 0, 0 } };

    if (at == ofi->timer_at) {
        return 0;
    }
    if (at != ORL_NEVER) {
        uint64_t left = orl_deadline_left(at);

        left = left == 0 ? 1 : left;
        when.it_value.tv_sec = (time_t)(left / ORL_NS_PER_S);
        when.it_value.tv_nsec = (long)(left % ORL_NS_PER_S);
    }
    if (timerfd_settime(ofi->timer_fd, 0, &when, NULL) != 0) {
        return ORL_ERR_AGAIN;
    }
    ofi->timer_at = at;
    return 0;
}

static bool has_work(const struct ofi_engine *ofi)
{
    return !orl_fifo_is_empty(&ofi->base.finished) || !orl_mpsc_is_empty(&ofi->base.failed) ||
           !orl_list_is_empty(&ofi->owing) || ofi_send_has_work(ofi) ||
           !orl_fifo_is_empty(&ofi->unposted) || ofi_large_has_work(ofi);
}

int ofi_arm(struct fab_engine *engine, int *fd)
{
    struct ofi_engine *ofi = ofi_of(engine);
    struct fid *fids[] = { &ofi->cq->fid };
    struct epoll_event old[2];
    int status;

    if (ofi->epoll_fd < 0) {
        return fab_no_arm(engine, fd);
    }
    orl_lock(&engine->tx);
    uint64_t next = ofi_timers_next(ofi);
    status = has_work(ofi) || orl_deadline_passed(next) ? ORL_ERR_AGAIN : set_timer(ofi, next);
    orl_unlock(&engine->tx);
    if (status == 0 && fi_trywait(ofi->fabric, fids, 1) != 0) {
        status = ORL_ERR_AGAIN;
    }
    /* Forgets the edges of what has come; the caller looks for it once more before it sleeps. */
    (void)epoll_wait(ofi->epoll_fd, old, 2, 0);
    *fd = ofi->epoll_fd;
    return status;
}
