/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounded strings: nothing is written past the end, and a cut is noticed.
 */
#include "base/strbuf.h"

#include <string.h>

#include <criterion/criterion.h>

Test(strbuf, appends_in_order)
{
    char memory[64];
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, memory, sizeof(memory));
    cr_assert_str_eq(orl_strbuf_str(&sb), "");
    orl_strbuf_add(&sb, "rank ");
    orl_strbuf_addf(&sb, "%d of %d", 3, 8);
    cr_assert_str_eq(orl_strbuf_str(&sb), "rank 3 of 8");
    cr_assert_eq(sb.length, strlen("rank 3 of 8"));
    cr_assert_not(orl_strbuf_is_full(&sb));
}

Test(strbuf, an_exact_fit_is_not_a_cut)
{
    char memory[6];
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, memory, sizeof(memory));
    orl_strbuf_add(&sb, "12345");
    cr_assert_not(orl_strbuf_is_full(&sb));
    orl_strbuf_init(&sb, memory, sizeof(memory));
    orl_strbuf_addf(&sb, "%s", "12345");
    cr_assert_not(orl_strbuf_is_full(&sb));
    orl_strbuf_add(&sb, "");
    cr_assert_not(orl_strbuf_is_full(&sb));
}

Test(strbuf, cuts_and_never_writes_past_the_end)
{
    char memory[16];
    struct orl_strbuf sb;
    for (int formatted = 0; formatted < 2; formatted++) {
        memset(memory, '#', sizeof(memory));
        orl_strbuf_init(&sb, memory, 8);
        for (int i = 0; i < 3; i++) {
            if (formatted) {
                orl_strbuf_addf(&sb, "%s", "abcd");
            } else {
                orl_strbuf_add(&sb, "abcd");
            }
        }
        cr_assert_str_eq(orl_strbuf_str(&sb), "abcdabc");
        cr_assert(orl_strbuf_is_full(&sb));
        for (size_t i = 8; i < sizeof(memory); i++) {
            cr_assert_eq(memory[i], '#', "byte %zu", i);
        }
    }
}

Test(strbuf, one_byte_holds_the_empty_string)
{
    char memory[1];
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, memory, sizeof(memory));
    orl_strbuf_addf(&sb, "%d", 1);
    orl_strbuf_add(&sb, "x");
    cr_assert_str_eq(orl_strbuf_str(&sb), "");
    cr_assert(orl_strbuf_is_full(&sb));
}

Test(strbuf, join_separates_words)
{
    char memory[32];
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, memory, sizeof(memory));
    orl_strbuf_join(&sb, ", ", "self");
    orl_strbuf_join(&sb, ", ", "shm");
    cr_assert_str_eq(orl_strbuf_str(&sb), "self, shm");
}

static void expect_bytes(uint64_t bytes, const char *expected)
{
    char memory[32];
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, memory, sizeof(memory));
    orl_strbuf_add_bytes(&sb, bytes);
    cr_expect_str_eq(memory, expected);
}

Test(strbuf, sizes_for_people)
{
    expect_bytes(0, "0 B");
    expect_bytes(1023, "1023 B");
    expect_bytes(65536, "64 KiB");
    expect_bytes(1536, "1.5 KiB");
    expect_bytes(UINT64_C(1) << 40, "1 TiB");
    expect_bytes((UINT64_C(1) << 30) - 1, "1023.9 MiB");
    expect_bytes(UINT64_MAX, "16777215.9 TiB");
}

static void expect_time(uint64_t ns, const char *expected)
{
    char memory[32];
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, memory, sizeof(memory));
    orl_strbuf_add_time(&sb, ns);
    cr_expect_str_eq(memory, expected);
}

Test(strbuf, times_for_people)
{
    expect_time(0, "0");
    expect_time(1, "1 ns");
    expect_time(2000, "2 us");
    expect_time(1500000, "1500 us");
    expect_time(UINT64_C(90000000000), "90 s");
    expect_time(UINT64_C(3600000000000), "1 h");
}
