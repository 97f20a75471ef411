/* SPDX-License-Identifier: BSD-3-Clause */
/* The timer wheel against a plain list of moments. */
/* covers: K13 */
#include <criterion/criterion.h>

#include <stdint.h>
#include <stdlib.h>

#include "base/attr.h"
#include "base/clock.h"
#include "base/wheel.h"

#define TICK ORL_WHEEL_TICK_NS

TestSuite(wheel, .timeout = 60);

static struct orl_wheel wheel;

Test(wheel, one_timer_is_never_early)
{
    struct orl_timer timer = { .is_set = false };
    const uint64_t starts[] = { 0, 1, TICK - 1, 63 * TICK, 4095 * TICK, UINT64_C(1) << 45 };
    const uint64_t times[] = { 1,         TICK,           TICK + 1,        63 * TICK,
                               64 * TICK, 64 * TICK + 17, 4096 * TICK + 5, ORL_NS_PER_S * 86400 };

    for (size_t s = 0; s < sizeof(starts) / sizeof(starts[0]); s++) {
        for (size_t t = 0; t < sizeof(times) / sizeof(times[0]); t++) {
            uint64_t when = starts[s] + times[t];

            orl_wheel_init(&wheel, starts[s]);
            cr_assert_eq(orl_wheel_next(&wheel), ORL_NEVER);
            orl_wheel_add(&wheel, &timer, when);
            cr_assert_leq(orl_wheel_next(&wheel), when + TICK);
            cr_assert_null(orl_wheel_pop(&wheel, starts[s]));
            cr_assert_null(orl_wheel_pop(&wheel, when - 1), "%zu %zu", s, t);
            cr_assert_eq(orl_wheel_pop(&wheel, when + TICK), &timer, "%zu %zu", s, t);
            cr_assert_not(timer.is_set);
            cr_assert_null(orl_wheel_pop(&wheel, when + TICK));
        }
    }
}

Test(wheel, what_has_passed_is_due_and_never_is_not)
{
    struct orl_timer past = { .is_set = false };
    struct orl_timer never = { .is_set = false };

    orl_wheel_init(&wheel, 100 * TICK);
    orl_wheel_add(&wheel, &never, ORL_NEVER);
    orl_wheel_add(&wheel, &past, 7);
    cr_assert_eq(orl_wheel_next(&wheel), 0);
    cr_assert_eq(orl_wheel_pop(&wheel, 100 * TICK), &past);
    cr_assert_null(orl_wheel_pop(&wheel, UINT64_C(1) << 60));
    orl_wheel_del(&wheel, &never);
    orl_wheel_del(&wheel, &never);
    cr_assert_eq(orl_wheel_next(&wheel), ORL_NEVER);
}

Test(wheel, one_that_is_due_can_be_taken_back)
{
    struct orl_timer a = { .is_set = false };
    struct orl_timer b = { .is_set = false };

    orl_wheel_init(&wheel, 0);
    orl_wheel_add(&wheel, &a, 3 * TICK);
    orl_wheel_add(&wheel, &b, 3 * TICK);
    cr_assert_eq(orl_wheel_pop(&wheel, 4 * TICK), &a);
    orl_wheel_del(&wheel, &b);
    cr_assert_null(orl_wheel_pop(&wheel, 9 * TICK));
}

/* ---------------------------------------------------------------- against a list */

enum {
    TIMERS = 4000,
    STEPS = 20000
};

static struct orl_timer timers[TIMERS];
static uint64_t moments[TIMERS]; /* 0: not set */
static uint64_t seed = 88172645463325252u;

static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* Spans from less than a tick to years. */
static uint64_t draw_time(void)
{
    return draw() >> (8 + draw() % 50);
}

static void pop_all(uint64_t now)
{
    struct orl_timer *timer;

    while ((timer = orl_wheel_pop(&wheel, now)) != NULL) {
        size_t i = (size_t)(timer - timers);

        cr_assert(moments[i] != 0 && moments[i] <= now, "timer %zu is early", i);
        moments[i] = 0;
    }
    for (size_t i = 0; i < TIMERS; i++) {
        cr_assert(moments[i] == 0 || moments[i] + TICK > now, "timer %zu is late", i);
    }
}

Test(wheel, many_timers_in_any_order)
{
    uint64_t now = 12345678901u;

    orl_wheel_init(&wheel, now);
    for (int step = 0; step < STEPS; step++) {
        size_t i = draw() % TIMERS;

        if (moments[i] == 0) {
            moments[i] = now + 1 + draw_time();
            orl_wheel_add(&wheel, &timers[i], moments[i]);
            cr_assert_leq(orl_wheel_next(&wheel), moments[i] + TICK);
        } else if (draw() % 4 == 0) {
            moments[i] = 0;
            orl_wheel_del(&wheel, &timers[i]);
        }
        if (draw() % 16 == 0) {
            now += draw() % 8 == 0 ? draw_time() : draw() % (3 * TICK);
            pop_all(now);
        }
    }
}

/* A timer that is taken back costs the same with many others there as with none. */
Test(wheel, it_does_not_matter_how_many_there_are)
{
    enum {
        MANY = 100000
    };
    struct orl_timer *many = calloc(MANY, sizeof(*many));
    size_t came = 0;

    cr_assert_not_null(many);
    orl_wheel_init(&wheel, 0);
    for (size_t i = 0; i < MANY; i++) {
        orl_wheel_add(&wheel, &many[i], 1 + i * 1000);
    }
    for (size_t i = 0; i < MANY; i += 2) {
        orl_wheel_del(&wheel, &many[i]);
    }
    while (orl_wheel_pop(&wheel, MANY * 1000 + TICK) != NULL) {
        came++;
    }
    cr_assert_eq(came, MANY / 2);
    free(many);
}
