/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registration table: which memory of which rank may be touched by peers, and the proof that
 * nobody touches it any more.
 *
 * Argument. An origin exchanges its hazard word, then reads the generation. The owner exchanges the
 * generation, then reads the hazard words. All four are sequentially consistent, so they have one
 * total order: if the origin read the old generation, its exchange stands before the owner's reads,
 * and the owner waits until the word goes; otherwise the origin sees the new generation and touches
 * nothing. The release store that clears the word is what the owner's last read acquires, so all
 * that the origin did to the memory is done.
 *
 * A word whose thread died with its process never goes; the owner looks every millisecond whether
 * the process lives, and passes over the dead. Entries are written by their owner alone. Slots are
 * given out again in the order in which they ended; the lock of the slots is held for that only.
 */
#include "fabric/node.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "fabric/node_priv.h"

#define PIECE_SLOTS    512u /* pages of the table are made for this many slots at a time: 16 KiB */
#define WAIT_PAUSES    200u /* looks with a pause between them, a few microseconds in all */
#define WAIT_YIELDS    200u /* then with a yield; then with a sleep */
#define WAIT_SLEEP_NS  50000
#define WAIT_COMPLAINT (10 * ORL_NS_PER_S)

/* ---------------------------------------------------------------- slots */

int fab_reg_slots_init(struct fab_node *node)
{
    struct fab_reg_slots *slots = &node->priv->slots;

    orl_lock_init(&slots->lock, ORL_RANK_POOL, "registration slots");
    slots->free = malloc(FAB_REGS_MAX * sizeof(*slots->free));
    if (slots->free == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for the list of %u registration slots",
                        FAB_REGS_MAX);
    }
    return 0;
}

void fab_reg_slots_fini(struct fab_node *node)
{
    orl_lock_fini(&node->priv->slots.lock);
    free(node->priv->slots.free);
    node->priv->slots.free = NULL;
}

static struct fab_reg *my_regs(const struct fab_node *node)
{
    return node->regs + (size_t)node->local * FAB_REGS_MAX;
}

/* The oldest ended slot, else one never used. */
static int take_slot(struct fab_node *node, uint32_t *slot)
{
    struct fab_reg_slots *slots = &node->priv->slots;

    if (slots->nfree > 0) {
        *slot = slots->free[slots->head];
        slots->head = (slots->head + 1) % FAB_REGS_MAX;
        slots->nfree--;
        return 0;
    }
    if (slots->fresh == FAB_REGS_MAX) {
        return orl_fail(ORL_ERR_NOMEM,
                        "%u registrations are alive, which is the limit of one rank; end some",
                        FAB_REGS_MAX);
    }
    if (slots->fresh == slots->reserved) {
        int st = fab_node_reserve(node, my_regs(node) + slots->fresh,
                                  PIECE_SLOTS * sizeof(struct fab_reg));
        if (st != 0) {
            return st;
        }
        slots->reserved += PIECE_SLOTS;
    }
    *slot = slots->fresh;
    slots->fresh++;
    atomic_store_explicit(&node->ctl[node->local].reg_high, slots->fresh, memory_order_release);
    return 0;
}

static void give_slot_back(struct fab_node *node, uint32_t slot)
{
    struct fab_reg_slots *slots = &node->priv->slots;

    orl_lock(&slots->lock);
    slots->free[(slots->head + slots->nfree) % FAB_REGS_MAX] = slot;
    slots->nfree++;
    orl_unlock(&slots->lock);
}

int fab_node_reg(struct fab_node *node, const void *base, uint64_t bytes, unsigned access,
                 uint32_t *slot, uint64_t *gen)
{
    struct fab_reg *reg;
    uint32_t mine = 0;
    int st;

    if ((base == NULL && bytes != 0) || bytes > UINTPTR_MAX - (uintptr_t)base) {
        return orl_fail(ORL_ERR_INVAL,
                        "%llu bytes at %p cannot be registered: no such range of addresses",
                        (unsigned long long)bytes, base);
    }
    orl_lock(&node->priv->slots.lock);
    st = take_slot(node, &mine);
    orl_unlock(&node->priv->slots.lock);
    if (st != 0) {
        return st;
    }
    reg = my_regs(node) + mine;
    reg->direct = fab_node_holds(node, base, bytes) ? 1 : 0;
    reg->addr = reg->direct != 0 ? (uint64_t)((const unsigned char *)base - node->base)
                                 : (uint64_t)(uintptr_t)base;
    reg->bytes = bytes;
    reg->access = access;
    *slot = mine;
    *gen = atomic_load_explicit(&reg->gen, memory_order_relaxed) + 1;
    /* Whoever reads the odd generation reads the entry as it is now. */
    atomic_store_explicit(&reg->gen, *gen, memory_order_release);
    return 0;
}

/* ---------------------------------------------------------------- the end of a registration */

static bool is_running(const struct fab_node_ctl *ctl)
{
    uint32_t state = atomic_load_explicit(&ctl->state, memory_order_acquire);

    return state == FAB_RANK_RUNNING || state == FAB_RANK_ABORTED;
}

static void rest(unsigned turn)
{
    struct timespec nap = { .tv_sec = 0, .tv_nsec = WAIT_SLEEP_NS };

    if (turn < WAIT_PAUSES) {
        orl_cpu_pause();
    } else if (turn < WAIT_PAUSES + WAIT_YIELDS) {
        (void)sched_yield();
    } else {
        (void)nanosleep(&nap, NULL);
    }
}

static void complain(const struct fab_node_ctl *ctl)
{
    orl_log_warn(ORL_CAT_NODE,
                 "the end of a registration has waited 10 s for rank %d, process %d, which is in "
                 "the midst of an access to it; is that process stopped?",
                 ctl->rank, ctl->pid);
}

/* Returns when the line no longer shows the word, or its process no longer runs. */
static void wait_line(struct fab_node *node, int local, const struct fab_hazard *line,
                      uint64_t word)
{
    const struct fab_node_ctl *ctl = &node->ctl[local];
    uint64_t check = orl_clock_ns() + ORL_NS_PER_MS;
    uint64_t complaint = check + WAIT_COMPLAINT;

    for (unsigned turn = 0; atomic_load_explicit(&line->word, memory_order_seq_cst) == word;
         turn += turn < UINT32_MAX) {
        rest(turn);
        if (!orl_deadline_passed(check)) {
            continue;
        }
        check = orl_clock_ns() + ORL_NS_PER_MS;
        if (!is_running(ctl) || !fab_node_is_alive(node, local)) {
            return;
        }
        if (orl_deadline_passed(complaint)) {
            complaint = ORL_NEVER;
            complain(ctl);
        }
    }
}

static void drain_rank(struct fab_node *node, int local, uint64_t word)
{
    const struct fab_hazard *lines = fab_node_lines(node, local);
    uint32_t high = atomic_load_explicit(&node->ctl[local].hazard_high, memory_order_seq_cst);

    if (high > FAB_HAZARD_SLOTS) {
        high = FAB_HAZARD_SLOTS;
    }
    for (uint32_t i = 0; i < high; i++) {
        if (atomic_load_explicit(&lines[i].word, memory_order_seq_cst) == word &&
            !fab_hazard_is_mine(node, &lines[i])) {
            wait_line(node, local, &lines[i], word);
        }
    }
}

void fab_node_dereg(struct fab_node *node, uint32_t slot)
{
    struct fab_reg *reg;
    uint64_t gen;
    uint64_t word;

    if (slot >= atomic_load_explicit(&node->ctl[node->local].reg_high, memory_order_relaxed)) {
        orl_log_error(ORL_CAT_NODE, "slot %u never was a registration", slot);
        return;
    }
    reg = my_regs(node) + slot;
    if (reg->access == 0) {
        orl_log_error(ORL_CAT_NODE, "the registration in slot %u was ended before", slot);
        return;
    }
    /* A peer may end it from afar, now or before: then the generation is even already and stays.
     * Whoever was first, this load or exchange stands before the look at the hazard lines. */
    gen = atomic_load_explicit(&reg->gen, memory_order_seq_cst);
    if ((gen & 1) != 0) {
        uint64_t expected = gen;

        (void)atomic_compare_exchange_strong_explicit(&reg->gen, &expected, gen + 1,
                                                      memory_order_seq_cst, memory_order_seq_cst);
    } else {
        gen--;
    }
    word = fab_hazard_word((unsigned)node->local, slot, gen);
    for (int i = 0; i < node->nranks; i++) {
        drain_rank(node, i, word);
    }
    /* Not before: whoever is in the midst of an access reads its rights. */
    reg->access = 0;
    give_slot_back(node, slot);
}
