/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel-perf's command line: the options, their help, and what needs no job (--help,
 * --version). Every wrong argument is named with what would be right; nothing is guessed. Runs
 * before the job is joined, so every rank reads and refuses alike.
 */
#include "perf.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST ((uint64_t)1 << 30)

static const char help_head[] =
    "\n"
    "Measure one-sided and collective operations between ranks and, with --verify, every\n"
    "byte they move. Point tests run in pairs, rank i with i + half the ranks (alone: with\n"
    "itself), all pairs at once; collective tests are run by all.\n"
    "\n"
    "Tests (without a name: those marked *)\n";

static const char help_options[] =
    "\n"
    "Options\n"
    "  -m, --sizes MIN:MAX   message sizes in bytes, doubled from MIN to MAX; MAX alone starts\n"
    "                        at the test's smallest; k, m and g are allowed\n"
    "  -i, --iterations N    iterations of each size (default: at least 50 samples of 20 us and\n"
    "                        more, in some 60 ms)\n"
    "  -x, --warmup N        iterations before samples that are not timed (default 1)\n"
    "  -w, --window N        transfers of one iteration of put_bw, put_mr and get_bw (default 64,\n"
    "                        fewer where they would pass 16 MiB)\n"
    "      --verify          check every byte, and those before and after, on the target's CPU\n"
    "                        and by a get of a third rank (fewer than 3 ranks: of the origin)\n"
    "      --offset N        move the destination by N bytes from its page (default 0)\n"
    "      --memory KIND     alloc: made by the library (default); private: malloc memory that is\n"
    "                        made known to it\n"
    "      --json FILE       write the results to FILE too, one object a line\n"
    "      --plot FILE.svg   draw them (needs gnuplot)\n"
    "  -h, --help            print this text and end\n"
    "      --version         print the version of the library and end\n"
    "\n"
    "Status 0: all done; 1: an error of the library or a wrong byte; 2: a wrong argument.\n"
    "Latency in microseconds; bandwidth in MB/s, 10^6 bytes per second; rate in\n"
    "messages per second.\n";

enum {
    OPT_VERIFY = 256,
    OPT_OFFSET,
    OPT_MEMORY,
    OPT_JSON,
    OPT_PLOT,
    OPT_VERSION
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
    { "plot", required_argument, NULL, OPT_PLOT },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, OPT_VERSION },
    { NULL, 0, NULL, 0 },
};

static void print_help(void)
{
    const struct perf_test *test;

    printf("Usage: %s [OPTION...] [TEST...]\n       mpirun -n RANKS %s [OPTION...] [TEST...]\n",
           ops_program, ops_program);
    fputs(help_head, stdout);
    for (size_t i = 0; (test = perf_test_at(i)) != NULL; i++) {
        printf("  %c %-10s %s\n", test->is_default ? '*' : ' ', test->name, test->title);
    }
    fputs(help_options, stdout);
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
        fprintf(stderr, "%s: %s %s: must be a number from %llu to %llu\n", ops_program, name, text,
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
        fprintf(stderr, "%s: -m %s: must be MIN:MAX or MAX in bytes, 1 <= MIN <= MAX <= 1g\n",
                ops_program, text);
        return false;
    }
    opts->size_min = first;
    opts->size_max = last;
    return true;
}

static bool read_plot(const char *text, struct perf_opts *opts)
{
    size_t length = strlen(text);

    if (length < 5 || strcmp(text + length - 4, ".svg") != 0) {
        fprintf(stderr, "%s: --plot %s: must be the name of a file that ends in .svg\n",
                ops_program, text);
        return false;
    }
    opts->plot = text;
    return true;
}

static bool read_memory(const char *text, struct perf_opts *opts)
{
    opts->is_private = strcmp(text, "private") == 0;
    if (!opts->is_private && strcmp(text, "alloc") != 0) {
        fprintf(stderr, "%s: --memory %s: must be alloc or private\n", ops_program, text);
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
    case OPT_JSON:
        opts->json = text;
        break;
    case OPT_PLOT:
        is_good = read_plot(text, opts);
        break;
    case OPT_VERSION:
        printf("%s %s\n", ops_program, ops_version());
        return -1;
    case 'h':
        print_help();
        return -1;
    default:
        is_good = false; /* getopt has said why */
        break;
    }
    if (!is_good) {
        fprintf(stderr, "%s --help lists all options\n", ops_program);
    }
    return is_good ? 0 : PERF_USAGE;
}

static bool add_test(const char *name, struct perf_opts *opts)
{
    const struct perf_test *test;

    if (opts->ntests == PERF_TESTS_MAX) {
        fprintf(stderr, "%s: more than %d tests\n", ops_program, PERF_TESTS_MAX);
        return false;
    }
    for (size_t i = 0; (test = perf_test_at(i)) != NULL; i++) {
        if (strcmp(test->name, name) == 0) {
            opts->tests[opts->ntests++] = test;
            return true;
        }
    }
    fprintf(stderr, "%s: no test is called %s; there are:", ops_program, name);
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
    return 0;
}
