#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# totals.sh FOLDER_OR_LOG...: add up what test logs say. Prints each failure and each reason for a
# skip, then one line "N passed, N failed" with ", N skipped" where there are any; exits 1 on a
# failure or when nothing ran.
#
# A log counts by Criterion's closing line and by its lines "PASS: name", "FAIL: name" and
# "SKIP: name: reason". A log with neither, whose test was not skipped as a whole, is a test that
# died early or checked nothing: one failure. So is a log without a failure in it whose test ended
# with an error (automake's .trs file beside it).

[ $# -gt 0 ] || { echo "usage: totals.sh FOLDER_OR_LOG..." >&2; exit 2; }

list_logs()
{
    for place in "$@"; do
        if [ -d "$place" ]; then
            find "$place" -name '*.log' -type f ! -name 'config.log' ! -name 'test-suite.log'
        else
            printf '%s\n' "$place"
        fi
    done | sort -u
}

list_logs "$@" | {
    while read -r log; do
        trs=${log%.log}.trs
        verdict=$(sed -n 's/^:global-test-result: *//p' "$trs" 2>/dev/null)
        printf 'LOG\t%s\t%s\n' "$log" "${verdict:-NONE}"
        # Colours off; a log may hold any bytes.
        LC_ALL=C sed 's/\x1b\[[0-9;]*m//g' "$log" 2>/dev/null
        printf '\nEND\t\n'
    done
} | LC_ALL=C awk -F'\t' '
function count_of(word,   text) {
    text = $0
    if (!sub(".*" word ": *", "", text))
        return 0
    return text + 0
}
function close_log() {
    if (passed + failed + skipped == 0) {
        if (verdict == "SKIP") {
            skipped = 1
            print "SKIP: " where ": no reason given"
        } else {
            failed = 1
            print "FAIL: " where ": ended without a result"
        }
    } else if (failed == 0 && verdict != "NONE" && verdict != "PASS" && verdict != "SKIP") {
        failed = 1
        print "FAIL: " where ": ended with an error (" verdict ") after its result"
    }
    all_passed += passed; all_failed += failed; all_skipped += skipped
}
$1 == "LOG" { where = $2; verdict = $3; passed = failed = skipped = 0; next }
$1 == "END" { close_log(); next }
/^\[====\] Synthesis: Tested: / {
    bad = count_of("Tested") - count_of("Passing")   # crashes are among the failing
    passed += count_of("Passing")
    failed += bad
    if (bad > 0)
        print "FAIL: " where ": " bad " of " count_of("Tested")
    next
}
/^\[SKIP\] / { skipped++; sub(/^\[SKIP\] /, ""); print "SKIP: " $0; next }
/^PASS: / { passed++; next }
/^FAIL: / { failed++; print $0 " (" where ")"; next }
/^SKIP: / { skipped++; print; next }
END {
    printf "%d passed, %d failed", all_passed, all_failed
    if (all_skipped > 0)
        printf ", %d skipped", all_skipped
    printf "\n"
    exit all_failed > 0 || all_passed == 0
}'
