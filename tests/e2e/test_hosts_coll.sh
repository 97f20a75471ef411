#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Collectives across hosts, by mpirun: every size, root and kind verified with the ranks of a host
# next to each other and in turns, the same bits from run to run; a rank killed in each of them ends
# all others within seconds and is named; ranks that leave at once do not disturb others.

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
    done
    cmp -s "$work/sum.1" "$work/sum.2"
}

# named RANKS CALL: mpirun ends the job soon after a death; it is told to let the others speak.
named()
{
    with_options '--mca orte_enable_recovery 1'
    run_across 40 "$1" "$colls" die "$2"
    _rc=$?
    with_options
    [ $_rc != 124 ] && [ $_rc != 137 ] &&
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
        verdict "death_in_$_call" named 4 "$_call"
    done
    verdict leaving_early silent 4
}

three()
{
    verdict one_each_of_3 in_turns 3
    verdict right_6_on_3 right 6
}

main_or_part hosts_coll "$@"
need_rigs hosts_coll
only_in_soak
on two -s 3 -t 240
on three -H 3 -s 2 -t 200
finish
