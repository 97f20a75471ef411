/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a start of Oriel costs: prints "RANK resident KIB init MS" of an idle rank that has joined
 * the job and done nothing else. A client of the shared object, as users are.
 */
#include <oriel.h>

#include "start.h"

int main(void)
{
    double began = start_ms();
    if (oriel_init(NULL) != ORIEL_OK) {
        fprintf(stderr, "start_cost: %s\n", oriel_error_detail());
        return 1;
    }
    double took = start_ms() - began;
    int status = oriel_barrier(ORIEL_WORLD);
    start_tell(oriel_rank(), took);
    if (status == ORIEL_OK) {
        status = oriel_barrier(ORIEL_WORLD);
    }
    return oriel_finalize() == ORIEL_OK && status == ORIEL_OK ? 0 : 1;
}
