# SPDX-License-Identifier: BSD-3-Clause
# Programs that are installed, and the scripts of developers.

bin_PROGRAMS += %D%/oriel-perf

# oriel-perf is a client of the shared object, as a user's program would be.
%C%_oriel_perf_SOURCES = \
    %D%/oriel-perf.c \
    %D%/perf.h \
    %D%/perf_check.c \
    %D%/perf_coll.c \
    %D%/perf_opts.c \
    %D%/perf_point.c \
    %D%/perf_print.c \
    %D%/perf_run.c
%C%_oriel_perf_LDADD   = liboriel.la

# Man pages. oriel(7) has the environment as the library describes it.
dist_man_MANS   = %D%/oriel-perf.1
nodist_man_MANS = %D%/oriel.7
CLEANFILES      = %D%/oriel.7

%D%/oriel.7: %D%/oriel.7.in %D%/oriel-perf$(EXEEXT)
	$(AM_V_GEN)%D%/oriel-perf$(EXEEXT) --settings man >$@.env && \
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
    %D%/plot/plot-perf \
    %D%/plot/put.svg \
    %D%/quickstart \
    %D%/rows.sh \
    %D%/totals.sh
