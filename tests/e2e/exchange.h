/* SPDX-License-Identifier: BSD-3-Clause */
/* What the rank programs of this folder share: errors that end a rank, everybody's token. */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include <oriel.h>

/* The status, when it is ORIEL_OK; else says what failed and ends this rank with 1. */
int check(int status, const char *what);

/* Everybody's memory by everybody, by rank. The caller closes each and frees the array. */
struct oriel_remote **exchange(struct oriel_mem *mem);

#endif
