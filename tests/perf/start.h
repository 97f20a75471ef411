/* SPDX-License-Identifier: BSD-3-Clause */
/* What start_base.c and start_cost.c measure alike: time, and memory resident in this process. */
#ifndef START_H
#define START_H

#include <stdio.h>
#include <time.h>

static inline double start_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static inline long start_resident_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && kib < 0 && fgets(line, sizeof(line), status) != NULL) {
        if (sscanf(line, "VmRSS: %ld", &kib) != 1) {
            kib = -1;
        }
    }
    if (status != NULL) {
        fclose(status);
    }
    return kib;
}

static inline void start_tell(int rank, double took)
{
    printf("%d resident %ld init %.2f\n", rank, start_resident_kib(), took);
    fflush(stdout);
}

#endif
