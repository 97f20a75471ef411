/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends of ranks, as the PMIx server tells them: a handler for the codes that mean one, which runs
 * in PMIx's thread and only takes notes, and the naming of whoever is gone.
 */
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "base/sys.h"
#include "core/boot/boot.h"
#include "core/boot/boot_pmix.h"
#include "core/boot/boot_watch.h"

/* A rank that has ended in good order may have done so after the fence: the word of that comes
 * first. */
#define NORMAL_END_NS (1000 * ORL_NS_PER_MS)

/* Longest question to the server that is only about words. */
#define WORD_NS ORL_NS_PER_S

/* SIZE_MAX: none, or not known yet. */
static _Atomic size_t handler_id = SIZE_MAX;

static pmix_status_t end_codes[] = { PMIX_ERR_PROC_ABORTED, PMIX_ERR_PROC_ABORTED_BY_SIG,
                                     PMIX_ERR_PROC_TERM_WO_SYNC, PMIX_EVENT_PROC_TERMINATED,
                                     PMIX_ERR_LOST_CONNECTION };

static _Atomic core_boot_loss_fn on_loss;

static void pass_loss_on(void)
{
    core_boot_loss_fn lost = atomic_load(&on_loss);
    if (lost != NULL) {
        lost();
    }
}

void core_boot_on_loss(core_boot_loss_fn lost)
{
    atomic_store(&on_loss, lost);
    if (atomic_load(&core_pmix.is_lost)) {
        pass_loss_on();
    }
}

/* The server is no process of this job; the connection to it is the only one there is. */
static void server_lost(const pmix_proc_t *source)
{
    if (source != NULL && strncmp(source->nspace, core_pmix.self.nspace, PMIX_MAX_NSLEN) != 0 &&
        !atomic_exchange(&core_pmix.is_lost, true)) {
        core_pmix_tell_news();
        pass_loss_on();
    }
}

/* Launchers give the signal itself, or what a shell would make of it. */
static void tell_end(int rank, pmix_status_t code, int number)
{
    switch (code) {
    case PMIX_ERR_PROC_ABORTED_BY_SIG:
        number = number > 128 ? number - 128 : number;
        core_end_told(rank, number > 0 ? CORE_END_SIGNAL : CORE_END_UNKNOWN, number);
        break;
    case PMIX_ERR_PROC_ABORTED: /* mpirun's word for any death; 0: it does not say which */
        core_end_told(rank, number != 0 ? CORE_END_ABORT : CORE_END_UNKNOWN, number);
        break;
    case PMIX_ERR_PROC_TERM_WO_SYNC:
        core_end_told(rank, CORE_END_EXIT, number);
        break;
    case PMIX_EVENT_PROC_TERMINATED:
        core_end_told(rank, CORE_END_NORMAL, number);
        break;
    default:
        break;
    }
}

/* Runs in PMIx's thread, at any time while the client is open: takes a note and returns. The
 * parameters are PMIx's. NOLINTNEXTLINE(readability-function-size) */
static void end_happened(size_t id, pmix_status_t code, const pmix_proc_t *source,
                         pmix_info_t info[], size_t ninfo, pmix_info_t *results, size_t nresults,
                         pmix_event_notification_cbfunc_fn_t finished, void *arg)
{
    const pmix_proc_t *proc = source;
    int number = 0;
    (void)id;
    (void)results;
    (void)nresults;
    for (size_t i = 0; i < ninfo; i++) {
        if (strncmp(info[i].key, PMIX_EVENT_AFFECTED_PROC, PMIX_MAX_KEYLEN) == 0 &&
            info[i].value.type == PMIX_PROC) {
            proc = info[i].value.data.proc;
        } else if (strncmp(info[i].key, PMIX_EXIT_CODE, PMIX_MAX_KEYLEN) == 0) {
            number = core_pmix_number(&info[i].value, 0);
        }
    }
    if (code == PMIX_ERR_LOST_CONNECTION) {
        server_lost(source);
    } else if (proc != NULL && strncmp(proc->nspace, core_pmix.self.nspace, PMIX_MAX_NSLEN) == 0 &&
               proc->rank <= INT_MAX && proc->rank != core_pmix.self.rank) {
        tell_end((int)proc->rank, code, number);
        core_pmix_tell_news();
    }
    if (finished != NULL) {
        finished(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, arg);
    }
}

static void handler_registered(pmix_status_t status, size_t id, void *arg)
{
    (void)arg;
    if (status == PMIX_SUCCESS) {
        atomic_store(&handler_id, id);
    }
}

/* Only explicit codes are ever told. An early end is told late. */
void core_pmix_ends_open(void)
{
    atomic_store(&core_pmix.is_lost, false);
    PMIx_Register_event_handler(end_codes, sizeof(end_codes) / sizeof(end_codes[0]), NULL, 0,
                                end_happened, handler_registered, NULL);
}

/* ---------------------------------------------------------------- who is to blame */

void core_pmix_leave(const char *words)
{
    struct core_pmix_call result;
    struct core_pmix_call *call = core_pmix_call_new(core_pmix_run_leave);
    if (call != NULL) {
        struct orl_strbuf sb;
        orl_strbuf_init(&sb, call->text, sizeof(call->text));
        orl_strbuf_add(&sb, words);
        (void)!core_pmix_call(call, WORD_NS, &result);
    }
}

/* Whoever ends because of a death looks like one more; his words name the first. */
static bool has_left_word(int rank, struct core_pmix_call *result)
{
    struct core_pmix_call *call = core_pmix_call_new(core_pmix_run_word);
    result->text[0] = '\0';
    if (call == NULL) {
        return false;
    }
    call->proc = core_pmix.self;
    call->code = rank;
    return core_pmix_call(call, WORD_NS, result) == 0 && result->text[0] != '\0';
}

static bool is_death(const struct core_end *end)
{
    return end->how != CORE_END_NORMAL || orl_clock_kernel_ns() - end->when > NORMAL_END_NS;
}

static int fail_told(const char *step, const struct core_end *end)
{
    struct core_pmix_call word;
    char host[64];
    char how[64];
    if (end->how != CORE_END_SIGNAL && has_left_word(end->rank, &word)) {
        return orl_fail(ORL_ERR_PEER, "%s", word.text);
    }
    core_pmix_host(end->rank, host, sizeof(host));
    core_end_text(end, how, sizeof(how));
    return orl_fail(ORL_ERR_PEER, "%s: rank %d on %s is gone%s", step, end->rank, host, how);
}

int core_pmix_told(const char *step)
{
    unsigned count = core_end_count();
    struct core_end end;
    if (atomic_load(&core_pmix.is_lost)) {
        return orl_fail(ORL_ERR_BOOT, "%s: the launcher has ended, or its PMIx server has", step);
    }
    for (unsigned i = 0; i < count; i++) {
        if (core_end_at(i, &end) && is_death(&end)) {
            return fail_told(step, &end);
        }
    }
    return 0;
}

int core_pmix_look(const char *step, uint64_t patience_ns)
{
    struct core_pmix_call word;
    struct core_gone gone;
    struct core_end end;
    char host[64];
    char how[64] = "";
    char others[96];
    int st = core_pmix_told(step);
    if (st != 0 || !core_watch_look(patience_ns, &gone)) {
        return st;
    }
    if (has_left_word(gone.rank, &word)) {
        return orl_fail(ORL_ERR_PEER, "%s", word.text);
    }
    if (core_end_of(gone.rank, &end)) {
        core_end_text(&end, how, sizeof(how));
    }
    orl_sys_hostname(host, sizeof(host));
    core_gone_text(&gone, others, sizeof(others));
    return orl_fail(ORL_ERR_PEER, "%s: rank %d on %s is gone%s%s%s", step, gone.rank, host, how,
                    gone.was_seen || patience_ns == 0 ? "" : " or has never started", others);
}

/* Without this, another user of PMIx in the process would keep the handler alive. */
void core_pmix_ends_close(void)
{
    size_t id = atomic_exchange(&handler_id, SIZE_MAX);
    if (id != SIZE_MAX) {
        PMIx_Deregister_event_handler(id, NULL, NULL);
    }
}
