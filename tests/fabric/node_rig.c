/* SPDX-License-Identifier: BSD-3-Clause */
/* See node_rig.h. Children end with _exit, so that nothing of the test framework runs in them. */
#include "node_rig.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"

struct rig_shared *rig;

void rig_begin(void)
{
    if (rig == NULL) {
        rig = mmap(NULL, sizeof(*rig), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    }
    memset((void *)rig, 0, sizeof(*rig));
}

pid_t rig_start(rig_fn fn, int rank, void *arg)
{
    pid_t pid = fork();

    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)signal(SIGALRM, SIG_DFL);
        (void)alarm(RIG_LIMIT_S);
        _exit(fn(rank, arg));
    }
    return pid;
}

int rig_wait(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) != pid) {
        if (errno != EINTR) {
            return -1;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int rig_run(int n, rig_fn fn, void *arg)
{
    pid_t pids[64];
    int failed = 0;

    for (int i = 0; i < n; i++) {
        pids[i] = rig_start(fn, i, arg);
    }
    for (int i = 0; i < n; i++) {
        int status = rig_wait(pids[i]);

        failed = failed != 0 ? failed : status;
    }
    return failed;
}

struct fab_node *rig_node(int n, int local)
{
    struct fab_node *node = NULL;
    int st;

    if (local == 0) {
        st = fab_node_create(&node, n, 77, RIG_ARENA, &rig->ticket);
        atomic_store(&rig->have_ticket, 1);
    } else {
        while (atomic_load(&rig->have_ticket) == 0) {
            rig_sleep_ms(1);
        }
        st = fab_node_attach(&node, &rig->ticket);
    }
    if (st == 0) {
        st = fab_node_join(node, local, local);
    }
    if (st != 0) {
        (void)fprintf(stderr, "rank %d: %s\n", local, orl_last_error());
        return NULL;
    }
    return node;
}

void rig_sleep_ms(int ms)
{
    struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

    while (nanosleep(&time, &time) != 0 && errno == EINTR) {
    }
}

void rig_until(unsigned i, uint64_t value)
{
    while (atomic_load(&rig->word[i]) < value) {
        rig_sleep_ms(1);
    }
}

void rig_set(unsigned i, uint64_t value)
{
    atomic_store(&rig->word[i], value);
}

static int files_in(const char *directory)
{
    DIR *dir = opendir(directory);
    struct dirent *entry;
    int n = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        n += strncmp(entry->d_name, "oriel-node-", 11) == 0;
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return n;
}

/* Where tests share /dev/shm (no namespaces to be had), another's segment may have its name just
 * now; what is left behind stays. */
int rig_files_left(void)
{
    int n = files_in("/dev/shm") + files_in("/tmp");

    for (int tries = 0; n > 0 && tries < 300; tries++) {
        rig_sleep_ms(10);
        n = files_in("/dev/shm") + files_in("/tmp");
    }
    return n;
}

void rig_check_at(int holds, const char *text, const char *file, int line)
{
    if (!holds) {
        (void)fprintf(stderr, "%s:%d: %s does not hold; last error: %s\n", file, line, text,
                      orl_last_error());
        _exit(99);
    }
}
