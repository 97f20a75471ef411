/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Help for tests, the part without processes: data that tells where it comes from, time, memory,
 * names; see t.h. No state but a serial number.
 */
#include "tests/t.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static unsigned char byte_of(uint64_t origin, uint64_t iteration, uint64_t place)
{
    uint64_t x =
        (place >> 3) * UINT64_C(0x9e3779b97f4a7c15) + origin * UINT64_C(0xc2b2ae3d27d4eb4f);

    x ^= (iteration + 1) * UINT64_C(0x165667b19e3779f9);
    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 32;
    return (unsigned char)(x >> (8 * (place & 7)));
}

void t_fill(void *data, size_t n, uint64_t origin, uint64_t iteration, uint64_t offset)
{
    unsigned char *bytes = data;

    for (size_t i = 0; i < n; i++) {
        bytes[i] = byte_of(origin, iteration, offset + i);
    }
}

size_t t_differs(const void *data, size_t n, uint64_t origin, uint64_t iteration, uint64_t offset)
{
    const unsigned char *bytes = data;

    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != byte_of(origin, iteration, offset + i)) {
            return i;
        }
    }
    return n;
}

static double seconds_of(clockid_t clock)
{
    struct timespec t;

    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double t_now(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

double t_cpu(void)
{
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

void t_sleep_ms(int ms)
{
    struct timespec left = { ms / 1000, (long)(ms % 1000) * 1000000L };

    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

size_t t_resident(void)
{
    char text[128] = "";
    const char *second = NULL;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file != NULL) {
        second = fgets(text, sizeof(text), file) != NULL ? strchr(text, ' ') : NULL;
        (void)fclose(file);
    }
    return second == NULL ? 0 : strtoul(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

void t_temp(char *path, size_t capacity, const char *hint)
{
    static atomic_uint serial;
    const char *folder = getenv("TMPDIR");

    (void)snprintf(path, capacity, "%s/%s-%ld-%u", folder != NULL ? folder : "/tmp", hint,
                   (long)getpid(), atomic_fetch_add(&serial, 1));
}
