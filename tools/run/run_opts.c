/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel-run's command line, and the search for the program, as a shell does it but before any rank
 * is started. Every wrong argument is named with what would be right; nothing is guessed.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef PACKAGE_VERSION
 #define PACKAGE_VERSION "unknown"
#endif

#define LIMIT_SECONDS_MAX 1e9

static const char help[] =
    "Usage: oriel-run -n RANKS [OPTION...] PROGRAM [ARGUMENT...]\n"
    "\n"
    "Start RANKS processes of PROGRAM on this host as one job and serve PMIx to them. When one\n"
    "fails the others are ended, and the job's exit status is that of the one that failed.\n"
    "For several hosts use mpirun or srun --mpi=pmix.\n"
    "\n"
    "Options\n"
    "  -n RANKS            how many, 1 to 4096\n"
    "  -x NAME[=VALUE]     set a variable for the ranks; NAME alone demands that it is set.\n"
    "                      The whole environment is handed on anyway\n"
    "      --bind core     bind each rank to a core of its own, spread over those allowed\n"
    "                      (default where there are enough)\n"
    "      --bind none     let the kernel place the ranks (default where ranks outnumber cores)\n"
    "      --tag           begin each line of output with [RANK], of errors with [RANK:err]\n"
    "      --timeout SECONDS  end the job after that time, with status 124\n"
    "      --keep          let the others go on when a rank fails, and tell them through PMIx\n"
    "  -v                  say on stderr what is done\n"
    "  -h, --help          print this text and end\n"
    "      --version       print the version and end\n"
    "\n"
    "Standard input goes to rank 0.\n"
    "\n"
    "Status 0: all ranks ended well; N: the first rank to fail exited with N; 128+S: it was killed\n"
    "by signal S, or oriel-run got S; 124: --timeout; 125: the job could not be started or served;\n"
    "126: PROGRAM cannot be executed; 127: it was not found; 2: a wrong argument.\n";

enum {
    OPT_BIND = 256,
    OPT_TAG,
    OPT_TIMEOUT,
    OPT_KEEP,
    OPT_VERSION
};

static const struct option long_options[] = {
    { "bind", required_argument, NULL, OPT_BIND },
    { "tag", no_argument, NULL, OPT_TAG },
    { "timeout", required_argument, NULL, OPT_TIMEOUT },
    { "keep", no_argument, NULL, OPT_KEEP },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, OPT_VERSION },
    { NULL, 0, NULL, 0 },
};

static int read_ranks(const char *text, int *ranks)
{
    char *end;

    errno = 0;
    long value = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < 1 ||
        value > RUN_RANKS_MAX) {
        run_say("-n %s: must be a number of ranks from 1 to %d", text, RUN_RANKS_MAX);
        return RUN_USAGE;
    }
    *ranks = (int)value;
    return -1;
}

static int read_bind(const char *text, enum run_bind *bind)
{
    if (strcmp(text, "core") == 0) {
        *bind = RUN_BIND_CORE;
    } else if (strcmp(text, "none") == 0) {
        *bind = RUN_BIND_NONE;
    } else {
        run_say("--bind %s: must be core or none", text);
        return RUN_USAGE;
    }
    return -1;
}

static int read_limit(const char *text, int64_t *limit_ns)
{
    char *end;
    double seconds = strtod(text, &end);

    if (text[strspn(text, "0123456789.")] != '\0' || end == text || *end != '\0' ||
        !(seconds >= 0.001) || seconds > LIMIT_SECONDS_MAX) {
        run_say("--timeout %s: must be a time in seconds, 0.001 or more, such as 90 or 0.5", text);
        return RUN_USAGE;
    }
    *limit_ns = (int64_t)(seconds * 1e9);
    return -1;
}

static int read_variable(char *text)
{
    const char *equals = strchr(text, '=');

    if (text[0] == '\0' || equals == text) {
        run_say("-x %s: must be NAME=VALUE or NAME", text);
        return RUN_USAGE;
    }
    if (equals == NULL && getenv(text) == NULL) {
        run_say("-x %s: no such variable is set here; give it as -x %s=VALUE", text, text);
        return RUN_USAGE;
    }
    if (equals != NULL && putenv(text) != 0) {
        run_say("-x %s: no memory", text);
        return RUN_BROKEN;
    }
    return -1;
}

static int refuse_option(int found, char **argv)
{
    const char *text = argv[optind - 1];

    if (found == ':' && optopt < OPT_BIND) {
        run_say("-%c: needs a value, see oriel-run --help", optopt);
    } else if (found == ':') {
        run_say("%s: needs a value, see oriel-run --help", text);
    } else if (optopt != 0 && optopt < OPT_BIND) {
        run_say("-%c: no such option, see oriel-run --help", optopt);
    } else {
        run_say("%s: %s, see oriel-run --help", text,
                optopt == 0 ? "no such option, or not a whole one" : "takes no value");
    }
    return RUN_USAGE;
}

static int print_version(void)
{
    printf("oriel-run %s with %s\n", PACKAGE_VERSION, PMIx_Get_version());
    return 0;
}

static int read_option(struct run_opts *opts, int found, char **argv)
{
    switch (found) {
    case 'n':
        return read_ranks(optarg, &opts->ranks);
    case 'x':
        return read_variable(optarg);
    case 'v':
        opts->is_verbose = true;
        return -1;
    case 'h':
        fputs(help, stdout);
        return 0;
    case OPT_BIND:
        return read_bind(optarg, &opts->bind);
    case OPT_TAG:
        opts->is_tagged = true;
        return -1;
    case OPT_TIMEOUT:
        return read_limit(optarg, &opts->limit_ns);
    case OPT_KEEP:
        opts->keeps_going = true;
        return -1;
    case OPT_VERSION:
        return print_version();
    default:
        return refuse_option(found, argv);
    }
}

int run_opts_read(struct run_opts *opts, int argc, char **argv)
{
    int found;

    opterr = 0;
    while ((found = getopt_long(argc, argv, "+:n:x:vh", long_options, NULL)) != -1) {
        int status = read_option(opts, found, argv);
        if (status >= 0) {
            return status;
        }
    }
    if (opts->ranks == 0) {
        run_say("say how many ranks to start, such as: oriel-run -n 4 %s",
                optind < argc ? argv[optind] : "PROGRAM");
        return RUN_USAGE;
    }
    if (optind == argc) {
        run_say("no program given, such as: oriel-run -n %d PROGRAM", opts->ranks);
        return RUN_USAGE;
    }
    opts->program = argv + optind;
    return -1;
}

/* 0, or why the file cannot be executed. */
static int try_file(const char *path)
{
    struct stat info;

    if (stat(path, &info) != 0) {
        return errno;
    }
    if (S_ISDIR(info.st_mode)) {
        return EISDIR;
    }
    return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

static int say_why(const char *name, int error)
{
    if (error == ENOENT || error == ENOTDIR) {
        run_say("%s: no such program%s", name,
                strchr(name, '/') == NULL ? " in the directories of PATH" : "");
        return RUN_UNKNOWN;
    }
    run_say("%s: cannot be executed: %s", name, strerror(error));
    return RUN_CANNOT;
}

/* Look for name in the directories of PATH; an empty one is the present directory. */
static char *search(const char *name, int *error)
{
    const char *list = getenv("PATH");

    *error = ENOENT;
    for (const char *at = list == NULL ? "/usr/bin:/bin" : list; at != NULL;) {
        size_t length = strcspn(at, ":");
        char *path = NULL;
        if (asprintf(&path, "%.*s%s%s", (int)length, at, length == 0 ? "./" : "/", name) < 0) {
            *error = ENOMEM;
            return NULL;
        }
        int problem = try_file(path);
        if (problem == 0) {
            *error = 0;
            return path;
        }
        if (problem == EACCES) {
            *error = problem;
        }
        free(path);
        at = at[length] == ':' ? at + length + 1 : NULL;
    }
    return NULL;
}

char *run_program_find(const char *name, int *status)
{
    char *path;
    int error;

    if (strchr(name, '/') == NULL && name[0] != '\0') {
        path = search(name, &error);
    } else {
        error = name[0] == '\0' ? ENOENT : try_file(name);
        path = error == 0 ? strdup(name) : NULL;
    }
    if (path == NULL) {
        *status = say_why(name[0] == '\0' ? "''" : name, error);
    }
    return path;
}
