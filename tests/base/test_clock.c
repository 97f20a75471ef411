/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clock: it does not go back, keeps pace with the kernel's, and deadlines saturate.
 */
#include "base/clock.h"

#include <pthread.h>
#include <time.h>

#include <criterion/criterion.h>

/* Both clocks at one moment: the kernel's reading with the smallest distance around it. */
static void read_both(uint64_t *ours, uint64_t *kernels)
{
    uint64_t best = UINT64_MAX;
    *ours = 0;
    *kernels = 0;
    for (int i = 0; i < 50; i++) {
        uint64_t before = orl_clock_ns();
        uint64_t kernel = orl_clock_kernel_ns();
        uint64_t spread = orl_clock_ns() - before;
        if (spread < best) {
            best = spread;
            *ours = before + spread / 2;
            *kernels = kernel;
        }
    }
}

Test(clock, does_not_go_back)
{
    uint64_t last = orl_clock_ns();
    for (int i = 0; i < 200000; i++) {
        uint64_t now = orl_clock_ns();
        cr_assert_geq(now, last);
        last = now;
    }
}

Test(clock, keeps_pace_with_the_kernel)
{
    uint64_t ours[2];
    uint64_t kernels[2];
    const struct timespec pause = { .tv_nsec = 50000000 };
    orl_clock_open();
    read_both(&ours[0], &kernels[0]);
    nanosleep(&pause, NULL);
    read_both(&ours[1], &kernels[1]);
    double ratio = (double)(ours[1] - ours[0]) / (double)(kernels[1] - kernels[0]);
    cr_assert(ratio > 0.999 && ratio < 1.001, "one of our seconds is %.6f s", 1 / ratio);
}

Test(clock, begins_near_the_kernels_time)
{
    uint64_t ours;
    uint64_t kernels;
    read_both(&ours, &kernels);
    int64_t apart = (int64_t)(ours - kernels);
    cr_assert(apart > -1000000 && apart < 1000000, "%ld ns apart", (long)apart);
}

Test(clock, ticks_convert_there_and_back)
{
    const uint64_t times[] = { 1000, ORL_NS_PER_MS, ORL_NS_PER_S, 3600 * ORL_NS_PER_S };
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        uint64_t back = orl_clock_ns_of_ticks(orl_clock_ticks_of_ns(times[i]));
        uint64_t slack = times[i] / 1000000 + 2;
        cr_expect(back <= times[i] + slack && back + slack >= times[i], "%lu became %lu",
                  (unsigned long)times[i], (unsigned long)back);
    }
    cr_assert_eq(orl_clock_ticks_of_ns(0), 0);
    cr_assert_gt(orl_clock_ticks_of_ns(ORL_NEVER), orl_clock_ticks_of_ns(3600 * ORL_NS_PER_S));
}

Test(clock, ticks_go_forward)
{
    uint64_t before = orl_clock_ticks();
    const struct timespec pause = { .tv_nsec = 1000000 };
    nanosleep(&pause, NULL);
    cr_assert_geq(orl_clock_ns_of_ticks(orl_clock_ticks() - before), 900000);
}

Test(clock, deadlines_saturate)
{
    cr_assert_eq(orl_deadline_in(-1), ORL_NEVER);
    cr_assert_eq(orl_deadline_in(INT64_MIN), ORL_NEVER);
    cr_assert_geq(orl_deadline_in(INT64_MAX), (uint64_t)INT64_MAX);
    cr_assert_not(orl_deadline_passed(ORL_NEVER));
    cr_assert_not(orl_deadline_passed(orl_deadline_in(INT64_MAX)));
    cr_assert_eq(orl_deadline_left(ORL_NEVER), ORL_NEVER);
}

Test(clock, deadlines_pass)
{
    cr_assert(orl_deadline_passed(orl_deadline_in(0)));
    cr_assert_eq(orl_deadline_left(orl_clock_ns()), 0);
    uint64_t deadline = orl_deadline_in((int64_t)(100 * ORL_NS_PER_S));
    cr_assert_not(orl_deadline_passed(deadline));
    uint64_t left = orl_deadline_left(deadline);
    cr_assert(left > 0 && left <= 100 * ORL_NS_PER_S);
}

static int once_marker;

static void *first_reading(void *unused)
{
    (void)unused;
    return orl_clock_ns() > 0 ? &once_marker : NULL;
}

Test(clock, many_threads_may_come_first)
{
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, first_reading, NULL), 0);
    }
    for (int i = 0; i < 8; i++) {
        void *result = NULL;
        cr_assert_eq(pthread_join(threads[i], &result), 0);
        cr_assert_not_null(result);
    }
}
