#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# tools/rows.sh against a made-up table and made-up tests: it must count what is named, list what
# is not, and refuse a name that the table does not have.

top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
status=0
word=covers # spelled apart, so that no line of this file is a tag itself

verdict()
{
    if [ "$1" = yes ]; then
        echo "PASS: rows/$2"
    else
        printf '%s: got %s and:\n%s\n' "$2" "$rc" "$said" | sed 's/^/    /'
        echo "FAIL: rows/$2"
        status=1
    fi
}

fresh()
{
    rm -rf "$work/tests"
    mkdir -p "$work/tests/deep"
}

# run: rows.sh on the made-up table and tests.
run()
{
    said=$("$top_srcdir/tools/rows.sh" "$work/table.md" "$work/tests" 2>&1)
    rc=$?
}

# says TEXT...: each is a line of the output.
says()
{
    for line in "$@"; do
        printf '%s\n' "$said" | grep -qxF -- "$line" || return 1
    done
}

# expect NAME STATUS LINE...
expect()
{
    name=$1
    want=$2
    shift 2
    run
    if [ "$rc" = "$want" ] && says "$@"; then
        verdict yes "$name"
    else
        verdict no "$name"
    fi
    fresh
}

cat >"$work/table.md" <<'END'
| S0 | a line of a table of sources, which is no row |
### A. First things
| ID | Behaviour |
|---|---|
| A1 | names A3 in its text |
| A2 | two |
| A10 | ten |
| Z9 | of no section of that name |
### B. Second things
| B1 | one |
#### Not a section
| B2 | outside |
END
fresh

printf '/* %s: A1 B1 */\nint x;\n' $word >"$work/tests/test_one.c"
printf '    # %s: A10\n' $word >"$work/tests/deep/test_two.sh"
printf '%s: A2 in a text that is not a test\n' $word >"$work/tests/README.md"
expect counts 0 'A  2 of 3  First things' '     uncovered: A2' 'B  1 of 1  Second things' \
    '3 of 4 rows covered'

printf '/* %s: A1 */\n' $word >"$work/tests/a.c"
printf '/* %s: A1 A2 A10 */\n' $word >"$work/tests/b.h"
expect counts_a_row_once 0 'A  3 of 3  First things' 'B  0 of 1  Second things' \
    '     uncovered: B1' '3 of 4 rows covered'

expect no_tags 0 'A  0 of 3  First things' '0 of 4 rows covered'

printf 'int x;\n/* %s: A1 A3 */\n' $word >"$work/tests/a.c"
expect unknown_row 1 "rows.sh: $work/tests/a.c:2: A3 is not a row of $work/table.md" \
    '1 of 4 rows covered'

printf '/* %s: B2 */\n' $word >"$work/tests/a.c"
expect row_outside_a_section 1 "rows.sh: $work/tests/a.c:1: B2 is not a row of $work/table.md"

# Names of reports are of another table; that one knows them, and not the others.
printf '/* %s: A1 BOOT-03 */\n' $word >"$work/tests/a.c"
expect other_kind_is_passed_over 0 '1 of 4 rows covered'
mv "$work/table.md" "$work/requirements.md"
printf '%s\n' '### Start-up (BOOT)' '| BOOT-03 | three |' '| BOOT-4 | four |' \
    '### Point-to-point (P2P)' '| P2P-01 | one |' >"$work/table.md"
printf '/* %s: A1 BOOT-03 P2P-01 */\n' $word >"$work/tests/a.c"
printf '/* %s: BOOT-05 */\n' $word >"$work/tests/b.c"
expect reports 1 'BOOT  1 of 2  Start-up (BOOT)' '     uncovered: BOOT-4' \
    'P2P  1 of 1  Point-to-point (P2P)' '2 of 3 rows covered' \
    "rows.sh: $work/tests/b.c:1: BOOT-05 is not a row of $work/table.md"
mv "$work/requirements.md" "$work/table.md"

for text in "$word: what a child does" "Something. $word: A1" "$word: A1, A2" "$word:A1" "$word:"; do
    printf '/* %s */\n' "$text" >"$work/tests/a.c"
    run
    case $rc:$said in
    1:*a.c:1:\ a\ tag\ stands\ alone*) verdict yes "refuses_'$text'" ;;
    *) verdict no "refuses_'$text'" ;;
    esac
done
fresh

mv "$work/table.md" "$work/elsewhere.md"
run
case $rc:$said in
2:*table.md:\ no\ such\ file*) verdict yes absent_table ;;
*) verdict no absent_table ;;
esac
: >"$work/table.md"
run
[ $rc = 1 ] && verdict yes empty_table || verdict no empty_table
said=$("$top_srcdir/tools/rows.sh" 2>&1)
rc=$?
[ $rc = 2 ] && verdict yes usage || verdict no usage
exit $status
