/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The copy kernel for any processor: eight 64-bit words at a time. It is what a CPU without
 * vector extensions that we know of runs, and the reference the tests hold the others against.
 * Called by copy.c alone. It does not know how to bypass a cache.
 */
#include "base/copy_kernel.h"

enum {
    WORD_BYTES = 8,
    BLOCK_BYTES = 64
};

static bool runs_anywhere(void)
{
    return true;
}

static inline void copy_block(unsigned char *dst, const unsigned char *src)
{
    uint64_t word[BLOCK_BYTES / WORD_BYTES];

    for (size_t i = 0; i < BLOCK_BYTES / WORD_BYTES; i++) {
        word[i] = orl_load64(src + i * WORD_BYTES);
    }
    for (size_t i = 0; i < BLOCK_BYTES / WORD_BYTES; i++) {
        orl_store64(dst + i * WORD_BYTES, word[i]);
    }
}

/* Blocks to the end; the last one overlaps its predecessor instead of being cut. */
static void copy_words(unsigned char *dst, const unsigned char *src, size_t n)
{
    size_t done = 0;

    for (; n - done > BLOCK_BYTES; done += BLOCK_BYTES) {
        copy_block(dst + done, src + done);
    }
    copy_block(dst + n - BLOCK_BYTES, src + n - BLOCK_BYTES);
}

const struct orl_copy_kernel orl_copy_words = {
    .name = "words",
    .is_usable = runs_anywhere,
    .copy = copy_words,
    .stream = copy_words,
};
