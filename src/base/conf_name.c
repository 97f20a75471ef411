/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of settings that do not exist, and the nearest that do.
 *
 * Called once at start by the rank that warns, and by whoever fails with a wrong name. No state.
 */
#include "base/conf.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/strbuf.h"

#define PREFIX          "ORIEL_"
#define PREFIX_LENGTH   (sizeof(PREFIX) - 1)
#define LAUNCHER_PREFIX PREFIX "RUN_"

/* Longest name compared when looking for the nearest; longer ones are compared by their start. */
#define NAME_BYTES 48

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Letters to add, drop or change to make one name of the other. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t a_length = strnlen(a, NAME_BYTES);
    size_t b_length = strnlen(b, NAME_BYTES);
    size_t above[NAME_BYTES + 1];
    for (size_t j = 0; j <= b_length; j++) {
        above[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = above[0];
        above[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t changed = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = above[j];
            above[j] = min3(changed, above[j] + 1, above[j - 1] + 1);
        }
    }
    return above[b_length];
}

const char *orl_conf_nearest(const char *name)
{
    size_t best = 0;
    size_t best_distance = SIZE_MAX;
    for (size_t i = 0; i < orl_conf_count(); i++) {
        size_t distance = edit_distance(name, orl_conf_name(i));
        if (distance < best_distance) {
            best = i;
            best_distance = distance;
        }
    }
    return orl_conf_name(best);
}

static bool is_setting(const char *name, size_t length)
{
    for (size_t i = 0; i < orl_conf_count(); i++) {
        if (strlen(orl_conf_name(i)) == length && memcmp(orl_conf_name(i), name, length) == 0) {
            return true;
        }
    }
    return false;
}

void orl_conf_warn_unknown(void)
{
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        const char *name = *entry;
        if (strncmp(name, PREFIX, PREFIX_LENGTH) != 0 ||
            strncmp(name, LAUNCHER_PREFIX, sizeof(LAUNCHER_PREFIX) - 1) == 0) {
            continue;
        }
        name += PREFIX_LENGTH;
        size_t length = strcspn(name, "=");
        if (!is_setting(name, length)) {
            char copy[NAME_BYTES];
            struct orl_strbuf sb;
            orl_strbuf_init(&sb, copy, sizeof(copy));
            orl_strbuf_addf(&sb, "%.*s", (int)length, name);
            orl_log_warn(ORL_CAT_CONF,
                         "there is no setting " PREFIX "%s; the nearest is " PREFIX "%s", copy,
                         orl_conf_nearest(copy));
        }
    }
}
