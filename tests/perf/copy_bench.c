/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Speed of the copy kernels beside libc's memcpy, in GB/s: private source, destination in shared
 * memory as in a put, at relative alignments 0 and 8. Run by hand when a kernel or the threshold
 * of streaming changes; a few seconds. Not a test: it passes no judgement.
 *
 *   copy_bench            all kernels this CPU has
 *   copy_bench avx2       one of them
 */
#include "base/clock.h"
#include "base/copy.h"
#include "base/copy_kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    BATCHES = 9,
    ALIGN_FAR = 8
};

#define KIB         ((size_t)1024)
#define MIB         (KIB * KIB)
#define LARGEST     (64 * MIB)
#define BATCH_BYTES (4 * MIB)

static unsigned char *source;
static unsigned char *target;

static void by_libc(unsigned char *dst, const unsigned char *src, size_t n)
{
    memcpy(dst, src, n);
}

static void by_orl(unsigned char *dst, const unsigned char *src, size_t n)
{
    orl_copy(dst, src, n);
}

static unsigned char *pages(int sharing)
{
    void *at =
        mmap(NULL, LARGEST + 2 * MIB, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    memset(at, 1, LARGEST + 2 * MIB);
    return at;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Median over the batches. */
static double speed(orl_copy_fn copy, size_t n, size_t offset)
{
    double rate[BATCHES];
    size_t repeats = n < BATCH_BYTES ? BATCH_BYTES / n : 1;

    copy(target + offset, source, n);
    for (int batch = 0; batch < BATCHES; batch++) {
        uint64_t begin = orl_clock_ns();

        for (size_t i = 0; i < repeats; i++) {
            copy(target + offset, source, n);
            __asm__ __volatile__("" : : "r"(target), "r"(source) : "memory");
        }
        rate[batch] = (double)n * (double)repeats / (double)(orl_clock_ns() - begin);
    }
    qsort(rate, BATCHES, sizeof rate[0], compare);
    return rate[BATCHES / 2];
}

static void show(const struct orl_copy_kernel *kernel)
{
    static const size_t sizes[] = { 8,        64,       256,       1 * KIB, 4 * KIB,
                                    16 * KIB, 64 * KIB, 256 * KIB, 1 * MIB, 2 * MIB,
                                    4 * MIB,  8 * MIB,  16 * MIB,  64 * MIB };

    printf("%s, streaming from %zu bytes (cached and streamed are the kernel's two loops)\n",
           kernel->name, orl_copy_stream_min());
    printf("%10s %8s %8s %8s %8s   %8s %8s %8s %8s\n", "bytes", "libc", "orl", "cached", "streamed",
           "libc+8", "orl+8", "cached+8", "strmd+8");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        printf("%10zu", sizes[i]);
        for (size_t offset = 0; offset <= ALIGN_FAR; offset += ALIGN_FAR) {
            printf(" %8.1f %8.1f", speed(by_libc, sizes[i], offset),
                   speed(by_orl, sizes[i], offset));
            if (sizes[i] > ORL_COPY_SMALL_MAX) {
                printf(" %8.1f %8.1f  ", speed(kernel->copy, sizes[i], offset),
                       speed(kernel->stream, sizes[i], offset));
            } else {
                printf(" %8s %8s  ", "-", "-");
            }
        }
        printf("\n");
    }
}

static void show_if_wanted(const struct orl_copy_kernel *kernel, const char *wanted)
{
    if ((wanted == NULL || strcmp(wanted, kernel->name) == 0) &&
        orl_copy_select(kernel->name) == 0) {
        show(kernel);
    }
}

int main(int argc, char **argv)
{
    const char *wanted = argc > 1 ? argv[1] : NULL;

    source = pages(MAP_PRIVATE);
    target = pages(MAP_SHARED);
    for (const struct orl_copy_kernel *const *each = orl_copy_native; *each != NULL; each++) {
        show_if_wanted(*each, wanted);
    }
    show_if_wanted(&orl_copy_words, wanted);
    return 0;
}
