/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounded strings: appending that cuts instead of overflowing, and numbers for people.
 *
 * Called by everything that makes text. No state, no lock. It knows nothing of encodings: a cut
 * may fall inside a multi-byte character.
 */
#include "base/strbuf.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit byte_units[] = {
    { "TiB", UINT64_C(1) << 40 },
    { "GiB", UINT64_C(1) << 30 },
    { "MiB", UINT64_C(1) << 20 },
    { "KiB", UINT64_C(1) << 10 },
    { "B", 1 },
};

static const struct unit time_units[] = {
    { "h", UINT64_C(3600000000000) },
    { "min", UINT64_C(60000000000) },
    { "s", 1000000000 },
    { "ms", 1000000 },
    { "us", 1000 },
    { "ns", 1 },
};

void orl_strbuf_init(struct orl_strbuf *sb, char *text, size_t capacity)
{
    orl_assert(text != NULL && capacity > 0);
    text[0] = '\0';
    *sb = (struct orl_strbuf){ .text = text, .capacity = capacity };
}

void orl_strbuf_add(struct orl_strbuf *sb, const char *text)
{
    size_t room = sb->capacity - 1 - sb->length;
    size_t n = strlen(text);
    if (n > room) {
        n = room;
        sb->is_cut = true;
    }
    memcpy(sb->text + sb->length, text, n);
    sb->length += n;
    sb->text[sb->length] = '\0';
}

void orl_strbuf_addf(struct orl_strbuf *sb, const char *fmt, ...)
{
    size_t room = sb->capacity - sb->length;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(sb->text + sb->length, room, fmt, args);
    va_end(args);
    if (n < 0) {
        sb->text[sb->length] = '\0';
        sb->is_cut = true;
    } else if ((size_t)n >= room) {
        sb->length = sb->capacity - 1;
        sb->is_cut = true;
    } else {
        sb->length += (size_t)n;
    }
}

void orl_strbuf_join(struct orl_strbuf *sb, const char *separator, const char *word)
{
    if (sb->length > 0) {
        orl_strbuf_add(sb, separator);
    }
    orl_strbuf_add(sb, word);
}

void orl_strbuf_add_bytes(struct orl_strbuf *sb, uint64_t bytes)
{
    const struct unit *unit = byte_units;
    while (unit->factor > 1 && bytes < unit->factor) {
        unit++;
    }
    uint64_t whole = bytes / unit->factor;
    if (bytes % unit->factor == 0) {
        orl_strbuf_addf(sb, "%" PRIu64 " %s", whole, unit->name);
        return;
    }
    /* Not exact: one decimal, rounded down, so that "free" is never more than there is. */
    uint64_t tenths = (bytes % unit->factor) / (unit->factor / 10);
    orl_strbuf_addf(sb, "%" PRIu64 ".%" PRIu64 " %s", whole, tenths > 9 ? 9 : tenths, unit->name);
}

void orl_strbuf_add_time(struct orl_strbuf *sb, uint64_t ns)
{
    if (ns == 0) {
        orl_strbuf_add(sb, "0");
        return;
    }
    const struct unit *unit = time_units;
    while (ns % unit->factor != 0) {
        unit++;
    }
    orl_strbuf_addf(sb, "%" PRIu64 " %s", ns / unit->factor, unit->name);
}

const char *orl_strbuf_str(const struct orl_strbuf *sb)
{
    return sb->text;
}

bool orl_strbuf_is_full(const struct orl_strbuf *sb)
{
    return sb->is_cut;
}
