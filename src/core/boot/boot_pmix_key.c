/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys of the PMIx server: asked for only where they are known already, since a Get of what does
 * not exist may wait for ever; read whatever integer type the server has given them.
 */
#include <limits.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/sys.h"
#include "core/boot/boot_pmix.h"

struct core_pmix core_pmix;

void core_pmix_tell_news(void)
{
    atomic_fetch_add(&core_pmix.news, 1);
    (void)orl_sys_futex_wake(&core_pmix.news, INT_MAX);
}

static void load_proc(pmix_proc_t *proc, pmix_rank_t rank)
{
    memset(proc, 0, sizeof(*proc));
    memcpy(proc->nspace, core_pmix.self.nspace, sizeof(proc->nspace));
    proc->rank = rank;
}

void core_pmix_flag(pmix_info_t *info, const char *key)
{
    memset(info, 0, sizeof(*info));
    strncpy(info->key, key, PMIX_MAX_KEYLEN);
    info->value.type = PMIX_BOOL;
    info->value.data.flag = true;
}

int core_pmix_number(const pmix_value_t *value, int fallback)
{
    int64_t n = -1;
    switch (value->type) {
    case PMIX_INT:
        n = value->data.integer;
        break;
    case PMIX_INT8:
        n = value->data.int8 < 0 ? -1 : (uint8_t)value->data.int8;
        break;
    case PMIX_INT16:
        n = value->data.int16;
        break;
    case PMIX_INT32:
        n = value->data.int32;
        break;
    case PMIX_INT64:
        n = value->data.int64;
        break;
    case PMIX_UINT:
        n = value->data.uint;
        break;
    case PMIX_BYTE:
        n = value->data.byte;
        break;
    case PMIX_UINT8:
        n = value->data.uint8;
        break;
    case PMIX_UINT16:
        n = value->data.uint16;
        break;
    case PMIX_UINT32:
        n = value->data.uint32;
        break;
    case PMIX_UINT64:
        n = value->data.uint64 <= INT_MAX ? (int64_t)value->data.uint64 : -1;
        break;
    case PMIX_SIZE:
        n = value->data.size <= INT_MAX ? (int64_t)value->data.size : -1;
        break;
    case PMIX_PROC_RANK:
        n = value->data.rank;
        break;
    default:
        break;
    }
    return n >= 0 && n <= INT_MAX ? (int)n : fallback;
}

pmix_value_t *core_pmix_ask(pmix_rank_t rank, const char *key)
{
    pmix_proc_t proc;
    pmix_info_t optional;
    pmix_value_t *value = NULL;
    load_proc(&proc, rank);
    core_pmix_flag(&optional, PMIX_OPTIONAL);
    return PMIx_Get(&proc, key, &optional, 1, &value) == PMIX_SUCCESS ? value : NULL;
}

void core_pmix_forget(pmix_value_t *value)
{
    if (value != NULL) {
        PMIX_VALUE_RELEASE(value);
    }
}

void core_pmix_host(int rank, char *name, size_t capacity)
{
    struct orl_strbuf sb;
    pmix_value_t *value = core_pmix_ask((pmix_rank_t)rank, PMIX_HOSTNAME);
    bool is_told = value != NULL && value->type == PMIX_STRING && value->data.string != NULL;
    orl_sys_hostname(name, capacity);
    if (is_told) {
        orl_strbuf_init(&sb, name, capacity);
        orl_strbuf_addf(&sb, "%.*s", (int)strcspn(value->data.string, "."), value->data.string);
    }
    core_pmix_forget(value);
}
