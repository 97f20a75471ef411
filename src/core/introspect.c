/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the library tells of itself: version, error texts, counters, settings, transports. Read by
 * tools and by programs; most of it works before oriel_init. Facts of machine and build: facts.c.
 */
#include "core/introspect.h"

#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/strbuf.h"
#include "base/sys.h"
#include "core/core.h"
#include "core/mem/mem.h"

/* Room for all settings in any form; conf.h promises that it suffices. */
#define SETTINGS_BYTES 16384

#define STRING_OF(x)          #x
#define VERSION_TEXT(a, b, c) STRING_OF(a) "." STRING_OF(b) "." STRING_OF(c)

ORL_PUBLIC const char *oriel_version(int *major, int *minor, int *patch)
{
    if (major != NULL) {
        *major = ORIEL_VERSION_MAJOR;
    }
    if (minor != NULL) {
        *minor = ORIEL_VERSION_MINOR;
    }
    if (patch != NULL) {
        *patch = ORIEL_VERSION_PATCH;
    }
    return VERSION_TEXT(ORIEL_VERSION_MAJOR, ORIEL_VERSION_MINOR, ORIEL_VERSION_PATCH);
}

/* The public numbers are the base layer's. */
_Static_assert(ORIEL_ERR_INVAL == ORL_ERR_INVAL && ORIEL_ERR_NOMEM == ORL_ERR_NOMEM, "status");
_Static_assert(ORIEL_ERR_AGAIN == ORL_ERR_AGAIN && ORIEL_ERR_TRUNC == ORL_ERR_TRUNC, "status");
_Static_assert(ORIEL_ERR_RANGE == ORL_ERR_RANGE && ORIEL_ERR_STATE == ORL_ERR_STATE, "status");
_Static_assert(ORIEL_ERR_BUSY == ORL_ERR_BUSY && ORIEL_ERR_UNSUPP == ORL_ERR_UNSUPP, "status");
_Static_assert(ORIEL_ERR_TIMEOUT == ORL_ERR_TIMEOUT, "status");
_Static_assert(ORIEL_ERR_CANCELED == ORL_ERR_CANCELED && ORIEL_ERR_LINK == ORL_ERR_LINK, "status");
_Static_assert(ORIEL_ERR_PEER == ORL_ERR_PEER && ORIEL_ERR_GONE == ORL_ERR_GONE, "status");
_Static_assert(ORIEL_ERR_SYNC == ORL_ERR_SYNC && ORIEL_ERR_RANK == ORL_ERR_RANK, "status");
_Static_assert(ORIEL_ERR_TYPE == ORL_ERR_TYPE && ORIEL_ERR_SYS == ORL_ERR_SYS, "status");
_Static_assert(ORIEL_ERR_BOOT == ORL_ERR_BOOT && ORIEL_ERR_CONF == ORL_ERR_CONF, "status");
_Static_assert(ORIEL_ERR_INTERNAL == ORL_ERR_INTERNAL, "status");

ORL_PUBLIC const char *oriel_error_name(int code)
{
    static const char *const names[ORL_STATUS_COUNT + 1] = {
        "ORIEL_OK",
#define ORL_STATUS(name, number, text, mpi_class) [number] = "ORIEL_ERR_" #name,
#include "base/status.def"
#undef ORL_STATUS
    };
    return code <= 0 && code >= -ORL_STATUS_COUNT ? names[-code] : "ORIEL_ERR_UNKNOWN";
}

ORL_PUBLIC const char *oriel_error_text(int code)
{
    return orl_status_text(code);
}

ORL_PUBLIC const char *oriel_error_detail(void)
{
    return orl_last_error();
}

/* The rank comes from the launcher where the library has not learned it yet. */
int core_failed_here(int status)
{
    char where[128];
    struct orl_strbuf sb;
    char host[64];
    const char *rank = orl_conf_launcher_variable("PMIX_RANK");
    orl_sys_hostname(host, sizeof(host));
    orl_strbuf_init(&sb, where, sizeof(where));
    if (core.size > 0) {
        orl_strbuf_addf(&sb, "rank %d of %d on host %s", core.rank, core.size, host);
    } else if (rank != NULL) {
        orl_strbuf_addf(&sb, "rank %.16s on host %s", rank, host);
    } else {
        orl_strbuf_addf(&sb, "on host %s", host);
    }
    return orl_fail(status, "%s (%s)", orl_last_error(), where);
}

/* ---------------------------------------------------------------- counters */

ORL_PUBLIC int oriel_counter_query(size_t i, struct oriel_counter *counter)
{
    if (counter == NULL || counter->size < sizeof(*counter)) {
        return orl_fail(ORL_ERR_INVAL, "counter is NULL, or counter->size is not sizeof(*counter)");
    }
    if (i >= ORL_STAT_COUNT) {
        return orl_fail(ORL_ERR_RANGE, "there are %d counters, from 0", ORL_STAT_COUNT);
    }
    enum orl_stat id = (enum orl_stat)i;
    counter->name = orl_stats_name(id);
    counter->unit = orl_stats_unit(id);
    counter->text = orl_stats_text(id);
    struct orl_stats sum = { { 0 } };
    if (core_is_open()) {
        orl_stats_sum(&sum, &core.stats);
        core_count_sum(&sum);
        for (unsigned e = 0; e < core.fabric.nengines; e++) {
            orl_stats_sum(&sum, &core.fabric.engine[e]->stats);
        }
    }
    counter->value = orl_stat_get(&sum, id);
    return 0;
}

/* ---------------------------------------------------------------- settings */

/* Programs built with an older oriel.h have a shorter struct; its fields are the first of ours. */
static int give(void *out, size_t size, size_t oldest, const void *full, size_t bytes)
{
    if (size < oldest) {
        return orl_fail(ORL_ERR_INVAL, "info->size is %zu, not sizeof(*info), %zu", size, bytes);
    }
    size_t n = size < bytes ? size : bytes;
    memcpy((char *)out + sizeof(size), (const char *)full + sizeof(size), n - sizeof(size));
    return 0;
}

ORL_PUBLIC int oriel_setting_query(size_t i, struct oriel_setting_info *info)
{
    static _Thread_local struct orl_conf_row row;
    if (info == NULL) {
        return orl_fail(ORL_ERR_INVAL, "info is NULL");
    }
    if (i >= orl_conf_count()) {
        return orl_fail(ORL_ERR_RANGE, "there are %zu settings, from 0", orl_conf_count());
    }
    int st = orl_conf_row(i, &row);
    if (st != 0) {
        return st;
    }
    const struct oriel_setting_info full = { .name = row.name,
                                             .value = row.value,
                                             .fallback = row.default_text,
                                             .range = row.range,
                                             .text = row.text,
                                             .problem = row.problem[0] != 0 ? row.problem : NULL,
                                             .origin = (int)row.origin };
    return give(info, info->size, offsetof(struct oriel_setting_info, problem), &full,
                sizeof(full));
}

ORL_PUBLIC int oriel_settings_print(enum oriel_form form, char *text, size_t capacity,
                                    size_t *bytes)
{
    static const enum orl_conf_form forms[] = { ORL_CONF_TEXT, ORL_CONF_MARKDOWN, ORL_CONF_MAN };
    struct orl_strbuf sb;
    if ((unsigned)form > ORIEL_FORM_MAN) {
        return orl_fail(ORL_ERR_INVAL, "%d is not an enum oriel_form (0 to %d)", (int)form,
                        ORIEL_FORM_MAN);
    }
    if (bytes == NULL || (text == NULL && capacity != 0)) {
        return orl_fail(ORL_ERR_INVAL, "%s is NULL", bytes == NULL ? "bytes" : "text");
    }
    char *whole = malloc(SETTINGS_BYTES);
    if (whole == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for %d bytes of text", SETTINGS_BYTES);
    }
    orl_strbuf_init(&sb, whole, SETTINGS_BYTES);
    int st = orl_conf_describe(&sb, forms[form]);
    if (st == 0) {
        *bytes = sb.length;
        if (capacity > sb.length) {
            memcpy(text, whole, sb.length + 1);
        } else {
            st = orl_fail(ORL_ERR_TRUNC, "the settings need %zu bytes, the buffer has %zu",
                          sb.length + 1, capacity);
        }
    }
    free(whole);
    return st;
}

/* ---------------------------------------------------------------- transports */

_Static_assert(ORIEL_TRANSPORT_ABSENT == (int)FAB_ABSENT, "states");
_Static_assert(ORIEL_TRANSPORT_DISABLED == (int)FAB_DISABLED, "states");
_Static_assert(ORIEL_TRANSPORT_IDLE == (int)FAB_IDLE, "states");
_Static_assert(ORIEL_TRANSPORT_FAILED == (int)FAB_FAILED, "states");
_Static_assert(ORIEL_TRANSPORT_CHOSEN == (int)FAB_CHOSEN, "states");

const char *core_transports_wanted(void)
{
    static _Thread_local struct orl_conf_row row;
    for (size_t i = 0; i < orl_conf_count(); i++) {
        if (orl_conf_row(i, &row) == 0 && strcmp(row.name, "ORIEL_TRANSPORTS") == 0) {
            return row.problem[0] != 0 ? NULL : row.value;
        }
    }
    return NULL;
}

ORL_PUBLIC int oriel_transport_query(size_t i, struct oriel_transport_info *info)
{
    static _Thread_local struct fab judged;
    const struct fab *fabric = &core.fabric;
    if (info == NULL || info->size < sizeof(*info)) {
        return orl_fail(ORL_ERR_INVAL, "info is NULL, or info->size is not sizeof(*info)");
    }
    if (fabric->nverdicts == 0) { /* oriel_init has not come so far */
        fab_judge(&judged, core_transports_wanted());
        fabric = &judged;
    }
    if (i >= fabric->nverdicts) {
        return orl_fail(ORL_ERR_RANGE, "there are %u transports, from 0", fabric->nverdicts);
    }
    const struct fab_verdict *verdict = &fabric->verdict[i];
    info->name = verdict->name;
    info->level = fab_level_name(verdict->level);
    info->reason = verdict->reason;
    info->state = (int)verdict->state;
    info->error = verdict->status;
    return 0;
}
