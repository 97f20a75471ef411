# SPDX-License-Identifier: BSD-3-Clause
#
# Sourced by test_death.sh and test_abort.sh, which define all_of LAUNCHER: jobs of
# four in which a rank goes (mortal.c), what must come of it, and the order of all jobs.

. "$(dirname "$0")/common.sh"
mortal=$(program tests/e2e/mortal)
victim=2
limit=25 # of one job; those that need it have failed

uptime_now()
{
    read -r _now _ </proc/uptime
    echo "$_now"
}

# Seconds that an end may take: five, and one more for each process that waits for each CPU.
most_seconds()
{
    awk -v cpus="$(nproc)" '{ more = int($1 / cpus); print 5 + (more < 15 ? more : 15) }' /proc/loadavg
}

# cell_name LAUNCHER STAGE HOW
cell_name()
{
    echo "$3_$2_$(echo "$1" | tr -cd 'a-z')"
}

# start_job LAUNCHER STAGE HOW NAME: its files begin with $work/NAME; its TMPDIR must end empty.
start_job()
{
    mkdir "$work/$4.tmp"
    TMPDIR=$work/$4.tmp launch $limit "$1" 4 \
        "$mortal" "$2" "$3" $victim "$work/$4.at" >"$work/$4.out" 2>&1
}

# What lies where a job may have put it, but for a launcher's own folders.
left_files()
{
    shm_files
    find "$work/$1.tmp" -mindepth 1 -maxdepth 1 ! -name 'ompi.*' ! -name 'pmix*'
}

# judge NAME STAGE SECONDS SURVIVORS ENDED: reads a job's lines and says what is wrong with them.
# SECONDS is the most that may pass, SURVIVORS how many must have spoken.
judge()
{
    awk -v died="$(cat "$work/$1.at" 2>/dev/null)" -v stage="$2" -v most="$3" -v wanted="$4" \
        -v ended="$5" -v victim=$victim '
    function bad(why) { print "wrong: " why; faults++ }
    /^rank [0-9]+ heard / {
        spoken++
        in_init = stage == "before" || stage == "fence" || stage == "get"
        if ($4 != "ORIEL_ERR_PEER" && !(in_init && $4 == "ORIEL_ERR_BOOT")) bad($0)
        if ($0 !~ ("rank " victim "([^0-9]|$)")) bad("the rank is not named: " $0)
        time = $6; sub(/:$/, "", time)
        if (time - died > most) bad("after " time - died " s: " $0)
    }
    /^rank [0-9]+ done / {
        spoken++
        if (stage != "leave" && stage != "finalize") bad($0)
    }
    END {
        if (died == "") bad("rank " victim " has never gone")
        else if (ended - died > most) bad("the job ended " ended - died " s after it")
        if (spoken < wanted) bad(spoken + 0 " of " wanted " survivors spoke")
        if (!faults) printf "%.1f\n", ended - died
        exit faults > 0
    }' "$work/$1.out"
}

# report NAME WHY: a failure with all that the job said.
report()
{
    { printf '%s\n' "$2" "it said:"; cat "$work/$1.out"; } | sed 's/^/    /'
    echo "FAIL: $area/$1"
    status=1
}

# cell LAUNCHER STAGE HOW: one job. Where the launcher lets the others live, each of them owes a word.
# mpirun with recovery takes no rank's status for the job's.
cell()
{
    name=$(cell_name "$1" "$2" "$3")
    why=$(why_not "$1")
    [ -z "$why" ] || { skip "$name" "$why"; return; }
    start_job "$1" "$2" "$3" "$name"
    code=$?
    seconds=$(most_seconds)
    are_gone "$work/$name.at" "$((seconds + 1))"
    ended=$(uptime_now)
    pkill -KILL -f "$work/$name.at"
    survivors=0
    case $1 in *--keep | *--enable-recovery) survivors=3 ;; esac
    [ "$3" = kill ] || survivors=0
    if ! said=$(judge "$name" "$2" $seconds $survivors "$ended"); then
        report "$name" "$said"
    elif [ "$3" = abort ] && [ $code != 7 ] && [ "$1" != 'mpirun --enable-recovery' ]; then
        report "$name" "the status is $code, not 7"
    elif [ "$3" = kill ] && [ $survivors = 0 ] && [ $code = 0 ]; then
        report "$name" "the status is 0"
    elif [ -n "$(left_files "$name")" ]; then
        report "$name" "files left: $(left_files "$name")"
    else
        echo "PASS: $area/$name ($said s)"
    fi
}

# all_launchers [--srun]: with it, inside tests/rigs/slurm, srun's part alone. Else all, in two
# streams: a job of four keeps a machine busy only at its start.
all_launchers()
{
    if [ "$1" = --srun ]; then
        all_of srun
        return
    fi
    (
        status=0
        all_of mpirun
        all_of 'mpirun --enable-recovery'
        exit $status
    ) >"$work/stream" 2>&1 &
    stream=$!
    if why=$(rig slurm -p 2>&1); then
        rig slurm -t 200 -- sh "$0" --srun || failed
    else
        skip srun "$why"
    fi
    all_of oriel-run
    all_of 'oriel-run --keep'
    wait $stream || failed
    cat "$work/stream"
}
