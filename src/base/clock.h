/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time: monotonic nanoseconds, raw ticks, deadlines.
 *
 * Where the processor has an invariant cycle counter that the kernel trusts, the clock is that
 * counter, calibrated once in about a millisecond on first use or by orl_clock_open; elsewhere it
 * is clock_gettime. Any thread may ask. Values of two processes are not comparable: each
 * calibrates for itself. Not for wall-clock time.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "base/attr.h"

/* The deadline that never passes, and the time-out that never ends. */
#define ORL_NEVER UINT64_MAX

#define ORL_NS_PER_US UINT64_C(1000)
#define ORL_NS_PER_MS UINT64_C(1000000)
#define ORL_NS_PER_S  UINT64_C(1000000000)

/* Calibrates now, so that the first timed call does not have to. May be called again. */
void orl_clock_open(void);

/* Nanoseconds since some moment in the past. Never goes back for a thread. */
uint64_t orl_clock_ns(void);

/* True when orl_clock_ns reads the cycle counter. */
bool orl_clock_is_counter(void);

/* The kernel's monotonic clock: slower, comparable between the processes of a host. */
uint64_t orl_clock_kernel_ns(void);

/* The cheapest reading there is. Only differences mean something, by the two calls below. */
static inline uint64_t orl_clock_ticks(void)
{
    return ORL_CPU_HAS_TICKS ? orl_cpu_ticks() : orl_clock_kernel_ns();
}

uint64_t orl_clock_ticks_of_ns(uint64_t ns);
uint64_t orl_clock_ns_of_ticks(uint64_t ticks);

/*
 * The moment `timeout_ns` from now, on the scale of orl_clock_ns. A negative time-out is
 * ORL_NEVER; one too long to count saturates there.
 */
uint64_t orl_deadline_in(int64_t timeout_ns);

/* Does not read the clock for ORL_NEVER. */
bool orl_deadline_passed(uint64_t deadline_ns);

/* Nanoseconds left: 0 when passed, ORL_NEVER for ORL_NEVER. */
uint64_t orl_deadline_left(uint64_t deadline_ns);

#endif
