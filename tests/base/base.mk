# SPDX-License-Identifier: BSD-3-Clause
# Unit tests of the base layer: one program per source file.

criterion_tests += \
    %D%/test_clock \
    %D%/test_conf \
    %D%/test_conf_text \
    %D%/test_copy \
    %D%/test_crc \
    %D%/test_fifo \
    %D%/test_list \
    %D%/test_lock \
    %D%/test_log \
    %D%/test_map \
    %D%/test_pool \
    %D%/test_pool_debug \
    %D%/test_ranges \
    %D%/test_stats \
    %D%/test_status \
    %D%/test_strbuf \
    %D%/test_sys \
    %D%/test_sys_segment \
    %D%/test_trace \
    %D%/test_wheel

# What only debug builds check is tested in all builds, on files of its own compiled that way.
%C%_test_lock_SOURCES        = %D%/test_lock.c src/base/lock.c
%C%_test_lock_CPPFLAGS       = $(AM_CPPFLAGS) -DORL_DEBUG
%C%_test_pool_debug_SOURCES  = %D%/test_pool_debug.c src/base/lock.c src/base/pool.c
%C%_test_pool_debug_CPPFLAGS = $(AM_CPPFLAGS) -DORL_DEBUG
