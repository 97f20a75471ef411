# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Sourced by the rigs: the usage text, what must be installed, and the enclosure, a process space
# of its own in which everything else runs, so that one kill ends it all.

PATH=$PATH:/usr/sbin:/sbin
rig=${0##*/}
limit=120
keep=0
probe=0

# The comment at the head of the script is its usage text.
usage()
{
    sed -n '2,/^[^#]/{/^# SPDX/d;/^#/s/^# \{0,1\}//p}' "$0"
    exit "${1:-2}"
}

die()
{
    echo "$rig: $*" >&2
    exit 99
}

# A machine that cannot run the rig is no failure of what is tested: status 77.
cannot()
{
    echo "$rig: $*" >&2
    exit 77
}

is_number()
{
    [[ $1 =~ ^[0-9]{1,6}$ ]] && (($1 >= $2 && $1 <= $3))
}

# number OPTION VALUE LOWEST HIGHEST
number()
{
    is_number "$2" "$3" "$4" || { echo "$rig: $1 $2: must be a number from $3 to $4" >&2; exit 2; }
}

# Options that all rigs have, by getopts letter.
common_option()
{
    case $1 in
    t) limit=$2 ;;
    k) keep=1 ;;
    p) probe=1 ;;
    h) usage 0 ;;
    *) usage >&2 ;;
    esac
}

# need COMMAND PACKAGE...: the Debian package to install where a command is missing.
need()
{
    local missing=
    while (($#)); do
        command -v "$1" >/dev/null || missing+=" $2"
        shift 2
    done
    [[ -z $missing ]] || cannot "missing, as root run: apt-get install$missing"
}

need_root()
{
    [[ $(id -u) = 0 ]] || cannot "needs root, for namespaces and mounts"
    unshare --pid --fork --mount --net --uts --ipc true 2>/dev/null ||
        cannot "needs root with the right to make namespaces (a container with CAP_SYS_ADMIN)"
}

# What -p asks for is known; otherwise there must be a command.
stop_if_probing()
{
    ((probe == 0)) || exit 0
    (($1)) || usage >&2
}

# ---- the enclosure, seen from outside

enclosed=
timer=

child_of()
{
    local children
    children=$(<"/proc/$1/task/$1/children")
    echo "${children%% *}"
} 2>/dev/null

# The first process of a process space is gone only when all others are: no need to look for them.
end_enclosed()
{
    local first
    [[ -n $enclosed ]] || return 0
    first=$(child_of "$enclosed")
    kill -KILL "${first:-$enclosed}" 2>/dev/null
    wait "$enclosed" 2>/dev/null
    enclosed=
}

leave()
{
    local rc=$?
    set +e
    trap - EXIT
    trap '' HUP INT TERM
    end_enclosed
    [[ -z $timer ]] || { kill -KILL "$timer"; wait "$timer"; } 2>/dev/null
    if ((keep)); then echo "$rig: kept $RIG" >&2; else rm -rf "$RIG"; fi
    exit "$rc"
}

# enclose COMMAND...: run it as the first process of namespaces of its own, with RIG naming a
# temporary folder, for at most $limit seconds; ends the script with its status, or with 124.
enclose()
{
    local ended rc=0
    RIG=$(mktemp -d "${TMPDIR:-/tmp}/oriel-$rig.XXXXXX") || exit 99
    trap leave EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    chmod 755 "$RIG"
    export RIG
    setpriv --pdeathsig KILL sleep "$limit" >/dev/null 2>&1 &
    timer=$!
    setpriv --pdeathsig KILL unshare --pid --fork --kill-child=KILL --mount-proc --mount --net \
        --uts --ipc bash "$@" <&0 &
    enclosed=$!
    wait -n -p ended "$enclosed" "$timer" || rc=$?
    [[ $ended != "$timer" ]] || { echo "$rig: no end after $limit s (-t)" >&2; exit 124; }
    enclosed=
    exit "$rc"
}

# ---- inside it

# What a program in the rig sees as /dev/shm, and where it may leave files, ends with the rig.
enter_enclosure()
{
    hostname head
    ip link set lo up
    mount -t tmpfs -o mode=1777 shm /dev/shm
    mkdir -p "$RIG/bin" "$RIG/tmp"
    export TMPDIR=$RIG/tmp PATH=$RIG/bin:$PATH
}

# use_names LINE...: the names of this rig in place of the machine's.
use_names()
{
    printf '%s\n' "$@" >"$RIG/names"
    mount --bind "$RIG/names" /etc/hosts
}
