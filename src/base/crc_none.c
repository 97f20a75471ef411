/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of CRC methods for a processor family without one of its own. Compiled in place of
 * crc_x86.c or crc_arm.c; crc.c then uses its table.
 */
#include "base/crc_method.h"

const struct orl_crc_method *const orl_crc_native[] = { NULL };
