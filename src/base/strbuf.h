/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A string under construction in memory of the caller.
 *
 * Never allocates and never writes past the end: what does not fit is cut, and the buffer knows
 * it. Used for error texts, log lines and everything the library prints about itself. Not for
 * data of users. One thread at a time.
 */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include "base/attr.h"

struct orl_strbuf {
    char *text;      /* the caller's memory; always ends with a zero byte */
    size_t capacity; /* bytes of it, the zero byte included */
    size_t length;   /* bytes in use, the zero byte excluded */
    bool is_cut;     /* something did not fit */
};

/* Begins an empty string in `text`, which must have room for at least one byte. */
void orl_strbuf_init(struct orl_strbuf *sb, char *text, size_t capacity);

void orl_strbuf_add(struct orl_strbuf *sb, const char *text);

ORL_PRINTF(2, 3) void orl_strbuf_addf(struct orl_strbuf *sb, const char *fmt, ...);

/* Adds one word of a list: the separator first, unless the string is still empty. */
void orl_strbuf_join(struct orl_strbuf *sb, const char *separator, const char *word);

/* A size for people: "64 KiB", "1.5 GiB", "100 B"; exact where a unit divides it. */
void orl_strbuf_add_bytes(struct orl_strbuf *sb, uint64_t bytes);

/* A time for people, exact: "2 us", "90 s", "1 h"; "0". */
void orl_strbuf_add_time(struct orl_strbuf *sb, uint64_t ns);

/* The string so far; never NULL, valid until the next change. */
const char *orl_strbuf_str(const struct orl_strbuf *sb);

/* True once something was cut. */
bool orl_strbuf_is_full(const struct orl_strbuf *sb);

#endif
