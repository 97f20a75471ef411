#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# oriel-perf under each launcher and bare, where a job may start badly: two jobs at once, a very
# long folder name, a hostile umask; launchers that are not ours; another MPI in the same process.
# Right means: every row verified, nothing printed but the table.
#
# With "--srun" it runs inside tests/rigs/slurm and does srun's part.

. "$(dirname "$0")/common.sh"
begin launchers
perf=$(program tools/oriel-perf)

# is_table NAME: $work/NAME.out is a table of sizes 1 to 65536, all verified, and $work/NAME.err
# empty.
is_table()
{
    cat "$work/$1.out" "$work/$1.err" >"$work/out"
    [ ! -s "$work/$1.err" ] &&
        awk '
        /^[0-9]/ { rows++; if ($NF != "yes") bad++; if ($1 != 2 ^ (rows - 1)) bad++; next }
        /^#/ || /^$/ { next }
        { bad++ }
        END { exit bad > 0 || rows != 17 }' "$work/$1.out"
}

# table LAUNCHER [NAME]: one run; the caller sets folder, umask and environment by a sub-shell.
table()
{
    launch 60 "$1" 4 "$perf" put_lat --verify -i 20 -m 1:64k >"$work/${2:-one}.out" \
        2>"$work/${2:-one}.err" && is_table "${2:-one}"
}

two_at_once()
{
    table "$1" left &
    left=$!
    table "$1" right && wait $left
}

# A folder whose name has more than 3,000 characters.
in_long_folder()
{
    part=$(printf '%0200d' 0)
    folder=$work
    while [ ${#folder} -lt 3000 ]; do
        folder=$folder/$part
    done
    mkdir -p "$folder" && (cd "$folder" && table "$1")
}

# Files made under such a mask cannot be opened again, not even by the maker, root apart.
with_umask() { (umask "$2" && table "$1"); }
with_umask_and_file()
{
    (umask "$2" && export ORIEL_SHM_BACKING=file && table "$1")
}

nobody="setpriv --reuid nobody --regid nogroup --clear-groups"

# Outside of $work, whose parents may be closed to others.
as_nobody()
{
    home=$(mktemp -d /tmp/oriel-nobody.XXXXXX) && chmod 777 "$home" || return 1
    (
        TMPDIR=$home
        export TMPDIR
        cd "$home" || exit 1
        umask "$2"
        case $1 in bare) set -- ;; *) set -- "$oriel_run" -n 4 ;; esac
        # shellcheck disable=SC2086
        timeout -k 3 60 $nobody "$@" "$perf" put_lat --verify -i 20 -m 1:64k
    ) >"$work/one.out" 2>"$work/one.err"
    is_table one && [ -z "$(ls -A "$home")" ]
    right=$?
    rm -rf "$home"
    return $right
}

rows_of()
{
    why=$(why_not "$1")
    [ -z "$why" ] || { skip "$1" "$why"; return; }
    verdict "$1" table "$1"
    verdict "$1_two_at_once" two_at_once "$1"
    verdict "$1_long_folder" in_long_folder "$1"
    verdict "$1_umask_0777" with_umask "$1" 0777
    verdict "$1_umask_0377_file" with_umask_and_file "$1" 0377
}

# A launcher without PMIx: no four jobs of one, but an end at once that names the right option.
# covers: BOOT-03
refuses()
{
    text=$1
    shift
    run 20 "$@" "$perf" put_lat
    code=$?
    [ $code != 0 ] && [ $code != 124 ] && grep -q -- "$text" "$work/out" &&
        ! grep -q '^[0-9]' "$work/out"
}

if [ "$1" = --srun ]; then
    rows_of srun
    verdict srun_without_pmix refuses 'srun --mpi=pmix' srun --mpi=none -n 4
    finish
fi

for launcher in bare oriel-run mpirun; do
    rows_of $launcher
done

if why=$(rig slurm -p 2>&1); then
    rig slurm -t 100 -- sh "$0" --srun || failed
else
    skip srun "$why"
fi

if command -v mpirun.mpich >/dev/null; then
    verdict hydra refuses 'srun --mpi=pmix' mpirun.mpich -n 4
else
    skip hydra "no mpirun.mpich (Debian package mpich)"
fi

# Root may open what it likes; nobody may not.
for launcher in bare oriel-run; do
    why=$(why_not $launcher)
    [ -n "$why" ] || $nobody test -x "$perf" 2>/dev/null ||
        why="user nobody cannot be taken, or cannot reach the build"
    for mask in 0077 0777; do
        if [ -z "$why" ]; then
            verdict "${launcher}_nobody_umask_$mask" as_nobody $launcher $mask
        else
            skip "${launcher}_nobody_umask_$mask" "$why"
        fi
    done
done

# ---- another MPI in the same process

# beside LAUNCHER ORDER
beside()
{
    launch 60 "$1" 4 "$work/beside" "$2" >"$work/out" 2>&1 &&
        [ "$(grep -c "^rank [0-3]: $2 is right" "$work/out")" = 4 ] &&
        [ "$(wc -l <"$work/out")" = 4 ]
}

compile_beside()
{
    mpicc.openmpi -O1 -I"$top_srcdir/include" "$top_srcdir/tests/e2e/beside.c" -o "$work/beside" \
        -L"$top_builddir/.libs" -loriel >"$work/out" 2>&1
}

if ! command -v mpicc.openmpi >/dev/null; then
    skip beside "no mpicc.openmpi (Debian package libopenmpi-dev)"
elif [ "${build_kind:-release}" != release ]; then
    skip beside "the other MPI is not built with sanitizers"
elif ! compile_beside; then
    fail beside_compile
else
    for launcher in mpirun oriel-run; do
        why=$(why_not $launcher)
        for order in MOom MOmo OMmo OMom; do
            if [ -z "$why" ]; then
                verdict "beside_${launcher}_$order" beside $launcher $order
            else
                skip "beside_${launcher}_$order" "$why"
            fi
        done
    done
fi

finish
