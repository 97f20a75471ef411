/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flight recorder: the last events are kept in order, and the dump says them in words.
 */
#include "base/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/status.h"

static struct orl_trace trace;
static char text[256 * 1024];

/* Dumps into `text` and returns how many lines there are. */
static int dump(void)
{
    int lines = 0;
    int fd = memfd_create("dump", MFD_CLOEXEC);
    cr_assert_geq(fd, 0);
    cr_assert_eq(orl_trace_dump(&trace, fd), ORL_OK);
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    cr_assert_geq(n, 0);
    text[n] = '\0';
    close(fd);
    for (ssize_t i = 0; i < n; i++) {
        lines += text[i] == '\n';
    }
    return lines;
}

Test(trace, empty_recording_is_one_line)
{
    orl_trace_init(&trace, "shm engine");
    cr_assert_eq(dump(), 1);
    cr_assert_not_null(strstr(text, "shm engine: last 0 of 0 events"));
}

Test(trace, events_are_said_in_words)
{
    orl_trace_init(&trace, "e");
    orl_trace_add(&trace, ORL_TRACE_PUT, 3, 4096, 128);
    orl_trace_add(&trace, ORL_TRACE_WAKE, 1, 77, 99);
    cr_assert_eq(dump(), 3);
    cr_assert_not_null(strstr(text, "put        peer 3 bytes 4096 offset 128\n"));
    cr_assert_not_null(strstr(text, "wake       peer 1 epoch 77\n"), "unused operands are hidden");
}

Test(trace, the_last_events_are_kept_oldest_first)
{
    const uint64_t total = 3 * ORL_TRACE_EVENTS + 5;
    orl_trace_init(&trace, "e");
    for (uint64_t i = 0; i < total; i++) {
        orl_trace_add(&trace, ORL_TRACE_TEST, 0, i, 0);
    }
    cr_assert_eq(dump(), ORL_TRACE_EVENTS + 1);
    const char *at = text;
    for (uint64_t i = total - ORL_TRACE_EVENTS; i < total; i++) {
        at = strstr(at, " b ");
        cr_assert_not_null(at);
        cr_assert_eq(strtoull(at + 3, NULL, 10), i);
        at++;
    }
}

Test(trace, one_event_in_sixteen_has_its_time_and_marks_always)
{
    orl_trace_init(&trace, "e");
    for (int i = 0; i < 2 * ORL_TRACE_STAMP_PERIOD; i++) {
        orl_trace_add(&trace, ORL_TRACE_TEST, 0, 0, 0);
    }
    int stamped = 0;
    for (int i = 0; i < 2 * ORL_TRACE_STAMP_PERIOD; i++) {
        stamped += trace.ring[i].ticks != 0;
    }
    cr_assert_eq(stamped, 2);
    orl_trace_add(&trace, ORL_TRACE_TEST, 0, 0, 0);
    orl_trace_mark(&trace, ORL_TRACE_PARK, 0, 0, 0);
    cr_assert_neq(trace.ring[2 * ORL_TRACE_STAMP_PERIOD + 1].ticks, 0);
}

Test(trace, every_kind_has_a_name)
{
    for (int i = 0; i < ORL_TRACE_KIND_COUNT; i++) {
        cr_assert_str_neq(orl_trace_kind_name((enum orl_trace_kind)i), "unknown");
    }
    cr_assert_str_eq(orl_trace_kind_name(ORL_TRACE_KIND_COUNT), "unknown");
}

Test(trace, a_foreign_kind_does_not_break_the_dump)
{
    orl_trace_init(&trace, "e");
    orl_trace_add(&trace, ORL_TRACE_TEST, 0, 0, 0);
    trace.ring[0].kind = 0xffffffff;
    cr_assert_eq(dump(), 2);
    cr_assert_not_null(strstr(text, "unknown"));
}

Test(trace, a_dump_that_cannot_be_written_is_an_error)
{
    orl_trace_init(&trace, "e");
    cr_assert_eq(orl_trace_dump(&trace, -1), ORL_ERR_SYS);
    cr_assert_not_null(strstr(orl_last_error(), "Bad file descriptor"));
}
