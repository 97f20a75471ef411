/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two memories of every rank; see memories.h. Tokens travel through the memory all ranks of a test
 * share.
 */
#include "tests/core/memories.h"

#include <stdlib.h>

#include "tests/t.h"

struct token {
    size_t bytes;
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
};

struct oriel_mem *mem[MEMORIES];
struct oriel_remote *remote[MEMORIES][RANKS];
unsigned char *private_memory;

static struct token *token_of(int memory, int rank)
{
    return (struct token *)t_shared + memory * RANKS + rank;
}

void open_memory(int rank)
{
    private_memory = calloc(1, BYTES);
    t_check_ok(oriel_mem_alloc(BYTES, NULL, &mem[MAPPED]));
    t_check_ok(oriel_mem_register(private_memory, BYTES, NULL, &mem[PRIVATE]));
    for (int m = 0; m < MEMORIES; m++) {
        struct token *token = token_of(m, rank);

        t_check_ok(oriel_token_pack(mem[m], token->token, sizeof(token->token), &token->bytes));
    }
    t_meet(RANKS);
    for (int m = 0; m < MEMORIES; m++) {
        for (int r = 0; r < RANKS; r++) {
            t_check_ok(
                oriel_token_open(token_of(m, r)->token, token_of(m, r)->bytes, &remote[m][r]));
        }
    }
}

void close_memory(void)
{
    t_meet(RANKS);
    for (int m = 0; m < MEMORIES; m++) {
        for (int r = 0; r < RANKS; r++) {
            t_check_ok(oriel_remote_close(remote[m][r]));
        }
        t_check_ok(oriel_mem_free(mem[m]));
    }
    free(private_memory);
}

bool is_mapped(struct oriel_remote *r)
{
    struct oriel_remote_info info = { .size = sizeof(info) };

    t_check_ok(oriel_remote_query(r, &info));
    return info.direct == 1;
}
