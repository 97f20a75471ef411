/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public collectives: argument checks and the choice between those of one host and those that
 * span hosts, made once in coll_world.c. A team is used by one thread at a time, so nothing here
 * needs a lock.
 */
#include "core/coll/coll_world.h"

#include "base/copy.h"
#include "base/status.h"
#include "core/core.h"
#include "core/team/team.h"

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
    return coll_world.node.spans
               ? core_coll_barrier_across("oriel_barrier")
               : coll_exchange(&coll_world.node, "oriel_barrier", &(struct coll_operand){ 0 });
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
    return coll_world.node.spans
               ? core_coll_bcast_across("oriel_bcast", buffer, bytes, root)
               : coll_spread(&coll_world.node, "oriel_bcast", buffer, bytes, root);
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
    if (coll_world.node.spans) {
        return core_coll_allreduce_across("oriel_allreduce", &x, element);
    }
    return x.bytes <= FAB_FLAG_BYTES
               ? coll_exchange(&coll_world.node, "oriel_allreduce", &x)
               : coll_exchange_staged(&coll_world.node, "oriel_allreduce", &x, element);
}
