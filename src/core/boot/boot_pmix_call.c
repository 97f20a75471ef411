/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of PMIx that wait for the server and have no form that returns at once: each on a side
 * thread, given up when it is late. Then the thread stays in PMIx for ever, or until the server
 * answers; what the call has written to is its own.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/strbuf.h"
#include "core/boot/boot_pmix.h"

static void drop_call(struct core_side *side)
{
    free(side);
}

struct core_pmix_call *core_pmix_call_new(void (*run)(struct core_side *side))
{
    struct core_pmix_call *call = calloc(1, sizeof(*call));
    if (call != NULL) {
        call->side.run = run;
        call->side.drop = drop_call;
    }
    return call;
}

int core_pmix_call(struct core_pmix_call *call, uint64_t timeout_ns, struct core_pmix_call *result)
{
    if (call == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for a call of PMIx");
    }
    int st = core_side_run(&call->side, timeout_ns);
    if (st != ORL_ERR_TIMEOUT) {
        memcpy((char *)result + sizeof(result->side), (char *)call + sizeof(call->side),
               sizeof(*call) - sizeof(call->side));
        free(call);
    }
    return st;
}

void core_pmix_run_init(struct core_side *side)
{
    struct core_pmix_call *call = (struct core_pmix_call *)side;
    call->status = PMIx_Init(&call->proc, NULL, 0);
}

void core_pmix_run_commit(struct core_side *side)
{
    struct core_pmix_call *call = (struct core_pmix_call *)side;
    call->status = PMIx_Commit();
}

void core_pmix_run_abort(struct core_side *side)
{
    struct core_pmix_call *call = (struct core_pmix_call *)side;
    call->status = PMIx_Abort(call->code, call->text, NULL, 0);
}

void core_pmix_run_finalize(struct core_side *side)
{
    struct core_pmix_call *call = (struct core_pmix_call *)side;
    core_pmix_ends_close();
    call->status = PMIx_Finalize(NULL, 0);
}

static const char end_key[] = "oriel.end";

void core_pmix_run_leave(struct core_side *side)
{
    struct core_pmix_call *call = (struct core_pmix_call *)side;
    pmix_value_t value = { .type = PMIX_STRING };
    value.data.string = call->text;
    call->status = PMIx_Put(PMIX_GLOBAL, end_key, &value);
    if (call->status == PMIX_SUCCESS) {
        call->status = PMIx_Commit();
    }
}

void core_pmix_run_word(struct core_side *side)
{
    struct core_pmix_call *call = (struct core_pmix_call *)side;
    pmix_value_t *value = NULL;
    struct orl_strbuf sb;
    pmix_info_t now;
    orl_strbuf_init(&sb, call->text, sizeof(call->text));
    core_pmix_flag(&now, PMIX_IMMEDIATE);
    call->proc.rank = (pmix_rank_t)call->code;
    call->status = PMIx_Get(&call->proc, end_key, &now, 1, &value);
    if (call->status == PMIX_SUCCESS && value != NULL && value->type == PMIX_STRING &&
        value->data.string != NULL) {
        orl_strbuf_add(&sb, value->data.string);
    }
    core_pmix_forget(value);
}

/* As far as the server can tell at once. */
void core_pmix_run_missing(struct core_side *side)
{
    struct core_pmix_call *call = (struct core_pmix_call *)side;
    char key[PMIX_MAX_KEYLEN + 1];
    struct orl_strbuf sb;
    pmix_info_t now;
    orl_strbuf_init(&sb, key, sizeof(key));
    orl_strbuf_add(&sb, call->text);
    orl_strbuf_init(&sb, call->text, sizeof(call->text));
    core_pmix_flag(&now, PMIX_IMMEDIATE);
    for (int r = 0; r < call->size && r < 256 && sb.length < 100; r++) {
        pmix_proc_t proc = call->proc;
        pmix_value_t *value = NULL;
        proc.rank = (pmix_rank_t)r;
        if (proc.rank != call->proc.rank && PMIx_Get(&proc, key, &now, 1, &value) != PMIX_SUCCESS) {
            orl_strbuf_addf(&sb, "%s%d", sb.length > 0 ? ", " : "", r);
        }
        core_pmix_forget(value);
    }
}
