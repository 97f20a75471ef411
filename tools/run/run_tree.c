/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes found through /proc: the children of this one, and all that carry an environment entry.
 * The /proc that is mounted may belong to an outer process space, whose numbers mean other
 * processes here; so each number is translated by the NSpid line of its status file.
 */
#include "run.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES   2048
#define BLANKS       " \t\n"
#define FLAG_EXITING 4 /* PF_EXITING of the kernel, as proc(5) shows it */

/* Counts the numbers in text and gives the one at level (from 1) in *pid. */
static int count_numbers(char *text, int level, pid_t *pid)
{
    int count = 0;
    char *rest = NULL;

    for (char *word = strtok_r(text, BLANKS, &rest); word != NULL;
         word = strtok_r(NULL, BLANKS, &rest)) {
        count++;
        if (count == level) {
            *pid = (pid_t)strtol(word, NULL, 10);
        }
    }
    return count;
}

/* The NSpid line of a process: its number in each space, outermost first. Returns how many, and
 * the one at level in *pid. */
static int read_spaces(const char *process, int level, pid_t *pid)
{
    char path[64];
    char line[256];
    int levels = 0;

    snprintf(path, sizeof(path), "/proc/%s/status", process);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    while (levels == 0 && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "NSpid:", 6) == 0) {
            levels = count_numbers(line + 6, level, pid);
        }
    }
    fclose(file);
    return levels;
}

/* How many process spaces lie between the mounted /proc and this process; 0: /proc is of no use. */
static int own_level(void)
{
    pid_t unused = 0;
    return read_spaces("self", 0, &unused);
}

/* The number by which this process can signal the one that /proc calls by name; 0: none. */
static pid_t translate(const char *name, int level)
{
    pid_t pid = 0;
    int levels = read_spaces(name, level, &pid);
    return levels >= level && pid > 1 ? pid : 0;
}

static int visit_listed(char *list, run_process_fn visit, void *argument)
{
    int level = own_level();
    int count = 0;
    char *rest = NULL;

    for (char *word = strtok_r(list, BLANKS, &rest); word != NULL && level > 0;
         word = strtok_r(NULL, BLANKS, &rest)) {
        pid_t pid = translate(word, level);
        if (pid > 0) {
            visit(pid, argument);
            count++;
        }
    }
    return count;
}

int run_tree_children(run_process_fn visit, void *argument)
{
    char *list = NULL;
    size_t capacity = 0;
    int count = 0;
    FILE *file = fopen("/proc/thread-self/children", "re");

    if (file == NULL) {
        return -1;
    }
    if (getline(&list, &capacity, file) > 0) {
        count = visit_listed(list, visit, argument);
    }
    fclose(file);
    free(list);
    return count;
}

/* The third and ninth word of the stat file; the second is in brackets and may hold anything. */
static bool is_exiting(const char *stat)
{
    const char *at = strrchr(stat, ')');

    if (at == NULL || at[1] != ' ') {
        return false;
    }
    char state = at[2];
    for (int word = 2; word < 9 && at != NULL; word++) {
        at = strchr(at + 1, ' ');
    }
    return state == 'Z' || state == 'X' || (at != NULL && (strtoul(at, NULL, 10) & FLAG_EXITING));
}

bool run_tree_is_dying(pid_t pid)
{
    char text[512];
    char self[32] = "";
    bool is_dying = false;

    if (readlink("/proc/self", self, sizeof(self) - 1) <= 0 || strtol(self, NULL, 10) != getpid()) {
        return false;
    }
    snprintf(text, sizeof(text), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(text, "re");
    if (file != NULL) {
        is_dying = fgets(text, sizeof(text), file) != NULL && is_exiting(text);
        fclose(file);
    }
    return is_dying;
}

/* Does the file of NUL-ended strings hold entry? Read in pieces that overlap by its length. */
static bool has_entry(const char *process, const char *entry)
{
    char path[64];
    char text[TEXT_BYTES];
    size_t length = strlen(entry) + 1;
    size_t used = 0;
    bool is_found = false;
    ssize_t got;

    snprintf(path, sizeof(path), "/proc/%s/environ", process);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    while (!is_found && (got = read(file, text + used, sizeof(text) - used)) > 0) {
        used += (size_t)got;
        is_found = memmem(text, used, entry, length) != NULL;
        if (used > length) {
            memmove(text, text + used - length, length);
            used = length;
        }
    }
    close(file);
    return is_found;
}

int run_tree_kill_by_entry(const char *entry)
{
    int level = own_level();
    int count = 0;
    DIR *directory = opendir("/proc");
    const struct dirent *item;

    while (directory != NULL && level > 0 && (item = readdir(directory)) != NULL) {
        if (item->d_name[0] < '1' || item->d_name[0] > '9' || !has_entry(item->d_name, entry)) {
            continue;
        }
        pid_t pid = translate(item->d_name, level);
        if (pid > 0 && pid != getpid() && kill(pid, SIGKILL) == 0) {
            count++;
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return count;
}
