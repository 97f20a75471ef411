#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# oriel-run: ranks and their world, exit statuses row by row, the one line that names a failure,
# output and input, binding, the time limit, survivors, signals, kill -9 of launcher and server,
# and jobs started where nothing is as usual. After each job no process and no file may be left.
# covers: REL-04 REL-11

. "$(dirname "$0")/common.sh"
begin oriel_run
host=$(uname -n)

[ -z "$(why_not oriel-run)" ] || { echo "SKIP: oriel_run: $(why_not oriel-run)"; exit 77; }

# Programs by names of this script's own, so that its processes are known from all others.
rank=$work/rank-of-oriel-run
cp "$(program tests/e2e/rank)" "$rank" || exit 99
cp "$oriel_run" "$work/oriel-run-of-test" || exit 99
oriel_run=$work/oriel-run-of-test
TMPDIR=$work/tmp
mkdir "$TMPDIR" || exit 99
export TMPDIR

# What is left is shown, and ended lest the next job is blamed for it.
is_clean()
{
    are_gone "$rank" && are_gone "$oriel_run" && [ -z "$(ls -A "$TMPDIR")" ] && return
    for _left in $(processes "$rank") $(processes "$oriel_run"); do
        echo "left: $(tr '\0' ' ' <"/proc/$_left/cmdline")" >>"$work/out"
        kill -KILL "$_left"
    done
    ls -l "$TMPDIR" >>"$work/out"
    rm -rf "${TMPDIR:?}"/*
    return 1
}

lines() { wc -l <"$work/out" | tr -d ' '; }

# row NAME STATUS LINE ARGUMENT...: the job ends with STATUS and prints just this line (a pattern;
# "" is nothing at all).
row()
{
    _row=$1
    _want=$2
    _line=$3
    shift 3
    run 60 "$oriel_run" "$@"
    _got=$?
    if [ -z "$_line" ]; then _count=0; else _count=1; fi
    if [ $_got = "$_want" ] && [ "$(lines)" = $_count ] &&
        { [ $_count = 0 ] || grep -Eqx "$_line" "$work/out"; } && is_clean; then
        pass "$_row"
    else
        echo "status $_got, not $_want; $(lines) lines, not $_count like: $_line" >>"$work/out"
        fail "$_row"
    fi
}

# says NAME STATUS TEXT ARGUMENT...: sorted output is TEXT.
says()
{
    _says=$1
    _want=$2
    _text=$3
    shift 3
    run 60 "$oriel_run" "$@"
    _got=$?
    sort "$work/out" >"$work/sorted"
    if [ $_got = "$_want" ] && [ "$(cat "$work/sorted")" = "$_text" ] && is_clean; then
        pass "$_says"
    else
        echo "status $_got, not $_want" >>"$work/out"
        fail "$_says"
    fi
}

# ---- ranks and their world

says world 0 'rank 0 of 4
rank 1 of 4
rank 2 of 4
rank 3 of 4' -n 4 "$rank" init fence say fence finalize
row one_rank 0 'rank 0 of 1' -n 1 "$rank" init fence say finalize
says no_client 0 'a
a
a' -n 3 sh -c 'echo a'
row many 0 '' -n 64 "$rank" init fence finalize
row end_at_once 0 '' -n 48 true
row variable 0 'this that' -n 1 -x A=this -x B=that sh -c 'echo $A $B'
MINE=mine
export MINE
row inherited 0 mine -n 1 -x MINE sh -c 'echo $MINE'

# ---- statuses, and the line that names the failure

end="oriel-run: rank 1 on $host"
row exit 3 "$end exited with status 3" -n 3 "$rank" init 1:exit=3 fence finalize
row exit_after 5 "$end exited with status 5" -n 2 "$rank" init fence finalize 1:exit=5
row killed 137 "$end was killed by signal 9 \\(Killed\\)" -n 3 "$rank" init 1:kill=9 fence
row killed_before 139 "$end was killed by signal 11 .*" -n 3 "$rank" 1:kill=11 init fence
row blame 137 "$end was killed by signal 9 .*" -n 4 "$rank" init 1:kill=9 strict finalize
row not_left 1 "$end exited with status 0 but did not leave .*" -n 3 "$rank" init 1:exit=0 sleep=60
row not_joined 1 "$end .* never joined .*" -n 3 "$rank" 1:exit=0 init fence finalize
row abort 7 "$end aborted the job with status 7: as asked" -n 3 "$rank" init 1:abort=7 fence
row deaf 4 "$end exited with status 4" -n 3 "$rank" deaf child 1:exit=4 sleep=60
row timeout 124 'oriel-run: the time of 0\.5 s is over: .*' --timeout 0.5 -n 2 "$rank" init sleep=60
row timeout_unused 0 'rank 0 of 1' --timeout 60 -n 1 "$rank" init say finalize
row grandchildren 0 '' -n 2 "$rank" init child finalize

row not_found 127 'oriel-run: no-such-prog: no such program.*PATH' -n 2 no-such-prog
row no_file 127 'oriel-run: /no/such: no such program' -n 2 /no/such
row directory 126 'oriel-run: /dev: cannot be executed: Is a directory' -n 2 /dev
printf '#!/no/such/sh\n' >"$work/script"
row not_executable 126 'oriel-run: .*script: cannot be executed: Permission denied' -n 2 "$work/script"
chmod +x "$work/script"
row no_interpreter 126 'oriel-run: .*script: cannot be executed: .*interpreter.*' -n 2 "$work/script"

row no_ranks 2 'oriel-run: say how many .*-n 4 true' true
row ranks_zero 2 'oriel-run: -n 0: must be .* from 1 to 4096' -n 0 true
row ranks_text 2 'oriel-run: -n 3x: must be .* from 1 to 4096' -n 3x true
row no_program 2 'oriel-run: no program given.*' -n 2
row no_option 2 'oriel-run: --nonsense: no such option.*' -n 2 --nonsense true
row no_value 2 'oriel-run: --timeout: needs a value.*' -n 2 --timeout
row bad_time 2 'oriel-run: --timeout 1h: must be a time in seconds.*' --timeout 1h -n 2 true
row bad_bind 2 'oriel-run: --bind numa: must be core or none' --bind numa -n 2 true
row bad_name 2 'oriel-run: -x =1: must be NAME=VALUE or NAME' -x =1 -n 2 true
row unset_name 2 'oriel-run: -x NOT_SET: no such variable.*' -x NOT_SET -n 2 true
row version 0 'oriel-run [0-9.]+ with .*PMIx.*' --version
run 20 "$oriel_run" --help
verdict help grep -q -- '--timeout SECONDS' "$work/out"

# ---- survivors

says keep 137 "oriel-run: rank 1 on $host was killed by signal 9 (Killed)
rank 0 heard of 1: PROC-ABORTED-BY-SIG
rank 2 heard of 1: PROC-ABORTED-BY-SIG" --keep -n 3 "$rank" init 1:kill=9 hear finalize
says keep_exit 3 "oriel-run: rank 1 on $host exited with status 3
rank 0 heard of 1: PROC TERMINATED WITHOUT SYNC
rank 2 heard of 1: PROC TERMINATED WITHOUT SYNC" --keep -n 3 "$rank" init 1:exit=3 hear finalize
# One that never connected, while the others are in a fence that can never end.
says keep_before 137 "oriel-run: rank 1 on $host was killed by signal 9 (Killed)
rank 0 heard of 1: PROC-ABORTED-BY-SIG
rank 2 heard of 1: PROC-ABORTED-BY-SIG" \
    --keep -n 3 "$rank" 1:sleep=0.3 1:kill=9 init hear finalize

# ---- output and input

says tag 0 '[0:err] oops
[0] one
[0] two
[1:err] oops
[1] one
[1] two' --tag -n 2 "$rank" 'out=one\ntwo\n' 'err=oops\n'
says tag_no_end 0 '[0] end' --tag -n 1 "$rank" out=end
run 60 "$oriel_run" --tag -n 2 sh -c 'seq 1 20000'
verdict tag_much [ "$(sort -u "$work/out" | wc -l)" = 40000 ]
timeout -k 3 30 "$oriel_run" --tag -n 2 sh -c 'while :; do echo x; done' 2>"$work/out" | head -1 >/dev/null
verdict tag_reader_gone grep -q 'reader of the output is gone' "$work/out"
seq 1 5000 >"$work/input"
"$rank" count <"$work/input" | sed 's/rank -1/rank 0/' >"$work/want"
printf 'rank 1 read 0 bytes, sum 0\n' >>"$work/want"
says stdin_file 0 "$(cat "$work/want")" -n 2 "$rank" count <"$work/input"
seq 1 5000 | "$oriel_run" -n 2 "$rank" count | sort >"$work/out"
verdict stdin_pipe cmp -s "$work/want" "$work/out"
row stdin_closed 0 'rank 0 of 1' -n 1 "$rank" init say finalize <&-

# ---- cores

cores=$(lscpu -p=core,socket 2>/dev/null | grep -v '^#' | sort -u | wc -l)
allowed=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
if [ "$cores" -ge 2 ] && [ "$allowed" = "0-$(($(nproc --all) - 1))" ]; then
    run 30 "$oriel_run" -n 2 "$rank" cpus
    sed 's/.*: //' "$work/out" | tr ' ' '\n' | sort | uniq -d >"$work/twice"
    verdict bind_apart [ "$(lines)" = 2 -a ! -s "$work/twice" ]
    run 30 "$oriel_run" --bind none -n 2 sh -c 'grep Cpus_allowed_list /proc/self/status'
    verdict bind_none [ "$(grep -c "	$allowed\$" "$work/out")" = 2 ]
else
    skip bind "needs two cores, all of them allowed"
fi
over=$(($(nproc --all) + 1))
run 30 "$oriel_run" -n $over sh -c 'grep Cpus_allowed_list /proc/self/status'
verdict bind_too_many [ "$(grep -c "	$allowed\$" "$work/out")" = $over ]
row bind_core_too_many 2 "oriel-run: --bind core: $over ranks need $over cores.*" \
    --bind core -n $over true

# ---- signals

# hold ARGUMENT...: a job in the background that waits, with a grandchild each; $pid is its launcher.
hold()
{
    env --default-signal=INT,QUIT "$oriel_run" -n 3 "$@" "$rank" init child fence 'out=ready\n' \
        sleep=60 >"$work/out" 2>&1 &
    pid=$!
    _wait=0
    while [ "$(grep -c ready "$work/out")" -lt 3 ] && [ $_wait -lt 200 ]; do
        _wait=$((_wait + 1))
        sleep 0.1
    done
}

# ended_with STATUS: the job of hold is over so, and clean.
ended_with()
{
    wait "$pid" 2>/dev/null
    _got=$?
    echo "status $_got" >>"$work/out"
    [ $_got = "$1" ] && [ "$(lines)" -le 5 ] && is_clean
}

for signal in INT:130 TERM:143 HUP:129; do
    hold
    kill "-${signal%:*}" $pid
    verdict "signal_${signal%:*}" ended_with "${signal#*:}"
done

hold
kill -KILL $pid
verdict launcher_killed ended_with 137

# The server is the child with a socket.
hold
for child in $(cat /proc/$pid/task/$pid/children); do
    ls -l "/proc/$child/fd" 2>/dev/null | grep -q socket &&
        [ "$(readlink "/proc/$child/exe")" = "$(readlink "/proc/$pid/exe")" ] && kill -KILL "$child"
done
verdict server_killed ended_with 125
verdict server_killed_line grep -q 'PMIx server was killed by signal 9' "$work/out"

hold
kill -STOP "$(pgrep -f -- "$rank" | tail -n 1)"
kill $pid
verdict stopped_rank ended_with 143

# ---- where nothing is as usual

says nested 0 'rank 0 of 2
rank 0 of 2
rank 1 of 2
rank 1 of 2' -n 2 "$oriel_run" -n 2 "$rank" init fence say finalize
says nested_fails 6 "oriel-run: rank 0 on $host exited with status 6
oriel-run: rank 0 on $host exited with status 6" \
    -n 1 "$oriel_run" -n 1 "$rank" init finalize exit=6
if [ -n "$mpirun" ]; then
    run 60 "$mpirun" --mca orte_tmpdir_base "$work" -n 2 "$oriel_run" -n 2 "$rank" init fence say finalize
    verdict in_mpirun [ "$(sort "$work/out" | uniq -c | tr -s ' ' | tr '\n' ';')" = \
        ' 2 rank 0 of 2; 2 rank 1 of 2;' ]
fi
hold sh -c '"$0" -n 1 "$@"; :' "$oriel_run"
kill -KILL $pid
verdict nested_killed ended_with 137

for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    "$oriel_run" -n 2 "$rank" init fence say finalize >"$work/out.$i" 2>&1 &
done
wait
cat "$work"/out.* >"$work/out"
verdict twenty_at_once [ "$(sort "$work/out" | uniq -c | tr -s ' ' | tr '\n' ';')" = \
    ' 20 rank 0 of 2; 20 rank 1 of 2;' ]
verdict twenty_leave_nothing is_clean

long=$work
part=$(printf '%0200d' 0)
while [ ${#long} -lt 3000 ]; do long=$long/$part; done
mkdir -p "$long"
cd "$long" || exit 99
row long_directory 0 'rank 0 of 1' -n 1 "$rank" init fence say finalize
run 30 env TMPDIR="$long" "$oriel_run" -n 2 "$rank" init fence finalize
verdict long_tmpdir [ $? = 0 -a "$(lines)" = 0 -a -z "$(ls -A "$long")" ]
cd "$work" || exit 99

for mask in 0777 0377; do
    umask $mask
    row "umask_$mask" 0 $mask -n 1 sh -c "umask; exec '$rank' init fence finalize"
    umask 022
done
(ulimit -n 40 && run 30 "$oriel_run" --tag -n 16 true)
verdict few_files grep -qx 'oriel-run: 16 ranks need 96 open files, 40 are allowed: .*' "$work/out"
(ulimit -Sn 16 && run 30 "$oriel_run" --tag -n 8 sh -c 'ulimit -n')
verdict soft_limit [ "$(grep -c '^\[.\] 16$' "$work/out")" = 8 ]

mkdir -p "$TMPDIR/oriel-run.aaaaaa/server" "$TMPDIR/oriel-run.bbbbbb" "$TMPDIR/other"
touch -d '1 minute ago' "$TMPDIR/oriel-run.aaaaaa" "$TMPDIR/other"
run 30 "$oriel_run" -n 1 true
verdict stale_is_swept [ "$(ls "$TMPDIR" | tr '\n' ' ')" = 'oriel-run.bbbbbb other ' ]
rm -rf "$TMPDIR/oriel-run.bbbbbb" "$TMPDIR/other"

if unshare --net true 2>/dev/null; then
    run 30 unshare --net "$oriel_run" -n 1 true
    verdict loopback_down grep -q 'the loopback interface is down' "$work/out"
else
    skip loopback_down 'network spaces are not permitted here'
fi

# As somebody else, to whom nothing here is open.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    open=$(mktemp -d /tmp/oriel-run-nobody.XXXXXX)
    chmod 1777 "$open"
    cp "$rank" "$oriel_run" "$open"
    umask 0777
    run 30 env TMPDIR="$open" setpriv --reuid=65534 --regid=65534 --clear-groups \
        "$open/${oriel_run##*/}" -n 2 "$open/${rank##*/}" init fence say finalize
    umask 022
    verdict nobody [ "$(sort "$work/out" | tr '\n' ' ')" = 'rank 0 of 2 rank 1 of 2 ' -a \
        "$(ls "$open" | wc -l)" = 2 ]
    rm -rf "$open"
else
    skip nobody 'needs root and setpriv'
fi

verdict nothing_left is_clean
finish
