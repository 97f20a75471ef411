#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# make lint: every check, each with its verdict and time, all of them even when one fails. Called
# with top_srcdir, top_builddir and CPPFLAGS_ALL set; arguments choose single checks.

. "$(dirname "$0")/common.sh"
export top_srcdir top_builddir CPPFLAGS_ALL

jobs=${LINT_JOBS:-2}

tidy_one='
    out=$(clang-tidy --quiet "$1" -- -std=c11 -Wno-everything -D_GNU_SOURCE -Isrc -Iinclude \
        $CPPFLAGS_ALL $mpi_cflags 2>/dev/null) || { printf "%s\n" "$out" | grep -v "^$"; exit 1; }'

# Files for another processor family, which this machine's headers cannot parse.
case $(uname -m) in
x86_64) foreign='_arm\.c$' ;;
aarch64) foreign='_x86\.c$' ;;
*) foreign='_(arm|x86)\.c$' ;;
esac

# An mpi.h is no dependency: without one the file that is built against any is left out.
mpi_cflags=$({ pkg-config --cflags ompi-c || pkg-config --cflags mpich; } 2>/dev/null) ||
    foreign="$foreign|/perf_mpi\.c$"
mpi_cflags=$(printf '%s\n' "$mpi_cflags" | sed 's/-I */-isystem /g')
export mpi_cflags

check_tidy()
{
    command -v clang-tidy >/dev/null ||
        { echo "clang-tidy is missing (Debian package: clang-tidy)" >&2; return 1; }
    c_files src tools | grep '\.c$' | grep -Ev "$foreign" | xargs -r -P"$jobs" -n1 sh -c "$tidy_one" sh
}

check_cppcheck()
{
    command -v cppcheck >/dev/null ||
        { echo "cppcheck is missing (Debian package: cppcheck)" >&2; return 1; }
    sed 's/[[:space:]]*#.*//; /^$/d' tools/lint/cppcheck.suppress >"$scratch/suppress"
    cppcheck --quiet -j "$jobs" --enable=warning,performance,portability,style --std=c11 \
        --inline-suppr --error-exitcode=1 --suppressions-list="$scratch/suppress" \
        -D_GNU_SOURCE -Isrc -Iinclude --template='{file}:{line}: {severity}: {message} [{id}]' \
        src tools
}

check_scripts()
{
    command -v shellcheck >/dev/null ||
        { echo "SKIP: lint/shellcheck: not installed (Debian package: shellcheck)"; return 0; }
    find tools tests .ci -type f \( -name '*.sh' -o -perm -u+x \) ! -name '*.[ch]' |
        xargs grep -lE '^#!.*(sh|bash)$|^# SPDX' | sort |
        xargs -r shellcheck --severity=warning --shell=bash \
            --exclude=SC1091,SC2010,SC2038,SC2046,SC2048,SC2154
}

status=0
for check in ${*:-layers shape headers knobs format scripts cppcheck tidy}; do
    began=$(date +%s)
    if case $check in
        tidy | cppcheck | scripts) "check_$check" ;;
        *) sh "tools/lint/$check.sh" ;;
        esac
    then
        echo "PASS: lint/$check ($(($(date +%s) - began)) s)"
    else
        echo "FAIL: lint/$check ($(($(date +%s) - began)) s)"
        status=1
    fi
done
exit $status
