# SPDX-License-Identifier: BSD-3-Clause
# The fabric layer: engines, endpoints, regions. Each transport lists its files in its own folder.

noinst_LTLIBRARIES += %D%/libfabriclayer.la
%C%_libfabriclayer_la_SOURCES = \
    %D%/am.c \
    %D%/apply.c \
    %D%/engine.c \
    %D%/ep.c \
    %D%/fabric.c \
    %D%/fabric.h \
    %D%/nics.c \
    %D%/nics.h \
    %D%/node.c \
    %D%/node.h \
    %D%/node_arena.c \
    %D%/node_bell.c \
    %D%/node_hazard.c \
    %D%/node_park.c \
    %D%/node_priv.h \
    %D%/node_reg.c \
    %D%/node_shape.c \
    %D%/region.c \
    %D%/transport.h \
    %D%/verdict.c \
    %D%/verdict.h

include %D%/self/self.mk
include %D%/shm/shm.mk
if HAVE_LIBFABRIC
include %D%/ofi/ofi.mk
endif

EXTRA_DIST += %D%/README.md
