/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings of this process: one read-only struct, filled once, before anything else starts.
 *
 * The program's own options (orl_conf_override) stand over the environment, the environment over
 * the defaults of conf.def. Nothing is looked up later. This is the only file that reads the
 * environment. Loading is for one thread, under the init lock; afterwards everything here is
 * read-only. It does not know what the values are for.
 */
#ifndef BASE_CONF_H
#define BASE_CONF_H

#include "base/attr.h"

struct orl_strbuf;

/* The C type of a field, by the type of its row. Times are nanoseconds. */
#define ORL_CONF_FIELD_BOOL   bool
#define ORL_CONF_FIELD_INT    int
#define ORL_CONF_FIELD_BYTES  uint64_t
#define ORL_CONF_FIELD_BYTES0 uint64_t
#define ORL_CONF_FIELD_TIME   uint64_t
#define ORL_CONF_FIELD_CHOICE int
#define ORL_CONF_FIELD_LIST   const char *
#define ORL_CONF_FIELD_TEXT   const char *

struct orl_conf_values {
#define ORL_CONF(field, name, type, def, lo, hi, choices, owner, text) ORL_CONF_FIELD_##type field;
#include "base/conf.def"
#undef ORL_CONF
};

/*
 * The settings, read as orl_conf.field; all zero until orl_conf_load returned 0. Only conf.c
 * writes, once. The object itself is not const, since a compiler may read a const one before the
 * call that fills it.
 */
extern struct orl_conf_values orl_conf_values;
#define orl_conf (*(const struct orl_conf_values *)&orl_conf_values)

/* Names for the choices, in the order of the rows. */
enum orl_conf_boot {
    ORL_CONF_BOOT_AUTO,
    ORL_CONF_BOOT_PMIX,
    ORL_CONF_BOOT_LOCAL,
    ORL_CONF_BOOT_SINGLE
};

enum orl_conf_connect {
    ORL_CONF_CONNECT_LAZY,
    ORL_CONF_CONNECT_EAGER
};

/* Same values as enum orl_sys_backing. */
enum orl_conf_shm_backing {
    ORL_CONF_SHM_BACKING_AUTO,
    ORL_CONF_SHM_BACKING_MEMFD,
    ORL_CONF_SHM_BACKING_FILE
};

enum orl_conf_shm_copy {
    ORL_CONF_SHM_COPY_AUTO,
    ORL_CONF_SHM_COPY_RING,
    ORL_CONF_SHM_COPY_CMA
};

enum orl_conf_shm_huge {
    ORL_CONF_SHM_HUGE_AUTO,
    ORL_CONF_SHM_HUGE_NEVER
};

enum orl_conf_agent {
    ORL_CONF_AGENT_AUTO,
    ORL_CONF_AGENT_OFF
};

enum orl_conf_type {
    ORL_CONF_TYPE_BOOL,
    ORL_CONF_TYPE_INT,
    ORL_CONF_TYPE_BYTES,
    ORL_CONF_TYPE_BYTES0,
    ORL_CONF_TYPE_TIME,
    ORL_CONF_TYPE_CHOICE,
    ORL_CONF_TYPE_LIST,
    ORL_CONF_TYPE_TEXT
};

enum orl_conf_form {
    ORL_CONF_TEXT,     /* values in force and where they come from, for a terminal */
    ORL_CONF_MARKDOWN, /* the table of the README: defaults, not values */
    ORL_CONF_MAN       /* the environment section of a manual page: defaults, not values */
};

enum orl_conf_origin {
    ORL_CONF_FROM_DEFAULT,
    ORL_CONF_FROM_ENVIRONMENT,
    ORL_CONF_FROM_PROGRAM
};

/* Longest value of a LIST or TEXT, its end included. */
#define ORL_CONF_VALUE_BYTES 256

/* One setting as words, for whoever shows them. */
struct orl_conf_row {
    char name[48];                    /* "ORIEL_SPIN_TIME" */
    char value[ORL_CONF_VALUE_BYTES]; /* in force, or what loading would find: "2 us" */
    char range[128];                  /* "0 to 1 s" */
    char problem[256];                /* what is wrong with the value; "" once loaded */
    const char *default_text;         /* "2us" */
    const char *owner;                /* "core" */
    const char *text;                 /* ends "change it when you ..." */
    enum orl_conf_type type;
    enum orl_conf_origin origin;
};

/*
 * Reads overrides, environment and defaults into orl_conf, and opens the log with ORIEL_LOG.
 * Loaded already: does nothing. Errors: CONF names variable, value and range; orl_conf then stays
 * as it was and loading may be tried again.
 */
ORL_MUST_CHECK int orl_conf_load(void);

/*
 * After a failure to load: fills orl_conf with what is right, and defaults in place of what is
 * not, for the way out. Does not count as loaded.
 */
void orl_conf_load_sound(void);

/* Warns about ORIEL_ variables that do not exist, with the nearest one that does. */
void orl_conf_warn_unknown(void);

/*
 * Sets a value that stands over the environment; the name goes with or without "ORIEL_". Errors:
 * CONF when there is no such setting or the value is wrong, STATE once loaded.
 */
ORL_MUST_CHECK int orl_conf_override(const char *name, const char *value);

/* Appends all settings. Errors: TRUNC when `out` has no room for them; 16 KiB suffice. */
ORL_MUST_CHECK int orl_conf_describe(struct orl_strbuf *out, enum orl_conf_form form);

size_t orl_conf_count(void);

/* Name of setting `i`, without "ORIEL_". */
const char *orl_conf_name(size_t i);

/* The name, without "ORIEL_", that is most like this one. */
const char *orl_conf_nearest(const char *name);

/* Setting `i` as words. Errors: INVAL when i is not below orl_conf_count(). */
ORL_MUST_CHECK int orl_conf_row(size_t i, struct orl_conf_row *row);

/* True when the setting (name without "ORIEL_") that was loaded is not the default. */
bool orl_conf_is_given(const char *name);

/* True when the comma-separated list has the word. */
bool orl_conf_list_has(const char *list, const char *word);

/*
 * A variable of somebody else's: what a launcher tells its ranks (PMIX_RANK, ORIEL_RUN_...). NULL
 * when unset. Names that begin with ORIEL_RUN_ are never warned about. Not for settings.
 */
const char *orl_conf_launcher_variable(const char *name);

/* Back to the state before loading, overrides forgotten. */
void orl_conf_reset_for_test(void);

#endif
