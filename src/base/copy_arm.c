/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copy kernel of 64-bit ARM: NEON, 64 bytes a turn, the destination aligned after a head, and a
 * tail that overlaps what is written already. The streaming form uses the pair store with the
 * non-temporal hint. Called by copy.c alone. Every 64-bit ARM has NEON, so there is nothing to
 * ask.
 */
#include <arm_neon.h>

#include "base/copy_kernel.h"

enum {
    PAIR_BYTES = 32,
    BLOCK_BYTES = 64
};

static bool has_neon(void)
{
    return true;
}

static inline void copy_block(unsigned char *dst, const unsigned char *src)
{
    vst1q_u8_x4(dst, vld1q_u8_x4(src));
}

static void copy_neon(unsigned char *dst, const unsigned char *src, size_t n)
{
    size_t done = BLOCK_BYTES - ((uintptr_t)dst & (BLOCK_BYTES - 1));

    copy_block(dst, src);
    for (; done < n && n - done > BLOCK_BYTES; done += BLOCK_BYTES) {
        copy_block(dst + done, src + done);
    }
    copy_block(dst + n - BLOCK_BYTES, src + n - BLOCK_BYTES);
}

static inline void stream_pair(unsigned char *dst, const unsigned char *src)
{
    uint8x16_t low = vld1q_u8(src);
    uint8x16_t high = vld1q_u8(src + PAIR_BYTES / 2);

    __asm__ __volatile__("stnp %q0, %q1, [%2]" : : "w"(low), "w"(high), "r"(dst) : "memory");
}

static void stream_neon(unsigned char *dst, const unsigned char *src, size_t n)
{
    size_t done = -(uintptr_t)dst & (BLOCK_BYTES - 1);

    orl_copy_small(dst, src, done);
    for (; n - done >= BLOCK_BYTES; done += BLOCK_BYTES) {
        stream_pair(dst + done, src + done);
        stream_pair(dst + done + PAIR_BYTES, src + done + PAIR_BYTES);
    }
    orl_copy_small(dst + done, src + done, n - done);
    /* A release store orders these too; the barrier keeps the promise of copy.h to the letter. */
    __asm__ __volatile__("dmb ishst" : : : "memory");
}

static const struct orl_copy_kernel neon = {
    .name = "neon",
    .is_usable = has_neon,
    .copy = copy_neon,
    .stream = stream_neon,
};

const struct orl_copy_kernel *const orl_copy_native[] = { &neon, NULL };
