/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rails: which pairs of engines lead to a peer, posting on one of them, and what happens when one
 * dies. A dead rail is left at its first LINK; what it held is posted again on another one by
 * whoever owns it (xfer.c, send.c). From then on a try is made now and then, by threads that use
 * the path, to open a new endpoint and get a message through; when that works the rail is back.
 */
#ifndef CORE_PATH_RAIL_H
#define CORE_PATH_RAIL_H

#include <stdint.h>

#include "base/attr.h"
#include "core/path/path.h"
#include "fabric/fabric.h"

/* A pair of engines that leads to a peer. */
struct core_pair {
    int engine; /* number of mine */
    int card;   /* number of the peer's */
    uint32_t weight;
};

/* Pair my engines with a peer's cards, each used once at most: those on equal networks; where there
 * are none, or one of the two networks is unknown, in the order of their numbers. Best first: by
 * level, then speed. At most `most` pairs. Only pairs of the best level have a weight. Returns how
 * many. Pure. */
int core_rails_pair(struct fab_engine *const *mine, int nmine, const struct fab_card *cards,
                    int ncards, int most, struct core_pair pair[CORE_RAILS_MAX]);

#define CORE_RAILS_ANY UINT32_MAX

/* Whether operations may take it. */
bool core_rail_lives(const struct core_path *path, int rail);
/* The rail that a small operation takes: the first of those in `rails` that lives, -1: none. */
int core_rail_first(const struct core_path *path, uint32_t rails);
/* Post one operation (a flush among them) on a rail, dead or not. The first thing its done does is
 * core_rail_ended. */
void core_rail_post(struct core_path *path, int rail, struct fab_op *op);
/* Posting an operation again: after core_rail_post. */
void core_rail_moved(struct core_path *path);
/* What was posted on a rail has ended. LINK marks the rail dead, and comes back as PEER when that
 * was the last one. */
int core_rail_ended(struct core_path *path, int rail, int status);

/* Look after dead rails, if it is time to. Not from done functions or handlers. */
void core_rails_retry(struct core_path *path);
static inline void core_rails_tick(struct core_path *path)
{
    if (ORL_UNLIKELY(atomic_load_explicit(&path->ndead, memory_order_relaxed) != 0)) {
        core_rails_retry(path);
    }
}
/* Stop and close what retries have left. Nobody uses the path any more. */
void core_rails_stop(struct core_path *path);
void core_rails_close(struct core_path *path);

#endif
