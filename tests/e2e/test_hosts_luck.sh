#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What may happen to a job across hosts: a host cut off, for ever and for a while, or dead; lost
# packets; a rank killed; a host or a rank that stands still. The job goes on and is right, or ends and
# says why, in bounded time; nothing stays. T_SOAK=1: for longer, and every case.

. "$(dirname "$0")/hosts.sh"

# ---- hosts

# Every rank hears of it within the bound that was asked for, and what the storm left goes away.
cut_off_for_ever()
{
    rm -f "$work/at"
    ORIEL_PEER_TIMEOUT=2s across 60 2 "$mortal" storm none 0 "$work/at" >"$work/out" 2>&1 &
    _storm=$!
    wait_for "$work/at" 30 || return 1
    rig_cut h2
    read -r _from _ </proc/uptime
    wait $_storm
    read -r _to _ </proc/uptime
    echo "cut at $_from, over at $_to" >>"$work/out"
    [ "$(grep -c '^rank [01] heard ORIEL_ERR_PEER at ' "$work/out")" = 2 ] &&
        awk -v from="$_from" -v to="$_to" 'BEGIN { exit !(to - from < 25) }' && nothing_left "$work/at"
}
cut_off() { verdict cut_off cut_off_for_ever; }

cut_and_join() { rig_cut h2; sleep "$(long_or 3 1)"; rig_join h2; }
cut_off_a_while()
{
    storm_meanwhile "$(long_or 6 3)" 2 cut_and_join && is_right && nothing_left "$work/begun"
}
cut_off_and_back() { verdict cut_off_and_back cut_off_a_while; }

host_dies()
{
    rm -f "$work/begun"
    across 90 4 "$far" storm 60 "$work/begun" >"$work/out" 2>&1 &
    _job=$!
    wait_for "$work/begun" 30 && sleep 1 && rig_kill h2 &&
        all_gone 40 "$far storm 60 $work/begun" && ! is_right && nothing_left "$work/begun"
}
host_killed() { verdict host_killed host_dies; }

stop_and_go() { rig_stop h2; sleep "$(long_or 4 1)"; rig_cont h2; }
stands_still()
{
    storm_meanwhile "$(long_or 6 3)" 4 stop_and_go && is_right && nothing_left "$work/begun"
}
host_stopped() { verdict host_stopped stands_still; }

# ---- packets

lossy()
{
    rig_loss h1 5
    rig_loss h2 5
    run_across 90 4 "$job" count && grep -qx '4 ranks, 2 on this host, 0 wrong' "$work/out" &&
        verifies 2 -m 4k:8k -i 2 put_lat get_lat allreduce
}
loss() { verdict loss_of_5_percent lossy; }

# ---- ranks

# killed STAGE: a rank of the other host goes; the rest hear of it and end. Who hears late may be told
# of one that has ended for the same reason.
killed()
{
    rm -f "$work/at"
    bereaved 4 "$mortal" "$1" kill 2 "$work/at" &&
        grep -q '^rank [013] heard ORIEL_ERR_PEER at .*: .*rank 2' "$work/out" &&
        [ "$(grep -c '^rank [013] heard ORIEL_ERR_PEER at .*: .*rank [0-3]' "$work/out")" = 3 ] &&
        nothing_left "$work/at"
}
rank_killed()
{
    for stage in $(long_or 'idle barrier storm' storm); do
        verdict "killed_$stage" killed $stage
    done
}

# covers: REL-07
parked()
{
    run_across 60 2 "$far" parked "$(long_or 10 4)" && grep -q ', 0 wrong$' "$work/out" &&
        awk '/^waited/ { ok = $2 > 2 && $6 < 0.01 } END { exit !ok }' "$work/out"
}

# Millions of submits and hardly any more memory than before.
flood()
{
    run_across 90 2 "$far" flood "$(long_or 10000000 1000000)" "$(long_or 5 2)" &&
        grep -q ', 0 wrong$' "$work/out" &&
        awk '/submitted/ { ok = $3 > 0.9 * $1 && $7 < 4096 } END { exit !ok }' "$work/out"
}
rank_stopped()
{
    verdict parked_wait_costs_nothing parked
    verdict flood_of_submits flood
}

main_or_part hosts_luck "$@"
need_rigs hosts_luck
on host_killed -s 2 -t 100
on host_stopped -s 2 -t 110
on rank_killed -s 2 -t 150
on rank_stopped -s 1 -t 170
if command -v nft >/dev/null; then
    on cut_off -s 1 -t 100
    on cut_off_and_back -s 1 -t 110
    if is_soak; then on loss -s 2 -t 160; fi
else
    skip packets "no nft (Debian package nftables)"
fi
finish
