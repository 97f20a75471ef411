/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings: from text to typed values.
 *
 * The rows of conf.def drive everything. Called once at init by one thread, later only for
 * display; no lock. How settings are shown is conf_text.c's business. Nothing here knows what a
 * setting does, except that ORIEL_LOG opens the log.
 */
#include "base/conf.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/strbuf.h"

#define PREFIX        "ORIEL_"
#define PREFIX_LENGTH (sizeof(PREFIX) - 1)
#define NAME_BYTES    48

struct row {
    const char *name;
    enum orl_conf_type type;
    const char *default_text;
    uint64_t lowest;
    uint64_t highest;
    const char *choices;
    const char *owner;
    const char *text;
    size_t offset;
};

/* What a row resolved to. LIST and TEXT fields of orl_conf point at `value`. */
struct slot {
    char value[ORL_CONF_VALUE_BYTES];
    char override[ORL_CONF_VALUE_BYTES];
    bool is_overridden;
    enum orl_conf_origin origin;
};

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct row rows[] = {
#define ORL_CONF(field, name, type, def, lo, hi, choices, owner, text) \
 { #name,                                                              \
   ORL_CONF_TYPE_##type,                                               \
   def,                                                                \
   lo,                                                                 \
   hi,                                                                 \
   choices,                                                            \
   owner,                                                              \
   text,                                                               \
   offsetof(struct orl_conf_values, field) },
#include "base/conf.def"
#undef ORL_CONF
};

#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

static struct slot slots[ROW_COUNT];
static bool is_loaded;

struct orl_conf_values orl_conf_values;

/* ---- Numbers ---- */

static const struct unit byte_units[] = { { "", 1 },
                                          { "b", 1 },
                                          { "k", UINT64_C(1) << 10 },
                                          { "m", UINT64_C(1) << 20 },
                                          { "g", UINT64_C(1) << 30 },
                                          { "t", UINT64_C(1) << 40 },
                                          { "kib", UINT64_C(1) << 10 },
                                          { "mib", UINT64_C(1) << 20 },
                                          { "gib", UINT64_C(1) << 30 },
                                          { "tib", UINT64_C(1) << 40 },
                                          { NULL, 0 } };

/* A bare number is seconds, as for sleep(1). */
static const struct unit time_units[] = {
    { "", ORL_NS_PER_S },         { "ns", 1 },
    { "us", ORL_NS_PER_US },      { "ms", ORL_NS_PER_MS },
    { "s", ORL_NS_PER_S },        { "min", 60 * ORL_NS_PER_S },
    { "h", 3600 * ORL_NS_PER_S }, { NULL, 0 }
};

static const struct unit no_units[] = { { "", 1 }, { NULL, 0 } };

/* A decimal fraction, six digits of which count. Returns where it ends. */
static const char *parse_fraction(const char *text, uint64_t *numerator, uint64_t *denominator)
{
    *numerator = 0;
    *denominator = 1;
    if (*text != '.') {
        return text;
    }
    for (text++; isdigit((unsigned char)*text); text++) {
        if (*denominator < UINT64_C(1000000)) {
            *numerator = *numerator * 10 + (uint64_t)(*text - '0');
            *denominator *= 10;
        }
    }
    return text;
}

/* Digits, perhaps a fraction, perhaps a unit. What is too large for 64 bits saturates. */
static bool parse_amount(const char *text, const struct unit *units, uint64_t *amount)
{
    char *end;
    uint64_t numerator;
    uint64_t denominator;
    if (!isdigit((unsigned char)text[0])) {
        return false;
    }
    uint64_t whole = strtoull(text, &end, 10);
    const char *name = parse_fraction(end, &numerator, &denominator);
    name += strspn(name, " ");
    while (units->name != NULL && strcasecmp(units->name, name) != 0) {
        units++;
    }
    if (units->name == NULL || (numerator > 0 && units->factor == 1)) {
        return false;
    }
    uint64_t part = units->factor / denominator * numerator +
                    units->factor % denominator * numerator / denominator;
    if (__builtin_mul_overflow(whole, units->factor, amount) ||
        __builtin_add_overflow(*amount, part, amount)) {
        *amount = UINT64_MAX;
    }
    return true;
}

static bool parse_bool(const char *text, uint64_t *number)
{
    static const char *const words[] = { "0", "1", "no", "yes", "off", "on", "false", "true" };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *number = i % 2;
            return true;
        }
    }
    return false;
}

/* ---- Words ---- */

/* Number of the choice that is this word, or -1. Choices are separated by '|'. */
static int find_choice(const char *choices, const char *word, size_t length)
{
    for (int i = 0;; i++) {
        size_t n = strcspn(choices, "|");
        if (n == length && memcmp(choices, word, n) == 0) {
            return i;
        }
        if (choices[n] == '\0') {
            return -1;
        }
        choices += n + 1;
    }
}

/* Copies the list without spaces. Fails on a word that is no choice, empty, or there twice. */
static const char *parse_list(const struct row *row, const char *text, char *value)
{
    struct orl_strbuf list;
    orl_strbuf_init(&list, value, ORL_CONF_VALUE_BYTES);
    for (;;) {
        char word[ORL_CONF_VALUE_BYTES];
        struct orl_strbuf copy;
        text += strspn(text, " ");
        size_t length = strcspn(text, ", ");
        orl_strbuf_init(&copy, word, sizeof(word));
        orl_strbuf_addf(&copy, "%.*s", (int)length, text);
        if (find_choice(row->choices, word, length) < 0) {
            return "one of these words does not exist";
        }
        if (orl_conf_list_has(value, word)) {
            return "one of these words is there twice";
        }
        orl_strbuf_join(&list, ",", word);
        text += length;
        text += strspn(text, " ");
        if (*text == '\0') {
            return NULL;
        }
        if (*text != ',') {
            return "words are separated by commas";
        }
        text++;
    }
}

bool orl_conf_list_has(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (;;) {
        size_t n = strcspn(list, ",");
        if (n == length && n > 0 && memcmp(list, word, n) == 0) {
            return true;
        }
        if (list[n] == '\0') {
            return false;
        }
        list += n + 1;
    }
}

/* ---- One value ---- */

/* What is wrong with the number, or NULL. */
static const char *check_range(const struct row *row, uint64_t number)
{
    bool is_automatic = row->type == ORL_CONF_TYPE_BYTES0 && number == 0;
    if (is_automatic || (number >= row->lowest && number <= row->highest)) {
        return NULL;
    }
    return number < row->lowest ? "too small" : "too large";
}

static const char *parse_number(const struct row *row, const char *text, uint64_t *number)
{
    bool is_time = row->type == ORL_CONF_TYPE_TIME;
    bool is_size = row->type == ORL_CONF_TYPE_BYTES || row->type == ORL_CONF_TYPE_BYTES0;
    const struct unit *units = is_size ? byte_units : no_units;
    if (!parse_amount(text, is_time ? time_units : units, number)) {
        const char *other = is_size ? "not a size" : "not a whole number";
        return is_time ? "not a time" : other;
    }
    return check_range(row, *number);
}

/*
 * Checks one value. Leaves its canonical text in `value` and, where it is one, its number in
 * `number`. Returns what is wrong, or NULL.
 */
static const char *parse(const struct row *row, const char *text, char *value, uint64_t *number)
{
    struct orl_strbuf copy;
    *number = 0;
    orl_strbuf_init(&copy, value, ORL_CONF_VALUE_BYTES);
    if (row->type == ORL_CONF_TYPE_LIST) {
        return parse_list(row, text, value);
    }
    orl_strbuf_add(&copy, text);
    if (orl_strbuf_is_full(&copy)) {
        return "too long";
    }
    switch (row->type) {
    case ORL_CONF_TYPE_BOOL:
        return parse_bool(text, number) ? NULL : "neither yes nor no";
    case ORL_CONF_TYPE_CHOICE: {
        int choice = find_choice(row->choices, text, strlen(text));
        *number = (uint64_t)choice;
        return choice >= 0 ? NULL : "not one of the choices";
    }
    case ORL_CONF_TYPE_TEXT:
        return strlen(text) > row->highest ? "too long" : NULL;
    case ORL_CONF_TYPE_INT:
    case ORL_CONF_TYPE_BYTES:
    case ORL_CONF_TYPE_BYTES0:
    case ORL_CONF_TYPE_TIME:
    case ORL_CONF_TYPE_LIST:
    default:
        return parse_number(row, text, number);
    }
}

static void add_choices(struct orl_strbuf *out, const char *choices)
{
    for (;;) {
        size_t n = strcspn(choices, "|");
        orl_strbuf_addf(out, "%.*s%s", (int)n, choices, choices[n] == '\0' ? "" : ", ");
        if (choices[n] == '\0') {
            return;
        }
        choices += n + 1;
    }
}

static void add_range(struct orl_strbuf *out, const struct row *row)
{
    switch (row->type) {
    case ORL_CONF_TYPE_BOOL:
        orl_strbuf_add(out, "0 or 1");
        return;
    case ORL_CONF_TYPE_INT:
        orl_strbuf_addf(out, "%llu to %llu", (unsigned long long)row->lowest,
                        (unsigned long long)row->highest);
        return;
    case ORL_CONF_TYPE_TIME:
        orl_strbuf_add_time(out, row->lowest);
        orl_strbuf_add(out, " to ");
        orl_strbuf_add_time(out, row->highest);
        return;
    case ORL_CONF_TYPE_CHOICE:
        add_choices(out, row->choices);
        return;
    case ORL_CONF_TYPE_LIST:
        orl_strbuf_add(out, "a list of ");
        add_choices(out, row->choices);
        return;
    case ORL_CONF_TYPE_TEXT:
        orl_strbuf_addf(out, "at most %llu bytes", (unsigned long long)row->highest);
        return;
    case ORL_CONF_TYPE_BYTES:
    case ORL_CONF_TYPE_BYTES0:
    default:
        orl_strbuf_add(out, row->type == ORL_CONF_TYPE_BYTES0 ? "0, or " : "");
        orl_strbuf_add_bytes(out, row->lowest);
        orl_strbuf_add(out, " to ");
        orl_strbuf_add_bytes(out, row->highest);
        return;
    }
}

static int fail_value(const struct row *row, const char *text, const char *what)
{
    char words[192];
    struct orl_strbuf range;
    orl_strbuf_init(&range, words, sizeof(words));
    add_range(&range, row);
    bool has_example = row->type == ORL_CONF_TYPE_TIME || row->type == ORL_CONF_TYPE_BYTES;
    if (has_example && strcmp(row->default_text, "0") != 0) {
        orl_strbuf_addf(&range, ", such as %s", row->default_text);
    }
    return orl_fail(ORL_ERR_CONF, PREFIX "%s is '%.64s': %s; valid: %s", row->name, text, what,
                    words);
}

/* Parses with the errors of the user's words. ORIEL_LOG is checked by the log itself. */
static int parse_or_fail(const struct row *row, const char *text, char *value, uint64_t *number)
{
    const char *what = parse(row, text, value, number);
    if (what != NULL) {
        return fail_value(row, text, what);
    }
    if (row->offset == offsetof(struct orl_conf_values, log) && orl_log_check(value) != ORL_OK) {
        return orl_fail(ORL_ERR_CONF, PREFIX "%s is '%.64s': %s", row->name, text,
                        orl_last_error());
    }
    return ORL_OK;
}

static void store(struct orl_conf_values *conf, const struct row *row, const char *value,
                  uint64_t number)
{
    char *field = (char *)conf + row->offset;
    bool flag = number != 0;
    int small = (int)number;
    switch (row->type) {
    case ORL_CONF_TYPE_BOOL:
        memcpy(field, &flag, sizeof(flag));
        return;
    case ORL_CONF_TYPE_INT:
    case ORL_CONF_TYPE_CHOICE:
        memcpy(field, &small, sizeof(small));
        return;
    case ORL_CONF_TYPE_LIST:
    case ORL_CONF_TYPE_TEXT:
        memcpy(field, &value, sizeof(value));
        return;
    case ORL_CONF_TYPE_BYTES:
    case ORL_CONF_TYPE_BYTES0:
    case ORL_CONF_TYPE_TIME:
    default:
        memcpy(field, &number, sizeof(number));
        return;
    }
}

/* ---- Loading ---- */

/* The row of a name of `length` letters, without prefix; ROW_COUNT when there is none. */
static size_t find_row(const char *name, size_t length)
{
    size_t i = 0;
    while (i < ROW_COUNT &&
           (strlen(rows[i].name) != length || memcmp(rows[i].name, name, length) != 0)) {
        i++;
    }
    return i;
}

/* Text that counts for the row, and where it is from. An empty variable counts as unset. */
static const char *text_in_force(size_t i, enum orl_conf_origin *origin)
{
    char name[NAME_BYTES];
    struct orl_strbuf sb;
    if (slots[i].is_overridden) {
        *origin = ORL_CONF_FROM_PROGRAM;
        return slots[i].override;
    }
    orl_strbuf_init(&sb, name, sizeof(name));
    orl_strbuf_addf(&sb, PREFIX "%s", rows[i].name);
    const char *text = getenv(name);
    if (text != NULL && text[0] != '\0') {
        *origin = ORL_CONF_FROM_ENVIRONMENT;
        return text;
    }
    *origin = ORL_CONF_FROM_DEFAULT;
    return rows[i].default_text;
}

void orl_conf_load_sound(void)
{
    if (is_loaded) {
        return;
    }
    for (size_t i = 0; i < ROW_COUNT; i++) {
        uint64_t number;
        const char *text = text_in_force(i, &slots[i].origin);
        if (parse(&rows[i], text, slots[i].value, &number) != NULL) {
            slots[i].origin = ORL_CONF_FROM_DEFAULT;
            (void)parse(&rows[i], rows[i].default_text, slots[i].value, &number);
        }
        store(&orl_conf_values, &rows[i], slots[i].value, number);
    }
}

int orl_conf_load(void)
{
    struct orl_conf_values loaded;
    if (is_loaded) {
        return ORL_OK;
    }
    memset(&loaded, 0, sizeof(loaded));
    for (size_t i = 0; i < ROW_COUNT; i++) {
        uint64_t number;
        const char *text = text_in_force(i, &slots[i].origin);
        int status = parse_or_fail(&rows[i], text, slots[i].value, &number);
        if (status != ORL_OK) {
            return status;
        }
        store(&loaded, &rows[i], slots[i].value, number);
    }
    orl_conf_values = loaded;
    is_loaded = true;
    return orl_log_open(orl_conf.log); /* cannot fail: the spec was checked above */
}

int orl_conf_override(const char *name, const char *value)
{
    char canonical[ORL_CONF_VALUE_BYTES];
    uint64_t number;
    if (strncmp(name, PREFIX, PREFIX_LENGTH) == 0) {
        name += PREFIX_LENGTH;
    }
    size_t i = find_row(name, strlen(name));
    if (i == ROW_COUNT) {
        return orl_fail(ORL_ERR_CONF,
                        "there is no setting " PREFIX "%s; the nearest is " PREFIX "%s", name,
                        orl_conf_nearest(name));
    }
    if (is_loaded) {
        return orl_fail(ORL_ERR_STATE, PREFIX "%s can only be set before the library starts", name);
    }
    int status = parse_or_fail(&rows[i], value, canonical, &number);
    if (status == ORL_OK) {
        memcpy(slots[i].override, canonical, sizeof(canonical));
        slots[i].is_overridden = true;
    }
    return status;
}

const char *orl_conf_launcher_variable(const char *name)
{
    return getenv(name);
}

bool orl_conf_is_given(const char *name)
{
    size_t i = find_row(name, strlen(name));
    return i < ROW_COUNT && slots[i].origin != ORL_CONF_FROM_DEFAULT;
}

void orl_conf_reset_for_test(void)
{
    memset(slots, 0, sizeof(slots));
    memset(&orl_conf_values, 0, sizeof(orl_conf_values));
    is_loaded = false;
}

/* ---- For people ---- */

size_t orl_conf_count(void)
{
    return ROW_COUNT;
}

const char *orl_conf_name(size_t i)
{
    return i < ROW_COUNT ? rows[i].name : "";
}

/* Before loading: what loading would find. The thread's last error stays as it was. */
static void resolve(size_t i, struct orl_conf_row *row)
{
    char kept[ORL_ERROR_TEXT_BYTES];
    struct orl_strbuf sb;
    uint64_t number;
    orl_strbuf_init(&sb, kept, sizeof(kept));
    orl_strbuf_add(&sb, orl_last_error());
    const char *text = text_in_force(i, &row->origin);
    if (parse_or_fail(&rows[i], text, row->value, &number) != ORL_OK) {
        orl_strbuf_init(&sb, row->value, sizeof(row->value));
        orl_strbuf_add(&sb, text);
        orl_strbuf_init(&sb, row->problem, sizeof(row->problem));
        orl_strbuf_add(&sb, orl_last_error());
    }
    (void)!orl_fail(ORL_OK, "%s", kept);
}

int orl_conf_row(size_t i, struct orl_conf_row *row)
{
    struct orl_strbuf sb;
    if (i >= ROW_COUNT) {
        return orl_fail(ORL_ERR_INVAL, "setting %zu of %zu", i, ROW_COUNT);
    }
    *row = (struct orl_conf_row){ .default_text = rows[i].default_text,
                                  .owner = rows[i].owner,
                                  .text = rows[i].text,
                                  .type = rows[i].type,
                                  .origin = slots[i].origin };
    orl_strbuf_init(&sb, row->name, sizeof(row->name));
    orl_strbuf_addf(&sb, PREFIX "%s", rows[i].name);
    if (is_loaded) {
        memcpy(row->value, slots[i].value, sizeof(row->value));
    } else {
        resolve(i, row);
    }
    orl_strbuf_init(&sb, row->range, sizeof(row->range));
    add_range(&sb, &rows[i]);
    return ORL_OK;
}
