/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for what is posted and under way. Not of the heap: a test that counts the heap's bytes
 * counts its own, however much happens to be held back here. Lock held.
 */
#include "strict.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CLASSES     16 /* of 64 bytes, 128, ... */
#define CHUNK_BYTES ((size_t)1 << 18)

struct block {
    union {
        struct block *next; /* while free */
        size_t bin;         /* while used */
    };
    uint64_t pad;
};

static struct block *free_of[CLASSES];

static void grow(size_t bin)
{
    size_t bytes = (size_t)64 << bin;
    size_t chunk = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    unsigned char *memory =
        mmap(NULL, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t at;

    if (memory == MAP_FAILED) {
        return;
    }
    for (at = 0; at + bytes <= chunk; at += bytes) {
        struct block *block = (struct block *)(void *)(memory + at);

        block->next = free_of[bin];
        free_of[bin] = block;
    }
}

void *st_alloc(size_t bytes)
{
    struct block *block;
    size_t bin = 0;

    while (bin < CLASSES && ((size_t)64 << bin) < bytes + sizeof *block) {
        bin++;
    }
    if (bin == CLASSES) {
        return NULL;
    }
    if (free_of[bin] == NULL) {
        grow(bin);
    }
    block = free_of[bin];
    if (block == NULL) {
        return NULL;
    }
    free_of[bin] = block->next;
    block->bin = bin;
    memset(block + 1, 0, bytes);
    return block + 1;
}

void st_free(void *memory)
{
    struct block *block = memory;
    size_t bin;

    if (block == NULL) {
        return;
    }
    block--;
    bin = block->bin;
    memset(block + 1, 0xdd, ((size_t)64 << bin) - sizeof *block);
    block->next = free_of[bin];
    free_of[bin] = block;
}
