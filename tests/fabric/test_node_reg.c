/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations and hazard lines: a release ends every access, whoever is in the midst of one, and
 * no access begins after it. T_SOAK=1 in the environment runs the long form.
 */
#include <criterion/criterion.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "node_rig.h"

TestSuite(node_reg, .init = rig_begin, .timeout = 300);

#define ACCESS 15

static const _Atomic uint64_t *gen_of(const struct fab_node *node, int owner, uint32_t slot)
{
    return &node->regs[(size_t)owner * FAB_REGS_MAX + slot].gen;
}

/* ---------------------------------------------------------------- the table */

Test(node_reg, entries_say_where_the_memory_is)
{
    struct fab_node *node = rig_node(2, 0);
    const struct fab_reg *reg;
    int private_memory = 0;
    void *memory = NULL;
    uint32_t slot = 0;
    uint64_t gen = 0;

    cr_assert_eq(fab_node_alloc(node, 100, &memory), 0);
    cr_assert_eq(fab_node_reg(node, memory, 100, ACCESS, &slot, &gen), 0);
    reg = &node->regs[slot];
    cr_assert(reg->direct == 1 && reg->bytes == 100 && reg->access == ACCESS);
    cr_assert_eq(reg->addr, (uint64_t)((unsigned char *)memory - node->base));
    cr_assert(gen % 2 == 1 && atomic_load(&reg->gen) == gen);
    fab_node_dereg(node, slot);
    cr_assert_eq(atomic_load(&reg->gen), gen + 1);
    cr_assert_eq(fab_node_reg(node, &private_memory, 4, ACCESS, &slot, &gen), 0);
    reg = &node->regs[slot];
    cr_assert(reg->direct == 0 && reg->addr == (uint64_t)(uintptr_t)&private_memory);
    fab_node_dereg(node, slot);
    cr_assert_eq(fab_node_reg(node, NULL, 4, ACCESS, &slot, &gen), ORL_ERR_INVAL);
    cr_assert_eq(fab_node_reg(node, memory, UINT64_MAX, ACCESS, &slot, &gen), ORL_ERR_INVAL);
    fab_node_close(node);
}

/* covers: D1 */
Test(node_reg, a_full_table_is_an_error_and_generations_never_return)
{
    struct fab_node *node = rig_node(1, 0);
    static uint64_t last[FAB_REGS_MAX];
    int memory = 0;
    uint32_t slot = 0;
    uint64_t gen = 0;

    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < FAB_REGS_MAX; i++) {
            cr_assert_eq(fab_node_reg(node, &memory, 4, ACCESS, &slot, &gen), 0);
            cr_assert_lt(slot, FAB_REGS_MAX);
            cr_assert_gt(gen, last[slot]);
            last[slot] = gen;
        }
        cr_assert_eq(atomic_load(&node->ctl[0].reg_high), FAB_REGS_MAX);
        cr_assert_eq(fab_node_reg(node, &memory, 4, ACCESS, &slot, &gen), ORL_ERR_NOMEM);
        cr_assert_not_null(strstr(orl_last_error(), "65536"));
        for (unsigned i = 0; i < FAB_REGS_MAX; i++) {
            fab_node_dereg(node, (i * 7) % FAB_REGS_MAX);
        }
    }
    /* Ended slots come back in the order in which they ended. */
    for (unsigned i = 0; i < 100; i++) {
        cr_assert_eq(fab_node_reg(node, &memory, 4, ACCESS, &slot, &gen), 0);
        cr_assert_eq(slot, (i * 7) % FAB_REGS_MAX);
    }
    fab_node_close(node);
}

/* ---------------------------------------------------------------- exactness */

#define HAMMERS     3
#define GUARD_WORDS 64
enum {
    WORD_TOKEN,
    WORD_HITS,
    WORD_STOP,
    WORD_READY
};

/* Token of the registration that is alive now: slot and generation in one word, 0 while there is
 * none. Hammers keep the last they saw, so that most of their accesses come too late. */
static int hammer(int rank, void *arg)
{
    struct fab_node *node = rig_node(HAMMERS + 1, rank);
    volatile uint64_t *target;
    struct fab_hazard *line;
    uint64_t hits = 0;

    (void)arg;
    rig_check(node != NULL);
    line = fab_hazard_of(node);
    atomic_fetch_add(&rig->word[WORD_READY], 1);
    while (atomic_load(&rig->word[WORD_STOP]) == 0) {
        uint64_t token = atomic_load(&rig->word[WORD_TOKEN]);
        uint32_t slot = (uint32_t)(token & 0xffff);
        uint64_t gen = token >> 16;

        if (token == 0) {
            (void)sched_yield();
            continue;
        }
        for (int i = 0; i < 5; i++) {
            if (!fab_hazard_enter(line, fab_hazard_word(0, slot, gen), gen_of(node, 0, slot),
                                  gen)) {
                break;
            }
            target = (void *)(node->base + node->regs[slot].addr);
            for (int k = 0; k < GUARD_WORDS; k++) {
                target[k] = token;
                if (k == GUARD_WORDS / 2 && hits % 16 == 0) {
                    (void)sched_yield(); /* let the release come now */
                }
            }
            hits++;
            fab_hazard_leave(line);
        }
        /* Mostly not in the midst of an access, which would make every release wait for a turn. */
        (void)sched_yield();
    }
    rig_check(!fab_hazard_enter(line, fab_hazard_word(0, 0, 1), gen_of(node, 0, 0), 1));
    rig_check(atomic_load(&line->word) == 0);
    atomic_fetch_add(&rig->word[WORD_HITS], hits);
    fab_node_close(node);
    return 0;
}

static int owner(int rank, void *arg)
{
    struct fab_node *node = rig_node(HAMMERS + 1, rank);
    void *block = NULL;
    volatile uint64_t *memory;
    uint64_t rounds = *(const uint64_t *)arg;
    uint64_t broken = 0;

    rig_check(node != NULL);
    rig_check(fab_node_alloc(node, GUARD_WORDS * 8, &block) == 0);
    memory = block;
    rig_until(WORD_READY, HAMMERS);
    for (uint64_t i = 0; i < rounds; i++) {
        uint32_t slot = 0;
        uint64_t gen = 0;

        rig_check(fab_node_reg(node, block, GUARD_WORDS * 8, ACCESS, &slot, &gen) == 0);
        rig_set(WORD_TOKEN, gen << 16 | slot);
        if (i % 64 == 0) {
            (void)sched_yield();
        }
        fab_node_dereg(node, slot);
        /* Reused: from here on nobody may write. */
        for (int k = 0; k < GUARD_WORDS; k++) {
            memory[k] = ~i;
        }
        if (i % 32 == 0) {
            (void)sched_yield();
        }
        for (int k = 0; k < GUARD_WORDS; k++) {
            broken += memory[k] != ~i;
        }
    }
    rig_set(WORD_STOP, 1);
    rig_check(broken == 0);
    fab_node_close(node);
    return 0;
}

static int hammer_or_owner(int rank, void *arg)
{
    return rank == 0 ? owner(rank, arg) : hammer(rank, arg);
}

/* covers: D8 A10 */
Test(node_reg, nobody_writes_after_a_release)
{
    uint64_t rounds = getenv("T_SOAK") != NULL ? 1000000 : 100000;

    cr_assert_eq(rig_run(HAMMERS + 1, hammer_or_owner, &rounds), 0);
    cr_assert_gt(atomic_load(&rig->word[WORD_HITS]), 0);
}

/* ---------------------------------------------------------------- deaths */

static int die_in_access(int rank, void *arg)
{
    struct fab_node *node = rig_node(2, rank);

    (void)arg;
    rig_check(node != NULL);
    rig_until(0, 1);
    rig_check(
        fab_hazard_enter(fab_hazard_of(node), fab_hazard_word(0, 0, 1), gen_of(node, 0, 0), 1));
    rig_set(1, 1);
    (void)pause();
    return 1;
}

Test(node_reg, the_killed_hold_nothing)
{
    struct fab_node *node = rig_node(2, 0);
    pid_t pid = rig_start(die_in_access, 1, NULL);
    int memory = 0;
    uint32_t slot = 0;
    uint64_t gen = 0;

    cr_assert_eq(fab_node_reg(node, &memory, 4, ACCESS, &slot, &gen), 0);
    cr_assert(slot == 0 && gen == 1);
    rig_set(0, 1);
    rig_until(1, 1);
    (void)kill(pid, SIGKILL);
    /* Not waited for: a zombie holds nothing either. */
    fab_node_dereg(node, slot);
    cr_assert(fab_node_is_dead(node, 1));
    cr_assert_eq(atomic_load(&node->header->deaths), 1);
    cr_assert_eq(rig_wait(pid), 128 + SIGKILL);
    fab_node_close(node);
}

static int linger(int rank, void *arg)
{
    struct fab_node *node = rig_node(2, rank);
    struct fab_hazard *line;

    (void)arg;
    rig_check(node != NULL);
    line = fab_hazard_of(node);
    rig_check(fab_hazard_enter(line, fab_hazard_word(0, 0, 1), gen_of(node, 0, 0), 1));
    rig_set(1, 1);
    rig_sleep_ms(150);
    rig_set(2, 1);
    fab_hazard_leave(line);
    fab_node_close(node);
    return 0;
}

/* covers: A10 */
Test(node_reg, the_living_are_waited_for)
{
    struct fab_node *node = rig_node(2, 0);
    int memory = 0;
    uint32_t slot = 0;
    uint64_t gen = 0;
    pid_t pid;

    cr_assert_eq(fab_node_reg(node, &memory, 4, ACCESS, &slot, &gen), 0);
    pid = rig_start(linger, 1, NULL);
    rig_until(1, 1);
    fab_node_dereg(node, slot);
    cr_assert_eq(atomic_load(&rig->word[2]), 1);
    cr_assert_eq(rig_wait(pid), 0);
    fab_node_close(node);
}

Test(node_reg, my_own_access_is_not_waited_for)
{
    struct fab_node *node = rig_node(1, 0);
    struct fab_hazard *line = fab_hazard_of(node);
    struct fab_hazard *last = &node->hazards[FAB_HAZARD_SLOTS - 1];
    int memory = 0;
    uint32_t slot = 0;
    uint64_t gen = 0;

    for (int i = 0; i < 2; i++) {
        cr_assert_eq(fab_node_reg(node, &memory, 4, ACCESS, &slot, &gen), 0);
        cr_assert(
            fab_hazard_enter(line, fab_hazard_word(0, slot, gen), gen_of(node, 0, slot), gen));
        fab_node_dereg(node, slot);
        fab_hazard_leave(line);
        line = last; /* the second time through the shared line, as if there were no other */
        atomic_store(&node->ctl[0].hazard_high, FAB_HAZARD_SLOTS);
    }
    fab_node_close(node);
}
