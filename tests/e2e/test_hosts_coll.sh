#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Collectives across hosts, by mpirun: every size, root and kind verified with the ranks of a host
# next to each other and in turns; a rank killed in one of them ends all others within seconds and is
# named; ranks that leave at once do not disturb others. T_SOAK=1: three hosts as well, the same bits
# from run to run, and a death in every collective.

# covers: REL-10

. "$(dirname "$0")/hosts.sh"
colls=$(program tests/e2e/colls)

# right RANKS: twice, with the same sum.
right()
{
    for _run in 1 2; do
        run_across 60 "$1" "$colls" right &&
            grep -qx "$1 ranks, 0 wrong" "$work/out" && [ "$(wc -l <"$work/out")" = 2 ] || return 1
        grep '^sum ' "$work/out" >"$work/sum.$_run"
        is_soak || return 0
    done
    cmp -s "$work/sum.1" "$work/sum.2"
}

# named RANKS WHEN CALL: the last rank dies in it, or right after it.
named()
{
    bereaved "$1" "$colls" "$2" "$3" &&
        [ "$(grep -c "ORIEL_ERR_PEER: .*rank $(($1 - 1))" "$work/out")" = $(($1 - 1)) ]
}

silent() { run_across 30 "$1" "$colls" skew && [ ! -s "$work/out" ]; }

in_turns()
{
    with_options '--map-by node'
    right "$1"
    _rc=$?
    with_options
    return $_rc
}

two()
{
    verdict one_each in_turns 2
    verdict right_4 right 4
    verdict right_5 right 5
    verdict in_turns_4 in_turns 4
    for _call in barrier bcast allreduce; do
        verdict "death_in_$_call" named 4 die "$_call"
        verdict "death_after_$_call" named 4 after "$_call"
    done
    verdict leaving_early silent 4
}

three()
{
    verdict one_each_of_3 in_turns 3
    verdict right_6_on_3 right 6
}

short()
{
    verdict right_5 right 5
    verdict in_turns_4 in_turns 4
    verdict death_in_allreduce named 4 die allreduce
    verdict death_after_bcast named 4 after bcast
    verdict leaving_early silent 4
}

main_or_part hosts_coll "$@"
need_rigs hosts_coll
if is_soak; then
    on two -s 3 -t 240
    on three -H 3 -s 2 -t 200
else
    on short -s 3 -t 200
fi
finish
