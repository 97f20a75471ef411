/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Predefined datatypes and operators, as far as the collectives need them: size of an element, and
 * the loop that applies an operator. Handles below 4096 index tables; there are no others yet.
 */
#ifndef CORE_TYPE_TYPE_H
#define CORE_TYPE_TYPE_H

#include <stdint.h>

#include "base/attr.h"
#include "oriel.h"

/* out[i] = left[i] op right[i] for n elements. out may be left or right itself; otherwise it
 * overlaps neither. */
typedef void (*core_op_fn)(void *out, const void *left, const void *right, uint64_t n);

/* Bytes of one element and the type's name; TYPE with its text for what is no datatype. */
int core_type_query(const struct oriel_type *type, uint64_t *bytes,
                    const char **name) ORL_MUST_CHECK;

/* The loop of op on type; TYPE with its text where the pair makes no sense. */
int core_op_query(const struct oriel_op *op, const struct oriel_type *type,
                  core_op_fn *fn) ORL_MUST_CHECK;

/* count elements in bytes; INVAL when the product passes 2^63. */
int core_type_bytes(uint64_t count, uint64_t element, uint64_t *bytes) ORL_MUST_CHECK;

#endif
