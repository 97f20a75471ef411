/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs the fuzz target on mutated valid inputs, the same ones every time: flipped bits, changed
 * bytes and words, cuts, insertions. T_SOAK in the environment makes it a hundred times as long.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

#define ROUNDS 50000
#define BYTES  1024

static uint64_t state = 88172645463325252u;

static uint64_t any(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return below == 0 ? 0 : state % below;
}

static size_t mutate(uint8_t *data, size_t n)
{
    static const uint64_t words[] = { 0,          1,          0x7f,       0x80,       0xff,
                                      0x7fffffff, 0x80000000, 0xffffffff, UINT64_MAX, INT64_MAX };
    uint64_t times = 1 + any(4);
    while (times-- > 0 && n > 1) {
        size_t at = 1 + (size_t)any(n - 1);
        uint64_t word = words[any(sizeof(words) / sizeof(words[0]))];
        switch (any(5)) {
        case 0:
            data[at] ^= (uint8_t)(1u << any(8));
            break;
        case 1:
            data[at] = (uint8_t)any(256);
            break;
        case 2:
            memcpy(data + at, &word, n - at < 8 ? n - at : 8);
            break;
        case 3:
            n = at + 1;
            break;
        default:
            n = n + 8 < BYTES ? n + (size_t)any(8) : n;
            break;
        }
    }
    return n;
}

int main(void)
{
    long rounds = getenv("T_SOAK") != NULL ? 100L * ROUNDS : ROUNDS;
    uint8_t seed[BYTES] = { 0 };
    uint8_t data[BYTES];
    for (unsigned reader = 0; reader < FUZZ_READERS; reader++) {
        size_t n = fuzz_seed(reader, seed, sizeof(seed));
        if (n < 10) {
            printf("FAIL: fuzz: no seed for reader %u\n", reader);
            return 1;
        }
        LLVMFuzzerTestOneInput(seed, n);
        for (long i = 0; i < rounds; i++) {
            memcpy(data, seed, sizeof(data));
            LLVMFuzzerTestOneInput(data, mutate(data, n));
        }
    }
    printf("PASS: fuzz: %d readers, %ld inputs each\n", FUZZ_READERS, rounds);
    return 0;
}
