/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copy: small sizes in place, the rest through the kernel that suits the CPU. Owns the choice
 * of kernel and the sizes from which large copies are made otherwise; they are written at open or
 * at the first copy, and then only read. Called from every data path. No lock: threads that choose
 * at the same time choose the same.
 */
#include "base/copy.h"

#include "base/copy_kernel.h"
#include "base/status.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/*
 * Stores bypass the caches from this many L2 sizes on. Measured on a Zen 5 of 1 MiB L2, GB/s
 * cached and streamed, destination 8 bytes past the source's alignment: 1 MiB 51 and 43, 2 MiB
 * 47 and 44, 4 MiB 46 and 43, 16 MiB 32 and 32, 64 MiB 17 to 20 and 18 to 26. When another core,
 * outside the shared L3, has read the destination meanwhile, cached stores fall to 6 at any
 * size and streamed ones stay at 40. So from 2 MiB streaming loses at most a tenth and may win a
 * factor of six; below, a put into memory that stays in this core's caches decides.
 */
enum {
    STREAM_L2S = 2
};

/*
 * The string instruction takes a line for writing without fetching it. Measured on a Zen 5, us,
 * vector loop, string, streamed: 16 KiB 0.07, 0.11, 0.5; 32 KiB 0.27 to 0.33, 0.22, 0.9; 64 KiB
 * 0.66 to 0.76, 0.57, 1.7; 1 MiB 20, 16, 31; 4 MiB 88, 74, 100. With a destination that another
 * core has just read, where the vector loop suffers most: 32 KiB 4.5, 0.9, 0.4; 1 MiB 144, 26, 24.
 */
#define STRING_MIN ((size_t)32 * 1024)

/* Cores of AMD's family 25 fall into their slow path where the destination lies 1 to 15 bytes
 * behind the source modulo a page; a line is a margin. */
#define PAGE_BYTES  ((uintptr_t)4096)
#define STRING_SAFE ((uintptr_t)64)

static const struct orl_copy_kernel *_Atomic chosen;
static _Atomic size_t stream_min;
static _Atomic size_t string_min;
static _Atomic size_t large_min; /* the lower of the two */

static size_t l2_bytes(void)
{
    long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);

    return bytes > 0 ? (size_t)bytes : (size_t)1024 * 1024;
}

static const struct orl_copy_kernel *best_kernel(void)
{
    const struct orl_copy_kernel *const *each = orl_copy_native;

    while (*each != NULL && !(*each)->is_usable()) {
        each++;
    }
    return *each != NULL ? *each : &orl_copy_words;
}

static void use_kernel(const struct orl_copy_kernel *kernel)
{
    bool has_string = kernel->has_string != NULL && kernel->has_string();
    size_t string = has_string ? STRING_MIN : SIZE_MAX;
    size_t stream = STREAM_L2S * l2_bytes();

    atomic_store_explicit(&string_min, string, memory_order_relaxed);
    atomic_store_explicit(&stream_min, stream, memory_order_relaxed);
    atomic_store_explicit(&large_min, string < stream ? string : stream, memory_order_relaxed);
    /* Release: who sees the kernel sees the thresholds. */
    atomic_store_explicit(&chosen, kernel, memory_order_release);
}

ORL_COLD ORL_NOINLINE static const struct orl_copy_kernel *choose_kernel(void)
{
    const struct orl_copy_kernel *kernel = best_kernel();

    use_kernel(kernel);
    return kernel;
}

static inline const struct orl_copy_kernel *kernel_in_use(void)
{
    const struct orl_copy_kernel *kernel = atomic_load_explicit(&chosen, memory_order_acquire);

    return ORL_LIKELY(kernel != NULL) ? kernel : choose_kernel();
}

static inline void copy_pair128(unsigned char *dst, const unsigned char *src, size_t n)
{
    struct orl_any128 first = *(const struct orl_any128 *)(const void *)src;
    struct orl_any128 last = *(const struct orl_any128 *)(const void *)(src + n - sizeof last);

    *(struct orl_any128 *)(void *)dst = first;
    *(struct orl_any128 *)(void *)(dst + n - sizeof last) = last;
}

/* 1 to 7 bytes. The powers of two are single stores, as copy.h promises. */
static inline void copy_tiny(unsigned char *dst, const unsigned char *src, size_t n)
{
    if (n == 4) {
        orl_store32(dst, orl_load32(src));
    } else if (n == 2) {
        orl_store16(dst, orl_load16(src));
    } else if (n == 1) {
        *dst = *src;
    } else if (n > 4) {
        uint32_t first = orl_load32(src);
        uint32_t last = orl_load32(src + n - sizeof last);

        orl_store32(dst, first);
        orl_store32(dst + n - sizeof last, last);
    } else if (n == 3) {
        uint16_t first = orl_load16(src);

        dst[2] = src[2];
        orl_store16(dst, first);
    }
}

/* Two pieces that overlap cover every size between one and two pieces. */
static inline void copy_small(unsigned char *dst, const unsigned char *src, size_t n)
{
    if (n == 8) {
        orl_store64(dst, orl_load64(src));
    } else if (n > 32) {
        copy_pair128(dst, src, n);
        copy_pair128(dst + 16, src + 16, n - 32);
    } else if (n > 16) {
        copy_pair128(dst, src, n);
    } else if (n > 8) {
        uint64_t first = orl_load64(src);
        uint64_t last = orl_load64(src + n - sizeof last);

        orl_store64(dst, first);
        orl_store64(dst + n - sizeof last, last);
    } else {
        copy_tiny(dst, src, n);
    }
}

void orl_copy_small(unsigned char *dst, const unsigned char *src, size_t n)
{
    copy_small(dst, src, n);
}

static bool is_string_safe(const void *dst, const void *src)
{
    uintptr_t behind = ((uintptr_t)dst - (uintptr_t)src) & (PAGE_BYTES - 1);

    return behind == 0 || behind >= STRING_SAFE;
}

ORL_NOINLINE static void copy_large(const struct orl_copy_kernel *kernel, void *dst,
                                    const void *src, size_t n)
{
    if (n >= atomic_load_explicit(&string_min, memory_order_relaxed) && is_string_safe(dst, src)) {
        kernel->string(dst, src, n);
    } else if (n >= atomic_load_explicit(&stream_min, memory_order_relaxed)) {
        kernel->stream(dst, src, n);
    } else {
        kernel->copy(dst, src, n);
    }
}

void orl_copy(void *dst, const void *src, size_t n)
{
    const struct orl_copy_kernel *kernel;

    if (n <= ORL_COPY_SMALL_MAX) {
        copy_small(dst, src, n);
        return;
    }
    kernel = kernel_in_use();
    if (ORL_UNLIKELY(n >= atomic_load_explicit(&large_min, memory_order_relaxed))) {
        copy_large(kernel, dst, src, n);
    } else {
        kernel->copy(dst, src, n);
    }
}

void orl_copy_stream(void *dst, const void *src, size_t n)
{
    if (n <= ORL_COPY_SMALL_MAX) {
        copy_small(dst, src, n);
    } else {
        kernel_in_use()->stream(dst, src, n);
    }
}

const char *orl_copy_kernel(void)
{
    return kernel_in_use()->name;
}

void orl_copy_open(void)
{
    (void)choose_kernel();
}

int orl_copy_select(const char *name)
{
    const struct orl_copy_kernel *const *each = orl_copy_native;

    if (strcmp(name, orl_copy_words.name) == 0) {
        use_kernel(&orl_copy_words);
        return ORL_OK;
    }
    while (*each != NULL && strcmp(name, (*each)->name) != 0) {
        each++;
    }
    if (*each == NULL || !(*each)->is_usable()) {
        return orl_fail(ORL_ERR_UNSUPP, "copy kernel %s is not built in or this CPU lacks it",
                        name);
    }
    use_kernel(*each);
    return ORL_OK;
}

size_t orl_copy_stream_min(void)
{
    (void)kernel_in_use();
    return atomic_load_explicit(&stream_min, memory_order_relaxed);
}

size_t orl_copy_string_min(void)
{
    (void)kernel_in_use();
    return atomic_load_explicit(&string_min, memory_order_relaxed);
}
