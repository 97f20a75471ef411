/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slow half of the lock: waiting, the threaded switch, and the witness that keeps per
 * thread the list of held locks and reports a wait out of order. Called by the inline functions
 * of lock.h. The witness's list belongs to its thread, so it needs no lock; the default hook
 * logs, for which the witness is silent meanwhile.
 */
#include "base/lock.h"

#include "base/log.h"
#include "base/sys.h"

#include <sched.h>
#include <stdio.h>

enum {
    /* A pause is 10 to 40 ns: this spins for one to two microseconds, many times as long as any
     * section that these locks guard. */
    SPINS = 64,
    HELD_MAX = 16,
    REPORT_BYTES = 160
};

struct witness {
    const struct orl_lock *held[HELD_MAX]; /* oldest first */
    unsigned count;
    unsigned is_reporting;
};

static void report_reversal(const char *held, const char *wanted);

atomic_bool orl_lock_threaded = true;
orl_lock_witness_fn orl_lock_witness_hook = report_reversal;

static ORL_TLS struct witness my;

void orl_lock_init(struct orl_lock *lock, enum orl_lock_rank rank, const char *name)
{
    atomic_init(&lock->word, 0);
    lock->rank = rank;
    lock->name = name;
}

void orl_lock_fini(struct orl_lock *lock)
{
    orl_assert(lock == NULL || !orl_lock_is_held(lock));
    (void)lock;
}

void orl_lock_set_threaded(bool is_threaded)
{
    atomic_store_explicit(&orl_lock_threaded, is_threaded, memory_order_relaxed);
}

/* Spinning helps only where the owner can run meanwhile. */
static int spins_allowed(void)
{
    static _Atomic int spins = -1;
    int known = atomic_load_explicit(&spins, memory_order_relaxed);

    if (known < 0) {
        known = orl_sys_cpus_allowed() > 1 ? SPINS : 0;
        atomic_store_explicit(&spins, known, memory_order_relaxed);
    }
    return known;
}

static bool spin_for(struct orl_lock *lock, int spins)
{
    bool is_taken = false;

    for (int i = 0; i < spins && !is_taken; i++) {
        orl_cpu_pause();
        is_taken = orl_lock_grab(lock);
    }
    return is_taken;
}

void orl_lock_wait(struct orl_lock *lock)
{
    int spins = spins_allowed();

    while (!spin_for(lock, spins)) {
        sched_yield();
        if (orl_lock_grab(lock)) {
            return;
        }
    }
}

static const char *name_of(const struct orl_lock *lock)
{
    return lock->name != NULL ? lock->name : "unnamed";
}

ORL_COLD static void report_reversal(const char *held, const char *wanted)
{
    char text[REPORT_BYTES];

    if (held == NULL) {
        snprintf(text, sizeof text, "lock %s is try-only and was waited for", wanted);
    } else {
        snprintf(text, sizeof text, "lock %s was waited for while %s is held", wanted, held);
    }
    orl_log_error(ORL_CAT_BASE, "%s, against the order in base/lock.h", text);
    orl_assert_failed(text, __FILE__, __LINE__);
}

ORL_COLD static void report(const char *held, const char *wanted)
{
    my.is_reporting = 1;
    orl_lock_witness_hook(held, wanted);
    my.is_reporting = 0;
}

void orl_lock_witness_check(const struct orl_lock *wanted)
{
    if (my.is_reporting) {
        return;
    }
    if (wanted->rank == ORL_RANK_POLLER) {
        report(NULL, name_of(wanted));
        return;
    }
    for (unsigned i = 0; i < my.count; i++) {
        const struct orl_lock *held = my.held[i];

        if (held->rank != ORL_RANK_POLLER && held->rank >= wanted->rank) {
            report(name_of(held), name_of(wanted));
            return;
        }
    }
}

/* Locks beyond the list's length, which no legal order can reach, go unwatched. */
void orl_lock_witness_add(const struct orl_lock *lock)
{
    if (!my.is_reporting && my.count < HELD_MAX) {
        my.held[my.count++] = lock;
    }
}

void orl_lock_witness_del(const struct orl_lock *lock)
{
    unsigned i = my.count;

    while (i > 0 && my.held[i - 1] != lock) {
        i--;
    }
    if (i == 0) {
        return;
    }
    my.count--;
    for (i--; i < my.count; i++) {
        my.held[i] = my.held[i + 1];
    }
}

unsigned orl_lock_witness_count(void)
{
    return my.count;
}
