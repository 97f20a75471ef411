# SPDX-License-Identifier: BSD-3-Clause
# oriel-perf: a client of the shared object, as a user's program would be. The same source makes
# oriel-perf-mpi, with perf_mpi.c in place of perf_oriel.c and an MPI's compiler: tools/compare
# does so, make does not.

bin_PROGRAMS += tools/oriel-perf
perf_common = \
    %D%/oriel-perf.c \
    %D%/perf.h \
    %D%/perf_check.c \
    %D%/perf_coll.c \
    %D%/perf_ops.h \
    %D%/perf_opts.c \
    %D%/perf_plot.c \
    %D%/perf_point.c \
    %D%/perf_print.c \
    %D%/perf_run.c \
    %D%/perf_stats.c
perf_sources             = $(perf_common) %D%/perf_oriel.c
tools_oriel_perf_SOURCES = $(perf_sources)
tools_oriel_perf_LDADD   = liboriel.la
dist_man_MANS           += %D%/oriel-perf.1
EXTRA_DIST              += %D%/perf_mpi.c

# The comparison with other MPIs: a script of developers, and pictures of what it found.
EXTRA_DIST += \
    tools/compare \
    tools/compare_hosts.sh \
    tools/plot/cells.awk \
    tools/plot/compare.json \
    tools/plot/compare.svg \
    tools/plot/panels.awk \
    tools/plot/table.awk
