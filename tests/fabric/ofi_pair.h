/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two engines of the libfabric transport in one process, and bad weather between the first of them
 * and its provider: the calls it makes pass through tables of this rig, which may turn posts away,
 * keep completions back, put strange ones among them, or fail.
 */
#ifndef TESTS_FABRIC_OFI_PAIR_H
#define TESTS_FABRIC_OFI_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include <criterion/criterion.h>

#include "fabric/ofi/ofi.h"

#define PAIR_PATIENCE (20 * ORL_NS_PER_S)
#define PAIR_HANDLER  4
#define PAIR_MOST     256 /* messages of one storm */

struct pair_weather {
    bool nulls;       /* entries without a context between the others */
    bool doubles;     /* completions of sends come twice */
    bool withholds;   /* completions of sends are kept back */
    int read_fails;   /* what each read returns instead; 0: nothing */
    int send_fails;   /* what each send returns instead; 0: nothing */
    int error;        /* with read_fails -FI_EAVAIL: of the entry that is read then */
    int native;       /* completions kept back end in an error with this number of the provider */
    unsigned refuses; /* so many sends yet are turned away */
    /* What was seen. */
    unsigned reads;
    unsigned entries; /* most that one read brought */
    unsigned sends;   /* taken */
    unsigned refused;
    unsigned flying;  /* at the provider now, as far as the engine knows */
    unsigned most;    /* ever */
    unsigned removed; /* addresses */
};

struct pair_op {
    struct fab_op op;
    unsigned index;
    unsigned ends;
    int status;
};

extern struct fab pair_a;
extern struct fab pair_b;
extern struct pair_weather pair_weather;
extern unsigned pair_came;             /* messages at b */
extern unsigned pair_order[PAIR_MOST]; /* their numbers as they came */
extern unsigned pair_ended;            /* ops, all together */

/* Engines over provider `provider`; the weather is a's. */
void pair_open(const char *provider);
void pair_close(void);
void pair_poll(void);
/* An endpoint of `from` to `to`. */
struct fab_ep *pair_ep(struct fab *from, struct fab *to);
/* Message number `index` by op, which must stay until it has ended. */
void pair_send(struct fab_ep *ep, struct pair_op *op, unsigned index);
/* The same, not posted yet. */
void pair_prepare(struct pair_op *op, unsigned index);

static inline struct ofi_engine *pair_engine(const struct fab *fabric)
{
    return ofi_of(fabric->engine[0]);
}

/* Progress of both while `condition` does not hold. */
#define PAIR_UNTIL(condition)                                  \
 do {                                                          \
  uint64_t limit = orl_clock_ns() + PAIR_PATIENCE;             \
  while (!(condition)) {                                       \
   pair_poll();                                                \
   cr_assert(orl_clock_ns() < limit, "never: %s", #condition); \
  }                                                            \
 } while (0)

#endif
