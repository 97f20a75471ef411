/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who of the job has ended while others still wait for it in the start: what the launcher tells
 * (any thread hands it in), and what can be seen of my host's ranks in /proc (the thread in
 * oriel_init looks). Whoever is named is gone for sure; where that cannot be told, nobody is named.
 */
#ifndef CORE_BOOT_BOOT_WATCH_H
#define CORE_BOOT_BOOT_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"

/* A rank that none of the looks has found is named after this time without any news. */
#define CORE_WATCH_PATIENCE_NS UINT64_C(3000000000)

/* ---------------------------------------------------------------- told */

enum core_end_how {
    CORE_END_UNKNOWN,
    CORE_END_NORMAL, /* in good order: a death only to somebody who waits for it */
    CORE_END_EXIT,   /* number: exit status */
    CORE_END_SIGNAL, /* number: signal */
    CORE_END_ABORT   /* number: code it gave */
};

struct core_end {
    int rank;
    enum core_end_how how;
    int number;
    uint64_t when; /* orl_clock_kernel_ns */
};

/* The launcher says that a rank has ended. Any thread, no lock; what is told twice counts once. */
void core_end_told(int rank, enum core_end_how how, int number);
/* How many have been told; only grows. */
unsigned core_end_count(void);
/* The one with that index, below core_end_count. False: it is just being written. */
bool core_end_at(unsigned i, struct core_end *end);
/* The same by rank; false: nothing is known of it. */
bool core_end_of(int rank, struct core_end *end);
/* " (killed by signal 9)", or "" where the way is not known. */
void core_end_text(const struct core_end *end, char *text, size_t capacity);
void core_end_forget_for_test(void);

/* ---------------------------------------------------------------- seen */

/* Whether that very process runs: a zombie does not. True where it cannot be told. */
bool core_process_runs(pid_t pid, uint64_t start_time);

/* Watch these ranks of the namespace; `me` is this process's. Errors: NOMEM. */
int core_watch_open(const char *nspace, const int *ranks, int n, int me) ORL_MUST_CHECK;
void core_watch_close(void);
struct core_gone {
    int rank;      /* of several, the one that has been out of sight for longest, or the lowest */
    bool was_seen; /* it has been seen to run */
    int others;    /* how many more are gone */
    char list[64]; /* the first of those: "3, 5" */
};

/* Ranks that have ended, or that never appeared although nothing new has for `patience_ns`. False:
 * none, not yet, or it cannot be told. Looks at the machine at most every 100 ms, and so that it
 * takes a twentieth of the time. */
bool core_watch_look(uint64_t patience_ns, struct core_gone *gone);
/* Adds a rank to those that are gone; `gone` begins with rank -1. */
void core_gone_add(struct core_gone *gone, int rank, bool was_seen);
/* ", and so are 3, 5", or "". */
void core_gone_text(const struct core_gone *gone, char *text, size_t capacity);

#endif
