/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Planted faults. A mutant is a transport that is right but for one thing: the tables of an
 * opened engine and of its endpoints are replaced by copies that go through a fault first. The
 * contract must find each, which test_mutants.c requires; so a case that no longer looks is found.
 *
 * Faults work with shadows: copies of ops that the real transport gets in place of the poster's.
 * For one thread; they run in a child that ends at the first finding.
 */
#ifndef TESTS_FABRIC_MUTANT_H
#define TESTS_FABRIC_MUTANT_H

#include "base/fifo.h"
#include "fabric/transport.h"

#define MUTANT_BUFFER 256

struct mutant_engine;
struct mutant_shadow;

/* Stands before an endpoint's data table. */
struct mutant_ep {
    struct fab_ep_ops table;
    const struct fab_ep_ops *real;
    struct fab_ep *ep;
    struct mutant_engine *engine;
    uint64_t n;      /* calls of the fault so far */
    uint64_t shorts; /* short messages that could go */
    struct mutant_ep *next;
};

/* Stands before an engine's control table. */
struct mutant_engine {
    struct fab_transport_ops table;
    const struct fab_transport_ops *real;
    struct fab_engine *engine;
    struct mutant_ep *eps;
    struct orl_fifo late; /* shadows that wait, in order */
    uint64_t nbig;        /* of the unfair fault: large ops under way */
    struct fab_op *last;  /* op a fault remembers */
    void *memory;         /* memory a fault remembers */
    struct fab_rkey key;  /* key a fault remembers */
    bool has_key;
    bool is_stopped;
};

/* A copy of an op, or some later deed. */
struct mutant_shadow {
    struct fab_op op;     /* what the real transport gets */
    struct orl_link link; /* in late */
    struct mutant_ep *mep;
    struct fab_op *user; /* the poster's op, finished with this one; NULL: nobody's */
    unsigned ticks;      /* progress calls to wait at the head of late */
    /* What to do when its time has come; false: ask again next time. */
    bool (*run)(struct mutant_shadow *shadow);
    /* In place of finishing the user's op; NULL: finish it. */
    void (*finish)(struct mutant_shadow *shadow, int status);
    struct fab_rkey key; /* a changed key for op */
    unsigned char buffer[MUTANT_BUFFER];
    void *copy; /* owns: data taken along */
};

/* One fault. Slots that are NULL leave that part right. */
struct mutant_fault {
    const char *what;                                         /* what is wrong, in words */
    const char *found_by;                                     /* the case that must find it */
    void (*post)(struct mutant_ep *mep, struct fab_op *op);   /* one op at a time */
    void (*finish)(struct mutant_shadow *shadow, int status); /* of every op */
    int (*put_short)(struct mutant_ep *mep, const struct fab_rkey *key, uint64_t offset,
                     const void *src, size_t bytes);
    int (*send_short)(struct mutant_ep *mep, unsigned handler, uint64_t header, const void *src,
                      size_t bytes);
    int (*rkey_open)(struct mutant_engine *at, struct fab_ep *ep, const void *blob, size_t bytes,
                     struct fab_rkey *key);
    void (*opened)(struct fab_ep *ep);
    void (*stopped)(struct mutant_engine *at);
    void (*tick)(struct mutant_engine *at);                     /* each progress call */
    void (*chain)(struct mutant_ep *mep, struct fab_op *chain); /* a whole chain */
    bool late_outlives_stop; /* what waits is done even when the endpoint has been stopped */
};

extern const struct mutant_fault mutant_call_faults[];
extern const size_t mutant_ncall_faults;
extern const struct mutant_fault mutant_data_faults[];
extern const size_t mutant_ndata_faults;
extern const struct mutant_fault mutant_memory_faults[];
extern const size_t mutant_nmemory_faults;

/* Changes nothing either, but sends every op through a shadow. */
extern const struct mutant_fault mutant_shadows_only;

/* Fault by number, 1 to mutant_count(); 0 is the fault that changes nothing. */
const struct mutant_fault *mutant_at(size_t number);
size_t mutant_count(void);
/* Plant it in every engine opened from now on. */
void mutant_plant(const struct mutant_fault *fault);

/* A shadow of op, or with op NULL an empty one. */
struct mutant_shadow *mutant_shadow(struct mutant_ep *mep, struct fab_op *op);
/* Give the shadow to the real transport. */
void mutant_post(struct mutant_shadow *shadow);
/* Do run (NULL: mutant_post) once everything before it in late is done and `ticks` polls passed. */
void mutant_later(struct mutant_shadow *shadow, unsigned ticks,
                  bool (*run)(struct mutant_shadow *shadow));
/* Finish the poster's op with status. */
void mutant_finish(struct mutant_shadow *shadow, int status);
/* For run: finish the user's op as fine, then end the shadow. */
bool mutant_finish_fine(struct mutant_shadow *shadow);
/* End a shadow that was never posted. */
void mutant_free(struct mutant_shadow *shadow);
/* Take the op's source along, so that it may be read later. */
void mutant_take_copy(struct mutant_shadow *shadow, const void *src, size_t bytes);

#endif
