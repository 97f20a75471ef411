/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of test_soak in which memory comes and goes. Every rank has two guests: registrations
 * that it ends and makes anew while others put to them and get from them. Whoever visits meets what
 * it has put there or that the memory is gone; the owner finds that nobody has touched memory whose
 * registration it had ended.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/core/soak.h"
#include "tests/t.h"

enum {
    SLICE = 65536, /* of a visitor */
    BYTES = SOAK_RANKS * SLICE
};

/* Mine. Two memories in turn: while one is registered the other holds a stamp. */
struct guest {
    struct oriel_mem *mem;
    bool is_allocated;
    unsigned which;
    unsigned char *memory[2];
    uint64_t stamp[2]; /* 0: none yet */
};

/* Somebody's, as I know it. */
struct visit {
    int rank;
    unsigned guest;
    uint32_t version;
    struct oriel_remote *remote;
    struct oriel_request *request;
    uint64_t at; /* of the request */
    uint64_t bytes;
    bool is_get;
    unsigned char *known; /* [SLICE] */
    unsigned char *local; /* [SLICE] */
};

static struct guest guests[SOAK_GUESTS];
static struct visit visits[SOAK_RANKS][SOAK_GUESTS];
static uint64_t stamps;
static uint64_t seen;    /* gets that brought what had been put */
static uint64_t refused; /* accesses that met memory that was gone */

static struct soak_lobby *lobby_of(int rank, unsigned guest)
{
    return &((struct soak_shared *)t_shared)->lobby[rank][guest];
}

static void lock(struct soak_lobby *lobby)
{
    while (atomic_exchange(&lobby->lock, 1) != 0) {
        t_sleep_ms(1);
    }
}

static void unlock(struct soak_lobby *lobby)
{
    atomic_store(&lobby->lock, 0);
}

/* ---------------------------------------------------------------- the owner */

static void check_stamp(const struct guest *guest, unsigned which)
{
    if (guest->stamp[which] != 0) {
        t_check_eq((long long)t_differs(guest->memory[which], BYTES, (uint64_t)t_rank,
                                        guest->stamp[which], 0),
                   BYTES);
    }
}

static void end_guest(struct guest *guest)
{
    t_check_ok(oriel_mem_free(guest->mem));
    if (!guest->is_allocated) {
        guest->stamp[guest->which] = ++stamps;
        t_fill(guest->memory[guest->which], BYTES, (uint64_t)t_rank, stamps, 0);
    }
    guest->mem = NULL;
}

static void make_guest(struct guest *guest)
{
    unsigned which = 1 - guest->which;

    guest->is_allocated = soak_draw(3) == 0;
    if (guest->is_allocated) {
        t_check_ok(oriel_mem_alloc(BYTES, NULL, &guest->mem));
        return;
    }
    check_stamp(guest, which);
    guest->which = which;
    guest->stamp[which] = 0;
    memset(guest->memory[which], 0, BYTES);
    t_check_ok(oriel_mem_register(guest->memory[which], BYTES, NULL, &guest->mem));
}

static void renew(unsigned i)
{
    struct soak_lobby *lobby = lobby_of(t_rank, i);
    struct soak_token token;

    end_guest(&guests[i]);
    make_guest(&guests[i]);
    t_check_ok(oriel_token_pack(guests[i].mem, token.token, sizeof(token.token), &token.bytes));
    lock(lobby);
    lobby->token = token;
    lobby->version++;
    unlock(lobby);
}

/* ---------------------------------------------------------------- visitors */

static bool is_gone(struct visit *visit, int rc)
{
    if (rc != ORIEL_ERR_GONE) {
        t_check_ok(rc);
        return false;
    }
    refused++;
    t_check_ok(oriel_remote_close(visit->remote));
    visit->remote = NULL;
    return true;
}

static bool enter(struct visit *visit)
{
    struct soak_lobby *lobby = lobby_of(visit->rank, visit->guest);
    struct soak_token token;
    uint32_t version;
    int rc;

    lock(lobby);
    token = lobby->token;
    version = lobby->version;
    unlock(lobby);
    rc = oriel_token_open(token.token, token.bytes, &visit->remote);
    if (rc == ORIEL_ERR_GONE) {
        return false;
    }
    t_check_ok(rc);
    if (version != visit->version) {
        memset(visit->known, 0, SLICE);
        visit->version = version;
    }
    return true;
}

static void came(struct visit *visit, int rc)
{
    unsigned char *known = visit->known + visit->at;
    unsigned char *local = visit->local + visit->at;

    if (visit->remote == NULL || is_gone(visit, rc)) {
        return;
    }
    if (visit->is_get) {
        t_check(memcmp(known, local, visit->bytes) == 0);
        seen++;
    } else {
        memcpy(known, local, visit->bytes);
    }
}

static void finish(struct visit *visit)
{
    if (visit->request != NULL) {
        came(visit, oriel_wait(&visit->request, NULL));
    }
}

/* A put, or a get of what was put, in one of the forms. */
static void do_one(struct visit *visit)
{
    uint64_t there = (uint64_t)t_rank * SLICE;
    unsigned char *local;
    bool is_start = soak_draw(2) == 0;

    visit->bytes = soak_draw_bytes(soak_draw(4) == 0 ? SLICE : 4096);
    visit->at = soak_draw(SLICE - visit->bytes + 1);
    visit->is_get = soak_draw(2) == 0;
    there += visit->at;
    local = visit->local + visit->at;
    soak_flush(visit->rank);
    if (!visit->is_get) {
        t_fill(local, visit->bytes, (uint64_t)t_rank, soak_draw(1000000), visit->at);
    }
    if (is_start && visit->is_get) {
        t_check_ok(oriel_get_start(visit->remote, there, local, visit->bytes, &visit->request));
    } else if (is_start) {
        t_check_ok(oriel_put_start(visit->remote, there, local, visit->bytes, &visit->request));
    } else if (visit->is_get) {
        came(visit, oriel_get(visit->remote, there, local, visit->bytes));
    } else {
        came(visit, oriel_put(visit->remote, there, local, visit->bytes));
    }
}

static void release(const struct visit *visit)
{
    struct soak_token token;
    struct soak_lobby *lobby = lobby_of(visit->rank, visit->guest);

    lock(lobby);
    token = lobby->token;
    unlock(lobby);
    t_check_ok(oriel_token_release(token.token, token.bytes));
}

void soak_guests_step(void)
{
    uint64_t what = soak_draw(16);
    int rank = (int)soak_draw(SOAK_RANKS);
    unsigned guest = (unsigned)soak_draw(SOAK_GUESTS);
    struct visit *visit = &visits[rank][guest];

    if (what == 0) {
        renew(guest);
        return;
    }
    finish(visit);
    if (what == 1) {
        release(visit);
    } else if (what == 2 && visit->remote != NULL) {
        t_check_ok(oriel_remote_close(visit->remote));
        visit->remote = NULL;
    } else if (visit->remote != NULL || enter(visit)) {
        do_one(visit);
    }
}

/* ---------------------------------------------------------------- all of them */

void soak_guests_open(int rank)
{
    for (unsigned g = 0; g < SOAK_GUESTS; g++) {
        guests[g] = (struct guest){ .mem = NULL };
        guests[g].memory[0] = malloc(BYTES);
        guests[g].memory[1] = malloc(BYTES);
        renew(g);
        for (int r = 0; r < SOAK_RANKS; r++) {
            visits[r][g] = (struct visit){ .rank = r, .guest = g };
            visits[r][g].known = malloc(SLICE);
            visits[r][g].local = malloc(SLICE);
        }
    }
    (void)rank;
}

void soak_guests_leave(void)
{
    for (unsigned i = 0; i < SOAK_RANKS * SOAK_GUESTS; i++) {
        struct visit *visit = &visits[i / SOAK_GUESTS][i % SOAK_GUESTS];

        finish(visit);
        t_check_ok(oriel_remote_close(visit->remote));
        free(visit->known);
        free(visit->local);
    }
}

void soak_guests_close(void)
{
    t_check(seen > 0 && refused > 0);
    for (unsigned g = 0; g < SOAK_GUESTS; g++) {
        end_guest(&guests[g]);
        check_stamp(&guests[g], 0);
        check_stamp(&guests[g], 1);
        free(guests[g].memory[0]);
        free(guests[g].memory[1]);
    }
}
