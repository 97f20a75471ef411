#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Each header compiles alone, twice in a row, as C11 with every C compiler present; the public
# ones also as C++17. Include guards are the path in capitals.

. "$(dirname "$0")/common.sh"

flags="-D_GNU_SOURCE -Isrc -Iinclude -fsyntax-only -Wall -Wextra -Werror"

compile_alone()
{
    alone=$1
    shift
    printf '#include "%s"\n#include "%s"\nextern int oriel_lint_probe;\n' "$alone" "$alone" |
        "$@" $flags ${CPPFLAGS_ALL} - >"$scratch/out" 2>&1 && return
    fault "$alone: does not compile alone with $1:"
    grep -E 'error|warning' "$scratch/out" | head -n 3 | sed 's/^/    /' | faults
}

check_guard()
{
    case $1 in
    include/*) guard=${1#include/} ;;
    *) guard=${1#src/} ;;
    esac
    guard=$(printf '%s' "$guard" | tr 'a-z/.-' 'A-Z___')
    grep -q "^#[[:space:]]*ifndef $guard\$" "$1" || fault "$1: include guard is not $guard"
}

present=
for compiler in gcc clang; do
    command -v $compiler >/dev/null && present="$present $compiler"
done
[ -n "$present" ] || fault "no C compiler (Debian package: gcc or clang)"

for header in $(c_files src include | grep '\.h$'); do
    check_guard "$header"
    name=${header#src/}
    name=${name#include/}
    for compiler in $present; do
        compile_alone "$name" $compiler -x c -std=c11
    done
    case $header in
    include/*)
        for compiler in g++ clang++; do
            command -v $compiler >/dev/null && compile_alone "$name" $compiler -x c++ -std=c++17
        done
        ;;
    esac
done
verdict
