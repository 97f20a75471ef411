/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plan of a transfer; see plan.h. Keeps nothing, knows no rail but by its weight.
 */
#include "core/path/plan.h"

#include <stdbool.h>

/* Weights are scaled down to this many bits, so that no product of a share overflows. */
#define WEIGHT_BITS 16

/* The rails that take part: numbers and scaled weights. */
struct crew {
    int n;
    int rail[CORE_PLAN_MAX];
    uint64_t weight[CORE_PLAN_MAX];
};

static void gather(const uint32_t *weight, int nrails, struct crew *crew)
{
    uint32_t most = 0;
    int shift = 0;

    for (int r = 0; r < nrails; r++) {
        most = weight[r] > most ? weight[r] : most;
    }
    while (most >> shift >= 1u << WEIGHT_BITS) {
        shift++;
    }
    crew->n = 0;
    for (int r = 0; r < nrails && r < CORE_PLAN_MAX; r++) {
        if (weight[r] != 0) {
            uint64_t scaled = weight[r] >> shift;

            crew->rail[crew->n] = r;
            crew->weight[crew->n++] = scaled == 0 ? 1 : scaled;
        }
    }
}

static void leave_slowest(struct crew *crew)
{
    int slowest = 0;

    for (int i = 1; i < crew->n; i++) {
        if (crew->weight[i] <= crew->weight[slowest]) {
            slowest = i;
        }
    }
    crew->n--;
    for (int i = slowest; i < crew->n; i++) {
        crew->rail[i] = crew->rail[i + 1];
        crew->weight[i] = crew->weight[i + 1];
    }
}

/* False: some part would be too small. */
static bool share(uint64_t bytes, const struct crew *crew, uint64_t least,
                  struct core_plan_part *part)
{
    uint64_t total = 0;
    uint64_t before = 0;
    uint64_t at = 0;

    for (int i = 0; i < crew->n; i++) {
        total += crew->weight[i];
    }
    for (int i = 0; i < crew->n; i++) {
        uint64_t end = bytes;

        before += crew->weight[i];
        if (i + 1 < crew->n) {
            end = bytes / total * before + bytes % total * before / total;
            end -= end % CORE_PLAN_CUT;
        }
        if (end < at || end - at < least) {
            return false;
        }
        part[i] = (struct core_plan_part){ .rail = crew->rail[i], .offset = at, .bytes = end - at };
        at = end;
    }
    return true;
}

int core_plan(uint64_t bytes, const uint32_t *weight, int nrails, uint64_t least,
              struct core_plan_part part[CORE_PLAN_MAX])
{
    struct crew crew;
    int first;

    gather(weight, nrails, &crew);
    if (crew.n == 0) {
        return 0;
    }
    first = crew.rail[0];
    while (crew.n > 1) {
        if (share(bytes, &crew, least, part)) {
            return crew.n;
        }
        leave_slowest(&crew);
    }
    part[0] = (struct core_plan_part){ .rail = first, .bytes = bytes };
    return 1;
}
