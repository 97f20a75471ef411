/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast: the root's lines and its ring of bytes, see coll.h. Only the root decides how a
 * message is cut, when its readers confirm, and how large its ring is.
 *
 * Cost: c for a line; n bytes at the pace of the slower of root and readers for the rest.
 */
#include "base/log.h"
#include "core/coll/coll_lines.h"

#include "base/status.h"

/* Below the step in the word of a root's line. */
#define ACK      1u /* store this step in your done line */
#define STAGED   2u /* the line holds a struct piece, not the bytes */
#define STEP_BIT 2

#define PIECE_MAX  (64u << 10) /* so that readers start early */
#define STREAM_MIN 2048        /* see coll_fill; the root need not wait for its stores */

/* Where the bytes of one step are in the root's stage. */
struct piece {
    uint64_t at;
    uint64_t bytes; /* 0: none, this step is for the root's own sake */
    uint64_t total; /* of the message */
};

static struct fab_flag *line_of(const struct coll_matrix *m, int root, uint64_t step)
{
    struct fab_flag *lines = (void *)coll_stage(m, root, COLL_LINES_AT);

    return &lines[step % COLL_SLOTS];
}

/* ---------------------------------------------------------------- root */

/* Wait until every rank has consumed rooted step `step`, which was one to confirm. */
static int wait_consumed(struct coll_matrix *m, const char *call, uint64_t step)
{
    const struct fab_flag *done = m->node->done;

    if (m->done_min >= step) {
        return 0;
    }
    int st = m->wait(&(struct coll_need){
        .line = done, .first = 0, .last = m->nranks, .stride = 1, .seq = step, .call = call });
    if (st == 0) {
        uint64_t least = m->rooted;
        for (int r = 0; r < m->nranks; r++) {
            uint64_t seen = coll_seq_of(&done[r]);
            least = seen < least ? seen : least;
        }
        m->done_min = least;
    }
    return st;
}

static void confirm(const struct coll_matrix *m)
{
    coll_publish(m, &m->node->done[m->me], m->rooted);
}

/* Begin a rooted step as its root: when this returns 0 the line may be written. */
static int begin(struct coll_matrix *m, const char *call)
{
    uint64_t step = ++m->rooted;

    if (step <= COLL_SLOTS) {
        return 0;
    }
    uint64_t last = step - COLL_SLOTS;
    return wait_consumed(m, call, (last + COLL_ACK_STEPS - 1) / COLL_ACK_STEPS * COLL_ACK_STEPS);
}

/* The line of this step is written. */
static void send_line(struct coll_matrix *m, unsigned bits)
{
    uint64_t step = m->rooted;

    if (step % COLL_ACK_STEPS == 0) {
        bits |= ACK;
    }
    coll_publish(m, line_of(m, m->me, step), step << STEP_BIT | bits);
    if ((bits & ACK) != 0) {
        confirm(m);
    }
    /* The slot after the next was read long ago: fetch it back before it is needed. */
    __builtin_prefetch(line_of(m, m->me, step + 2), 1);
}

static void send_piece(struct coll_matrix *m, const struct piece *piece, unsigned bits)
{
    memcpy(line_of(m, m->me, m->rooted)->data, piece, sizeof(*piece));
    send_line(m, bits | STAGED);
}

/* Place for a piece in the ring: at the current place if the quarter has room, else at the start
 * of the next one, which must be free. *bits: whether its readers are to confirm. */
static int find_place(struct coll_matrix *m, const char *call, uint64_t bytes, uint64_t *at,
                      unsigned *bits)
{
    struct coll_ring *ring = &m->ring;
    uint64_t quarter = ring->bytes / 4;

    if (ring->at % quarter + bytes > quarter) {
        ring->at = (ring->at / quarter + 1) * quarter;
    }
    ring->at %= ring->bytes;
    *at = ring->at;
    *bits = 0;
    ring->at += bytes;
    if (*at % quarter != 0) {
        return 0;
    }
    uint64_t q = *at / quarter;
    ring->left[(q + 3) % 4] = m->rooted;
    *bits = ACK;
    return wait_consumed(m, call, ring->left[q]);
}

/* Send a step that brings nothing and wait until all have read it, and all before it. */
static int drain(struct coll_matrix *m, const char *call, uint64_t total)
{
    int st = begin(m, call);

    if (st == 0) {
        send_piece(m, &(struct piece){ .total = total }, ACK);
        st = wait_consumed(m, call, m->rooted);
    }
    return st;
}

/* Give the ring four times the message, as far as there is memory. */
static int grow(struct coll_matrix *m, const char *call, uint64_t bytes)
{
    struct coll_ring *ring = &m->ring;
    uint64_t most = COLL_NODE_BYTES_MAX / 2 / (uint64_t)m->nranks;
    uint64_t want = COLL_RING_MIN;
    unsigned char *memory = coll_stage(m, m->me, COLL_RING_AT);

    if (ring->bytes == 0) {
        ring->bytes = COLL_RING_MIN;
    }
    while (want / 4 < bytes && want < COLL_RING_MAX && want < most) {
        want *= 2;
    }
    if (want <= ring->bytes || ring->final) {
        return 0;
    }
    if (m->reserve(m->node, memory, want) != 0) {
        orl_log_info(ORL_CAT_NODE, "%s: no memory for %llu bytes of staging; they stay at %llu",
                     call, (unsigned long long)want, (unsigned long long)ring->bytes);
        ring->final = true;
        return 0;
    }
    fab_node_populate(m->node, memory, want);
    int st = drain(m, call, bytes);
    *ring = (struct coll_ring){ .bytes = want };
    return st;
}

/* Bytes of a message that the next piece takes; no piece is larger than a quarter. */
static uint64_t piece_bytes(const struct coll_ring *ring, uint64_t left)
{
    uint64_t quarter = ring->bytes / 4;

    left = left < quarter ? left : quarter;
    return left < PIECE_MAX ? left : PIECE_MAX;
}

static int send_staged(struct coll_matrix *m, const char *call, const unsigned char *data,
                       uint64_t bytes)
{
    int st = grow(m, call, bytes);

    for (uint64_t sent = 0; st == 0 && sent < bytes;) {
        struct piece piece = { .bytes = piece_bytes(&m->ring, bytes - sent), .total = bytes };
        unsigned bits;

        st = begin(m, call);
        if (st == 0) {
            st = find_place(m, call, piece.bytes, &piece.at, &bits);
        }
        if (st == 0) {
            coll_fill(coll_stage(m, m->me, COLL_RING_AT + piece.at), data + sent, piece.bytes,
                      STREAM_MIN);
            send_piece(m, &piece, bits);
            sent += piece.bytes;
        }
    }
    return st;
}

static int send_inline(struct coll_matrix *m, const char *call, const void *data, uint64_t bytes)
{
    int st = begin(m, call);

    if (st == 0) {
        coll_move(line_of(m, m->me, m->rooted)->data, data, bytes);
        send_line(m, 0);
    }
    return st;
}

/* ---------------------------------------------------------------- readers */

static int disagree(const char *call, uint64_t bytes)
{
    return orl_fail(ORL_ERR_INVAL,
                    "%s: this rank expects %llu bytes, the root sends another number; they must "
                    "be the same on all ranks",
                    call, (unsigned long long)bytes);
}

/* What a step brought, from its line, to `to`; *got: how much of the message. */
static int take(const struct coll_matrix *m, const char *call, const struct fab_flag *line,
                int root, void *to, uint64_t bytes, uint64_t left, uint64_t *got)
{
    uint64_t word = atomic_load_explicit(&line->seq, memory_order_relaxed);
    struct piece piece;

    if (((word & STAGED) != 0) != (bytes > FAB_FLAG_BYTES)) {
        return disagree(call, bytes);
    }
    if ((word & STAGED) == 0) {
        coll_move(to, line->data, bytes);
        *got = bytes;
        return 0;
    }
    memcpy(&piece, line->data, sizeof(piece));
    if (piece.total != bytes || piece.bytes > left) {
        return disagree(call, bytes);
    }
    coll_move(to, coll_stage(m, root, COLL_RING_AT + piece.at), piece.bytes);
    *got = piece.bytes;
    return 0;
}

static int receive(struct coll_matrix *m, const char *call, unsigned char *to, uint64_t bytes,
                   int root)
{
    int st = 0;

    for (uint64_t left = bytes; st == 0 && left != 0;) {
        const struct fab_flag *line = line_of(m, root, ++m->rooted);
        uint64_t got = 0;

        st = m->wait(&(struct coll_need){ .line = line,
                                          .first = 0,
                                          .last = 1,
                                          .stride = 1,
                                          .rank = root,
                                          .seq = m->rooted << STEP_BIT,
                                          .call = call });
        if (st == 0) {
            st = take(m, call, line, root, to + (bytes - left), bytes, left, &got);
        }
        if (st == 0 && (atomic_load_explicit(&line->seq, memory_order_relaxed) & ACK) != 0) {
            confirm(m);
        }
        left -= got;
    }
    return st;
}

int coll_spread(struct coll_matrix *m, const char *call, void *buffer, uint64_t bytes, int root)
{
    if (root != m->me) {
        return receive(m, call, buffer, bytes, root);
    }
    return bytes <= FAB_FLAG_BYTES ? send_inline(m, call, buffer, bytes)
                                   : send_staged(m, call, buffer, bytes);
}
