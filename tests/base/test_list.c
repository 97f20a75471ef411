/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The intrusive list: order, removal from anywhere, splicing, the two loops, and a long random
 * walk against an array.
 */
#include "base/attr.h"
#include "base/list.h"

#include <criterion/criterion.h>
#include <stdlib.h>

struct item {
    int id;
    struct orl_list node;
};

static struct item *item_of(struct orl_list *node)
{
    return container_of(node, struct item, node);
}

/* Checks ids from head to tail, and the same way back. */
static void expect(struct orl_list *list, const int *ids, int count)
{
    struct orl_list *it = list->next;

    for (int i = 0; i < count; i++, it = it->next) {
        cr_assert_neq(it, list, "list ends after %d of %d", i, count);
        cr_assert_eq(item_of(it)->id, ids[i], "place %d has %d, not %d", i, item_of(it)->id,
                     ids[i]);
        cr_assert_eq(it->prev->next, it);
    }
    cr_assert_eq(it, list, "list is longer than %d", count);
    cr_assert_eq(list->next->prev, list);
    for (int i = count - 1; i >= 0; i--) {
        it = it->prev;
        cr_assert_eq(item_of(it)->id, ids[i]);
    }
}

Test(list, starts_empty)
{
    struct orl_list list;

    orl_list_init(&list);
    cr_assert(orl_list_is_empty(&list));
    cr_assert_null(orl_list_head(&list));
    cr_assert_null(orl_list_pop_head(&list));
    expect(&list, NULL, 0);
}

Test(list, keeps_order_at_both_ends)
{
    struct item item[4] = { { .id = 0 }, { .id = 1 }, { .id = 2 }, { .id = 3 } };
    struct orl_list list;

    orl_list_init(&list);
    orl_list_add_tail(&list, &item[0].node);
    orl_list_add_tail(&list, &item[1].node);
    orl_list_add_head(&list, &item[2].node);
    orl_list_add_after(&item[0].node, &item[3].node);
    expect(&list, (int[]){ 2, 0, 3, 1 }, 4);
    cr_assert_eq(orl_list_head(&list), &item[2].node);
    cr_assert_eq(orl_list_pop_head(&list), &item[2].node);
    expect(&list, (int[]){ 0, 3, 1 }, 3);
}

Test(list, deletes_anywhere_and_twice)
{
    struct item item[3] = { { .id = 0 }, { .id = 1 }, { .id = 2 } };
    struct orl_list list;

    orl_list_init(&list);
    for (int i = 0; i < 3; i++) {
        orl_list_add_tail(&list, &item[i].node);
    }
    orl_list_del(&item[1].node);
    expect(&list, (int[]){ 0, 2 }, 2);
    orl_list_del(&item[1].node);
    expect(&list, (int[]){ 0, 2 }, 2);
    orl_list_del(&item[0].node);
    orl_list_del(&item[2].node);
    cr_assert(orl_list_is_empty(&list));
    orl_list_add_tail(&list, &item[1].node);
    expect(&list, (int[]){ 1 }, 1);
}

Test(list, splices_in_order)
{
    struct item item[5] = { { .id = 0 }, { .id = 1 }, { .id = 2 }, { .id = 3 }, { .id = 4 } };
    struct orl_list list;
    struct orl_list more;

    orl_list_init(&list);
    orl_list_init(&more);
    orl_list_splice_tail(&list, &more);
    expect(&list, NULL, 0);
    for (int i = 0; i < 3; i++) {
        orl_list_add_tail(&more, &item[i].node);
    }
    orl_list_splice_tail(&list, &more);
    expect(&list, (int[]){ 0, 1, 2 }, 3);
    expect(&more, NULL, 0);
    orl_list_add_tail(&more, &item[3].node);
    orl_list_add_tail(&more, &item[4].node);
    orl_list_splice_tail(&list, &more);
    expect(&list, (int[]){ 0, 1, 2, 3, 4 }, 5);
    orl_list_splice_tail(&list, &more);
    expect(&list, (int[]){ 0, 1, 2, 3, 4 }, 5);
}

Test(list, loops_visit_all_and_survive_removal)
{
    struct item item[6];
    struct orl_list list;
    struct orl_list *it;
    struct orl_list *after;
    int sum = 0;

    orl_list_init(&list);
    for (int i = 0; i < 6; i++) {
        item[i].id = i;
        orl_list_add_tail(&list, &item[i].node);
    }
    orl_list_each(it, &list) {
        sum = sum * 10 + item_of(it)->id;
    }
    cr_assert_eq(sum, 12345);
    orl_list_each_safe(it, after, &list) {
        if (item_of(it)->id % 2 == 0) {
            orl_list_del(it);
        }
    }
    expect(&list, (int[]){ 1, 3, 5 }, 3);
    orl_list_each_safe(it, after, &list) {
        orl_list_del(it);
    }
    cr_assert(orl_list_is_empty(&list));
}

Test(list, agrees_with_an_array)
{
    enum {
        ITEMS = 40,
        ROUNDS = 20000
    };
    struct item item[ITEMS];
    int model[ITEMS];
    int count = 0;
    struct orl_list list;

    srand(1);
    orl_list_init(&list);
    for (int i = 0; i < ITEMS; i++) {
        item[i].id = i;
        orl_list_init(&item[i].node);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int id = rand() % ITEMS;
        int at = 0;

        while (at < count && model[at] != id) {
            at++;
        }
        if (at < count) {
            orl_list_del(&item[id].node);
            memmove(&model[at], &model[at + 1], (size_t)(count - at - 1) * sizeof model[0]);
            count--;
        } else if (rand() % 2 == 0) {
            orl_list_add_tail(&list, &item[id].node);
            model[count++] = id;
        } else {
            orl_list_add_head(&list, &item[id].node);
            memmove(&model[1], &model[0], (size_t)count * sizeof model[0]);
            model[0] = id;
            count++;
        }
        expect(&list, model, count);
    }
}
