/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives of this process: its place in the node's lines, its mailbox, and how both wait
 * (spin, or leave the CPU to those that are waited for; then the one waiting function, which also
 * looks at the lives of all). Decides at start whether the job spans hosts; who is where is read
 * when the first collective needs it. A team is used by one thread at a time, so only the mailbox
 * has a lock.
 */
#include "core/coll/coll_world.h"

#include <sched.h>

#include "core/coll/coll_lines.h"

#include "base/conf.h"
#include "base/copy.h"
#include "base/log.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "core/core.h"
#include "core/path/hosts.h"
#include "core/path/peer.h"
#include "core/path/ping.h"
#include "core/path/progress.h"

#define LAST_LOOKS 200 /* at what has arrived, before a rank is blamed */

struct coll_world coll_world;

/* ---------------------------------------------------------------- ends */

/* To everybody, since anybody may wait for this rank, directly or not. The last error stays what it
 * is. */
static void tell_all(int rank, int status)
{
    char why[ORL_ERROR_TEXT_BYTES];
    struct orl_strbuf sb;

    if (coll_world.has_told) {
        return;
    }
    coll_world.has_told = true;
    orl_strbuf_init(&sb, why, sizeof(why));
    orl_strbuf_add(&sb, orl_last_error());
    for (int to = 0; to < core.size; to++) {
        if (to != core.rank && to != rank) {
            (void)!coll_net_tell_end(&coll_world.hosts.net, to, rank, status);
        }
    }
    (void)!orl_fail(status, "%s", why);
}

static void gave_up(void *user, int rank, int status)
{
    (void)user;
    tell_all(rank, status);
}

/* Whoever has found a death first has told all, and may have ended since: then what he said names
 * the one that matters. */
static bool somebody_has_said_why(void)
{
    struct coll_net *net = &coll_world.hosts.net;

    for (int i = 0; i < LAST_LOOKS && atomic_load(&net->ending) == 0; i++) {
        (void)core_progress();
    }
    return atomic_load(&net->ending) != 0;
}

/* This collective ends here with that status, for that rank's sake, and so do all later ones. */
static int give_up(int rank, int status)
{
    if (!coll_world.node.spans) {
        return status;
    }
    if (somebody_has_said_why()) {
        return coll_net_ended(&coll_world.hosts.net);
    }
    return coll_net_give_up(&coll_world.hosts.net, rank, status);
}

static int ended(void *user, int rank, int status)
{
    (void)user;
    if (rank == core.rank) {
        int st = orl_fail(status, "this rank's collectives have ended: %s",
                          status == ORL_ERR_PEER ? "another rank holds it for dead"
                                                 : orl_status_text(status));
        tell_all(rank, status);
        return st;
    }
    if (status == ORL_ERR_PEER) {
        core_peer_fail(rank, "another rank has found its end");
        return core_peer_error(rank);
    }
    return orl_fail(status, "rank %d has ended the collectives of the job: %s", rank,
                    orl_status_text(status));
}

/* ---------------------------------------------------------------- waiting for lines */

/* When ranks outnumber CPUs: pauses, some 20 to 40 ns each, for ranks that run on other CPUs, less
 * than half of what leaving the CPU costs; and how often it is left before the long wait. */
#define ELSEWHERE_SPINS 50
#define CROWDED_YIELDS  64

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

/* World rank of a place in the node's matrix. */
static int rank_here(int place)
{
    return coll_world.node.nranks > 1 ? core.local_rank[place] : core.rank;
}

/* Some rank anywhere that has died, as is known already, ends everything: see coll.h. */
static int nobody_is_known_dead(void)
{
    for (int rank = 0; coll_world.node.spans && rank < core.size; rank++) {
        if (core_peer_is_failed(rank) && !core_peer_has_left(rank)) {
            return give_up(rank, core_peer_error(rank));
        }
    }
    return 0;
}

/* What ends a wait: one that has not come has gone, or any other has died (see coll.h). Whoever has
 * come in the meantime is noticed by core_wait. */
static int all_are_alive(void *arg)
{
    const struct coll_need *need = arg;
    /* Who has left may have said before whose death was the reason. */
    int told = coll_world.node.spans ? coll_net_ended(&coll_world.hosts.net) : 0;
    if (told != 0) {
        return told;
    }
    for (int r = 0; r < coll_world.node.nranks; r++) {
        enum part part = r == coll_world.node.me ? COME : part_of(need, r);
        int rank = rank_here(r);
        int st = part == COME ? 0 : core_peer_check(rank);
        if (st != 0 && (part == MISSING || !core_peer_has_left(rank))) {
            return give_up(rank, st);
        }
    }
    return nobody_is_known_dead();
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
    if (coll_world.node.crowded ? wait_crowded(need) : wait_spinning(need)) {
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

/* ---------------------------------------------------------------- waiting for messages */

static int send_message(void *user, int rank, uint64_t header, const void *data, size_t bytes)
{
    struct core_path *path;
    int st = core_path_of(rank, &path);

    (void)user;
    return st != 0 ? st : core_path_send(path, CORE_ON_COLL, header, data, bytes);
}

static void on_message(void *user, struct fab_rx *rx)
{
    coll_net_arrived(user, rx->header, rx->data, rx->bytes);
    core_wake();
}

/* As for lines, and those whose messages are missed are asked for by whatever means there is. */
static int all_answer(void *arg)
{
    const struct coll_exchange *x = arg;

    for (int r = 0; r < coll_world.node.nranks; r++) {
        int rank = rank_here(r);
        int st = core_peer_check(rank);
        if (st != 0 && !core_peer_has_left(rank)) {
            return give_up(rank, st);
        }
    }
    for (int rank = coll_exchange_misses(x, 0); rank >= 0;
         rank = coll_exchange_misses(x, rank + 1)) {
        struct core_path *path = atomic_load(&core.peers[rank].path);
        if (path != NULL) {
            core_path_settle(path);
        }
        int st = core_peer_check(rank);
        if (st == 0) {
            st = core_ping_look(rank);
        }
        if (st != 0) {
            return give_up(rank, st);
        }
    }
    return nobody_is_known_dead();
}

static int wait_messages(void *user, struct coll_exchange *x)
{
    (void)user;
    return core_wait(&(struct core_wait){ .ready = coll_exchange_is_ready,
                                          .alive = all_answer,
                                          .arg = x,
                                          .deadline = patience,
                                          .call = x->call,
                                          .rank = coll_exchange_misses(x, 0) });
}

/* ---------------------------------------------------------------- life */

/* Memory for messages that is missing is told when a collective wants it. */
static void open_net(void)
{
    const struct coll_ports ports = { .send = send_message,
                                      .wait = wait_messages,
                                      .ended = ended,
                                      .gave_up = gave_up,
                                      .user = &coll_world };
    struct coll_net *net = &coll_world.hosts.net;

    if (coll_net_open(net, core.rank, core.size, &ports) == 0) {
        fab_handler_set(&core.fabric, CORE_ON_COLL, on_message, net);
    }
}

void core_coll_open(void)
{
    const int here = core.node->nranks;
    struct coll_matrix *m = &coll_world.node;

    memset(&coll_world, 0, sizeof(coll_world));
    m->node = core.node;
    m->spans = here < core.size;
    m->wait = wait_for;
    m->reserve = fab_node_reserve;
    m->me = core.node->local;
    m->nranks = here;
    m->crowded = core.oversubscribed;
    m->group = here <= orl_conf.coll_flat_max ? here : orl_conf.coll_flat_max;
    if (coll_world.node.spans) {
        open_net();
    }
}

/* Who is where, at the first collective. */
static int ready_hosts(void)
{
    struct coll_hosts *h = &coll_world.hosts;
    const struct core_hosts *hosts = NULL;

    if (ORL_LIKELY(h->host_of != NULL)) {
        return 0;
    }
    int st = core_hosts(&hosts);
    if (st != 0) {
        return give_up(core.rank, st);
    }
    h->node = &coll_world.node;
    h->host_of = hosts->of;
    h->nlocal = coll_world.node.nranks;
    h->local_rank = core.local_rank;
    coll_hosts_set(h, hosts->leader, hosts->nhosts);
    return 0;
}

int core_coll_barrier_across(const char *call)
{
    int st = ready_hosts();
    return st != 0 ? st : coll_hosts_barrier(&coll_world.hosts, call);
}

int core_coll_bcast_across(const char *call, void *buffer, uint64_t bytes, int root)
{
    int st = ready_hosts();
    return st != 0 ? st : coll_hosts_bcast(&coll_world.hosts, call, buffer, bytes, root);
}

int core_coll_allreduce_across(const char *call, const struct coll_operand *x, uint64_t element)
{
    int st = ready_hosts();
    return st != 0 ? st : coll_hosts_allreduce(&coll_world.hosts, call, x, element);
}

static int leave(const char *call)
{
    if (!coll_world.node.spans) {
        return coll_exchange(&coll_world.node, call, &(struct coll_operand){ 0 });
    }
    int st = ready_hosts();
    return st != 0 ? st : coll_hosts_leave(&coll_world.hosts, call);
}

void core_coll_leave(int64_t timeout_ns)
{
    if (core.size > 1) {
        patience = orl_deadline_in(timeout_ns);
        int st = leave("oriel_finalize");
        patience = ORL_NEVER;
        if (st != 0) {
            orl_log_info(ORL_CAT_BOOT, "oriel_finalize goes on without all ranks: %s",
                         orl_last_error());
        }
    }
    if (coll_world.node.spans) {
        coll_net_close(&coll_world.hosts.net);
    }
}

/* Asked by any thread at any time. */
bool core_coll_query(struct core_coll_forms *forms)
{
    const struct core_hosts *hosts = NULL;

    if (!coll_world.node.spans || core_hosts(&hosts) != 0) {
        return false;
    }
    bool is_in_order = coll_hosts_in_order(hosts->of, core.size);
    int n = is_in_order ? hosts->nhosts : core.size;
    *forms = (struct core_coll_forms){
        .hosts = hosts->nhosts,
        .is_in_order = is_in_order,
        .bcast_chain_from = coll_bcast_chain_from(hosts->nhosts),
        .allreduce_ranks = n,
        .allreduce_doubles = coll_allreduce_doubles(n),
        .allreduce_sliced_from = coll_allreduce_sliced_from(n),
    };
    return true;
}
