/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names and texts of the status codes, and the last error of each thread.
 *
 * Called by whoever fails, and by whoever reports. State is thread-local, so there is no lock.
 * It decides nothing: what an error means for an object is the business of the object.
 */
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

struct status_row {
    const char *name;
    const char *text;
    const char *mpi_class;
};

static const struct status_row rows[] = {
    [0] = { "OK", "no error", "MPI_SUCCESS" },
#define ORL_STATUS(name, number, text, mpi_class) [number] = { #name, text, mpi_class },
#include "base/status.def"
#undef ORL_STATUS
};

static const struct status_row unknown_row = { "UNKNOWN", "not a status of this library",
                                               "MPI_ERR_UNKNOWN" };

static ORL_TLS char error_text[ORL_ERROR_TEXT_BYTES];
static ORL_TLS char os_text[96];

static const struct status_row *row_of(int status)
{
    bool is_known = status <= 0 && status >= -ORL_STATUS_COUNT;
    return is_known ? &rows[-status] : &unknown_row;
}

const char *orl_status_name(int status)
{
    return row_of(status)->name;
}

const char *orl_status_text(int status)
{
    return row_of(status)->text;
}

const char *orl_status_mpi_class(int status)
{
    return row_of(status)->mpi_class;
}

int orl_fail(int status, const char *fmt, ...)
{
    int saved_errno = errno;
    /* Built aside: the arguments may point into the text that it replaces. */
    char text[ORL_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    memcpy(error_text, text, strlen(text) + 1);
    orl_log_debug(ORL_CAT_BASE, "%s: %s", orl_status_name(status), error_text);
    errno = saved_errno;
    return status;
}

const char *orl_last_error(void)
{
    return error_text;
}

void orl_last_error_clear(void)
{
    error_text[0] = '\0';
}

const char *orl_os_text(int os_error)
{
    return strerror_r(os_error, os_text, sizeof(os_text));
}

void orl_assert_failed(const char *expression, const char *file, int line)
{
    orl_log_error(ORL_CAT_BASE, "broken invariant: %s (%s:%d)", expression, file, line);
    __builtin_trap();
}
