#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# A job across hosts with two interfaces each, of which one dies under the traffic: on the near or the
# far side, in silence, or again and again. Nothing is lost.

. "$(dirname "$0")/hosts.sh"

# survives NAME COMMAND...: a storm goes on and ends right although this happens to it.
survives()
{
    _as=$1
    shift
    verdict "$_as" goes_on "$@"
}
goes_on()
{
    storm_meanwhile "$(long_or 5 3)" 2 "$@" || { echo "the storm ended with $?" >>"$work/out"; return 1; }
    is_right && nothing_left "$work/begun"
}

flap() { for _ in 1 2 3; do rig_down h2 eth1; sleep 0.5; rig_up h2 eth1; sleep 0.5; done; }

# covers: I14
far_side() { survives down_far rig_down h2 eth1; }

# One after the other on the same hosts.
short()
{
    survives down_far rig_down h2 eth1
    rig_up h2 eth1
    survives silent rig_cut h2 eth1
}

near_side() { survives down_near rig_down h1 eth1; }
silent() { survives silent rig_cut h2 eth1; }
unsteady() { survives unsteady flap; }

main_or_part hosts_rails "$@"
need_rigs hosts_rails
if is_soak || ! command -v nft >/dev/null; then
    on far_side -r 2 -t 100
fi
if is_soak; then
    on near_side -r 2 -t 100
    on unsteady -r 2 -t 100
fi
if command -v nft >/dev/null && is_soak; then
    on silent -r 2 -t 100
elif command -v nft >/dev/null; then
    on short -r 2 -t 180
else
    skip silent "no nft (Debian package nftables)"
fi
finish
