# SPDX-License-Identifier: BSD-3-Clause
# Networks through libfabric: TCP and EFA.

src_fabric_libfabriclayer_la_SOURCES += \
    %D%/ofi.c \
    %D%/ofi.h \
    %D%/ofi_answer.c \
    %D%/ofi_bulk.c \
    %D%/ofi_engine.c \
    %D%/ofi_facts.c \
    %D%/ofi_haul.c \
    %D%/ofi_hello.c \
    %D%/ofi_large.h \
    %D%/ofi_loan.c \
    %D%/ofi_mem.c \
    %D%/ofi_op.c \
    %D%/ofi_peer.c \
    %D%/ofi_pick.c \
    %D%/ofi_pick.h \
    %D%/ofi_pick_host.c \
    %D%/ofi_pick_info.c \
    %D%/ofi_probe.c \
    %D%/ofi_pull.c \
    %D%/ofi_receive.c \
    %D%/ofi_send.c \
    %D%/ofi_serve.c \
    %D%/ofi_slot.c \
    %D%/ofi_wire.c \
    %D%/ofi_wire.h
