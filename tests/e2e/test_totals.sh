#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# tools/totals.sh against logs made here: it must count what passed, and must not let a program
# that died early, or ended with an error after its last line, pass for a success.

top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
status=0

# log NAME VERDICT TEXT: a test's log and automake's record of how it ended.
log()
{
    printf "$3" >"$work/$1.log"
    printf ':global-test-result: %s\n' "$2" >"$work/$1.trs"
}

# expect NAME LAST_LINE EXIT_STATUS: what totals.sh says of the logs made since the last expect.
expect()
{
    said=$("$top_srcdir/tools/totals.sh" "$work")
    rc=$?
    last=$(printf '%s\n' "$said" | tail -n 1)
    if [ "$last" = "$2" ] && [ $rc = "$3" ]; then
        echo "PASS: totals/$1"
    else
        printf '%s: wanted "%s" and %s, got %s and:\n%s\n' "$1" "$2" "$3" "$rc" "$said"
        echo "FAIL: totals/$1"
        status=1
    fi
    rm -f "$work"/*
}

good='[====] Synthesis: Tested: 3 | Passing: 3 | Failing: 0 | Crashing: 0 \n'
bad='[====] Synthesis: Tested: 5 | Passing: 2 | Failing: 3 | Crashing: 1 \n'

log a PASS "$good"
log b PASS "$good"
expect adds_up '6 passed, 0 failed' 0

log a PASS "$good"
log b FAIL "$bad"
expect counts_failures '5 passed, 3 failed' 1

log a PASS '\033[0;34m[\033[0;1m====\033[0m] Synthesis: Tested: \033[1m2\033[0m | Passing: 2 | Failing: 0 | Crashing: 0\n'
expect reads_colours '2 passed, 0 failed' 0

log a PASS "$good"
log b FAIL '[RUN ] x::y\nSegmentation fault\n'
expect early_death_fails '3 passed, 1 failed' 1

log a PASS '[====] Synthesis: Tested: 0 | Passing: 0 | Failing: 0 | Crashing: 0\n'
expect nothing_tested_fails '0 passed, 1 failed' 1

log a PASS ''
expect silence_fails '0 passed, 1 failed' 1

log a FAIL "$good"
expect error_after_result_fails '3 passed, 1 failed' 1

log a PASS 'PASS: one\nSKIP: two: no such tool\nPASS: three\n'
expect counts_scripts '2 passed, 0 failed, 1 skipped' 0

log a SKIP ''
log b PASS "$good"
expect skipped_whole '3 passed, 0 failed, 1 skipped' 0

log a FAIL 'PASS: one\nFAIL: two\n'
expect script_failure '1 passed, 1 failed' 1

expect nothing_at_all '0 passed, 0 failed' 1
exit $status
