/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-32C: choice of method, and the method for any processor, eight tables of 256 entries that
 * take in eight bytes a step. Owns the tables, which are made when first used, and the choice,
 * which is made once; both are then only read. Called by whoever checks payloads. No lock:
 * threads that choose at the same time choose the same.
 */
#include "base/crc.h"

#include "base/crc_method.h"
#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define POLYNOMIAL UINT32_C(0x82f63b78)

enum {
    TABLES = 8,
    BYTE_VALUES = 256
};

/* table[k][b]: what byte b does to the register when k more bytes follow it. */
static uint32_t table[TABLES][BYTE_VALUES];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static uint32_t shift_byte(uint32_t state)
{
    for (int bit = 0; bit < 8; bit++) {
        state = (state >> 1) ^ ((state & 1) != 0 ? POLYNOMIAL : 0);
    }
    return state;
}

static void make_tables(void)
{
    for (uint32_t byte = 0; byte < BYTE_VALUES; byte++) {
        table[0][byte] = shift_byte(byte);
    }
    for (int k = 1; k < TABLES; k++) {
        for (uint32_t byte = 0; byte < BYTE_VALUES; byte++) {
            uint32_t before = table[k - 1][byte];

            table[k][byte] = (before >> 8) ^ table[0][before & 0xff];
        }
    }
}

static uint32_t step8(uint32_t state, const unsigned char *data)
{
    /* The register covers the first four bytes; byte i has 7 - i bytes behind it. */
    return table[7][data[0] ^ (state & 0xff)] ^ table[6][data[1] ^ ((state >> 8) & 0xff)] ^
           table[5][data[2] ^ ((state >> 16) & 0xff)] ^ table[4][data[3] ^ (state >> 24)] ^
           table[3][data[4]] ^ table[2][data[5]] ^ table[1][data[6]] ^ table[0][data[7]];
}

static uint32_t update_by_table(uint32_t state, const unsigned char *data, size_t n)
{
    pthread_once(&table_once, make_tables);
    for (; n >= 8; n -= 8, data += 8) {
        state = step8(state, data);
    }
    for (; n > 0; n--, data++) {
        state = (state >> 8) ^ table[0][(state ^ *data) & 0xff];
    }
    return state;
}

static bool runs_anywhere(void)
{
    return true;
}

static const struct orl_crc_method by_table = {
    .name = "table",
    .is_usable = runs_anywhere,
    .update = update_by_table,
};

static const struct orl_crc_method *_Atomic chosen;

ORL_COLD ORL_NOINLINE static const struct orl_crc_method *choose_method(void)
{
    const struct orl_crc_method *const *each = orl_crc_native;
    const struct orl_crc_method *method;

    while (*each != NULL && !(*each)->is_usable()) {
        each++;
    }
    method = *each != NULL ? *each : &by_table;
    atomic_store_explicit(&chosen, method, memory_order_relaxed);
    return method;
}

static inline const struct orl_crc_method *method_in_use(void)
{
    /* Relaxed: what it points to is constant. */
    const struct orl_crc_method *method = atomic_load_explicit(&chosen, memory_order_relaxed);

    return ORL_LIKELY(method != NULL) ? method : choose_method();
}

uint32_t orl_crc32c(uint32_t crc, const void *data, size_t n)
{
    return ~method_in_use()->update(~crc, data, n);
}

const char *orl_crc_method(void)
{
    return method_in_use()->name;
}

int orl_crc_select(const char *name)
{
    const struct orl_crc_method *const *each = orl_crc_native;
    const struct orl_crc_method *method = &by_table;

    if (strcmp(name, by_table.name) != 0) {
        while (*each != NULL && strcmp(name, (*each)->name) != 0) {
            each++;
        }
        method = *each;
    }
    if (method == NULL || !method->is_usable()) {
        return orl_fail(ORL_ERR_UNSUPP, "crc method %s is not built in or this CPU lacks it", name);
    }
    atomic_store_explicit(&chosen, method, memory_order_relaxed);
    return ORL_OK;
}
