/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of several ranks that run a second time with a network between the ranks, all on this
 * host. Called by the test process, before its ranks are forked.
 */
#ifndef TESTS_CORE_OVER_H
#define TESTS_CORE_OVER_H

#include <criterion/criterion.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"

/* The ranks of this test reach each other through libfabric alone. Where it is missing the test is
 * skipped. */
static inline void over_network(void)
{
#ifdef ORIEL_HAVE_LIBFABRIC
    (void)setenv("ORIEL_TRANSPORTS", "self,ofi", 1);
#else
    cr_skip_test("libfabric was not found by configure");
#endif
}

/* Inside a rank. */
static inline bool is_over_network(void)
{
    return strstr(orl_conf.transports, "shm") == NULL;
}

#endif
