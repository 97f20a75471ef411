#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Which interfaces a job across hosts uses, and what it says when it finds none: bridges with one
# address everywhere, interfaces that are down or lead nowhere, ORIEL_NICS and the other settings that
# choose; who listens where; strangers at the door.

# covers: DEV-01 REL-09

. "$(dirname "$0")/hosts.sh"

# ---- interfaces that are no use

bridge() { verdict bridge_everywhere counts 2 1; }

down()
{
    rig_down h2 eth1
    verdict one_is_down counts 2 1
    rig_up h2 eth1
}

# The far interface has the same network by its address, and nothing arrives.
dead_network()
{
    rig_cut h2 eth1
    verdict one_leads_nowhere counts 2 1
}

# On eth1 each host is in a network of its own.
other_network()
{
    rig_exec h2 sh -c 'ip addr flush dev eth1 && ip addr add 10.99.0.2/24 dev eth1'
    verdict one_is_elsewhere counts 2 1
}

without_address()
{
    rig_exec h1 ip addr flush dev eth1
    verdict one_has_no_address counts 2 1
}

nothing_up()
{
    rig_down h1
    rig_down h2
    verdict nothing_is_up refused 'eth0' 'down' -- 2 "$job" count
}

# ---- settings

settings()
{
    ORIEL_NICS=nonesuch verdict nics_name_nothing refused \
        'ORIEL_NICS' 'nonesuch' 'eth0' 'eth1' -- 2 "$job" count
    ORIEL_NICS='^eth0,^eth1' verdict nics_leave_nothing refused 'ORIEL_NICS' 'eth0' -- 2 "$job" count
    ORIEL_OFI_PROVIDER=nonesuch verdict provider_is_none refused \
        'ORIEL_OFI_PROVIDER' 'nonesuch' -- 2 "$job" count
    ORIEL_TRANSPORTS="self,shm" verdict no_network_allowed refused 'ORIEL_TRANSPORTS' -- 2 "$job" count
    ORIEL_NICS='^eth0' verdict nics_without_one counts 2 1
}

more_settings()
{
    ORIEL_NICS='eth0,' verdict nics_malformed refused 'ORIEL_NICS' -- 2 "$job" count
    ORIEL_NICS=eth1 verdict nics_one counts 2 1
    ORIEL_NICS=10.78.0.0/24 verdict nics_by_subnet counts 2 1
    ORIEL_TRANSPORTS="self,ofi" verdict all_by_network counts 4 2
    ORIEL_OFI_PROVIDER='tcp;ofi_rxm' verdict provider_rxm counts 2 1
    ORIEL_RAILS=1 verdict one_rail counts 2 1
    ORIEL_STRIPE_MIN=4k verdict small_stripes verifies 2 -m 4k:1m -i 4 put_bw get_bw
}

explained()
{
    rig_exec h1 "$info" >"$work/out" 2>&1 && grep -q eth0 "$work/out" && grep -q docker0 "$work/out"
}
explains() { verdict info_names_interfaces explained; }

# ---- who listens
# covers: SEC-01

# listeners HOST: "ADDRESS:PORT" of what ranks listen on there.
listeners()
{
    rig_exec "$1" ss -Hlntup | awk '/"mortal"/ { print $1, $5 }'
}

# held RANKS: a job that waits; its processes have $work/held in their command line.
held()
{
    rm -f "$work/held"
    across 60 "$1" "$mortal" never none 0 "$work/held" >"$work/out" 2>&1 &
    held=$!
    wait_for "$work/held" 20
}

let_go()
{
    pkill -KILL -f "$work/held"
    wait $held
} 2>/dev/null

only_chosen()
{
    held 4 || return 1
    for h in $RIG_HOSTS; do listeners "$h"; done >"$work/listen"
    let_go
    cat "$work/listen" >>"$work/out"
    [ -s "$work/listen" ] && ! grep -Ev "^tcp $1" "$work/listen"
}

listening()
{
    verdict listens_on_chosen only_chosen '10\.7[78]\.0\.[12]:'
    ORIEL_NICS=eth1 verdict listens_on_named only_chosen '10\.78\.0\.[12]:'
}

silent()
{
    held 2 || return 1
    listeners h1 >"$work/listen"
    let_go
    cat "$work/listen" >>"$work/out"
    [ ! -s "$work/listen" ]
}
one_host() { verdict one_host_is_silent silent; }

# Whoever connects to a rank's port and talks nonsense is neither served nor heard of.
knock()
{
    across 60 2 "$far" storm 4 "$work/held" >"$work/storm" 2>&1 &
    held=$!
    wait_for "$work/held" 20 || return 1
    rig_exec h2 ss -Hlntp | awk '/"far"/ { print $4 }' >"$work/doors"
    while read -r door; do
        for _ in 1 2 3 4 5; do
            head -c 3000 /dev/urandom | timeout 1 rig_exec h1 bash -c \
                'cat >"/dev/tcp/${0%:*}/${0##*:}"' "$door"
            timeout 1 rig_exec h1 bash -c ': <"/dev/tcp/${0%:*}/${0##*:}"' "$door"
        done
    done <"$work/doors" >"$work/knocks" 2>&1
    wait $held
    code=$?
    cat "$work/doors" "$work/storm" >"$work/out"
    [ $code = 0 ] && [ -s "$work/doors" ] && grep -qx 'storm, 0 wrong' "$work/storm" &&
        [ "$(wc -l <"$work/storm")" = 2 ]
}
strangers() { verdict strangers knock; }

main_or_part hosts_nics "$@"
need_rigs hosts_nics
on down -s 1 -r 2
on other_network -s 1 -r 2
on without_address -s 1 -r 2
on nothing_up -s 1 -r 1 -m
on settings -s 2 -r 2 -t 180
if is_soak; then
    on more_settings -s 2 -r 2 -t 180
    on bridge -s 1 -r 1 -b
fi
on explains -b
if command -v nft >/dev/null; then
    on dead_network -s 1 -r 2
else
    skip one_leads_nowhere "no nft (Debian package nftables)"
fi
if command -v ss >/dev/null; then
    on listening -s 2 -r 2 -b
    on one_host -H 1 -s 2
    on strangers -s 1
else
    skip listening "no ss (Debian package iproute2)"
fi
finish
