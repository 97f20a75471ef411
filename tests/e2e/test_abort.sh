#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Other ends of a job of four under each launcher: oriel_abort at several stages ends all of it
# within seconds (three on an idle machine, five and more here) and with its code; without their launcher
# the ranks end; a rank that finalizes long before the others disturbs nobody. Nothing stays.

. "$(dirname "$0")/cells.sh"
begin abort

# The process that timeout has started: the launcher itself. Under srun it is the daemon that
# started the ranks; srun only relays, and may outlive them.
launcher_process()
{
    case $1 in
    srun*) pgrep -f 'slurmstepd: \[' | head -n 1 ;;
    *)
        for pid in $(processes "$2"); do
            parent=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status")
            [ "$(cat "/proc/$parent/comm")" != timeout ] || echo "$pid"
        done
        ;;
    esac
}

# What cleans up does so after the ranks have gone.
files_go()
{
    tries=30
    while [ -n "$(left_files "$1")" ]; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.1
    done
}

# covers: REL-04
launcher_killed()
{
    name=$(cell_name "$1" never launcher)
    why=$(why_not "$1")
    [ -z "$why" ] || { skip "$name" "$why"; return; }
    start_job "$1" never none "$name" &
    started=$!
    seconds=$(most_seconds)
    tries=0
    until [ -s "$work/$name.at" ] || [ $tries -ge 150 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    # shellcheck disable=SC2046
    kill -KILL $(launcher_process "$1" "$work/$name.at") 2>>"$work/$name.out"
    if [ ! -s "$work/$name.at" ]; then
        report "$name" "the job did not come up"
    elif ! are_gone "^[^ ]*mortal never .*$work/$name.at" "$seconds"; then
        left=$(processes "^[^ ]*mortal never .*$work/$name.at" | paste -sd,)
        report "$name" "after $seconds s there are: $(ps -f -p "$left")"
    elif ! files_go "$name"; then
        report "$name" "files left: $(left_files "$name")"
    else
        pass "$name"
    fi
    pkill -KILL -f "$work/$name.at"
    wait $started # not for all: another stream of jobs is a child too
}

# covers: REL-10
skew()
{
    name=$(cell_name "$1" skew none)
    why=$(why_not "$1")
    [ -z "$why" ] || { skip "$name" "$why"; return; }
    if start_job "$1" skew none "$name" && [ "$(grep -c '^rank . done' "$work/$name.out")" = 4 ] &&
        [ "$(wc -l <"$work/$name.out")" = 4 ]; then
        pass "$name"
    else
        report "$name" "not just four lines"
    fi
}

all_of()
{
    for stage in fence idle barrier; do
        cell "$1" $stage abort
    done
    case $1 in
    *--*) ;;
    *)
        launcher_killed "$1"
        skew "$1"
        ;;
    esac
}

all_launchers "$@"
finish
