/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel-info: what the library is, sees and has chosen, and why. Starts the library as any program
 * would; when that fails it prints all the same what can be known, since that is when people ask.
 * This file has the options and the course; the sections are in info_sections.c.
 */
#include "info.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECTIONS_MAX 16

struct options {
    enum info_form form;
    const struct info_section *sections[SECTIONS_MAX];
    size_t nsections;
};

static const char help_head[] =
    "Usage: oriel-info [OPTION...] [SECTION...]\n"
    "       mpirun -n RANKS oriel-info [OPTION...] [SECTION...]\n"
    "\n"
    "Print what the library is, sees and has chosen here, and why. In a job, rank 0 prints for\n"
    "all. When the library cannot start, what is known is printed with the reason.\n"
    "\n"
    "Sections (without a name: all)\n";

static const char help_options[] =
    "\n"
    "Options\n"
    "      --markdown        print tables in markdown\n"
    "      --json            print one JSON object\n"
    "      --settings FORM   print only what settings there are, as text, markdown (the table of\n"
    "                        the README) or man; starts nothing\n"
    "  -h, --help            print this text and end\n"
    "      --version         print the version of the library and end\n"
    "\n"
    "Status 0: the library works here; 1: it does not; 2: a wrong argument.\n";

enum {
    OPT_MARKDOWN = 256,
    OPT_JSON,
    OPT_SETTINGS,
    OPT_VERSION
};

static const struct option long_options[] = {
    { "markdown", no_argument, NULL, OPT_MARKDOWN },       { "json", no_argument, NULL, OPT_JSON },
    { "settings", required_argument, NULL, OPT_SETTINGS }, { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, OPT_VERSION },         { NULL, 0, NULL, 0 },
};

/* ---------------------------------------------------------------- the command line */

static void print_help(void)
{
    fputs(help_head, stdout);
    for (const struct info_section *s = info_sections; s->name != NULL; s++) {
        printf("  %-12s %s\n", s->name, s->text);
    }
    fputs(help_options, stdout);
}

/* Exit status, or -1 as sign of a good end. */
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
        fprintf(stderr, "oriel-info: --settings %s: must be text, markdown or man\n", name);
        return INFO_USAGE;
    }
    (void)oriel_settings_print(forms[which], NULL, 0, &bytes);
    text = malloc(bytes + 1);
    if (text == NULL) {
        fprintf(stderr, "oriel-info: no memory for %zu bytes\n", bytes + 1);
        return INFO_FAILED;
    }
    status = oriel_settings_print(forms[which], text, bytes + 1, &bytes);
    if (status == ORIEL_OK) {
        fputs(text, stdout);
    } else {
        fprintf(stderr, "oriel-info: settings: %s\n", oriel_error_detail());
    }
    free(text);
    return status == ORIEL_OK && fflush(stdout) == 0 ? -1 : INFO_FAILED;
}

/* 0: go on; -1: all done; else the exit status. */
static int read_option(int option, const char *text, struct options *options)
{
    switch (option) {
    case OPT_MARKDOWN:
        options->form = INFO_MARKDOWN;
        return 0;
    case OPT_JSON:
        options->form = INFO_JSON;
        return 0;
    case OPT_SETTINGS:
        return print_settings(text);
    case OPT_VERSION:
        printf("oriel-info %s\n", oriel_version(NULL, NULL, NULL));
        return -1;
    case 'h':
        print_help();
        return -1;
    default: /* getopt has said why */
        fputs("oriel-info --help lists all options\n", stderr);
        return INFO_USAGE;
    }
}

static bool has_section(const struct options *options, const struct info_section *section)
{
    for (size_t i = 0; i < options->nsections; i++) {
        if (options->sections[i] == section) {
            return true;
        }
    }
    return false;
}

static bool add_section(const char *name, struct options *options)
{
    for (const struct info_section *s = info_sections; s->name != NULL; s++) {
        if (strcmp(s->name, name) == 0 && !has_section(options, s)) {
            options->sections[options->nsections++] = s;
        }
        if (strcmp(s->name, name) == 0) {
            return true;
        }
    }
    fprintf(stderr, "oriel-info: no section is called %s; there are:", name);
    for (const struct info_section *s = info_sections; s->name != NULL; s++) {
        fprintf(stderr, " %s", s->name);
    }
    fputc('\n', stderr);
    return false;
}

static int read_options(int argc, char **argv, struct options *options)
{
    int option;

    memset(options, 0, sizeof(*options));
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        int status = read_option(option, optarg, options);

        if (status != 0) {
            return status;
        }
    }
    for (int i = optind; i < argc; i++) {
        if (!add_section(argv[i], options)) {
            return INFO_USAGE;
        }
    }
    for (const struct info_section *s = info_sections; optind == argc && s->name != NULL; s++) {
        options->sections[options->nsections++] = s;
    }
    return 0;
}

/* ---------------------------------------------------------------- the course */

/* Whether this process prints, when the library does not know its rank: the launcher's first. */
static bool is_first(void)
{
    static const char *const variables[] = { "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                             "SLURM_PROCID" };

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *text = getenv(variables[i]);

        if (text != NULL && strcmp(text, "0") != 0) {
            return false;
        }
    }
    return true;
}

/* A launcher may end the job at the first bad exit; the one that prints is to come first. */
static void let_others_print(void)
{
    struct timespec second = { .tv_sec = 1 };

    (void)fflush(stderr);
    while (nanosleep(&second, &second) != 0) {
    }
}

static bool wants_ranks(const struct options *options)
{
    for (size_t i = 0; i < options->nsections; i++) {
        if (options->sections[i]->needs_ranks) {
            return true;
        }
    }
    return false;
}

static bool print_all(const struct options *options, const struct info_scene *scene, int code,
                      const char *error)
{
    struct info_doc doc;

    info_doc_begin(&doc, options->form);
    for (size_t i = 0; i < options->nsections; i++) {
        options->sections[i]->print(&doc, options->sections[i], scene);
    }
    info_doc_error(&doc, code, error);
    return info_doc_end(&doc);
}

static int report(const struct options *options)
{
    struct oriel_init_opts init = ORIEL_INIT_OPTS_INIT;
    struct info_scene scene = { 0 };
    struct info_rank *ranks = NULL;
    char error[512];
    int code;
    bool is_open;

    init.flags = ORIEL_INIT_ONE_THREAD;
    code = oriel_init(&init);
    is_open = code == ORIEL_OK;
    if (is_open && wants_ranks(options)) {
        code = info_ranks_ask(&ranks);
        scene.ranks = code == ORIEL_OK ? ranks : NULL;
        scene.nranks = oriel_size();
    }
    (void)snprintf(error, sizeof(error), "%s", code == ORIEL_OK ? "" : oriel_error_detail());
    if (code != ORIEL_OK) {
        fprintf(stderr, "oriel-info: the library does not work here: %s\n", error);
    }
    bool prints = is_open ? oriel_rank() == 0 : is_first();
    if (prints && !print_all(options, &scene, code, error)) {
        fputs("oriel-info: cannot write all to standard output\n", stderr);
        code = code != ORIEL_OK ? code : ORIEL_ERR_SYS;
    }
    if (!prints && code != ORIEL_OK) {
        let_others_print();
    }
    free(ranks);
    if (is_open && oriel_finalize() != ORIEL_OK) {
        fprintf(stderr, "oriel-info: cannot end well: %s\n", oriel_error_detail());
        code = code != ORIEL_OK ? code : ORIEL_ERR_SYS;
    }
    return code == ORIEL_OK ? 0 : INFO_FAILED;
}

int main(int argc, char **argv)
{
    struct options options;
    int status = read_options(argc, argv, &options);

    if (status != 0) {
        return status < 0 ? 0 : status;
    }
    return report(&options);
}
