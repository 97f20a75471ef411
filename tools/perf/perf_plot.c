/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel-perf --plot: the results as one SVG, a panel for each test with sizes and one of bars for
 * the latencies that have a single size. gnuplot draws; its script and data go to its standard
 * input and the picture comes from its standard output, so that no file name is ever quoted. That
 * it is there, and that the file can be written, is known before the first test runs.
 */
#include "perf.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    COLUMNS = 3, /* panels in a row */
    PANEL_WIDTH = 400,
    PANEL_HEIGHT = 320
};

/* Text that grows. */
struct script {
    FILE *file;
    char *text;
    size_t bytes;
};

static int picture = -1;
static const char *path;

static struct script bars;   /* lines of data: name and median */
static struct script curves; /* blocks of data, one a panel */
static struct script panels; /* commands */
static size_t npanels;
static size_t nbars;

/* Start gnuplot with these descriptors as input and output; 0 or an errno. */
static int spawn_gnuplot(char *const argv[], int in, int out, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int error;

    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    error = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Its exit status, or -1. */
static int wait_for(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool has_gnuplot(void)
{
    char name[] = "gnuplot";
    char option[] = "--version";
    char *const argv[] = { name, option, NULL };
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    pid_t pid;
    bool is_there = spawn_gnuplot(argv, null, null, &pid) == 0 && wait_for(pid) == 0;

    (void)close(null);
    return is_there;
}

int perf_plot_open(const struct perf_opts *opts)
{
    path = opts->plot;
    if (path == NULL) {
        return 0;
    }
    if (!has_gnuplot()) {
        fprintf(stderr, "%s: --plot needs gnuplot, which is not here (Debian: gnuplot-nox)\n",
                ops_program);
        return -1;
    }
    picture = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (picture < 0) {
        fprintf(stderr, "%s: --plot: cannot write %s: %s\n", ops_program, path, strerror(errno));
        return -1;
    }
    bars.file = open_memstream(&bars.text, &bars.bytes);
    curves.file = open_memstream(&curves.text, &curves.bytes);
    panels.file = open_memstream(&panels.text, &panels.bytes);
    if (bars.file == NULL || curves.file == NULL || panels.file == NULL) {
        fprintf(stderr, "%s: --plot: no memory\n", ops_program);
        return -1;
    }
    return 0;
}

/* ---------------------------------------------------------------- results */

static void add_bar(const struct perf_run *run)
{
    struct perf_figures is = perf_figures_of(&run->sizes[0]);

    fprintf(bars.file, "\"%s\" %.6f\n", run->test->title, is.median);
    nbars++;
}

/* A block of data, and the commands of the panel that shows it. */
static void add_curve(const struct perf_run *run)
{
    static const char *const units[] = { "us", "GB/s", "million messages/s" };
    static const char *const scales[] = { "1", "1e3", "1e6" };
    const char *scale = scales[run->test->unit];
    bool is_latency = run->test->unit == PERF_LATENCY;

    fprintf(curves.file, "$d%zu << END\n", npanels);
    for (size_t i = 0; i < run->nsizes; i++) {
        struct perf_figures is = perf_figures_of(&run->sizes[i]);

        fprintf(curves.file, "%zu %.6f %.6f\n", run->sizes[i].bytes, is.median,
                is_latency ? is.p99 : is.min);
    }
    fputs("END\n", curves.file);
    fprintf(panels.file,
            "set title '%s (%s)'\n%s\nset yrange [%s:*]\n"
            "plot $d%zu using 1:($2/%s) with linespoints ls 1 title 'median', "
            "$d%zu using 1:($3/%s) with lines ls 2 title '%s'\n",
            run->test->title, units[run->test->unit],
            is_latency ? "set logscale y" : "unset logscale y", is_latency ? "*" : "0", npanels,
            scale, npanels, scale, is_latency ? "99th percentile" : "least");
    npanels++;
}

void perf_plot_test(const struct perf_run *run)
{
    if (path == NULL || run->nsizes == 0) {
        return;
    }
    if (run->nsizes == 1 && run->test->unit == PERF_LATENCY) {
        add_bar(run);
    } else {
        add_curve(run);
    }
}

/* ---------------------------------------------------------------- the picture */

static const char styles[] =
    "set style line 1 lc rgb '#1a5fb4' lw 2 pt 7 ps 0.4\n"
    "set style line 2 lc rgb '#c64600' lw 1.2 dt 2\n"
    "set grid ytics lc rgb '#dddddd' lt 1\n"
    "set border 3 lc rgb '#555555'\n"
    "set tics nomirror out\n"
    "unset mxtics\n"
    "set mytics 1\n"
    "set format y '%g'\n"
    "set key top left reverse Left samplen 2\n"
    "set logscale x 2\n"
    "set xtics ('1' 1, '16' 16, '256' 256, '4K' 4096, '64K' 65536, '1M' 1048576, '16M' 16777216)\n";

static const char bar_panel[] = "unset logscale\n"
                                "unset key\n"
                                "set title 'latency (us)'\n"
                                "set xtics auto\n"
                                "set xrange [-0.7:*]\n"
                                "set yrange [0:*]\n"
                                "set style fill solid\n"
                                "plot $bars using 0:2:(0.5):xtic(1) with boxes ls 1\n";

static void write_script(FILE *to, const struct ops_job *job)
{
    size_t all = npanels + (nbars > 0);
    size_t columns = all < COLUMNS ? all : COLUMNS;
    size_t rows = (all + columns - 1) / columns;

    fprintf(to, "set terminal svg size %zu,%zu dynamic font 'sans-serif,12' background '#ffffff'\n",
            columns * PANEL_WIDTH, rows * PANEL_HEIGHT);
    fprintf(to, "$bars << END\n%sEND\n%s%s", nbars > 0 ? bars.text : "", curves.text, styles);
    fprintf(to, "set multiplot layout %zu,%zu title '%s %.40s, %d rank%s on %d host%s'\n", rows,
            columns, ops_interface, ops_version(), job->size, job->size > 1 ? "s" : "", job->hosts,
            job->hosts > 1 ? "s" : "");
    fprintf(to, "%s%sunset multiplot\n", panels.text, nbars > 0 ? bar_panel : "");
}

/* The script goes down a pipe; a gnuplot that ends early must not end us with it. */
static bool draw(const struct ops_job *job)
{
    char name[] = "gnuplot";
    char *const argv[] = { name, NULL };
    int ends[2];
    pid_t pid;
    FILE *to;

    (void)signal(SIGPIPE, SIG_IGN);
    if (ftruncate(picture, 0) != 0 || pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    if (spawn_gnuplot(argv, ends[0], picture, &pid) != 0) {
        return false;
    }
    (void)close(ends[0]);
    to = fdopen(ends[1], "w");
    if (to != NULL) {
        write_script(to, job);
        (void)fclose(to);
    }
    return wait_for(pid) == 0;
}

static void close_script(struct script *script)
{
    (void)fclose(script->file);
    free(script->text);
}

int perf_plot_close(const struct ops_job *job)
{
    bool is_good;

    if (path == NULL || npanels + nbars == 0) {
        return 0;
    }
    (void)fflush(bars.file);
    (void)fflush(curves.file);
    (void)fflush(panels.file);
    is_good = draw(job);
    close_script(&bars);
    close_script(&curves);
    close_script(&panels);
    if (close(picture) != 0 || !is_good) {
        fprintf(stderr, "%s: --plot: gnuplot could not draw %s\n", ops_program, path);
        return -1;
    }
    return 0;
}
