/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Front end of the contract: every case on every row, one Criterion parameter each. A failure
 * names the row, the case and the finding.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "contract.h"

#define PAIRS_MAX 1024
#define SECONDS   60

struct pair {
    int row;
    int test;
};

ParameterizedTestParameters(contract, holds)
{
    static struct pair pairs[PAIRS_MAX];
    size_t n = 0;
    size_t row;
    size_t test;

    for (row = 0; row < ct_nrows; row++) {
        for (test = 0; test < ct_ncases && n < PAIRS_MAX; test++) {
            pairs[n].row = (int)row;
            pairs[n].test = (int)test;
            n++;
        }
    }
    return cr_make_param_array(struct pair, pairs, n);
}

ParameterizedTest(struct pair *pair, contract, holds, .timeout = SECONDS + 20)
{
    char text[512];
    const struct ct_row *row = &ct_rows[pair->row];
    const struct ct_case *test = &ct_cases[pair->test];
    enum ct_result result = ct_run_child(test, row, NULL, NULL, SECONDS, text, sizeof text);

    cr_assert(result == CT_HOLDS, "%s, %s: %s", row->name, test->name, text);
}

Test(contract, names)
{
    size_t i;

    for (i = 0; i < ct_nrows; i++) {
        cr_assert(ct_row_find(ct_rows[i].name) == &ct_rows[i], "row %zu", i);
    }
    for (i = 0; i < ct_ncases; i++) {
        cr_assert(ct_case_find(ct_cases[i].name) == &ct_cases[i], "case %zu", i);
    }
    cr_assert(ct_case_find("no such case") == NULL);
    cr_assert(ct_nrows * ct_ncases <= PAIRS_MAX, "pairs are left out");
}
