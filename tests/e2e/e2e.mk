# SPDX-License-Identifier: BSD-3-Clause
# Whole programs under real launchers (rank scripts), and the scripts of the tree checked against
# planted faults.

# The longest first, so that none runs alone at the end.
e2e_scripts = \
    %D%/test_hostile.sh \
    %D%/test_death.sh \
    %D%/test_launchers.sh \
    %D%/test_hosts_luck.sh \
    %D%/test_hosts.sh \
    %D%/test_hosts_nics.sh \
    %D%/test_hosts_rails.sh \
    %D%/test_hosts_coll.sh \
    %D%/test_over_ofi.sh \
    %D%/test_perf.sh \
    %D%/test_rigs.sh \
    %D%/test_abort.sh \
    %D%/test_compare.sh \
    %D%/test_install.sh \
    %D%/test_lint.sh \
    %D%/test_rows.sh \
    %D%/test_totals.sh

# What the sanitizer builds run as well.
e2e_rank_scripts = \
    %D%/test_info.sh \
    %D%/test_mpirun.sh \
    %D%/test_oriel_run.sh

script_tests += $(e2e_scripts)
rank_scripts += $(e2e_rank_scripts)
EXTRA_DIST   += $(e2e_scripts) $(e2e_rank_scripts)

# What the scripts start: clients of the shared object. mortal steps between it and libpmix, so its
# functions must be seen by both.
helper_programs += %D%/colls %D%/far %D%/job %D%/mortal %D%/where
exchange           = %D%/exchange.c %D%/exchange.h
%C%_colls_SOURCES  = %D%/colls.c $(exchange)
%C%_colls_LDADD    = liboriel.la
%C%_far_SOURCES    = %D%/far.c $(exchange)
%C%_far_LDADD      = liboriel.la
%C%_job_SOURCES    = %D%/job.c $(exchange)
%C%_job_LDADD      = liboriel.la
%C%_mortal_SOURCES = %D%/mortal.c $(exchange)
%C%_mortal_LDADD   = liboriel.la
%C%_mortal_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
%C%_where_LDADD    = $(PMIX_LIBS)

# What test_oriel_run.sh starts: a PMIx client that does as it is told.
helper_programs += %D%/rank
%C%_rank_LDADD   = $(PMIX_LIBS)

# Compiled by test_launchers.sh with another MPI's compiler.
EXTRA_DIST += %D%/beside.c %D%/cells.sh %D%/common.sh %D%/hosts.sh

# What test_perf.sh expects to fail: oriel-perf on a library that spoils data (flip.c).
helper_programs += %D%/perf_flip
%C%_perf_flip_SOURCES = %D%/flip.c $(perf_sources)
%C%_perf_flip_LDADD   = liboriel.la
%C%_perf_flip_LDFLAGS = \
    $(AM_LDFLAGS) \
    -Wl,--wrap=oriel_put,--wrap=oriel_get,--wrap=oriel_run,--wrap=oriel_atomic64 \
    -Wl,--wrap=oriel_compare_swap64,--wrap=oriel_barrier \
    -Wl,--wrap=oriel_bcast,--wrap=oriel_allreduce
