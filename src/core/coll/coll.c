/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public collectives: argument checks, the choice of form, and how a collective waits (spin,
 * then the one waiting function; the lives of those it waits for are looked at). The steps are in
 * coll_node.c. A team is used by one thread at a time, so the counters need no lock.
 */
#include "core/coll/coll.h"

#include "base/conf.h"
#include "base/copy.h"
#include "base/log.h"
#include "base/status.h"
#include "core/core.h"
#include "core/path/peer.h"
#include "core/path/progress.h"
#include "core/team/team.h"

static struct coll_matrix world;
static uint64_t patience = ORL_NEVER; /* deadline of waits; finite in finalize only */

static bool need_is_met(void *arg)
{
    const struct coll_need *need = arg;
    return coll_need_is_met(need);
}

/* The first rank that has not come and is gone ends the wait. */
static int needed_are_alive(void *arg)
{
    const struct coll_need *need = arg;
    for (int r = need->first; r < need->last; r += need->stride) {
        if (r == world.me ||
            atomic_load_explicit(&need->line[r].seq, memory_order_acquire) >= need->seq) {
            continue;
        }
        int st = core_peer_check(core.local_rank[r]);
        /* it may have come between the two looks, and have left in good order since */
        if (st != 0 && atomic_load_explicit(&need->line[r].seq, memory_order_acquire) < need->seq) {
            return st;
        }
    }
    return 0;
}

static int wait_for(const struct coll_need *need)
{
    for (unsigned turn = 0; turn <= core_spin_turns; turn++) {
        if (coll_need_is_met(need)) {
            return 0;
        }
        orl_cpu_pause();
    }
    struct coll_need copy = *need;
    return core_wait(&(struct core_wait){ .ready = need_is_met,
                                          .alive = needed_are_alive,
                                          .arg = &copy,
                                          .deadline = patience,
                                          .call = need->call,
                                          .rank = -1 });
}

void core_coll_open(void)
{
    world = (struct coll_matrix){ .node = core.node,
                                  .wait = wait_for,
                                  .me = core.local,
                                  .nranks = core.nlocal,
                                  .group = core.nlocal <= orl_conf.coll_flat_max
                                               ? core.nlocal
                                               : orl_conf.coll_flat_max };
}

void core_coll_leave(int64_t timeout_ns)
{
    if (core.size > 1) {
        patience = orl_deadline_in(timeout_ns);
        int st = coll_exchange(&world, "oriel_finalize", &(struct coll_operand){ 0 });
        patience = ORL_NEVER;
        if (st != 0) {
            orl_log_info(ORL_CAT_BOOT, "oriel_finalize goes on without all ranks: %s",
                         orl_last_error());
        }
    }
}

/* Common start. *alone: nothing needs to be said to anybody. */
static int enter(const struct oriel_team *team, bool *alone)
{
    int st = core_team_check(team);
    if (st != 0) {
        return st;
    }
    *alone = core_team_is_alone(team);
    return 0;
}

ORL_PUBLIC int oriel_barrier(struct oriel_team *team)
{
    bool alone;
    int st = enter(team, &alone);
    if (st != 0 || alone) {
        return st;
    }
    orl_stat_add(&core.stats, ORL_STAT_BARRIERS, 1);
    return coll_exchange(&world, "oriel_barrier", &(struct coll_operand){ 0 });
}

/* Bytes of the buffers, and that they are there. */
static int check_buffer(const void *buffer, const char *name, uint64_t count, uint64_t element,
                        uint64_t *bytes)
{
    int st = core_type_bytes(count, element, bytes);
    if (st == 0 && buffer == NULL && *bytes != 0) {
        return orl_fail(ORL_ERR_INVAL, "%s is NULL with %llu elements", name,
                        (unsigned long long)count);
    }
    return st;
}

ORL_PUBLIC int oriel_bcast(void *buffer, uint64_t count, const struct oriel_type *type, int root,
                           struct oriel_team *team)
{
    bool alone;
    uint64_t element;
    uint64_t bytes;
    int st = enter(team, &alone);
    if (st == 0) {
        st = core_type_query(type, &element, NULL);
    }
    if (st == 0) {
        st = check_buffer(buffer, "buffer", count, element, &bytes);
    }
    if (st != 0) {
        return st;
    }
    if (root < 0 || root >= oriel_team_size(team)) {
        return orl_fail(ORL_ERR_RANK, "root is %d; this team has ranks 0 to %d", root,
                        oriel_team_size(team) - 1);
    }
    if (alone || bytes == 0) {
        return 0;
    }
    orl_stat_add(&core.stats, ORL_STAT_BCASTS, 1);
    return coll_spread(&world, "oriel_bcast", buffer, bytes, root);
}

ORL_PUBLIC int oriel_allreduce(const void *send, void *recv, uint64_t count,
                               const struct oriel_type *type, const struct oriel_op *op,
                               struct oriel_team *team)
{
    bool alone;
    struct coll_operand x = { .send = send == ORIEL_IN_PLACE ? recv : send,
                              .recv = recv,
                              .elements = count };
    uint64_t element;
    int st = enter(team, &alone);
    if (st == 0) {
        st = core_type_query(type, &element, NULL);
    }
    if (st == 0) {
        st = core_op_query(op, type, &x.fn);
    }
    if (st == 0) {
        st = check_buffer(recv, "recv", count, element, &x.bytes);
    }
    if (st == 0) {
        st = check_buffer(x.send, "send", count, element, &x.bytes);
    }
    if (st != 0 || x.bytes == 0) {
        return st;
    }
    if (alone) {
        if (x.send != recv) {
            orl_copy(recv, x.send, x.bytes);
        }
        return 0;
    }
    orl_stat_add(&core.stats, ORL_STAT_ALLREDUCES, 1);
    return x.bytes <= FAB_FLAG_BYTES ? coll_exchange(&world, "oriel_allreduce", &x)
                                     : coll_exchange_staged(&world, "oriel_allreduce", &x, element);
}
