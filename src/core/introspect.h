/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of introspection share; see introspect.c and introspect_nics.c. */
#ifndef CORE_INTROSPECT_H
#define CORE_INTROSPECT_H

/* The list of transports in force, or the one that oriel_init would find; NULL when that one is
 * wrong. Valid until this thread asks again. */
const char *core_transports_wanted(void);

#endif
