# SPDX-License-Identifier: BSD-3-Clause
# All tests: the helpers, then one fragment per tier.

test_libs =

EXTRA_DIST += %D%/lsan.supp %D%/run-test

include %D%/base/base.mk
include %D%/fabric/fabric.mk
include %D%/race/race.mk
