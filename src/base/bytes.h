/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers in bytes, little-endian, at any alignment, as they stand in tokens and envelopes.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* The low `bytes` bytes (at most 8) of value. */
static inline void orl_store_le(unsigned char *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (unsigned char)(value >> (8 * i));
    }
}

static inline uint64_t orl_load_le(const unsigned char *at, size_t bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < bytes; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

#endif
