/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looking for ranks that have ended, without help of the launcher's server; see boot_watch.h.
 *
 * Ranks are found by what their launcher leaves in their environment: name space and rank. The
 * launcher is the first of my ancestors without my name space, so that shells around the program
 * do not hide it; its children with my name space are the ranks of this host, or the shells around
 * them. A rank found once is known by process number and start time. One whose process has ended
 * may live on in a process that this one made and that has another parent now, so all processes are
 * asked before a rank is named.
 *
 * Nobody is named where the view is partial: no /proc, that of another pid namespace, processes
 * hidden, a launcher out of sight or a new one. Then the time-outs of the start remain.
 */
#include "core/boot/boot_watch.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "base/sys.h"

#define LOOK_MIN_NS  (100 * ORL_NS_PER_MS)
#define LOOK_MAX_NS  ORL_NS_PER_S
#define LOOK_SHARE   20 /* one part in so many of the time goes into looking */
#define PARENTS_MAX  64
#define NSPACE_BYTES 256
#define PATH_BYTES   32

struct process {
    pid_t pid;
    pid_t parent;
    char state;
    uint64_t start;
};

/* What the environment of a process tells. */
struct labels {
    bool is_known;  /* it could be read, and there was one */
    bool has_space; /* my name space */
    int rank;       /* -1: none */
};

struct watched {
    int rank;
    pid_t pid; /* 0: not found yet */
    uint64_t start;
};

static struct {
    char nspace[NSPACE_BYTES];
    struct watched *ranks; /* owns; NULL: not open */
    int n;
    int me;
    pid_t launcher; /* 0: not found yet */
    uint64_t launcher_start;
    bool is_blind;
    bool has_doubt; /* a child of the launcher may be a rank that cannot be read */
    uint64_t next;  /* no look before */
    uint64_t news;  /* when a rank was last found */
} watch;

/* ---------------------------------------------------------------- one process */

static const char *path_of(char path[PATH_BYTES], pid_t pid, const char *file)
{
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, path, PATH_BYTES);
    orl_strbuf_addf(&sb, "/proc/%d/%s", (int)pid, file);
    return path;
}

/* False when there is no such process, or it cannot be read. */
static bool read_process(pid_t pid, struct process *process)
{
    char path[PATH_BYTES];
    char text[1024];
    if (!orl_sys_read_text(path_of(path, pid, "stat"), text, sizeof(text))) {
        return false;
    }
    /* The name in parentheses may hold anything; state and parent follow it, the start time is the
     * 20th field from there (proc(5)). */
    const char *field = strrchr(text, ')');
    if (field == NULL || field[1] != ' ') {
        return false;
    }
    *process = (struct process){ .pid = pid, .state = field[2] };
    for (int i = 1; field != NULL && i <= 20; i++) {
        field = strchr(field + 1, ' ');
        if (field != NULL && i == 2) {
            process->parent = (pid_t)strtol(field, NULL, 10);
        }
    }
    process->start = field != NULL ? strtoull(field, NULL, 10) : 0;
    return process->start != 0 || pid == 1;
}

static bool has_ended(const struct process *process)
{
    return process->state == 'Z' || process->state == 'X' || process->state == 'x';
}

bool core_process_runs(pid_t pid, uint64_t start_time)
{
    struct process process;
    if (read_process(pid, &process)) {
        return process.start == start_time && !has_ended(&process);
    }
    return !read_process(getpid(), &process); /* no /proc to tell from */
}

/* One NAME=VALUE of an environment. */
static void read_label(const char *text, struct labels *labels)
{
    static const char space[] = "PMIX_NAMESPACE=";
    static const char rank[] = "PMIX_RANK=";
    if (strncmp(text, space, sizeof(space) - 1) == 0) {
        labels->has_space = strcmp(text + sizeof(space) - 1, watch.nspace) == 0;
    } else if (strncmp(text, rank, sizeof(rank) - 1) == 0) {
        char *end;
        long number = strtol(text + sizeof(rank) - 1, &end, 10);
        labels->rank = *end == '\0' && number >= 0 && number <= INT32_MAX ? (int)number : -1;
    }
}

/* The entry that is being read. */
struct entry {
    char text[NSPACE_BYTES + 32];
    size_t length;
};

/* Entries that are longer than the ones looked for are cut. */
static void read_letter(struct entry *entry, char letter, struct labels *labels)
{
    if (entry->length < sizeof(entry->text) - 1) {
        entry->text[entry->length++] = letter;
    }
    if (letter == '\0') {
        entry->text[entry->length] = '\0';
        read_label(entry->text, labels);
        entry->length = 0;
    }
}

/* The environment that a process was started with. */
static struct labels read_labels(pid_t pid)
{
    struct labels labels = { .rank = -1 };
    struct entry entry = { .length = 0 };
    char path[PATH_BYTES];
    char part[2048];
    ssize_t n;
    int fd = open(path_of(path, pid, "environ"), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return labels;
    }
    while ((n = read(fd, part, sizeof(part))) > 0) {
        labels.is_known = true;
        for (ssize_t i = 0; i < n; i++) {
            read_letter(&entry, part[i], &labels);
        }
    }
    close(fd);
    return labels;
}

/* ---------------------------------------------------------------- all processes */

/* True to go on with the next one. */
typedef bool (*visit_fn)(const struct process *process, void *arg);

static void each_process(visit_fn visit, void *arg)
{
    DIR *dir = opendir("/proc");
    bool goes_on = dir != NULL;
    while (goes_on) {
        struct process process;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            break;
        }
        if (isdigit((unsigned char)entry->d_name[0]) &&
            read_process((pid_t)strtol(entry->d_name, NULL, 10), &process) &&
            !has_ended(&process)) {
            goes_on = visit(&process, arg);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static struct watched *find_rank(int rank)
{
    for (int i = 0; i < watch.n; i++) {
        if (watch.ranks[i].rank == rank) {
            return &watch.ranks[i];
        }
    }
    return NULL;
}

static bool is_found(const struct process *process)
{
    for (int i = 0; i < watch.n; i++) {
        if (watch.ranks[i].pid == process->pid && watch.ranks[i].start == process->start) {
            return true;
        }
    }
    return false;
}

/* Two processes with one program, where it can be told: one has been forked by the other and has
 * not started its own yet. */
static bool is_same_program(pid_t a, pid_t b)
{
    char path[PATH_BYTES];
    char program[2][512];
    ssize_t na = readlink(path_of(path, a, "exe"), program[0], sizeof(program[0]));
    ssize_t nb = readlink(path_of(path, b, "exe"), program[1], sizeof(program[1]));
    return na < 0 || nb < 0 || (na == nb && memcmp(program[0], program[1], (size_t)na) == 0);
}

/* Takes note of a child of the launcher. */
static bool find_child(const struct process *process, void *arg)
{
    (void)arg;
    if (process->parent != watch.launcher || is_found(process)) {
        return true;
    }
    struct labels labels = read_labels(process->pid);
    struct watched *rank = labels.has_space && labels.rank >= 0 ? find_rank(labels.rank) : NULL;
    if (rank != NULL && rank->pid == 0) {
        rank->pid = process->pid;
        rank->start = process->start;
        watch.news = orl_clock_kernel_ns();
    } else if (!labels.is_known ||
               (!labels.has_space && is_same_program(process->pid, watch.launcher))) {
        watch.has_doubt = true;
    }
    return true;
}

struct heir {
    int rank;
    struct process process;
    bool is_found;
};

static bool find_heir(const struct process *process, void *arg)
{
    struct heir *heir = arg;
    struct labels labels = read_labels(process->pid);
    heir->is_found = labels.has_space && labels.rank == heir->rank;
    heir->process = *process;
    return !heir->is_found;
}

/* Whether anything of the rank runs at all; if so, that is what is watched from now on. */
static bool has_heir(struct watched *rank)
{
    struct heir heir = { .rank = rank->rank };
    each_process(find_heir, &heir);
    if (heir.is_found) {
        rank->pid = heir.process.pid;
        rank->start = heir.process.start;
        watch.news = orl_clock_kernel_ns();
    }
    return heir.is_found;
}

/* ---------------------------------------------------------------- the launcher */

/* The /proc here is that of my pid namespace, and hides nothing. */
static bool sees_everything(void)
{
    char text[16];
    struct process process;
    ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 && strtol(text, NULL, 10) == (long)getpid() && read_process(1, &process);
}

/* The first ancestor that is not of my name space; one that cannot be read is not. */
static bool find_launcher(struct process *launcher)
{
    pid_t pid = getppid();
    for (int i = 0; i < PARENTS_MAX && pid > 0 && read_process(pid, launcher); i++) {
        if (!read_labels(pid).has_space) {
            return true;
        }
        pid = launcher->parent;
    }
    return false;
}

/* The same launcher as ever, or none to rely on. */
static bool has_launcher(void)
{
    struct process launcher;
    if (!sees_everything() || !find_launcher(&launcher)) {
        return false;
    }
    if (watch.launcher == 0) {
        watch.launcher = launcher.pid;
        watch.launcher_start = launcher.start;
    }
    return launcher.pid == watch.launcher && launcher.start == watch.launcher_start;
}

/* ---------------------------------------------------------------- watching */

int core_watch_open(const char *nspace, const int *ranks, int n, int me)
{
    struct orl_strbuf sb;
    core_watch_close();
    watch.ranks = calloc((size_t)n, sizeof(*watch.ranks));
    if (watch.ranks == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory to watch %d ranks", n);
    }
    for (int i = 0; i < n; i++) {
        watch.ranks[i].rank = ranks[i];
    }
    watch.n = n;
    watch.me = me;
    orl_strbuf_init(&sb, watch.nspace, sizeof(watch.nspace));
    orl_strbuf_add(&sb, nspace);
    watch.is_blind = orl_strbuf_is_full(&sb);
    watch.news = orl_clock_kernel_ns();
    return 0;
}

void core_watch_close(void)
{
    free(watch.ranks);
    memset(&watch, 0, sizeof(watch));
}

/* Finds those not found yet; returns how many are still missing. */
static int find_ranks(void)
{
    int missing = 0;
    for (int i = 0; i < watch.n; i++) {
        missing += watch.ranks[i].pid == 0;
    }
    watch.has_doubt = false;
    if (missing > 0) {
        each_process(find_child, NULL);
    }
    missing = 0;
    for (int i = 0; i < watch.n; i++) {
        missing += watch.ranks[i].pid == 0;
    }
    return missing;
}

/* Those that were never found come first: they have been gone for longer than those that were. */
static void name_missing(uint64_t patience_ns, struct core_gone *gone)
{
    if (watch.has_doubt || orl_clock_kernel_ns() - watch.news < patience_ns) {
        return;
    }
    for (int i = 0; i < watch.n; i++) {
        struct watched *rank = &watch.ranks[i];
        if (rank->rank != watch.me && rank->pid == 0 && !has_heir(rank)) {
            core_gone_add(gone, rank->rank, false);
        }
    }
}

static void name_ended(struct core_gone *gone)
{
    for (int i = 0; i < watch.n; i++) {
        struct watched *rank = &watch.ranks[i];
        if (rank->rank != watch.me && rank->pid != 0 &&
            !core_process_runs(rank->pid, rank->start) && !has_heir(rank)) {
            core_gone_add(gone, rank->rank, true);
        }
    }
}

bool core_watch_look(uint64_t patience_ns, struct core_gone *gone)
{
    uint64_t begin = orl_clock_kernel_ns();
    *gone = (struct core_gone){ .rank = -1 };
    if (watch.ranks == NULL || watch.is_blind || begin < watch.next) {
        return false;
    }
    if (!has_launcher()) {
        orl_log_debug(ORL_CAT_BOOT, "cannot watch the ranks of this host: no launcher in /proc");
        watch.is_blind = true;
        return false;
    }
    if (find_ranks() > 0) {
        name_missing(patience_ns, gone);
    }
    name_ended(gone);
    uint64_t now = orl_clock_kernel_ns();
    uint64_t pause = LOOK_SHARE * (now - begin);
    pause = pause > LOOK_MIN_NS ? pause : LOOK_MIN_NS;
    watch.next = now + (pause < LOOK_MAX_NS ? pause : LOOK_MAX_NS);
    return gone->rank >= 0;
}
