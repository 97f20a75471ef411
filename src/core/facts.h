/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Facts: what oriel_fact_query tells, as tables of rows, each with the function that finds it out.
 * Nothing is kept: a row is asked when somebody wants to know. facts.c has build, job and
 * collectives, facts_host.c the machine and its limits, facts_net.c the networks.
 */
#ifndef CORE_FACTS_H
#define CORE_FACTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

/* A fact while it is being told. */
struct core_fact {
    struct orl_strbuf value; /* empty: made of the number */
    struct orl_strbuf text;  /* holds the row's text already */
    uint64_t number;         /* UINT64_MAX: no limit */
};

struct core_fact_row {
    const char *group;
    const char *name;
    const char *unit; /* NULL: not a number */
    const char *text;
    void (*tell)(struct core_fact *fact);
};

struct core_fact_table {
    const struct core_fact_row *row;
    size_t count;
};

extern const struct core_fact_table core_facts_host;
extern const struct core_fact_table core_facts_net;

#endif
