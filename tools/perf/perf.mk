# SPDX-License-Identifier: BSD-3-Clause
# oriel-perf: a client of the shared object, as a user's program would be.

bin_PROGRAMS += tools/oriel-perf
tools_oriel_perf_SOURCES = \
    %D%/oriel-perf.c \
    %D%/perf.h \
    %D%/perf_check.c \
    %D%/perf_coll.c \
    %D%/perf_opts.c \
    %D%/perf_point.c \
    %D%/perf_print.c \
    %D%/perf_run.c
tools_oriel_perf_LDADD   = liboriel.la
dist_man_MANS           += %D%/oriel-perf.1
