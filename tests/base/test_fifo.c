/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queues: order, emptiness, splicing, and the many-to-one queue with one thread and with
 * several (tests/race has the same under thread sanitizer).
 */
#include "base/attr.h"
#include "base/fifo.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>

struct item {
    struct orl_link link;
    int pusher;
    int id;
};

static int id_of(struct orl_link *link)
{
    return link == NULL ? -1 : container_of(link, struct item, link)->id;
}

static void number(struct item *item, int count)
{
    for (int i = 0; i < count; i++) {
        item[i].id = i;
    }
}

Test(fifo, first_in_is_first_out)
{
    struct item item[3];
    struct orl_fifo fifo;
    struct orl_link *it;
    int seen = 0;

    number(item, 3);
    orl_fifo_init(&fifo);
    cr_assert(orl_fifo_is_empty(&fifo));
    cr_assert_null(orl_fifo_pop(&fifo));
    cr_assert_null(orl_fifo_peek(&fifo));
    for (int i = 0; i < 3; i++) {
        orl_fifo_push(&fifo, &item[i].link);
    }
    orl_fifo_each(it, &fifo) {
        cr_assert_eq(id_of(it), seen);
        seen++;
    }
    cr_assert_eq(seen, 3);
    cr_assert_eq(id_of(orl_fifo_peek(&fifo)), 0);
    for (int i = 0; i < 3; i++) {
        cr_assert_not(orl_fifo_is_empty(&fifo));
        cr_assert_eq(id_of(orl_fifo_pop(&fifo)), i);
    }
    cr_assert(orl_fifo_is_empty(&fifo));
    orl_fifo_push(&fifo, &item[2].link);
    orl_fifo_push(&fifo, &item[0].link);
    cr_assert_eq(id_of(orl_fifo_pop(&fifo)), 2);
    cr_assert_eq(id_of(orl_fifo_pop(&fifo)), 0);
}

Test(fifo, takes_back_at_the_head)
{
    struct item item[3];
    struct orl_fifo fifo;

    number(item, 3);
    orl_fifo_init(&fifo);
    orl_fifo_push_head(&fifo, &item[0].link);
    orl_fifo_push(&fifo, &item[1].link);
    orl_fifo_push_head(&fifo, &item[2].link);
    cr_assert_eq(id_of(orl_fifo_pop(&fifo)), 2);
    cr_assert_eq(id_of(orl_fifo_pop(&fifo)), 0);
    cr_assert_eq(id_of(orl_fifo_pop(&fifo)), 1);
    cr_assert_null(orl_fifo_pop(&fifo));
}

Test(fifo, splices_behind)
{
    struct item item[4];
    struct orl_fifo fifo;
    struct orl_fifo more;

    number(item, 4);
    orl_fifo_init(&fifo);
    orl_fifo_init(&more);
    orl_fifo_splice(&fifo, &more);
    cr_assert(orl_fifo_is_empty(&fifo));
    orl_fifo_push(&more, &item[0].link);
    orl_fifo_push(&more, &item[1].link);
    orl_fifo_splice(&fifo, &more);
    cr_assert(orl_fifo_is_empty(&more));
    orl_fifo_push(&more, &item[2].link);
    orl_fifo_splice(&fifo, &more);
    orl_fifo_splice(&fifo, &more);
    orl_fifo_push(&fifo, &item[3].link);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(id_of(orl_fifo_pop(&fifo)), i);
    }
    cr_assert_null(orl_fifo_pop(&fifo));
}

Test(mpsc, keeps_order_and_tells_the_first)
{
    struct item item[4];
    struct orl_mpsc mpsc;

    number(item, 4);
    orl_mpsc_init(&mpsc);
    cr_assert(orl_mpsc_is_empty(&mpsc));
    cr_assert_null(orl_mpsc_pop(&mpsc));
    cr_assert(orl_mpsc_push(&mpsc, &item[0].link));
    cr_assert_not(orl_mpsc_push(&mpsc, &item[1].link));
    cr_assert_eq(id_of(orl_mpsc_pop(&mpsc)), 0);
    cr_assert_not(orl_mpsc_is_empty(&mpsc));
    cr_assert(orl_mpsc_push(&mpsc, &item[2].link), "what was taken no longer waits");
    cr_assert_not(orl_mpsc_push(&mpsc, &item[3].link));
    for (int i = 1; i < 4; i++) {
        cr_assert_eq(id_of(orl_mpsc_pop(&mpsc)), i);
    }
    cr_assert(orl_mpsc_is_empty(&mpsc));
    cr_assert_null(orl_mpsc_pop(&mpsc));
}

enum {
    PUSHERS = 3,
    PER_PUSHER = 50000
};

static struct item shared_item[PUSHERS][PER_PUSHER];
static struct orl_mpsc shared_mpsc;

static void *push_all(void *arg)
{
    int me = *(int *)arg;

    for (int i = 0; i < PER_PUSHER; i++) {
        shared_item[me][i].pusher = me;
        shared_item[me][i].id = i;
        orl_mpsc_push(&shared_mpsc, &shared_item[me][i].link);
    }
    return NULL;
}

Test(mpsc, loses_nothing_and_keeps_each_pushers_order, .timeout = 60)
{
    pthread_t thread[PUSHERS];
    int number_of[PUSHERS];
    int next[PUSHERS] = { 0 };
    int taken = 0;

    orl_mpsc_init(&shared_mpsc);
    for (int i = 0; i < PUSHERS; i++) {
        number_of[i] = i;
        cr_assert_eq(pthread_create(&thread[i], NULL, push_all, &number_of[i]), 0);
    }
    while (taken < PUSHERS * PER_PUSHER) {
        struct orl_link *link = orl_mpsc_pop(&shared_mpsc);

        if (link == NULL) {
            sched_yield();
            continue;
        }
        struct item *item = container_of(link, struct item, link);

        cr_assert_eq(item->id, next[item->pusher]);
        next[item->pusher]++;
        taken++;
    }
    for (int i = 0; i < PUSHERS; i++) {
        pthread_join(thread[i], NULL);
    }
    cr_assert(orl_mpsc_is_empty(&shared_mpsc));
}
