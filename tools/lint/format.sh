#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# format.sh [--fix] [FILE...]: all C files (or those named) against .clang-format, version 14.

. "$(dirname "$0")/common.sh"

tool=
for name in clang-format-14 clang-format; do
    command -v $name >/dev/null && tool=$name && break
done
[ -n "$tool" ] || { fault "clang-format is missing (Debian package: clang-format-14)"; verdict; }

fix=no
[ "$1" = --fix ] && fix=yes && shift
[ $# -gt 0 ] || set -- $(c_files src include tools tests)
[ $# -gt 0 ] || verdict

if [ $fix = yes ]; then
    $tool -i "$@"
else
    printf '%s\n' "$@" | xargs $tool --dry-run -Werror 2>"$scratch/out"
    grep -E ': (error|warning): ' "$scratch/out" | sed 's/: error:.*/: not as clang-format has it/' |
        sort -u -t: -k1,1 | faults
fi
verdict
