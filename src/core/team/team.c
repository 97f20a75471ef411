/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * World and self, and the questions about ranks: mine, theirs, the local ones.
 */
#include "core/team/team.h"

#include "base/status.h"
#include "core/core.h"
#include "core/path/peer.h"

int core_team_check(const struct oriel_team *team)
{
    if (!core_is_open()) {
        return core_state_error();
    }
    if (team != ORIEL_WORLD && team != ORIEL_SELF) {
        return orl_fail(ORL_ERR_INVAL, "%p is not a team; ORIEL_WORLD and ORIEL_SELF are",
                        (const void *)team);
    }
    return 0;
}

bool core_team_is_alone(const struct oriel_team *team)
{
    return team == ORIEL_SELF || core.size == 1;
}

ORL_PUBLIC int oriel_rank(void)
{
    return core_is_open() ? core.rank : -1;
}

ORL_PUBLIC int oriel_size(void)
{
    return core_is_open() ? core.size : -1;
}

ORL_PUBLIC int oriel_local_rank(void)
{
    return core_is_open() ? core.local : -1;
}

ORL_PUBLIC int oriel_local_size(void)
{
    return core_is_open() ? core.nlocal : -1;
}

ORL_PUBLIC int oriel_is_local(int rank)
{
    int st = core_is_open() ? core_rank_check(rank) : core_state_error();
    return st != 0 ? st : core.peers[rank].local >= 0;
}

ORL_PUBLIC int oriel_team_rank(const struct oriel_team *team)
{
    int st = core_team_check(team);
    if (st != 0) {
        return st;
    }
    return team == ORIEL_SELF ? 0 : core.rank;
}

ORL_PUBLIC int oriel_team_size(const struct oriel_team *team)
{
    int st = core_team_check(team);
    if (st != 0) {
        return st;
    }
    return team == ORIEL_SELF ? 1 : core.size;
}
