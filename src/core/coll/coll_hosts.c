/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two levels of a collective; see coll_hosts.h. Knows nothing of peers and paths.
 *
 * Cost: that between hosts, see coll_across.c and coll_across_reduce.c, and two hand-overs of a
 * line within the host; for large operands once more their bytes at the speed of memory for each of
 * the stages in and out.
 */
#include "core/coll/coll_hosts.h"

#include <stdlib.h>

#include "base/status.h"

bool coll_hosts_in_order(const int *host_of, int nranks)
{
    for (int r = 1; r < nranks; r++) {
        if (host_of[r - 1] > host_of[r]) {
            return false;
        }
    }
    return true;
}

void coll_hosts_set(struct coll_hosts *h, const int *leader, int nhosts)
{
    const int me = h->net.me;
    const int mine = h->host_of[me];

    h->leaders = (struct coll_circle){ .net = &h->net, .rank = leader, .n = nhosts, .me = mine };
    h->all = (struct coll_circle){ .net = &h->net, .n = h->net.nranks, .me = me };
    h->is_leader = leader[mine] == me;
    h->is_in_order = coll_hosts_in_order(h->host_of, h->net.nranks);
}

static bool has_others_here(const struct coll_hosts *h)
{
    return h->nlocal > 1;
}

static int local_index(const struct coll_hosts *h, int rank)
{
    int i = 0;

    while (i < h->nlocal && h->local_rank[i] != rank) {
        i++;
    }
    return i;
}

/* ---------------------------------------------------------------- barrier */

static int meet(struct coll_hosts *h, const char *call)
{
    const struct coll_operand nothing = { 0 };
    int st = has_others_here(h) ? coll_gather(h->node, call, &nothing) : 0;

    if (st == 0 && h->is_leader) {
        st = coll_across_barrier(&h->leaders, call);
    }
    if (st == 0 && has_others_here(h)) {
        st = coll_release(h->node, call, &nothing);
    }
    return st;
}

int coll_hosts_barrier(struct coll_hosts *h, const char *call)
{
    coll_net_begin(&h->net);
    return meet(h, call);
}

int coll_hosts_leave(struct coll_hosts *h, const char *call)
{
    coll_net_begin(&h->net);
    int st = meet(h, call);
    return st != 0 ? st : coll_net_settle(&h->net, call);
}

/* ---------------------------------------------------------------- bcast */

/* Passes on what the root sent, however long it is; then this rank's own expectation counts. */
int coll_hosts_bcast(struct coll_hosts *h, const char *call, void *buffer, uint64_t bytes, int root)
{
    const int place = h->host_of[root];
    bool is_here = place == h->leaders.me;
    bool speaks = is_here ? root == h->net.me : h->is_leader;
    struct coll_cast cast = {
        .buffer = buffer, .bytes = bytes, .place = place, .rank = root, .total = bytes
    };
    int st = 0;

    coll_net_begin(&h->net);
    if (speaks) {
        st = coll_across_bcast(&h->leaders, call, &cast);
    }
    if (st == 0 && has_others_here(h)) {
        void *data = cast.other != NULL ? cast.other : buffer;
        st = coll_spread(h->node, call, data, cast.total, is_here ? local_index(h, root) : 0);
    }
    if (st == 0 && cast.total != bytes) {
        st =
            orl_fail(ORL_ERR_INVAL,
                     "%s: this rank expects %llu bytes, the root sends %llu; they must be the same "
                     "on all ranks",
                     call, (unsigned long long)bytes, (unsigned long long)cast.total);
    }
    free(cast.other);
    return st;
}

/* ---------------------------------------------------------------- allreduce */

/* The operand fits a line. */
static int reduce_lines(struct coll_hosts *h, const char *call, const struct coll_operand *x,
                        uint64_t element)
{
    int st = coll_gather(h->node, call, x);

    if (st == 0 && h->is_leader) {
        struct coll_operand mine = *x;
        mine.send = x->recv;
        st = coll_across_allreduce(&h->leaders, call, &mine, element);
    }
    return st != 0 ? st : coll_release(h->node, call, x);
}

static int reduce_stages(struct coll_hosts *h, const char *call, const struct coll_operand *x,
                         uint64_t element)
{
    int st = coll_exchange_staged(h->node, call, x, element);

    if (st == 0 && h->is_leader) {
        struct coll_operand mine = *x;
        mine.send = x->recv;
        st = coll_across_allreduce(&h->leaders, call, &mine, element);
    }
    return st != 0 ? st : coll_spread(h->node, call, x->recv, x->bytes, 0);
}

int coll_hosts_allreduce(struct coll_hosts *h, const char *call, const struct coll_operand *x,
                         uint64_t element)
{
    coll_net_begin(&h->net);
    if (!h->is_in_order) {
        return coll_across_allreduce(&h->all, call, x, element);
    }
    if (!has_others_here(h)) {
        return coll_across_allreduce(&h->leaders, call, x, element);
    }
    return x->bytes <= FAB_FLAG_BYTES ? reduce_lines(h, call, x, element)
                                      : reduce_stages(h, call, x, element);
}
