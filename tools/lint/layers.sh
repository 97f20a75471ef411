#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Who may use whom: every include under src and tools against the table below, the homes of
# third-party headers, and (with top_builddir set) the undefined symbols of each layer's archive,
# which may not carry the prefix of a higher layer.

. "$(dirname "$0")/common.sh"

# One line per include: file, line, spelling with its quotes or brackets.
list_includes()
{
    c_files src tools include | xargs -r awk '
        /^[ \t]*#[ \t]*include[ \t]*["<]/ {
            sub(/^[ \t]*#[ \t]*include[ \t]*/, "")
            sub(/[">][^">]*$/, substr($0, 1, 1) == "<" ? ">" : "\"")
            print FILENAME "\t" FNR "\t" $0
        }'
}

list_includes | awk -F'\t' '
function room_rank(room,   i) {
    for (i = 1; i <= rooms; i++)
        if (room_name[i] == room)
            return i
    return 0
}
function say(why) { printf "%s:%s: includes %s, %s\n", $1, $2, $3, why }

# May a file of core room "from" include core/to?
function core_allows(from, to,   parts) {
    if (to == "core.h" || from == "")
        return 1
    split(to, parts, "/")
    return room_rank(parts[1]) > 0 && room_rank(parts[1]) <= room_rank(from)
}

BEGIN {
    rooms = split("topo boot path mem team type msg coll win", room_name, " ")
    # Third-party headers and the only files that may include them.
    home["pmix"] = "^src/core/boot/boot_pmix[a-z_]*\\.[ch]$|^tools/run/"
    home["hwloc"] = "^src/core/topo/topo[a-z_]*\\.c$|^tools/run/"
    home["infiniband"] = "^src/fabric/verbs/"
    home["rdma"] = "^src/fabric/ofi/"
    home["cuda"] = "^src/fabric/cuda\\.c$"
    home["mpi"] = "^tools/perf/perf_mpi\\.c$"
    shows_layers = "^tools/(info|sim|perf-fabric)/"
}

$3 ~ /^</ {
    name = $3
    gsub(/[<>]/, "", name)
    sub(/[\/._].*/, "", name)
    if (name in home && $1 !~ home[name])
        say("which only " (home[name] == "^$" ? "nobody" : home[name]) " may")
    next
}

{
    path = substr($3, 2, length($3) - 2)
    depth = split(path, to, "/")
    split($1, from, "/")
}

path == "oriel.h" {
    if ($1 ~ /^src\/(base|fabric)\//)
        say("the public header, which stands above it")
    next
}
path == "mpi.h" { if ($1 !~ /^src\/mpi\//) say("which only src/mpi may"); next }
$1 ~ /^tools\// && depth == 1 { next }
to[1] !~ /^(base|fabric|core|mpi)$/ { say("which is not spelled layer/file.h"); next }

$1 ~ /^include\// { say("but a public header stands alone"); next }

$1 ~ /^src\/base\// { if (to[1] != "base") say("but base stands on nothing of ours"); next }

$1 ~ /^src\/fabric\// {
    in_transport = $1 ~ /^src\/fabric\/[a-z_]+\//
    if (to[1] == "base")
        next
    if (to[1] != "fabric")
        say("but calls go down, never up")
    else if (!in_transport && depth > 2)
        say("a header private to a transport")
    else if (in_transport && depth > 2 && to[2] != from[3])
        say("a header of another transport")
    else if (in_transport && depth == 2 && path !~ /^fabric\/(fabric|transport|node|nics)\.h$/)
        say("but a transport sees only fabric.h, transport.h, node.h and nics.h of the common files")
    next
}

$1 ~ /^src\/core\// {
    room = $1 ~ /^src\/core\/[a-z_]+\// ? from[3] : ""
    if (room != "" && room_rank(room) == 0)
        say("from a room of core that has no place in the order")
    else if (to[1] == "base" || path ~ /^fabric\/(fabric|node)\.h$/)
        next
    else if (to[1] == "fabric")
        say("but core sees only fabric.h and node.h of the fabric")
    else if (to[1] == "mpi")
        say("but calls go down, never up")
    else if (!core_allows(room, substr(path, 6)))
        say("a room above its own")
    next
}

$1 ~ /^src\/mpi\// {
    if (to[1] != "mpi" && path !~ /^base\/(attr|list|map|pool|strbuf)\.h$/)
        say("but mpi is a client of oriel.h")
    next
}

$1 ~ /^tools\// {
    if ($1 !~ shows_layers)
        say("but this tool is a client of oriel.h")
    else if (path ~ /^fabric\/([a-z]+\/|transport\.h)/)
        say("private to the transports")
    next
}
' | faults

# Undefined symbols of an archive that start like a higher layer's.
check_archive()
{
    archive=$top_builddir/$1
    if [ ! -f "$archive" ]; then
        fault "$1 is not built, so its symbols cannot be checked"
        return
    fi
    nm -A -u "$archive" 2>/dev/null | awk -v bad="^($2)_" -v lib="$1" '
        $NF ~ bad { sub(/.*[:\/]/, "", $1); print lib ": uses " $NF " of a higher layer" }' |
        sort -u | faults
}

if [ -n "$top_builddir" ]; then
    check_archive src/base/.libs/libbase.a 'fab|core|oriel|mpi|MPI|PMPI'
    check_archive src/fabric/.libs/libfabriclayer.a 'core|oriel|mpi|MPI|PMPI'
    check_archive src/core/.libs/libcore.a 'mpi|MPI|PMPI'
fi

verdict
