#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What a put + flush of 8 bytes through a token costs, counted, not timed: instructions (callgrind,
# the difference of two runs, so that only the loop remains), calls into other libraries, system
# calls, allocations. Bars are of a release build with all checks of arguments on.

# covers: H13

top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
bar=110
program=$top_builddir/tests/perf/put_cost
status=0

[ -x "$program" ] || { echo "SKIP: instructions: $program is not built"; exit 77; }
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
# Valgrind's own address space has no room for as much as the machine has memory.
ORIEL_SHM_SIZE=64m
export ORIEL_SHM_SIZE

verdict()
{
    if [ "$1" = 0 ]; then
        echo "PASS: instructions/$2"
    elif [ "$1" = 77 ]; then
        echo "SKIP: instructions/$2: $(tail -n 1 "$work/out")"
    else
        sed 's/^/    /' "$work/out"
        echo "FAIL: instructions/$2"
        status=1
    fi
}

is_release()
{
    case $build_kind in
    '' | release | plain) return 0 ;;
    *) return 1 ;;
    esac
}

# Instructions in put_loop and all it calls, when it runs $1 times. The library looks for dead peers
# a few times a second; of three runs at least one is over before it is time to.
count()
{
    least=
    for _ in 1 2 3; do
        run_counted "$1" || return 1
        if [ -z "$least" ] || [ "$sum" -lt "$least" ]; then
            least=$sum
            cat "$work"/out.[0-9]* >"$work/best"
        fi
    done
}

run_counted()
{
    rm -f "$work"/out.*
    (
        # Not through libtool's wrapper script, which is a shell.
        cd "$work" && timeout 100 valgrind --tool=callgrind --collect-atstart=no \
            --toggle-collect=put_loop --callgrind-out-file="$work/out.%p" \
            "$program" count "$1" >"$work/out" 2>&1
    ) || return 1
    # Only rank 0 ran the loop.
    sum=$(sed -n 's/^\(summary\|totals\): //p' "$work"/out.* | sort -n | tail -n 1)
    [ -n "$sum" ] && [ "$sum" -gt 0 ]
}

# Objects and functions of the loop that cost anything: "object function", from callgrind's file.
functions()
{
    awk '
        function name(text,   id) {
            id = text; sub(/ .*/, "", id); sub(/^[^ ]* ?/, "", text)
            if (text != "") names[kind id] = text
            return names[kind id]
        }
        /^ob=/ { kind = "o"; object = name(substr($0, 4)); next }
        /^fn=/ { kind = "f"; fn = name(substr($0, 4)); next }
        /^cob=/ { kind = "o"; name(substr($0, 5)); next }
        /^cfn=/ { kind = "f"; name(substr($0, 5)); next }
        /^calls=/ { getline; next }
        /^[0-9+*-]/ { if ($2 > 0) print object, fn }' "$@" | sort -u
}

count_loop()
{
    count 1000 || return 1
    first=$least
    count 2000 || return 1
    each=$(((least - first) / 1000))
    echo "put + flush of 8 bytes: $each instructions, at most $bar" | tee "$work/out"
    [ "$each" -gt 0 ] && [ "$each" -le $bar ]
}

# After count_loop: its file is there.
calls_no_library()
{
    functions "$work/best" >"$work/functions"
    sed 's/^/    /' "$work/functions"
    grep -q ' oriel_put$' "$work/functions" ||
        { echo "oriel_put is not among the functions" >"$work/out"; return 1; }
    awk -v program="/put_cost$" '$1 !~ program && $1 !~ /liboriel/' "$work/functions" >"$work/out"
    [ ! -s "$work/out" ]
}

if is_release; then
    timeout 60 "$program" allocations >"$work/out" 2>&1
    verdict $? no_allocation
    for _ in 1 2 3; do
        timeout 60 "$program" syscalls >"$work/out" 2>&1
        rc=$?
        [ $rc = 137 ] || break # as count: a look at the peers may fall into a run
    done
    verdict $rc no_system_call
    if command -v valgrind >/dev/null; then
        count_loop
        verdict $? put_flush
        calls_no_library
        verdict $? no_library_call
    else
        echo "SKIP: instructions/put_flush: no valgrind (Debian package: valgrind)"
        echo "SKIP: instructions/no_library_call: no valgrind (Debian package: valgrind)"
    fi
else
    echo "SKIP: instructions: the bars are of a release build, not of $build_kind"
    exit 77
fi
exit $status
