# SPDX-License-Identifier: BSD-3-Clause
# oriel-run: the launcher for one host. It serves PMIx by itself and does not use the library.

bin_PROGRAMS += tools/oriel-run
tools_oriel_run_SOURCES = \
    %D%/oriel-run.c \
    %D%/run.h \
    %D%/run_bind.c \
    %D%/run_clean.c \
    %D%/run_death.c \
    %D%/run_env.c \
    %D%/run_io.c \
    %D%/run_opts.c \
    %D%/run_ranks.c \
    %D%/run_server.c \
    %D%/run_stdin.c \
    %D%/run_tree.c
tools_oriel_run_LDADD   = $(PMIX_LIBS) $(HWLOC_LIBS)
dist_man_MANS          += %D%/oriel-run.1
