/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The range set: edges of ranges, overlap, order of walking, depth with sorted input, and 100,000
 * random operations against a sorted array.
 */
#include "base/ranges.h"
#include "base/status.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static int thing[64];

static void add(struct orl_ranges *ranges, uint64_t start, uint64_t end, void *data)
{
    cr_assert_eq(orl_ranges_add(ranges, start, end, data), 0, "%s", orl_last_error());
}

Test(ranges, empty_set_answers)
{
    struct orl_ranges ranges;

    orl_ranges_init(&ranges);
    cr_assert_eq(orl_ranges_count(&ranges), 0);
    cr_assert_null(orl_ranges_find(&ranges, 0));
    cr_assert_null(orl_ranges_find_overlap(&ranges, 0, UINT64_MAX));
    cr_assert_null(orl_ranges_next(&ranges, NULL));
    cr_assert_not(orl_ranges_del(&ranges, 0));
    orl_ranges_fini(&ranges);
    orl_ranges_fini(NULL);
}

Test(ranges, end_is_outside)
{
    struct orl_ranges ranges;
    struct orl_range *range;

    orl_ranges_init(&ranges);
    add(&ranges, 100, 200, &thing[0]);
    cr_assert_null(orl_ranges_find(&ranges, 99));
    range = orl_ranges_find(&ranges, 100);
    cr_assert_not_null(range);
    cr_assert_eq(range->start, 100);
    cr_assert_eq(range->end, 200);
    cr_assert_eq(range->data, &thing[0]);
    cr_assert_eq(orl_ranges_find(&ranges, 199), range);
    cr_assert_null(orl_ranges_find(&ranges, 200));
    cr_assert_null(orl_ranges_find_overlap(&ranges, 0, 100));
    cr_assert_null(orl_ranges_find_overlap(&ranges, 200, 300));
    cr_assert_null(orl_ranges_find_overlap(&ranges, 150, 150));
    cr_assert_eq(orl_ranges_find_overlap(&ranges, 0, 101), range);
    cr_assert_eq(orl_ranges_find_overlap(&ranges, 199, 300), range);
    cr_assert_eq(orl_ranges_find_overlap(&ranges, 120, 130), range);
    cr_assert_eq(orl_ranges_find_overlap(&ranges, 0, UINT64_MAX), range);
    orl_ranges_fini(&ranges);
}

Test(ranges, refuses_empty_and_overlapping)
{
    struct orl_ranges ranges;

    orl_ranges_init(&ranges);
    cr_assert_eq(orl_ranges_add(&ranges, 5, 5, NULL), ORL_ERR_INVAL);
    cr_assert_eq(orl_ranges_add(&ranges, 6, 5, NULL), ORL_ERR_INVAL);
    add(&ranges, 100, 200, NULL);
    cr_assert_eq(orl_ranges_add(&ranges, 100, 200, NULL), ORL_ERR_BUSY);
    cr_assert_eq(orl_ranges_add(&ranges, 199, 201, NULL), ORL_ERR_BUSY);
    cr_assert_eq(orl_ranges_add(&ranges, 50, 101, NULL), ORL_ERR_BUSY);
    cr_assert_eq(orl_ranges_add(&ranges, 120, 130, NULL), ORL_ERR_BUSY);
    cr_assert_eq(orl_ranges_add(&ranges, 0, UINT64_MAX, NULL), ORL_ERR_BUSY);
    cr_assert_eq(orl_ranges_count(&ranges), 1);
    add(&ranges, 200, 201, NULL);
    add(&ranges, 99, 100, NULL);
    add(&ranges, 0, 1, NULL);
    add(&ranges, UINT64_MAX - 1, UINT64_MAX, NULL);
    cr_assert_eq(orl_ranges_count(&ranges), 5);
    cr_assert_not(orl_ranges_del(&ranges, 150), "only the exact start deletes");
    cr_assert(orl_ranges_del(&ranges, 100));
    cr_assert_null(orl_ranges_find(&ranges, 150));
    cr_assert_not_null(orl_ranges_find(&ranges, 200));
    orl_ranges_fini(&ranges);
    cr_assert_eq(orl_ranges_count(&ranges), 0);
}

Test(ranges, walks_in_order_and_deletes_on_the_way)
{
    enum {
        COUNT = 1000
    };
    struct orl_ranges ranges;
    struct orl_range *range;
    uint64_t expected = 0;

    orl_ranges_init(&ranges);
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t mixed = i * 387 % COUNT;

        add(&ranges, mixed * 10, mixed * 10 + 10, NULL);
    }
    range = orl_ranges_next(&ranges, NULL);
    while (range != NULL) {
        struct orl_range *after = orl_ranges_next(&ranges, range);

        cr_assert_eq(range->start, expected * 10);
        if (expected % 3 != 0) {
            cr_assert(orl_ranges_del(&ranges, range->start));
        }
        expected++;
        range = after;
    }
    cr_assert_eq(expected, COUNT);
    expected = 0;
    while ((range = orl_ranges_next(&ranges, range)) != NULL) {
        cr_assert_eq(range->start, expected * 30);
        expected++;
    }
    cr_assert_eq(expected, orl_ranges_count(&ranges));
    orl_ranges_fini(&ranges);
}

/* Sorted input makes a bare search tree a list: 4e10 steps here, and the time-out says so. */
Test(ranges, stays_shallow_with_sorted_input, .timeout = 60)
{
    enum {
        COUNT = 200000
    };
    struct orl_ranges ranges;

    orl_ranges_init(&ranges);
    for (uint64_t i = 0; i < COUNT; i++) {
        add(&ranges, i * 4096, i * 4096 + 4096, NULL);
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        cr_assert_eq(orl_ranges_find(&ranges, i * 4096 + 17)->start, i * 4096);
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        cr_assert(orl_ranges_del(&ranges, i * 4096));
    }
    cr_assert_eq(orl_ranges_count(&ranges), 0);
    orl_ranges_fini(&ranges);
}

/* ---- The model: a sorted array ---- */

enum {
    MODEL_MAX = 4096,
    SPACE = 20000,
    LONGEST = 40,
    OPERATIONS = 100000
};

struct model {
    struct orl_range range[MODEL_MAX];
    size_t count;
};

/* First place whose range ends above addr. */
static size_t model_place(const struct model *model, uint64_t addr)
{
    size_t i = 0;

    while (i < model->count && model->range[i].end <= addr) {
        i++;
    }
    return i;
}

static const struct orl_range *model_overlap(const struct model *model, uint64_t start,
                                             uint64_t end)
{
    size_t i = model_place(model, start);

    return i < model->count && model->range[i].start < end ? &model->range[i] : NULL;
}

static void expect_same(const struct orl_range *found, const struct orl_range *expected)
{
    cr_assert_eq(found == NULL, expected == NULL);
    if (found != NULL) {
        cr_assert_eq(found->start, expected->start);
        cr_assert_eq(found->end, expected->end);
        cr_assert_eq(found->data, expected->data);
    }
}

static void add_both(struct orl_ranges *ranges, struct model *model, uint64_t start, uint64_t end)
{
    void *data = &thing[rand() % 64];
    size_t at = model_place(model, start);
    int expected = model_overlap(model, start, end) != NULL ? ORL_ERR_BUSY : ORL_OK;

    cr_assert_eq(orl_ranges_add(ranges, start, end, data), expected);
    if (expected == ORL_OK) {
        cr_assert_lt(model->count, MODEL_MAX);
        memmove(&model->range[at + 1], &model->range[at],
                (model->count - at) * sizeof model->range[0]);
        model->range[at] = (struct orl_range){ .start = start, .end = end, .data = data };
        model->count++;
    }
}

static void del_both(struct orl_ranges *ranges, struct model *model, uint64_t start)
{
    size_t at = model_place(model, start);
    bool is_there = at < model->count && model->range[at].start == start;

    cr_assert_eq(orl_ranges_del(ranges, start), is_there);
    if (is_there) {
        model->count--;
        memmove(&model->range[at], &model->range[at + 1],
                (model->count - at) * sizeof model->range[0]);
    }
}

static void expect_equal_walk(const struct orl_ranges *ranges, const struct model *model)
{
    struct orl_range *range = NULL;

    for (size_t i = 0; i < model->count; i++) {
        range = orl_ranges_next(ranges, range);
        expect_same(range, &model->range[i]);
    }
    cr_assert_null(orl_ranges_next(ranges, range));
}

Test(ranges, agrees_with_a_sorted_array, .timeout = 120)
{
    static struct model model;
    struct orl_ranges ranges;

    srand(11);
    orl_ranges_init(&ranges);
    for (int i = 0; i < OPERATIONS; i++) {
        uint64_t start = (uint64_t)(rand() % SPACE);
        uint64_t end = start + 1 + (uint64_t)(rand() % LONGEST);
        size_t at;

        switch (rand() % 4) {
        case 0:
            add_both(&ranges, &model, start, end);
            break;
        case 1:
            at = model_place(&model, start);
            del_both(&ranges, &model,
                     at < model.count && rand() % 8 != 0 ? model.range[at].start : start);
            break;
        case 2:
            expect_same(orl_ranges_find(&ranges, start), model_overlap(&model, start, start + 1));
            break;
        default:
            expect_same(orl_ranges_find_overlap(&ranges, start, end),
                        model_overlap(&model, start, end));
            break;
        }
        cr_assert_eq(orl_ranges_count(&ranges), model.count);
        if (i % 1000 == 0) {
            expect_equal_walk(&ranges, &model);
        }
    }
    cr_assert_gt(model.count, 100, "the run must have had something to check");
    expect_equal_walk(&ranges, &model);
    orl_ranges_fini(&ranges);
}
