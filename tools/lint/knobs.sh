#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Each row of conf.def is read in code, named in a test and present in the README's table, and no
# more than the budget exist. The table itself is compared by a test; this finds what is missing.

. "$(dirname "$0")/common.sh"

table=src/base/conf.def
budget=60

rows()
{
    sed -n 's/^ORL_CONF(\([a-z0-9_]*\),[[:space:]]*\([A-Z0-9_]*\),.*/\1 \2/p' "$table"
}

count=$(rows | wc -l)
[ "$count" -gt 0 ] || fault "$table: no row of the form ORL_CONF(field, NAME, ...)"
[ "$count" -le "$budget" ] || fault "$table: $count settings, the budget is $budget"
[ "$count" = "$(grep -c '^ORL_CONF(' "$table")" ] || fault "$table: a row this script cannot read"

rows | sort | uniq -d | sed "s|^|$table: twice: |" | faults

rows | while read -r field name; do
    line=$(grep -n "^ORL_CONF($field," "$table" | cut -d: -f1)
    where="$table:$line: ORIEL_$name"
    c_files src tools | grep -v '^src/base/conf\.h' | xargs grep -qwE "orl_conf\.$field" /dev/null ||
        fault "$where is read nowhere in src or tools"
    grep -rqwE "ORIEL_$name|orl_conf\.$field" tests --include='*.[ch]' --include='*.sh' ||
        fault "$where is named in no test"
    grep -qwE "ORIEL_$name" README.md 2>/dev/null || fault "$where is not in README.md"
done

grep -oE '\bORIEL_[A-Z0-9_]+' README.md 2>/dev/null | sort -u | while read -r name; do
    rows | grep -qw "${name#ORIEL_}" && continue
    grep -rqw "$name" include tests tools .ci src && continue
    fault "README.md: $name exists nowhere"
done
verdict
