/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plan of a transfer over several rails: what every plan must be, over a grid of lengths and by
 * random weights, and what some plans are exactly.
 */
#include <criterion/criterion.h>

#include <stdbool.h>

#include "core/path/plan.h"

#define KIB 1024u
#define MIB (1024u * KIB)
#define GIB (UINT64_C(1024) * MIB)

/* What holds for every plan. Returns the number of parts. */
static int check(uint64_t bytes, const uint32_t *weight, int nrails, uint64_t least)
{
    struct core_plan_part part[CORE_PLAN_MAX];
    int n = core_plan(bytes, weight, nrails, least, part);
    bool seen[CORE_PLAN_MAX] = { false };
    uint64_t at = 0;

    cr_assert(n >= 0 && n <= nrails);
    for (int i = 0; i < n; i++) {
        cr_assert(part[i].rail >= 0 && part[i].rail < nrails);
        cr_assert_neq(weight[part[i].rail], 0, "rail %d is dead", part[i].rail);
        cr_assert(!seen[part[i].rail], "rail %d twice", part[i].rail);
        seen[part[i].rail] = true;
        cr_assert_eq(part[i].offset, at, "no gap and no overlap");
        cr_assert_eq(part[i].offset % CORE_PLAN_CUT, 0);
        cr_assert(n == 1 || part[i].bytes >= least);
        at += part[i].bytes;
    }
    cr_assert(n == 0 || at == bytes, "%llu of %llu bytes", (unsigned long long)at,
              (unsigned long long)bytes);
    return n;
}

/* covers: H1 */
Test(plan, grid)
{
    static const uint32_t weights[][CORE_PLAN_MAX] = {
        { 1 },
        { 10000, 10000 },
        { 100000, 25000, 10000 },
        { 1, UINT32_MAX },
        { 0, 10000, 0, 10000, 1 },
        { 7, 6, 5, 4, 3, 2, 1, 1 },
        { UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX,
          UINT32_MAX },
    };
    static const uint64_t lengths[] = { 0,
                                        1,
                                        8,
                                        4095,
                                        4096,
                                        4097,
                                        64 * KIB - 1,
                                        64 * KIB,
                                        64 * KIB + 1,
                                        128 * KIB - 1,
                                        128 * KIB,
                                        128 * KIB + 1,
                                        8 * MIB,
                                        8 * MIB + 1,
                                        GIB,
                                        3 * GIB + 5,
                                        UINT64_MAX };
    static const uint64_t leasts[] = { 4096, 64 * KIB, 1 * MIB, UINT64_C(1) << 40 };

    for (size_t w = 0; w < sizeof(weights) / sizeof(weights[0]); w++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            for (size_t m = 0; m < sizeof(leasts) / sizeof(leasts[0]); m++) {
                cr_assert_geq(check(lengths[i], weights[w], CORE_PLAN_MAX, leasts[m]), 1);
            }
        }
    }
}

static uint64_t state = 12345;

static uint64_t draw(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return state >> 20;
}

Test(plan, random_properties)
{
    for (int round = 0; round < 200000; round++) {
        uint32_t weight[CORE_PLAN_MAX] = { 0 };
        int nrails = (int)(draw() % CORE_PLAN_MAX) + 1;
        uint64_t bytes = draw() >> draw() % 44;
        uint64_t least = 4096 + draw() % (256 * KIB);
        bool any = false;

        for (int r = 0; r < nrails; r++) {
            weight[r] = draw() % 4 == 0 ? 0 : (uint32_t)(draw() >> draw() % 40);
            any = any || weight[r] != 0;
        }
        cr_assert_eq(check(bytes, weight, nrails, least) > 0, any);
    }
}

Test(plan, equal_rails_share_equally)
{
    static const uint32_t weight[] = { 10000, 10000 };
    struct core_plan_part part[CORE_PLAN_MAX];

    cr_assert_eq(core_plan(8 * MIB, weight, 2, 64 * KIB, part), 2);
    cr_assert_eq(part[0].bytes, 4 * MIB);
    cr_assert_eq(part[1].rail, 1);
    cr_assert_eq(part[1].offset, 4 * MIB);
    cr_assert_eq(core_plan(128 * KIB, weight, 2, 64 * KIB, part), 2);
    cr_assert_eq(core_plan(128 * KIB - 1, weight, 2, 64 * KIB, part), 1, "a half were too small");
    cr_assert_eq(part[0].rail, 0);
}

Test(plan, shares_follow_the_weights)
{
    static const uint32_t weight[] = { 30000, 10000 };
    struct core_plan_part part[CORE_PLAN_MAX];

    cr_assert_eq(core_plan(64 * MIB, weight, 2, 64 * KIB, part), 2);
    cr_assert_eq(part[0].bytes, 48 * MIB);
    cr_assert_eq(part[1].bytes, 16 * MIB);
}

Test(plan, slow_and_dead_rails_are_left_out)
{
    static const uint32_t slow[] = { 100, 100000, 100000 };
    static const uint32_t dead[] = { 0, 10000, 0 };
    static const uint32_t none[] = { 0, 0 };
    struct core_plan_part part[CORE_PLAN_MAX];

    cr_assert_eq(core_plan(1 * MIB, slow, 3, 64 * KIB, part), 2);
    cr_assert_eq(part[0].rail, 1);
    cr_assert_eq(part[1].rail, 2);
    cr_assert_eq(core_plan(1 * MIB, dead, 3, 64 * KIB, part), 1);
    cr_assert_eq(part[0].rail, 1);
    cr_assert_eq(core_plan(100, slow, 3, 64 * KIB, part), 1);
    cr_assert_eq(part[0].rail, 0, "small ones take the first, which the path has put first");
    cr_assert_eq(core_plan(1 * MIB, none, 2, 64 * KIB, part), 0);
}
