/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A path whose transport does nothing: what is posted is held until the test ends it, in any order,
 * with any status, from any thread. So deadlines, errors and late completions happen when a test
 * says so. Stands in a process that is set up by hand, without oriel_init.
 */
#ifndef TESTS_CORE_FAKE_PATH_H
#define TESTS_CORE_FAKE_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/mem/mem.h"
#include "core/path/path.h"

#define FAKE_HELD  64
#define FAKE_BYTES 4096

struct fake_path {
    struct core_path path;
    struct fab_ep ep;
    struct oriel_remote remote; /* FAKE_BYTES of this rank, not mapped here */
    struct fab_op *held[FAKE_HELD];
    int nheld;
    struct orl_lock *lock; /* NULL, or guards held: of tests with a thread that ends operations */
    int nposts;            /* chains posted */
};

/* The process: initialised, `size` ranks on other hosts, settings from the environment. */
void fake_open(int size);
/* Returns what core_reqs_close did. */
uint64_t fake_close(void);

void fake_path_init(struct fake_path *fake, int rank);
/* End the held operation of this place (the others move up): puts a byte pattern where a get lands
 * when status is 0. */
void fake_end(struct fake_path *fake, int place, int status);
/* Take a held operation out; its done has to run. */
struct fab_op *fake_take(struct fake_path *fake, int place);
void fake_end_all(struct fake_path *fake, int status);

#endif
