/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What became of each transport and port, and what follows from it for the job. Between fabric.c,
 * which starts transports, and verdict.c; nobody else includes this.
 */
#ifndef FABRIC_VERDICT_H
#define FABRIC_VERDICT_H

#include "fabric/fabric.h"
#include "fabric/transport.h"

/* Clear *fabric and enter the verdicts that hold before anything is started. */
void fab_verdict_begin(struct fab *fabric, const struct fab_choice *choice);
/* Transport `i` has been started: its engines are those from `from` on. */
void fab_verdict_chosen(struct fab *fabric, unsigned i, unsigned from);
/* It has not: `status` is of the last error, or 0 where this machine has nothing for it. */
void fab_verdict_failed(struct fab *fabric, unsigned i, int status);
/* Networks that nobody asked to start. */
void fab_verdict_not_needed(struct fab *fabric);
/* Everything is closed again, what could be started as well. */
void fab_verdict_given_up(struct fab *fabric);

/* Whether nothing makes good for this one: it failed, and the user named it, or a setting of it is
 * wrong, or it is broken. */
bool fab_verdict_is_fatal(const struct fab *fabric, const struct fab_verdict *failed);
/* 0, or the one error that gives each reason. */
int fab_verdict_weigh(const struct fab *fabric);

#endif
