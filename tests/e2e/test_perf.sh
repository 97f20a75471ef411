#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# oriel-perf under a real launcher with 1 to 4 ranks, every test verified, both kinds of memory; what
# it says to wrong arguments; and that a byte spoilt on purpose makes the run fail and is named.

top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
. "$top_srcdir/tools/launcher-env.sh"
perf=$top_builddir/tools/oriel-perf
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
status=0

all='put_lat get_lat put_bw get_bw fop_lat cas_lat barrier allreduce bcast'
short='-m 1:8k -i 5'

[ -x "$perf" ] || { echo "SKIP: perf: $perf is not built"; exit 77; }

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
run()
{
    ranks=$1
    shift
    if [ "$ranks" = alone ]; then
        timeout 90 "$perf" "$@" >"$work/out" 2>"$work/err"
    else
        timeout 90 mpirun -n "$ranks" "$perf" "$@" >"$work/out" 2>"$work/err"
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
    [ "$(grep -c '^# Oriel .* test$' "$work/out")" = 9 ] || { echo "not 9 tests"; return 1; }
    rows=$(grep -c '^[0-9]' "$work/out")
    [ "$rows" -ge 40 ] || { echo "only $rows rows"; return 1; }
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

# notices TEST RANKS OPTION...: a spoilt byte is named and ends the run with status 1.
notices()
{
    test=$1
    shift
    run "$@" --verify --inject-fault "$test" && { echo "the run succeeded"; return 1; }
    [ $rc = 1 ] || { echo "status $rc, not 1"; return 1; }
    grep -q "oriel-perf: rank [0-9]*: $test, [0-9]* bytes: wrong at offset [0-9-]*: expected .*, found" \
        "$work/err" || { echo "no wrong byte is named"; return 1; }
    grep -q '^[0-9].* NO$' "$work/out" || { echo "no row says NO"; return 1; }
}

writes_json()
{
    run alone -m 8:64 -i 10 --verify --json "$work/json" put_lat barrier || return 1
    if command -v python3 >/dev/null; then
        python3 - "$work/json" <<'PYTHON'
import json, sys
result = json.load(open(sys.argv[1]))
assert result["ranks"] == 1 and result["memory"] == "alloc", result
assert [t["name"] for t in result["tests"]] == ["put_lat", "barrier"], result
rows = result["tests"][0]["rows"]
assert [r["size"] for r in rows] == [8, 16, 32, 64], rows
assert all(r["median"] >= r["best"] > 0 and r["verified"] is True for r in rows), rows
PYTHON
    else
        grep -q '"name": "put_lat"' "$work/json"
    fi
}

refuses_json_path()
{
    run alone -m 8:8 -i 1 --json "$work/none/such" barrier
    [ $rc = 1 ] && grep -q "cannot write $work/none/such" "$work/err"
}

prints_settings()
{
    for form in text markdown man; do
        run alone --settings $form || return 1
        grep -q ORIEL_SPIN_TIME "$work/out" || return 1
    done
}

says_alone()
{
    run alone -m 8:8 -i 10 put_lat && grep -q 'its own target' "$work/out"
}

says_version()
{
    run alone --version && grep -Eq '^oriel-perf [0-9]+\.[0-9]+\.[0-9]+$' "$work/out"
}

check alone verifies alone $short
check says_alone says_alone
check says_version says_version
check private_alone verifies alone $short --memory private
check writes_json writes_json
check refuses_json_path refuses_json_path
check settings prints_settings
check refuses_test refuses 'no test is called put_latency; there are: put_lat' put_latency
check refuses_option refuses 'oriel-perf --help' --frobnicate
check refuses_sizes refuses '-m 8:4: must be MIN:MAX' -m 8:4
check refuses_iterations refuses '-i 0: must be a number from 1' -i 0
check refuses_number refuses '-w x: must be a number from 1' -w x
check refuses_memory refuses '--memory gpu: must be alloc or private' --memory gpu
check refuses_settings refuses '--settings xml: must be text, markdown or man' --settings xml
for test in $all; do
    check notices_$test notices $test alone -m 8:64 -i 10
done

if command -v mpirun >/dev/null; then
    for ranks in 1 2 3 4; do
        check ranks_$ranks verifies $ranks $short
        check ranks_${ranks}_private verifies $ranks $short --memory private
    done
    check offset verifies 3 -m 1:256k -i 4 --offset 3
    check private_offset verifies 3 -m 1:256k -i 4 --offset 3 --memory private
    check notices_3_ranks notices put_lat 3 -m 8:64 -i 10
    check notices_private notices put_bw 2 -m 8:64 -i 10 --memory private
    check notices_allreduce notices allreduce 4 -m 8:64 -i 10
else
    echo "SKIP: perf/ranks: no mpirun (Debian package: openmpi-bin)"
fi
exit $status
