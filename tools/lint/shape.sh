#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The shape of the code: file lengths, unique names, the licence line, macro and conditional
# budgets, median function length, calls a library must not make, blanks at line ends.

. "$(dirname "$0")/common.sh"

max_lines=600
max_test_lines=400
max_macros=2 # function-like macros per 1,000 lines of src; X-macro tables and attr.h left out
max_conditionals=3 # per 1,000 lines, outside the files that may choose by compiler or CPU
max_median=15 # lines of the median function

text_files()
{
    find src include tools tests m4 .ci -type f \
        ! -path 'm4/aux/*' ! -name '*.xml' ! -name '*.svg' ! -name '*.o' ! -name '*.lo' ! -path '*/.*/*' 2>/dev/null
    find . -maxdepth 1 -type f \( -name configure.ac -o -name Makefile.am -o -name '*.md' \)
}

check_lengths()
{
    c_files src tools tests | xargs -r wc -l | awk -v code="$max_lines" -v test="$max_test_lines" '
        $2 != "total" && $1 > ($2 ~ /^tests\// ? test : code) {
            print $2 ": " $1 " lines, at most " ($2 ~ /^tests\// ? test : code) }' | faults
    text_files | grep 'README\.md$' | xargs -r wc -l |
        awk '$2 != "total" && $1 > 200 { print $2 ": " $1 " lines, at most 200" }' | faults
}

check_names()
{
    find src -name '*.[ch]' -o -name '*.def' | sed 's|.*/||' | sort | uniq -d |
        while read -r name; do
            fault "$(find src -name "$name" | tr '\n' ' '): the same file name twice"
        done
}

check_licence()
{
    text_files | grep -E '\.([chm]|def|sh|mk|m4|map|am|ac)$' | xargs -r awk '
        function flush() { if (file != "" && !seen) print file ":1: no SPDX-License-Identifier line" }
        FNR == 1 { flush(); file = FILENAME; seen = 0 }
        FNR <= 2 && /SPDX-License-Identifier: BSD-3-Clause/ { seen = 1 }
        END { flush() }' | faults
}

# A macro that the same file undefines again reads an X-macro table, one that takes X is such a
# table; neither is counted.
count_macros()
{
    c_files src | grep -v '^src/base/attr\.h$' | xargs -r awk '
        function flush(   name) {
            for (name in seen) {
                print file ":" seen[name] ": " name
                delete seen[name]
            }
        }
        FNR == 1 { flush(); file = FILENAME }
        /^[ \t]*#[ \t]*define[ \t]+[A-Za-z_0-9]+\(/ && !/\(X\)/ {
            name = $0; sub(/^[ \t]*#[ \t]*define[ \t]+/, "", name); sub(/\(.*/, "", name)
            seen[name] = FNR
        }
        /^[ \t]*#[ \t]*undef[ \t]/ { delete seen[$NF] }
        END { flush() }'
}

# Files that may choose by compiler, CPU or what was found. Include guards and C++ linkage are not
# choices.
choosers='^src/(base/(attr\.h|copy[a-z_0-9]*\.[ch]|crc[a-z_0-9]*\.c)|fabric/(cuda|fabric)\.c)$'

count_conditionals()
{
    c_files src | grep -Ev "$choosers" | xargs -r awk '
        /^[ \t]*#[ \t]*(if|ifdef|ifndef|elif)/ && !/_H$/ && !/__cplusplus/ {
            print FILENAME ":" FNR ": " $0 }'
}

check_budget()
{
    what=$1
    limit=$2
    lines=$(c_files src | xargs -r cat | wc -l)
    count=$(wc -l <"$scratch/$what")
    allowed=$(((lines * limit + 999) / 1000))
    [ "$count" -le "$allowed" ] && return
    fault "$count $what in $lines lines of src, at most $allowed ($limit per 1000):"
    sed 's/^/    /' "$scratch/$what" | faults
}

# In our layout a function body begins with { and ends with } in the first column.
check_median()
{
    c_files src | grep '\.c$' | xargs -r awk '
        /^\{/ { start = FNR } /^\}[ \t]*$/ && start { print FNR - start - 1; start = 0 }' |
        sort -n >"$scratch/lengths"
    count=$(wc -l <"$scratch/lengths")
    [ "$count" = 0 ] && return
    median=$(sed -n "$(((count + 1) / 2))p" "$scratch/lengths")
    [ "$median" -gt "$max_median" ] &&
        fault "the median of $count functions is $median lines, at most $max_median"
}

# code_grep PATTERN FOLDER...: file:line:text in stripped code.
code_grep()
{
    (
        pattern=$1
        shift
        cd "$scratch/code" && grep -rnE "$pattern" "$@" 2>/dev/null
    )
}

# Calls to one of the named functions in src; a slot reached by . or -> is not one.
find_calls()
{
    code_grep "(^|[^A-Za-z0-9_.>])($1)[[:space:]]*\\(" src
}

check_calls()
{
    find_calls 'exit|_exit|_Exit|quick_exit|abort' | while read -r hit; do
        file=${hit%%:*}
        grep -q 'oriel_abort(' "$file" && [ "${file%.h}" = "$file" ] && continue
        fault "$hit: a library does not end the process (only oriel_abort may)"
    done
    find_calls 'printf|vprintf|fprintf|vfprintf|dprintf|puts|putchar|fputs|perror' |
        grep -v '^src/base/log\.c:' |
        sed 's/$/: printing is for log.c alone/' | faults
    find_calls '(secure_)?getenv|setenv|putenv' | grep -v '^src/base/conf\.c:' |
        sed 's/$/: the environment is read in conf.c alone/' | faults
    find_calls 'sprintf|vsprintf|strcpy|strcat|gets|alloca|system|popen' |
        sed 's/$/: not bounded, or runs a shell/' | faults
}

check_style()
{
    text_files | xargs -r grep -nE '[[:blank:]]+$' /dev/null | sed 's/$/: blank at the end/' | faults
    code_grep '//' src include tools tests | sed 's/$/: block comments only/' | faults
    code_grep 'typedef (struct|union|enum)\b[^(]*(;|\{|$)' src include tools tests |
        sed 's/$/: no typedef of a struct/' | faults
    code_grep '\bvolatile\b' src include | grep -vE '\basm|__asm__' |
        sed 's/$/: atomics with explicit orders, no volatile/' | faults
    text_files | grep -v '^tools/lint/' | xargs -r grep -nwE 'TODO|FIXME|XXX|HACK' /dev/null |
        sed 's/$/: work left undone in the text/' | faults
}

c_files src include tools tests | strip_c
count_macros >"$scratch/macros"
count_conditionals >"$scratch/conditionals"
check_lengths
check_names
check_licence
check_budget macros $max_macros
check_budget conditionals $max_conditionals
check_median
check_calls
check_style
verdict
