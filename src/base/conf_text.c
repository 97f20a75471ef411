/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings as text: for a terminal, for the README, for a manual page.
 *
 * Called by tools that show them and by the check that the README is up to date. Works from the
 * rows that conf.c hands out; no state, no lock. It neither reads nor checks values.
 */
#include "base/conf.h"

#include <string.h>

#include "base/status.h"
#include "base/strbuf.h"

/* The texts mark code with backquotes; terminals and manual pages have no use for them. */
static void add_plain(struct orl_strbuf *out, const char *text)
{
    while (*text != '\0') {
        size_t n = strcspn(text, "`");
        orl_strbuf_addf(out, "%.*s", (int)n, text);
        text += n + (text[n] == '`');
    }
}

static void describe_text(struct orl_strbuf *out, const struct orl_conf_row *row)
{
    static const char *const origins[] = { "default", "environment", "program" };
    orl_strbuf_addf(out, "%s = %s (%s)\n    default %s; %s; %s\n    change it when you ", row->name,
                    row->value, origins[row->origin], row->default_text, row->range, row->owner);
    add_plain(out, row->text);
    orl_strbuf_add(out, "\n");
    if (row->problem[0] != '\0') {
        orl_strbuf_addf(out, "    wrong: %s\n", row->problem);
    }
}

static void describe_markdown(struct orl_strbuf *out, const struct orl_conf_row *row)
{
    orl_strbuf_addf(out, "| `%s` | `%s` | %s | you %s |\n", row->name, row->default_text,
                    row->range, row->text);
}

static void describe_man(struct orl_strbuf *out, const struct orl_conf_row *row)
{
    orl_strbuf_addf(out, ".TP\n.B %s\nDefault %s; %s.\nChange it when you ", row->name,
                    row->default_text, row->range);
    add_plain(out, row->text);
    orl_strbuf_add(out, ".\n");
}

int orl_conf_describe(struct orl_strbuf *out, enum orl_conf_form form)
{
    static void (*const describe[])(struct orl_strbuf *, const struct orl_conf_row *) = {
        [ORL_CONF_TEXT] = describe_text,
        [ORL_CONF_MARKDOWN] = describe_markdown,
        [ORL_CONF_MAN] = describe_man,
    };
    if (form == ORL_CONF_MARKDOWN) {
        orl_strbuf_add(out, "| variable | default | range | when to change it |\n"
                            "| --- | --- | --- | --- |\n");
    }
    for (size_t i = 0; i < orl_conf_count(); i++) {
        struct orl_conf_row row;
        int status = orl_conf_row(i, &row);
        if (status != ORL_OK) {
            return status;
        }
        describe[form](out, &row);
    }
    if (orl_strbuf_is_full(out)) {
        return orl_fail(ORL_ERR_TRUNC, "the settings do not fit into %zu bytes", out->capacity);
    }
    return ORL_OK;
}
