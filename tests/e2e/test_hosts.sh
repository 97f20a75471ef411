#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Two hosts, one and two interfaces each, by mpirun and by srun: one and two ranks a host, and ranks
# placed unevenly; every operation with every byte looked at by its target and by a third rank; both
# kinds of memory; many tokens; little memory that may be locked; connections made at start.

# covers: OFI-05

. "$(dirname "$0")/hosts.sh"

# as NAME COMMAND...: verdict under the name of launcher and interfaces.
as()
{
    _as=$1_${launcher}_${RIG_RAILS}
    shift
    verdict "$_as" "$@"
}

all='put_lat put_bw put_mr get_lat get_bw fop_lat cas_lat barrier bcast allreduce'

json_names_hosts()
{
    run_across 40 2 "$perf" -m 8:8 -i 10 --json "$work/json" put_lat &&
        cat "$work/json" >>"$work/out" &&
        grep -q '"ranks":2,"hosts":2,"transport":"ofi"' "$work/json"
}

# shellcheck disable=SC2086
right()
{
    as count counts 2 1
    as count_4 counts 4 2
    as verify verifies 2 -m 1:16k -i 5 $all
    as verify_4 verifies 4 -m 1:4k -i 5 $all
    as large verifies 2 -m 64k:4m -i 4 put_bw get_bw
    as private verifies 4 -m 1:64k -i 4 --memory private put_bw get_lat
}

# The rest of it by another launcher.
right_in_short()
{
    as verify_4 verifies 4 -m 1:4k -i 5 $all
    as large verifies 2 -m 64k:4m -i 4 put_bw get_bw
}

# What no second launcher or interface can change.
right_once()
{
    right
    as count_5 counts 5 3
    as verify_3 verifies 3 -m 1:1k -i 5 put_lat get_lat allreduce
    as offset verifies 2 -m 1:16k -i 4 --offset 3 put_bw
    as hosts_column json_names_hosts
    as tokens tokens
    as memlock counts 4 2 sh -c 'ulimit -l 64; exec "$@"' sh
    ORIEL_CONNECT="eager" as eager counts 4 2
    as large_memlock memlock_large
}

tokens()
{
    run_across 60 2 "$job" files 1000 && grep -Eqx '[0-9]+ open' "$work/out" &&
        [ "$(wc -l <"$work/out")" = 1 ]
}

memlock_large()
{
    run_across 60 2 sh -c 'ulimit -l 64; exec "$@"' sh "$perf" --verify -m 1m:4m -i 3 put_lat get_lat &&
        is_verified
}

main_or_part hosts "$@"
need_rigs hosts
on right_once -s 2 -r 1 -t 280
if [ -n "${T_SOAK-}" ]; then
    on right -s 2 -r 2 -t 200
    by_srun right -s 2 -r 1 -t 200
else
    on right_in_short -s 2 -r 2 -t 200
fi
by_srun right_in_short -s 2 -r 2 -t 200
finish
