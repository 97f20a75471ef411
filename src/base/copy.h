/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The copy kernel: every byte of payload that a CPU moves goes through here. Vector loops chosen
 * by CPU, equally fast at every relative alignment of source and destination; for large copies the
 * CPU's string instruction, except where the destination lies a few bytes behind the source modulo
 * 4 KiB, where some cores run it twenty times slower. Called by shm, self, pack and staging. No
 * lock, any thread.
 * It does not support overlap and gives no order between copies: the caller releases.
 */
#ifndef BASE_COPY_H
#define BASE_COPY_H

#include <stddef.h>

#include "base/attr.h"

/*
 * Copies n bytes. The ranges must not overlap.
 * A copy of 1, 2, 4 or 8 bytes is one load and one store; where both addresses are multiples of
 * the size, a concurrent reader sees the old or the new value, never a mixture. Larger copies
 * are not atomic in any part, and may write a byte twice (with the same value).
 * Stores of large copies may bypass the caches; they are done before any store that follows, so a
 * release store is ordered as after any other copy.
 */
void orl_copy(void *dst, const void *src, size_t n);

/*
 * The same with stores that bypass the caches whatever the size: for a destination that this
 * core does not read again soon. Fenced before the return.
 */
void orl_copy_stream(void *dst, const void *src, size_t n);

/* Name of the kernel in use: "avx512", "avx2", "neon" or "words". */
const char *orl_copy_kernel(void);

/* Picks the best kernel this CPU has. Without the call the first copy does it. */
void orl_copy_open(void);

/*
 * Picks a kernel by name, for tests and measurements.
 * Errors: UNSUPP when this build or this CPU does not have it (the kernel stays as it was).
 */
ORL_MUST_CHECK int orl_copy_select(const char *name);

/* Size in bytes from which orl_copy bypasses the caches, where it does not take the string
 * instruction. */
size_t orl_copy_stream_min(void);

/* Size in bytes from which orl_copy takes the string instruction, where the addresses allow it;
 * SIZE_MAX without one. */
size_t orl_copy_string_min(void);

#endif
