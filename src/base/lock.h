/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock of the library: one 4-byte word that is spun on for a moment and then yielded for.
 * For sections of tens of nanoseconds inside one process; nothing may wait for progress, for
 * memory registration or for a peer while it holds one. Not recursive, not fair, not for memory
 * that processes share.
 *
 * The enum below is the only legal order of taking: a thread that waits for a lock must hold
 * only locks of lower rank. Builds with ORL_DEBUG keep a list of held locks per thread and stop
 * at the first reversal, whether or not it would have blocked this time.
 *
 * While the process is single-threaded (orl_lock_set_threaded(false)) the word is kept with
 * plain loads and stores: no locked instruction, and a try on a held lock still fails, which the
 * poller relies on to keep done functions from polling anew.
 *
 * Argument. The word is 0 or 1. Whoever changes 0 to 1 owns the lock: an exchange with acquire
 * order, which reads what the release store of 0 by the previous owner published. A thread that
 * dies as owner leaves the word at 1; the process does not outlive that.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"

enum orl_lock_rank {
    ORL_RANK_INIT,   /* initialise and finalize */
    ORL_RANK_TEAM,   /* team table */
    ORL_RANK_WINDOW, /* one window */
    ORL_RANK_MATCH,  /* matching, one per team */
    ORL_RANK_MEM,    /* token and arena memory */
    ORL_RANK_PEER,   /* peer table */
    ORL_RANK_RCACHE, /* registration cache */
    ORL_RANK_DUE,    /* deadlines of requests */
    ORL_RANK_POLLER, /* try only: never waited for, so what its holder takes is not ordered by it */
    ORL_RANK_TX,     /* building work requests */
    ORL_RANK_POOL,   /* object pools */
    ORL_RANK_LOG,    /* log output */
    ORL_RANK_COUNT
};

struct ORL_CAPABILITY("lock") orl_lock {
    _Atomic uint32_t word; /* 0 free, 1 held */
    uint32_t rank;         /* enum orl_lock_rank */
    const char *name;      /* borrows, for the witness */
};

/* Makes a free lock. The name is kept, not copied. */
void orl_lock_init(struct orl_lock *lock, enum orl_lock_rank rank, const char *name);

/* Ends a lock that nobody holds. Accepts NULL and a zeroed lock. */
void orl_lock_fini(struct orl_lock *lock);

/*
 * Says whether more than one thread may be inside; true at first. The caller is the only thread
 * inside. Locks held across the call stay held.
 */
void orl_lock_set_threaded(bool is_threaded);

/* Takes the lock, waiting for it. */
static inline void orl_lock(struct orl_lock *lock) ORL_ACQUIRES(lock) ORL_NO_LOCK_ANALYSIS;

/* Takes the lock if that is possible at once; true when taken. Any order is legal. */
ORL_MUST_CHECK static inline bool orl_trylock(struct orl_lock *lock)
    ORL_TRY_ACQUIRES(true, lock) ORL_NO_LOCK_ANALYSIS;

/* Gives the lock back. By the thread that took it. */
static inline void orl_unlock(struct orl_lock *lock) ORL_RELEASES(lock) ORL_NO_LOCK_ANALYSIS;

/* Whether some thread holds the lock; for assertions and tests. */
static inline bool orl_lock_is_held(const struct orl_lock *lock)
{
    return atomic_load_explicit(&lock->word, memory_order_relaxed) != 0;
}

/*
 * The witness, called only in builds with ORL_DEBUG. A violation goes to orl_lock_witness_hook:
 * held is the name of the lock that is in the way, NULL when a try-only lock is waited for;
 * wanted is the lock asked for. The hook logs and stops the process; a test may put its own in
 * its place, and the lock is then taken.
 */
typedef void (*orl_lock_witness_fn)(const char *held, const char *wanted);
extern orl_lock_witness_fn orl_lock_witness_hook;

void orl_lock_witness_check(const struct orl_lock *wanted);
void orl_lock_witness_add(const struct orl_lock *lock);
void orl_lock_witness_del(const struct orl_lock *lock);

/* Number of locks the calling thread holds, 0 in builds without ORL_DEBUG. */
unsigned orl_lock_witness_count(void);

/* Inner parts of the functions above. */
extern atomic_bool orl_lock_threaded;

void orl_lock_wait(struct orl_lock *lock);

static inline bool orl_lock_grab(struct orl_lock *lock)
{
    if (orl_lock_is_held(lock)) {
        return false;
    }
    if (!atomic_load_explicit(&orl_lock_threaded, memory_order_relaxed)) {
        atomic_store_explicit(&lock->word, 1, memory_order_relaxed);
        return true;
    }
    return atomic_exchange_explicit(&lock->word, 1, memory_order_acquire) == 0;
}

static inline void orl_lock(struct orl_lock *lock)
{
    if (ORL_IS_DEBUG) {
        orl_lock_witness_check(lock);
    }
    if (ORL_UNLIKELY(!orl_lock_grab(lock))) {
        orl_lock_wait(lock);
    }
    if (ORL_IS_DEBUG) {
        orl_lock_witness_add(lock);
    }
}

static inline bool orl_trylock(struct orl_lock *lock)
{
    bool is_taken = orl_lock_grab(lock);

    if (ORL_IS_DEBUG && is_taken) {
        orl_lock_witness_add(lock);
    }
    return is_taken;
}

static inline void orl_unlock(struct orl_lock *lock)
{
    orl_assert(orl_lock_is_held(lock));
    if (ORL_IS_DEBUG) {
        orl_lock_witness_del(lock);
    }
    atomic_store_explicit(&lock->word, 0, memory_order_release);
}

#endif
