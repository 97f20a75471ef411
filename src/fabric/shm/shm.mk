# SPDX-License-Identifier: BSD-3-Clause
# Shared-memory transport.

src_fabric_libfabriclayer_la_SOURCES += \
    %D%/shm.c \
    %D%/shm.h \
    %D%/shm_am.c \
    %D%/shm_copy.c \
    %D%/shm_ep.c \
    %D%/shm_ring.c \
    %D%/shm_ring.h
