/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks for the tests of the node segment: forked processes that share one node and nothing else of
 * the library. Each child ends by itself after a limit, so that no test can hang.
 */
#ifndef TESTS_FABRIC_NODE_RIG_H
#define TESTS_FABRIC_NODE_RIG_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "fabric/node.h"

#define RIG_LIMIT_S 60
#define RIG_ARENA   (UINT64_C(64) << 20)

/* Plain memory that all processes of a test share, besides the node under test. */
struct rig_shared {
    struct fab_node_ticket ticket;
    _Atomic uint32_t have_ticket;
    _Atomic uint32_t stop;
    _Atomic uint64_t word[64];
};

extern struct rig_shared *rig; /* zeroed by rig_begin */

void rig_begin(void);

/* What a child does: 0 is success. */
typedef int (*rig_fn)(int rank, void *arg);

/* Fork one child. */
pid_t rig_start(rig_fn fn, int rank, void *arg);
/* Exit status of the child, or 128 + the signal that ended it. */
int rig_wait(pid_t pid);
/* Fork n children with ranks 0 to n - 1 and wait for all; 0 when all returned 0. */
int rig_run(int n, rig_fn fn, void *arg);

/* Node of n ranks with me as number local: number 0 makes it, the others come by its ticket. NULL
 * on failure, which is printed. */
struct fab_node *rig_node(int n, int local);

/* Wait until word[i] is at least value; gives up at the child's limit. */
void rig_until(unsigned i, uint64_t value);
void rig_set(unsigned i, uint64_t value);
void rig_sleep_ms(int ms);
/* Files in /dev/shm and /tmp that segments have left. */
int rig_files_left(void);

/* In a child: end it as failed unless the condition holds. */
void rig_check_at(int holds, const char *text, const char *file, int line);
#define rig_check(x) rig_check_at((x) ? 1 : 0, #x, __FILE__, __LINE__)

#endif
