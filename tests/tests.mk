# SPDX-License-Identifier: BSD-3-Clause
# All tests: the helpers, then one fragment per tier.

test_libs = %D%/libt.la
check_LTLIBRARIES += %D%/libt.la
%C%_libt_la_SOURCES = %D%/t.c %D%/t.h %D%/t_data.c

EXTRA_DIST += %D%/README.md %D%/lsan.supp %D%/run-test %D%/ways

include %D%/base/base.mk
include %D%/fake/strict/strict.mk
include %D%/fabric/fabric.mk
include %D%/core/core.mk
include %D%/race/race.mk
include %D%/fuzz/fuzz.mk
include %D%/e2e/e2e.mk
include %D%/perf/perf.mk
include %D%/rigs/rigs.mk
