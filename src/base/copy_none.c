/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of copy kernels for a processor family without one of its own. Compiled in place of
 * copy_x86.c or copy_arm.c; copy.c then uses the words kernel.
 */
#include "base/copy_kernel.h"

const struct orl_copy_kernel *const orl_copy_native[] = { NULL };
