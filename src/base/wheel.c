/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timer wheel. The tick of a timer and the present tick are read as digits of 6 bits. A timer
 * lies at the level of the highest digit in which the two differ, in the slot of its own digit
 * there. So every slot of a level comes before every slot of the next, and the used slots of a
 * level lie ahead of the present digit: the next slot is the lowest bit of the lowest level in use.
 * When the present reaches a slot, its timers are due or move to a lower level. Turning on to a
 * moment before the next slot changes no digit that places a timer.
 */
#include "base/wheel.h"

#include "base/attr.h"
#include "base/clock.h"

#define DIGIT_BITS 6
#define NO_LEVEL   UINT8_MAX /* of a timer that is due */

void orl_wheel_init(struct orl_wheel *wheel, uint64_t now_ns)
{
    wheel->now = now_ns / ORL_WHEEL_TICK_NS;
    for (int level = 0; level < ORL_WHEEL_LEVELS; level++) {
        wheel->used[level] = 0;
        for (int slot = 0; slot < ORL_WHEEL_SLOTS; slot++) {
            orl_list_init(&wheel->slot[level][slot]);
        }
    }
    orl_list_init(&wheel->due);
}

static void place(struct orl_wheel *wheel, struct orl_timer *timer)
{
    uint64_t differs = timer->tick ^ wheel->now;

    if (timer->tick <= wheel->now) {
        timer->level = NO_LEVEL;
        orl_list_add_tail(&wheel->due, &timer->link);
        return;
    }
    timer->level = (uint8_t)((63 - __builtin_clzll(differs)) / DIGIT_BITS);
    timer->slot = (uint8_t)(timer->tick >> (DIGIT_BITS * timer->level) & (ORL_WHEEL_SLOTS - 1));
    orl_list_add_tail(&wheel->slot[timer->level][timer->slot], &timer->link);
    wheel->used[timer->level] |= UINT64_C(1) << timer->slot;
}

void orl_wheel_add(struct orl_wheel *wheel, struct orl_timer *timer, uint64_t when_ns)
{
    /* Up to the next tick: never early. */
    timer->tick = when_ns / ORL_WHEEL_TICK_NS + (when_ns % ORL_WHEEL_TICK_NS != 0);
    timer->is_set = true;
    place(wheel, timer);
}

void orl_wheel_del(struct orl_wheel *wheel, struct orl_timer *timer)
{
    if (!timer->is_set) {
        return;
    }
    timer->is_set = false;
    orl_list_del(&timer->link);
    if (timer->level != NO_LEVEL && orl_list_is_empty(&wheel->slot[timer->level][timer->slot])) {
        wheel->used[timer->level] &= ~(UINT64_C(1) << timer->slot);
    }
}

/* The first slot in use and the tick it begins at; false when none is. */
static bool find_next(const struct orl_wheel *wheel, int *level, int *slot, uint64_t *tick)
{
    for (int i = 0; i < ORL_WHEEL_LEVELS; i++) {
        if (wheel->used[i] != 0) {
            int shift = DIGIT_BITS * i;
            uint64_t above = shift + DIGIT_BITS < 64
                                 ? wheel->now >> (shift + DIGIT_BITS) << (shift + DIGIT_BITS)
                                 : 0;

            *level = i;
            *slot = __builtin_ctzll(wheel->used[i]);
            *tick = above | (uint64_t)*slot << shift;
            return true;
        }
    }
    return false;
}

/* Moves the present on; what has come is in `due` afterwards. */
static void turn(struct orl_wheel *wheel, uint64_t tick)
{
    uint64_t begins;
    int level;
    int slot;

    while (find_next(wheel, &level, &slot, &begins) && begins <= tick) {
        struct orl_list *head;
        struct orl_list moved;

        wheel->now = begins;
        wheel->used[level] &= ~(UINT64_C(1) << slot);
        orl_list_init(&moved);
        orl_list_splice_tail(&moved, &wheel->slot[level][slot]);
        while ((head = orl_list_pop_head(&moved)) != NULL) {
            place(wheel, container_of(head, struct orl_timer, link));
        }
    }
    wheel->now = tick > wheel->now ? tick : wheel->now;
}

struct orl_timer *orl_wheel_pop(struct orl_wheel *wheel, uint64_t now_ns)
{
    struct orl_list *head;
    struct orl_timer *timer;

    turn(wheel, now_ns / ORL_WHEEL_TICK_NS);
    head = orl_list_pop_head(&wheel->due);
    if (head == NULL) {
        return NULL;
    }
    timer = container_of(head, struct orl_timer, link);
    timer->is_set = false;
    return timer;
}

uint64_t orl_wheel_next(const struct orl_wheel *wheel)
{
    uint64_t tick;
    int level;
    int slot;

    if (!orl_list_is_empty(&wheel->due)) {
        return 0;
    }
    if (!find_next(wheel, &level, &slot, &tick)) {
        return ORL_NEVER;
    }
    return tick > ORL_NEVER / ORL_WHEEL_TICK_NS ? ORL_NEVER : tick * ORL_WHEEL_TICK_NS;
}
