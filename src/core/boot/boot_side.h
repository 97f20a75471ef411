/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that may never return, bounded: each runs on a thread of its own, and whoever asked stops
 * waiting when the time is up. The thread is then left behind with the call; should it come back
 * after all, it frees what belongs to it and ends.
 */
#ifndef CORE_BOOT_BOOT_SIDE_H
#define CORE_BOOT_BOOT_SIDE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/attr.h"

/* Start of the caller's own structure, which is on the heap: it may outlive the caller's wait. */
struct core_side {
    void (*run)(struct core_side *side);
    void (*drop)(struct core_side *side); /* frees it; called for one that was left behind */
    _Atomic uint32_t state;
};

/* 0: it has run, and belongs to the caller again. TIMEOUT, without an error text: it still runs,
 * and belongs to its thread. SYS: no thread could be made; it belongs to the caller. */
int core_side_run(struct core_side *side, uint64_t timeout_ns) ORL_MUST_CHECK;

#endif
