/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A document of tables in three forms: aligned text, markdown, one JSON object. A table's cells
 * are kept until it ends, because text needs the widths of its columns first. Knows nothing of what
 * it prints.
 */
#include "info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct info_column error_columns[] = { { "name", false, false },
                                                    { "text", false, false } };

/* ---------------------------------------------------------------- keeping */

void info_doc_begin(struct info_doc *doc, enum info_form form)
{
    memset(doc, 0, sizeof(*doc));
    doc->form = form;
    if (form == INFO_JSON) {
        printf("{\n  \"version\": \"%s\"", oriel_version(NULL, NULL, NULL));
    } else {
        printf("%sOriel %s\n", form == INFO_MARKDOWN ? "# " : "", oriel_version(NULL, NULL, NULL));
    }
}

void info_table_begin(struct info_doc *doc, const char *title, const struct info_column *columns,
                      size_t ncolumns)
{
    doc->title = title;
    doc->columns = columns;
    doc->ncolumns = ncolumns;
    doc->nrows = 0;
}

void info_table_row(struct info_doc *doc, const char *const *cells)
{
    size_t used = doc->nrows * doc->ncolumns;
    char **more = realloc(doc->cells, (used + doc->ncolumns) * sizeof(*more));

    if (more == NULL) {
        doc->has_failed = true;
        return;
    }
    doc->cells = more;
    for (size_t i = 0; i < doc->ncolumns; i++) {
        more[used + i] = strdup(cells[i] != NULL ? cells[i] : "");
        doc->has_failed = doc->has_failed || more[used + i] == NULL;
    }
    doc->nrows++;
}

static const char *cell(const struct info_doc *doc, size_t row, size_t column)
{
    const char *text = doc->cells[row * doc->ncolumns + column];

    return text != NULL ? text : "";
}

/* A column that has nothing to say is left out of what people read. */
static bool is_shown(const struct info_doc *doc, size_t column)
{
    for (size_t row = 0; row < doc->nrows && !doc->columns[column].json_only; row++) {
        if (cell(doc, row, column)[0] != '\0') {
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- text and markdown */

static void print_text_row(const struct info_doc *doc, const size_t *width,
                           const char *const *cells)
{
    size_t blanks = 2; /* held back, so that no line ends with them */

    for (size_t c = 0; c < doc->ncolumns; c++) {
        const char *text = cells[c] != NULL ? cells[c] : "";

        if (!is_shown(doc, c)) {
            continue;
        }
        if (text[0] != '\0') {
            printf("%*s%s", (int)blanks, "", text);
            blanks = 0;
        }
        blanks += width[c] - strlen(text) + 2;
    }
    putchar('\n');
}

/* Facts speak for themselves; wider tables get the names of their columns. */
static void print_text(const struct info_doc *doc)
{
    const char *names[INFO_COLUMNS_MAX] = { NULL };
    size_t width[INFO_COLUMNS_MAX] = { 0 };
    size_t shown = 0;

    for (size_t c = 0; c < doc->ncolumns; c++) {
        shown += is_shown(doc, c) ? 1 : 0;
        names[c] = doc->columns[c].name;
    }
    for (size_t c = 0; c < doc->ncolumns; c++) {
        width[c] = shown > 3 ? strlen(names[c]) : 0;
        for (size_t row = 0; row < doc->nrows; row++) {
            size_t n = strlen(cell(doc, row, c));

            width[c] = n > width[c] ? n : width[c];
        }
    }
    printf("\n%s\n", doc->title);
    if (shown > 3) {
        print_text_row(doc, width, names);
    }
    for (size_t row = 0; row < doc->nrows; row++) {
        print_text_row(doc, width, (const char *const *)&doc->cells[row * doc->ncolumns]);
    }
}

static void print_markdown_cell(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '|') {
            putchar('\\');
        }
        putchar(*text == '\n' ? ' ' : *text);
    }
}

/* cells NULL: the line between head and body. */
static void print_markdown_row(const struct info_doc *doc, const char *const *cells)
{
    printf("\n|");
    for (size_t c = 0; c < doc->ncolumns; c++) {
        if (is_shown(doc, c)) {
            putchar(' ');
            print_markdown_cell(cells == NULL ? "---" : cells[c] != NULL ? cells[c] : "");
            printf(" |");
        }
    }
}

static void print_markdown(const struct info_doc *doc)
{
    const char *names[INFO_COLUMNS_MAX] = { NULL };

    for (size_t c = 0; c < doc->ncolumns; c++) {
        names[c] = doc->columns[c].name;
    }
    printf("\n## %s\n", doc->title);
    print_markdown_row(doc, names);
    print_markdown_row(doc, NULL);
    for (size_t row = 0; row < doc->nrows; row++) {
        print_markdown_row(doc, (const char *const *)&doc->cells[row * doc->ncolumns]);
    }
    putchar('\n');
}

/* ---------------------------------------------------------------- JSON */

/* Bytes of the character at text in UTF-8; 0: it is none. */
static size_t utf8_length(const unsigned char *text)
{
    size_t n = text[0] < 0x80 ? 1 : text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;

    if (n > 1 && (text[0] < 0xc2 || text[0] > 0xf4)) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    /* too long for what they say, halves of pairs, and beyond the last character */
    bool is_bad = (text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
                  (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f);
    return is_bad ? 0 : n;
}

static void print_json_text(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    putchar('"');
    while (*at != '\0') {
        size_t n = utf8_length(at);
        if (n == 0) {
            printf("\\ufffd");
            n = 1;
        } else if (*at < 0x20 || *at == 0x7f) {
            printf("\\u%04x", (unsigned)*at);
        } else if (*at == '"' || *at == '\\') {
            printf("\\%c", *at);
        } else {
            (void)fwrite(at, 1, n, stdout);
        }
        at += n;
    }
    putchar('"');
}

static void print_json_value(const struct info_doc *doc, size_t row, size_t column)
{
    const char *text = cell(doc, row, column);

    printf("%s\"%s\": ", column > 0 ? ", " : "", doc->columns[column].name);
    if (!doc->columns[column].is_number) {
        print_json_text(text);
    } else {
        fputs(text[0] != '\0' ? text : "null", stdout);
    }
}

static void print_json(const struct info_doc *doc)
{
    printf(",\n  \"%s\": [", doc->title);
    for (size_t row = 0; row < doc->nrows; row++) {
        printf("%s\n    { ", row > 0 ? "," : "");
        for (size_t c = 0; c < doc->ncolumns; c++) {
            print_json_value(doc, row, c);
        }
        printf(" }");
    }
    printf("\n  ]");
}

/* ---------------------------------------------------------------- the ends */

void info_table_end(struct info_doc *doc)
{
    static void (*const print[])(const struct info_doc *) = {
        [INFO_TEXT] = print_text,
        [INFO_MARKDOWN] = print_markdown,
        [INFO_JSON] = print_json,
    };

    if (doc->nrows > 0 || doc->form == INFO_JSON) {
        print[doc->form](doc);
    }
    for (size_t i = 0; i < doc->nrows * doc->ncolumns; i++) {
        free(doc->cells[i]);
    }
    free(doc->cells);
    doc->cells = NULL;
    doc->nrows = 0;
}

void info_doc_error(struct info_doc *doc, int code, const char *text)
{
    const char *const cells[] = { oriel_error_name(code), text };

    if (doc->form == INFO_JSON) {
        printf(",\n  \"works\": %s", code == ORIEL_OK ? "true" : "false");
    }
    if (code != ORIEL_OK) {
        info_table_begin(doc, "error", error_columns, 2);
        info_table_row(doc, cells);
        info_table_end(doc);
    }
}

bool info_doc_end(struct info_doc *doc)
{
    if (doc->form == INFO_JSON) {
        printf("\n}\n");
    }
    return fflush(stdout) == 0 && ferror(stdout) == 0 && !doc->has_failed;
}
