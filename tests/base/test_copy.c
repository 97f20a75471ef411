/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The copy kernels, each that this CPU has: every small size at every alignment between guard
 * bytes, sizes around the inner limits and around streaming, and aligned words that must not
 * tear under a reader.
 */
#include "base/copy.h"
#include "base/status.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALL_MAX = 300,
    ALIGNS = 64,
    GUARD = 128,
    GUARD_BYTE = 0xee
};

static const char *const kernel_name[] = { "avx512", "avx2", "neon", "words" };

typedef void (*copy_fn)(void *dst, const void *src, size_t n);

static void fill(unsigned char *to, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1103515245u + 12345u;
        to[i] = (unsigned char)(seed >> 16);
    }
}

static bool is_all(const unsigned char *at, size_t n, unsigned char byte)
{
    return n == 0 || (at[0] == byte && memcmp(at, at + 1, n - 1) == 0);
}

/* arena holds n bytes at offset and guards around them; src is what the bytes must be. */
static void expect_exact(const unsigned char *arena, size_t arena_bytes, size_t offset,
                         const unsigned char *src, size_t n, const char *kernel)
{
    cr_assert(memcmp(arena + offset, src, n) == 0, "%s: %zu bytes at %zu differ", kernel, n,
              offset);
    cr_assert(is_all(arena, offset, GUARD_BYTE), "%s: %zu bytes at %zu wrote in front", kernel, n,
              offset);
    cr_assert(is_all(arena + offset + n, arena_bytes - offset - n, GUARD_BYTE),
              "%s: %zu bytes at %zu wrote behind", kernel, n, offset);
}

static void check_small(copy_fn copy, const char *kernel)
{
    static const size_t src_aligns[] = { 0, 1, 7, 8, 31, 32, 33, 63 };
    static _Alignas(64) unsigned char src[SMALL_MAX + ALIGNS];
    static _Alignas(64) unsigned char dst[GUARD + ALIGNS + SMALL_MAX + GUARD];

    fill(src, sizeof src, 1);
    for (size_t n = 0; n <= SMALL_MAX; n++) {
        for (size_t to = GUARD; to < GUARD + ALIGNS; to++) {
            for (size_t k = 0; k < sizeof src_aligns / sizeof src_aligns[0]; k++) {
                memset(dst, GUARD_BYTE, sizeof dst);
                copy(dst + to, src + src_aligns[k], n);
                expect_exact(dst, sizeof dst, to, src + src_aligns[k], n, kernel);
            }
        }
    }
}

Test(copy, small_sizes_at_every_alignment, .timeout = 120)
{
    for (size_t k = 0; k < sizeof kernel_name / sizeof kernel_name[0]; k++) {
        if (orl_copy_select(kernel_name[k]) == 0) {
            cr_assert_str_eq(orl_copy_kernel(), kernel_name[k]);
            check_small(orl_copy, kernel_name[k]);
            check_small(orl_copy_stream, kernel_name[k]);
        }
    }
}

static void check_large(copy_fn copy, const char *kernel, size_t n)
{
    static const size_t offsets[] = { 0, 1, 8, 33, 63, 64, 4095 };
    const size_t room = GUARD + 4096 + n + GUARD;
    unsigned char *src = malloc(room);
    unsigned char *dst = aligned_alloc(64, (room + 63) / 64 * 64);

    cr_assert(src != NULL && dst != NULL);
    fill(src, room, (unsigned)n);
    for (size_t k = 0; k < sizeof offsets / sizeof offsets[0]; k++) {
        memset(dst, GUARD_BYTE, room);
        copy(dst + GUARD + offsets[k], src, n);
        expect_exact(dst, room, GUARD + offsets[k], src, n, kernel);
        memset(dst, GUARD_BYTE, room);
        copy(dst + GUARD, src + offsets[k], n);
        expect_exact(dst, room, GUARD, src + offsets[k], n, kernel);
    }
    free(src);
    free(dst);
}

/* Around multiples of the blocks of all kernels, at 4 KiB, and around the streaming limit. */
Test(copy, sizes_around_limits, .timeout = 120)
{
    static const int around[] = { -65, -64, -1, 0, 1, 63, 64, 65 };
    static const size_t middles[] = { 512, 1024, 4096, 65536 };
    const size_t count = sizeof around / sizeof around[0];

    for (size_t k = 0; k < sizeof kernel_name / sizeof kernel_name[0]; k++) {
        if (orl_copy_select(kernel_name[k]) != 0) {
            continue;
        }
        for (size_t i = 0; i < count; i++) {
            for (size_t m = 0; m < sizeof middles / sizeof middles[0]; m++) {
                check_large(orl_copy, kernel_name[k], middles[m] + (size_t)around[i]);
                check_large(orl_copy_stream, kernel_name[k], middles[m] + (size_t)around[i]);
            }
        }
        if (orl_copy_string_min() < orl_copy_stream_min()) {
            check_large(orl_copy, kernel_name[k], orl_copy_string_min() - 1);
            check_large(orl_copy, kernel_name[k], orl_copy_string_min());
            check_large(orl_copy, kernel_name[k], orl_copy_string_min() + 65);
        }
        check_large(orl_copy, kernel_name[k], orl_copy_stream_min() - 1);
        check_large(orl_copy, kernel_name[k], orl_copy_stream_min());
        check_large(orl_copy, kernel_name[k], orl_copy_stream_min() + 65);
    }
}

Test(copy, picks_a_kernel_by_itself)
{
    unsigned char src[200];
    unsigned char dst[200] = { 0 };

    fill(src, sizeof src, 3);
    orl_copy(dst, src, sizeof src);
    cr_assert_arr_eq(dst, src, sizeof src);
    cr_assert_neq(strlen(orl_copy_kernel()), 0);
    cr_assert_gt(orl_copy_stream_min(), 65536);
    orl_copy_open();
    cr_assert_eq(orl_copy_select("words"), 0);
    cr_assert_str_eq(orl_copy_kernel(), "words");
    cr_assert_eq(orl_copy_select("string"), ORL_ERR_UNSUPP);
    cr_assert_str_eq(orl_copy_kernel(), "words");
}

/* ---- Aligned words ---- */

enum {
    FLIPS = 400000
};

/* Read by atomic loads; not an atomic type, since what writes it is a copy. */
static _Alignas(64) uint64_t word;
static atomic_bool is_over;

/* Writes all bits clear and all bits set by turns, by the copy of n bytes. */
static void *flip(void *arg)
{
    static const uint64_t value[2] = { 0, UINT64_MAX };
    size_t n = *(size_t *)arg;

    for (int i = 0; i < FLIPS; i++) {
        orl_copy(&word, &value[i & 1], n);
    }
    atomic_store(&is_over, true);
    return NULL;
}

Test(copy, aligned_words_do_not_tear, .timeout = 60)
{
    static const size_t sizes[] = { 2, 4, 8 };

    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        size_t n = sizes[k];
        uint64_t mask = n == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * n)) - 1;
        pthread_t thread;

        word = 0;
        atomic_store(&is_over, false);
        cr_assert_eq(pthread_create(&thread, NULL, flip, &n), 0);
        while (!atomic_load(&is_over)) {
            uint64_t seen = __atomic_load_n(&word, __ATOMIC_RELAXED) & mask;

            cr_assert(seen == 0 || seen == mask, "%zu bytes torn: %lx", n, (unsigned long)seen);
        }
        pthread_join(thread, NULL);
    }
}

/* What a release store orders after a copy must be there, streamed or not. */
static unsigned char *ordered_src;
static unsigned char *ordered_dst;
static atomic_int turn;

enum {
    TURNS = 200,
    ORDERED_BYTES = 64 * 1024
};

static void *copy_by_turns(void *arg)
{
    (void)arg;
    for (int i = 1; i <= TURNS; i++) {
        while (atomic_load_explicit(&turn, memory_order_acquire) != 2 * i - 1) {
            sched_yield();
        }
        memset(ordered_src, i, ORDERED_BYTES);
        if (i % 2 == 0) {
            orl_copy(ordered_dst, ordered_src, ORDERED_BYTES);
        } else {
            orl_copy_stream(ordered_dst, ordered_src, ORDERED_BYTES);
        }
        atomic_store_explicit(&turn, 2 * i, memory_order_release);
    }
    return NULL;
}

Test(copy, a_release_store_orders_copies, .timeout = 60)
{
    pthread_t thread;

    ordered_src = aligned_alloc(64, ORDERED_BYTES);
    ordered_dst = aligned_alloc(64, ORDERED_BYTES);
    cr_assert_eq(pthread_create(&thread, NULL, copy_by_turns, NULL), 0);
    for (int i = 1; i <= TURNS; i++) {
        atomic_store_explicit(&turn, 2 * i - 1, memory_order_release);
        while (atomic_load_explicit(&turn, memory_order_acquire) != 2 * i) {
            sched_yield();
        }
        cr_assert(is_all(ordered_dst, ORDERED_BYTES, (unsigned char)i), "turn %d", i);
    }
    pthread_join(thread, NULL);
    free(ordered_src);
    free(ordered_dst);
}
