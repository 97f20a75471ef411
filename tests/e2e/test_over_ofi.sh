#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# One host with all of its ranks' traffic over the network (ORIEL_TRANSPORTS=self,ofi), as if each
# were alone on a host: the jobs, tables, deaths and aborts that other scripts have over shared memory.

. "$(dirname "$0")/cells.sh"
begin over_ofi
job=$(program tests/e2e/job)
perf=$(program tools/oriel-perf)
info=$(program tools/oriel-info)

[ -n "$mpirun" ] || { echo "SKIP: over_ofi: no mpirun (Debian package openmpi-bin)"; exit 77; }
"$info" 2>/dev/null | grep -q "libfabric *built" ||
    { echo "SKIP: over_ofi: this build has no network (Debian package libfabric-dev)"; exit 77; }
ORIEL_TRANSPORTS="self,ofi"
export ORIEL_TRANSPORTS

counts()
{
    launch 60 mpirun "$1" "$job" count >"$work/out" 2>&1 &&
        grep -qx "$1 ranks, $1 on this host, 0 wrong" "$work/out" && [ "$(wc -l <"$work/out")" = 1 ]
}
for n in 1 2 4 7; do
    verdict count_$n counts $n
done

# verifies RANKS OPTION...: all rows of tables, and nothing else.
verifies()
{
    launch 90 mpirun "$1" "$perf" --verify -m 1:16k -i 5 put_lat put_bw put_mr get_lat get_bw fop_lat \
        cas_lat barrier bcast allreduce >"$work/out" 2>&1 &&
        awk '/^[0-9]/ { rows++; if ($NF != "yes") bad++; next } /^#/ || /^$/ { next } { bad++ }
            END { exit bad > 0 || rows < 100 }' "$work/out"
}
verdict verify_2 verifies 2
verdict verify_3 verifies 3
verdict verify_4 verifies 4

idle()
{
    launch 60 mpirun 4 "$job" idle 10 >"$work/out" 2>&1 &&
        awk '/worst CPU share/ { ok = $4 < 0.05 } END { exit !ok }' "$work/out"
}
verdict idle_job_sleeps idle

for stage in fence idle barrier storm leave finalize; do
    cell 'mpirun --enable-recovery' $stage kill
done
for stage in fence idle barrier; do
    cell mpirun $stage abort
done
finish
