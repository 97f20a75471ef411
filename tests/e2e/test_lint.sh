#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The lint scripts against planted faults: a small sound tree passes each of them, and each fault
# planted in a copy of it is caught by name.

source_dir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
unset top_srcdir top_builddir CPPFLAGS_ALL
status=0
spdx='/* SPDX-License-Identifier: BSD-3-Clause */'

verdict()
{
    if [ "$1" = yes ]; then
        echo "PASS: lint/$2"
    else
        echo "FAIL: lint/$2"
        status=1
    fi
}

# write FILE: standard input under the licence line.
write()
{
    mkdir -p "$tree/${1%/*}"
    { echo "$spdx"; cat; } >"$tree/$1"
}

header()
{
    printf '#ifndef %s\n#define %s\nint %s(void);\n#endif\n' "$2" "$2" "$3" | write "$1"
}

sound_tree()
{
    tree=$work/sound
    mkdir -p "$tree/tools"
    cp -R "$source_dir/tools/lint" "$tree/tools/"
    cp "$source_dir/.clang-format" "$tree/"
    header src/base/list.h BASE_LIST_H orl_list_count
    header src/fabric/fabric.h FABRIC_FABRIC_H fab_open
    header src/fabric/transport.h FABRIC_TRANSPORT_H fab_slots
    header src/fabric/shm/shm.h FABRIC_SHM_SHM_H shm_open
    header src/core/boot/boot.h CORE_BOOT_BOOT_H core_boot_open
    header src/core/mem/mem.h CORE_MEM_MEM_H core_mem_open
    header src/core/team/team.h CORE_TEAM_TEAM_H core_team_open
    header include/oriel.h ORIEL_H oriel_init
    printf 'ORL_CONF(spin, SPIN, INT, "1", 0, 9, NULL, "base", "test")\n' | write src/base/conf.def
    printf 'int spin(void)\n{\n    return orl_conf.spin;\n}\n' | write src/base/user.c
    printf 'const char *knob = "ORIEL_SPIN";\n' | write tests/base/test_conf.c
    printf '| ORIEL_SPIN | 1 |\n' >"$tree/README.md"
}

fresh_tree()
{
    tree=$work/tree
    rm -rf "$tree"
    cp -R "$work/sound" "$tree"
}

# planted CHECK: run the check once on the tree with all that was planted; it must fail.
planted()
{
    check=$1
    if said=$(sh "$tree/tools/lint/$check.sh" 2>&1); then
        said="$check.sh found nothing"
    fi
    fresh_tree
}

# caught NAME PATTERN: the last run said PATTERN.
caught()
{
    found=no
    printf '%s\n' "$said" | grep -q -- "$2" && found=yes
    [ $found = yes ] || printf 'wanted "%s", got:\n%s\n' "$2" "$said" | sed 's/^/    /'
    verdict $found "${check}_$1"
}

passes()
{
    if said=$(sh "$tree/tools/lint/$1.sh" 2>&1); then
        verdict yes "$1_sound_tree"
    else
        printf '%s\n' "$said" | sed 's/^/    /'
        verdict no "$1_sound_tree"
    fi
}

include_in()
{
    printf '#include %s\nint x(void);\n' "$2" | write "$1"
}

have()
{
    command -v "$1" >/dev/null && return 0
    echo "SKIP: lint/$2: $1 is not installed"
    return 1
}

# A program that uses a symbol, as the archive of a layer.
archive_using()
{
    mkdir -p "$work/b/src/base/.libs" "$work/b/src/fabric/.libs" "$work/b/src/core/.libs"
    printf 'int %s(void);\nint orl_x(void);\nint orl_x(void)\n{\n    return %s();\n}\n' "$2" "$2" \
        >"$work/x.c"
    printf 'int orl_y(void);\nint orl_y(void)\n{\n    return 0;\n}\n' >"$work/y.c"
    for layer in base/.libs/libbase fabric/.libs/libfabriclayer core/.libs/libcore; do
        unit=y
        case $layer in */lib$1) unit=x ;; esac
        ${CC:-cc} -c "$work/$unit.c" -o "$work/$unit.o" &&
            ar rc "$work/b/src/$layer.a" "$work/$unit.o"
    done
}

test_layers()
{
    include_in src/core/team/below.c '"core/mem/mem.h"'
    passes layers
    include_in src/base/up.c '"fabric/fabric.h"'
    include_in src/fabric/up.c '"core/team/team.h"'
    include_in src/fabric/in.c '"fabric/shm/shm.h"'
    include_in src/fabric/self/side.c '"fabric/shm/shm.h"'
    include_in src/core/team/deep.c '"fabric/transport.h"'
    include_in src/core/mem/above.c '"core/team/team.h"'
    include_in src/core/attic/room.c '"base/list.h"'
    include_in src/core/team/third.c '<pmix.h>'
    include_in src/core/team/short.c '"list.h"'
    include_in tools/perf/oriel-perf.c '"base/list.h"'
    include_in src/mpi/inner.c '"core/core.h"'
    planted layers
    caught base_sees_fabric 'src/base/up.c:2: includes "fabric/fabric.h"'
    caught fabric_sees_core 'src/fabric/up.c:2: .*calls go down'
    caught common_sees_transport 'in.c:2: .*private to a transport'
    caught transport_sees_other 'side.c:2: .*another transport'
    caught core_sees_transport 'deep.c:2: .*core sees only fabric.h'
    caught mem_sees_team 'above.c:2: .*a room above its own'
    caught unknown_room 'room.c:2: .*no place in the order'
    caught pmix_outside_boot 'third.c:2: .*boot_pmix'
    caught short_spelling 'short.c:2: .*not spelled layer/file.h'
    caught tool_sees_base 'oriel-perf.c:2: .*client of oriel.h'
    caught mpi_sees_core 'inner.c:2: .*client of oriel.h'
    top_builddir=$work/b
    export top_builddir
    archive_using base fab_open
    planted layers
    caught base_calls_fabric 'libbase.a: uses fab_open'
    archive_using fabriclayer core_team_open
    planted layers
    caught fabric_calls_core 'libfabriclayer.a: uses core_team_open'
    unset top_builddir
}

body()
{
    printf 'int f(void)\n{\n    %s\n    return 0;\n}\n' "$2" | write "$1"
}

test_shape()
{
    body src/base/good.c '/* exit(1) */ name = "printf()"; ops->abort(1);'
    passes shape
    fresh_tree
    { printf 'int f(void)\n{\n'; yes '    x();' | head -n 40; printf '}\n'; } |
        write src/base/user.c
    planted shape
    caught median 'median of 1 functions is 40 lines'
    yes 'int x;' | head -n 601 | write src/base/long.c
    header src/core/team/list.h CORE_TEAM_LIST_H core_list
    printf 'int x;\n' >"$tree/src/base/free.c"
    printf '#define A(x) x\n#define B(x) x\n#define C(x) x\n' | write src/base/macros.c
    printf '#ifdef A\n#endif\n#ifdef B\n#endif\n#ifdef C\n#endif\n#ifdef D\n#endif\n' |
        write src/base/choices.c
    body src/base/ends.c 'exit(1);'
    body src/base/prints.c 'printf("x");'
    body src/base/asks.c 'if (getenv("A")) {'
    body src/base/blanks.c 'x(); '
    body src/base/comment.c 'x(); // why'
    body src/base/undone.c '/* TO''DO */'
    printf 'typedef struct a {\n    int b;\n} a;\n' | write src/base/type.c
    planted shape
    caught long_file 'src/base/long.c: 602 lines'
    caught same_name 'list.h.*same file name twice'
    caught no_licence 'free.c:1: no SPDX'
    caught macros '3 macros in .* lines of src'
    caught conditionals '4 conditionals in .* lines of src'
    caught exit 'ends.c:4:.*does not end the process'
    caught printf 'prints.c:4:.*printing is for log.c'
    caught getenv 'asks.c:4:.*environment is read in conf.c'
    caught blanks 'blanks.c:4:.*blank at the end'
    caught line_comment 'comment.c:4:.*block comments only'
    caught undone 'undone.c:4:.*left undone'
    caught typedef 'type.c:2:.*no typedef'
}

test_headers()
{
    passes headers
    printf '#ifndef BASE_A_H\n#define BASE_A_H\nsize_t x(void);\n#endif\n' | write src/base/a.h
    header src/base/b.h B_H orl_b
    printf '#ifndef ORIEL_H\n#define ORIEL_H\nint f(int class);\n#endif\n' | write include/oriel.h
    planted headers
    caught not_alone 'base/a.h: does not compile alone'
    caught guard 'src/base/b.h: include guard is not BASE_B_H'
    have g++ headers_cxx || return
    caught public_cxx 'oriel.h: does not compile alone with g++'
}

test_knobs()
{
    passes knobs
    printf 'ORL_CONF(lost, LOST, INT, "1", 0, 9, NULL, "base", "test")\n' \
        >>"$tree/src/base/conf.def"
    echo 'ORIEL_NEVER_WAS' >>"$tree/README.md"
    planted knobs
    caught not_read 'ORIEL_LOST is read nowhere'
    caught not_tested 'ORIEL_LOST is named in no test'
    caught not_in_readme 'ORIEL_LOST is not in README.md'
    caught readme_invents 'ORIEL_NEVER_WAS exists nowhere'
}

test_format()
{
    have clang-format-14 format || return
    passes format
    printf 'int f( void ) { return 1; }\n' | write src/base/a.c
    planted format
    caught layout 'src/base/a.c:2'
}

sound_tree
fresh_tree
for check in layers shape headers knobs format; do
    test_$check
done
exit $status
