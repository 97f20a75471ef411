#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What a user gets: make install into an empty root, a C and a C++ program built by pkg-config
# against it alone and run, the exported symbols, and uninstall, which leaves no file.

top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
status=0

# check NAME COMMAND...: one line of verdict; what the command said only when it failed.
check()
{
    name=$1
    shift
    if "$@" >"$work/out" 2>&1; then
        echo "PASS: install/$name"
    else
        sed 's/^/    /' "$work/out"
        echo "FAIL: install/$name"
        status=1
    fi
}

[ -n "$top_builddir" ] || { echo "SKIP: install: no build folder given"; exit 77; }
case $build_kind in
*asan* | *tsan* | *ubsan* | *coverage*)
    echo "SKIP: install: a $build_kind build is not for users"
    exit 77
    ;;
esac

unset MAKEFLAGS MFLAGS MAKELEVEL
root=$work/root
check make_install make -C "$top_builddir" install DESTDIR="$root"

pc=$(find "$root" -name oriel.pc)
lib=$(dirname "$(find "$root" -name liboriel.so.0)")
PKG_CONFIG_PATH=$(dirname "$pc")
PKG_CONFIG_SYSROOT_DIR=$root
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR

cat >"$work/user.c" <<'USER'
#include <oriel.h>
#include <stdio.h>

int main(void)
{
    long sum = 0;
    if (oriel_init(NULL) != ORIEL_OK) {
        fprintf(stderr, "%s\n", oriel_error_detail());
        return 1;
    }
    sum = oriel_rank() + oriel_size();
    if (oriel_barrier(ORIEL_WORLD) != ORIEL_OK || oriel_finalize() != ORIEL_OK) {
        return 2;
    }
    return sum == 1 ? 0 : 3;
}
USER
cp "$work/user.c" "$work/user.cc"

build_and_run()
{
    # shellcheck disable=SC2046
    "$@" -o "$work/user" $(pkg-config --cflags --libs oriel) &&
        LD_LIBRARY_PATH=$lib timeout 60 "$work/user"
}

# A healthy run prints nothing.
is_silent()
{
    said=$(LD_LIBRARY_PATH=$lib timeout 60 "$work/user" 2>&1)
    echo "$said"
    [ -z "$said" ]
}

exports_only_oriel()
{
    nm -D --defined-only "$lib/liboriel.so.0" | awk '$2 != "A" && $3 !~ /^oriel_/' >"$work/names"
    cat "$work/names"
    [ ! -s "$work/names" ] && nm -D --defined-only "$lib/liboriel.so.0" | grep -q ' oriel_init'
}

tool_runs()
{
    LD_LIBRARY_PATH=$lib timeout 60 "$(find "$root" -name oriel-perf)" --help
}

uninstall_leaves_nothing()
{
    make -C "$top_builddir" uninstall DESTDIR="$root" || return 1
    find "$root" ! -type d >"$work/left"
    cat "$work/left"
    [ ! -s "$work/left" ]
}

check c_program build_and_run ${CC:-cc} -std=c11 -Wall -Werror "$work/user.c"
check silent is_silent
if command -v g++ >/dev/null; then
    check cxx_program build_and_run g++ -std=c++17 -Wall -Werror "$work/user.cc"
else
    echo "SKIP: install/cxx_program: no g++ (Debian package: g++)"
fi
check soname sh -c "readelf -d '$lib/liboriel.so.0' | grep -q 'SONAME.*liboriel\\.so\\.0\\]'"
check symbols exports_only_oriel
check no_static sh -c "! find '$root' -name '*.a' | grep ."
check tool tool_runs
check uninstall uninstall_leaves_nothing
exit $status
