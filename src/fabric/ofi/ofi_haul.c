/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading: a large piece is asked for in chunks, a few of one peer at a time, since providers over
 * TCP are at their best with what the system's buffers can take. What fails is not tried again
 * here. Contexts are kept until the queue is closed: a provider may still name one of an endpoint
 * that was closed long ago.
 */
#include <stdlib.h>

#include "fabric/ofi/ofi.h"

/* After ours. */
#include <rdma/fi_rma.h>

#define READS_MOST OFI_READS
#define STUCK      (100 * ORL_NS_PER_MS) /* that nothing is taken, after which messages must do */

/* One read at the provider. */
struct read {
    struct ofi_context context;
    struct ofi_large *large; /* NULL: nobody waits for it */
    struct read *next;       /* free ones */
    size_t bytes;
};

/* The contexts of one life of the endpoint. */
struct ofi_reads {
    struct ofi_reads *before;
    struct read *free;
    struct read read[READS_MOST];
};

/* ---------------------------------------------------------------- contexts */

static bool make_reads(struct ofi_bulk *bulk)
{
    struct ofi_reads *made = calloc(1, sizeof(*made));

    if (made == NULL) {
        return false;
    }
    for (int i = 0; i < READS_MOST; i++) {
        made->read[i].context.use = OFI_USE_READ;
        made->read[i].next = made->free;
        made->free = &made->read[i];
    }
    bulk->reads = made;
    return true;
}

static struct read *take_read(struct ofi_bulk *bulk)
{
    struct read *read;

    if (bulk->under_way == READS_MOST || (bulk->reads == NULL && !make_reads(bulk))) {
        return NULL;
    }
    read = bulk->reads->free;
    bulk->reads->free = read->next;
    return read;
}

static void give_read(struct ofi_bulk *bulk, struct read *read)
{
    read->large = NULL;
    read->next = bulk->reads->free;
    bulk->reads->free = read;
}

void ofi_bulk_fini(struct ofi_engine *ofi)
{
    struct ofi_bulk *bulk = ofi->bulk;

    if (bulk == NULL) {
        return;
    }
    free(bulk->reads);
    while (bulk->retired != NULL) {
        struct ofi_reads *reads = bulk->retired;

        bulk->retired = reads->before;
        free(reads);
    }
    orl_pool_fini(&bulk->pool);
    free(bulk);
    ofi->bulk = NULL;
}

/* ---------------------------------------------------------------- asking */

void ofi_haul_begin(struct ofi_engine *ofi, struct ofi_large *large)
{
    large->has_begun = true;
    orl_list_add_tail(&ofi->bulk->hauls, &large->hauling);
}

void ofi_haul_drop(struct ofi_large *large)
{
    orl_list_del(&large->hauling);
}

static bool may_ask(const struct ofi_engine *ofi, const struct ofi_large *large)
{
    return !large->has_failed && large->asked < large->bytes &&
           large->peer->far.under_way < ofi->facts->bulk_depth && ofi->bulk->under_way < READS_MOST;
}

/* A provider may try for ever to connect to an endpoint that is closed. */
static bool is_stuck(const struct ofi_engine *ofi, struct ofi_large *large)
{
    if (large->stuck_since == 0) {
        large->stuck_since = ofi->now;
    }
    return large->under_way == 0 && ofi->now - large->stuck_since > STUCK;
}

/* One read more. False: not now, or never. */
static bool ask(struct ofi_engine *ofi, struct ofi_large *large)
{
    struct ofi_bulk *bulk = ofi->bulk;
    uint64_t left = large->bytes - large->asked;
    struct read *read = take_read(bulk);

    if (read == NULL) {
        return false;
    }
    read->large = large;
    read->bytes = left < bulk->chunk ? (size_t)left : bulk->chunk;
    ssize_t rc =
        fi_read(bulk->ep, large->to + large->asked, read->bytes, large->desc,
                large->peer->far.address, large->from + large->asked, large->key, &read->context);
    if (rc != 0) {
        give_read(bulk, read);
        large->has_failed = rc != -FI_EAGAIN || is_stuck(ofi, large);
        return false;
    }
    large->stuck_since = 0;
    large->asked += read->bytes;
    large->under_way++;
    large->peer->far.under_way++;
    bulk->under_way++;
    return true;
}

/* Ends a haul that is through, in whichever way, and frees it or hands it on. */
static void end(struct ofi_engine *ofi, struct ofi_large *large)
{
    int status = large->has_failed ? OFI_BY_MESSAGES : 0;

    ofi_haul_drop(large);
    if (status != 0) {
        ofi_bulk_failed(ofi, large->peer);
    } else {
        large->peer->far.failures = 0;
    }
    if (large->half != NULL) {
        ofi_pull_over(ofi, large, status);
    } else {
        ofi_fetch_over(ofi, large, status);
    }
}

static bool is_through(const struct ofi_large *large)
{
    return large->under_way == 0 && (large->has_failed || large->landed == large->bytes);
}

/* ---------------------------------------------------------------- what comes of it */

void ofi_on_read(struct ofi_engine *ofi, struct ofi_context *context, bool has_failed)
{
    struct read *read = container_of(context, struct read, context);

    orl_lock(&ofi->base.tx);
    struct ofi_large *large = read->large;
    if (large != NULL) {
        large->has_failed = large->has_failed || has_failed;
        large->landed += read->bytes;
        large->under_way--;
        large->peer->far.under_way--;
        ofi->bulk->under_way--;
        ofi->bulk->nreads++;
        give_read(ofi->bulk, read);
        while (may_ask(ofi, large) && ask(ofi, large)) {
        }
        if (is_through(large)) {
            end(ofi, large);
        }
    }
    orl_unlock(&ofi->base.tx);
}

/* The contexts that are out are the provider's for ever. */
void ofi_hauls_fail(struct ofi_engine *ofi)
{
    struct ofi_bulk *bulk = ofi->bulk;
    struct orl_list *it;

    orl_list_each(it, &bulk->hauls) {
        struct ofi_large *large = container_of(it, struct ofi_large, hauling);

        large->has_failed = true;
        large->under_way = 0;
        large->peer->far.under_way = 0;
    }
    if (bulk->under_way == 0) {
        return;
    }
    for (int i = 0; i < READS_MOST; i++) {
        bulk->reads->read[i].large = NULL;
    }
    bulk->reads->before = bulk->retired;
    bulk->retired = bulk->reads;
    bulk->reads = NULL;
    bulk->under_way = 0;
}

static int haul_on(struct ofi_engine *ofi)
{
    struct orl_list *it;
    struct orl_list *after;
    int events = 0;

    orl_list_each_safe(it, after, &ofi->bulk->hauls) {
        struct ofi_large *large = container_of(it, struct ofi_large, hauling);

        while (may_ask(ofi, large) && ask(ofi, large)) {
            events++;
        }
    }
    return events;
}

static struct ofi_large *find_through(const struct ofi_engine *ofi)
{
    struct orl_list *it;

    orl_list_each(it, &ofi->bulk->hauls) {
        struct ofi_large *large = container_of(it, struct ofi_large, hauling);

        if (is_through(large)) {
            return large;
        }
    }
    return NULL;
}

/* Ending one may end others, so each time from the begin. */
static int end_failed(struct ofi_engine *ofi)
{
    struct ofi_large *large;
    int events = 0;

    while ((large = find_through(ofi)) != NULL) {
        end(ofi, large);
        events++;
    }
    return events;
}

static int resend(struct ofi_engine *ofi)
{
    struct orl_list *it;
    struct orl_list *after;
    int events = 0;

    orl_list_each_safe(it, after, &ofi->bulk->resending) {
        struct ofi_ep *ep = container_of(it, struct ofi_ep, bulk.resending);

        if (ofi_resend(ofi, ep)) {
            orl_list_del(&ep->bulk.resending);
            events++;
        }
    }
    return events;
}

int ofi_large_progress(struct ofi_engine *ofi)
{
    struct ofi_bulk *bulk = ofi->bulk;
    int events;

    if (bulk == NULL || (orl_list_is_empty(&bulk->hauls) && orl_list_is_empty(&bulk->resending))) {
        return 0;
    }
    orl_lock(&ofi->base.tx);
    events = haul_on(ofi);
    events += end_failed(ofi);
    events += resend(ofi);
    orl_unlock(&ofi->base.tx);
    return events;
}

bool ofi_large_has_work(const struct ofi_engine *ofi)
{
    const struct ofi_bulk *bulk = ofi->bulk;
    struct orl_list *it;

    if (bulk == NULL) {
        return false;
    }
    orl_list_each(it, &bulk->hauls) {
        const struct ofi_large *large = container_of(it, struct ofi_large, hauling);

        if (may_ask(ofi, large) || is_through(large)) {
            return true;
        }
    }
    return false;
}
