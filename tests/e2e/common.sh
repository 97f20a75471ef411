# SPDX-License-Identifier: BSD-3-Clause
#
# Sourced by the scripts of this folder that start jobs: verdicts, where programs are, launchers by
# name, and who is left behind. A script begins with `begin AREA` and ends with `finish`.

top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
top_builddir=$(cd "${top_builddir:-.}" && pwd)
. "$top_srcdir/tools/launcher-env.sh"
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
status=0

# Open MPI's, for MPICH may own the name, and has no PMIx.
mpirun=$(command -v mpirun.openmpi || command -v mpirun) || mpirun=
"${mpirun:-false}" --version 2>/dev/null | grep -q 'Open MPI\|OpenRTE' || mpirun=

begin() { area=$1; }
failed() { status=1; }
finish() { exit $status; }

pass() { echo "PASS: $area/$1"; }
skip() { echo "SKIP: $area/$1: $2"; }

# fail NAME: with what the command said, in $work/out.
fail()
{
    sed 's/^/    /' "$work/out"
    echo "FAIL: $area/$1"
    status=1
}

# verdict NAME COMMAND...: passes when the command does.
verdict()
{
    _name=$1
    shift
    if "$@"; then pass "$_name"; else fail "$_name"; fi
}

# program PATH: one of this build. Libtool's wrapper starts the real one through several processes;
# that is found by the library path below instead.
program()
{
    _real=$top_builddir/${1%/*}/.libs/${1##*/}
    if [ -x "$_real" ]; then echo "$_real"; else echo "$top_builddir/$1"; fi
}
LD_LIBRARY_PATH=$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
oriel_run=$(program tools/oriel-run)

# run LIMIT COMMAND...: output to $work/out; 124 or 137 at the limit, since mpirun may be deaf to
# TERM.
run()
{
    _limit=$1
    shift
    timeout -k 3 "$_limit" "$@" >"$work/out" 2>&1
}

# why_not LAUNCHER: the reason why jobs cannot be started by it here, "" when they can.
why_not()
{
    case $1 in
    oriel-run*) [ -x "$oriel_run" ] || echo "tools/oriel-run is not built" ;;
    mpirun*) [ -n "$mpirun" ] || echo "no mpirun (Debian package openmpi-bin)" ;;
    srun*) command -v srun >/dev/null || echo "no srun (Debian package slurm-client)" ;;
    esac
}

# rig NAME ARGUMENT...: one of tests/rigs.
rig()
{
    _rig=$top_srcdir/tests/rigs/$1
    shift
    "$_rig" "$@"
}

# launch LIMIT LAUNCHER RANKS COMMAND...: LAUNCHER is "bare", or oriel-run, mpirun or srun with
# options; 124 or 137 at the limit, since mpirun may be deaf to TERM. srun works within
# tests/rigs/slurm only.
launch()
{
    _limit=$1
    _launcher=$2
    _n=$3
    shift 3
    # shellcheck disable=SC2086
    case $_launcher in
    bare) set -- "$@" ;;
    oriel-run*) set -- "$oriel_run" ${_launcher#oriel-run} -n "$_n" "$@" ;;
    mpirun*)
        set -- ${_launcher#mpirun} -n "$_n" "$@"
        set -- "$mpirun" --oversubscribe --mca orte_tmpdir_base "$work" "$@"
        ;;
    srun*) set -- srun ${_launcher#srun} -n "$_n" "$@" ;;
    esac
    [ -z "$wrapper" ] || set -- sh -c "$wrapper" sh "$@"
    timeout -k 3 "$_limit" "$@"
}
wrapper=

# launch_by LINE LIMIT LAUNCHER RANKS COMMAND...: the whole is "$@" of that line of shell.
launch_by()
{
    wrapper=$1
    shift
    launch "$@"
    _rc=$?
    wrapper=
    return $_rc
}

# processes TEXT: numbers of those with this text in their command line, but for zombies.
processes()
{
    for _pid in $(pgrep -f -- "$1"); do
        case $(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$_pid/status" 2>/dev/null) in
        '' | Z | X) ;;
        *) [ "$_pid" = $$ ] || echo "$_pid" ;;
        esac
    done
}

# are_gone TEXT [SECONDS]: no such process any more, waiting for it at most so long (5).
are_gone()
{
    _tries=$((${2:-5} * 10))
    while [ -n "$(processes "$1")" ]; do
        [ $_tries -gt 0 ] || return 1
        _tries=$((_tries - 1))
        sleep 0.1
    done
}

# end_job TEXT: a job of launch that goes on, with this text in its command line, is told to end, and
# has; a signal to a shell around it would not reach it.
end_job()
{
    pkill -TERM -f "^timeout .*$1"
    are_gone "$1" 10
}

# What lies in /dev/shm, but for the launchers' own. Nothing where other tests see the same one
# (run-test could make no space of its own).
shm_files()
{
    [ -z "$T_OWN_SPACE" ] || find /dev/shm -mindepth 1 -maxdepth 1 ! -name 'vader*'
}
