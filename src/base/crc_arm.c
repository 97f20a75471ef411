/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-32C by the instruction that ARMv8.1 made mandatory, eight bytes a step. Called by crc.c
 * alone, after it asked is_usable. The instructions are written out, because gcc and clang spell
 * the target attribute that would allow their intrinsics differently.
 */
#include "base/crc_method.h"

#include <sys/auxv.h>

enum {
    WORD_BYTES = 8
};

/* HWCAP_CRC32 of the kernel's ABI, which not every libc's header names. */
#define HAS_CRC32_BIT (1UL << 7)

static bool has_crc32(void)
{
    return (getauxval(AT_HWCAP) & HAS_CRC32_BIT) != 0;
}

static inline uint32_t step8(uint32_t state, uint64_t word)
{
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(state) : "r"(word));
    return state;
}

static inline uint32_t step1(uint32_t state, uint32_t byte)
{
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(state) : "r"(byte));
    return state;
}

static uint32_t update_arm(uint32_t state, const unsigned char *data, size_t n)
{
    for (; n >= WORD_BYTES; n -= WORD_BYTES, data += WORD_BYTES) {
        state = step8(state, orl_crc_load(data));
    }
    for (; n > 0; n--, data++) {
        state = step1(state, *data);
    }
    return state;
}

static const struct orl_crc_method arm = {
    .name = "arm",
    .is_usable = has_crc32,
    .update = update_arm,
};

const struct orl_crc_method *const orl_crc_native[] = { &arm, NULL };
