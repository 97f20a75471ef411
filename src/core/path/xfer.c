/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on a path with several rails; see xfer.h. Pieces are posted by the caller's thread,
 * and posted again by done functions (poller held). `live` counts the pieces that have not ended;
 * whoever counts down to 0 goes on to the next phase or ends the operation, and after that nobody
 * touches the xfer.
 */
#include "core/path/xfer.h"

#include <string.h>

#include "base/conf.h"
#include "base/pool.h"
#include "base/stats.h"
#include "core/path/plan.h"
#include "core/path/progress.h"
#include "core/path/rail.h"

_Static_assert(CORE_PLAN_MAX == CORE_RAILS_MAX, "a part for each rail");

enum {
    CORE_XFER_WHOLE, /* one piece, as it was asked for */
    CORE_XFER_DATA,  /* pieces of a put or get */
    CORE_XFER_FLUSH, /* of a put with notice: the pieces become visible */
    CORE_XFER_COUNT  /* and then the counter is raised */
};

#define SMALL_BYTES 256 /* puts up to this length leave their caller in a copy */

/* A small put that has left its caller. */
struct small {
    struct core_xfer xfer;
    struct fab_op whole;
    struct core_path *path;
    struct fab_rkey key[CORE_RAILS_MAX]; /* the remote may be closed meanwhile */
    unsigned char data[SMALL_BYTES];
};

static struct orl_pool xfers;
static struct orl_pool smalls;

static void piece_done(struct fab_op *op, int status);

int core_xfers_open(void)
{
    int status = orl_pool_init(&xfers, "striped operations", sizeof(struct core_xfer),
                               ORL_CACHE_LINE, 16, 0);

    if (status != 0) {
        return status;
    }
    status = orl_pool_init(&smalls, "small puts", sizeof(struct small), ORL_CACHE_LINE, 16, 0);
    if (status != 0) {
        orl_pool_fini(&xfers);
    }
    return status;
}

void core_xfers_close(void)
{
    orl_pool_fini(&smalls);
    orl_pool_fini(&xfers);
}

struct core_xfer *core_xfer_alloc(void)
{
    return orl_pool_alloc(&xfers);
}

void core_xfer_free(struct core_xfer *xfer)
{
    orl_pool_free(&xfers, xfer);
}

/* ---------------------------------------------------------------- the plan */

static bool has_key(const struct core_xfer *xfer, int rail)
{
    return (xfer->rails >> rail & 1) != 0;
}

/* What the rails that live and that there are keys for weigh; those without a weight of their own
 * count only when no other is there. */
static void weigh(const struct core_xfer *xfer, uint32_t weight[CORE_RAILS_MAX])
{
    const struct core_path *path = xfer->path;
    bool any = false;

    for (int r = 0; r < path->nrails; r++) {
        bool serves = has_key(xfer, r) && core_rail_lives(path, r);

        weight[r] = serves ? path->rail[r].weight : 0;
        any = any || weight[r] != 0;
    }
    if (!any) {
        int first = core_rail_first(path, xfer->rails);

        /* On a path without rails the operation finds out at the first of them. */
        weight[first >= 0 ? first : 0] = 1;
    }
}

static bool can_be_cut(const struct fab_op *op)
{
    return op->kind == FAB_OP_PUT || op->kind == FAB_OP_GET || op->kind == FAB_OP_PUT_NOTIFY;
}

/* ---------------------------------------------------------------- posting */

static const struct fab_rkey *key_of(const struct core_xfer *xfer, int rail)
{
    return xfer->whole->rkey == NULL ? NULL : xfer->whole->rkey + rail;
}

static void post_piece(struct core_xfer_piece *piece, int rail)
{
    piece->rail = rail;
    piece->op.rkey = key_of(piece->xfer, rail);
    core_rail_post(piece->xfer->path, rail, &piece->op);
}

static struct core_xfer_piece *make_piece(struct core_xfer *xfer, int i)
{
    struct core_xfer_piece *piece = &xfer->piece[i];

    piece->xfer = xfer;
    piece->op = *xfer->whole;
    piece->op.done = piece_done;
    piece->op.user = piece;
    piece->op.flags = 0;
    return piece;
}

void core_xfer_start(struct core_xfer *xfer, struct core_path *path, struct fab_op *whole)
{
    struct core_plan_part part[CORE_PLAN_MAX];
    uint32_t weight[CORE_RAILS_MAX];
    uint64_t least = can_be_cut(whole) ? orl_conf.stripe_min : UINT64_MAX;
    int n;

    xfer->path = path;
    xfer->whole = whole;
    xfer->rails = whole->flags;
    atomic_init(&xfer->status, 0);
    weigh(xfer, weight);
    n = core_plan(whole->bytes, weight, path->nrails, least, part);
    xfer->npieces = n;
    xfer->phase = n == 1 ? CORE_XFER_WHOLE : CORE_XFER_DATA;
    atomic_init(&xfer->live, (uint32_t)n);
    for (int i = 0; i < n; i++) {
        struct core_xfer_piece *piece = make_piece(xfer, i);

        if (n > 1) {
            piece->op.kind = whole->kind == FAB_OP_GET ? FAB_OP_GET : FAB_OP_PUT;
            piece->op.local = (unsigned char *)whole->local + part[i].offset;
            piece->op.offset = whole->offset + part[i].offset;
            piece->op.bytes = part[i].bytes;
        }
    }
    if (n > 1) {
        orl_stat_add(&core.stats, ORL_STAT_STRIPES, 1);
    }
    /* The last post may be the end of the xfer. */
    for (int i = 0; i < n; i++) {
        post_piece(&xfer->piece[i], part[i].rail);
    }
}

/* ---------------------------------------------------------------- ending */

static void end(struct core_xfer *xfer)
{
    struct fab_op *whole = xfer->whole;

    whole->status = atomic_load(&xfer->status);
    whole->done(whole, whole->status);
}

/* The pieces of a put with notice are done: flush the rails that have carried them. */
static void flush_pieces(struct core_xfer *xfer)
{
    uint32_t carried = 0;
    uint32_t n = 0;
    uint32_t posted = 0;

    for (int i = 0; i < xfer->npieces; i++) {
        carried |= 1u << xfer->piece[i].rail;
    }
    for (int r = 0; r < CORE_RAILS_MAX; r++) {
        n += carried >> r & 1;
    }
    xfer->phase = CORE_XFER_FLUSH;
    atomic_store(&xfer->live, n);
    for (int r = 0; posted < n; r++) {
        if ((carried >> r & 1) != 0) {
            struct core_xfer_piece *piece = make_piece(xfer, (int)posted++);

            piece->op.kind = FAB_OP_FLUSH;
            piece->op.bytes = 0;
            post_piece(piece, r);
        }
    }
}

static void raise_counter(struct core_xfer *xfer)
{
    struct core_xfer_piece *piece = make_piece(xfer, 0);
    int rail = core_rail_first(xfer->path, xfer->rails);

    xfer->phase = CORE_XFER_COUNT;
    piece->op.kind = FAB_OP_PUT_NOTIFY;
    piece->op.bytes = 0;
    atomic_store(&xfer->live, 1);
    post_piece(piece, rail >= 0 ? rail : 0);
}

/* All pieces of a phase have ended. */
static void go_on(struct core_xfer *xfer)
{
    bool notice = xfer->whole->kind == FAB_OP_PUT_NOTIFY && atomic_load(&xfer->status) == 0;

    if (notice && xfer->phase == CORE_XFER_DATA) {
        flush_pieces(xfer);
    } else if (notice && xfer->phase == CORE_XFER_FLUSH) {
        raise_counter(xfer);
    } else {
        end(xfer);
    }
}

/* Posts the piece anew when its rail has died and that does no harm. */
static bool post_again(struct core_xfer_piece *piece, int status)
{
    struct core_xfer *xfer = piece->xfer;
    int rail;

    if (status != ORL_ERR_LINK || (piece->op.kind != FAB_OP_PUT && piece->op.kind != FAB_OP_GET)) {
        return false;
    }
    rail = core_rail_first(xfer->path, xfer->rails);
    if (rail < 0) {
        return false;
    }
    struct core_path *path = xfer->path;
    post_piece(piece, rail);
    core_rail_moved(path); /* the xfer may be gone */
    return true;
}

static void piece_done(struct fab_op *op, int status)
{
    struct core_xfer_piece *piece = op->user;
    struct core_xfer *xfer = piece->xfer;
    int none = 0;

    status = core_rail_ended(xfer->path, piece->rail, status);
    if (post_again(piece, status)) {
        return;
    }
    if (op->kind == FAB_OP_FLUSH && status == ORL_ERR_LINK) {
        status = 0; /* the pieces were done before the rail died, and what is done stays */
    }
    if (status != 0) {
        (void)atomic_compare_exchange_strong(&xfer->status, &none, status);
    }
    if (atomic_fetch_sub_explicit(&xfer->live, 1, memory_order_acq_rel) == 1) {
        go_on(xfer);
    }
}

/* ---------------------------------------------------------------- small puts */

static void small_done(struct fab_op *op, int status)
{
    struct small *small = op->user;
    struct core_path *path = small->path;
    int none = 0;

    status = core_path_done(path, status);
    if (status != 0) {
        (void)atomic_compare_exchange_strong(&path->late, &none, status);
    }
    orl_pool_free(&smalls, small);
}

bool core_xfer_put_small(struct core_path *path, const struct fab_op *op)
{
    struct small *small;

    if (op->kind != FAB_OP_PUT || op->bytes > SMALL_BYTES || core_path_room(path, 1) == 0) {
        return false;
    }
    small = orl_pool_alloc(&smalls);
    if (small == NULL) {
        core_path_unroom(path, 1);
        return false;
    }
    memcpy(small->data, op->local, (size_t)op->bytes);
    memcpy(small->key, op->rkey, (size_t)path->nrails * sizeof(small->key[0]));
    small->path = path;
    small->whole = *op;
    small->whole.local = small->data;
    small->whole.rkey = small->key;
    small->whole.done = small_done;
    small->whole.user = small;
    core_xfer_start(&small->xfer, path, &small->whole);
    return true;
}
