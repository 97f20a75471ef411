/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plan of a transfer: which rail carries which part of it. A pure function, tested without any
 * network.
 */
#ifndef CORE_PATH_PLAN_H
#define CORE_PATH_PLAN_H

#include <stdint.h>

#define CORE_PLAN_MAX 8
#define CORE_PLAN_CUT 4096 /* pieces begin at multiples of this */

struct core_plan_part {
    int rail;
    uint64_t offset;
    uint64_t bytes;
};

/* Cut `bytes` for rails [0, nrails), at most CORE_PLAN_MAX, in proportion to their weights; weight
 * 0: it does not serve. The parts come in order, cover everything once, begin at multiples of
 * CORE_PLAN_CUT, and none is smaller than `least` where there are several; what cannot be cut so
 * goes whole to the first rail that serves, the best. Slow rails are left out first. Returns the
 * number of parts: 0 only when no rail serves. */
int core_plan(uint64_t bytes, const uint32_t *weight, int nrails, uint64_t least,
              struct core_plan_part part[CORE_PLAN_MAX]);

#endif
