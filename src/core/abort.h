/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a job before its time: oriel_abort, the end that a rank of another host has asked for,
 * and the end with the launcher.
 */
#ifndef CORE_ABORT_H
#define CORE_ABORT_H

struct core_boot;

/* oriel_abort ends the job by this bootstrap also where Oriel is not open: from its opening to its
 * closing, NULL after it. */
void core_abort_by(const struct core_boot *boot);
/* From now on the word of a rank of another host is obeyed. */
void core_abort_open(void);
/* A job whose launcher is gone has lost its input, its output and whoever would end it: its ranks
 * end as well, be they computing or waiting. Does not return once Oriel is open. */
void core_abort_without_launcher(void);

#endif
