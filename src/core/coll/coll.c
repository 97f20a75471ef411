/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public collectives: argument checks, the choice of form, and how a collective waits (spin, or
 * leave the CPU to those it waits for; then the one waiting function, which also looks at the lives
 * of all). The steps are in coll_node.c, coll_reduce.c and coll_spread.c. A team is used by one
 * thread at a time, so the counters need no lock.
 */
#include <sched.h>

#include "core/coll/coll_lines.h"

#include "base/conf.h"
#include "base/copy.h"
#include "base/log.h"
#include "base/status.h"
#include "core/core.h"
#include "core/path/peer.h"
#include "core/path/progress.h"
#include "core/team/team.h"

/* When ranks outnumber CPUs: pauses, some 20 to 40 ns each, for ranks that run on other CPUs, less
 * than half of what leaving the CPU costs; and how often it is left before the long wait. */
#define ELSEWHERE_SPINS 50
#define CROWDED_YIELDS  64

static struct coll_matrix world;
static uint64_t patience = ORL_NEVER; /* deadline of waits; finite in finalize only */

static bool need_is_met(void *arg)
{
    const struct coll_need *need = arg;
    return coll_need_is_met(need);
}

enum part {
    BYSTANDER,
    COME,
    MISSING
};

static enum part part_of(const struct coll_need *need, int rank)
{
    int i = rank - need->rank;
    if (i < need->first || i >= need->last || (i - need->first) % need->stride != 0) {
        return BYSTANDER;
    }
    return coll_seq_of(&need->line[i]) < need->seq ? MISSING : COME;
}

/* What ends a wait: one that has not come has gone, or any other has died (see coll.h). Whoever has
 * come in the meantime is noticed by core_wait. */
static int all_are_alive(void *arg)
{
    const struct coll_need *need = arg;
    for (int r = 0; r < world.nranks; r++) {
        enum part part = r == world.me ? COME : part_of(need, r);
        int st = part == COME ? 0 : core_peer_check(core.local_rank[r]);
        if (st != 0 && (part == MISSING || !core_peer_has_left(core.local_rank[r]))) {
            return st;
        }
    }
    return 0;
}

/* More ranks than CPUs. Who is missing and ran last on this CPU comes only when I leave it; for the
 * others a short spin is cheaper than two changes of process. */
static bool wait_crowded(const struct coll_need *need)
{
    unsigned spins = 0;
    for (unsigned yields = 0; yields < CROWDED_YIELDS;) {
        enum coll_missing missing = coll_need_look(need, coll_cpu());
        if (missing == COLL_MET) {
            return true;
        }
        if (missing == COLL_ELSEWHERE && spins < ELSEWHERE_SPINS) {
            spins++;
            orl_cpu_pause();
            continue;
        }
        (void)core_progress();
        orl_stat_add(&core.stats, ORL_STAT_YIELDS, 1);
        (void)sched_yield();
        yields++;
        spins = 0;
    }
    return false;
}

static bool wait_spinning(const struct coll_need *need)
{
    for (unsigned turn = 0; turn <= core_spin_turns; turn++) {
        if (coll_need_is_met(need)) {
            return true;
        }
        orl_cpu_pause();
    }
    return false;
}

static int wait_for(const struct coll_need *need)
{
    if (world.crowded ? wait_crowded(need) : wait_spinning(need)) {
        return 0;
    }
    struct coll_need copy = *need;
    return core_wait(&(struct core_wait){ .ready = need_is_met,
                                          .alive = all_are_alive,
                                          .arg = &copy,
                                          .deadline = patience,
                                          .call = need->call,
                                          .rank = -1 });
}

void core_coll_open(void)
{
    world = (struct coll_matrix){ .node = core.node,
                                  .wait = wait_for,
                                  .reserve = fab_node_reserve,
                                  .me = core.local,
                                  .nranks = core.nlocal,
                                  .crowded = core.oversubscribed,
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
