/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Front end of the contract: every case on every row, one Criterion parameter each. A failure
 * names the row, the case and the finding. Built twice: test_contract has the rows of one host,
 * test_contract_net (CONTRACT_NET) those that go over a network. There the second provider, and on
 * the strict one what sends a hundred thousand messages, are for make soak.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <stdlib.h>
#include <string.h>

#include "contract.h"

#define PAIRS_MAX 1024
#define SECONDS   60

struct pair {
    int row;
    int test;
};

/* The address sanitizer keeps freed blocks and maps for what libfabric's net leaks: there is
 * nothing to count with it in. */
#ifdef __SANITIZE_ADDRESS__
static const bool is_counting = false;
#else
static const bool is_counting = true;
#endif

#ifdef CONTRACT_NET
static const bool is_net = true;
#else
static const bool is_net = false;
#endif

static bool is_wanted(const struct ct_row *row, const struct ct_case *test)
{
    bool is_soak = getenv("T_SOAK") != NULL;
    bool is_strict = strcmp(row->name, "ofi-strict") == 0;

    if ((strncmp(row->name, "ofi", 3) == 0) != is_net) {
        return false;
    }
    if (is_net && !is_counting && strcmp(test->name, "close_rigs") == 0) {
        return false;
    }
    return is_soak || (strcmp(row->name, "ofi-rxm") != 0 &&
                       !(is_strict && strncmp(test->name, "exhaust", 7) == 0));
}

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
            n += is_wanted(&ct_rows[row], &ct_cases[test]);
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
