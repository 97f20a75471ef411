/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a CRC method is: private to the crc files. crc.c picks one of those that the build lists
 * (crc_x86.c, crc_arm.c or crc_none.c, chosen by the makefile) or its own table. Stateless, no
 * lock.
 */
#ifndef BASE_CRC_METHOD_H
#define BASE_CRC_METHOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct orl_crc_method {
    const char *name;
    bool (*is_usable)(void); /* asks the CPU */
    /* Advances the raw register; crc.c inverts it before and after. */
    uint32_t (*update)(uint32_t state, const unsigned char *data, size_t n);
};

/* Methods of this build's processor family, best first, NULL at the end. */
extern const struct orl_crc_method *const orl_crc_native[];

/* Eight bytes as they lie in memory, at any address; little-endian families only. */
struct __attribute__((packed, may_alias)) orl_crc_word {
    uint64_t v;
};

static inline uint64_t orl_crc_load(const unsigned char *from)
{
    return ((const struct orl_crc_word *)(const void *)from)->v;
}

#endif
