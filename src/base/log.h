/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines for people, on standard error.
 *
 * One event is one line and one write: "[ms rank host category] level: text". Levels are chosen
 * per category by a spec such as "warn,shm:debug". A line that repeats is counted instead of
 * printed. Any thread may log at any time, also before orl_log_open and after orl_log_close; no
 * lock is ever waited for. Not for the data path: that is what trace.h is for.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/attr.h"

enum orl_log_level {
    ORL_LOG_ERROR, /* something failed and the program will notice */
    ORL_LOG_WARN,  /* works, but not as the user would wish */
    ORL_LOG_INFO,  /* what was decided at start */
    ORL_LOG_DEBUG, /* for whoever works on the library */
    ORL_LOG_LEVEL_COUNT
};

/* Name for code, name for people. */
#define ORL_LOG_CATEGORIES(X) \
 X(BASE, "base")              \
 X(CONF, "conf")              \
 X(BOOT, "boot")              \
 X(TOPO, "topo")              \
 X(NODE, "node")              \
 X(FABRIC, "fabric")          \
 X(SELF, "self")              \
 X(SHM, "shm")                \
 X(PEER, "peer")              \
 X(PATH, "path")              \
 X(MEM, "mem")                \
 X(AGENT, "agent")            \
 X(TEAM, "team")              \
 X(COLL, "coll")              \
 X(TEST, "test")

enum orl_log_category {
#define ORL_LOG_ENUM(code, name) ORL_CAT_##code,
    ORL_LOG_CATEGORIES(ORL_LOG_ENUM)
#undef ORL_LOG_ENUM
    ORL_CAT_COUNT
};

/* Longest line printed, newline included. Longer ones are cut. */
#define ORL_LOG_LINE_BYTES 1024

/*
 * Sets the levels. The spec is a list of LEVEL (for every category) and CATEGORY:LEVEL, applied
 * in order over "warn"; NULL or "" is "warn". Errors: CONF names the wrong word and lists the right
 * ones; the levels then stay as they were. May be called again.
 */
ORL_MUST_CHECK int orl_log_open(const char *spec);

/* The errors of orl_log_open, without the change. */
ORL_MUST_CHECK int orl_log_check(const char *spec);

/*
 * What the prefix shows from now on; before, and for a negative rank, it shows "-". Called while
 * no other thread logs.
 */
void orl_log_ident(int rank, const char *host);

/* Prints what the repeat counter still holds back. Logging goes on to work. */
void orl_log_close(void);

/* Writes to another descriptor than standard error; a negative one restores it. For tests. */
void orl_log_redirect(int fd);

/* Current level per category. Only log.c writes. */
extern unsigned char orl_log_levels[ORL_CAT_COUNT];

static inline bool orl_log_is_on(enum orl_log_level level, enum orl_log_category category)
{
    return __atomic_load_n(&orl_log_levels[category], __ATOMIC_RELAXED) >= (unsigned)level;
}

/* Formats and prints one line whatever the level; callers use the macros below. */
ORL_COLD ORL_NOINLINE ORL_PRINTF(3, 4) void orl_log_write(enum orl_log_level level,
                                                          enum orl_log_category category,
                                                          const char *fmt, ...);

/* orl_log_warn(ORL_CAT_SHM, "format", ...): arguments are evaluated only when the line is on. */
#define orl_log_at(level, category, ...)                \
 (ORL_UNLIKELY(orl_log_is_on((level), (category)))      \
      ? orl_log_write((level), (category), __VA_ARGS__) \
      : (void)0)
#define orl_log_error(category, ...) orl_log_at(ORL_LOG_ERROR, category, __VA_ARGS__)
#define orl_log_warn(category, ...)  orl_log_at(ORL_LOG_WARN, category, __VA_ARGS__)
#define orl_log_info(category, ...)  orl_log_at(ORL_LOG_INFO, category, __VA_ARGS__)
#define orl_log_debug(category, ...) orl_log_at(ORL_LOG_DEBUG, category, __VA_ARGS__)

#endif
