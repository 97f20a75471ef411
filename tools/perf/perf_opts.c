/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel-perf's command line: the options, their help, and what needs no job (--help, --version,
 * --settings). Every wrong argument is named with what would be right; nothing is guessed. Runs
 * before oriel_init, so every rank of a job reads and refuses alike.
 */
#include "perf.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST ((uint64_t)1 << 30)

static const char help_head[] =
    "Usage: oriel-perf [OPTION...] [TEST...]\n"
    "       mpirun -n RANKS oriel-perf [OPTION...] [TEST...]\n"
    "\n"
    "Measure Oriel's operations between ranks and, with --verify, every byte they move.\n"
    "Point tests go from rank 0 to rank 1 (alone: to itself) while the others wait in a\n"
    "barrier; collective tests are run by all. Prints median and best of 5 batches.\n"
    "\n"
    "Tests (without a name: those marked *)\n";

static const char help_options[] =
    "\n"
    "Options\n"
    "  -m, --sizes MIN:MAX   message sizes in bytes, doubled from MIN to MAX; MAX alone starts\n"
    "                        at the test's smallest; k, m and g are allowed\n"
    "  -i, --iterations N    iterations of a batch (default: as many as take about 8 ms)\n"
    "  -x, --warmup N        iterations before each batch that are not timed (default 1)\n"
    "  -w, --window N        operations of one bandwidth iteration (default 64, fewer where\n"
    "                        they would pass 16 MiB)\n"
    "      --verify          check every byte, and those before and after, on the target's CPU\n"
    "                        and by a get of a third rank (fewer than 3 ranks: of the origin)\n"
    "      --offset N        move the destination by N bytes from its page (default 0)\n"
    "      --memory KIND     alloc: of oriel_mem_alloc (default); private: malloc memory that\n"
    "                        is registered\n"
    "      --json FILE       write the results to FILE too\n"
    "      --settings FORM   print the library's settings as text, markdown or man, and end\n"
    "  -h, --help            print this text and end\n"
    "      --version         print the version of the library and end\n"
    "\n"
    "Status 0: all done; 1: an error of the library or a wrong byte; 2: a wrong argument.\n"
    "Latency in microseconds; bandwidth in MB/s, 10^6 bytes per second.\n";

enum {
    OPT_VERIFY = 256,
    OPT_OFFSET,
    OPT_MEMORY,
    OPT_JSON,
    OPT_SETTINGS,
    OPT_VERSION,
    OPT_INJECT_FAULT
};

static const struct option long_options[] = {
    { "sizes", required_argument, NULL, 'm' },
    { "iterations", required_argument, NULL, 'i' },
    { "warmup", required_argument, NULL, 'x' },
    { "window", required_argument, NULL, 'w' },
    { "verify", no_argument, NULL, OPT_VERIFY },
    { "offset", required_argument, NULL, OPT_OFFSET },
    { "memory", required_argument, NULL, OPT_MEMORY },
    { "json", required_argument, NULL, OPT_JSON },
    { "settings", required_argument, NULL, OPT_SETTINGS },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, OPT_VERSION },
    { "inject-fault", no_argument, NULL, OPT_INJECT_FAULT }, /* for our tests: must be noticed */
    { NULL, 0, NULL, 0 },
};

static void print_help(void)
{
    const struct perf_test *test;

    fputs(help_head, stdout);
    for (size_t i = 0; (test = perf_test_at(i)) != NULL; i++) {
        printf("  %c %-10s %s\n", test->is_default ? '*' : ' ', test->name, test->title);
    }
    fputs(help_options, stdout);
}

static int print_settings(const char *name)
{
    static const char *const names[] = { "text", "markdown", "man" };
    static const enum oriel_form forms[] = { ORIEL_FORM_TEXT, ORIEL_FORM_MARKDOWN, ORIEL_FORM_MAN };
    size_t which = 0;
    size_t bytes = 0;
    char *text;
    int status;

    while (which < 3 && strcmp(name, names[which]) != 0) {
        which++;
    }
    if (which == 3) {
        fprintf(stderr, "oriel-perf: --settings %s: must be text, markdown or man\n", name);
        return PERF_USAGE;
    }
    (void)oriel_settings_print(forms[which], NULL, 0, &bytes);
    text = malloc(bytes + 1);
    if (text == NULL) {
        fprintf(stderr, "oriel-perf: no memory for %zu bytes\n", bytes + 1);
        return PERF_FAILED;
    }
    status = oriel_settings_print(forms[which], text, bytes + 1, &bytes);
    if (status == ORIEL_OK) {
        fputs(text, stdout);
    } else {
        fprintf(stderr, "oriel-perf: settings: %s\n", oriel_error_detail());
    }
    free(text);
    return status == ORIEL_OK ? -1 : PERF_FAILED;
}

/* A number with k, m or g behind it; *rest is what follows. */
static bool read_number(const char *text, uint64_t *number, const char **rest)
{
    static const char units[] = "kmg";
    char *end;
    const char *unit;
    unsigned long long value;

    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || value > LARGEST) {
        return false;
    }
    unit = *end == '\0' ? NULL : strchr(units, *end | 0x20);
    if (unit != NULL) {
        value <<= 10 * (unit - units + 1);
        end++;
    }
    *number = value;
    *rest = end;
    return value <= LARGEST;
}

static bool read_count(const char *name, const char *text, uint64_t min, uint64_t *count)
{
    const char *rest = text;

    if (!read_number(text, count, &rest) || *rest != '\0' || *count < min) {
        fprintf(stderr, "oriel-perf: %s %s: must be a number from %llu to %llu\n", name, text,
                (unsigned long long)min, (unsigned long long)LARGEST);
        return false;
    }
    return true;
}

static bool read_sizes(const char *text, struct perf_opts *opts)
{
    uint64_t first = 0;
    uint64_t last = 0;
    const char *rest = text;
    bool is_good = read_number(text, &first, &rest);

    if (is_good && *rest == ':') {
        is_good = read_number(rest + 1, &last, &rest) && first >= 1 && last >= first;
    } else {
        last = first;
        first = 0;
    }
    if (!is_good || *rest != '\0' || last == 0) {
        fprintf(stderr,
                "oriel-perf: -m %s: must be MIN:MAX or MAX in bytes, 1 <= MIN <= MAX <= 1g\n",
                text);
        return false;
    }
    opts->size_min = first;
    opts->size_max = last;
    return true;
}

static bool read_memory(const char *text, struct perf_opts *opts)
{
    opts->is_private = strcmp(text, "private") == 0;
    if (!opts->is_private && strcmp(text, "alloc") != 0) {
        fprintf(stderr, "oriel-perf: --memory %s: must be alloc or private\n", text);
        return false;
    }
    return true;
}

/* 0: go on, else as perf_opts_read. */
static int read_option(int option, const char *text, struct perf_opts *opts)
{
    uint64_t offset = 0;
    bool is_good = true;

    switch (option) {
    case 'm':
        is_good = read_sizes(text, opts);
        break;
    case 'i':
        is_good = read_count("-i", text, 1, &opts->iterations);
        break;
    case 'x':
        is_good = read_count("-x", text, 0, &opts->warmup);
        break;
    case 'w':
        is_good = read_count("-w", text, 1, &opts->window);
        break;
    case OPT_OFFSET:
        is_good = read_count("--offset", text, 0, &offset);
        opts->offset = offset;
        break;
    case OPT_MEMORY:
        is_good = read_memory(text, opts);
        break;
    case OPT_VERIFY:
        opts->verify = true;
        break;
    case OPT_INJECT_FAULT:
        opts->inject_fault = true;
        break;
    case OPT_JSON:
        opts->json = text;
        break;
    case OPT_SETTINGS:
        return print_settings(text);
    case OPT_VERSION:
        printf("oriel-perf %s\n", oriel_version(NULL, NULL, NULL));
        return -1;
    case 'h':
        print_help();
        return -1;
    default:
        is_good = false; /* getopt has said why */
        break;
    }
    if (!is_good) {
        fputs("oriel-perf --help lists all options\n", stderr);
    }
    return is_good ? 0 : PERF_USAGE;
}

static bool add_test(const char *name, struct perf_opts *opts)
{
    const struct perf_test *test;

    if (opts->ntests == PERF_TESTS_MAX) {
        fprintf(stderr, "oriel-perf: more than %d tests\n", PERF_TESTS_MAX);
        return false;
    }
    for (size_t i = 0; (test = perf_test_at(i)) != NULL; i++) {
        if (strcmp(test->name, name) == 0) {
            opts->tests[opts->ntests++] = test;
            return true;
        }
    }
    fprintf(stderr, "oriel-perf: no test is called %s; there are:", name);
    for (size_t i = 0; (test = perf_test_at(i)) != NULL; i++) {
        fprintf(stderr, " %s", test->name);
    }
    fputc('\n', stderr);
    return false;
}

static void add_defaults(struct perf_opts *opts)
{
    const struct perf_test *test;

    for (size_t i = 0; (test = perf_test_at(i)) != NULL; i++) {
        if (test->is_default) {
            opts->tests[opts->ntests++] = test;
        }
    }
}

int perf_opts_read(int argc, char **argv, struct perf_opts *opts)
{
    int option;

    memset(opts, 0, sizeof(*opts));
    opts->warmup = 1;
    while ((option = getopt_long(argc, argv, "m:i:x:w:h", long_options, NULL)) != -1) {
        int status = read_option(option, optarg, opts);

        if (status != 0) {
            return status;
        }
    }
    for (int i = optind; i < argc; i++) {
        if (!add_test(argv[i], opts)) {
            return PERF_USAGE;
        }
    }
    if (opts->ntests == 0) {
        add_defaults(opts);
    }
    if (opts->inject_fault && !opts->verify) {
        fputs("oriel-perf: --inject-fault needs --verify\n", stderr);
        return PERF_USAGE;
    }
    return 0;
}
