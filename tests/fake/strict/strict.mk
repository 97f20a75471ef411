# SPDX-License-Identifier: BSD-3-Clause
# A libfabric provider that enforces the contract of EFA's direct fabric (README.md), for tests.

EXTRA_DIST += %D%/README.md

if HAVE_LIBFABRIC
# The name is what libfabric looks for in FI_PROVIDER_PATH; -rpath makes it a shared object.
check_LTLIBRARIES += %D%/libstrict-fi.la
%C%_libstrict_fi_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
%C%_libstrict_fi_la_LIBADD  = $(LIBFABRIC_LIBS)
%C%_libstrict_fi_la_SOURCES = \
    %D%/strict.h \
    %D%/strict_api.h \
    %D%/strict_base.h \
    %D%/strict_av.c \
    %D%/strict_calls.c \
    %D%/strict_context.c \
    %D%/strict_cq.c \
    %D%/strict_due.c \
    %D%/strict_ep.c \
    %D%/strict_fabric.c \
    %D%/strict_info.c \
    %D%/strict_link.c \
    %D%/strict_mr.c \
    %D%/strict_note.c \
    %D%/strict_peer.c \
    %D%/strict_place.c \
    %D%/strict_pool.c \
    %D%/strict_post.c \
    %D%/strict_wait.c \
    %D%/strict_wire.c
endif
