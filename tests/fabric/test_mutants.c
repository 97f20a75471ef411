/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract against planted faults: on each row, the case a fault names must find it, by a
 * finding and not by a crash or a hang; and the same machinery with no fault planted must pass.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <string.h>

#include "contract.h"
#include "mutant.h"

#define PAIRS_MAX 512
#define SECONDS   30

static const char *const mutant_rows[] = { "self", "shm-direct" };

#define NROWS (sizeof mutant_rows / sizeof mutant_rows[0])

struct pair {
    int row;
    int fault;
};

static void prepare(void *arg)
{
    const struct pair *pair = arg;

    /* Faults that lose ops are found by waiting, so wait less; a healthy poll takes microseconds.
     */
    ct_patience_ns = pair->fault == 0 ? ct_patience_ns : 500000000u;
    mutant_plant(mutant_at((size_t)pair->fault));
}

ParameterizedTestParameters(mutants, are_found)
{
    static struct pair pairs[PAIRS_MAX];
    size_t n = 0;
    size_t row;
    size_t fault;

    for (row = 0; row < NROWS; row++) {
        for (fault = 1; fault <= mutant_count() && n < PAIRS_MAX; fault++) {
            pairs[n].row = (int)row;
            pairs[n].fault = (int)fault;
            n++;
        }
    }
    return cr_make_param_array(struct pair, pairs, n);
}

ParameterizedTest(struct pair *pair, mutants, are_found, .timeout = SECONDS + 20)
{
    char text[512];
    const struct mutant_fault *fault = mutant_at((size_t)pair->fault);
    const struct ct_row *row = ct_row_find(mutant_rows[pair->row]);
    const struct ct_case *test = ct_case_find(fault->found_by);
    enum ct_result result;

    cr_assert(row != NULL && test != NULL, "fault \"%s\" names a case that does not exist",
              fault->what);
    result = ct_run_child(test, row, prepare, pair, SECONDS, text, sizeof text);
    cr_assert(result != CT_HOLDS, "%s: case %s does not see that %s", row->name, test->name,
              fault->what);
    cr_assert(result == CT_FOUND, "%s: case %s with the fault \"%s\": %s", row->name, test->name,
              fault->what, text);
}

static void prepare_shadows(void *arg)
{
    (void)arg;
    mutant_plant(&mutant_shadows_only);
}

static bool is_first_of_case(size_t fault)
{
    size_t i;

    for (i = 1; i < fault; i++) {
        if (strcmp(mutant_at(i)->found_by, mutant_at(fault)->found_by) == 0) {
            return false;
        }
    }
    return true;
}

/* The machinery alone: every case that must find a fault passes where there is none. Shadows take
 * heap, which some of these cases look at: they run without. */
Test(mutants, none, .timeout = 120)
{
    char text[512];
    size_t fault;
    size_t row;

    cr_assert(mutant_count() >= 15);
    for (row = 0; row < NROWS; row++) {
        for (fault = 1; fault <= mutant_count(); fault++) {
            const struct ct_case *test = ct_case_find(mutant_at(fault)->found_by);
            bool counts_heap = strncmp(mutant_at(fault)->found_by, "exhaust", 7) == 0;
            struct pair none = { (int)row, 0 };
            enum ct_result result;

            if (!is_first_of_case(fault)) {
                continue;
            }
            result = ct_run_child(test, ct_row_find(mutant_rows[row]),
                                  counts_heap ? prepare : prepare_shadows, &none, SECONDS, text,
                                  sizeof text);
            cr_assert(result == CT_HOLDS, "%s, %s: %s", mutant_rows[row], test->name, text);
        }
    }
}
