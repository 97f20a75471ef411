#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# rows.sh FILE [FOLDER]: which rows of a table the tests name. FILE is the markdown document with the
# table (not part of this tree): requirements, as sections "### A. Title" with rows "| A1 | ...", or
# reports, as sections "### Title (BOOT)" with rows "| BOOT-03 | ...". FOLDER holds the tests; this
# tree's when left out.
#
# A test names its rows in a comment of its own line, "covers: A1 D2" or "covers: BOOT-03" behind the
# comment's opening, in .c, .h and .sh files. Prints each section with its count and the rows that
# nobody names, then the total; a name that is not in the table, or a tag of another form, is an
# error (exit status 1). Names of the other kind of table are not looked at.

table=$1
tests=${2:-${top_srcdir:-$(dirname "$0")/..}/tests}

[ $# -ge 1 ] && [ $# -le 2 ] || { echo "usage: rows.sh FILE [FOLDER]" >&2; exit 2; }
[ -f "$table" ] || {
    echo "rows.sh: $table: no such file; the requirement table is not part of this tree, give" \
        "the path of your copy" >&2
    exit 2
}
[ -d "$tests" ] || { echo "rows.sh: $tests: no such folder" >&2; exit 2; }

# FILE:LINE:TEXT of each line with a tag.
list_tags()
{
    find "$tests" -type f \( -name '*.c' -o -name '*.h' -o -name '*.sh' \) | sort |
        xargs -r grep -nE '(^|[^[:alnum:]_])covers:' /dev/null
}

list_tags | LC_ALL=C awk -v table="$table" '
function read_table(   line, section, row) {
    while ((getline line < table) > 0) {
        if (line ~ /^#/) {
            section = ""
            if (line ~ /^### [A-Z]+\. /) {
                section = line; sub(/^### /, "", section); sub(/\..*/, "", section)
                letter[++sections] = section
                title[section] = line; sub(/^### [A-Z]+\. /, "", title[section])
            } else if (match(line, /^### .* \([A-Z0-9]+\)$/)) {
                section = line; sub(/.*\(/, "", section); sub(/\)$/, "", section)
                letter[++sections] = section
                title[section] = line; sub(/^### /, "", title[section])
                are_reports = 1
            }
        } else if (section != "" && line ~ ("^\\| *" section "-?[0-9]+ *\\|")) {
            row = line; sub(/^\| */, "", row); sub(/ *\|.*/, "", row)
            if (!(row in known)) {
                known[row] = 1
                rows_of[section] = rows_of[section] " " row
            }
        }
    }
}
function fault(where, why) {
    print "rows.sh: " where ": " why | "cat 1>&2"
    faults++
}
function print_section(s,   row, n, i, done, left) {
    n = split(rows_of[s], row, " ")
    for (i = 1; i <= n; i++) {
        if (row[i] in covered) done++
        else left = left " " row[i]
    }
    all += n
    all_done += done
    printf "%s  %d of %d  %s\n", s, done, n, title[s]
    if (left != "")
        print "     uncovered:" left
}
BEGIN { read_table() }
{
    where = $0; sub(/:[^:0-9].*/, "", where); sub(/:[ \t]*$/, "", where)
    text = substr($0, length(where) + 2)
    if (text !~ /^[ \t]*(\/\*|#) covers:( [A-Z]+[0-9]+| [A-Z0-9]+-[0-9]+)+( \*\/)?[ \t]*$/) {
        fault(where, "a tag stands alone in its line and holds names of rows only, as A1: " text)
        next
    }
    sub(/^[^:]*: /, "", text); sub(/ \*\/[ \t]*$/, "", text)
    n = split(text, name, " ")
    for (i = 1; i <= n; i++) {
        if (name[i] in known) covered[name[i]] = 1
        else if ((name[i] ~ /-/) == are_reports)
            fault(where, name[i] " is not a row of " table)
    }
}
END {
    if (sections == 0)
        fault(table, "no section \"### A. Title\" with rows \"| A1 | ...\", nor \"### Title (AB)\" with \"| AB-1 |\"")
    for (i = 1; i <= sections; i++)
        print_section(letter[i])
    printf "%d of %d rows covered\n", all_done, all
    exit faults > 0
}'
