/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Silent peers. A rank of another host that is waited for beyond two seconds is pinged, and its
 * agent answers, whatever the rank itself does. One that does not answer is reported once, and once
 * more when it answers again; with ORIEL_PEER_TIMEOUT it is gone (PEER) after so long. Only time in
 * which somebody waits and looks counts as silence, so a process that was stopped itself does not
 * blame its peers. Any thread.
 */
#ifndef CORE_PATH_PING_H
#define CORE_PATH_PING_H

#include <stdint.h>

#include "base/attr.h"

struct orl_strbuf;

/* Somebody waits for this rank, and calls again within a second for as long as it does: pings it
 * when the time has come. 0, or PEER with its text once its time is up. Not from done functions or
 * handlers. Cheap for a rank of this host. */
int core_ping_look(int rank);
/* Append what is known of the way to that rank: the state of its rails, and since when it has not
 * answered. Nothing for a rank of this host. */
void core_ping_explain(int rank, struct orl_strbuf *out);

/* The fabric is open: takes the messages. */
void core_pings_open(void);
void core_pings_close(void);

#endif
