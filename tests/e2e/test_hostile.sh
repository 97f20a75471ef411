#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Jobs where the surroundings are against them: no network, user namespaces, fakeroot, a small
# /dev/shm, names that others have taken, few descriptors, ranks killed again and again. And what a
# job must not do: listen, change the owner or mode of a path. Each works, or says what is wrong.

. "$(dirname "$0")/common.sh"
begin hostile
perf=$(program tools/oriel-perf)
job=$(program tests/e2e/job)
mortal=$(program tests/e2e/mortal)

launchers="mpirun oriel-run"

# try LAUNCHER NAME FUNCTION [ARGUMENT...]: where that launcher is here; it is the first argument.
try()
{
    _why=$(why_not "$1")
    [ -z "$_why" ] || { skip "$2" "$_why"; return; }
    _what=$3
    _as=$2
    _with=$1
    shift 3
    verdict "$_as" "$_what" "$_with" "$@"
}

# count_in LAUNCHER RANKS WRAPPER: the whole job inside of what WRAPPER makes.
count_in()
{
    launch_by "$3" 60 "$1" "$2" "$job" count >"$work/out" 2>&1 &&
        grep -qx "$2 ranks, $2 on this host, 0 wrong" "$work/out" &&
        [ "$(wc -l <"$work/out")" = 1 ]
}

can() { "$@" true 2>/dev/null; }

# ---- namespaces
# covers: BOOT-19 BOOT-21

lo_up='exec unshare --net sh -c "ip link set lo up && exec \"\$@\"" sh "$@"'
if can unshare --net; then
    verdict no_network_bare count_in bare 1 'exec unshare --net "$@"'
    for launcher in $launchers; do
        try $launcher loopback_only_$launcher count_in 4 "$lo_up"
    done
else
    skip no_network "no right to make a network namespace"
fi

if can unshare -Ur; then
    verdict user_namespace_bare count_in bare 1 'exec unshare -Ur "$@"'
    for launcher in $launchers; do
        try $launcher user_namespace_$launcher count_in 4 'exec unshare -Ur "$@"'
    done
else
    skip user_namespace "no right to make a user namespace"
fi

if ! command -v fakeroot >/dev/null; then
    skip fakeroot "no fakeroot (Debian package fakeroot)"
elif [ "${build_kind:-release}" != release ]; then
    skip fakeroot "its preloaded library does not go with sanitizers"
else
    verdict fakeroot_bare count_in bare 1 'exec fakeroot -- "$@"'
    for launcher in $launchers; do
        try $launcher fakeroot_$launcher count_in 4 'exec fakeroot -- "$@"'
    done
fi

# Each rank in a user namespace of its own: they may not look into each other, nor open each
# other's descriptors. That works or is said.
# covers: BOOT-17
apart()
{
    launch 60 "$1" 2 unshare -Ur "$job" count >"$work/out" 2>&1
    case $? in
    0) grep -qx "2 ranks, 2 on this host, 0 wrong" "$work/out" ;;
    124 | 137) return 1 ;;
    *) grep -q 'ORIEL_SHM_BACKING' "$work/out" ;;
    esac
}
apart_with_file() { ORIEL_SHM_BACKING="file" apart "$1" && grep -q ', 0 wrong' "$work/out"; }
if can unshare -Ur; then
    for launcher in $launchers; do
        try $launcher namespace_per_rank_$launcher apart
        try $launcher namespace_per_rank_file_$launcher apart_with_file
    done
fi

# ---- a small /dev/shm
# covers: BOOT-13

# shellcheck disable=SC2016
small_shm='exec unshare --mount sh -c "
    mount -t tmpfs -o size=$shm_size shm /dev/shm && exec \"\$@\"" sh "$@"'

# small LAUNCHER RANKS SIZE BACKING LARGEST: right, or an error that names the room and the remedy.
small()
{
    shm_size=$3 ORIEL_SHM_BACKING=$4 launch_by "$small_shm" 60 "$1" "$2" \
        "$perf" put_lat allreduce --verify -i 3 -m "1:$5" >"$work/out" 2>&1
    _rc=$?
    ! grep -qi 'bus error\|signal 7' "$work/out" || return 1
    case $_rc in
    0) ! grep -q '^[0-9].* no$' "$work/out" ;;
    124 | 137 | 135) return 1 ;;
    *) [ "$4" = file ] && grep -q 'no room for shared memory.*/dev/shm' "$work/out" ;;
    esac
}
if can unshare --mount; then
    # Memory files, the default, do not count there.
    try oriel-run shm_1m small 4 1m auto 4m
    try mpirun shm_1m_file_mpirun small 4 1m file 1m
    for size in 1m 16m 64m; do
        try bare shm_${size}_file_bare small 1 $size file 4m
        try oriel-run shm_${size}_file_oriel-run small 4 $size file 4m
    done
else
    skip shm_size "no right to mount"
fi

# ---- names
# covers: BOOT-15

# What others have left is neither used nor touched, and its names do not stand in the way.
taken()
{
    for i in 0 1 2 3 4 5 6 7 8 9; do
        mkdir "/dev/shm/oriel-node-$i" && echo "of somebody" >"/dev/shm/oriel-$i" &&
            ln -s /dev/null "/dev/shm/oriel-node-link$i" || return 1
    done
    chown -R nobody /dev/shm/oriel-* && chmod 000 /dev/shm/oriel-[0-9]
    before=$(find /dev/shm -name 'oriel-*' -ls)
    ORIEL_SHM_BACKING="file" launch 60 "$1" 4 "$job" count >"$work/out" 2>&1
    code=$?
    after=$(find /dev/shm -name 'oriel-*' -ls)
    rm -rf /dev/shm/oriel-*
    [ $code = 0 ] && grep -q ', 0 wrong' "$work/out" && [ "$before" = "$after" ]
}
if [ -n "$T_OWN_SPACE" ]; then
    for launcher in $launchers; do
        try $launcher taken_names_$launcher taken
    done
else
    skip taken_names "other tests see the same /dev/shm"
fi

# ---- killed again and again
# covers: BOOT-16

# kill_all PROCESS TEXT: all with TEXT in their command line, until PROCESS (which starts them) and
# they are gone: one may be starting just now.
kill_all()
{
    while kill -0 "$1" 2>/dev/null || [ -n "$(processes "$2")" ]; do
        pkill -KILL -f -- "$2"
        sleep 0.05
    done
    wait "$1" 2>/dev/null
}

# killed LAUNCHER: 15 jobs, all their processes killed at some moment of the first half second. With
# oriel-run's cleaner killed as well, what it left is swept by the next start that finds it a few
# seconds old.
killed()
{
    : >"$work/out"
    for delay in 0 3 6 9 12 15 18 21 24 27 30 33 36 39 50; do
        mark=$work/killed.$delay
        launch 30 "$1" 3 "$mortal" storm none 0 "$mark" >/dev/null 2>&1 &
        sleep "0.$(printf %02d $delay)"
        kill_all $! "$mark"
    done
    [ -z "$(shm_files)" ] || { shm_files >"$work/out"; return 1; }
    sleep 3.1
    launch 30 "$1" 1 true >"$work/out" 2>&1 || return 1
    [ -z "$(find "$TMPDIR" -maxdepth 1 -name 'oriel-run.*' | tee "$work/out")" ]
}
for launcher in $launchers; do
    try $launcher killed_often_$launcher killed
done

# ---- descriptors
# covers: REL-11

open_files()
{
    # shellcheck disable=SC2016
    launch 60 "$1" "$2" sh -c 'ulimit -n 64 && exec "$@"' sh "$job" files "$3" >"$work/out" 2>&1 &&
        sed -n 's/ open$//p' "$work/out"
}
# Neither ranks nor memories cost descriptors: a server connection apart, all counts are alike.
few_files()
{
    two=$(open_files "$1" 2 1) && many=$(open_files "$1" 12 20) || return 1
    echo "2 ranks, 1 memory: $two; 12 ranks, 20 memories: $many" >>"$work/out"
    [ "$many" -le $((two + 1)) ]
}
for launcher in $launchers; do
    try $launcher few_descriptors_$launcher few_files
done

# ---- what must not be done
# covers: SEC-01 SEC-04

# Ranks wait in a barrier; none of them listens anywhere, by TCP, UDP or a named socket.
silent()
{
    mark=$work/silent
    rm -f "$mark"
    launch 30 "$1" 4 "$mortal" never none 0 "$mark" >"$work/out" 2>&1 &
    tries=0
    until [ -s "$mark" ] || [ $tries -gt 200 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    ss -Hlnptux | grep '"mortal"' >>"$work/out"
    ranks=$(pgrep -f "^$mortal never .*$mark" | wc -l)
    end_job "$mark" || kill_all $! "$mark"
    [ "$ranks" -ge 4 ] && ! grep -q '"mortal"' "$work/out"
}
if command -v ss >/dev/null; then
    for launcher in $launchers; do
        try $launcher no_listener_$launcher silent
    done
else
    skip no_listener "no ss (Debian package iproute2)"
fi

# Owner and mode are changed by descriptor or not at all. The file the trace goes to is per process.
traced()
{
    rm -f "$work"/trace.*
    ORIEL_SHM_BACKING="file" launch 60 "$1" 2 strace -ff -o "$work/trace" \
        -e trace=chown,lchown,fchownat,chmod,fchmodat,fchmod "$job" count >"$work/out" 2>&1 || return 1
    cat "$work"/trace.* >>"$work/out"
    # The trace sees the call that is allowed.
    grep -q '^fchmod(' "$work/out" &&
        ! grep -qE '^(l?chown|fchownat|chmod|fchmodat)\(' "$work/out"
}
if ! command -v strace >/dev/null; then
    skip no_chmod_by_path "no strace (Debian package strace)"
elif [ "${build_kind:-release}" != release ]; then
    skip no_chmod_by_path "the leak checker does not go with tracing"
elif ! strace -o /dev/null true 2>/dev/null; then
    skip no_chmod_by_path "no right to trace"
else
    for launcher in bare $launchers; do
        try $launcher no_chmod_by_path_$launcher traced
    done
fi

finish
