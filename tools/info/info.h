/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel-info's own: the document it prints, the sections it knows, and the table of ranks.
 */
#ifndef TOOLS_INFO_H
#define TOOLS_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "oriel.h"

enum {
    INFO_FAILED = 1, /* exit status: the library does not work here */
    INFO_USAGE = 2   /* a wrong argument */
};

/* ---------------------------------------------------------------- the document (info_doc.c) */

enum info_form {
    INFO_TEXT,
    INFO_MARKDOWN,
    INFO_JSON
};

#define INFO_COLUMNS_MAX 12

struct info_column {
    const char *name;
    bool is_number; /* JSON: no quotes, null where empty */
    bool json_only;
};

/* A document is a list of tables, each printed when it ends. Cells are copied; NULL is empty. */
struct info_doc {
    enum info_form form;
    const char *title; /* of the table under way */
    const struct info_column *columns;
    size_t ncolumns;
    size_t nrows;
    char **cells; /* owns; [nrows][ncolumns] */
    bool has_failed;
};

void info_doc_begin(struct info_doc *doc, enum info_form form);
void info_table_begin(struct info_doc *doc, const char *title, const struct info_column *columns,
                      size_t ncolumns);
void info_table_row(struct info_doc *doc, const char *const *cells);
void info_table_end(struct info_doc *doc);
/* The error that oriel_init ended with, or none (code 0). */
void info_doc_error(struct info_doc *doc, int code, const char *text);
/* False when something could not be written. */
bool info_doc_end(struct info_doc *doc);

/* ---------------------------------------------------------------- the ranks (info_ranks.c) */

/* What each rank tells of itself. Travels as bytes between processes of one build. */
struct info_rank {
    int32_t rank;
    int32_t pid;
    char host[64];
    char cpus[64];
    char transport[16]; /* that leads to rank 0 */
    char memory[96];    /* how it reaches private memory of rank 0 */
    uint32_t is_direct; /* that is by cross-memory attach */
    uint32_t is_tried;
};

/* Collective: asks every rank; *ranks gets [oriel_size()] on every rank, owned by the caller.
 * ORIEL_OK, or the code of what failed. */
int info_ranks_ask(struct info_rank **ranks);

/* Whether a process of this user may read this one's memory: a child tries. Words, never NULL. */
const char *info_attach_alone(void);

/* ---------------------------------------------------------------- sections (info_sections.c) */

/* What the sections print from. */
struct info_scene {
    const struct info_rank *ranks; /* NULL: not asked, or no job */
    int nranks;
    bool is_open; /* oriel_init succeeded */
};

struct info_section {
    const char *name;
    const char *text;
    bool needs_ranks;
    void (*print)(struct info_doc *doc, const struct info_section *section,
                  const struct info_scene *scene);
};

extern const struct info_section info_sections[]; /* the last one's name is NULL */

/* The value of a fact of the library; "" where there is none of that name. Valid until the next. */
const char *info_fact(const char *group, const char *name);

#endif
