#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What a start costs beyond the floor of a program that calls only PMIx and hwloc: memory resident
# in an idle rank of a job of 64, behind a bar; and, printed but not judged, the time of oriel_init
# at 2 ranks, the two programs taking turns. "test_start.sh --time ROUNDS" prints the latter alone.

top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
. "$top_srcdir/tools/launcher-env.sh"
bar_kib=6144
programs=${top_builddir:-.}/tests/perf
status=0

mpirun=$(command -v mpirun.openmpi || command -v mpirun) ||
    { echo "SKIP: start: no mpirun (Debian package openmpi-bin)"; exit 77; }
[ -x "$programs/start_cost" ] || { echo "SKIP: start: $programs/start_cost is not built"; exit 77; }
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

# launch PROGRAM RANKS: its lines in $work/PROGRAM; all ranks must have told.
launch()
{
    timeout -k 3 90 "$mpirun" --mca orte_tmpdir_base "$work" -n "$2" "$programs/$1" \
        >"$work/$1" 2>"$work/err" && [ "$(grep -c ' resident ' "$work/$1")" = "$2" ] && return
    cat "$work/$1" "$work/err"
    return 1
}

# largest PROGRAM FIELD: over all ranks.
largest()
{
    awk -v field="$2" '$field > most { most = $field } END { print most }' "$work/$1"
}

# One figure per round and program: the slowest rank's oriel_init, or the floor.
time_start()
{
    round=0
    while [ $round -lt "$1" ]; do
        for program in start_base start_cost; do
            launch $program 2 || return 1
            largest $program 5 >>"$work/$program.ms"
        done
        round=$((round + 1))
    done
    for program in start_base start_cost; do
        sort -n "$work/$program.ms" | awk -v name=$program '{ ms[NR] = $1 }
            END { printf "%s: best %.1f ms, median %.1f ms\n", name, ms[1], ms[int((NR + 1) / 2)] }'
    done
}

if [ "$1" = --time ]; then
    time_start "${2:-11}"
    exit
fi

if launch start_base 64 && launch start_cost 64; then
    floor=$(largest start_base 3)
    ours=$(largest start_cost 3)
    echo "resident: $ours KiB, floor $floor KiB, bar $bar_kib KiB above it"
    if [ "$ours" -gt 0 ] && [ $((ours - floor)) -le $bar_kib ]; then
        echo "PASS: start/resident_of_an_idle_rank"
    else
        echo "FAIL: start/resident_of_an_idle_rank"
        status=1
    fi
else
    echo "FAIL: start/resident_of_an_idle_rank: a job of 64 did not run"
    status=1
fi
if time_start 5; then
    echo "PASS: start/init_is_measured"
else
    echo "FAIL: start/init_is_measured"
    status=1
fi
exit $status
