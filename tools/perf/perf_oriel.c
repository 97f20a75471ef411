/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel-perf on Oriel: perf_ops.h by the calls of oriel.h alone, as a user's program would make
 * them. Control traffic uses types that the tests do not (ORIEL_UINT8, ORIEL_INT64), so that a
 * faulty library made for a test of ours can spoil the one and leave the other alone.
 */
#include "perf_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oriel.h"
#include "perf.h"

enum {
    GETS_AT_ONCE = 32 /* operations of one oriel_run */
};

const char ops_program[] = "oriel-perf";
const char ops_interface[] = "Oriel";

/* A token and its length, as every rank hears it. */
struct offer {
    uint64_t length;
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
};

struct ops_mem {
    struct oriel_mem *mine; /* owns; NULL where this rank offers nothing */
    unsigned char *base;
    bool is_private;
    int size;
    struct oriel_remote *remotes[]; /* owns; by rank, NULL where nothing is offered */
};

static void die(int status, const char *what)
{
    char text[640];

    (void)snprintf(text, sizeof(text), "oriel-perf: rank %d: %s: %s: %s", oriel_rank(), what,
                   oriel_error_name(status), oriel_error_detail());
    fflush(stdout);
    fprintf(stderr, "%s\n", text);
    ops_abort(text);
}

static inline void must(int status, const char *what)
{
    if (status != ORIEL_OK) {
        die(status, what);
    }
}

const char *ops_version(void)
{
    return oriel_version(NULL, NULL, NULL);
}

/* ---------------------------------------------------------------- the job */

bool ops_open(struct ops_job *job)
{
    struct oriel_init_opts init = ORIEL_INIT_OPTS_INIT;
    uint64_t hosts;

    init.flags = ORIEL_INIT_ONE_THREAD;
    if (oriel_init(&init) != ORIEL_OK) {
        fprintf(stderr, "oriel-perf: cannot start: %s\n", oriel_error_detail());
        return false;
    }
    job->rank = oriel_rank();
    job->size = oriel_size();
    hosts = oriel_local_rank() == 0; /* one rank of each host has this number */
    ops_sum(&hosts, 1);
    job->hosts = (int)hosts;
    return true;
}

bool ops_close(void)
{
    if (oriel_finalize() != ORIEL_OK) {
        fprintf(stderr, "oriel-perf: cannot end well: %s\n", oriel_error_detail());
        return false;
    }
    return true;
}

void ops_abort(const char *text)
{
    oriel_abort(PERF_FAILED, text);
    exit(PERF_FAILED);
}

/* The transport in use that reaches that far and no further; NULL: there is none. */
static const char *transport_at(const char *level)
{
    static struct oriel_transport_info info;

    info.size = sizeof(info);
    for (size_t i = 0; oriel_transport_query(i, &info) == ORIEL_OK; i++) {
        if (info.state == ORIEL_TRANSPORT_CHOSEN && strcmp(info.level, level) == 0) {
            return info.name;
        }
    }
    return NULL;
}

const char *ops_transport(int rank)
{
    const char *name = oriel_is_local(rank) == 1 ? transport_at("host") : NULL;

    if (rank == oriel_rank()) {
        return "self";
    }
    if (name == NULL) {
        name = transport_at("NIC");
    }
    if (name == NULL) {
        name = transport_at("network");
    }
    return name != NULL ? name : "none";
}

/* ---------------------------------------------------------------- memory */

static void make_memory(struct ops_mem *mem, size_t bytes)
{
    if (mem->is_private) {
        mem->base = perf_alloc(bytes);
        must(oriel_mem_register(mem->base, bytes, NULL, &mem->mine), "mem_register");
    } else {
        must(oriel_mem_alloc(bytes, NULL, &mem->mine), "mem_alloc");
        mem->base = oriel_mem_base(mem->mine);
    }
    memset(mem->base, 0, bytes);
}

struct ops_mem *ops_mem_open(size_t bytes, enum ops_memory kind)
{
    int size = oriel_size();
    struct ops_mem *mem = calloc(1, sizeof(*mem) + (size_t)size * sizeof(struct oriel_remote *));

    if (mem == NULL) {
        ops_abort("oriel-perf: no memory");
    }
    mem->is_private = kind == OPS_MEMORY_PRIVATE;
    mem->size = size;
    if (bytes > 0) {
        make_memory(mem, bytes);
    }
    for (int rank = 0; rank < size; rank++) {
        struct offer offer = { .length = 0 };
        size_t length = 0;

        if (rank == oriel_rank() && mem->mine != NULL) {
            must(oriel_token_pack(mem->mine, offer.token, sizeof(offer.token), &length),
                 "token_pack");
            offer.length = length;
        }
        ops_share(&offer, sizeof(offer), rank);
        if (offer.length > 0) {
            must(oriel_token_open(offer.token, offer.length, &mem->remotes[rank]), "token_open");
        }
    }
    return mem;
}

unsigned char *ops_mem_base(const struct ops_mem *mem)
{
    return mem->base;
}

void ops_mem_close(struct ops_mem *mem)
{
    for (int rank = 0; rank < mem->size; rank++) {
        must(oriel_remote_close(mem->remotes[rank]), "remote_close");
    }
    ops_sync(mem);
    must(oriel_mem_free(mem->mine), "mem_free");
    if (mem->is_private) {
        free(mem->base);
    }
    free(mem);
}

/* ---------------------------------------------------------------- control */

void ops_sync(struct ops_mem *mem)
{
    uint64_t nothing = 0;

    (void)mem;
    ops_largest(&nothing, 1);
}

void ops_share(void *data, size_t bytes, int root)
{
    must(oriel_bcast(data, bytes, ORIEL_UINT8, root, ORIEL_WORLD), "bcast");
}

void ops_largest(uint64_t *numbers, size_t n)
{
    must(oriel_allreduce(ORIEL_IN_PLACE, numbers, n, ORIEL_INT64, ORIEL_MAX, ORIEL_WORLD),
         "allreduce");
}

void ops_sum(uint64_t *numbers, size_t n)
{
    must(oriel_allreduce(ORIEL_IN_PLACE, numbers, n, ORIEL_INT64, ORIEL_SUM, ORIEL_WORLD),
         "allreduce");
}

/* ---------------------------------------------------------------- measured */

static void put_window(const struct ops_move *move, struct oriel_remote *remote)
{
    size_t place = 0;

    for (uint64_t i = 0; i < move->window; i++) {
        must(oriel_put(remote, move->at + place, move->local + place, move->bytes), "put");
        place = place + move->bytes < move->span ? place + move->bytes : 0;
    }
}

void ops_put(const struct ops_move *move, uint64_t n)
{
    struct oriel_remote *remote = move->mem->remotes[move->target];

    if (move->window == 1) {
        for (uint64_t i = 0; i < n; i++) {
            must(oriel_put(remote, move->at, move->local, move->bytes), "put");
            must(oriel_flush(move->target), "flush");
        }
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        put_window(move, remote);
        must(oriel_flush(move->target), "flush");
    }
}

/* As a few batches with one completion each. */
static void get_window(const struct ops_move *move, struct oriel_remote *remote)
{
    struct oriel_xfer ops[GETS_AT_ONCE];
    uint64_t left = move->window;
    size_t place = 0;

    memset(ops, 0, sizeof(ops));
    while (left > 0) {
        uint64_t count = 0;

        for (; count < left && count < GETS_AT_ONCE; count++) {
            ops[count].kind = ORIEL_GET;
            ops[count].remote = remote;
            ops[count].offset = move->at + place;
            ops[count].dst = move->local + place;
            ops[count].bytes = move->bytes;
            place = place + move->bytes < move->span ? place + move->bytes : 0;
        }
        must(oriel_run(ops, count, NULL), "run");
        left -= count;
    }
}

void ops_get(const struct ops_move *move, uint64_t n)
{
    struct oriel_remote *remote = move->mem->remotes[move->target];

    if (move->window == 1) {
        for (uint64_t i = 0; i < n; i++) {
            must(oriel_get(remote, move->at, move->local, move->bytes), "get");
        }
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        get_window(move, remote);
    }
}

uint64_t ops_add(struct ops_mem *mem, int target, uint64_t at, uint64_t operand, uint64_t n)
{
    struct oriel_remote *remote = mem->remotes[target];
    uint64_t old = 0;

    for (uint64_t i = 0; i < n; i++) {
        must(oriel_atomic64(remote, at, ORIEL_ATOMIC_ADD, operand, &old), "atomic");
    }
    return old;
}

uint64_t ops_swap(struct ops_mem *mem, int target, uint64_t at, uint64_t first, uint64_t n)
{
    struct oriel_remote *remote = mem->remotes[target];
    uint64_t old = 0;

    for (uint64_t i = first; i < first + n; i++) {
        must(oriel_compare_swap64(remote, at, i, i + 1, &old), "compare_swap");
    }
    return old;
}

void ops_barrier(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        must(oriel_barrier(ORIEL_WORLD), "barrier");
    }
}

void ops_bcast(void *data, size_t bytes, int root, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        must(oriel_bcast(data, bytes, ORIEL_BYTE, root, ORIEL_WORLD), "bcast");
    }
}

void ops_allreduce(const void *send, void *recv, size_t count, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        must(oriel_allreduce(send, recv, count, ORIEL_UINT64, ORIEL_SUM, ORIEL_WORLD), "allreduce");
    }
}
