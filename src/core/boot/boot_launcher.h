/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What launchers promise in the environment, against what PMIx gives: a job that would start with
 * fewer ranks than were launched ends with the name of the launcher and what to do instead.
 */
#ifndef CORE_BOOT_BOOT_LAUNCHER_H
#define CORE_BOOT_BOOT_LAUNCHER_H

#include "base/attr.h"

/* No PMIx server here: BOOT when a launcher has started several ranks all the same. */
int core_launcher_allows_one(void) ORL_MUST_CHECK;
/* PMIx tells of `size` ranks: BOOT when the launcher started another number. */
int core_launcher_agrees(int size) ORL_MUST_CHECK;

#endif
