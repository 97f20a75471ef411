/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The meeting of the ranks in oriel_init; see meet.h. Everything that can fail in one rank alone is
 * done before the fence where possible: then the record carries the failure. What fails later
 * leaves word in the control block, and where even that is not mapped, the end of the process
 * tells.
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
#include "core/core.h"
#include "core/topo/topo.h"

/* The others usually come at once; then nobody looks around for them. */
#define LOOK_AFTER_NS (200 * ORL_NS_PER_MS)
/* How long a rank whose traces are missing may take to be seen to have ended. */
#define BLAME_NS (1000 * ORL_NS_PER_MS)

/* Whoever has found a death ends soon after, which looks like one more: it stays long enough for
 * the others to find the first. */
#define LINGER_US 1000000

static const char exchange_step[] = "exchange of addresses in oriel_init";
static const char join_step[] = "joining the node's memory in oriel_init";

/* What the records of this host's ranks say together. */
struct meeting {
    struct core_record lowest;
    struct core_record refusal; /* of the first rank that cannot start */
    int refusals;
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
    orl_sys_host_id(mine->host);
    memcpy(mine->hostname, host, strnlen(host, sizeof(mine->hostname) - 1));
}

static int linger(int status)
{
    if (status == ORL_ERR_PEER) {
        usleep(LINGER_US);
    }
    return status;
}

static int publish(const struct core_boot *boot, const struct core_record *mine)
{
    unsigned char bytes[CORE_RECORD_BYTES];
    int st = boot->put(bytes, core_record_encode(mine, bytes, sizeof(bytes)));
    return st != 0 ? st : linger(boot->fence(exchange_step));
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

/* The lowest local rank makes the segment; its record carries the way to it. Without shm every rank
 * has a segment of its own, for tokens of its own memory. */
static int make_node(struct core_record *mine)
{
    bool shared = orl_conf_list_has(orl_conf.transports, "shm");
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
    return gone != 0 ? linger(gone) : orl_fail(status, "%s", why);
}

static int attach_node(const struct core_record *lowest)
{
    if (core.node != NULL) {
        return 0;
    }
    if (memcmp(lowest->host, lowest->node.host, sizeof(lowest->host)) != 0) {
        return orl_fail(ORL_ERR_BOOT, "rank %d's record names two hosts", lowest->rank);
    }
    int st = fab_node_attach(&core.node, &lowest->node);
    return st != 0 ? blame(st) : 0;
}

/* Proof that the launcher and the machine agree on who shares this host; their CPUs together. */
static int adopt_local(struct meeting *meeting, int i, const struct core_record *mine)
{
    struct core_record record;
    int st = core_record_of(core.boot, core.local_rank[i], &record);
    if (st != 0) {
        return blame(st);
    }
    if (record.status != 0) {
        if (meeting->refusals++ == 0) {
            meeting->refusal = record;
        }
        return 0;
    }
    if (memcmp(record.host, mine->host, sizeof(record.host)) != 0) {
        return orl_fail(ORL_ERR_BOOT,
                        "the launcher says that rank %d shares this host, but it runs on %s "
                        "and this rank on %s",
                        record.rank, record.hostname, mine->hostname);
    }
    for (size_t b = 0; b < sizeof(record.cpus); b++) {
        meeting->cpus[b] = (uint8_t)(meeting->cpus[b] | record.cpus[b]);
    }
    if (core.local_rank[i] == 0) {
        core.job ^= record.nonce; /* the launcher's name of the job may repeat */
    }
    if (i == 0) {
        meeting->lowest = record;
    }
    return 0;
}

static int fail_refused(const struct meeting *meeting)
{
    const struct core_record *first = &meeting->refusal;
    char more[48] = "";
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, more, sizeof(more));
    if (meeting->refusals > 1) {
        orl_strbuf_addf(&sb, " (and %d more)", meeting->refusals - 1);
    }
    return orl_fail(ORL_ERR_BOOT, "oriel_init: rank %d on %s%s: %s", first->rank, first->hostname,
                    more, first->text);
}

static int adopt_locals(const struct core_record *mine)
{
    struct meeting meeting = { .refusals = 0 };
    for (int i = 0; i < core.nlocal; i++) {
        int st = adopt_local(&meeting, i, mine);
        if (st != 0) {
            return st;
        }
    }
    if (meeting.refusals > 0) {
        return fail_refused(&meeting);
    }
    core.oversubscribed =
        core_topo_is_oversubscribed(meeting.cpus, sizeof(meeting.cpus), core.nlocal);
    return attach_node(&meeting.lowest);
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
    if (st != 0) {
        return core.size > 1 ? publish_card(core.boot, &mine, st) : st;
    }
    st = publish(core.boot, &mine);
    return st != 0 ? st : adopt_locals(&mine);
}

/* ---------------------------------------------------------------- joining */

static uint32_t state_of(int i)
{
    return atomic_load_explicit(&core.node->ctl[i].state, memory_order_acquire);
}

static int await_joined(int i, uint64_t deadline)
{
    uint64_t look_from = orl_deadline_in(LOOK_AFTER_NS);
    for (unsigned turn = 0; state_of(i) == FAB_RANK_ABSENT; turn++) {
        int st = turn > 200 && orl_deadline_passed(look_from) ? core.boot->look(join_step) : 0;
        /* It may have said why before it ended. */
        if (st != 0 && state_of(i) == FAB_RANK_ABSENT) {
            return linger(st);
        }
        if (orl_deadline_passed(deadline)) {
            return orl_fail(
                ORL_ERR_BOOT, "%s: no sign of rank %d after %.1f s (ORIEL_BOOT_TIMEOUT)", join_step,
                core.local_rank[i], (double)orl_conf.boot_timeout / (double)ORL_NS_PER_S);
        }
        usleep(turn < 200 ? 0 : 500);
    }
    if (state_of(i) == FAB_RANK_FAILED) {
        return orl_fail(ORL_ERR_BOOT, "oriel_init: rank %d on %s: %s", core.local_rank[i],
                        core.host, core.node->ctl[i].words);
    }
    return 0;
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

static int my_place(void)
{
    return core.node->nranks > 1 || core.nlocal == 1 ? core.local : 0;
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
