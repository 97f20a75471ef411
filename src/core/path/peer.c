/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peer table and who lives. Deaths are found by whoever waits for a peer, by the periodic look
 * of direct operations, by ranks of the same node memory, who leave word in it, and for all others
 * by the launcher, whose word the bootstrap keeps, by the process where it runs on this host, and
 * by the path when no rail is left. Marking is a compare-and-swap in the peer's record; the first
 * to mark logs and fails the endpoints.
 */
#include "core/path/peer.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "core/boot/boot.h"
#include "core/boot/boot_watch.h"
#include "core/boot/nets.h"
#include "core/path/hosts.h"

#define LOOK_PERIOD_NS (100 * ORL_NS_PER_MS)

static struct {
    _Atomic int dead;        /* a rank that died, plus 1; 0: none has */
    _Atomic uint32_t seen;   /* header.deaths when the marks were last compared */
    _Atomic unsigned told;   /* ends that the launcher has told, when last compared */
    _Atomic uint64_t looked; /* ticks of the last look at everybody */
    uint64_t period;         /* between looks, in ticks */
    atomic_bool is_leaving;  /* this rank is in oriel_finalize */
} watch;

/* What a peer's record says of it, as far as it is needed after the start. */
struct contact {
    char hostname[32];
    int32_t pid; /* 0: its process cannot be seen from here */
    uint64_t start_time;
    int ncards;
    struct fab_card card[]; /* [ncards] */
};

/* Why ranks outside my node memory were marked; the first ones, a job that loses more has ended. */
#define CAUSES_MAX 16
static struct {
    _Atomic unsigned count; /* claimed; may grow beyond CAUSES_MAX */
    struct {
        int rank;
        _Atomic bool is_there; /* the rest is complete */
        char text[96];
    } of[CAUSES_MAX];
} causes;

static _Atomic(struct contact *) *contacts; /* owns, and each; [size], NULL: not read yet */

static struct contact *contact_of(int rank)
{
    return contacts == NULL ? NULL : atomic_load_explicit(&contacts[rank], memory_order_acquire);
}

/* ---------------------------------------------------------------- the table */

static int allocate(void)
{
    core.peers = calloc((size_t)core.size, sizeof(*core.peers));
    contacts = calloc((size_t)core.size, sizeof(*contacts));
    if (core.peers == NULL || contacts == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for a table of %d peers, %zu bytes", core.size,
                        (size_t)core.size * (sizeof(*core.peers) + sizeof(*contacts)));
    }
    return 0;
}

static void forget_causes(void)
{
    for (unsigned i = 0; i < CAUSES_MAX; i++) {
        atomic_store(&causes.of[i].is_there, false);
    }
    atomic_store(&causes.count, 0);
}

static void release(void)
{
    for (int rank = 0; contacts != NULL && rank < core.size; rank++) {
        free(atomic_load(&contacts[rank]));
    }
    free(contacts);
    contacts = NULL;
    forget_causes();
    free(core.peers);
    core.peers = NULL;
}

/* Without shm the node memory is this process's alone. */
static void number_locals(void)
{
    int nlocal = core.node != NULL ? core.node->nranks : core.nlocal;

    for (int rank = 0; rank < core.size; rank++) {
        core.peers[rank].local = -1;
    }
    for (int local = 0; nlocal > 1 && local < nlocal; local++) {
        core.peers[core.local_rank[local]].local = local;
    }
    if (nlocal == 1) {
        core.peers[core.rank].local = 0;
    }
}

int core_peers_open(void)
{
    int status = allocate();

    if (status == 0) {
        number_locals();
        watch.period = orl_clock_ticks_of_ns(LOOK_PERIOD_NS);
        atomic_store(&watch.dead, 0);
        atomic_store(&watch.seen, 0);
        atomic_store(&watch.told, 0);
        atomic_store(&watch.is_leaving, false);
        atomic_store(&watch.looked, orl_clock_ticks());
        status = core_paths_open();
    }
    if (status != 0) {
        release();
    }
    return status;
}

void core_peers_leave(void)
{
    atomic_store(&watch.is_leaving, true);
}

void core_peers_close(void)
{
    core_paths_close();
    core_hosts_close();
    release();
}

/* ---------------------------------------------------------------- contacts */

static void copy_text(char *to, size_t capacity, const char *text)
{
    struct orl_strbuf sb;

    orl_strbuf_init(&sb, to, capacity);
    orl_strbuf_add(&sb, text);
}

/* A process of this host that is seen to run now is seen to end later; one of another pid namespace
 * is never seen. */
static bool can_be_seen(const struct core_record *record)
{
    bool is_here = false;

    for (int local = 0; local < core.nlocal; local++) {
        is_here = is_here || core.local_rank[local] == record->rank;
    }
    return is_here && record->pid != 0 && core_process_runs(record->pid, record->start_time);
}

/* NULL, and *status says why. */
static struct contact *read_contact(int rank, int *status)
{
    struct core_record record;
    struct contact *known = NULL;
    struct contact *made;

    *status = core_record_of(core.boot, rank, &record);
    if (*status != 0) {
        return NULL;
    }
    made = calloc(1, sizeof(*made) + record.ncards * sizeof(made->card[0]));
    if (made == NULL) {
        *status = orl_fail(ORL_ERR_NOMEM, "no memory for what is known of rank %d", rank);
        return NULL;
    }
    copy_text(made->hostname, sizeof(made->hostname), record.hostname);
    if (can_be_seen(&record)) {
        made->pid = record.pid;
        made->start_time = record.start_time;
    }
    made->ncards = (int)record.ncards;
    memcpy(made->card, record.card, record.ncards * sizeof(made->card[0]));
    if (!atomic_compare_exchange_strong(&contacts[rank], &known, made)) {
        free(made); /* another thread was faster */
        return known;
    }
    return made;
}

int core_peer_cards(int rank, const struct fab_card **cards, int *n)
{
    struct contact *contact = contact_of(rank);
    int status = 0;

    if (contact == NULL) {
        contact = read_contact(rank, &status);
    }
    if (contact == NULL) {
        return status;
    }
    status = core_nets_check(rank, contact->hostname, contact->card, contact->ncards);
    if (status == 0) {
        *cards = contact->card;
        *n = contact->ncards;
    }
    return status;
}

const char *core_peer_host(int rank)
{
    const struct contact *contact = contact_of(rank);

    return contact != NULL ? contact->hostname : NULL;
}

/* ---------------------------------------------------------------- what is known */

/* The control block of a rank of my node memory, NULL for others. */
static struct fab_node_ctl *ctl_of(int rank)
{
    int local = core.peers[rank].local;

    return core.node == NULL || local < 0 ? NULL : &core.node->ctl[local];
}

bool core_peer_has_left(int rank)
{
    struct fab_node_ctl *ctl = ctl_of(rank);
    struct core_end end;

    if (ctl != NULL) {
        return atomic_load_explicit(&ctl->state, memory_order_acquire) == FAB_RANK_FINAL;
    }
    if (core_peer_is_failed(rank) && atomic_load(&watch.is_leaving)) {
        return true;
    }
    return core_end_count() != 0 && core_end_of(rank, &end) && end.how == CORE_END_NORMAL;
}

int core_peer_any_dead(void)
{
    return atomic_load_explicit(&watch.dead, memory_order_relaxed) - 1;
}

static uint32_t state_of(const struct fab_node_ctl *ctl)
{
    return atomic_load_explicit(&ctl->state, memory_order_acquire);
}

/* A rank of this host that has ended: what its control block says, and the launcher of the way. */
static int error_of(int rank, const struct fab_node_ctl *ctl, const char *how)
{
    switch (state_of(ctl)) {
    case FAB_RANK_ABORTED:
        return orl_fail(ORL_ERR_PEER, "rank %d on %s has aborted the job with code %d: %s", rank,
                        core.host, ctl->code, ctl->words);
    case FAB_RANK_FAILED:
        return orl_fail(ORL_ERR_PEER, "rank %d on %s could not start: %s", rank, core.host,
                        ctl->words);
    default:
        return orl_fail(ORL_ERR_PEER, "rank %d on %s is gone: its process %d has ended%s", rank,
                        core.host, ctl->pid, how);
    }
}

/* Causes of endpoints begin with the endpoint's name; so do the messages that tell the cause. */
static const char *without_name(int rank, const char *how)
{
    char name[FAB_LABEL_BYTES + 8];
    struct orl_strbuf sb;

    orl_strbuf_init(&sb, name, sizeof(name));
    orl_strbuf_addf(&sb, "rank %d on %s: ", rank, core_host_name(rank));
    return strncmp(how, name, sb.length) == 0 ? how + sb.length : how;
}

static void keep_cause(int rank, const char *how)
{
    unsigned i = atomic_fetch_add(&causes.count, 1);

    if (i < CAUSES_MAX) {
        causes.of[i].rank = rank;
        copy_text(causes.of[i].text, sizeof(causes.of[i].text), how);
        atomic_store_explicit(&causes.of[i].is_there, true, memory_order_release);
    }
}

/* NULL: it has not been kept, or is just being written. */
static const char *cause_of(int rank)
{
    unsigned count = atomic_load(&causes.count);

    for (unsigned i = 0; i < count && i < CAUSES_MAX; i++) {
        if (atomic_load_explicit(&causes.of[i].is_there, memory_order_acquire) &&
            causes.of[i].rank == rank) {
            return causes.of[i].text;
        }
    }
    return NULL;
}

/* A rank outside my node memory. The launcher's word counts for more than what was noticed. */
static int error_afar(int rank, const char *how)
{
    const char *cause = how[0] == '\0' ? cause_of(rank) : NULL;

    return cause != NULL
               ? orl_fail(ORL_ERR_PEER, "rank %d on %s is gone: %s", rank, core_host_name(rank),
                          cause)
               : orl_fail(ORL_ERR_PEER, "rank %d on %s is gone%s", rank, core_host_name(rank), how);
}

int core_peer_error(int rank)
{
    struct fab_node_ctl *ctl = ctl_of(rank);
    struct core_end end;
    char how[64] = "";

    if (!core_peer_is_failed(rank)) {
        return 0;
    }
    if (ctl != NULL && core_peer_has_left(rank)) {
        return orl_fail(ORL_ERR_PEER, "rank %d has finalized", rank);
    }
    if (core_end_of(rank, &end)) {
        core_end_text(&end, how, sizeof(how));
    }
    return ctl != NULL ? error_of(rank, ctl, how) : error_afar(rank, how);
}

/* The first to mark a rank fails its endpoints. The order, mark then look for the path, and in
 * core_path_of path then look for the mark, both sequentially consistent, lets neither miss the
 * other. */
static bool mark(int rank, const char *how)
{
    int32_t alive = 0;
    struct core_path *path;

    if (!atomic_compare_exchange_strong(&core.peers[rank].failed, &alive, ORL_ERR_PEER)) {
        return false;
    }
    if (core.peers[rank].local < 0) {
        keep_cause(rank, how);
    }
    path = atomic_load(&core.peers[rank].path);
    if (path != NULL) {
        core_path_peer_gone(path, how);
    }
    return true;
}

void core_peer_fail(int rank, const char *how)
{
    if (mark(rank, how)) {
        atomic_store_explicit(&watch.dead, rank + 1, memory_order_relaxed);
        orl_log_warn(ORL_CAT_PEER, "rank %d on %s is gone: %s", rank, core_host_name(rank), how);
    }
}

static void peer_left(int rank)
{
    if (mark(rank, "it has finalized")) {
        orl_log_info(ORL_CAT_PEER, "rank %d has finalized", rank);
    }
}

/* ---------------------------------------------------------------- looking */

/* Marks whomever somebody on this host has proved dead. */
static void adopt_deaths(void)
{
    uint32_t deaths = atomic_load_explicit(&core.node->header->deaths, memory_order_acquire);

    if (deaths == atomic_load_explicit(&watch.seen, memory_order_relaxed)) {
        return;
    }
    atomic_store_explicit(&watch.seen, deaths, memory_order_relaxed);
    for (int local = 0; local < core.node->nranks; local++) {
        if (local != core.node->local && fab_node_is_dead(core.node, local)) {
            core_peer_fail(core.local_rank[local], "its process has ended");
        }
    }
}

/* Marks ranks outside my node memory that have died as the launcher says; of those in it the
 * control blocks know more. An end in good order is none: the rank may have left us before. */
static void adopt_told(void)
{
    unsigned count = core_end_count();
    unsigned told = atomic_load_explicit(&watch.told, memory_order_relaxed);
    struct core_end end;

    for (; told < count && core_end_at(told, &end); told++) {
        if (end.how != CORE_END_NORMAL && end.rank < core.size && core.peers[end.rank].local < 0) {
            char how[64];

            core_end_text(&end, how, sizeof(how));
            core_peer_fail(end.rank, how[0] != '\0' ? how + 1 : "the launcher says so");
        }
    }
    atomic_store_explicit(&watch.told, told, memory_order_relaxed);
}

static void check_local(int rank, struct fab_node_ctl *ctl)
{
    if (core_peer_has_left(rank)) {
        peer_left(rank);
    } else if (state_of(ctl) == FAB_RANK_ABORTED || state_of(ctl) == FAB_RANK_FAILED) {
        core_peer_fail(rank, "it has given up");
    } else if (!fab_node_is_alive(core.node, core.peers[rank].local)) {
        core_peer_fail(rank, "its process has ended");
    }
}

void core_peer_lost(int rank, const char *cause)
{
    adopt_told();
    if (core_peer_has_left(rank) || atomic_load(&watch.is_leaving)) {
        peer_left(rank);
    } else {
        core_peer_fail(rank, without_name(rank, cause));
    }
}

/* A process that is seen no more may have ended in good order; the launcher tells that first, where
 * there is one. */
static void check_afar(int rank)
{
    const struct contact *contact = contact_of(rank);

    adopt_told();
    if (core_peer_has_left(rank)) {
        peer_left(rank);
    } else if (contact != NULL && contact->pid != 0 && !core_peer_is_failed(rank) &&
               !core_process_runs(contact->pid, contact->start_time)) {
        core_peer_lost(rank, "its process has ended");
    }
}

int core_peer_check(int rank)
{
    struct fab_node_ctl *ctl = ctl_of(rank);

    if (ORL_UNLIKELY(core_peer_is_failed(rank))) {
        return core_peer_error(rank);
    }
    if (rank == core.rank) {
        return 0;
    }
    if (ctl != NULL) {
        check_local(rank, ctl);
    } else {
        check_afar(rank);
    }
    return core_peer_error(rank);
}

void core_peer_tick(struct fab_hazard *line)
{
    uint64_t now = orl_clock_ticks();
    uint64_t looked = atomic_load_explicit(&watch.looked, memory_order_relaxed);

    if (core.node == NULL) {
        return;
    }
    /* One thread of the process does it for all. */
    if (now - line->checked >= watch.period) {
        line->checked = now;
        if (now - looked >= watch.period &&
            atomic_compare_exchange_strong_explicit(&watch.looked, &looked, now,
                                                    memory_order_relaxed, memory_order_relaxed)) {
            (void)fab_node_check_all(core.node);
        }
    }
    adopt_deaths();
    adopt_told();
}
