/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two halves of bare_ofi know of each other: bare_ofi.c has libfabric, bare_control.c what
 * goes by the plain socket. */
#ifndef TESTS_PERF_BARE_OFI_H
#define TESTS_PERF_BARE_OFI_H

#include <stddef.h>

#include "perf_ops.h"

extern int bare_rank;

/* Look at the completion queue a few times, and with BARE_PARK sleep until there is something. */
void bare_idle(void);
/* Send bytes and receive as many of the other process; ends the job when it is gone. */
void bare_swap(const void *mine, void *theirs, size_t bytes);

#endif
