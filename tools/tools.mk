# SPDX-License-Identifier: BSD-3-Clause
# Programs that are installed, one folder each, and the scripts of developers.

dist_man_MANS   =
nodist_man_MANS =

include tools/perf/perf.mk
include tools/run/run.mk
include tools/info/info.mk

# oriel(7) has the environment as the library describes it.
nodist_man_MANS += %D%/oriel.7
CLEANFILES       = %D%/oriel.7

%D%/oriel.7: %D%/oriel.7.in %D%/oriel-info$(EXEEXT)
	$(AM_V_GEN)%D%/oriel-info$(EXEEXT) --settings man >$@.env && \
	    $(SED) -e 's/@VERSION@/$(VERSION)/' -e '/^@SETTINGS@/r '$@.env -e '/^@SETTINGS@/d' \
	        $(srcdir)/%D%/oriel.7.in >$@.tmp && mv $@.tmp $@ && rm -f $@.env

EXTRA_DIST += \
    %D%/launcher-env.sh \
    %D%/lint/all.sh \
    %D%/lint/common.sh \
    %D%/lint/cppcheck.suppress \
    %D%/lint/format.sh \
    %D%/lint/headers.sh \
    %D%/lint/knobs.sh \
    %D%/lint/layers.sh \
    %D%/lint/shape.sh \
    %D%/oriel.7.in \
    %D%/quickstart \
    %D%/rows.sh \
    %D%/totals.sh
