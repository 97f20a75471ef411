/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process of two ranks and two engines: rank 0 and rank 1 are both this very process, and two
 * loopback engines play the networks between them. What rank 0 does to rank 1 goes over two rails,
 * moves real bytes, and stands still until the test makes progress; rails die when a test says so.
 */
#ifndef TESTS_CORE_TWO_RAILS_H
#define TESTS_CORE_TWO_RAILS_H

#include <stdint.h>

#include "core/mem/mem.h"
#include "core/path/path.h"

#define LOOP_PEER 1

/* The process, as rank 0 of 2 with `nengines` engines of those speeds; settings from the
 * environment. */
void loop_open(int nengines, const uint32_t *mbps);
void loop_close(void);
/* The path to rank 1. */
struct core_path *loop_path(void);
/* Memory of "rank 1", to be reached by operations alone. */
struct oriel_remote *loop_remote(void *base, uint64_t bytes, struct oriel_mem **mem);
/* The endpoint of that rail fails; what it holds ends with LINK from the next progress. */
void loop_kill(int rail);
/* Progress until nothing happens any more. */
void loop_settle(void);

#endif
