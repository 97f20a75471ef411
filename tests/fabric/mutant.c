/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machinery of planted faults: tables that stand before the real ones, shadows of ops, and
 * the list of deeds that wait for a later progress call. The faults are in mutant_*.c.
 */
#include "mutant.h"

#include <stdlib.h>
#include <string.h>

#include "contract.h"

static const struct mutant_fault no_fault = { .what = "nothing" };
static const struct mutant_fault *planted = &no_fault;

static void finish_right(struct mutant_shadow *shadow, int status)
{
    mutant_finish(shadow, status);
    mutant_free(shadow);
}

const struct mutant_fault mutant_shadows_only = { .what = "nothing", .finish = finish_right };

size_t mutant_count(void)
{
    return mutant_ncall_faults + mutant_ndata_faults + mutant_nmemory_faults;
}

const struct mutant_fault *mutant_at(size_t number)
{
    if (number == 0) {
        return &no_fault;
    }
    number--;
    if (number < mutant_ncall_faults) {
        return &mutant_call_faults[number];
    }
    number -= mutant_ncall_faults;
    if (number < mutant_ndata_faults) {
        return &mutant_data_faults[number];
    }
    return &mutant_memory_faults[number - mutant_ndata_faults];
}

/* ---------------------------------------------------------------- shadows */

static void on_shadow_done(struct fab_op *op, int status)
{
    struct mutant_shadow *shadow = container_of(op, struct mutant_shadow, op);

    if (shadow->finish != NULL) {
        shadow->finish(shadow, status);
        return;
    }
    if (shadow->user != NULL && planted->finish != NULL) {
        planted->finish(shadow, status);
        return;
    }
    mutant_finish(shadow, status);
    mutant_free(shadow);
}

struct mutant_shadow *mutant_shadow(struct mutant_ep *mep, struct fab_op *op)
{
    struct mutant_shadow *shadow = calloc(1, sizeof *shadow);

    if (shadow == NULL) {
        abort();
    }
    shadow->mep = mep;
    shadow->user = op;
    if (op != NULL) {
        shadow->op = *op;
        op->ep = mep->ep;
    }
    shadow->op.link.next = NULL;
    shadow->op.done = on_shadow_done;
    return shadow;
}

void mutant_free(struct mutant_shadow *shadow)
{
    free(shadow->copy);
    free(shadow);
}

void mutant_take_copy(struct mutant_shadow *shadow, const void *src, size_t bytes)
{
    shadow->copy = malloc(bytes + 1);
    if (shadow->copy == NULL) {
        abort();
    }
    memcpy(shadow->copy, src, bytes);
    shadow->op.local = shadow->copy;
}

void mutant_post(struct mutant_shadow *shadow)
{
    shadow->op.link.next = NULL;
    shadow->mep->real->post(shadow->mep->ep, &shadow->op);
}

static bool run_post(struct mutant_shadow *shadow)
{
    mutant_post(shadow);
    return true;
}

void mutant_later(struct mutant_shadow *shadow, unsigned ticks,
                  bool (*run)(struct mutant_shadow *shadow))
{
    shadow->ticks = ticks;
    shadow->run = run != NULL ? run : run_post;
    orl_fifo_push(&shadow->mep->engine->late, &shadow->link);
}

void mutant_finish(struct mutant_shadow *shadow, int status)
{
    struct fab_op *user = shadow->user;

    if (user != NULL) {
        user->status = status;
        user->done(user, status);
    }
}

bool mutant_finish_fine(struct mutant_shadow *shadow)
{
    mutant_finish(shadow, 0);
    mutant_free(shadow);
    return true;
}

static int run_late(struct mutant_engine *at)
{
    struct orl_link *link;
    int events = 0;

    while ((link = orl_fifo_peek(&at->late)) != NULL) {
        struct mutant_shadow *shadow = container_of(link, struct mutant_shadow, link);

        events++;
        if (shadow->ticks > 0) {
            shadow->ticks--;
            break;
        }
        (void)orl_fifo_pop(&at->late);
        if (!shadow->run(shadow)) {
            orl_fifo_push_head(&at->late, link);
            break;
        }
    }
    return events;
}

/* ---------------------------------------------------------------- data table */

static struct mutant_engine *at_of(const struct fab_engine *engine)
{
    /* The table was made by plant, so it may be written. */
    struct fab_transport_ops *table = (struct fab_transport_ops *)(uintptr_t)engine->transport;

    return container_of(table, struct mutant_engine, table);
}

static struct mutant_ep *mep_of(struct fab_ep *ep)
{
    struct mutant_ep *mep = at_of(ep->engine)->eps;

    while (mep != NULL && mep->ep != ep) {
        mep = mep->next;
    }
    return mep;
}

static int on_put_short(struct fab_ep *ep, const struct fab_rkey *key, uint64_t offset,
                        const void *src, size_t bytes)
{
    struct mutant_ep *mep = mep_of(ep);

    mep->n++;
    return planted->put_short != NULL ? planted->put_short(mep, key, offset, src, bytes)
                                      : mep->real->put_short(ep, key, offset, src, bytes);
}

static int on_send_short(struct fab_ep *ep, unsigned handler, uint64_t header, const void *src,
                         size_t bytes)
{
    struct mutant_ep *mep = mep_of(ep);

    mep->n++;
    return planted->send_short != NULL ? planted->send_short(mep, handler, header, src, bytes)
                                       : mep->real->send_short(ep, handler, header, src, bytes);
}

static void post_one(struct mutant_ep *mep, struct fab_op *op)
{
    mep->n++;
    op->link.next = NULL;
    if (planted->post != NULL) {
        planted->post(mep, op);
    } else {
        mutant_post(mutant_shadow(mep, op));
    }
}

static void on_post(struct fab_ep *ep, struct fab_op *chain)
{
    struct mutant_ep *mep = mep_of(ep);

    if (planted->chain != NULL) {
        planted->chain(mep, chain);
        return;
    }
    if (planted->post == NULL && planted->finish == NULL) {
        mep->real->post(ep, chain);
        return;
    }
    while (chain != NULL) {
        struct orl_link *next = chain->link.next;

        post_one(mep, chain);
        chain = next == NULL ? NULL : container_of(next, struct fab_op, link);
    }
}

static void on_flush(struct fab_ep *ep, struct fab_op *op)
{
    struct mutant_ep *mep = mep_of(ep);

    op->kind = FAB_OP_FLUSH;
    op->bytes = 0;
    if (planted->post == NULL && planted->finish == NULL) {
        mep->real->flush(ep, op);
    } else {
        post_one(mep, op);
    }
}

/* ---------------------------------------------------------------- control table */

static int on_ep_open(struct fab_engine *engine, const void *address, size_t bytes,
                      const char *label, struct fab_ep **ep)
{
    struct mutant_engine *at = at_of(engine);
    int rc = at->real->ep_open(engine, address, bytes, label, ep);
    struct mutant_ep *mep;

    if (rc != 0) {
        return rc;
    }
    mep = calloc(1, sizeof *mep);
    if (mep == NULL) {
        abort();
    }
    mep->ep = *ep;
    mep->engine = at;
    mep->real = atomic_load(&(*ep)->ops);
    mep->table.put_short = on_put_short;
    mep->table.send_short = on_send_short;
    mep->table.post = on_post;
    mep->table.flush = on_flush;
    mep->next = at->eps;
    at->eps = mep;
    atomic_store(&(*ep)->ops, &mep->table);
    if (planted->opened != NULL) {
        planted->opened(*ep);
    }
    return 0;
}

/* What waits belongs to the poster again: finished with the status, or kept by the fault. */
static void on_ep_stop(struct fab_ep *ep, int status)
{
    struct mutant_engine *at = at_of(ep->engine);
    struct orl_fifo kept;
    struct orl_link *link;

    at->real->ep_stop(ep, status);
    at->is_stopped = true;
    orl_fifo_init(&kept);
    while ((link = orl_fifo_pop(&at->late)) != NULL) {
        struct mutant_shadow *shadow = container_of(link, struct mutant_shadow, link);

        if (shadow->mep->ep != ep) {
            orl_fifo_push(&kept, link);
            continue;
        }
        mutant_finish(shadow, status);
        shadow->user = NULL;
        if (planted->late_outlives_stop) {
            orl_fifo_push(&kept, link);
        } else {
            mutant_free(shadow);
        }
    }
    at->late = kept;
    if (planted->stopped != NULL) {
        planted->stopped(at);
    }
}

static void on_ep_close(struct fab_ep *ep)
{
    struct mutant_engine *at = at_of(ep->engine);
    struct mutant_ep **place = &at->eps;

    while (*place != NULL) {
        struct mutant_ep *mep = *place;

        if (mep->ep == ep) {
            *place = mep->next;
            free(mep);
            break;
        }
        place = &mep->next;
    }
    at->real->ep_close(ep);
}

static int on_rkey_open(struct fab_ep *ep, const void *blob, size_t bytes, struct fab_rkey *key)
{
    struct mutant_engine *at = at_of(ep->engine);

    return planted->rkey_open != NULL ? planted->rkey_open(at, ep, blob, bytes, key)
                                      : at->real->rkey_open(ep, blob, bytes, key);
}

static int on_progress(struct fab_engine *engine)
{
    struct mutant_engine *at = at_of(engine);
    int events = at->real->progress(engine);

    if (planted->tick != NULL) {
        planted->tick(at);
    }
    return events + run_late(at);
}

static void on_close(struct fab_engine *engine)
{
    struct mutant_engine *at = at_of(engine);

    engine->transport = at->real;
    at->real->close(engine);
    free(at);
}

static void plant(struct fab_engine *engine)
{
    struct mutant_engine *at = calloc(1, sizeof *at);

    if (at == NULL) {
        abort();
    }
    at->engine = engine;
    at->real = engine->transport;
    orl_fifo_init(&at->late);
    at->table = *engine->transport;
    at->table.ep_open = on_ep_open;
    at->table.ep_stop = on_ep_stop;
    at->table.ep_close = on_ep_close;
    at->table.rkey_open = on_rkey_open;
    at->table.progress = on_progress;
    at->table.close = on_close;
    engine->transport = &at->table;
}

void mutant_plant(const struct mutant_fault *fault)
{
    planted = fault;
    ct_engine_hook = plant;
}
