/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Status codes: the table agrees with the numbers, and every thread keeps its own last error.
 */
#include "base/status.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <criterion/criterion.h>

Test(status, numbers_are_those_of_the_table)
{
    cr_assert_eq(ORL_OK, 0);
    cr_assert_eq(ORL_ERR_INVAL, -1);
    cr_assert_eq(ORL_ERR_TIMEOUT, -9);
    cr_assert_eq(ORL_ERR_INTERNAL, -20);
    cr_assert_eq(ORL_STATUS_COUNT, 20);
}

Test(status, every_code_has_name_text_and_class)
{
    for (int status = 0; status >= -ORL_STATUS_COUNT; status--) {
        cr_assert_str_neq(orl_status_name(status), "UNKNOWN", "code %d", status);
        cr_assert_gt(strlen(orl_status_text(status)), 5, "code %d", status);
        cr_assert_eq(strncmp(orl_status_mpi_class(status), "MPI_", 4), 0, "code %d", status);
    }
    cr_assert_str_eq(orl_status_name(ORL_ERR_CONF), "CONF");
    cr_assert_str_eq(orl_status_mpi_class(ORL_ERR_TRUNC), "MPI_ERR_TRUNCATE");
}

Test(status, codes_of_no_row_have_a_text_too)
{
    const int strangers[] = { 1, -ORL_STATUS_COUNT - 1, 1 << 30, INT32_MIN };
    for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
        cr_assert_str_eq(orl_status_name(strangers[i]), "UNKNOWN");
        cr_assert_not_null(orl_status_text(strangers[i]));
    }
}

Test(status, fail_keeps_text_and_errno_and_returns_the_code)
{
    cr_assert_str_eq(orl_last_error(), "");
    errno = EBADF;
    cr_assert_eq(orl_fail(ORL_ERR_RANGE, "offset %d of %s", 7, "window"), ORL_ERR_RANGE);
    cr_assert_eq(errno, EBADF);
    cr_assert_str_eq(orl_last_error(), "offset 7 of window");
    orl_last_error_clear();
    cr_assert_str_eq(orl_last_error(), "");
}

Test(status, a_text_may_quote_the_one_before)
{
    int status = orl_fail(ORL_ERR_SYS, "no room");
    status = orl_fail(status, "segment: %s", orl_last_error());
    cr_assert_eq(status, ORL_ERR_SYS);
    cr_assert_str_eq(orl_last_error(), "segment: no room");
}

Test(status, long_texts_are_cut)
{
    char text[2 * ORL_ERROR_TEXT_BYTES];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    cr_assert_eq(orl_fail(ORL_ERR_INVAL, "%s", text), ORL_ERR_INVAL);
    cr_assert_eq(strlen(orl_last_error()), ORL_ERROR_TEXT_BYTES - 1);
}

static void *fail_in_thread(void *before)
{
    *(bool *)before = orl_last_error()[0] == '\0';
    return orl_fail(ORL_ERR_PEER, "from the thread") == ORL_ERR_PEER ? before : NULL;
}

Test(status, threads_do_not_share_the_text)
{
    pthread_t thread;
    bool was_empty = false;
    void *result = NULL;
    cr_assert_eq(orl_fail(ORL_ERR_LINK, "from main"), ORL_ERR_LINK);
    cr_assert_eq(pthread_create(&thread, NULL, fail_in_thread, &was_empty), 0);
    cr_assert_eq(pthread_join(thread, &result), 0);
    cr_assert(was_empty);
    cr_assert_not_null(result);
    cr_assert_str_eq(orl_last_error(), "from main");
}

Test(status, os_texts_are_those_of_the_system)
{
    cr_assert_str_eq(orl_os_text(ENOENT), "No such file or directory");
    cr_assert_not_null(strstr(orl_os_text(123456), "123456"));
}
