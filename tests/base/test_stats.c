/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters: rows have names, blocks add up, and only what happened is shown.
 */
#include "base/stats.h"

#include <string.h>

#include <criterion/criterion.h>

#include "base/strbuf.h"

Test(stats, every_row_has_words_and_no_two_share_a_name)
{
    for (unsigned i = 0; i < ORL_STAT_COUNT; i++) {
        enum orl_stat id = (enum orl_stat)i;
        cr_assert_gt(strlen(orl_stats_name(id)), 0);
        cr_assert_gt(strlen(orl_stats_unit(id)), 0);
        cr_assert_gt(strlen(orl_stats_text(id)), 0);
        for (unsigned j = 0; j < i; j++) {
            cr_assert_str_neq(orl_stats_name(id), orl_stats_name((enum orl_stat)j));
        }
    }
    cr_assert_str_eq(orl_stats_name(ORL_STAT_PUT_BYTES), "put_bytes");
    cr_assert_str_eq(orl_stats_unit(ORL_STAT_PUT_BYTES), "bytes");
    cr_assert_str_eq(orl_stats_name(ORL_STAT_COUNT), "");
}

Test(stats, blocks_add_up)
{
    struct orl_stats a = { { 0 } };
    struct orl_stats b = { { 0 } };
    struct orl_stats sum = { { 0 } };
    orl_stat_add(&a, ORL_STAT_PUTS, 2);
    orl_stat_add(&a, ORL_STAT_PUTS, 3);
    orl_stat_add(&b, ORL_STAT_PUTS, 10);
    orl_stat_add(&b, ORL_STAT_ALLOCS, 1);
    orl_stats_sum(&sum, &a);
    orl_stats_sum(&sum, &b);
    cr_assert_eq(orl_stat_get(&sum, ORL_STAT_PUTS), 15);
    cr_assert_eq(orl_stat_get(&sum, ORL_STAT_ALLOCS), 1);
    cr_assert_eq(orl_stat_get(&sum, ORL_STAT_GETS), 0);
}

Test(stats, only_what_happened_is_shown)
{
    char memory[512];
    struct orl_strbuf out;
    struct orl_stats stats = { { 0 } };
    orl_stat_add(&stats, ORL_STAT_PUT_BYTES, 4096);
    orl_strbuf_init(&out, memory, sizeof(memory));
    orl_stats_describe(&stats, &out);
    cr_assert_not_null(strstr(memory, "put_bytes"));
    cr_assert_not_null(strstr(memory, " 4096 bytes\n"));
    cr_assert_null(strstr(memory, "get_bytes"));
}
