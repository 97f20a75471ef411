/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bootstrap from a PMIx server (mpirun, srun, oriel-run). The files boot_pmix*.c are the only
 * ones that know PMIx; written for servers of version 4 and later, whose habits they allow for:
 * integer types of keys differ between servers, a Get of what does not exist may wait for ever
 * unless it is marked optional, and a fence does not tell reliably of a dead rank. So every wait
 * for the server has a clock of its own: calls that have no form that returns at once run on a side
 * thread, which is left behind when they do not come back in time, and the fence is watched.
 *
 * Others in the process may use PMIx too, before, after or meanwhile: the client counts its users.
 * Nothing is ever notified by PMIx from here: servers in use are brought down by it.
 */
#include "core/boot/boot.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "base/sys.h"
#include "core/boot/boot_pmix.h"
#include "core/boot/boot_watch.h"

#define RECORD_KEY "oriel.record"

/* A fence is usually over before anybody looks around. */
#define LOOK_AFTER_NS (200 * ORL_NS_PER_MS)
#define LOOK_EVERY_NS (100 * ORL_NS_PER_MS)
/* A failed fence: somebody is gone; how long to find out who. */
#define SETTLE_NS (1500 * ORL_NS_PER_MS)
/* Courtesies that must not hold up an end. */
#define ABORT_NS ORL_NS_PER_S
#define NAMES_NS ORL_NS_PER_S
#define CLOSE_NS (5 * ORL_NS_PER_S)

static char *local_peers; /* owns; "0,1,2" */

/* How long ranks that are not in sight may still be about to start: not at all once a fence has
 * ended, for which everybody alive has come. */
static uint64_t patience_ns = CORE_WATCH_PATIENCE_NS;

/* ---------------------------------------------------------------- identity */

/* How many numbers a list "0,1,2" has, and which place `rank` takes in it (-1: none, or the list
 * is not one). */
static int count_peers(const char *list, long rank, int *place)
{
    int n = 0;
    *place = -1;
    for (const char *at = list; *at != 0;) {
        char *end;
        long r = strtol(at, &end, 10);
        if (end == at || (*end != ',' && *end != 0)) {
            *place = -1;
            return 0;
        }
        if (r == rank) {
            *place = n;
        }
        n++;
        at = *end == ',' ? end + 1 : end;
    }
    return n;
}

static int ask_number(pmix_rank_t rank, const char *key, int fallback)
{
    pmix_value_t *value = core_pmix_ask(rank, key);
    int n = value != NULL ? core_pmix_number(value, fallback) : fallback;
    core_pmix_forget(value);
    return n;
}

static int identify(struct core_boot_id *id)
{
    core_pmix.size = ask_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, 0);
    if (core_pmix.size <= 0) {
        return orl_fail(ORL_ERR_BOOT,
                        "the PMIx server does not tell the size of the job "
                        "(PMIX_JOB_SIZE); PMIx %s",
                        PMIx_Get_version());
    }
    pmix_value_t *peers = core_pmix_ask(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS);
    const char *list = peers != NULL && peers->type == PMIX_STRING ? peers->data.string : NULL;
    int place = -1;
    int nlocal = list != NULL ? count_peers(list, (long)core_pmix.self.rank, &place) : 0;
    if (place >= 0) {
        local_peers = strdup(list);
    }
    core_pmix_forget(peers);
    if (place < 0 || local_peers == NULL) {
        return orl_fail(ORL_ERR_BOOT,
                        "the PMIx server does not tell which ranks share this host "
                        "(PMIX_LOCAL_PEERS); PMIx %s",
                        PMIx_Get_version());
    }
    id->rank = (int)core_pmix.self.rank;
    id->size = core_pmix.size;
    id->local = place;
    id->nlocal = nlocal;
    id->job = core_boot_hash(core_pmix.self.nspace);
    return 0;
}

/* ---------------------------------------------------------------- open and close */

static const char *yes_or_no(bool is_so)
{
    return is_so ? "yes" : "no";
}

/* Any of the variables by which a client finds its server. */
static bool has_server_uri(void)
{
    static const char *const names[] = { "PMIX_SERVER_URI41", "PMIX_SERVER_URI4",
                                         "PMIX_SERVER_URI3",  "PMIX_SERVER_URI21",
                                         "PMIX_SERVER_URI2",  "PMIX_SERVER_URI" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (orl_conf_launcher_variable(names[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static const char *server_version(void)
{
    const char *version = orl_conf_launcher_variable("PMIX_VERSION");
    return version != NULL ? version : "not told";
}

static double timeout_s(void)
{
    return (double)orl_conf.boot_timeout / (double)ORL_NS_PER_S;
}

static int fail_init(int st, const struct core_pmix_call *call)
{
    if (st == ORL_ERR_TIMEOUT) {
        return orl_fail(ORL_ERR_BOOT,
                        "PMIx_Init in oriel_init: no answer from the PMIx server after %.1f s "
                        "(ORIEL_BOOT_TIMEOUT); client version %s, server version %s, a server's "
                        "address in the environment: %s",
                        timeout_s(), PMIx_Get_version(), server_version(),
                        yes_or_no(has_server_uri()));
    }
    if (st != 0) {
        return st;
    }
    return orl_fail(ORL_ERR_BOOT,
                    "PMIx_Init in oriel_init: %s; client version %s, server version %s, a server's "
                    "address in the environment: %s",
                    PMIx_Error_string(call->status), PMIx_Get_version(), server_version(),
                    yes_or_no(has_server_uri()));
}

static void pmix_close(void)
{
    struct core_pmix_call result;
    uint64_t timeout_ns = orl_conf.boot_timeout < CLOSE_NS ? orl_conf.boot_timeout : CLOSE_NS;
    core_watch_close();
    free(local_peers);
    local_peers = NULL;
    if (core_pmix_call(core_pmix_call_new(core_pmix_run_finalize), timeout_ns, &result) ==
        ORL_ERR_TIMEOUT) {
        orl_log_warn(ORL_CAT_BOOT, "PMIx_Finalize has not come back after %.1f s; going on without",
                     (double)timeout_ns / (double)ORL_NS_PER_S);
    }
}

static int pmix_local_ranks(int *ranks);

static int watch_host(const struct core_boot_id *id)
{
    int *ranks = calloc((size_t)id->nlocal, sizeof(*ranks));
    if (ranks == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for a table of %d local ranks", id->nlocal);
    }
    int st = pmix_local_ranks(ranks);
    if (st == 0) {
        st = core_watch_open(core_pmix.self.nspace, ranks, id->nlocal, id->rank);
    }
    free(ranks);
    return st;
}

static int pmix_open(struct core_boot_id *id)
{
    struct core_pmix_call call = { .status = PMIX_ERROR };
    /* without a server PMIx would still open its components: ask for its traces first */
    if (orl_conf_launcher_variable("PMIX_NAMESPACE") == NULL &&
        orl_conf_launcher_variable("PMIX_RANK") == NULL) {
        return orl_fail(ORL_ERR_UNSUPP, "no PMIx launcher started this process (PMIX_NAMESPACE is "
                                        "not set); use oriel-run, mpirun or srun --mpi=pmix");
    }
    int st = core_pmix_call(core_pmix_call_new(core_pmix_run_init), orl_conf.boot_timeout, &call);
    if (st != 0 || call.status != PMIX_SUCCESS) {
        return fail_init(st, &call);
    }
    core_pmix.self = call.proc;
    patience_ns = CORE_WATCH_PATIENCE_NS;
    orl_log_debug(ORL_CAT_BOOT, "PMIx client %s, server %s", PMIx_Get_version(), server_version());
    core_pmix_ends_open();
    st = identify(id);
    if (st == 0) {
        st = watch_host(id);
    }
    if (st != 0) {
        pmix_close();
    }
    return st;
}

static int pmix_local_ranks(int *ranks)
{
    int i = 0;
    for (char *at = local_peers; *at != 0;) {
        char *end;
        ranks[i++] = (int)strtol(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    return 0;
}

static int pmix_look(const char *step)
{
    return core_pmix_look(step, patience_ns);
}

/* ---------------------------------------------------------------- records */

static int pmix_put(const void *record, size_t bytes)
{
    char copy[CORE_RECORD_BYTES];
    if (bytes > sizeof(copy)) {
        return orl_fail(ORL_ERR_INVAL, "a record has at most %zu bytes, not %zu", sizeof(copy),
                        bytes);
    }
    memcpy(copy, record, bytes);
    pmix_value_t value = { .type = PMIX_BYTE_OBJECT };
    value.data.bo.bytes = copy;
    value.data.bo.size = bytes;
    struct core_pmix_call call = { .status = PMIx_Put(PMIX_GLOBAL, RECORD_KEY, &value) };
    if (call.status != PMIX_SUCCESS) {
        return orl_fail(ORL_ERR_BOOT, "PMIx_Put of this rank's record in oriel_init: %s",
                        PMIx_Error_string(call.status));
    }
    int st = core_pmix_call(core_pmix_call_new(core_pmix_run_commit), orl_conf.boot_timeout, &call);
    if (st == ORL_ERR_TIMEOUT) {
        return orl_fail(ORL_ERR_BOOT,
                        "PMIx_Commit of this rank's record in oriel_init: no answer from the PMIx "
                        "server after %.1f s (ORIEL_BOOT_TIMEOUT)",
                        timeout_s());
    }
    if (st == 0 && call.status != PMIX_SUCCESS) {
        st = orl_fail(ORL_ERR_BOOT, "PMIx_Commit of this rank's record in oriel_init: %s",
                      PMIx_Error_string(call.status));
    }
    return st;
}

static int pmix_get(int rank, void *record, size_t *bytes)
{
    pmix_value_t *value = core_pmix_ask((pmix_rank_t)rank, RECORD_KEY);
    if (value == NULL) {
        return orl_fail(ORL_ERR_BOOT,
                        "PMIx has no record of rank %d after the fence: it is gone, "
                        "or runs another version of liboriel",
                        rank);
    }
    int st = 0;
    if (value->type != PMIX_BYTE_OBJECT || value->data.bo.size > *bytes) {
        st = orl_fail(ORL_ERR_BOOT, "the record of rank %d is not one of ours", rank);
    } else {
        memcpy(record, value->data.bo.bytes, value->data.bo.size);
        *bytes = value->data.bo.size;
    }
    core_pmix_forget(value);
    return st;
}

/* ---------------------------------------------------------------- fence */

enum {
    FENCE_RUNS,
    FENCE_ENDED,
    FENCE_LEFT
};

/* Outlives the call when the server answers after the time-out: then the callback frees it. */
struct fence {
    _Atomic uint32_t state; /* FENCE_ */
    pmix_status_t status;
    pmix_info_t info[1];
};

static void fence_ended(pmix_status_t status, void *arg)
{
    struct fence *f = arg;
    f->status = status;
    if (atomic_exchange(&f->state, FENCE_ENDED) == FENCE_LEFT) {
        free(f);
    } else {
        core_pmix_tell_news();
    }
}

static int fail_late(const char *step)
{
    struct core_pmix_call result = { .text = "" };
    struct core_pmix_call *call = core_pmix_call_new(core_pmix_run_missing);
    if (call != NULL) {
        struct orl_strbuf sb;
        call->proc = core_pmix.self;
        call->size = core_pmix.size;
        orl_strbuf_init(&sb, call->text, sizeof(call->text));
        orl_strbuf_add(&sb, RECORD_KEY);
    }
    bool is_told = core_pmix_call(call, NAMES_NS, &result) == 0 && result.text[0] != '\0';
    return orl_fail(ORL_ERR_BOOT,
                    "%s: PMIx_Fence of %d ranks: no sign of rank %s after %.1f s "
                    "(ORIEL_BOOT_TIMEOUT)",
                    step, core_pmix.size, is_told ? result.text : "(PMIx cannot tell which)",
                    timeout_s());
}

static bool is_over(struct fence *f)
{
    return atomic_load(&f->state) == FENCE_ENDED;
}

/* 0 when the callback ran in time; then the fence is the caller's to free. */
static int wait_fence(struct fence *f, const char *step)
{
    uint64_t begin = orl_clock_kernel_ns();
    uint64_t waited = 0;
    int st = 0;
    while (st == 0 && waited < orl_conf.boot_timeout) {
        uint32_t seen = atomic_load(&core_pmix.news);
        if (is_over(f)) {
            return 0;
        }
        bool looks = waited >= LOOK_AFTER_NS;
        (void)!orl_sys_futex_wait(&core_pmix.news, seen, looks ? LOOK_EVERY_NS : LOOK_AFTER_NS);
        waited = orl_clock_kernel_ns() - begin;
        if (!is_over(f)) {
            st = looks ? pmix_look(step) : core_pmix_told(step);
        }
    }
    if (st == 0 && !is_over(f)) {
        st = fail_late(step);
    }
    return atomic_exchange(&f->state, FENCE_LEFT) == FENCE_ENDED ? 0 : st;
}

/* Somebody has ended while the fence ran: who? Launchers and processes take a moment. */
static int fail_fence(const char *step, pmix_status_t status)
{
    uint64_t begin = orl_clock_kernel_ns();
    int st = 0;
    while (st == 0 && orl_clock_kernel_ns() - begin < SETTLE_NS) {
        uint32_t seen = atomic_load(&core_pmix.news);
        st = pmix_look(step);
        if (st == 0) {
            (void)!orl_sys_futex_wait(&core_pmix.news, seen, LOOK_EVERY_NS);
        }
    }
    return st != 0 ? st
                   : orl_fail(ORL_ERR_BOOT,
                              "%s: PMIx_Fence of %d ranks: %s; a rank has probably ended before it",
                              step, core_pmix.size, PMIx_Error_string(status));
}

/* Ended by everybody alive, as opposed to refused. */
static bool is_end_of_fence(pmix_status_t status)
{
    return status == PMIX_SUCCESS || status == PMIX_ERR_PARTIAL_SUCCESS ||
           status == PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER || status == PMIX_ERR_LOST_CONNECTION;
}

static int pmix_fence(const char *step)
{
    struct fence *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for a fence");
    }
    core_pmix_flag(&f->info[0], PMIX_COLLECT_DATA);
    pmix_status_t r = PMIx_Fence_nb(NULL, 0, f->info, 1, fence_ended, f);
    if (r == PMIX_OPERATION_SUCCEEDED) {
        free(f);
        return 0;
    }
    if (r == PMIX_SUCCESS) {
        int st = wait_fence(f, step);
        if (st != 0) {
            return st;
        }
        r = f->status;
    }
    free(f);
    if (is_end_of_fence(r)) {
        patience_ns = 0;
    }
    return r == PMIX_SUCCESS ? 0 : fail_fence(step, r);
}

/* ---------------------------------------------------------------- abort */

static void pmix_abort(int code, const char *text)
{
    struct core_pmix_call result;
    struct core_pmix_call *call = core_pmix_call_new(core_pmix_run_abort);
    if (call != NULL) {
        struct orl_strbuf sb;
        call->code = code;
        orl_strbuf_init(&sb, call->text, sizeof(call->text));
        orl_strbuf_add(&sb, text);
    }
    (void)!core_pmix_call(call, ABORT_NS, &result);
}

const char *core_boot_pmix_version(void)
{
    return PMIx_Get_version();
}

const struct core_boot core_boot_pmix = { .name = "pmix",
                                          .has_launcher = true,
                                          .open = pmix_open,
                                          .local_ranks = pmix_local_ranks,
                                          .put = pmix_put,
                                          .fence = pmix_fence,
                                          .get = pmix_get,
                                          .look = pmix_look,
                                          .leave = core_pmix_leave,
                                          .abort = pmix_abort,
                                          .close = pmix_close };
