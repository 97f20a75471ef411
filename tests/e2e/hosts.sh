# SPDX-License-Identifier: BSD-3-Clause
#
# Sourced by the test_hosts*.sh: jobs across hosts. The script runs itself again inside a rig: `on`
# starts a rig for one function of the script, which there starts jobs by `across`.

. "$(dirname "$0")/common.sh"
job=$(program tests/e2e/job)
far=$(program tests/e2e/far)
mortal=$(program tests/e2e/mortal)
perf=$(program tools/oriel-perf)
info=$(program tools/oriel-info)
launcher=${T_LAUNCHER:-mpirun}

# The long form, of make soak: every case, and long ones.
is_soak() { [ -n "${T_SOAK-}" ]; }

# long_or SECONDS SHORT: SECONDS, or in the short form SHORT.
long_or()
{
    if is_soak; then echo "$1"; else echo "$2"; fi
}

# need_rigs AREA: ends the script where rigs cannot run.
need_rigs()
{
    begin "$1"
    _why=$(rig hosts -p 2>&1)
    case $? in
    0) ;;
    77) echo "SKIP: $area: $_why"; exit 77 ;;
    *) echo "$_why"; echo "FAIL: $area/rig"; exit 1 ;;
    esac
    for _program in "$job" "$far" "$mortal" "$perf"; do
        [ -x "$_program" ] || { echo "SKIP: $area: $_program is not built"; exit 77; }
    done
    _why=$(why_not "$launcher")
    [ -z "$_why" ] || { echo "SKIP: $area: $_why"; exit 77; }
    "$info" 2>/dev/null | grep -q "libfabric *built" && return
    echo "SKIP: $area: this build has no network (Debian package libfabric-dev)"
    exit 77
}

# on NAME OPTION...: the function NAME of this script within a rig of its own, by T_LAUNCHER.
on()
{
    _as=$1${T_LAUNCHER:+_$T_LAUNCHER}
    _part=$1
    shift
    case $launcher in
    srun) set -- "$@" -- "$top_srcdir/tests/rigs/slurm" -- sh "$0" --part "$_part" ;;
    *) set -- "$@" -- sh "$0" --part "$_part" ;;
    esac
    rig hosts "$@" >"$work/rig" 2>&1
    _rc=$?
    cat "$work/rig"
    [ $_rc = 0 ] && return
    failed
    grep -q '^FAIL: ' "$work/rig" || echo "FAIL: $area/$_as: the rig ended with $_rc"
}

# by_srun NAME OPTION...: the same with Slurm, whose nodes the hosts then are.
by_srun()
{
    if _why=$(rig slurm -p 2>&1); then
        launcher=srun
        T_LAUNCHER=srun
        export T_LAUNCHER
        on "$@"
        unset T_LAUNCHER
        launcher=mpirun
    else
        skip "$1_srun" "$_why"
    fi
}

# Names of what a rank on another host must have of our environment.
handed_on() { env | sed -n 's/^\(ORIEL_[A-Z_]*\|LD_LIBRARY_PATH\|FI_[A-Z_]*\)=.*/-x \1/p'; }

# across LIMIT RANKS COMMAND...: a job on all hosts of the rig, in equal parts where
# that goes, else the first gets more.
across()
{
    _limit=$1
    _n=$2
    _hosts=$(echo "$RIG_HOSTS" | wc -w)
    shift 2
    # shellcheck disable=SC2046,SC2086
    case $launcher in
    mpirun)
        _map=
        case $((_n % _hosts)):$extra in
        *--map-by*) ;;
        0:*) _map="--map-by ppr:$((_n / _hosts)):node" ;;
        esac
        set -- "$mpirun" -n "$_n" $_map $(handed_on) $extra "$@"
        ;;
    srun)
        set -- -n "$_n" $extra "$@"
        [ $((_n % _hosts)) != 0 ] || set -- --ntasks-per-node=$((_n / _hosts)) "$@"
        set -- srun -N "$_hosts" "$@"
        ;;
    esac
    timeout -k 3 "$_limit" "$@"
}
extra=

# with_options WORD...: what mpirun or srun is told besides, from now on.
with_options() { extra=$*; }

# run_across LIMIT RANKS COMMAND...: output to $work/out.
run_across() { across "$@" >"$work/out" 2>&1; }

# all_gone SECONDS LINE: all ranks of the job $_job, whose command lines begin so, end within that time.
# Its launcher is then made to: mpirun with daemons on several hosts may never end where a rank was
# killed and the others were let live, or where a daemon is lost, whatever the ranks are.
all_gone()
{
    are_gone "^$2" "$1"
    _gone=$?
    # shellcheck disable=SC2046
    kill -KILL $(processes "$2") 2>>"$work/out"
    wait "$_job"
    return $_gone
}

# bereaved RANKS PROGRAM WORD...: a job whose launcher lets the others live when a rank dies; true when
# all of them end within 20 s.
bereaved()
{
    _ranks=$1
    shift
    _line="$*"
    with_options --enable-recovery
    across 90 "$_ranks" "$@" >"$work/out" 2>&1 &
    _job=$!
    with_options
    _tries=300
    until [ -n "$(processes "^$_line")" ] || [ $_tries = 0 ]; do
        _tries=$((_tries - 1))
        sleep 0.1
    done
    all_gone 20 "$_line"
}

# counts RANKS HERE [COMMAND...]: job count is right and says nothing more; HERE is how many ranks
# rank 0's host has. The command, if any, starts it on each host.
counts()
{
    _ranks=$1
    _here=$2
    shift 2
    run_across 40 "$_ranks" "$@" "$job" count &&
        grep -qx "$_ranks ranks, $_here on this host, 0 wrong" "$work/out" &&
        [ "$(wc -l <"$work/out")" = 1 ]
}

# is_verified: $work/out is tables of oriel-perf with nothing wrong, on two hosts.
is_verified()
{
    awk '
        /^[0-9]/ { rows++; if ($NF != "yes") bad++; next }
        / on [0-9]+ host/ { if ($0 !~ / on 2 hosts/) bad++; next }
        /^#/ || /^$/ { next }
        { bad++ }
        END { exit bad > 0 || rows == 0 }' "$work/out"
}

# verifies RANKS OPTION...: oriel-perf, each byte looked at.
verifies()
{
    _ranks=$1
    shift
    run_across 60 "$_ranks" "$perf" --verify "$@" && is_verified
}

# refused TEXT... -- RANKS COMMAND...: the job ends soon and badly, and says all of that.
refused()
{
    : >"$work/texts"
    while [ "$1" != -- ]; do
        printf '%s\n' "$1" >>"$work/texts"
        shift
    done
    shift
    run_across 25 "$@"
    case $? in
    0) echo "the job ran" >>"$work/out"; return 1 ;;
    124 | 137) echo "no end within 25 s" >>"$work/out"; return 1 ;;
    esac
    while read -r _text; do
        grep -q -- "$_text" "$work/out" || { echo "not said: $_text" >>"$work/out"; return 1; }
    done <"$work/texts"
}

# wait_for FILE SECONDS
wait_for()
{
    _tries=$(($2 * 20))
    until [ -s "$1" ] || [ -e "$1" ] || [ $_tries -le 0 ]; do
        _tries=$((_tries - 1))
        sleep 0.05
    done
    [ -e "$1" ]
}

# nothing_left TEXT: no process that has it in its command line, and nothing in any /dev/shm.
nothing_left()
{
    are_gone "$1" 6 || { processes "$1" >>"$work/out"; return 1; }
    for _h in $RIG_HOSTS; do
        [ -e "/proc/$(cat "$RIG/host/$_h.pid")" ] || continue
        _left=$(rig_exec "$_h" find /dev/shm -mindepth 1 ! -name 'vader*' ! -name 'openmpi*')
        [ -z "$_left" ] || { echo "on $_h: $_left" >>"$work/out"; return 1; }
    done
}

# main_or_part AREA ARGUMENT...: within a rig, the one function and no more.
main_or_part()
{
    [ "$2" = --part ] || return 0
    begin "$1"
    "$3"
    finish
}

# storm_meanwhile SECONDS RANKS COMMAND...: two seconds into a storm the command; the storm's words
# are in $work/out, its status the function's.
storm_meanwhile()
{
    _for=$1
    _ranks=$2
    shift 2
    rm -f "$work/begun"
    across 90 "$_ranks" "$far" storm "$_for" "$work/begun" >"$work/out" 2>&1 &
    _storm=$!
    wait_for "$work/begun" 30 && sleep 1 && "$@" >>"$work/done" 2>&1
    wait $_storm
}

is_right() { grep -qx 'storm, 0 wrong' "$work/out"; }
