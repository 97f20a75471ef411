/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The networks of a job: whether it needs any, opened before the ranks meet since their addresses
 * travel in the records, and whether this rank and another can reach each other over them. A job
 * whose ranks all share one host's memory opens none and pays for none.
 */
#ifndef CORE_BOOT_NETS_H
#define CORE_BOOT_NETS_H

#include "base/attr.h"
#include "core/boot/boot.h"

/* Opens what the job needs and enters it in core.network; rank, size and the ranks of this host are
 * known. Where nothing is needed it only judges. Errors: CONF when the setting leaves out what
 * would serve, UNSUPP with a reason for all that was considered, or what the networks say. */
int core_nets_open(void) ORL_MUST_CHECK;
/* One card for each of core.network, in that order. */
void core_nets_fill(struct core_record *mine);
/* 0 when some network of mine and one on these cards speak the same protocol, else UNSUPP naming
 * both ends and what each speaks. */
int core_nets_check(int rank, const char *hostname, const struct fab_card *cards,
                    int n) ORL_MUST_CHECK;

#endif
