/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings as text: every setting is shown in every form, and tables show defaults only.
 */
#include "base/conf.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "base/status.h"
#include "base/strbuf.h"

static char text[16384];

static void clean(void)
{
    clearenv();
}

TestSuite(conf_text, .init = clean);

static const char *describe(enum orl_conf_form form)
{
    struct orl_strbuf out;
    orl_strbuf_init(&out, text, sizeof(text));
    cr_assert_eq(orl_conf_describe(&out, form), ORL_OK);
    return text;
}

static int count_lines(const char *at)
{
    int lines = 0;
    for (; *at != '\0'; at++) {
        lines += *at == '\n';
    }
    return lines;
}

Test(conf_text, every_form_has_every_setting)
{
    for (int form = ORL_CONF_TEXT; form <= ORL_CONF_MAN; form++) {
        describe((enum orl_conf_form)form);
        for (size_t i = 0; i < orl_conf_count(); i++) {
            struct orl_conf_row row;
            cr_assert_eq(orl_conf_row(i, &row), ORL_OK);
            cr_assert_not_null(strstr(text, row.name), "%s in form %d", row.name, form);
            cr_assert_not_null(strstr(text, row.range), "%s in form %d", row.name, form);
        }
    }
}

Test(conf_text, markdown_is_a_table_with_one_line_per_setting)
{
    describe(ORL_CONF_MARKDOWN);
    cr_assert_eq((size_t)count_lines(text), orl_conf_count() + 2);
    cr_assert_eq(strncmp(text, "| variable | default | range | when to change it |\n", 51), 0);
    cr_assert_not_null(strstr(text, "\n| `ORIEL_SPIN_TIME` | `2us` | 0 to 1 s | you "));
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        int bars = 0;
        for (size_t i = 0; i < strcspn(line, "\n"); i++) {
            bars += line[i] == '|';
        }
        cr_assert_eq(bars, 5, "%.60s", line);
    }
}

Test(conf_text, only_the_terminal_form_shows_values)
{
    static char before[sizeof(text)];
    strcpy(before, describe(ORL_CONF_MARKDOWN));
    setenv("ORIEL_INFLIGHT", "77", 1);
    cr_assert_eq(orl_conf_override("WATCHDOG", "9s"), ORL_OK);
    cr_assert_eq(orl_conf_load(), ORL_OK);
    cr_assert_str_eq(describe(ORL_CONF_MARKDOWN), before);
    cr_assert_null(strstr(describe(ORL_CONF_MAN), "77"));
    describe(ORL_CONF_TEXT);
    cr_assert_not_null(strstr(text, "ORIEL_INFLIGHT = 77 (environment)\n"));
    cr_assert_not_null(strstr(text, "ORIEL_WATCHDOG = 9s (program)\n"));
    cr_assert_not_null(strstr(text, "ORIEL_BOOT = auto (default)\n"));
}

Test(conf_text, backquotes_are_for_markdown)
{
    cr_assert_not_null(strchr(describe(ORL_CONF_MARKDOWN), '`'));
    cr_assert_null(strchr(describe(ORL_CONF_TEXT), '`'));
    cr_assert_null(strchr(describe(ORL_CONF_MAN), '`'));
}

Test(conf_text, rows_are_complete)
{
    cr_assert_leq(orl_conf_count(), 60, "the budget of settings");
    for (size_t i = 0; i < orl_conf_count(); i++) {
        struct orl_conf_row row;
        cr_assert_eq(orl_conf_row(i, &row), ORL_OK);
        cr_assert_gt(strlen(row.text), 20, "%s", row.name);
        cr_assert_gt(strlen(row.owner), 0, "%s", row.name);
        cr_assert_neq(row.text[strlen(row.text) - 1], '.', "%s", row.name);
        cr_assert_str_eq(row.value, row.default_text, "%s before loading", row.name);
    }
}

Test(conf_text, errors)
{
    struct orl_conf_row row;
    struct orl_strbuf out;
    cr_assert_eq(orl_conf_row(orl_conf_count(), &row), ORL_ERR_INVAL);
    orl_strbuf_init(&out, text, 100);
    cr_assert_eq(orl_conf_describe(&out, ORL_CONF_TEXT), ORL_ERR_TRUNC);
}
