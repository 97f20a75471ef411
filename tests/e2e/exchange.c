/* SPDX-License-Identifier: BSD-3-Clause */
#include "exchange.h"

#include <stdio.h>
#include <stdlib.h>

int check(int status, const char *what)
{
    if (status != ORIEL_OK) {
        fprintf(stderr, "rank %d: %s: %s: %s\n", oriel_rank(), what, oriel_error_name(status),
                oriel_error_detail());
        exit(1);
    }
    return status;
}

struct oriel_remote **exchange(struct oriel_mem *mem)
{
    int n = oriel_size();
    struct oriel_remote **remotes = calloc((size_t)n, sizeof(*remotes));
    for (int root = 0; root < n; root++) {
        unsigned char token[ORIEL_TOKEN_BYTES_MAX] = { 0 };
        size_t bytes = 0;
        if (root == oriel_rank()) {
            check(oriel_token_pack(mem, token, sizeof(token), &bytes), "pack");
        }
        uint64_t length = bytes;
        check(oriel_bcast(&length, 1, ORIEL_UINT64, root, ORIEL_WORLD), "bcast");
        check(oriel_bcast(token, length, ORIEL_BYTE, root, ORIEL_WORLD), "bcast");
        check(oriel_token_open(token, length, &remotes[root]), "open");
    }
    return remotes;
}
