# SPDX-License-Identifier: BSD-3-Clause
# The base layer: what we would wish the C library had.

noinst_LTLIBRARIES += %D%/libbase.la
%C%_libbase_la_SOURCES = \
    %D%/attr.h \
    %D%/bytes.h \
    %D%/clock.c \
    %D%/clock.h \
    %D%/conf.c \
    %D%/conf.def \
    %D%/conf.h \
    %D%/conf_name.c \
    %D%/conf_text.c \
    %D%/copy.c \
    %D%/copy.h \
    %D%/copy_kernel.h \
    %D%/copy_words.c \
    %D%/crc.c \
    %D%/crc.h \
    %D%/crc_method.h \
    %D%/fifo.h \
    %D%/list.h \
    %D%/lock.c \
    %D%/lock.h \
    %D%/log.c \
    %D%/log.h \
    %D%/map.c \
    %D%/map.h \
    %D%/pool.c \
    %D%/pool.h \
    %D%/ranges.c \
    %D%/ranges.h \
    %D%/stats.c \
    %D%/stats.def \
    %D%/stats.h \
    %D%/status.c \
    %D%/status.def \
    %D%/status.h \
    %D%/strbuf.c \
    %D%/strbuf.h \
    %D%/sys.c \
    %D%/sys.h \
    %D%/sys_segment.c \
    %D%/trace.c \
    %D%/trace.h \
    %D%/wheel.c \
    %D%/wheel.h

# What differs by processor family is chosen by file.
if CPU_X86_64
%C%_libbase_la_SOURCES += %D%/copy_x86.c %D%/crc_x86.c
else
if CPU_AARCH64
%C%_libbase_la_SOURCES += %D%/copy_arm.c %D%/crc_arm.c
else
%C%_libbase_la_SOURCES += %D%/copy_none.c %D%/crc_none.c
endif
endif
