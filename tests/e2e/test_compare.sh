#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# tools/compare with contestants whose numbers are known: figures, ratios, order, limits, tables and
# picture; how it starts an MPI, with programs of that name that only take notes; and, where MPIs
# are installed, one small comparison in earnest.

top_srcdir=${top_srcdir:-$(cd "$(dirname "$0")/../.." && pwd)}
compare=$top_srcdir/tools/compare
build=$top_builddir
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
status=0
unset top_builddir # only the run in earnest may use what is built, and keep what it builds there

check()
{
    name=$1
    shift
    if "$@" >"$work/said" 2>&1; then
        echo "PASS: compare/$name"
    else
        sed 's/^/    /' "$work/said"
        echo "FAIL: compare/$name"
        status=1
    fi
}

# run OPTION...: to $work/out and $work/err; its status stays in rc.
run()
{
    timeout -k 3 100 "$compare" "$@" >"$work/out" 2>"$work/err"
    rc=$?
    cat "$work/out" "$work/err"
    return $rc
}

# says FILE LINE...: each is a whole line of it.
says()
{
    file=$1
    shift
    for line in "$@"; do
        grep -qxF -- "$line" "$file" || { echo "not said: $line"; return 1; }
    done
}

# A contestant: notes its call and writes the next of the medians in its file NAME.TEST, a line a
# round, one column a size from 8 on. "sleep" and "fail" do that.
cat >"$work/player" <<'END'
#!/bin/sh
here=$(dirname "$0")
name=$(basename "$0")
ranks=$1
test=$2
shift 2
echo "$name $ranks $test $*" >>"$here/calls"
while [ "$1" != --json ]; do shift; done
round=$(grep -c "^$name $ranks $test " "$here/calls")
line=$(sed -n "${round}p" "$here/$name.$test")
case $line in
sleep) sleep 30 ;;
fail) echo "something is wrong here" >&2; exit 3 ;;
esac
unit=us
case $test in *_bw) unit=MB/s ;; esac
size=8
for median in $line; do
    echo "{\"test\":\"$test\",\"size\":$size,\"ranks\":$ranks,\"hosts\":1,\"transport\":\"x\",\"unit\":\"$unit\",\"min\":1,\"median\":$median,\"avg\":1,\"p99\":1,\"max\":1,\"iterations\":9}"
    size=$((size * 2))
done >"$2"
END
chmod +x "$work/player"
for name in us them others; do cp "$work/player" "$work/$name"; done
players=us=$work/us,them=$work/them

# Best of 2 1 3 is 1 and their median 2; of a bandwidth the best is the highest.
printf '2 20\n1 20\n3 20\n' >"$work/us.put_lat"
printf '4 10\n5 15\n3 11\n' >"$work/them.put_lat"
printf '100\n300\n200\n' >"$work/us.put_bw"
printf '100\n150\n50\n' >"$work/them.put_bw"

fresh() { rm -f "$work/calls"; }

computes()
{
    fresh
    run put_lat put_bw -r 3 --with "$players" --json "$work/json" || return 1
    cat "$work/json"
    says "$work/json" \
        '{"test":"put_lat","size":8,"ranks":2,"contestant":"us","unit":"us","best":1.000000,"median":2.000000,"ratio_best":1.0000,"ratio_median":1.0000}' \
        '{"test":"put_lat","size":8,"ranks":2,"contestant":"them","unit":"us","best":3.000000,"median":4.000000,"ratio_best":3.0000,"ratio_median":2.0000}' \
        '{"test":"put_lat","size":16,"ranks":2,"contestant":"them","unit":"us","best":10.000000,"median":11.000000,"ratio_best":0.5000,"ratio_median":0.5500}' \
        '{"test":"put_bw","size":8,"ranks":2,"contestant":"them","unit":"MB/s","best":150.000000,"median":100.000000,"ratio_best":2.0000,"ratio_median":2.0000}' &&
        [ "$(wc -l <"$work/json")" = 6 ]
}

summarises()
{
    says "$work/out" \
        'us is ahead in 2 of 3 cells by the median of rounds, in 2 by the best round' \
        'worst cell: 0.550, put_lat of 16 bytes, 2 ranks, against them' \
        'against them: ahead in 2 of 3 by median, 2 by best; worst 0.550, put_lat of 16 bytes, 2 ranks' &&
        grep -qE '^8 +1\.000 +2\.000  \| +3\.000 +4\.000 +3\.00 +2\.00$' "$work/out"
}

takes_turns()
{
    fresh
    run put_lat -r 3 -n 2,5 -m 8:16 --with "$players" || return 1
    cat "$work/calls"
    cut -d' ' -f1-5 "$work/calls" | tr '\n' ',' >"$work/order"
    for n in 2 5; do
        for name in us them them us us them; do printf '%s %s put_lat -m 8:16,' $name $n; done
    done | cmp - "$work/order"
}

counts_missing()
{
    fresh
    printf 'sleep\n' >"$work/others.put_lat"
    run put_lat -r 2 -t 1 --with "$players,others=$work/others" --json "$work/json" || return 1
    says "$work/out" '# others: no result within 1 s: put_lat, 2 ranks; not tried again' \
        'us is ahead in 1 of 2 cells by the median of rounds, in 1 by the best round; 2 cells are missing' \
        'against others: ahead in 0 of 0 by median, 0 by best; 2 missing' &&
        ! grep -q others "$work/json" && [ "$(grep -c '^others' "$work/calls")" = 1 ]
}

tells_failure()
{
    fresh
    printf 'fail\n' >"$work/others.put_lat"
    run put_lat -r 1 --with "$players,others=$work/others" || return 1
    says "$work/out" '# others: failed with status 3: put_lat, 2 ranks; not tried again' \
        '#     something is wrong here'
}

fails_without_first()
{
    fresh
    run put_lat -r 1 --with "others=$work/others,them=$work/them"
    [ $rc = 1 ] && grep -q 'compare: others has no result' "$work/err"
}

draws()
{
    fresh
    printf '1 2 3 4\n' >"$work/us.get_lat"
    printf '2 3 4 500\n' >"$work/them.get_lat"
    run put_lat put_bw get_lat -r 1 --with "$players" --plot "$work/svg" --markdown "$work/md" || return 1
    cat "$work/svg" "$work/md"
    [ "$(wc -c <"$work/svg")" -lt 80000 ] || return 1
    for text in '^<svg .*viewBox' '>get_lat, 2 ranks (us)<' '>put_bw, 2 ranks (MB/s)<' '>them<' \
        '^<path class="c1 b"' '^</svg>$'; do
        grep -q "$text" "$work/svg" || { echo "not drawn: $text"; return 1; }
    done
    ! grep -qi 'nan\|inf' "$work/svg" && [ "$(grep -c '<path class="c[12]" d="M[0-9. ]*"' "$work/svg")" = 4 ] &&
        says "$work/md" '### put_bw, 2 ranks, MB/s' \
            '| size | us&nbsp;best | median | them&nbsp;best | median | ratio | ratio |' \
            '| 64 | 4.000 | 4.000 | 500.0 | 500.0 | 125.00 | 125.00 |'
}

# refuses TEXT OPTION...
refuses()
{
    text=$1
    shift
    run "$@"
    [ $rc = 2 ] || { echo "status $rc, not 2"; return 1; }
    grep -qF -- "$text" "$work/err"
}

# Programs by the names of Open MPI's: the compiler makes a player, the launcher takes notes.
fake_mpi()
{
    mkdir "$work/bin"
    cat >"$work/bin/mpicc.openmpi" <<END
#!/bin/sh
while [ "\$1" != -o ]; do shift; done
printf '#!/bin/sh\n[ "\$1" = --version ] && echo "oriel-perf-mpi Fake MPI 7"\n' >"\$2"
chmod +x "\$2"
END
    cat >"$work/bin/mpirun.openmpi" <<END
#!/bin/sh
echo "\$1 \$2 \$3 \$4 \${5##*/} \$6 tunables=\$GLIBC_TUNABLES osc=\$OMPI_MCA_osc" >>"$work/launches"
ranks=\$4
shift 5
echo "2 2" >"$work/them.\$1"
exec "$work/them" "\$ranks" "\$@"
END
    chmod +x "$work/bin/mpicc.openmpi" "$work/bin/mpirun.openmpi"
}

starts_mpi()
{
    fresh
    fake_mpi
    many=$(($(nproc) + 1))
    printf '1 1\n' >"$work/us.cas_lat"
    PATH=$work/bin:$PATH
    run put_lat cas_lat -n "1,$many" -r 1 --with "us=$work/us,openmpi,openmpi+libc" || return 1
    cat "$work/launches"
    libc=tunables=glibc.cpu.x86_rep_movsb_threshold=16777216
    for n in "core -n 1" "none -n $many"; do
        says "$work/launches" \
            "--bind-to $n oriel-perf-mpi.openmpi put_lat tunables= osc=" \
            "--bind-to $n oriel-perf-mpi.openmpi put_lat $libc osc=" \
            "--bind-to $n oriel-perf-mpi.openmpi cas_lat tunables= osc=sm" \
            "--bind-to $n oriel-perf-mpi.openmpi cas_lat $libc osc=sm" || return 1
    done
    says "$work/out" '# openmpi: Fake MPI 7'
}

in_earnest()
{
    run put_lat -m 8:8 -r 2 -b "$build" --json "$work/json" || return 1
    cat "$work/json"
    for who in oriel "$@"; do
        [ "$(grep -c "\"size\":8,\"ranks\":2,\"contestant\":\"$who\",\"unit\":\"us\"" "$work/json")" = 1 ] ||
            { echo "no cell of $who"; return 1; }
        grep -q "^# $who: ..*" "$work/out" || { echo "$who is not introduced"; return 1; }
    done
    ! grep -q 'not tried again' "$work/out" && [ ! -s "$work/err" ]
}

# on_two_hosts COMMAND...: as if within a rig of hosts.
on_two_hosts() { RIG_HOSTS="h1 h2" RIG_RAILS=1 "$@"; }

# Everybody across two hosts, started and bound as they would be for long.
hosts_in_earnest()
{
    run put_lat -m 8:8 -r 1 --hosts 2 -b "$build" --json "$work/json" || return 1
    cat "$work/json"
    for who in oriel "$@"; do
        [ "$(grep -c "\"ranks\":2,\"contestant\":\"$who\",\"unit\":\"us\"" "$work/json")" = 1 ] ||
            { echo "no cell of $who"; return 1; }
    done
    ! grep -q 'not tried again' "$work/out" && [ ! -s "$work/err" ] && grep -q '2 hosts on' "$work/out" &&
        grep -q '^# mpich: .*; UCX_NET_DEVICES=eth0 ' "$work/out"
}

check computes computes
check summarises summarises
check takes_turns takes_turns
check counts_missing counts_missing
check tells_failure tells_failure
check fails_without_first fails_without_first
check draws draws
check refuses_nothing refuses 'no test is named' -n 2
check refuses_option refuses '--frob: no such option' put_lat --frob
check refuses_ranks refuses '-n x: must be numbers' put_lat -n 2,x
check refuses_rounds refuses '-r 0: must be a number' put_lat -r 0
check refuses_value refuses '--json needs a value' put_lat --json
check refuses_contestant refuses '--with lam: must be oriel, openmpi' put_lat --with lam
check refuses_program refuses "$work/none is no program" put_lat --with "a=$work/none"
check refuses_hosts refuses '--hosts 1: must be a number from 2' put_lat --hosts 1
check refuses_uneven on_two_hosts refuses '-n 3: must be a multiple of 2' put_lat --hosts 2 -n 2,3
check refuses_on_hosts on_two_hosts refuses 'with --hosts must be oriel, openmpi' put_lat --hosts 2 \
    --with mpich+libc
check starts_mpi starts_mpi

there=
for mpi in openmpi mpich; do
    if command -v mpicc.$mpi >/dev/null && command -v mpirun.$mpi >/dev/null; then
        there="$there $mpi $mpi+libc"
    else
        echo "SKIP: compare/$mpi: not installed (Debian packages: lib$mpi-dev and its launcher)"
    fi
done
PATH=${PATH#"$work/bin:"}
if [ -n "$there" ] && [ -x "$build/tools/oriel-perf" ]; then
    # shellcheck disable=SC2086
    check in_earnest in_earnest $there
fi
if ! why=$("$top_srcdir/tests/rigs/hosts" -p 2>&1); then
    echo "SKIP: compare/hosts_in_earnest: $why"
elif ! "$build/tools/oriel-info" 2>/dev/null | grep -q "libfabric *built"; then
    echo "SKIP: compare/hosts_in_earnest: this build has no network (Debian package libfabric-dev)"
elif [ "$there" = " openmpi openmpi+libc mpich mpich+libc" ]; then
    check hosts_in_earnest hosts_in_earnest openmpi openmpi+ucx mpich
fi
exit $status
