/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of predefined datatypes. Immutable.
 */
#include "core/type/type.h"

#include <stddef.h>

#include "base/status.h"

struct basic {
    const char *name;
    uint64_t bytes;
};

/* Order of the handles in oriel.h. */
static const struct basic basics[] = {
    { NULL, 0 },           { "ORIEL_BYTE", 1 },   { "ORIEL_INT8", 1 },  { "ORIEL_INT16", 2 },
    { "ORIEL_INT32", 4 },  { "ORIEL_INT64", 8 },  { "ORIEL_UINT8", 1 }, { "ORIEL_UINT16", 2 },
    { "ORIEL_UINT32", 4 }, { "ORIEL_UINT64", 8 }, { "ORIEL_FLOAT", 4 }, { "ORIEL_DOUBLE", 8 },
};

#define BASICS (sizeof(basics) / sizeof(basics[0]))

int core_type_query(const struct oriel_type *type, uint64_t *bytes, const char **name)
{
    uintptr_t i = (uintptr_t)type;
    if (i == 0 || i >= BASICS) {
        return orl_fail(ORL_ERR_TYPE, "%p is not a datatype; ORIEL_BYTE to ORIEL_DOUBLE are",
                        (const void *)type);
    }
    *bytes = basics[i].bytes;
    if (name != NULL) {
        *name = basics[i].name;
    }
    return 0;
}

int core_type_bytes(uint64_t count, uint64_t element, uint64_t *bytes)
{
    if (__builtin_mul_overflow(count, element, bytes) || *bytes > INT64_MAX) {
        return orl_fail(ORL_ERR_INVAL, "%llu elements of %llu bytes pass 2^63 bytes",
                        (unsigned long long)count, (unsigned long long)element);
    }
    return 0;
}
