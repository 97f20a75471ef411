#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Jobs under a real mpirun and PMIx: counting and putting, alone, more ranks than cores, deaths,
# aborts, what stays behind after kill -9, launchers without PMIx, an idle job's CPU use.

. "$(dirname "$0")/common.sh"
begin mpirun
job=$(program tests/e2e/job)

[ -n "$mpirun" ] || { echo "SKIP: mpirun: no mpirun (Debian package openmpi-bin)"; exit 77; }

mpi() { # mpi N ARGUMENT...
    n=$1
    shift
    launch 60 mpirun "$n" "$job" "$@" >"$work/out" 2>&1
}

for n in 1 2 4 7; do
    if mpi $n count && grep -qx "$n ranks, $n on this host, 0 wrong" "$work/out" &&
        [ "$(wc -l <"$work/out")" = 1 ]; then
        pass "count_$n"
    else
        fail "count_$n"
    fi
done

if run 20 "$job" count && grep -qx "1 ranks, 1 on this host, 0 wrong" "$work/out"; then
    pass alone
else
    fail alone
fi

# The launcher lets the others live: they must find out by themselves, and within seconds.
launch 60 'mpirun --enable-recovery' 4 "$job" die 2 >"$work/out" 2>&1
if [ "$(grep -c 'heard ORIEL_ERR_PEER after [01]\..* rank 2' "$work/out")" = 3 ]; then
    pass death_is_heard_within_two_seconds
elif [ "$(grep -c 'heard ORIEL_ERR_PEER .* rank 2' "$work/out")" = 3 ]; then
    pass death_is_heard_on_a_busy_machine
else
    fail death_is_heard
fi

mpi 4 abort 1
code=$?
if [ $code = 7 ] && grep -q 'oriel_abort(7): as asked' "$work/out"; then
    pass abort
else
    fail "abort ($code)"
fi

# Nothing by name after kill -9, whatever the backing.
for backing in memfd file; do
    before=$(shm_files | wc -l)
    ORIEL_SHM_BACKING=$backing timeout -s KILL 60 setsid "$mpirun" --mca orte_tmpdir_base "$work" \
        -n 3 "$job" hold >"$work/out" 2>&1 &
    tries=0
    while [ "$(grep -c ready "$work/out")" -lt 3 ] && [ $tries -lt 200 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    pkill -KILL -f "$job hold"
    wait
    if [ $tries -lt 200 ] && [ "$(shm_files | wc -l)" -le "$before" ]; then
        pass "nothing_left_$backing"
    else
        shm_files >>"$work/out"
        fail "nothing_left_$backing"
    fi
done

# A launcher that promises ranks but has no PMIx: an error that names it, not four jobs of one.
if SLURM_STEP_NUM_TASKS=4 run 20 "$job" count; then
    fail wrong_launcher_slurm
elif grep -q 'srun started 4 ranks' "$work/out" && grep -q 'srun --mpi=pmix' "$work/out"; then
    pass wrong_launcher_slurm
else
    fail wrong_launcher_slurm
fi
if PMI_SIZE=2 PMI_RANK=1 run 20 "$job" count; then
    fail wrong_launcher_hydra
elif grep -q 'PMI-1 launcher' "$work/out"; then
    pass wrong_launcher_hydra
else
    fail wrong_launcher_hydra
fi
if SLURM_STEP_NUM_TASKS=4 ORIEL_BOOT=single run 20 "$job" count; then
    pass forced_single
else
    fail forced_single
fi
if ORIEL_BOOT=pmix run 20 "$job" count; then
    fail forced_pmix
elif grep -q 'ORIEL_BOOT=pmix' "$work/out" && grep -q 'mpirun' "$work/out"; then
    pass forced_pmix
else
    fail forced_pmix
fi

# An unknown setting: one warning per rank with the nearest name, and the job runs.
if ORIEL_SPIN_TIEM=1us run 20 "$job" count && grep -q 'ORIEL_SPIN_TIEM.*ORIEL_SPIN_TIME' "$work/out" &&
    [ "$(grep -c ORIEL_SPIN_TIEM "$work/out")" = 1 ]; then
    pass unknown_setting
else
    fail unknown_setting
fi

# All ranks but one wait: they sleep. The share holds start-up too, so the bar is loose here; the
# bench prints the exact one.
# covers: REL-07
if mpi 4 idle 10 && awk '/worst CPU share/ { ok = $4 < 0.05 } END { exit !ok }' "$work/out"; then
    pass idle_job_sleeps
else
    fail idle_job_sleeps
fi

finish
