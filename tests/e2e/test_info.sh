#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# oriel-info: every form and section, alone and as a job, and above all where the library cannot
# start: a wrong setting, no transport, a small /dev/shm. Then it must still tell what is known.

. "$(dirname "$0")/common.sh"
begin info
info=$(program tools/oriel-info)
all='build topology job ranks transports nics network limits collectives settings counters'
known='build topology job transports nics network limits collectives settings counters'

[ -x "$info" ] || { echo "SKIP: info: $info is not built"; exit 77; }

# alone OPTION...: standard output in $work/out, error in $work/err; its status, also in $rc.
alone()
{
    timeout -k 3 60 "$info" "$@" >"$work/out" 2>"$work/err"
    rc=$?
    return $rc
}

# ranks N OPTION...: the same as a job of N.
ranks()
{
    n=$1
    shift
    launch 90 mpirun "$n" "$info" "$@" >"$work/out" 2>"$work/err"
    rc=$?
    return $rc
}

says() { grep -qE -- "$1" "$work/out" || { echo "does not say: $1" >>"$work/out"; return 1; }; }
is_quiet() { [ ! -s "$work/err" ] || { cat "$work/err" >>"$work/out"; return 1; }; }

# once SECTION...: one document with these sections and no other, in the order of printing.
once()
{
    [ "$(grep -cx 'Oriel [0-9.]*' "$work/out")" = 1 ] || return 1
    [ "$(grep -E '^[a-z]+$' "$work/out" | tr '\n' ' ')" = "$* " ]
}

# is_json: the document can be read by whatever reader is here; 77 when there is none.
is_json()
{
    iconv -f UTF-8 -t UTF-8 "$work/out" >/dev/null || return 1
    if command -v jq >/dev/null; then
        jq -e . "$work/out" >/dev/null
    elif perl -MJSON::PP -e 1 2>/dev/null; then
        perl -MJSON::PP -0777 -ne 'decode_json($_)' "$work/out"
    else
        return 77
    fi
}

# json NAME COMMAND...: the command's output must be JSON.
json()
{
    name=$1
    shift
    "$@"
    is_json
    case $? in
    0) pass "$name" ;;
    77) skip "$name" "no reader of JSON (Debian package: jq or perl)" ;;
    *) fail "$name" ;;
    esac
}

# ---- alone

prints_all() { alone && is_quiet && once $all; }
prints_section() { alone "$1" && is_quiet && once "$1" && [ "$(wc -l <"$work/out")" -ge 4 ]; }
prints_two() { alone counters build counters && once counters build; }
prints_markdown()
{
    alone --markdown && is_quiet && says '^# Oriel ' && [ "$(grep -c '^## ' "$work/out")" = 11 ] &&
        ! grep -vE '^(#.*|\|.*\||)$' "$work/out"
}
# The values themselves, so a table under the wrong heading is found.
knows_facts()
{
    alone && says "^  cpus_allowed +$(nproc) \(" && says "^  open_files +$(ulimit -n) " &&
        says '^  copy_kernel +(avx512|avx2|neon|words) ' && says '^  token +512 B ' &&
        says "^  pmix +.*[0-9]\.[0-9]" && says "^  hwloc +[0-9]+\.[0-9]+" &&
        says '^  kind +[a-z]' && says '^  compiler +(gcc|clang) [0-9]' && says '^  form +alone '
}
knows_transports()
{
    alone transports && says '^  self +chosen +process +a rank.s own memory$' &&
        says '^  shm +chosen +host +1 rank on this host$' && says '^  verbs +absent .*configure' &&
        says '^  ofi +(absent .*configure|idle +network +not needed: this job has one rank$)'
}
has_ofi() { alone transports && says '^  ofi +[^a]'; }
# Nothing is opened for it, and what would be used is told with address and reason.
knows_nics()
{
    alone nics && is_quiet && says '^  lo +(idle|absent|not used) .* 127\.0\.0\.1/8 .*this host alone' &&
        says '^  name +state +provider +address +network +(speed +)?reason'
}
obeys_nics()
{
    ORIEL_NICS=lo alone nics && says '^  lo +idle .*ORIEL_NICS names it' &&
        ! grep -vE '^  lo |ORIEL_NICS names others|^  name |^$|^nics$|^Oriel |^  -' "$work/out"
}
knows_network()
{
    alone network && says '^  libfabric +[12]\.[0-9]+' && says '^  provider +none .*needs no network'
}
knows_bootstrap()
{
    alone job && says '^  bootstrap +single .*PMIX_NAMESPACE' && says '^  launcher +none' &&
        ORIEL_BOOT=single alone job && says '^  bootstrap +single .*ORIEL_BOOT says so'
}
knows_origin()
{
    ORIEL_INFLIGHT=77 alone settings && says '^  ORIEL_INFLIGHT +77 +environment +1024 ' &&
        says '^  ORIEL_SPIN_TIME +2us +default '
}
attaches() { alone limits && says '^  cross_memory_attach +(works|refused: .+) '; }
settings_are_the_readmes()
{
    alone --settings markdown && grep '^| ' "$top_srcdir/README.md" |
        sed -n '/^| variable | default /,/^| folder /p' | sed '/^| folder /d' >"$work/readme" &&
        [ -s "$work/readme" ] && diff "$work/readme" "$work/out" >"$work/diff" ||
        { cat "$work/diff" >>"$work/out"; return 1; }
}
settings_in_text() { ORIEL_INFLIGHT=5 alone --settings text && says '^ORIEL_INFLIGHT = 5 \(environment\)'; }
settings_in_man() { alone --settings man && says '^\.B ORIEL_SPIN_TIME'; }
says_version() { alone --version && grep -Eqx 'oriel-info [0-9]+\.[0-9]+\.[0-9]+' "$work/out"; }
helps() { alone --help && for s in $all; do says "^  $s " || return 1; done; }
# refuses TEXT ARGUMENT...: status 2, and these words.
refuses()
{
    text=$1
    shift
    alone "$@"
    cat "$work/err" >>"$work/out"
    [ $rc = 2 ] && says "$text"
}
is_told_of_full_disk()
{
    timeout 60 "$info" >/dev/full 2>"$work/out"
    [ $? = 1 ] && says 'cannot write'
}

# covers: Q5
verdict all_sections prints_all
for s in $all; do
    verdict "section_$s" prints_section "$s"
done
verdict two_sections prints_two
verdict markdown prints_markdown
verdict facts knows_facts
# covers: L6
verdict transports knows_transports
if has_ofi; then
    verdict nics knows_nics
    verdict nics_by_setting obeys_nics
    verdict network knows_network
    json json_nics alone --json nics
else
    for t in nics nics_by_setting network json_nics; do
        skip "$t" "no libfabric in this build (Debian package: libfabric-dev)"
    done
fi
verdict bootstrap knows_bootstrap
verdict origin knows_origin
verdict attach attaches
verdict settings_markdown settings_are_the_readmes
verdict settings_text settings_in_text
verdict settings_man settings_in_man
verdict version says_version
verdict help helps
verdict refuses_section refuses 'no section is called weather; there are: build' weather
verdict refuses_option refuses 'oriel-info --help lists all options' --frobnicate
verdict refuses_settings refuses '--settings xml: must be text, markdown or man' --settings xml
verdict full_disk is_told_of_full_disk
json json alone --json
json json_section alone --json limits

if command -v jq >/dev/null && alone --json &&
    jq -e '.works and (.topology[] | select(.name == "cpus") | .number > 0 and .unit == "CPUs")
        and (.ranks[0].pid > 1) and (.counters[0].value >= 0)
        and (.limits[] | select(.name == "token") | .number == 512)' "$work/out" >/dev/null; then
    pass json_numbers
elif command -v jq >/dev/null; then
    fail json_numbers
else
    skip json_numbers "no jq"
fi

# ---- where it cannot start

# still TEXT: status 1, all but the ranks, the error among it and on standard error.
still()
{
    [ $rc = 1 ] && once $known error && says '^  cpus_allowed +[1-9]' && says '^  version ' &&
        says '^  dev_shm +' && says '^  ORIEL_SPIN_TIME ' && says "^  ORIEL_ERR_.*$1" &&
        grep -qE "^oriel-info: .*$1" "$work/err"
}
wrong_setting()
{
    ORIEL_SPIN_TIME='3 parsecs' ORIEL_INFLIGHT=9 alone
    still 'ORIEL_SPIN_TIME is .3 parsecs.' &&
        says '^  ORIEL_SPIN_TIME +3 parsecs +environment .*WRONG: .*not a time' &&
        says '^  ORIEL_INFLIGHT +9 +environment' && [ "$(grep -c WRONG "$work/out")" = 1 ] &&
        says '^  bootstrap +none .*no job is running' && says '^  shm +idle '
}
wrong_transport()
{
    ORIEL_TRANSPORTS=self,pigeon alone
    still ORIEL_TRANSPORTS && says '^  shm +idle .*ORIEL_TRANSPORTS is wrong' &&
        says '^  verbs +absent '
}
wrong_launcher()
{
    SLURM_STEP_NUM_TASKS=4 SLURM_STEP_ID=0 alone
    still 'srun --mpi=pmix' && says '^  launcher +srun .*SLURM_STEP_ID'
}
too_little_address_space()
{
    (ulimit -v 900000 && ORIEL_SHM_SIZE=512g timeout 60 "$info") >"$work/out" 2>"$work/err"
    rc=$?
    still 'address space|RLIMIT_AS' && says '^  address_space +8[0-9][0-9](\.[0-9])? MiB'
}
small_dev_shm()
{
    unshare -m sh -c 'mount --make-rprivate / && mount -t tmpfs -o size=64k tmpfs /dev/shm &&
        ORIEL_SHM_BACKING=file exec "$0"' "$info" >"$work/out" 2>"$work/err"
    rc=$?
    still '/dev/shm' && says '^  dev_shm +64 KiB'
}

verdict wrong_setting wrong_setting
verdict wrong_transport wrong_transport
verdict wrong_launcher wrong_launcher
case $build_kind in
*asan* | *tsan*) skip too_little_address_space "a sanitizer needs all of it" ;;
*) verdict too_little_address_space too_little_address_space ;;
esac
if unshare -m true 2>/dev/null; then
    verdict small_dev_shm small_dev_shm
else
    skip small_dev_shm "no mount namespaces here"
fi
wrong_json() { ORIEL_LOG=$(printf 'a\377"\\\001|') alone --json; }
json json_of_wild_bytes wrong_json

# covers: L2
self_only()
{
    ORIEL_TRANSPORTS=self alone && is_quiet && says '^  self +chosen' &&
        says '^  shm +not used +host +ORIEL_TRANSPORTS leaves it out'
}
verdict self_only self_only

# ---- as a job

if [ -z "$mpirun" ]; then
    skip job "no mpirun (Debian package openmpi-bin)"
    finish
fi

one_for_all()
{
    ranks 4 && is_quiet && once $all && says '^  shm +chosen +host +4 ranks on this host$' &&
        says '^  bootstrap +pmix ' && says "^  launcher +Open MPI's mpirun" &&
        says '^  ranks +4 ' && says '^  form +flat .*4 ranks'
}
table_of_ranks()
{
    ranks 3 ranks && awk '/^  [0-9]/ { if ($1 != n++ || seen[$3]++) exit 1
            if ($(n == 1 ? "self" : "shm") == "") exit 1 }
        END { exit n != 3 }' "$work/out" && says '^  0 .* self +its own' && says '^  2 .* shm +'
}
rings_by_setting()
{
    ORIEL_SHM_COPY=ring ranks 2 ranks limits && says '^  1 .* through rings' &&
        says '^  cross_memory_attach +not in use .*0 of 1 ranks'
}
wrong_for_all()
{
    ORIEL_SPIN_TIME=never ranks 4
    once $known error && says 'WRONG' && [ $rc != 0 ]
}
no_way_to_peers()
{
    ORIEL_TRANSPORTS=self ranks 2
    once $known error && [ $rc != 0 ] && says '^  ORIEL_ERR_CONF .*add shm' &&
        says '^  shm +not used .*leaves it out'
}

# covers: F11
by_network()
{
    ORIEL_TRANSPORTS=self,ofi ranks 2 nics ranks network &&
        says '^  [a-z0-9@.:_-]+ +chosen +[a-z;_]+ ' && says '^  1 .* ofi +over the network' &&
        says '^  provider +[a-z]+ .*over '
}
names_no_port()
{
    ORIEL_TRANSPORTS=self,ofi ORIEL_NICS=nowhere0 ranks 2
    [ $rc != 0 ] && once $known error && says '^  ORIEL_ERR_CONF .*nowhere0.*lo 127' &&
        says '^  lo +not used .*ORIEL_NICS names others'
}
names_no_provider()
{
    ORIEL_TRANSPORTS=self,ofi ORIEL_OFI_PROVIDER=pigeon ranks 2
    [ $rc != 0 ] && once $known error && says "^  ORIEL_ERR_CONF .*'pigeon'.*FI_PROVIDER_PATH"
}
if has_ofi; then
    verdict by_network by_network
    verdict names_no_port names_no_port
    verdict names_no_provider names_no_provider
else
    for t in by_network names_no_port names_no_provider; do
        skip "$t" "no libfabric in this build (Debian package: libfabric-dev)"
    done
fi
verdict job one_for_all
verdict ranks table_of_ranks
verdict rings rings_by_setting
verdict wrong_setting_in_a_job wrong_for_all
verdict no_way_to_peers no_way_to_peers
json json_of_a_job ranks 2 --json

by_oriel_run()
{
    launch 60 oriel-run 2 "$info" job transports >"$work/out" 2>"$work/err" && is_quiet &&
        once job transports && says "^  launcher +oriel-run" && says "^  ranks +2 "
}
why=$(why_not oriel-run)
if [ -z "$why" ]; then verdict oriel_run by_oriel_run; else skip oriel_run "$why"; fi
finish
