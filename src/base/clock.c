/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clock: which source, what a tick is worth, and deadlines on top of it.
 *
 * Calibration happens once per process, by whoever comes first; afterwards all is read-only and
 * no lock is needed. A child made by fork goes on with its parent's calibration. Time of day is
 * not known here.
 */
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Sleep between the two readings. An error of 50 ns in one of them is then 0.005%. */
#define CALIBRATION_NS 1000000

/* Readings are taken this often, and the one least disturbed counts. */
#define READING_TRIES 8

__extension__ typedef unsigned __int128 wide_uint;

enum clock_source {
    SOURCE_UNKNOWN,
    SOURCE_KERNEL,
    SOURCE_COUNTER
};

/* Both clocks at one moment. */
struct reading {
    uint64_t ticks;
    uint64_t ns;
    uint64_t spread; /* ticks that went by while reading */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic int source = SOURCE_UNKNOWN; /* its store releases the fields below */
static struct reading origin;
static uint64_t ns_per_tick;  /* times 2^32 */
static uint64_t ticks_per_ns; /* times 2^32 */

uint64_t orl_clock_kernel_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * ORL_NS_PER_S + (uint64_t)now.tv_nsec;
}

static struct reading read_once(void)
{
    uint64_t before = orl_clock_ticks();
    uint64_t ns = orl_clock_kernel_ns();
    uint64_t spread = orl_clock_ticks() - before;
    return (struct reading){ .ticks = before + spread / 2, .ns = ns, .spread = spread };
}

static struct reading read_both(void)
{
    struct reading best = read_once();
    for (int i = 1; i < READING_TRIES; i++) {
        struct reading next = read_once();
        if (next.spread < best.spread) {
            best = next;
        }
    }
    return best;
}

/* Advanced power management leaf, EDX bit 8: the counter runs at one rate in all power states. */
static bool counter_is_invariant(void)
{
    uint32_t regs[4] = { 0 };
    if (!ORL_CPU_X86) {
        return ORL_CPU_HAS_TICKS;
    }
    return orl_cpu_id(0x80000007, 0, regs) && (regs[3] & (1U << 8)) != 0;
}

/* The kernel compares the counters of all CPUs; when they disagree it turns to a slow timer. */
static bool kernel_trusts_counter(void)
{
    static const char *const slow[] = { "hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit" };
    char name[32] = "";
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                  O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return true;
    }
    ssize_t n = read(fd, name, sizeof(name) - 1);
    close(fd);
    name[n > 0 ? n : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    for (size_t i = 0; i < sizeof(slow) / sizeof(slow[0]); i++) {
        if (strcmp(name, slow[i]) == 0) {
            return false;
        }
    }
    return true;
}

static uint64_t ratio(uint64_t a, uint64_t b)
{
    return (uint64_t)(((wide_uint)a << 32) / (b > 0 ? b : 1));
}

static uint64_t scale(uint64_t value, uint64_t factor)
{
    wide_uint scaled = ((wide_uint)value * factor) >> 32;
    return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}

static void sleep_until(uint64_t ns)
{
    const struct timespec end = { .tv_sec = (time_t)(ns / ORL_NS_PER_S),
                                  .tv_nsec = (long)(ns % ORL_NS_PER_S) };
    int result;
    do {
        result = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
    } while (result == EINTR);
}

static void calibrate(void)
{
    struct reading first = read_both();
    sleep_until(first.ns + CALIBRATION_NS);
    struct reading last = read_both();
    uint64_t ticks = last.ticks - first.ticks;
    uint64_t ns = last.ns - first.ns;
    /* A counter that stands still leaves nothing to divide by. */
    bool is_measured = ticks >= 1000 && ns >= 1000;
    origin = last;
    ns_per_tick = is_measured ? ratio(ns, ticks) : UINT64_C(1) << 32;
    ticks_per_ns = is_measured ? ratio(ticks, ns) : UINT64_C(1) << 32;
    bool use_counter = is_measured && counter_is_invariant() && kernel_trusts_counter();
    atomic_store_explicit(&source, use_counter ? SOURCE_COUNTER : SOURCE_KERNEL,
                          memory_order_release);
}

void orl_clock_open(void)
{
    pthread_once(&once, calibrate);
}

static int source_in_use(void)
{
    int now = atomic_load_explicit(&source, memory_order_acquire);
    if (ORL_UNLIKELY(now == SOURCE_UNKNOWN)) {
        orl_clock_open();
        now = atomic_load_explicit(&source, memory_order_acquire);
    }
    return now;
}

bool orl_clock_is_counter(void)
{
    return source_in_use() == SOURCE_COUNTER;
}

uint64_t orl_clock_ns(void)
{
    if (ORL_UNLIKELY(source_in_use() != SOURCE_COUNTER)) {
        return orl_clock_kernel_ns();
    }
    uint64_t ticks = orl_clock_ticks() - origin.ticks;
    /* Another CPU's counter may lag by a few ticks, and so lie before the origin. */
    return origin.ns + ((int64_t)ticks < 0 ? 0 : scale(ticks, ns_per_tick));
}

uint64_t orl_clock_ticks_of_ns(uint64_t ns)
{
    (void)source_in_use();
    return scale(ns, ticks_per_ns);
}

uint64_t orl_clock_ns_of_ticks(uint64_t ticks)
{
    (void)source_in_use();
    return scale(ticks, ns_per_tick);
}

uint64_t orl_deadline_in(int64_t timeout_ns)
{
    if (timeout_ns < 0) {
        return ORL_NEVER;
    }
    uint64_t now = orl_clock_ns();
    uint64_t timeout = (uint64_t)timeout_ns;
    return timeout >= ORL_NEVER - now ? ORL_NEVER : now + timeout;
}

bool orl_deadline_passed(uint64_t deadline_ns)
{
    return deadline_ns != ORL_NEVER && orl_clock_ns() >= deadline_ns;
}

uint64_t orl_deadline_left(uint64_t deadline_ns)
{
    if (deadline_ns == ORL_NEVER) {
        return ORL_NEVER;
    }
    uint64_t now = orl_clock_ns();
    return now >= deadline_ns ? 0 : deadline_ns - now;
}
