/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-32C by the SSE4.2 instruction. It takes eight bytes and finishes three cycles later, but
 * a new one can start each cycle, so long data is read as three stripes side by side, whose
 * registers are then joined by carry-less multiplication. Called by crc.c alone, after it asked
 * is_usable; the functions name their target, so the file needs no compiler flag.
 */
#include <immintrin.h>

#include "base/crc_method.h"

enum {
    WORD_BYTES = 8,
    STRIPE_BYTES = 512,
    BLOCK_BYTES = 3 * STRIPE_BYTES
};

/*
 * Putting n zero bytes behind a register multiplies it by x^(8n) modulo the polynomial. The
 * product of two bit-reversed registers comes out one place short of a 64-bit word, and the CRC
 * instruction multiplies by x^32 while it reduces, hence the 33: x^(8n - 33), bit-reversed, for
 * n of one stripe and of two.
 */
#define PAST_ONE_STRIPE  UINT32_C(0xdd7e3b0c)
#define PAST_TWO_STRIPES UINT32_C(0x170076fa)

static bool has_sse42(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

ORL_TARGET("sse4.2") static inline uint64_t step8(uint64_t state, const unsigned char *data)
{
    return _mm_crc32_u64(state, orl_crc_load(data));
}

ORL_TARGET("sse4.2,pclmul") static inline uint64_t move_past(uint64_t state, uint32_t factor)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)state),
                                           _mm_cvtsi64_si128((long long)factor), 0);

    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

ORL_TARGET("sse4.2,pclmul") static uint64_t take_block(uint64_t state, const unsigned char *data)
{
    uint64_t second = 0;
    uint64_t third = 0;

    for (size_t i = 0; i < STRIPE_BYTES; i += WORD_BYTES) {
        state = step8(state, data + i);
        second = step8(second, data + STRIPE_BYTES + i);
        third = step8(third, data + (size_t)2 * STRIPE_BYTES + i);
    }
    return move_past(state, PAST_TWO_STRIPES) ^ move_past(second, PAST_ONE_STRIPE) ^ third;
}

ORL_TARGET("sse4.2,pclmul")
static uint32_t update_sse42(uint32_t state, const unsigned char *data, size_t n)
{
    uint64_t wide = state;

    for (; n >= BLOCK_BYTES; n -= BLOCK_BYTES, data += BLOCK_BYTES) {
        wide = take_block(wide, data);
    }
    for (; n >= WORD_BYTES; n -= WORD_BYTES, data += WORD_BYTES) {
        wide = step8(wide, data);
    }
    state = (uint32_t)wide;
    for (; n > 0; n--, data++) {
        state = _mm_crc32_u8(state, *data);
    }
    return state;
}

static const struct orl_crc_method sse42 = {
    .name = "sse42",
    .is_usable = has_sse42,
    .update = update_sse42,
};

const struct orl_crc_method *const orl_crc_native[] = { &sse42, NULL };
