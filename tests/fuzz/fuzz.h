/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fuzz target and its drivers share. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

enum {
    FUZZ_TOKEN,
    FUZZ_KEY,
    FUZZ_RECORD,
    FUZZ_SETTING,
    FUZZ_TOKEN_INSIDE, /* its length and checksum made to fit */
    FUZZ_NICS,         /* the value of ORIEL_NICS */
#ifdef ORIEL_HAVE_LIBFABRIC
    FUZZ_WIRE, /* what arrives at an engine of libfabric */
#endif
    FUZZ_READERS
};

#define FUZZ_RECORD_HEAD 16 /* of a bootstrap record: version, length, checksum */
#define FUZZ_KEY_AT      42 /* of the first key in a token: head 40, engine 1, length 1 */

/* libFuzzer's entry. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* A valid input for a reader; its length. */
size_t fuzz_seed(unsigned reader, uint8_t *out, size_t capacity);

#endif
