/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log lines: levels per category, one write per line, repeats counted.
 *
 * Called by any thread through the macros of log.h. The memory of the last line is guarded by a
 * flag that is only ever tried: who does not get it prints without looking for repeats, so that
 * logging can neither wait nor deadlock, also after fork. It keeps no file and no time of day.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "base/strbuf.h"

/* While a line repeats, its count is printed this often. */
#define REPEAT_REPORT_MS 1000

#define DEFAULT_SPEC "warn"

unsigned char orl_log_levels[ORL_CAT_COUNT] = {
#define ORL_LOG_DEFAULT(code, name) [ORL_CAT_##code] = ORL_LOG_WARN,
    ORL_LOG_CATEGORIES(ORL_LOG_DEFAULT)
#undef ORL_LOG_DEFAULT
};

static const char *const level_names[ORL_LOG_LEVEL_COUNT] = {
    [ORL_LOG_ERROR] = "error",
    [ORL_LOG_WARN] = "warn",
    [ORL_LOG_INFO] = "info",
    [ORL_LOG_DEBUG] = "debug",
};

static const char *const category_names[ORL_CAT_COUNT] = {
#define ORL_LOG_NAME(code, name) [ORL_CAT_##code] = (name),
    ORL_LOG_CATEGORIES(ORL_LOG_NAME)
#undef ORL_LOG_NAME
};

static _Atomic int out_fd = STDERR_FILENO;
static _Atomic uint64_t start_ms;
static char ident[80] = "- -"; /* "rank host" */

static atomic_flag last_is_busy = ATOMIC_FLAG_INIT; /* guards the three below */
static char last_text[ORL_LOG_LINE_BYTES];
static uint64_t last_repeats;
static uint64_t last_ms;

/* ---- The level spec ---- */

/* Index of the word in the table, or -1. */
static int find_word(const char *const *table, int count, const char *word, size_t length)
{
    for (int i = 0; i < count; i++) {
        if (strlen(table[i]) == length && memcmp(table[i], word, length) == 0) {
            return i;
        }
    }
    return -1;
}

static const char *word_list(const char *const *table, int count, struct orl_strbuf *out)
{
    for (int i = 0; i < count; i++) {
        orl_strbuf_join(out, ", ", table[i]);
    }
    return orl_strbuf_str(out);
}

static int find_level(const char *word, size_t length, int *level)
{
    char names[128];
    struct orl_strbuf list;
    *level = find_word(level_names, ORL_LOG_LEVEL_COUNT, word, length);
    if (*level >= 0) {
        return ORL_OK;
    }
    orl_strbuf_init(&list, names, sizeof(names));
    return orl_fail(ORL_ERR_CONF, "'%.*s' is not a log level; valid: %s", (int)length, word,
                    word_list(level_names, ORL_LOG_LEVEL_COUNT, &list));
}

static int find_category(const char *word, size_t length, int *category)
{
    char names[256];
    struct orl_strbuf list;
    *category = find_word(category_names, ORL_CAT_COUNT, word, length);
    if (*category >= 0) {
        return ORL_OK;
    }
    orl_strbuf_init(&list, names, sizeof(names));
    return orl_fail(ORL_ERR_CONF, "'%.*s' is not a log category; valid: %s", (int)length, word,
                    word_list(category_names, ORL_CAT_COUNT, &list));
}

/* One word of the spec: LEVEL or CATEGORY:LEVEL. */
static int apply_word(const char *word, size_t length, unsigned char *levels)
{
    const char *colon = memchr(word, ':', length);
    int category = -1;
    int level;
    int status = ORL_OK;

    if (colon != NULL) {
        size_t name_length = (size_t)(colon - word);
        status = find_category(word, name_length, &category);
        word += name_length + 1;
        length -= name_length + 1;
    }
    if (status == ORL_OK) {
        status = find_level(word, length, &level);
    }
    if (status != ORL_OK) {
        return status;
    }
    if (category < 0) {
        memset(levels, level, ORL_CAT_COUNT);
    } else {
        levels[category] = (unsigned char)level;
    }
    return ORL_OK;
}

static int parse_spec(const char *spec, unsigned char *levels)
{
    if (spec == NULL || spec[0] == '\0') {
        spec = DEFAULT_SPEC;
    }
    /* Categories that the spec does not name keep the default. */
    memset(levels, ORL_LOG_WARN, ORL_CAT_COUNT);
    for (;;) {
        size_t length = strcspn(spec, ",");
        int status = apply_word(spec, length, levels);
        if (status != ORL_OK) {
            return status;
        }
        if (spec[length] == '\0') {
            return ORL_OK;
        }
        spec += length + 1;
    }
}

int orl_log_check(const char *spec)
{
    unsigned char levels[ORL_CAT_COUNT];
    return parse_spec(spec, levels);
}

int orl_log_open(const char *spec)
{
    unsigned char levels[ORL_CAT_COUNT];
    int status = parse_spec(spec, levels);
    if (status != ORL_OK) {
        return status;
    }
    for (int i = 0; i < ORL_CAT_COUNT; i++) {
        __atomic_store_n(&orl_log_levels[i], levels[i], __ATOMIC_RELAXED);
    }
    return ORL_OK;
}

/* ---- Printing ---- */

void orl_log_ident(int rank, const char *host)
{
    char number[16] = "-";
    struct orl_strbuf text;
    if (rank >= 0) {
        snprintf(number, sizeof(number), "%d", rank);
    }
    orl_strbuf_init(&text, ident, sizeof(ident));
    orl_strbuf_addf(&text, "%s %s", number, host != NULL && host[0] != '\0' ? host : "-");
}

void orl_log_redirect(int fd)
{
    atomic_store_explicit(&out_fd, fd < 0 ? STDERR_FILENO : fd, memory_order_relaxed);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Milliseconds since the first line. */
static uint64_t ms_since_start(uint64_t ms)
{
    uint64_t start = 0;
    if (atomic_compare_exchange_strong(&start_ms, &start, ms)) {
        return 0;
    }
    return ms > start ? ms - start : 0;
}

/* One line, one write; the rest of a short one follows. A descriptor that refuses loses it. */
static void emit(uint64_t ms, const char *text)
{
    char line[ORL_LOG_LINE_BYTES];
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, line, sizeof(line));
    orl_strbuf_addf(&sb, "[%llu %s %s", (unsigned long long)ms_since_start(ms), ident, text);
    size_t length = sb.length < sizeof(line) - 1 ? sb.length : sizeof(line) - 2;
    line[length] = '\n';

    const char *rest = line;
    size_t left = length + 1;
    while (left > 0) {
        ssize_t n = write(atomic_load_explicit(&out_fd, memory_order_relaxed), rest, left);
        if (n < 0 && errno != EINTR) {
            return;
        }
        if (n > 0) {
            rest += n;
            left -= (size_t)n;
        }
    }
}

/* Caller has the last line. */
static void report_repeats(uint64_t ms)
{
    if (last_repeats > 0) {
        char text[64];
        snprintf(text, sizeof(text), "base] info: last line repeated %llu time%s",
                 (unsigned long long)last_repeats, last_repeats == 1 ? "" : "s");
        emit(ms, text);
    }
    last_repeats = 0;
    last_ms = ms;
}

static void emit_unless_repeated(uint64_t ms, const char *text)
{
    if (strcmp(text, last_text) != 0) {
        report_repeats(ms);
        snprintf(last_text, sizeof(last_text), "%s", text);
        emit(ms, text);
        return;
    }
    last_repeats++;
    if (ms - last_ms >= REPEAT_REPORT_MS) {
        report_repeats(ms);
    }
}

/* A line stays a line, whatever somebody put into a name. */
static void flatten(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ') {
            *text = ' ';
        }
    }
}

void orl_log_write(enum orl_log_level level, enum orl_log_category category, const char *fmt, ...)
{
    int saved_errno = errno;
    uint64_t ms = now_ms();
    char text[ORL_LOG_LINE_BYTES];
    int prefix =
        snprintf(text, sizeof(text), "%s] %s: ", category_names[category], level_names[level]);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text + prefix, sizeof(text) - (size_t)prefix, fmt, args);
    va_end(args);
    flatten(text);

    if (atomic_flag_test_and_set_explicit(&last_is_busy, memory_order_acquire)) {
        emit(ms, text);
    } else {
        emit_unless_repeated(ms, text);
        atomic_flag_clear_explicit(&last_is_busy, memory_order_release);
    }
    errno = saved_errno;
}

void orl_log_close(void)
{
    if (!atomic_flag_test_and_set_explicit(&last_is_busy, memory_order_acquire)) {
        report_repeats(now_ms());
        last_text[0] = '\0';
        atomic_flag_clear_explicit(&last_is_busy, memory_order_release);
    }
}
