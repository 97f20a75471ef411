/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plain socket between the two processes of bare_ofi: who is who, and bytes that are never
 * measured. While one waits for the other, what is under test must move on its side, so every wait
 * calls a function over and over.
 */
#ifndef TESTS_PERF_BARE_LINK_H
#define TESTS_PERF_BARE_LINK_H

#include <stdbool.h>
#include <stddef.h>

/* Without a rank in the environment (BARE_RANK, PMIX_RANK) the second process is a fork of this
 * one. Rank 1 listens at BARE_AT (default 127.0.0.1), port BARE_PORT. False after saying why not.
 */
bool bare_link_open(int *rank);
/* Ends the other process, when it is ours, by waiting for it: false when it failed. */
bool bare_link_close(void);
/* My own address, as the other one reaches it, in digits. */
const char *bare_link_address(void);
/* Whether both ends are on one address. */
bool bare_link_is_local(void);
/* The socket, for who waits for it along with something else. */
int bare_link_fd(void);

/* Send `bytes` of mine and receive as many of the other's; idle is called while nothing comes.
 * False when the other one is gone. */
bool bare_link_swap(const void *mine, void *theirs, size_t bytes, void (*idle)(void));

#endif
