# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
#
# Sourced by tools/compare: its contestants across hosts. The hosts are those of a rig around the
# whole course, so that the rounds of all contestants meet one network in one state. All are started
# by their own launcher, with as many ranks on each host, rank R bound to core R where there are
# enough, for the hosts share the cores.

# hosts_asked ARGUMENT...: what stands behind --hosts.
hosts_asked()
{
    while [ $# -gt 0 ]; do
        [ "$1" != --hosts ] || { echo "$2"; return; }
        shift
    done
}

# enter_hosts ARGUMENT...: the script again, within a rig. Comes back where there is none to make.
enter_hosts()
{
    _hosts=$(hosts_asked "$@")
    [ -n "$_hosts" ] && [ -z "$RIG_HOSTS" ] || return 0
    is_number "$_hosts" && [ "$_hosts" -gt 1 ] || wrong "--hosts $_hosts: must be a number from 2"
    exec "$top/tests/rigs/hosts" -H "$_hosts" -s 64 -t 86400 -- "$0" "$@"
}

# Interfaces of a host, commas between them.
rails() { echo "$(seq -s, 0 $((RIG_RAILS - 1)))" | sed 's/[0-9][0-9]*/eth&/g'; }

# tuned CONTESTANT: NAME=VALUE of what it is told in order to do well here, in one line.
tuned()
{
    case $1 in
    openmpi) echo "OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,vader,self OMPI_MCA_btl_tcp_if_include=$(rails)" \
        "OMPI_MCA_osc=$osc" ;;
    openmpi+ucx) echo "OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx OMPI_MCA_opal_common_ucx_tls=any" \
        "OMPI_MCA_opal_common_ucx_devices=any UCX_NET_DEVICES=$(rails) UCX_TLS=tcp,sm,self" ;;
    mpich) echo "UCX_NET_DEVICES=$(rails) UCX_TLS=tcp,sm,self" ;;
    bare) echo "BARE_PROVIDER=net BARE_AT=10.77.0.2" ;;
    bare+rxm) echo "BARE_PROVIDER=tcp;ofi_rxm BARE_AT=10.77.0.2" ;;
    esac
}

# The only one of Open MPI 4's window components that takes ob1 over TCP: "rdma" ends in MPI_ERR_WIN.
osc=pt2pt

# launch_far CONTESTANT RANKS ARGUMENT...
launch_far()
{
    _who=$1
    _n=$2
    shift 2
    case $_who in
    oriel) set -- "$build/tools/oriel-perf" "$@" ;;
    bare*) set -- "$build/tests/perf/bare_ofi" "$@" ;;
    *) set -- "$cache/oriel-perf-mpi.${_who%+*}" "$@" ;;
    esac
    # shellcheck disable=SC2016
    [ "$_n" -gt "$cores" ] || set -- sh -c \
        'exec taskset -c $((${PMIX_RANK:-${PMI_RANK:-0}} % $0)) "$@"' "$cores" "$@"
    _set=
    _hand=
    for _setting in $(tuned "$_who"); do
        _set="$_set $_setting"
        _hand="$_hand -x ${_setting%%=*}"
    done
    # shellcheck disable=SC2086
    case $_who in
    mpich) set -- env $_set mpirun.mpich -ppn $((_n / hosts)) -bind-to none -n "$_n" "$@" ;;
    *) set -- env $_set mpirun.openmpi $_hand --map-by ppr:$((_n / hosts)):node --bind-to none \
        -n "$_n" "$@" ;;
    esac
    timeout -k 3 "$limit" "$@"
}

# far_prepare CONTESTANT: it is one of those that run across hosts, and is here.
far_prepare()
{
    case $1 in
    oriel | bare | bare+rxm)
        find_build
        command -v mpirun.openmpi >/dev/null || die "$1: no mpirun.openmpi (Debian package: openmpi-bin)"
        [ "$1" = oriel ] || [ -x "$build/tests/perf/bare_ofi" ] ||
            die "$1: $build/tests/perf/bare_ofi is not built; make it with: make tests/perf/bare_ofi"
        ;;
    openmpi | openmpi+ucx | mpich)
        mpi=${1%+ucx}
        reason=$(misses "$mpi")
        [ -z "$reason" ] || die "$1: $reason"
        [ -n "$cache" ] || make_cache
        build_for "$mpi"
        ;;
    *) wrong "--with $1: with --hosts must be oriel, openmpi, openmpi+ucx, mpich, bare or bare+rxm" ;;
    esac
}

far_introduce()
{
    case $1 in
    oriel) _is="$("$build/tools/oriel-perf" --version | cut -d' ' -f2), started by mpirun.openmpi" ;;
    bare*) _is="libfabric $("$build/tests/perf/bare_ofi" --version | cut -d' ' -f2) alone" ;;
    *) _is=$("$cache/oriel-perf-mpi.${1%+*}" --version | cut -d' ' -f2- | tr -s ' ' | cut -c1-60) ;;
    esac
    echo "# $1: $_is" "$(tuned "$1" | sed 's/^/; /')"
}
