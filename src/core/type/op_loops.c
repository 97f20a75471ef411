/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inner loops of the predefined operators, one per operator and type, and the table that finds
 * them. Integers wrap: sums and products are taken in the unsigned type of the same width.
 */
#include "core/type/type.h"

#include <stddef.h>
#include <string.h>

#include "base/status.h"

/* One loop: U is the type the expression is computed in (unsigned for integers). Buffers of users
 * may lie at any address, so elements are read as such; on x86 and Arm that costs nothing. A turn
 * takes 32 bytes of each side before it writes: so the result may replace an operand, and compilers
 * make vectors of a turn without asking whether the buffers overlap. */
#define LOOP(name, T, U, expression)                                          \
 static void name(void *out, const void *left, const void *right, uint64_t n) \
 {                                                                            \
  typedef T element __attribute__((aligned(1), may_alias));                   \
  enum {                                                                      \
   TURN = 32 / sizeof(T)                                                      \
  };                                                                          \
  const element *x = left;                                                    \
  const element *y = right;                                                   \
  element *z = out;                                                           \
  for (; n >= TURN; n -= TURN, x += TURN, y += TURN, z += TURN) {             \
   T turn[TURN];                                                              \
   for (int i = 0; i < TURN; i++) {                                           \
    U a = (U)x[i];                                                            \
    U b = (U)y[i];                                                            \
    turn[i] = (T)(expression);                                                \
   }                                                                          \
   memcpy(z, turn, sizeof(turn));                                             \
  }                                                                           \
  for (uint64_t i = 0; i < n; i++) {                                          \
   U a = (U)x[i];                                                             \
   U b = (U)y[i];                                                             \
   z[i] = (T)(expression);                                                    \
  }                                                                           \
 }

#define LOOPS_ARITH(s, T, U)        \
 LOOP(sum_##s, T, U, a + b)         \
 LOOP(prod_##s, T, U, a *b)         \
 LOOP(min_##s, T, T, b < a ? b : a) \
 LOOP(max_##s, T, T, b > a ? b : a)

#define LOOPS_BITS(s, T)    \
 LOOP(band_##s, T, T, a &b) \
 LOOP(bor_##s, T, T, a | b) \
 LOOP(bxor_##s, T, T, a ^ b)

#define LOOPS_LOGIC(s, T)                  \
 LOOP(land_##s, T, T, (a != 0) & (b != 0)) \
 LOOP(lor_##s, T, T, (a != 0) | (b != 0))  \
 LOOP(lxor_##s, T, T, (a != 0) ^ (b != 0))

/* Integers: the narrow ones are multiplied in 32 bits, where no unsigned product overflows. */
#define LOOPS_INTEGER(s, T, U) LOOPS_ARITH(s, T, U) LOOPS_BITS(s, T) LOOPS_LOGIC(s, T)

LOOPS_INTEGER(i8, int8_t, uint32_t)
LOOPS_INTEGER(i16, int16_t, uint32_t)
LOOPS_INTEGER(i32, int32_t, uint32_t)
LOOPS_INTEGER(i64, int64_t, uint64_t)
LOOPS_INTEGER(u8, uint8_t, uint32_t)
LOOPS_INTEGER(u16, uint16_t, uint32_t)
LOOPS_INTEGER(u32, uint32_t, uint32_t)
LOOPS_INTEGER(u64, uint64_t, uint64_t)
LOOPS_ARITH(f, float, float)
LOOPS_ARITH(d, double, double)

#define ROW_ARITH(s) sum_##s, prod_##s, min_##s, max_##s
#define ROW_BITS(s)  band_##s, bor_##s, bxor_##s
#define ROW_LOGIC(s) land_##s, lor_##s, lxor_##s
#define ROW_ALL(s)                              \
 {                                              \
  NULL, ROW_ARITH(s), ROW_BITS(s), ROW_LOGIC(s) \
 }

#define OPS   11
#define TYPES 12

/* [type][operator], in the order of the handles in oriel.h. */
static const core_op_fn loops[TYPES][OPS] = {
    { NULL },
    { NULL, NULL, NULL, NULL, NULL, ROW_BITS(u8) },
    ROW_ALL(i8),
    ROW_ALL(i16),
    ROW_ALL(i32),
    ROW_ALL(i64),
    ROW_ALL(u8),
    ROW_ALL(u16),
    ROW_ALL(u32),
    ROW_ALL(u64),
    { NULL, ROW_ARITH(f) },
    { NULL, ROW_ARITH(d) },
};

static const char *const names[OPS] = { "",           "ORIEL_SUM",  "ORIEL_PROD", "ORIEL_MIN",
                                        "ORIEL_MAX",  "ORIEL_BAND", "ORIEL_BOR",  "ORIEL_BXOR",
                                        "ORIEL_LAND", "ORIEL_LOR",  "ORIEL_LXOR" };

int core_op_query(const struct oriel_op *op, const struct oriel_type *type, core_op_fn *fn)
{
    uintptr_t o = (uintptr_t)op;
    uintptr_t t = (uintptr_t)type;
    if (o == 0 || o >= OPS) {
        return orl_fail(ORL_ERR_TYPE, "%p is not an operator; ORIEL_SUM to ORIEL_LXOR are",
                        (const void *)op);
    }
    uint64_t bytes;
    const char *name;
    int st = core_type_query(type, &bytes, &name);
    if (st != 0) {
        return st;
    }
    if (loops[t][o] == NULL) {
        return orl_fail(ORL_ERR_TYPE, "%s is not defined on %s", names[o], name);
    }
    *fn = loops[t][o];
    return 0;
}
