/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel_init and oriel_finalize: the start-up sequence, in order, and its way back. Owns the
 * process object. One lock (rank INIT) makes init and finalize take turns; everything else may run
 * once `core.users` is positive.
 */
#include "core/core.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/copy.h"
#include "base/log.h"
#include "base/sys.h"
#include "core/abort.h"
#include "core/boot/boot.h"
#include "core/boot/nets.h"
#include "core/coll/coll.h"
#include "core/meet.h"
#include "core/mem/mem.h"
#include "core/path/agent.h"
#include "core/path/path.h"
#include "core/path/peer.h"
#include "core/path/progress.h"
#include "core/path/req.h"

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

/* ---------------------------------------------------------------- the sequence */

static int open_boot(void)
{
    const struct core_boot *boot = NULL;
    struct core_boot_id id;
    int st = core_boot_open(&boot, &id);
    if (st != 0) {
        orl_conf_warn_unknown();
        return st;
    }
    core.boot = boot; /* only what has opened is closed */
    core_abort_by(boot);
    core.rank = id.rank;
    core.size = id.size;
    core.local = id.local;
    core.nlocal = id.nlocal;
    core.job = id.job;
    orl_sys_hostname(core.host, sizeof(core.host));
    orl_log_ident(core.rank, core.host);
    if (core.rank == 0) {
        orl_conf_warn_unknown(); /* once for the job: its ranks share most of their environment */
    }
    return 0;
}

static int learn_job(void)
{
    core.local_rank = calloc((size_t)core.nlocal, sizeof(*core.local_rank));
    if (core.local_rank == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for a table of %d local ranks", core.nlocal);
    }
    int st = core.boot->local_ranks(core.local_rank);
    return st != 0 ? st : core_nets_open();
}

/* What reaches this host and this process; the networks are open. */
static int open_fabric(void)
{
    int st = fab_open_node(&core.fabric, core.node);
    if (st != 0) {
        return st;
    }
    core.shm = fab_engine_find(&core.fabric, "shm");
    core.self = fab_engine_find(&core.fabric, "self");
    if (core.shm == NULL && core.self == NULL) {
        fab_close(&core.fabric);
        return orl_fail(ORL_ERR_CONF,
                        "ORIEL_TRANSPORTS is '%s': a rank's own memory needs self or shm",
                        orl_conf.transports);
    }
    return 0;
}

/* The rooms of core, lower first. */
static int open_rooms(void)
{
    core_progress_open();
    core_abort_open();
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

/* Returns how many requests were outstanding. */
static uint64_t close_rooms(void)
{
    uint64_t outstanding = core_reqs_close();
    core_mem_close();
    core_progress_close();
    core_peers_close();
    return outstanding;
}

/* Peers of other hosts may need this rank's CPU at any time from now on. Connections may be paid
 * for here instead of at first use. */
static int meet_network(void)
{
    int st = core.nnetworks > 0 ? core_agent_start() : 0;
    if (st == 0 && core.nnetworks > 0 && orl_conf.connect == ORL_CONF_CONNECT_EAGER) {
        st = core_path_connect_all();
    }
    if (st != 0) {
        core_agent_stop();
        (void)close_rooms();
    }
    return st;
}

static void forget_job(void)
{
    fab_close(&core.fabric);
    fab_node_close(core.node);
    core.node = NULL;
    free(core.local_rank);
    core.local_rank = NULL;
}

/* From the job to the transports. What fails here in one rank alone is told to the others. */
static int start_job(void)
{
    int st = core_meet(learn_job());
    if (st != 0) {
        return st;
    }
    st = core_meet_others();
    if (st == 0) {
        st = core_meet_join();
    }
    if (st == 0) {
        st = open_fabric();
    }
    if (st == 0) {
        st = open_rooms();
    }
    if (st == 0) {
        st = meet_network();
    }
    if (st != 0) {
        core_meet_give_up();
    }
    return st;
}

static int start(const struct oriel_init_opts *opts)
{
    int st = load_settings(opts);
    orl_clock_open();
    if (st != 0) {
        return core_meet_refuse(st);
    }
    orl_lock_set_threaded(opts == NULL || (opts->flags & ORIEL_INIT_ONE_THREAD) == 0);
    orl_copy_open();
    pthread_once(&fork_once, watch_forks);
    st = open_boot();
    if (st == 0) {
        st = start_job();
    }
    if (st != 0) {
        forget_job();
        if (core.boot != NULL) {
            core_abort_by(NULL);
            core.boot->close();
            core.boot = NULL;
        }
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
            core_boot_on_loss(core_abort_without_launcher);
            orl_log_info(ORL_CAT_BOOT, "rank %d of %d, %d on this host, by %s, copy kernel %s%s",
                         core.rank, core.size, core.nlocal, core.boot->name, orl_copy_kernel(),
                         core.oversubscribed ? ", more ranks than CPUs" : "");
        } else {
            st = core_failed_here(st);
        }
    }
    pthread_mutex_unlock(&init_lock);
    return st;
}

/* The way back. What has been posted is done and visible before anybody leaves, and nobody leaves
 * while others still need him, as far as all come in time. Returns how many requests were
 * outstanding. */
static uint64_t stop(void)
{
    uint64_t deadline = orl_deadline_in((int64_t)orl_conf.boot_timeout);
    (void)!core_paths_flush(deadline);
    core_peers_leave();
    uint64_t now = orl_clock_ns();
    core_coll_leave(now < deadline ? (int64_t)(deadline - now) : 0);
    core_agent_stop();
    core_boot_on_loss(NULL); /* what it uses goes away now */
    uint64_t outstanding = close_rooms();
    forget_job();
    core_abort_by(NULL);
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
