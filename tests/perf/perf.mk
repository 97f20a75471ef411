# SPDX-License-Identifier: BSD-3-Clause
# Instruction counts and ratios behind bars; skipped where the tool they need is absent.

perf_scripts = %D%/test_instructions.sh %D%/test_start.sh

script_tests += $(perf_scripts)
EXTRA_DIST   += $(perf_scripts)

# Run by hand.
helper_programs += %D%/bench_direct %D%/copy_bench
%C%_bench_direct_SOURCES = %D%/bench_direct.c %D%/bench_rows.c %D%/bench_rows.h
%C%_bench_direct_LDADD   = $(layers_libs)
%C%_copy_bench_LDADD     = $(layers_libs)

# What test_instructions.sh counts.
helper_programs += %D%/put_cost
%C%_put_cost_LDADD = $(layers_libs)

# What test_start.sh compares.
helper_programs += %D%/start_base %D%/start_cost
%C%_start_base_SOURCES = %D%/start_base.c %D%/start.h
%C%_start_base_LDADD   = $(PMIX_LIBS) $(HWLOC_LIBS)
%C%_start_cost_SOURCES = %D%/start_cost.c %D%/start.h
%C%_start_cost_LDADD   = liboriel.la

# The floor under networks: oriel-perf's tests on libfabric alone.
bare_sources = \
    %D%/bare_control.c \
    %D%/bare_link.c \
    %D%/bare_link.h \
    %D%/bare_ofi.c \
    %D%/bare_ofi.h
if HAVE_LIBFABRIC
helper_programs       += %D%/bare_ofi
%C%_bare_ofi_SOURCES   = $(bare_sources) $(perf_common)
%C%_bare_ofi_CPPFLAGS  = $(AM_CPPFLAGS) -I$(top_srcdir)/tools/perf
%C%_bare_ofi_LDADD     = $(LIBFABRIC_LIBS)
endif
