#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# oriel-perf under a real launcher with 1 to 5 ranks, every test verified, both kinds of memory; what
# it writes, draws and says to wrong arguments; large windows with room for few operations; and that
# on a library that spoils one kind of call (flip.c) each test fails and names the place.

top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
. "$top_srcdir/tools/launcher-env.sh"
perf=$top_builddir/tools/oriel-perf
flip=$top_builddir/tests/e2e/perf_flip
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
status=0

all='put_lat put_bw put_mr get_lat get_bw fop_lat cas_lat barrier bcast allreduce'
short='-m 1:8k -i 5'

[ -x "$perf" ] || { echo "SKIP: perf: $perf is not built"; exit 77; }
mpirun=$(command -v mpirun.openmpi || command -v mpirun)

# check NAME COMMAND...: one line of verdict; what the command said only when it failed.
check()
{
    name=$1
    shift
    if "$@" >"$work/said" 2>&1; then
        echo "PASS: perf/$name"
    else
        sed 's/^/    /' "$work/said"
        echo "FAIL: perf/$name"
        status=1
    fi
}

# run RANKS OPTION...: standard output to $work/out, error to $work/err; its status.
run() { start "$perf" "$@"; }

start()
{
    program=$1
    ranks=$2
    shift 2
    if [ "$ranks" = alone ]; then
        timeout -k 3 90 "$program" "$@" >"$work/out" 2>"$work/err"
    else
        timeout -k 3 90 "$mpirun" -n "$ranks" "$program" "$@" >"$work/out" 2>"$work/err"
    fi
    rc=$?
    cat "$work/out" "$work/err"
    return $rc
}

# All tests, all rows verified, nothing on standard error.
verifies()
{
    # shellcheck disable=SC2086
    run "$@" --verify $all || return 1
    [ "$(grep -c '^# Oriel .* test$' "$work/out")" = 10 ] || { echo "not 10 tests"; return 1; }
    rows=$(grep -c '^[0-9]' "$work/out")
    [ "$rows" -ge 50 ] || { echo "only $rows rows"; return 1; }
    [ "$(grep -c '^[0-9].* yes$' "$work/out")" = "$rows" ] || { echo "a row without yes"; return 1; }
    [ ! -s "$work/err" ] || { echo "words on standard error"; return 1; }
}

# refuses TEXT OPTION...: status 2 and this text on standard error.
refuses()
{
    text=$1
    shift
    run alone "$@"
    [ $rc = 2 ] || { echo "status $rc, not 2"; return 1; }
    grep -qF -- "$text" "$work/err" || { echo "does not say: $text"; return 1; }
}

# notices CALL TEST RANKS OPTION...: spoilt calls are named and end the run with status 1.
notices()
{
    FLIP=$1
    test=$2
    shift 2
    export FLIP
    start "$flip" "$@" --verify -m 8:64 -i 10 "$test"
    unset FLIP
    [ $rc = 1 ] || { echo "status $rc, not 1"; return 1; }
    grep -q "oriel-perf: rank [0-9]*: $test, [0-9]* bytes: wrong at offset [0-9-]*: expected .*, found" \
        "$work/err" || { echo "no wrong byte is named"; return 1; }
    grep -q '^[0-9].* NO$' "$work/out" || { echo "no row says NO"; return 1; }
}

# Only one rank's library is faulty: each pair is looked at, not the first alone.
notices_second_pair()
{
    FLIP_RANK=1
    export FLIP_RANK
    notices put put_lat 4 && ! grep -q 'rank 2: put_lat' "$work/err" &&
        grep -q 'rank 3: put_lat.*CPU' "$work/err" && grep -q 'rank 0: put_lat.*third' "$work/err"
    verdict=$?
    unset FLIP_RANK
    return $verdict
}

# The helper with nothing to spoil is as good as the original.
flips_nothing() { start "$flip" alone --verify -m 8:64 -i 10 $all; }

# json_is RANKS TRANSPORT FILE: each line has all keys, in order, and sane figures.
json_is()
{
    sed 's/^/json: /' "$3"
    awk -v ranks="$1" -v transport="$2" '
        function bad(why) { print "line " NR ": " why; failed = 1; exit 1 }
        {
            keys = ""
            text = $0
            if (!sub(/^\{/, "", text) || !sub(/\}$/, "", text)) bad("no object")
            n = split(text, field, ",")
            for (i = 1; i <= n; i++) {
                if (split(field[i], part, ":") != 2) bad("not key and value: " field[i])
                gsub(/"/, "", part[1])
                keys = keys part[1] " "
                value[part[1]] = part[2]
            }
            if (keys != "test size ranks hosts transport unit min median avg p99 max iterations ")
                bad("keys " keys)
            if (value["ranks"] != ranks || value["hosts"] != 1) bad("ranks or hosts")
            if (value["transport"] != "\"" transport "\"") bad("transport")
            if (!(value["min"] > 0 && value["min"] <= value["median"] + 0)) bad("min")
            if (!(value["median"] + 0 <= value["p99"] + 0 && value["p99"] + 0 <= value["max"] + 0))
                bad("p99")
            if (!(value["avg"] + 0 >= value["min"] + 0 && value["avg"] + 0 <= value["max"] + 0))
                bad("avg")
        }
        END { exit failed || NR == 0 }' "$3"
}

writes_json()
{
    echo 'old text' >"$work/json"
    run alone -m 8:64 -i 70 --json "$work/json" put_lat put_bw put_mr barrier || return 1
    json_is 1 self "$work/json" || return 1
    [ "$(grep -c '"iterations":70}' "$work/json")" = 13 ] || { echo "not 13 lines of 70"; return 1; }
    for text in '"test":"put_lat","size":64,.*"unit":"us"' '"test":"put_bw","size":8,.*"unit":"MB/s"' \
        '"test":"put_mr",.*"unit":"msg/s"' '"test":"barrier","size":0,'; do
        grep -q "$text" "$work/json" || { echo "no line $text"; return 1; }
    done
}

writes_json_of_pairs()
{
    run 5 -m 8:32 --json "$work/json" put_lat put_mr allreduce || return 1
    json_is 5 shm "$work/json" && [ "$(wc -l <"$work/json")" = 9 ] &&
        [ "$(grep -c '^# 2 pairs at once, rank i to rank i + 2; the last' "$work/out")" = 2 ]
}

refuses_path() # OPTION PATH: known before the run
{
    run alone -m 8:8 -i 1 "$1" "$2" barrier
    [ $rc = 1 ] && grep -q -- "$1: cannot write $2" "$work/err" && [ ! -s "$work/out" ]
}

draws()
{
    # shellcheck disable=SC2086
    run alone -m 1:4k -i 10 --plot "$work/a picture's.svg" $all || return 1
    for text in '<svg' 'put latency (us)' 'put message rate' 'barrier' '</svg>'; do
        grep -q "$text" "$work/a picture's.svg" || { echo "no $text in it"; return 1; }
    done
    [ ! -s "$work/err" ]
}

# A gnuplot that cannot be started is none: said before anything is measured.
misses_gnuplot()
{
    mkdir -p "$work/bin" && printf '#!/bin/sh\nexit 127\n' >"$work/bin/gnuplot" &&
        chmod +x "$work/bin/gnuplot" || return 1
    PATH=$work/bin:$PATH timeout 60 "$perf" --plot "$work/none.svg" barrier >"$work/out" 2>"$work/err"
    rc=$?
    cat "$work/err"
    [ $rc = 1 ] && grep -q -- '--plot needs gnuplot' "$work/err" && [ ! -s "$work/out" ] &&
        [ ! -e "$work/none.svg" ]
}

# On a terminal a line that is rewritten and erased; script(1) makes the terminal.
shows_progress()
{
    timeout 60 script -qec "'$perf' -i 50 -m 64k:128k put_lat barrier" /dev/null </dev/null \
        >"$work/out" || return 1
    tr '\r' '\n' <"$work/out" >"$work/lines"
    cat -v "$work/lines"
    grep -q 'put_lat 64 KiB 0 %$' "$work/lines" && grep -q 'put_lat 128 KiB 90 %$' "$work/lines" &&
        grep -q 'barrier 0 B 80 %$' "$work/lines" &&
        awk '/%$/ { shown = 1 } /\033\[K($|[^a-z])/ { shown = 0 } END { exit shown }' "$work/lines"
}

says_alone()
{
    run alone -m 8:8 -i 10 put_lat && grep -q 'its own target' "$work/out" && [ ! -s "$work/err" ]
}

says_version()
{
    run alone --version && grep -Eq '^oriel-perf [0-9]+\.[0-9]+\.[0-9]+$' "$work/out"
}

# Many more operations at once than there is room for.
# covers: TOOL-04
windows()
{
    ORIEL_INFLIGHT=4
    export ORIEL_INFLIGHT
    verdict=0
    for window in 64 128 1024; do
        run "$1" -w $window -x 0 -i 1 -m "1:$2" --memory "$3" put_bw get_bw put_mr || verdict=1
        [ ! -s "$work/err" ] || verdict=1
    done
    unset ORIEL_INFLIGHT
    return $verdict
}

check alone verifies alone $short
check says_alone says_alone
check says_version says_version
check private_alone verifies alone $short --memory private
check writes_json writes_json
check refuses_json_path refuses_path --json "$work/none/such"
check misses_gnuplot misses_gnuplot
if command -v gnuplot >/dev/null; then
    check draws draws
    check refuses_plot_path refuses_path --plot "$work/none/such.svg"
else
    echo "SKIP: perf/draws: no gnuplot (Debian package: gnuplot-nox)"
fi
if script -qec true /dev/null >/dev/null 2>&1; then
    check progress shows_progress
else
    echo "SKIP: perf/progress: no script (Debian package: bsdutils), or no terminals here"
fi
check refuses_test refuses 'no test is called put_latency; there are: put_lat' put_latency
check refuses_option refuses 'oriel-perf --help' --frobnicate
check refuses_sizes refuses '-m 8:4: must be MIN:MAX' -m 8:4
check refuses_iterations refuses '-i 0: must be a number from 1' -i 0
check refuses_number refuses '-w x: must be a number from 1' -w x
check refuses_memory refuses '--memory gpu: must be alloc or private' --memory gpu
check refuses_plot refuses '--plot a.png: must be the name of a file that ends in .svg' --plot a.png
check flips_nothing flips_nothing
for pair in put:put_lat put:put_bw put:put_mr get:get_lat run:get_bw atomic:fop_lat \
    compare_swap:cas_lat bcast:bcast allreduce:allreduce; do
    check "notices_${pair#*:}" notices "${pair%:*}" "${pair#*:}" alone
done
check windows_alone windows alone 64k alloc

if [ -n "$mpirun" ]; then
    for ranks in 1 2 3 4; do
        check ranks_$ranks verifies $ranks $short
        check ranks_${ranks}_private verifies $ranks $short --memory private
    done
    check ranks_5 verifies 5 -m 1:128 -i 5
    check offset verifies 3 -m 1:64k -i 4 --offset 3
    check private_offset verifies 3 -m 1:16k -i 4 --offset 3 --memory private
    check json_of_pairs writes_json_of_pairs
    check notices_3_ranks notices put put_lat 3
    check notices_private notices put put_bw 2 --memory private
    check notices_second_pair notices_second_pair
    check notices_barrier notices barrier barrier 3
    check notices_allreduce_4 notices allreduce allreduce 4
    check windows windows 2 256k alloc
    check windows_private windows 2 4k private
else
    echo "SKIP: perf/ranks: no mpirun (Debian package: openmpi-bin)"
fi
exit $status
