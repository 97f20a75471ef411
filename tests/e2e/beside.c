/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Oriel and another MPI in one process: beside ORDER, where the letters of ORDER are calls in turn:
 * M and m are MPI_Init and MPI_Finalize, O and o oriel_init and oriel_finalize. After each call
 * what is up is used: an allreduce of each, and a put to the next rank. Compiled by the test with
 * the other MPI's mpicc.
 */
#include <mpi.h>
#include <oriel.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int has_mpi, has_oriel;

static void demand(int truth, const char *what)
{
    if (!truth) {
        fprintf(stderr, "beside: %s: %s\n", what, oriel_error_detail());
        exit(1);
    }
}

static void use_mpi(void)
{
    int rank, size, sum;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    demand(sum == size * (size + 1) / 2, "MPI_Allreduce");
    demand(!has_oriel || (oriel_rank() == rank && oriel_size() == size), "ranks and sizes agree");
}

/* Everybody writes to the next rank's memory, whose token went round by a broadcast of each. */
static void use_oriel(void)
{
    int rank = oriel_rank(), size = oriel_size();
    int64_t sum, mine = rank + 1;
    struct oriel_mem *mem;
    struct oriel_remote *next = NULL;
    demand(oriel_allreduce(&mine, &sum, 1, ORIEL_INT64, ORIEL_SUM, ORIEL_WORLD) == 0 &&
               sum == (int64_t)size * (size + 1) / 2,
           "oriel_allreduce");
    demand(oriel_mem_alloc(64, NULL, &mem) == 0, "oriel_mem_alloc");
    for (int root = 0; root < size; root++) {
        unsigned char token[ORIEL_TOKEN_BYTES_MAX] = { 0 };
        size_t bytes = 0;
        demand(rank != root || oriel_token_pack(mem, token, sizeof(token), &bytes) == 0, "pack");
        uint64_t length = bytes;
        demand(oriel_bcast(&length, 1, ORIEL_UINT64, root, ORIEL_WORLD) == 0, "bcast");
        demand(oriel_bcast(token, length, ORIEL_BYTE, root, ORIEL_WORLD) == 0, "bcast");
        demand(root != (rank + 1) % size || oriel_token_open(token, length, &next) == 0, "open");
    }
    demand(oriel_put(next, 0, &mine, sizeof(mine)) == 0 && oriel_flush_all() == 0, "oriel_put");
    demand(oriel_barrier(ORIEL_WORLD) == 0, "oriel_barrier");
    demand(*(int64_t *)oriel_mem_base(mem) == (rank + size - 1) % size + 1, "the put's bytes");
    demand(oriel_remote_close(next) == 0 && oriel_mem_free(mem) == 0, "end");
}

int main(int argc, char **argv)
{
    const char *order = argc > 1 ? argv[1] : "MOom";
    int rank = -1;
    for (const char *step = order; *step != 0; step++) {
        switch (*step) {
        case 'M':
            demand(MPI_Init(&argc, &argv) == MPI_SUCCESS, "MPI_Init");
            has_mpi = 1;
            break;
        case 'm':
            demand(MPI_Finalize() == MPI_SUCCESS, "MPI_Finalize");
            has_mpi = 0;
            break;
        case 'O':
            demand(oriel_init(NULL) == 0, "oriel_init");
            has_oriel = 1;
            rank = oriel_rank();
            break;
        case 'o':
            demand(oriel_finalize() == 0, "oriel_finalize");
            has_oriel = 0;
            break;
        default:
            demand(0, "an order has the letters M m O o");
        }
        if (has_mpi) {
            use_mpi();
        }
        if (has_oriel) {
            use_oriel();
        }
    }
    printf("rank %d: %s is right\n", rank, order);
    return 0;
}
