/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel_init, oriel_finalize, oriel_abort: the start-up sequence, in order, and its way back. Owns
 * the process object. One lock (rank INIT) makes init and finalize take turns; everything else may
 * run once `core.users` is positive.
 */
#include "core/core.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/copy.h"
#include "base/log.h"
#include "base/sys.h"
#include "core/boot/boot.h"
#include "core/coll/coll.h"
#include "core/mem/mem.h"
#include "core/path/peer.h"
#include "core/path/progress.h"
#include "core/path/req.h"
#include "core/topo/topo.h"

struct core core;

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

int core_state_error(void)
{
    if (atomic_load(&core.forked)) {
        return orl_fail(ORL_ERR_STATE, "this is a forked child of an initialised process; only the "
                                       "parent may call Oriel");
    }
    if (core.was_open) {
        return orl_fail(ORL_ERR_STATE, "Oriel has been finalized");
    }
    return orl_fail(ORL_ERR_STATE, "Oriel is not initialised; call oriel_init first");
}

int core_rank_check(int rank)
{
    if (rank < 0 || rank >= core.size) {
        return orl_fail(ORL_ERR_RANK, "rank is %d; this job has ranks 0 to %d", rank,
                        core.size - 1);
    }
    return 0;
}

/* ---------------------------------------------------------------- fork */

/* The child shares memory, locks and descriptors of a rank that is not its own: it may run, exec
 * and exit, but nothing of Oriel works in it, and its exit disturbs nobody. */
static void mark_child(void)
{
    if (atomic_load(&core.users) > 0) {
        atomic_store(&core.forked, true);
        atomic_store(&core.users, 0);
    }
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, mark_child);
}

/* ---------------------------------------------------------------- settings */

static int load_settings(const struct oriel_init_opts *opts)
{
    if (opts != NULL && opts->size < sizeof(*opts)) {
        return orl_fail(ORL_ERR_INVAL,
                        "opts.size is %zu; start it with ORIEL_INIT_OPTS_INIT (%zu bytes)",
                        opts->size, sizeof(*opts));
    }
    if (opts != NULL && (opts->flags & ~ORIEL_INIT_ONE_THREAD) != 0) {
        return orl_fail(ORL_ERR_INVAL, "opts.flags is 0x%x; valid bits are 0x%x",
                        (unsigned)opts->flags, ORIEL_INIT_ONE_THREAD);
    }
    if (opts != NULL && opts->settings == NULL && opts->nsettings != 0) {
        return orl_fail(ORL_ERR_INVAL, "opts.settings is NULL with %zu settings", opts->nsettings);
    }
    for (size_t i = 0; opts != NULL && i < opts->nsettings; i++) {
        const struct oriel_setting *s = &opts->settings[i];
        if (s->name == NULL || s->value == NULL) {
            return orl_fail(ORL_ERR_INVAL, "setting %zu has a NULL name or value", i);
        }
        int st = orl_conf_override(s->name, s->value);
        if (st != 0) {
            return st;
        }
    }
    return orl_conf_load();
}

/* ---------------------------------------------------------------- node memory */

/* The lowest local rank makes the segment and reads the machine; its record carries both. Without
 * shm every rank has a segment of its own, for tokens of its own memory. */
static int make_node(struct core_record *mine)
{
    bool shared = orl_conf_list_has(orl_conf.transports, "shm");
    if (shared && core.local != 0) {
        return 0;
    }
    int st = fab_node_create(&core.node, shared ? core.nlocal : 1, core.job, orl_conf.shm_size,
                             &mine->node);
    if (st == 0) {
        st = core_topo_load(core.topo);
        mine->topo = *core.topo;
    }
    return st;
}

static int attach_node(const struct core_record *lowest)
{
    if (core.node != NULL) {
        return 0;
    }
    if (memcmp(lowest->host, lowest->node.host, sizeof(lowest->host)) != 0) {
        return orl_fail(ORL_ERR_BOOT, "rank %d's record names two hosts", lowest->rank);
    }
    *core.topo = lowest->topo;
    core_topo_refine(core.topo);
    return fab_node_attach(&core.node, &lowest->node);
}

/* Proof that the launcher and the machine agree on who shares this host; their CPUs together. */
static int adopt_local(int i, const struct core_record *mine, uint8_t *cpus)
{
    struct core_record record;
    int st = core_record_of(core.boot, core.local_rank[i], &record);
    if (st != 0) {
        return st;
    }
    if (memcmp(record.host, mine->host, sizeof(record.host)) != 0) {
        return orl_fail(ORL_ERR_BOOT,
                        "the launcher says that rank %d shares this host, but it runs on %s "
                        "and this rank on %s",
                        record.rank, record.hostname, mine->hostname);
    }
    for (size_t b = 0; b < sizeof(record.cpus); b++) {
        cpus[b] = (uint8_t)(cpus[b] | record.cpus[b]);
    }
    if (core.local_rank[i] == 0) {
        core.job ^= record.nonce; /* the launcher's name of the job may repeat */
    }
    return i == 0 ? attach_node(&record) : 0;
}

static int adopt_locals(const struct core_record *mine, uint8_t *cpus)
{
    int st = 0;
    for (int i = 0; st == 0 && i < core.nlocal; i++) {
        st = adopt_local(i, mine, cpus);
    }
    return st;
}

static int all_on_this_host(void)
{
    if (core.nlocal < core.size) {
        return orl_fail(ORL_ERR_UNSUPP,
                        "this job has %d ranks, %d of them on this host; the transports of this "
                        "build (%s) reach one host only",
                        core.size, core.nlocal, fab_transports());
    }
    if (core.size > 1 && !orl_conf_list_has(orl_conf.transports, "shm")) {
        return orl_fail(ORL_ERR_CONF,
                        "ORIEL_TRANSPORTS is '%s': no transport reaches the other %d ranks; add "
                        "shm",
                        orl_conf.transports, core.size - 1);
    }
    return 0;
}

/* ---------------------------------------------------------------- the sequence */

static int learn_job(void)
{
    const struct core_boot *boot = NULL;
    struct core_boot_id id;
    int st = core_boot_open(&boot, &id);
    if (st != 0) {
        return st;
    }
    core.boot = boot; /* only what has opened is closed */
    core.rank = id.rank;
    core.size = id.size;
    core.local = id.local;
    core.nlocal = id.nlocal;
    core.job = id.job;
    orl_sys_hostname(core.host, sizeof(core.host));
    orl_log_ident(core.rank, core.host);
    core.local_rank = calloc((size_t)core.nlocal, sizeof(*core.local_rank));
    core.topo = calloc(1, sizeof(*core.topo));
    if (core.local_rank == NULL || core.topo == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for a table of %d local ranks", core.nlocal);
    }
    st = core.boot->local_ranks(core.local_rank);
    return st != 0 ? st : all_on_this_host();
}

/* One record, one fence, then what is known to exist. */
static int meet_peers(void)
{
    struct core_record mine = { .version = CORE_WIRE_VERSION, .rank = core.rank };
    unsigned char bytes[CORE_RECORD_BYTES];
    uint8_t cpus[CORE_MASK_BYTES] = { 0 };
    orl_sys_host_id(mine.host);
    memcpy(mine.hostname, core.host, strnlen(core.host, sizeof(mine.hostname) - 1));
    core_topo_mask(mine.cpus, sizeof(mine.cpus));
    int st = orl_sys_random(&mine.nonce, sizeof(mine.nonce));
    if (st == 0) {
        st = make_node(&mine);
    }
    if (st != 0) {
        return st;
    }
    size_t length = core_record_encode(&mine, bytes, sizeof(bytes));
    st = core.boot->put(bytes, length);
    if (st == 0) {
        st = core.boot->fence("exchange of addresses in oriel_init");
    }
    if (st == 0) {
        st = adopt_locals(&mine, cpus);
    }
    core.oversubscribed = core_topo_is_oversubscribed(cpus, sizeof(cpus), core.nlocal);
    return st;
}

static bool has_joined(int i)
{
    return atomic_load_explicit(&core.node->ctl[i].state, memory_order_acquire) != FAB_RANK_ABSENT;
}

static int wait_joined_one(int i, uint64_t deadline)
{
    for (unsigned turn = 0; !has_joined(i); turn++) {
        if (orl_deadline_passed(deadline)) {
            return orl_fail(ORL_ERR_BOOT,
                            "oriel_init: rank %d has not joined the node's memory after %.1f s "
                            "(ORIEL_BOOT_TIMEOUT)",
                            core.local_rank[i], (double)orl_conf.boot_timeout / 1e9);
        }
        usleep(turn < 200 ? 0 : 500);
    }
    return 0;
}

/* Everybody on this host has a control block: from now on deaths are seen. */
static int wait_joined(void)
{
    uint64_t deadline = orl_deadline_in((int64_t)orl_conf.boot_timeout);
    for (int i = 0; i < core.node->nranks; i++) {
        int st = wait_joined_one(i, deadline);
        if (st != 0) {
            return st;
        }
    }
    fab_node_unlink(core.node);
    return 0;
}

static int join_node(void)
{
    bool shared = core.node->nranks > 1 || core.nlocal == 1;
    int st = fab_node_join(core.node, shared ? core.local : 0, core.rank);
    return st != 0 ? st : wait_joined();
}

static int open_fabric(void)
{
    core.fabric.inflight = (uint64_t)orl_conf.inflight;
    int st = fab_open(&core.fabric, orl_conf.transports, core.node);
    if (st != 0) {
        return st;
    }
    core.shm = fab_engine_find(&core.fabric, "shm");
    core.self = fab_engine_find(&core.fabric, "self");
    if (core.shm == NULL && core.self == NULL) {
        fab_close(&core.fabric);
        return orl_fail(ORL_ERR_CONF, "ORIEL_TRANSPORTS is '%s': a job of one needs self or shm",
                        orl_conf.transports);
    }
    return 0;
}

/* The rooms of core, lower first. */
static int open_rooms(void)
{
    core_progress_open();
    int st = core_peers_open();
    if (st != 0) {
        return st;
    }
    st = core_reqs_open();
    if (st != 0) {
        goto err_peers;
    }
    st = core_mem_open();
    if (st != 0) {
        goto err_reqs;
    }
    core_coll_open();
    return 0;

err_reqs:
    (void)core_reqs_close();
err_peers:
    core_peers_close();
    return st;
}

static void forget_job(void)
{
    fab_node_close(core.node);
    core.node = NULL;
    free(core.local_rank);
    free(core.topo);
    core.local_rank = NULL;
    core.topo = NULL;
}

static int start(const struct oriel_init_opts *opts)
{
    int st = load_settings(opts);
    if (st != 0) {
        return st;
    }
    orl_lock_set_threaded(opts == NULL || (opts->flags & ORIEL_INIT_ONE_THREAD) == 0);
    orl_clock_open();
    orl_copy_open();
    pthread_once(&fork_once, watch_forks);
    st = learn_job();
    if (st != 0) {
        goto err_boot;
    }
    st = meet_peers();
    if (st == 0) {
        st = join_node();
    }
    if (st != 0) {
        goto err_boot;
    }
    st = open_fabric();
    if (st != 0) {
        goto err_boot;
    }
    st = open_rooms();
    if (st != 0) {
        goto err_fabric;
    }
    return 0;

err_fabric:
    fab_close(&core.fabric);
err_boot:
    forget_job();
    if (core.boot != NULL) {
        core.boot->close();
        core.boot = NULL;
    }
    return st;
}

ORL_PUBLIC int oriel_init(const struct oriel_init_opts *opts)
{
    pthread_mutex_lock(&init_lock);
    int st = 0;
    if (atomic_load(&core.users) > 0) {
        atomic_fetch_add(&core.users, 1);
    } else if (atomic_load(&core.forked) || core.was_open) {
        st = core_state_error();
    } else {
        st = start(opts);
        if (st == 0) {
            core.was_open = true;
            atomic_store(&core.users, 1);
            orl_log_info(ORL_CAT_BOOT, "rank %d of %d, %d on this host, by %s, copy kernel %s%s",
                         core.rank, core.size, core.nlocal, core.boot->name, orl_copy_kernel(),
                         core.oversubscribed ? ", more ranks than CPUs" : "");
        }
    }
    pthread_mutex_unlock(&init_lock);
    return st;
}

/* What has been posted is done and visible before anybody leaves, where peers answer in time. */
static void drain(uint64_t deadline)
{
    for (int rank = 0; rank < core.size; rank++) {
        struct core_path *path = atomic_load_explicit(&core.peers[rank].path, memory_order_acquire);
        if (path != NULL) {
            (void)!core_path_flush(path, deadline);
        }
    }
}

/* The way back. Returns how many requests were outstanding. */
static uint64_t stop(void)
{
    uint64_t deadline = orl_deadline_in((int64_t)orl_conf.boot_timeout);
    drain(deadline);
    uint64_t now = orl_clock_ns();
    core_coll_leave(now < deadline ? (int64_t)(deadline - now) : 0);
    core_agent_stop();
    uint64_t outstanding = core_reqs_close();
    core_mem_close();
    core_progress_close();
    core_peers_close();
    fab_close(&core.fabric);
    forget_job();
    core.boot->close();
    orl_log_close();
    return outstanding;
}

ORL_PUBLIC int oriel_finalize(void)
{
    pthread_mutex_lock(&init_lock);
    int users = atomic_load(&core.users);
    int st = 0;
    if (users <= 0) {
        st = core_state_error();
    } else if (users > 1) {
        atomic_fetch_sub(&core.users, 1);
    } else {
        uint64_t outstanding = stop();
        atomic_store(&core.users, 0);
        if (outstanding > 0) {
            st = orl_fail(ORL_ERR_BUSY,
                          "oriel_finalize ended %llu requests that nobody had waited "
                          "for",
                          (unsigned long long)outstanding);
        }
    }
    pthread_mutex_unlock(&init_lock);
    return st;
}

ORL_PUBLIC bool oriel_is_initialized(void)
{
    return core_is_open();
}

/* Peers on this host learn of it from the state word, the rest of the job from the launcher. */
ORL_PUBLIC void oriel_abort(int code, const char *text)
{
    if (core_is_open()) {
        orl_log_error(ORL_CAT_BOOT, "oriel_abort(%d): %s", code, text != NULL ? text : "no reason");
        struct fab_node_ctl *ctl = &core.node->ctl[core.node->local];
        ctl->code = code;
        atomic_store_explicit(&ctl->state, FAB_RANK_ABORTED, memory_order_release);
        fab_node_wake(core.node, -1);
        core.boot->abort(code, text != NULL ? text : "oriel_abort");
    }
    _exit(code);
}
