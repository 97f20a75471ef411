/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), as iSCSI and most NICs use it: checked
 * payloads and boot records. Uses the CPU's instruction where there is one, a table otherwise.
 * No lock, any thread. It detects damage by accident, not by intent.
 */
#ifndef BASE_CRC_H
#define BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

/*
 * CRC of n bytes at data, continuing crc. Start with 0: the nine bytes "123456789" give
 * 0xE3069283. Feeding the result back in continues over split data.
 */
uint32_t orl_crc32c(uint32_t crc, const void *data, size_t n);

/* Name of the method in use: "sse42", "arm" or "table". */
const char *orl_crc_method(void);

/*
 * Picks a method by name, for tests and measurements.
 * Errors: UNSUPP when this build or this CPU does not have it (the method stays as it was).
 */
ORL_MUST_CHECK int orl_crc_select(const char *name);

#endif
