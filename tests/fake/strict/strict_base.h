/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of the provider `strict` share that is no object: lists, settings, chance,
 * complaints.
 */
#ifndef TESTS_FAKE_STRICT_BASE_H
#define TESTS_FAKE_STRICT_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

#include "strict_api.h"

#define ST_PING_MS 200 /* waiting so long for an answer, see whether the peer is there at all */

/* ---------------------------------------------------------------- lists */

struct st_link {
    struct st_link *next;
    struct st_link *prev;
};

#define st_of(ptr, type, member) ((type *)((uintptr_t)(ptr)-offsetof(type, member)))

static inline void st_list_init(struct st_link *list)
{
    list->next = list;
    list->prev = list;
}

static inline void st_list_add(struct st_link *list, struct st_link *link)
{
    link->next = list;
    link->prev = list->prev;
    list->prev->next = link;
    list->prev = link;
}

static inline void st_list_del(struct st_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    st_list_init(link);
}

static inline bool st_list_is_empty(const struct st_link *list)
{
    return list->next == list;
}

/* The body may take the current link out. */
#define st_each(link, after, list)                                     \
 for ((link) = (list)->next, (after) = (link)->next; (link) != (list); \
      (link) = (after), (after) = (link)->next)

/* ---------------------------------------------------------------- settings (strict_note.c) */

struct st_conf {
    uint64_t seed;
    uint64_t depth;    /* sends, writes and reads posted and not read from the queue */
    uint64_t rx_size;  /* receives posted */
    uint64_t msg_max;  /* bytes of a message */
    uint64_t rma_max;  /* bytes of a write or read */
    uint64_t inject;   /* bytes of an injected message; 0: not offered */
    uint64_t eagain;   /* of 100 posts so many begin a burst of -FI_EAGAIN */
    uint64_t reorder;  /* polls that anything may be held back */
    uint64_t early;    /* of 100 ops without delivery-complete so many complete before they go */
    uint64_t drop;     /* after so many posts the peer of the last one is gone; 0: never */
    uint64_t reg_fail; /* every n-th registration is refused; 0: none */
    uint64_t cq_fail;  /* after so many reads of queues every read fails; 0: never */
    uint64_t wait;     /* wait objects are offered */
    uint64_t dc;       /* FI_DELIVERY_COMPLETE is offered */
    uint64_t rx_data;  /* CQ data takes a posted receive (FI_RX_CQ_DATA) */
    uint64_t abort;    /* abort at the first violation */
    uint64_t verbose;  /* say what was refused too */
    char inner[64];    /* provider below */
};

extern struct st_conf st_conf;
extern struct strict_counts st_counts;
extern const struct strict_api st_api;

/* Read the environment, once. */
void st_conf_load(void);
void st_lock(void);
void st_unlock(void);
/* 0 .. below - 1, by the seed. Lock held. */
uint64_t st_random(uint64_t below);
uint64_t st_now_ms(void);
/* The user broke the contract. Any thread, lock held or not. */
void st_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What the provider does not have was asked for: counts, -FI_EOPNOTSUPP. */
int st_unsupported(const char *what);
/* A thing done on purpose, for STRICT_VERBOSE. */
void st_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* ops_open of all fids. */
int st_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
/* Errors of the card, as the queue's provider errno. */
enum st_error {
    ST_OK,
    ST_E_KEY = 7,           /* no such key at the target, or for other memory or another use */
    ST_E_CLOSED = 9,        /* the peer is not there any more */
    ST_E_TRUNCATED = 11,    /* the receive is too small */
    ST_E_UNRESPONSIVE = 13, /* the peer does not answer */
    ST_E_UNKNOWN = 14       /* the target does not know the initiator */
};

/* Defaults of struct fi_ops. */
int st_no_bind(struct fid *fid, struct fid *other, uint64_t flags);
int st_no_control(struct fid *fid, int command, void *arg);

#endif
