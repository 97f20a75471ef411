/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The session directory and the cleaner. The directory holds what the PMIx library keeps in files;
 * it is made by mkdtemp, never named by a process number, which repeats between process spaces.
 *
 * The cleaner is a child in a session of its own that waits for the supervisor's end of a pipe to
 * close. If that happens without a word before, the supervisor was killed: the cleaner then kills
 * what carries the job's name in its environment and removes the directory. It keeps the lock on
 * the directory; a directory without one has lost its cleaner too, and the next start removes it.
 */
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "oriel-run."
/* A directory this young may not have been locked yet. */
#define STALE_SECONDS 2
/* PMIx appends names of its own, and a path has 4096 bytes. */
#define BASE_BYTES_MAX 3500
#define ROOM_BYTES     (4 << 20)
#define TREE_DEPTH_MAX 32
#define KILL_ROUNDS    50

static bool has_closed_directory;

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)where;
    if (kind == FTW_DNR) {
        (void)chmod(path, S_IRWXU);
        has_closed_directory = true;
        return 0;
    }
    (void)remove(path);
    return 0;
}

/* A rank may have closed a directory of its own to us; each round opens one level of them. */
static void remove_tree(const char *path)
{
    for (int round = 0; round < TREE_DEPTH_MAX; round++) {
        has_closed_directory = false;
        (void)nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        if (!has_closed_directory) {
            return;
        }
    }
}

static bool is_stale(int base, const char *name)
{
    struct stat info;
    int directory = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0) {
        return false;
    }
    bool stale = fstat(directory, &info) == 0 && info.st_uid == geteuid() &&
                 info.st_mtime + STALE_SECONDS < time(NULL) &&
                 flock(directory, LOCK_EX | LOCK_NB) == 0;
    close(directory);
    return stale;
}

static void sweep(const char *base)
{
    DIR *directory = opendir(base);
    const struct dirent *item;
    char *path = NULL;

    if (directory == NULL) {
        return;
    }
    while ((item = readdir(directory)) != NULL) {
        if (strncmp(item->d_name, PREFIX, sizeof(PREFIX) - 1) != 0 ||
            !is_stale(dirfd(directory), item->d_name)) {
            continue;
        }
        if (asprintf(&path, "%s/%s", base, item->d_name) >= 0) {
            remove_tree(path);
            free(path);
        }
    }
    closedir(directory);
}

/* Between the sight of a process and its death it may have made another: until none is found. */
static void kill_job(const char *name)
{
    char entry[sizeof("PMIX_NAMESPACE=") + RUN_NAME_BYTES];
    const struct timespec pause = { .tv_nsec = 2000000 };

    snprintf(entry, sizeof(entry), "PMIX_NAMESPACE=%s", name);
    for (int round = 0; round < KILL_ROUNDS && run_tree_kill_by_entry(entry) > 0; round++) {
        nanosleep(&pause, NULL);
    }
}

static void clean(const struct run_job *job, int supervisor, const char *base)
{
    char word = 0;
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    (void)setsid();
    (void)!chdir("/");
    /* Nothing may wait for this process to close an output, and no other job keep our name. */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++) {
        (void)dup2(null, fd);
    }
    run_env_hide();
    sweep(base);
    ssize_t got;
    do {
        got = read(supervisor, &word, 1);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
        kill_job(job->name);
        remove_tree(job->directory);
    }
    _exit(0);
}

/* The server keeps a few pieces of a megabyte there, and ranks that share them fail obscurely when
 * there is no room. */
static bool has_room(const char *base)
{
    struct statvfs space;
    return statvfs(base, &space) != 0 || space.f_blocks == 0 ||
           (uint64_t)space.f_bavail * space.f_frsize >= ROOM_BYTES;
}

/* The place of temporary files, as TMPDIR has it where that can be used. Owned by the caller. */
static char *find_base(void)
{
    const char *wanted = getenv("TMPDIR");
    char *path = NULL;

    if (wanted != NULL && wanted[0] != '\0') {
        path = realpath(wanted, NULL);
    }
    if (path != NULL &&
        (strlen(path) > BASE_BYTES_MAX || access(path, W_OK | X_OK) != 0 || !has_room(path))) {
        free(path);
        path = NULL;
    }
    return path == NULL ? strdup("/tmp") : path;
}

static bool make_directory(struct run_job *job, const char *base, int *lock)
{
    char *template = NULL;

    if (!has_room(base)) {
        run_say("%s has less than %d MiB of room; set TMPDIR to a directory with more", base,
                ROOM_BYTES >> 20);
        return false;
    }
    if (asprintf(&template, "%s/" PREFIX "XXXXXX", base) < 0) {
        return false;
    }
    job->directory = mkdtemp(template);
    if (job->directory == NULL) {
        run_say("cannot make a directory in %s: %s; set TMPDIR to one that can be written", base,
                strerror(errno));
        free(template);
        return false;
    }
    /* The namespace is the directory's name, with a dash for the dot. */
    snprintf(job->name, sizeof(job->name), "oriel-run-%s",
             job->directory + strlen(job->directory) - 6);
    *lock = open(job->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0 || flock(*lock, LOCK_EX | LOCK_NB) != 0) {
        run_trace(job, "cannot lock %s: %s", job->directory, strerror(errno));
    }
    return true;
}

bool run_session_open(struct run_job *job)
{
    int ends[2];
    int lock = -1;
    char *base = find_base();

    if (base == NULL || !make_directory(job, base, &lock)) {
        free(base);
        return false;
    }
    if (pipe2(ends, O_CLOEXEC) == 0) {
        job->cleaner = fork();
        if (job->cleaner == 0) {
            close(ends[1]);
            clean(job, ends[0], base);
        }
        close(ends[0]);
        job->cleaner_pipe = ends[1];
    }
    if (job->cleaner <= 0) {
        run_say("cannot start the process that cleans up: %s", strerror(errno));
        remove_tree(job->directory);
    }
    if (lock >= 0) {
        close(lock);
    }
    free(base);
    run_trace(job, "session directory %s", job->directory);
    return job->cleaner > 0;
}

void run_session_close(struct run_job *job)
{
    remove_tree(job->directory);
    (void)!write(job->cleaner_pipe, "", 1);
    close(job->cleaner_pipe);
    while (waitpid(job->cleaner, NULL, 0) < 0 && errno == EINTR) {
    }
    free(job->directory);
}
