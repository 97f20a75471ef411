# SPDX-License-Identifier: BSD-3-Clause
# Loopback transport.

src_fabric_libfabriclayer_la_SOURCES += \
    %D%/self.c
