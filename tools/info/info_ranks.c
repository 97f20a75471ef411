/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each rank tells of itself, collected by the library's own collectives, and the question
 * that settings and system leave open until somebody tries: does a copy straight from another
 * process's private memory work here?
 */
#include "info.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROBE_BYTES 65536 /* too much for the line of a message: a straight copy, or cells */

/* What travels to open rank 0's memory. */
struct ticket {
    uint64_t bytes; /* 0: there is none */
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
};

static unsigned char probe[PROBE_BYTES];   /* of rank 0 */
static unsigned char landing[PROBE_BYTES]; /* of the others */

static uint64_t straight_bytes(void)
{
    struct oriel_counter counter = { .size = sizeof(counter) };

    for (size_t i = 0; oriel_counter_query(i, &counter) == ORIEL_OK; i++) {
        if (strcmp(counter.name, "cma_bytes") == 0) {
            return counter.value;
        }
    }
    return 0;
}

static void copy_text(char *to, size_t capacity, const char *text)
{
    (void)snprintf(to, capacity, "%s", text);
}

static bool is_chosen(const char *transport)
{
    struct oriel_transport_info info = { .size = sizeof(info) };

    for (size_t i = 0; oriel_transport_query(i, &info) == ORIEL_OK; i++) {
        if (strcmp(info.name, transport) == 0) {
            return info.state == ORIEL_TRANSPORT_CHOSEN;
        }
    }
    return false;
}

/* The transport that leads to rank 0. */
static const char *way_to_first(void)
{
    if (oriel_rank() == 0) {
        return "self";
    }
    if (oriel_is_local(0) == 1 && is_chosen("shm")) {
        return "shm";
    }
    return is_chosen("ofi") ? "ofi" : "none";
}

/* Fetch rank 0's bytes and look which way they came. */
static void try_memory(struct info_rank *row, const struct ticket *ticket)
{
    struct oriel_remote *remote = NULL;
    uint64_t before = straight_bytes();
    int status = oriel_token_open(ticket->token, (size_t)ticket->bytes, &remote);

    if (status == ORIEL_OK) {
        status = oriel_get(remote, 0, landing, sizeof(landing));
    }
    if (status != ORIEL_OK) {
        copy_text(row->memory, sizeof(row->memory), oriel_error_detail());
    } else if (straight_bytes() > before) {
        copy_text(row->memory, sizeof(row->memory), "straight, by cross-memory attach");
        row->is_direct = 1;
    } else if (strcmp(row->transport, "shm") != 0) {
        copy_text(row->memory, sizeof(row->memory), "over the network");
    } else {
        copy_text(row->memory, sizeof(row->memory), "through rings, with the owner's help");
    }
    row->is_tried = strcmp(row->transport, "shm") == 0;
    (void)oriel_remote_close(remote);
}

static void describe_me(struct info_rank *row)
{
    char cpus[64];
    int rank = oriel_rank();

    memset(row, 0, sizeof(*row));
    row->rank = rank;
    row->pid = (int32_t)getpid();
    copy_text(row->host, sizeof(row->host), info_fact("topology", "host"));
    copy_text(cpus, sizeof(cpus), info_fact("topology", "cpus_allowed"));
    copy_text(row->cpus, sizeof(row->cpus), cpus);
    copy_text(row->transport, sizeof(row->transport), way_to_first());
    copy_text(row->memory, sizeof(row->memory), rank == 0 ? "its own" : "not tried");
}

/* Rank 0's memory to everybody, then everybody's row to everybody. */
static int exchange(struct info_rank *ranks, struct ticket *ticket)
{
    struct info_rank mine;
    int status = oriel_bcast(ticket, sizeof(*ticket), ORIEL_BYTE, 0, ORIEL_WORLD);

    if (status != ORIEL_OK) {
        return status;
    }
    describe_me(&mine);
    if (oriel_rank() != 0 && ticket->bytes > 0) {
        try_memory(&mine, ticket);
    }
    for (int r = 0; r < oriel_size() && status == ORIEL_OK; r++) {
        ranks[r] = mine;
        status = oriel_bcast(&ranks[r], sizeof(mine), ORIEL_BYTE, r, ORIEL_WORLD);
    }
    /* rank 0's memory stays until the last rank has tried */
    return status == ORIEL_OK ? oriel_barrier(ORIEL_WORLD) : status;
}

int info_ranks_ask(struct info_rank **ranks)
{
    struct ticket ticket = { 0 };
    struct oriel_mem *mem = NULL;
    size_t bytes = 0;
    int status;

    *ranks = calloc((size_t)oriel_size(), sizeof(**ranks));
    if (*ranks == NULL) {
        return ORIEL_ERR_NOMEM;
    }
    if (oriel_rank() == 0 && oriel_size() > 1 &&
        oriel_mem_register(probe, sizeof(probe), NULL, &mem) == ORIEL_OK &&
        oriel_token_pack(mem, ticket.token, sizeof(ticket.token), &bytes) == ORIEL_OK) {
        ticket.bytes = bytes;
    }
    status = exchange(*ranks, &ticket);
    (void)oriel_mem_free(mem);
    return status;
}

/* ---------------------------------------------------------------- alone */

/* In the child: the parent is to it what any other rank's process would be. 0, or errno. */
static int read_parent(pid_t parent, const uint64_t *word)
{
    uint64_t got = 0;
    struct iovec local = { .iov_base = &got, .iov_len = sizeof(got) };
    struct iovec remote = { .iov_base = (void *)(uintptr_t)word, .iov_len = sizeof(got) };
    ssize_t n = process_vm_readv(parent, &local, 1, &remote, 1, 0);

    if (n < 0) {
        return errno;
    }
    return n == (ssize_t)sizeof(got) && got == *word ? 0 : EIO;
}

const char *info_attach_alone(void)
{
    static char words[128];
    static uint64_t word;
    pid_t parent = getpid();
    int status = 0;
    pid_t child;

    word = (uint64_t)parent << 32 | 0x0413;
    (void)fflush(stdout);
    child = fork();
    if (child == 0) {
        _exit(read_parent(parent, &word)); /* error numbers are below 256 here */
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
        return "not tried: no process could be made";
    }
    if (WEXITSTATUS(status) == 0) {
        return "works";
    }
    (void)snprintf(words, sizeof(words), "refused: %s", strerror(WEXITSTATUS(status)));
    return words;
}
