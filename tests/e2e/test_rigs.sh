#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The rigs themselves: hosts are apart and can be cut off, launchers place ranks on them, Slurm
# starts jobs, exit statuses are handed on, and nothing stays, however a rig ends.

. "$(dirname "$0")/common.sh"
begin rigs
rigs=$top_srcdir/tests/rigs
where=$(program tests/e2e/where)
TMPDIR=$work
export TMPDIR

for rig in hosts slurm; do
    why=$(rig $rig -p 2>&1)
    case $? in
    0) ;;
    77) echo "SKIP: rigs: $why"; exit 77 ;;
    *) echo "$why"; echo "FAIL: rigs/probe_$rig"; exit 1 ;;
    esac
done

# within LIMIT RIG ARGUMENT...: output to $work/out.
within()
{
    limit=$1
    rig=$2
    shift 2
    run $((limit + 10)) "$rigs/$rig" -t "$limit" "$@"
}

said() { grep -qx "$1" "$work/out"; }

# ---- hosts

hosts_are_apart()
{
    # shellcheck disable=SC2016
    within 40 hosts -H 3 -r 2 -- sh -ec '
        hostname
        for h in $RIG_HOSTS; do
            rig_exec $h sh -c "touch /dev/shm/of_\$(hostname)
                echo \$(hostname) \$(ls /dev/shm) \$(ip -4 -o addr show scope global | awk \"{ print \\\$4 }\") \
                    \$(ls /sys/class/net)"
        done
        echo head: $(ls /dev/shm)
        rig_rsh -x root@h2 echo \$\(hostname\) \$RIG_RAILS.' &&
        said head && said 'head:' && said 'h2 .' &&
        said 'h1 of_h1 10.77.0.1/24 10.78.0.1/24 eth0 eth1 lo' &&
        said 'h3 of_h3 10.77.0.3/24 10.78.0.3/24 eth0 eth1 lo' &&
        [ -z "$(find /dev/shm -name 'of_*')" ]
}
verdict hosts_are_apart hosts_are_apart

placed_by_mpirun()
{
    within 60 hosts -s 2 -- timeout -k 3 40 "$mpirun" -n 4 "$where" &&
        said 'rank 0 of 4 on h1 with 0,1, nodes h1,h2' && said 'rank 1 of 4 on h1 with 0,1, nodes h1,h2' &&
        said 'rank 2 of 4 on h2 with 2,3, nodes h1,h2' && said 'rank 3 of 4 on h2 with 2,3, nodes h1,h2'
}
if [ -n "$mpirun" ]; then
    verdict placed_by_mpirun placed_by_mpirun
else
    skip placed_by_mpirun "no mpirun (Debian package openmpi-bin)"
fi

# A host that can be reached refuses a connection to a port where nobody listens.
reach='
reach() {
    timeout 1 bash -c "echo > /dev/tcp/h2/9" 2>&1 | grep -q refused && echo "$1: reached" || echo "$1: not"
}
'
cut_off()
{
    # shellcheck disable=SC2016
    within 60 hosts -- bash -c "$reach"'
        reach before
        rig_down h2; reach down
        rig_up h2; reach up
        rig_exec h2 sh -c "touch $RIG/began; exec sleep 42424" & pid=$!
        until [ -e $RIG/began ]; do sleep 0.1; done
        rig_kill h2; wait $pid; echo "killed: $?"; reach killed' &&
        said 'before: reached' && said 'down: not' && said 'up: reached' && said 'killed: 137' &&
        said 'killed: not'
}
verdict cut_off cut_off

loss()
{
    within 60 hosts -- bash -c "$reach"'
        rig_loss h2 100; reach loss; rig_loss h2 0; reach none' && said 'loss: not' && said 'none: reached'
}
# The head and the other hosts see a cut differently.
cut_from_others()
{
    # shellcheck disable=SC2016
    within 60 hosts -H 3 -- bash -c "$reach"'
        export -f reach
        rig_cut h2; reach head; rig_exec h1 bash -c "reach h1"; rig_exec h2 bash -c "reach self"
        rig_join h2; rig_exec h1 bash -c "reach again"' &&
        said 'head: reached' && said 'h1: not' && said 'self: reached' && said 'again: reached'
}
if command -v nft >/dev/null; then
    verdict loss loss
    verdict cut_from_others cut_from_others
else
    skip loss "no nft (Debian package nftables)"
fi

# shellcheck disable=SC2016
stand_still()
{
    within 60 hosts -- bash -c '
        rig_exec h2 sh -c "while :; do echo >>$RIG/ticks; sleep 0.05; done" &
        until [ -s "$RIG/ticks" ]; do sleep 0.05; done
        rig_stop h2; sleep 0.2; a=$(wc -l <"$RIG/ticks"); sleep 0.5; b=$(wc -l <"$RIG/ticks")
        rig_cont h2; sleep 0.5; c=$(wc -l <"$RIG/ticks")
        [ "$a" = "$b" ] && echo stopped; [ "$c" -gt "$b" ] && echo continued' &&
        said stopped && said continued
}
verdict stand_still stand_still

# shellcheck disable=SC2016
same_bridge()
{
    within 40 hosts -b -- sh -ec 'for h in $RIG_HOSTS; do
        rig_exec $h ip -4 -br addr show docker0 up | tr -s " "
    done' && [ "$(grep -c "^docker0 UP 172.17.0.1/16" "$work/out")" = 2 ]
}
verdict same_bridge same_bridge

# All rails are gone, and mpirun does not mind.
managed()
{
    # shellcheck disable=SC2016
    within 60 hosts -m -r 2 -s 1 -- sh -ec '
        for h in $RIG_HOSTS; do rig_down $h eth0; rig_down $h eth1; done
        rig_exec h2 ip -4 -br addr show mgmt0 | tr -s " "
        timeout -k 3 30 "$0" -n 2 "$1"' "$mpirun" "$where" && said 'mgmt0.* UP 169.254.77.2/24 *' &&
        said 'rank 1 of 2 on h2 with 1, nodes h1,h2'
}
[ -z "$mpirun" ] || verdict managed managed

# ---- Slurm

# The second one runs while the first does: each waits for the other's sign.
two_at_once()
{
    # shellcheck disable=SC2016
    meet='touch "$1/$2"; i=0; until [ -e "$1/$3" ] || [ $i -gt 300 ]; do i=$((i + 1)); sleep 0.1; done
        srun -n 4 "$4" && srun sh -c "exit 6"'
    rig slurm -t 60 -- sh -c "$meet" sh "$work" a b "$where" >"$work/other" 2>&1 &
    other=$!
    within 60 slurm -- sh -c "$meet" sh "$work" b a "$where"
    ours=$?
    wait $other
    theirs=$?
    cat "$work/other" >>"$work/out"
    for r in 0 1 2 3; do
        [ "$(grep -cx "rank $r of 4 on n1 with 0,1,2,3, nodes n1" "$work/out")" = 2 ] || return 1
    done
    [ $ours = 6 ] && [ $theirs = 6 ]
}
verdict slurm_two_at_once two_at_once

placed_by_srun()
{
    within 60 slurm -N 2 -- srun -N 2 --ntasks-per-node=2 "$where" &&
        said 'rank 1 of 4 on n1 with 0,1, nodes n1,n2' && said 'rank 2 of 4 on n2 with 2,3, nodes n1,n2'
}
verdict placed_by_srun placed_by_srun

slurm_on_hosts()
{
    # shellcheck disable=SC2016
    within 60 slurm -n -N 2 -r 2 -- srun -N 2 sh -c \
        'echo $(hostname) $(ip -4 -o addr show scope global | awk "{ print \$4 }")' &&
        said 'h1 10.77.0.1/24 10.78.0.1/24' && said 'h2 10.77.0.2/24 10.78.0.2/24'
}
verdict slurm_on_hosts slurm_on_hosts

# ---- ends

# nothing_left: no process of ours (each has the folder or the mark in its command line), no folder.
nothing_left()
{
    left=$(processes "$work/oriel-|sleep 4242[0-9]")
    # shellcheck disable=SC2086
    [ -z "$left" ] || { ps -f -p "$(echo $left | tr ' ' ,)" >>"$work/out"; return 1; }
    left=$(find "$work" -maxdepth 1 -name 'oriel-*')
    [ -z "$left" ] || { echo "left: $left" >>"$work/out"; return 1; }
    [ "$(ip -o link | wc -l)" = "$links" ] && [ "$(wc -l </proc/mounts)" = "$mounts" ]
}
links=$(ip -o link | wc -l)
mounts=$(wc -l </proc/mounts)

# Whoever is started stays behind by any means it has.
# shellcheck disable=SC2016
cling='trap "" TERM INT HUP; setsid sleep 42421 & sleep 42422 & touch "$1/ready"; '
ends_with_status()
{
    within 40 "$1" -- sh -c "$cling exit 5" sh "$work"
    [ $? = 5 ] && nothing_left
}
ends_at_limit()
{
    within 5 "$1" -- sh -c "$cling sleep 42423" sh "$work"
    [ $? = 124 ] && grep -q 'no end after 5 s' "$work/out" && nothing_left
}
# A shell without job control has its children ignore INT, so the signal comes by way of env.
ends_by_signal()
{
    rm -f "$work/ready"
    env --default-signal=INT "$rigs/$1" -t 50 -- sh -c "$cling sleep 42423" sh "$work" >"$work/out" 2>&1 &
    pid=$!
    tries=0
    until [ -e "$work/ready" ] || [ $tries -gt 400 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    kill -"$2" $pid
    wait $pid
    [ $? = "$3" ] && nothing_left
}
for rig in hosts slurm; do
    verdict ${rig}_status ends_with_status $rig
    verdict ${rig}_time_limit ends_at_limit $rig
    verdict ${rig}_term ends_by_signal $rig TERM 143
    verdict ${rig}_int ends_by_signal $rig INT 130
done

wrong_arguments()
{
    for rig in hosts slurm; do
        within 10 $rig -h && said 'usage: tests/rigs/.*' || return 1
        for arguments in "" "-Q -- true" "-r 0 -- true" "-t x -- true"; do
            # shellcheck disable=SC2086
            within 10 $rig $arguments
            [ $? = 2 ] || { echo "$rig $arguments" >>"$work/out"; return 1; }
        done
    done
}
verdict wrong_arguments wrong_arguments

no_rights()
{
    for rig in hosts slurm; do
        run 10 setpriv --bounding-set=-all "$rigs/$rig" -- true
        [ $? = 77 ] && grep -q "$rig: needs root" "$work/out" || return 1
    done
}
verdict no_rights no_rights

finish
