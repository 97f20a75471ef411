/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Teams: so far the two that need no communication to make, the world and oneself.
 */
#ifndef CORE_TEAM_TEAM_H
#define CORE_TEAM_TEAM_H

#include <stdbool.h>

#include "base/attr.h"
#include "oriel.h"

/* INVAL with its text for what is not a team, STATE before oriel_init. */
int core_team_check(const struct oriel_team *team) ORL_MUST_CHECK;
/* The team has one member, or the job has one rank. */
bool core_team_is_alone(const struct oriel_team *team);

#endif
