/* SPDX-License-Identifier: BSD-3-Clause */
/* See fake_pmix.h. Callbacks run in threads of their own, as those of the real library do. */
#include "tests/fake/fake_pmix.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fake_pmix fake_pmix = { .size = 2, .local_peers = "0,1", .number = PMIX_UINT32 };

/* What the library would hold on to for the fences that never end. */
static void *kept[64];
static unsigned nkept;

static pmix_notification_fn_t handler; /* under lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void sleep_ms(int ms)
{
    usleep((useconds_t)ms * 1000);
}

static pmix_status_t answer(enum fake_call call)
{
    atomic_fetch_add(&fake_pmix.call[call].count, 1);
    while (fake_pmix.call[call].hangs) {
        pause();
    }
    sleep_ms(fake_pmix.call[call].delay_ms);
    return fake_pmix.call[call].status;
}

static void start_thread(void *(*run)(void *), void *arg)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, arg) != 0 || pthread_detach(thread) != 0) {
        abort();
    }
}

const char *PMIx_Get_version(void)
{
    return "Fake 9.8.7";
}

const char *PMIx_Error_string(pmix_status_t status)
{
    switch (status) {
    case PMIX_ERR_PARTIAL_SUCCESS:
        return "FAKE-PARTIAL";
    case PMIX_ERR_UNREACH:
        return "FAKE-UNREACH";
    default:
        return "FAKE-ERROR";
    }
}

pmix_status_t PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo)
{
    pmix_status_t status = answer(FAKE_INIT);
    (void)info;
    (void)ninfo;
    if (status == PMIX_SUCCESS) {
        memset(proc, 0, sizeof(*proc));
        memcpy(proc->nspace, FAKE_NSPACE, sizeof(FAKE_NSPACE));
        atomic_fetch_add(&fake_pmix.users, 1);
    }
    return status;
}

pmix_status_t PMIx_Finalize(const pmix_info_t info[], size_t ninfo)
{
    (void)info;
    (void)ninfo;
    atomic_fetch_sub(&fake_pmix.users, 1);
    return answer(FAKE_FINALIZE);
}

pmix_status_t PMIx_Abort(int status, const char msg[], pmix_proc_t procs[], size_t nprocs)
{
    (void)procs;
    (void)nprocs;
    fake_pmix.abort_code = status;
    strncpy(fake_pmix.abort_text, msg, sizeof(fake_pmix.abort_text) - 1);
    return answer(FAKE_ABORT);
}

/* ---------------------------------------------------------------- keys */

static void set_number(pmix_value_t *value, pmix_data_type_t type, int n)
{
    value->type = type;
    switch (type) {
    case PMIX_INT8:
        value->data.int8 = (int8_t)n;
        break;
    case PMIX_UINT8:
    case PMIX_BYTE:
        value->data.uint8 = (uint8_t)n;
        break;
    case PMIX_INT16:
    case PMIX_UINT16:
        value->data.uint16 = (uint16_t)n;
        break;
    case PMIX_INT64:
    case PMIX_UINT64:
    case PMIX_SIZE:
        value->data.int64 = n;
        break;
    case PMIX_STRING:
        value->data.string = strdup("some");
        break;
    default:
        value->data.int32 = n;
        break;
    }
}

static bool set_record(pmix_value_t *value, pmix_rank_t rank)
{
    if (rank >= FAKE_RANKS_MAX || fake_pmix.missing_record[rank] ||
        fake_pmix.record_bytes[rank] == 0) {
        return false;
    }
    value->type = PMIX_BYTE_OBJECT;
    value->data.bo.size = fake_pmix.record_bytes[rank];
    value->data.bo.bytes = malloc(value->data.bo.size);
    memcpy(value->data.bo.bytes, fake_pmix.record[rank], value->data.bo.size);
    return true;
}

static bool set_value(pmix_value_t *value, const pmix_proc_t *proc, const char *key)
{
    bool is_job = proc->rank == PMIX_RANK_WILDCARD;
    if (is_job && strcmp(key, PMIX_JOB_SIZE) == 0 && fake_pmix.number != PMIX_UNDEF) {
        set_number(value, fake_pmix.number, fake_pmix.size);
        return true;
    }
    if (is_job && strcmp(key, PMIX_LOCAL_PEERS) == 0 && fake_pmix.local_peers != NULL) {
        value->type = PMIX_STRING;
        value->data.string = strdup(fake_pmix.local_peers);
        return true;
    }
    if (!is_job && strcmp(key, PMIX_HOSTNAME) == 0) {
        value->type = PMIX_STRING;
        value->data.string = strdup("fakehost.example.org");
        return true;
    }
    if (!is_job && strcmp(key, "oriel.end") == 0 && fake_pmix.word[proc->rank][0] != '\0') {
        value->type = PMIX_STRING;
        value->data.string = strdup(fake_pmix.word[proc->rank]);
        return true;
    }
    return !is_job && strcmp(key, "oriel.record") == 0 && set_record(value, proc->rank);
}

pmix_status_t PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
                       size_t ninfo, pmix_value_t **val)
{
    bool may_wait = true;
    for (size_t i = 0; i < ninfo; i++) {
        may_wait = may_wait && strcmp(info[i].key, PMIX_OPTIONAL) != 0 &&
                   strcmp(info[i].key, PMIX_IMMEDIATE) != 0;
    }
    atomic_fetch_add(&fake_pmix.waiting_gets, may_wait);
    pmix_status_t status = answer(FAKE_GET);
    pmix_value_t *value = calloc(1, sizeof(*value));
    if (status != PMIX_SUCCESS || !set_value(value, proc, key)) {
        free(value);
        return status != PMIX_SUCCESS ? status : PMIX_ERR_NOT_FOUND;
    }
    *val = value;
    return PMIX_SUCCESS;
}

pmix_status_t PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t *val)
{
    pmix_status_t status = answer(FAKE_PUT);
    (void)scope;
    if (status == PMIX_SUCCESS && strcmp(key, "oriel.record") == 0 &&
        val->data.bo.size <= sizeof(fake_pmix.record[0])) {
        memcpy(fake_pmix.record[0], val->data.bo.bytes, val->data.bo.size);
        fake_pmix.record_bytes[0] = val->data.bo.size;
    }
    if (status == PMIX_SUCCESS && strcmp(key, "oriel.end") == 0) {
        strncpy(fake_pmix.word[0], val->data.string, sizeof(fake_pmix.word[0]) - 1);
    }
    return status;
}

pmix_status_t PMIx_Commit(void)
{
    return answer(FAKE_COMMIT);
}

/* ---------------------------------------------------------------- fence */

struct fence {
    pmix_op_cbfunc_t ended;
    void *arg;
};

static void *run_fence(void *arg)
{
    struct fence fence = *(struct fence *)arg;
    free(arg);
    sleep_ms(fake_pmix.fence_delay_ms);
    fence.ended(fake_pmix.fence_status, fence.arg);
    atomic_store(&fake_pmix.fence_ended, true);
    return NULL;
}

pmix_status_t PMIx_Fence_nb(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
                            size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
    pmix_status_t status = answer(FAKE_FENCE);
    (void)procs;
    (void)nprocs;
    (void)info;
    (void)ninfo;
    if (status == PMIX_SUCCESS && fake_pmix.fence_never) {
        kept[nkept++ % (sizeof(kept) / sizeof(kept[0]))] = cbdata;
    } else if (status == PMIX_SUCCESS) {
        struct fence *fence = malloc(sizeof(*fence));
        *fence = (struct fence){ cbfunc, cbdata };
        start_thread(run_fence, fence);
    }
    return status;
}

/* ---------------------------------------------------------------- events */

pmix_status_t PMIx_Register_event_handler(pmix_status_t codes[], size_t ncodes, pmix_info_t info[],
                                          size_t ninfo, pmix_notification_fn_t evhdlr,
                                          pmix_hdlr_reg_cbfunc_t cbfunc, void *cbdata)
{
    pmix_status_t status = answer(FAKE_REGISTER);
    (void)codes;
    (void)info;
    (void)ninfo;
    if (status == PMIX_SUCCESS && ncodes > 0) {
        pthread_mutex_lock(&lock);
        handler = evhdlr;
        pthread_mutex_unlock(&lock);
        cbfunc(PMIX_SUCCESS, 77, cbdata);
    }
    return status;
}

pmix_status_t PMIx_Deregister_event_handler(size_t evhdlr_ref, pmix_op_cbfunc_t cbfunc,
                                            void *cbdata)
{
    (void)cbfunc;
    (void)cbdata;
    pthread_mutex_lock(&lock);
    handler = evhdlr_ref == 77 ? NULL : handler;
    pthread_mutex_unlock(&lock);
    return answer(FAKE_DEREGISTER);
}

bool fake_pmix_has_handler(void)
{
    pthread_mutex_lock(&lock);
    bool has = handler != NULL;
    pthread_mutex_unlock(&lock);
    return has;
}

struct end {
    pmix_status_t code;
    pmix_proc_t proc;
    int exit_code;
};

static void *run_end(void *arg)
{
    struct end *end = arg;
    pmix_proc_t server = { .nspace = "server", .rank = 0 };
    pmix_info_t info[2];
    memset(info, 0, sizeof(info));
    memcpy(info[0].key, PMIX_EVENT_AFFECTED_PROC, sizeof(PMIX_EVENT_AFFECTED_PROC));
    info[0].value.type = PMIX_PROC;
    info[0].value.data.proc = &end->proc;
    memcpy(info[1].key, PMIX_EXIT_CODE, sizeof(PMIX_EXIT_CODE));
    info[1].value.type = PMIX_INT;
    info[1].value.data.integer = end->exit_code;
    pthread_mutex_lock(&lock);
    if (handler != NULL) {
        handler(77, end->code, &server, info, end->exit_code >= 0 ? 2 : 1, NULL, 0, NULL, NULL);
    }
    pthread_mutex_unlock(&lock);
    free(end);
    return NULL;
}

void fake_pmix_end(pmix_status_t code, const char *nspace, int rank, int exit_code)
{
    struct end *end = calloc(1, sizeof(*end));
    end->code = code;
    strncpy(end->proc.nspace, nspace, sizeof(end->proc.nspace) - 1);
    end->proc.rank = (pmix_rank_t)rank;
    end->exit_code = exit_code;
    start_thread(run_end, end);
}
