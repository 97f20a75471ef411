/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bootstrap from a PMIx server (mpirun, srun). The only file that knows PMIx; written for servers
 * of version 4 and later, whose habits it allows for: integer types of keys differ between servers,
 * a Get of what does not exist may wait for ever unless it is marked optional, and a fence does not
 * tell reliably of a dead rank, so every wait here has a clock of its own.
 */
#include "core/boot/boot.h"

#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/status.h"
#include "base/strbuf.h"

#define RECORD_KEY "oriel.record"

static pmix_proc_t self;
static int job_size;
static char *local_peers; /* owns; "0,1,2" */

static void load_proc(pmix_proc_t *proc, pmix_rank_t rank)
{
    memset(proc, 0, sizeof(*proc));
    memcpy(proc->nspace, self.nspace, sizeof(proc->nspace));
    proc->rank = rank;
}

static void load_flag(pmix_info_t *info, const char *key)
{
    memset(info, 0, sizeof(*info));
    strncpy(info->key, key, PMIX_MAX_KEYLEN);
    info->value.type = PMIX_BOOL;
    info->value.data.flag = true;
}

/* A number of whatever integer type the server chose; fallback where it has none. */
static long number_of(const pmix_value_t *value, long fallback)
{
    switch (value->type) {
    case PMIX_UINT32:
        return (long)value->data.uint32;
    case PMIX_INT:
        return value->data.integer;
    case PMIX_INT32:
        return value->data.int32;
    case PMIX_UINT:
        return (long)value->data.uint;
    case PMIX_UINT16:
        return value->data.uint16;
    case PMIX_UINT64:
        return (long)value->data.uint64;
    case PMIX_SIZE:
        return (long)value->data.size;
    case PMIX_PROC_RANK:
        return (long)value->data.rank;
    default:
        return fallback;
    }
}

/* A key of the job or of a rank, only if it is known already. NULL: it is not. */
static pmix_value_t *ask(pmix_rank_t rank, const char *key)
{
    pmix_proc_t proc;
    pmix_info_t optional;
    pmix_value_t *value = NULL;
    load_proc(&proc, rank);
    load_flag(&optional, PMIX_OPTIONAL);
    return PMIx_Get(&proc, key, &optional, 1, &value) == PMIX_SUCCESS ? value : NULL;
}

static void forget(pmix_value_t *value)
{
    if (value != NULL) {
        PMIX_VALUE_RELEASE(value);
    }
}

static long ask_number(pmix_rank_t rank, const char *key, long fallback)
{
    pmix_value_t *value = ask(rank, key);
    long n = value != NULL ? number_of(value, fallback) : fallback;
    forget(value);
    return n;
}

/* ---------------------------------------------------------------- identity */

/* How many numbers a list "0,1,2" has, and which place `rank` takes in it (-1: none). */
static int count_peers(const char *list, long rank, int *place)
{
    int n = 0;
    *place = -1;
    for (const char *at = list; *at != 0;) {
        char *end;
        long r = strtol(at, &end, 10);
        if (end == at) {
            return 0;
        }
        if (r == rank) {
            *place = n;
        }
        n++;
        at = *end == ',' ? end + 1 : end;
        if (*end != ',' && *end != 0) {
            return 0;
        }
    }
    return n;
}

static int identify(struct core_boot_id *id)
{
    job_size = (int)ask_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, 0);
    if (job_size <= 0) {
        return orl_fail(ORL_ERR_BOOT,
                        "the PMIx server does not tell the size of the job "
                        "(PMIX_JOB_SIZE); PMIx %s",
                        PMIx_Get_version());
    }
    pmix_value_t *peers = ask(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS);
    const char *list = peers != NULL && peers->type == PMIX_STRING ? peers->data.string : NULL;
    int place = -1;
    int nlocal = list != NULL ? count_peers(list, (long)self.rank, &place) : 0;
    if (place >= 0) {
        local_peers = strdup(list);
    }
    forget(peers);
    if (place < 0 || local_peers == NULL) {
        return orl_fail(ORL_ERR_BOOT,
                        "the PMIx server does not tell which ranks share this host "
                        "(PMIX_LOCAL_PEERS); PMIx %s",
                        PMIx_Get_version());
    }
    id->rank = (int)self.rank;
    id->size = job_size;
    id->local = place;
    id->nlocal = nlocal;
    id->job = core_boot_hash(self.nspace);
    return 0;
}

static void pmix_close(void)
{
    free(local_peers);
    local_peers = NULL;
    PMIx_Finalize(NULL, 0);
}

static int pmix_open(struct core_boot_id *id)
{
    /* without a server PMIx would still open its components: ask for its traces first */
    if (orl_conf_launcher_variable("PMIX_NAMESPACE") == NULL &&
        orl_conf_launcher_variable("PMIX_RANK") == NULL) {
        return orl_fail(ORL_ERR_UNSUPP, "no PMIx launcher started this process (PMIX_NAMESPACE is "
                                        "not set); use mpirun or srun --mpi=pmix");
    }
    pmix_status_t r = PMIx_Init(&self, NULL, 0);
    if (r != PMIX_SUCCESS) {
        return orl_fail(ORL_ERR_BOOT, "PMIx_Init: %s; client version %s", PMIx_Error_string(r),
                        PMIx_Get_version());
    }
    int st = identify(id);
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
    pmix_status_t r = PMIx_Put(PMIX_GLOBAL, RECORD_KEY, &value);
    if (r == PMIX_SUCCESS) {
        r = PMIx_Commit();
    }
    return r == PMIX_SUCCESS
               ? 0
               : orl_fail(ORL_ERR_BOOT, "PMIx_Put of this rank's record: %s", PMIx_Error_string(r));
}

static int pmix_get(int rank, void *record, size_t *bytes)
{
    pmix_value_t *value = ask((pmix_rank_t)rank, RECORD_KEY);
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
    forget(value);
    return st;
}

/* ---------------------------------------------------------------- fence */

/* Outlives the call when the server answers after the time-out: then the callback frees it. */
struct fence {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool is_done, is_abandoned;
    pmix_status_t status;
    pmix_info_t info[2];
};

static void free_fence(struct fence *f)
{
    pthread_cond_destroy(&f->ended);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static void fence_ended(pmix_status_t status, void *arg)
{
    struct fence *f = arg;
    pthread_mutex_lock(&f->lock);
    f->status = status;
    f->is_done = true;
    bool is_abandoned = f->is_abandoned;
    pthread_cond_signal(&f->ended);
    pthread_mutex_unlock(&f->lock);
    if (is_abandoned) {
        free_fence(f);
    }
}

static struct fence *new_fence(void)
{
    struct fence *f = calloc(1, sizeof(*f));
    pthread_condattr_t attr;
    if (f == NULL) {
        return NULL;
    }
    pthread_mutex_init(&f->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&f->ended, &attr);
    pthread_condattr_destroy(&attr);
    load_flag(&f->info[0], PMIX_COLLECT_DATA);
    return f;
}

/* Ranks whose record the server does not have yet, as far as it can tell at once. */
static int fence_timeout(const char *step)
{
    char text[128];
    struct orl_strbuf sb;
    pmix_info_t now;
    orl_strbuf_init(&sb, text, sizeof(text));
    load_flag(&now, PMIX_IMMEDIATE);
    for (int r = 0; r < job_size && r < 256 && sb.length < 100; r++) {
        pmix_proc_t proc;
        pmix_value_t *value = NULL;
        load_proc(&proc, (pmix_rank_t)r);
        if (r != (int)self.rank && PMIx_Get(&proc, RECORD_KEY, &now, 1, &value) != PMIX_SUCCESS) {
            orl_strbuf_addf(&sb, "%s%d", sb.length > 0 ? ", " : "", r);
        }
        forget(value);
    }
    return orl_fail(ORL_ERR_BOOT, "%s: no sign of rank %s after %.1f s (ORIEL_BOOT_TIMEOUT)", step,
                    sb.length > 0 ? orl_strbuf_str(&sb) : "(PMIx cannot tell which)",
                    (double)orl_conf.boot_timeout / 1e9);
}

/* 0 when the callback ran in time. */
static bool wait_fence(struct fence *f)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(orl_conf.boot_timeout / 1000000000u);
    until.tv_nsec += (long)(orl_conf.boot_timeout % 1000000000u);
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    pthread_mutex_lock(&f->lock);
    int rc = 0;
    while (!f->is_done && rc != ETIMEDOUT) {
        rc = pthread_cond_timedwait(&f->ended, &f->lock, &until);
    }
    bool is_done = f->is_done;
    f->is_abandoned = !is_done;
    pthread_mutex_unlock(&f->lock);
    return is_done;
}

static int pmix_fence(const char *step)
{
    struct fence *f = new_fence();
    if (f == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for a fence");
    }
    pmix_status_t r = PMIx_Fence_nb(NULL, 0, f->info, 1, fence_ended, f);
    if (r == PMIX_OPERATION_SUCCEEDED) {
        free_fence(f);
        return 0;
    }
    if (r != PMIX_SUCCESS) {
        free_fence(f);
        return orl_fail(ORL_ERR_BOOT, "%s: PMIx_Fence: %s", step, PMIx_Error_string(r));
    }
    if (!wait_fence(f)) {
        return fence_timeout(step);
    }
    r = f->status;
    free_fence(f);
    if (r != PMIX_SUCCESS) {
        return orl_fail(ORL_ERR_BOOT, "%s: PMIx_Fence: %s; a rank has probably ended before it",
                        step, PMIx_Error_string(r));
    }
    return 0;
}

static void pmix_abort(int code, const char *text)
{
    PMIx_Abort(code, text, NULL, 0);
}

const struct core_boot core_boot_pmix = { .name = "pmix",
                                          .open = pmix_open,
                                          .local_ranks = pmix_local_ranks,
                                          .put = pmix_put,
                                          .fence = pmix_fence,
                                          .get = pmix_get,
                                          .abort = pmix_abort,
                                          .close = pmix_close };
