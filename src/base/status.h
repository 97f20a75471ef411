/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Status codes, and the one place where an error gets its words.
 *
 * A function that can fail returns 0 or a negative code. Whoever first knows the cause calls
 * orl_fail, which keeps one line of text for the thread; everyone above returns the code and adds
 * nothing. State is per thread, so there is no lock.
 */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "base/attr.h"

enum orl_status {
    ORL_OK = 0,
#define ORL_STATUS(name, number, text, mpi_class) ORL_ERR_##name = -(number),
#include "base/status.def"
#undef ORL_STATUS
};

/* How many codes there are below zero: -1 to -ORL_STATUS_COUNT. */
enum {
#define ORL_STATUS(name, number, text, mpi_class) ORL_STATUS_ROW_##name,
#include "base/status.def"
#undef ORL_STATUS
    ORL_STATUS_COUNT
};

/* Longest error text kept, with its end. Longer ones are cut. */
#define ORL_ERROR_TEXT_BYTES 512

/* "ORL_ERR_INVAL" without its prefix: "INVAL"; "OK" for 0, "UNKNOWN" for a code of no row. */
const char *orl_status_name(int status);

/* One line about the code in general. Never NULL. */
const char *orl_status_text(int status);

/* Name of the MPI error class the code belongs to: "MPI_ERR_ARG"; "MPI_SUCCESS" for 0. */
const char *orl_status_mpi_class(int status);

/*
 * Keeps the text as this thread's last error and returns `status`, so that one line both tells
 * and fails. Say what was wrong, with numbers, and what would be right. The text stays until the
 * thread fails again or clears it. Arguments may point into the last error text. errno is
 * left as it was. At log level debug the text is logged too.
 */
ORL_COLD ORL_NOINLINE ORL_MUST_CHECK ORL_PRINTF(2, 3) int orl_fail(int status, const char *fmt,
                                                                   ...);

/* Text of this thread's last failure; "" when there is none. Valid until the next failure. */
const char *orl_last_error(void);

void orl_last_error_clear(void);

/* What the operating system calls an errno value. Valid until the thread asks again. */
const char *orl_os_text(int os_error);

#endif
