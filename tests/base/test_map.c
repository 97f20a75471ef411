/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash map: single operations, awkward keys, iteration, no slowing down by deletes, and a
 * long random run against a plain array.
 */
#include "base/map.h"
#include "base/status.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static int thing[4096];

Test(map, empty_map_answers)
{
    struct orl_map map;
    size_t index = 0;
    void *value;

    orl_map_init(&map);
    cr_assert_eq(orl_map_count(&map), 0);
    cr_assert_null(orl_map_get(&map, 0));
    cr_assert_null(orl_map_del(&map, 7));
    cr_assert_not(orl_map_each(&map, &index, NULL, &value));
    orl_map_fini(&map);
    orl_map_fini(NULL);
}

Test(map, puts_gets_replaces_deletes)
{
    static const uint64_t keys[] = { 0, 1, UINT64_MAX, UINT64_C(1) << 63, UINT64_C(1) << 32 };
    const size_t count = sizeof keys / sizeof keys[0];
    struct orl_map map;

    orl_map_init(&map);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(orl_map_put(&map, keys[i], &thing[i]), 0);
    }
    cr_assert_eq(orl_map_count(&map), count);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(orl_map_get(&map, keys[i]), &thing[i]);
    }
    cr_assert_null(orl_map_get(&map, 2));
    cr_assert_eq(orl_map_put(&map, 0, &thing[100]), 0);
    cr_assert_eq(orl_map_count(&map), count);
    cr_assert_eq(orl_map_get(&map, 0), &thing[100]);
    cr_assert_eq(orl_map_del(&map, 0), &thing[100]);
    cr_assert_null(orl_map_get(&map, 0));
    cr_assert_null(orl_map_del(&map, 0));
    cr_assert_eq(orl_map_count(&map), count - 1);
    cr_assert_eq(orl_map_get(&map, UINT64_MAX), &thing[2]);
    orl_map_fini(&map);
    cr_assert_eq(orl_map_count(&map), 0);
    cr_assert_eq(orl_map_put(&map, 5, &thing[5]), 0);
    cr_assert_eq(orl_map_get(&map, 5), &thing[5]);
    orl_map_fini(&map);
}

Test(map, refuses_null)
{
    struct orl_map map;

    orl_map_init(&map);
    cr_assert_eq(orl_map_put(&map, 1, NULL), ORL_ERR_INVAL);
    cr_assert_eq(orl_map_count(&map), 0);
    orl_map_fini(&map);
}

Test(map, iterates_over_each_once)
{
    enum {
        COUNT = 1000
    };
    struct orl_map map;
    bool seen[COUNT] = { false };
    size_t index = 0;
    size_t steps = 0;
    uint64_t key;
    void *value;

    orl_map_init(&map);
    for (uint64_t i = 0; i < COUNT; i++) {
        cr_assert_eq(orl_map_put(&map, i * 4096, &thing[i]), 0);
    }
    while (orl_map_each(&map, &index, &key, &value)) {
        cr_assert_eq(key % 4096, 0);
        cr_assert_lt(key / 4096, COUNT);
        cr_assert_eq(value, &thing[key / 4096]);
        cr_assert_not(seen[key / 4096]);
        seen[key / 4096] = true;
        steps++;
    }
    cr_assert_eq(steps, COUNT);
    cr_assert_not(orl_map_each(&map, &index, NULL, &value));
    orl_map_fini(&map);
}

/* A map that kept dead slots would grow, or run out of free ones and never end a search. */
Test(map, deletes_leave_no_trace, .timeout = 30)
{
    struct orl_map map;
    size_t slots;

    orl_map_init(&map);
    for (uint64_t i = 0; i < 10; i++) {
        cr_assert_eq(orl_map_put(&map, i, &thing[i]), 0);
    }
    slots = map.slot_count;
    for (uint64_t i = 10; i < 200000; i++) {
        cr_assert_eq(orl_map_put(&map, i, &thing[i % 4096]), 0);
        cr_assert_not_null(orl_map_del(&map, i - 10));
    }
    cr_assert_eq(orl_map_count(&map), 10);
    cr_assert_eq(map.slot_count, slots);
    orl_map_fini(&map);
}

/* Keys whose low bits, high bits or both differ, so that runs form and wrap around. */
static uint64_t key_of(int i)
{
    static const int shift[] = { 0, 32, 56 };

    return (uint64_t)i | (uint64_t)i << shift[i % 3];
}

Test(map, agrees_with_an_array, .timeout = 60)
{
    enum {
        KEYS = 700,
        ROUNDS = 200000
    };
    static void *model[KEYS];
    size_t count = 0;
    struct orl_map map;

    srand(7);
    orl_map_init(&map);
    for (int round = 0; round < ROUNDS; round++) {
        /* Different pieces of the run prefer putting or deleting. */
        bool puts = rand() % 100 < (round / 20000 % 2 == 0 ? 70 : 30);
        int i = 1 + rand() % (KEYS - 1);

        if (puts) {
            void *value = &thing[rand() % 4096];

            cr_assert_eq(orl_map_put(&map, key_of(i), value), 0);
            count += model[i] == NULL;
            model[i] = value;
        } else {
            cr_assert_eq(orl_map_del(&map, key_of(i)), model[i]);
            count -= model[i] != NULL;
            model[i] = NULL;
        }
        i = 1 + rand() % (KEYS - 1);
        cr_assert_eq(orl_map_get(&map, key_of(i)), model[i]);
        cr_assert_eq(orl_map_count(&map), count);
    }
    for (int i = 1; i < KEYS; i++) {
        cr_assert_eq(orl_map_get(&map, key_of(i)), model[i]);
    }
    orl_map_fini(&map);
}
