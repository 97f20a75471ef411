/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-32C: published vectors by every method this CPU has, all of them against a bit-by-bit
 * reference at many lengths and alignments, continuation, and detection of damage.
 */
#include "base/crc.h"
#include "base/status.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *const method_name[] = { "sse42", "arm", "table" };

enum {
    METHODS = sizeof method_name / sizeof method_name[0],
    LONGEST = 5000
};

static unsigned char data[LONGEST + 64];

static void fill(void)
{
    unsigned seed = 5;

    for (size_t i = 0; i < sizeof data; i++) {
        seed = seed * 1103515245u + 12345u;
        data[i] = (unsigned char)(seed >> 16);
    }
}

static uint32_t reference(uint32_t crc, const unsigned char *at, size_t n)
{
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
        }
    }
    return ~crc;
}

/* Vectors of RFC 3720, appendix B.4, and the usual check value. */
/* covers: O1 */
Test(crc, published_vectors)
{
    unsigned char zeros[32] = { 0 };
    unsigned char ones[32];
    unsigned char up[32];
    unsigned char down[32];

    memset(ones, 0xff, sizeof ones);
    for (int i = 0; i < 32; i++) {
        up[i] = (unsigned char)i;
        down[i] = (unsigned char)(31 - i);
    }
    for (int k = 0; k < METHODS; k++) {
        if (orl_crc_select(method_name[k]) != 0) {
            continue;
        }
        cr_assert_str_eq(orl_crc_method(), method_name[k]);
        cr_assert_eq(orl_crc32c(0, "123456789", 9), 0xe3069283u);
        cr_assert_eq(orl_crc32c(0, zeros, sizeof zeros), 0x8a9136aau);
        cr_assert_eq(orl_crc32c(0, ones, sizeof ones), 0x62a8ab43u);
        cr_assert_eq(orl_crc32c(0, up, sizeof up), 0x46dd794eu);
        cr_assert_eq(orl_crc32c(0, down, sizeof down), 0x113fdb5cu);
        cr_assert_eq(orl_crc32c(0, zeros, 0), 0);
    }
}

Test(crc, every_length_and_alignment, .timeout = 60)
{
    fill();
    for (int k = 0; k < METHODS; k++) {
        if (orl_crc_select(method_name[k]) != 0) {
            continue;
        }
        for (size_t n = 0; n <= LONGEST; n += n < 80 ? 1 : 37) {
            for (size_t offset = 0; offset < 9; offset++) {
                cr_assert_eq(orl_crc32c(7, data + offset, n), reference(7, data + offset, n),
                             "%s: %zu bytes at %zu", method_name[k], n, offset);
            }
        }
        /* Around one, two and three blocks of the interleaved method. */
        for (size_t n = 1536 - 9; n <= 4608 + 9; n += n % 1536 == 9 ? 1536 - 18 : 1) {
            cr_assert_eq(orl_crc32c(0, data, n), reference(0, data, n), "%s: %zu bytes",
                         method_name[k], n);
        }
    }
}

Test(crc, continues_over_pieces)
{
    uint32_t whole;

    fill();
    for (int k = 0; k < METHODS; k++) {
        if (orl_crc_select(method_name[k]) != 0) {
            continue;
        }
        whole = orl_crc32c(0, data, LONGEST);
        for (size_t cut = 0; cut <= LONGEST; cut += 61) {
            uint32_t part = orl_crc32c(0, data, cut);

            cr_assert_eq(orl_crc32c(part, data + cut, LONGEST - cut), whole);
        }
    }
}

Test(crc, notices_one_bit)
{
    uint32_t good;

    fill();
    good = orl_crc32c(0, data, LONGEST);
    for (size_t bit = 0; bit < (size_t)LONGEST * 8; bit += 997) {
        data[bit / 8] ^= (unsigned char)(1u << (bit % 8));
        cr_assert_neq(orl_crc32c(0, data, LONGEST), good);
        data[bit / 8] ^= (unsigned char)(1u << (bit % 8));
    }
    cr_assert_eq(orl_crc32c(0, data, LONGEST), good);
}

Test(crc, refuses_unknown_methods)
{
    cr_assert_neq(strlen(orl_crc_method()), 0);
    cr_assert_eq(orl_crc_select("table"), 0);
    cr_assert_eq(orl_crc_select("parity"), ORL_ERR_UNSUPP);
    cr_assert_str_eq(orl_crc_method(), "table");
}
