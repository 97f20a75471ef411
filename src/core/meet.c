/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The meeting of the ranks in oriel_init; see meet.h. Everything that can fail in one rank alone is
 * done before the fence where possible: then the record carries the failure. What fails later
 * leaves word in the control block, and where even that is not mapped, the end of the process
 * tells. Records of other hosts are read by the ranks of a host together, each its share of them.
 */
#include "core/meet.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "base/sys.h"
#include "core/boot/boot.h"
#include "core/boot/nets.h"
#include "core/core.h"
#include "core/topo/topo.h"

/* The others usually come at once; then nobody looks around for them. */
#define LOOK_AFTER_NS (200 * ORL_NS_PER_MS)
/* How long a rank whose traces are missing may take to be seen to have ended. */
#define BLAME_NS (1000 * ORL_NS_PER_MS)

/* Whoever has found a death ends soon after, which looks like one more: it leaves word, and stays
 * long enough for most others to find the first. */
#define LINGER_US 1000000

static const char exchange_step[] = "exchange of addresses in oriel_init";
static const char join_step[] = "joining the node's memory in oriel_init";
static const char refusal_head[] = "oriel_init: ";

/* The first of the ranks that cannot start. */
struct refusals {
    int n;
    int rank; /* of the first */
    char hostname[32];
    char text[CORE_CARD_BYTES];
};

/* What the records of this host's ranks say together. */
struct meeting {
    uint8_t host[16];              /* of the lowest */
    struct fab_node_ticket ticket; /* its */
    struct refusals refusals;
    uint8_t cpus[CORE_MASK_BYTES];
};

static void keep_error(char why[ORL_ERROR_TEXT_BYTES])
{
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, why, ORL_ERROR_TEXT_BYTES);
    orl_strbuf_add(&sb, orl_last_error());
}

/* ---------------------------------------------------------------- my record */

static void fill_identity(struct core_record *mine, int rank)
{
    char host[64];
    orl_sys_hostname(host, sizeof(host));
    mine->version = CORE_WIRE_VERSION;
    mine->rank = rank;
    mine->leader = -1;
    mine->pid = (int32_t)getpid();
    mine->start_time = orl_sys_pid_starttime(mine->pid);
    orl_sys_host_id(mine->host);
    memcpy(mine->hostname, host, strnlen(host, sizeof(mine->hostname) - 1));
}

static int linger(const struct core_boot *boot, int status)
{
    char why[ORL_ERROR_TEXT_BYTES];
    if (status != ORL_ERR_PEER) {
        return status;
    }
    keep_error(why);
    if (boot->leave != NULL) {
        boot->leave(why);
    }
    usleep(LINGER_US);
    return orl_fail(status, "%s", why);
}

static int publish(const struct core_boot *boot, const struct core_record *mine)
{
    unsigned char bytes[CORE_RECORD_BYTES];
    int st = boot->put(bytes, core_record_encode(mine, bytes, sizeof(bytes)));
    return st != 0 ? st : linger(boot, boot->fence(exchange_step));
}

/* Publishes the last error in place of addresses. It stays this rank's own, whatever becomes of
 * the exchange. */
static int publish_card(const struct core_boot *boot, struct core_record *mine, int status)
{
    char why[ORL_ERROR_TEXT_BYTES];
    struct orl_strbuf sb;
    keep_error(why);
    mine->status = status;
    orl_strbuf_init(&sb, mine->text, sizeof(mine->text));
    orl_strbuf_add(&sb, why);
    (void)!publish(boot, mine);
    return orl_fail(status, "%s", why);
}

int core_meet_refuse(int status)
{
    const struct core_boot *boot = NULL;
    struct core_boot_id id;
    char why[ORL_ERROR_TEXT_BYTES];
    keep_error(why);
    orl_conf_load_sound();
    if (core_boot_open(&boot, &id) == 0) {
        struct core_record mine = { .rank = id.rank };
        fill_identity(&mine, id.rank);
        (void)!orl_fail(status, "%s", why);
        if (id.size > 1) {
            (void)!publish_card(boot, &mine, status);
        }
        boot->close();
    }
    return orl_fail(status, "%s", why);
}

/* ---------------------------------------------------------------- node memory */

static bool shares_node(void)
{
    return orl_conf_list_has(orl_conf.transports, "shm");
}

/* The lowest local rank makes the segment; its record carries the way to it. Without shm every rank
 * has a segment of its own, for tokens of its own memory. */
static int make_node(struct core_record *mine)
{
    bool shared = shares_node();
    mine->leader = shared ? core.local_rank[0] : -1;
    if (shared && core.local != 0) {
        return 0;
    }
    return fab_node_create(&core.node, shared ? core.nlocal : 1, core.job, orl_conf.shm_size,
                           &mine->node);
}

/* A peer's traces are missing although it has come: it may have ended since, which says more. */
static int blame(int status)
{
    char why[ORL_ERROR_TEXT_BYTES];
    uint64_t deadline = orl_deadline_in(BLAME_NS);
    int gone = 0;
    keep_error(why);
    while (gone == 0 && !orl_deadline_passed(deadline)) {
        gone = core.boot->look(exchange_step);
        if (gone == 0) {
            usleep(20000);
        }
    }
    return gone != 0 ? linger(core.boot, gone) : orl_fail(status, "%s", why);
}

static int attach_node(const struct meeting *meeting)
{
    if (core.node != NULL) {
        return 0;
    }
    if (memcmp(meeting->host, meeting->ticket.host, sizeof(meeting->host)) != 0) {
        return orl_fail(ORL_ERR_BOOT, "rank %d's record names two hosts", core.local_rank[0]);
    }
    int st = fab_node_attach(&core.node, &meeting->ticket);
    return st != 0 ? blame(st) : 0;
}

static bool is_refusal(struct refusals *refusals, const struct core_record *record)
{
    if (record->status == 0) {
        return false;
    }
    if (refusals->n++ == 0) {
        refusals->rank = record->rank;
        memcpy(refusals->hostname, record->hostname, sizeof(refusals->hostname));
        memcpy(refusals->text, record->text, sizeof(refusals->text));
    }
    return true;
}

/* Proof that the launcher and the machine agree on who shares this host, and that all of them share
 * its memory or none does. */
static int check_local(const struct core_record *record, const struct core_record *mine)
{
    if (memcmp(record->host, mine->host, sizeof(record->host)) != 0) {
        return orl_fail(ORL_ERR_BOOT,
                        "the launcher says that rank %d shares this host, but it runs on %s "
                        "and this rank on %s",
                        record->rank, record->hostname, mine->hostname);
    }
    if (record->leader != mine->leader) {
        return orl_fail(ORL_ERR_CONF,
                        "rank %d has shm in ORIEL_TRANSPORTS and rank %d has not, both on %s; give "
                        "all ranks of a host the same list",
                        record->leader >= 0 ? record->rank : mine->rank,
                        record->leader >= 0 ? mine->rank : record->rank, mine->hostname);
    }
    return 0;
}

/* A rank of this host: its CPUs are added to those of the others. */
static int adopt_local(struct meeting *meeting, int i, const struct core_record *mine)
{
    struct core_record record;
    int st = core_record_of(core.boot, core.local_rank[i], &record);
    if (st != 0) {
        return blame(st);
    }
    if (is_refusal(&meeting->refusals, &record)) {
        return 0;
    }
    st = check_local(&record, mine);
    if (st != 0) {
        return st;
    }
    for (size_t b = 0; b < sizeof(record.cpus); b++) {
        meeting->cpus[b] = (uint8_t)(meeting->cpus[b] | record.cpus[b]);
    }
    if (i == 0) {
        memcpy(meeting->host, record.host, sizeof(meeting->host));
        meeting->ticket = record.node;
    }
    return 0;
}

static int fail_refused(const struct refusals *refusals)
{
    char more[48] = "";
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, more, sizeof(more));
    if (refusals->n > 1) {
        orl_strbuf_addf(&sb, " (and %d more)", refusals->n - 1);
    }
    return orl_fail(ORL_ERR_BOOT, "%srank %d on %s%s: %s", refusal_head, refusals->rank,
                    refusals->hostname, more, refusals->text);
}

static int adopt_locals(const struct core_record *mine)
{
    struct meeting meeting = { .refusals = { .n = 0 } };
    for (int i = 0; i < core.nlocal; i++) {
        int st = adopt_local(&meeting, i, mine);
        if (st != 0) {
            return st;
        }
    }
    if (meeting.refusals.n > 0) {
        return fail_refused(&meeting.refusals);
    }
    core.oversubscribed =
        core_topo_is_oversubscribed(meeting.cpus, sizeof(meeting.cpus), core.nlocal);
    return attach_node(&meeting);
}

int core_meet(int failed)
{
    struct core_record mine = { .rank = core.rank };
    int st = failed;
    fill_identity(&mine, core.rank);
    core_topo_mask(mine.cpus, sizeof(mine.cpus));
    if (st == 0) {
        st = orl_sys_random(&mine.nonce, sizeof(mine.nonce));
    }
    if (st == 0) {
        st = make_node(&mine);
    }
    if (st == 0) {
        core_nets_fill(&mine);
    }
    if (st != 0) {
        return core.size > 1 ? publish_card(core.boot, &mine, st) : st;
    }
    st = publish(core.boot, &mine);
    return st != 0 ? st : adopt_locals(&mine);
}

/* ---------------------------------------------------------------- ranks elsewhere */

/* In the node's memory. */
static int my_place(void)
{
    return core.node->nranks > 1 ? core.local : 0;
}

static int adopt_other(struct refusals *refusals, int rank)
{
    struct core_record record;
    int st = core_record_of(core.boot, rank, &record);
    if (st != 0 || is_refusal(refusals, &record)) {
        return st;
    }
    return core_nets_check(rank, record.hostname, record.card, (int)record.ncards);
}

/* The launcher's name of the job may repeat; with the random number of rank 0 it does not. */
static int name_job(void)
{
    struct core_record record;
    int st = core_record_of(core.boot, 0, &record);
    if (st == 0) {
        core.job ^= record.nonce;
    }
    return st;
}

int core_meet_others(void)
{
    struct refusals refusals = { .n = 0 };
    int sharers = core.node->nranks;
    int others = 0;
    int st = name_job();
    for (int rank = 0, i = 0; st == 0 && rank < core.size; rank++) {
        bool is_local = i < core.nlocal && core.local_rank[i] == rank;
        i += is_local;
        if (rank == core.rank || (is_local && shares_node())) {
            continue;
        }
        if (others++ % sharers == my_place()) {
            st = adopt_other(&refusals, rank);
        }
    }
    return st == 0 && refusals.n > 0 ? fail_refused(&refusals) : st;
}

/* ---------------------------------------------------------------- joining */

static uint32_t state_of(int i)
{
    return atomic_load_explicit(&core.node->ctl[i].state, memory_order_acquire);
}

/* The cause may be a rank of another host, whose words it passes on. */
static int fail_given_up(int i)
{
    const char *words = core.node->ctl[i].words;
    if (strncmp(words, refusal_head, strlen(refusal_head)) == 0) {
        return orl_fail(ORL_ERR_BOOT, "%s", words);
    }
    return orl_fail(ORL_ERR_BOOT, "%srank %d on %s: %s", refusal_head, core.local_rank[i],
                    core.host, words);
}

static int await_joined(int i, uint64_t deadline)
{
    uint64_t look_from = orl_deadline_in(LOOK_AFTER_NS);
    for (unsigned turn = 0; state_of(i) == FAB_RANK_ABSENT; turn++) {
        int st = turn > 200 && orl_deadline_passed(look_from) ? core.boot->look(join_step) : 0;
        /* It may have said why before it ended. */
        if (st != 0 && state_of(i) == FAB_RANK_ABSENT) {
            return linger(core.boot, st);
        }
        if (orl_deadline_passed(deadline)) {
            return orl_fail(
                ORL_ERR_BOOT, "%s: no sign of rank %d after %.1f s (ORIEL_BOOT_TIMEOUT)", join_step,
                core.local_rank[i], (double)orl_conf.boot_timeout / (double)ORL_NS_PER_S);
        }
        usleep(turn < 200 ? 0 : 500);
    }
    return state_of(i) == FAB_RANK_FAILED ? fail_given_up(i) : 0;
}

/* Everybody on this host has a control block: from now on deaths are seen. */
static int await_all_joined(void)
{
    uint64_t deadline = orl_deadline_in((int64_t)orl_conf.boot_timeout);
    for (int i = 0; i < core.node->nranks; i++) {
        int st = await_joined(i, deadline);
        if (st != 0) {
            return st;
        }
    }
    fab_node_unlink(core.node);
    return 0;
}

int core_meet_join(void)
{
    int st = fab_node_join(core.node, my_place(), core.rank);
    return st != 0 ? st : await_all_joined();
}

void core_meet_give_up(void)
{
    if (core.node != NULL && core.node->nranks > 1) {
        fab_node_give_up(core.node, core.local, FAB_RANK_FAILED, 0, orl_last_error());
    }
}
