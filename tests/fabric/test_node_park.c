/* SPDX-License-Identifier: BSD-3-Clause */
/* Who lives, and sleeping without losing a wake-up. */
#include <criterion/criterion.h>

#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "node_rig.h"

TestSuite(node_park, .init = rig_begin, .timeout = 120);

/* ---------------------------------------------------------------- life */

enum way {
    EXITS,
    CLOSES,
    PAUSES
};

static int live(int rank, void *arg)
{
    struct fab_node *node = rig_node(2, rank);

    rig_check(node != NULL);
    rig_set(1, 1);
    rig_until(2, 1);
    if (*(enum way *)arg == CLOSES) {
        fab_node_close(node);
        rig_set(3, 1);
        rig_until(4, 1);
    } else if (*(enum way *)arg == PAUSES) {
        (void)pause();
    }
    return 0;
}

/* A node whose rank 1 is a child that has joined and goes on when word 2 is set. */
static struct fab_node *with_child(enum way *way, pid_t *pid)
{
    struct fab_node *node = rig_node(2, 0);

    cr_assert(node != NULL);
    cr_assert(fab_node_is_alive(node, 1), "a rank that has not come yet is not dead");
    *pid = rig_start(live, 1, way);
    rig_until(1, 1);
    cr_assert(fab_node_is_alive(node, 1));
    cr_assert(fab_node_is_alive(node, 0));
    rig_set(2, 1);
    return node;
}

static void wait_for_end(pid_t pid)
{
    siginfo_t info;

    cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

static void expect_death(struct fab_node *node, pid_t pid)
{
    /* A zombie now. */
    wait_for_end(pid);
    cr_assert_not(fab_node_is_dead(node, 1));
    cr_assert_eq(fab_node_check_all(node), 1);
    cr_assert(fab_node_is_dead(node, 1));
    cr_assert_not(fab_node_is_alive(node, 1));
    cr_assert_eq(fab_node_check_all(node), 0);
    cr_assert_eq(atomic_load(&node->header->deaths), 1);
    (void)rig_wait(pid);
    cr_assert_not(fab_node_is_alive(node, 1));
    fab_node_close(node);
}

Test(node_park, a_rank_that_exits_is_dead)
{
    enum way way = EXITS;
    pid_t pid;
    struct fab_node *node = with_child(&way, &pid);

    expect_death(node, pid);
}

Test(node_park, a_rank_that_is_killed_is_dead)
{
    enum way way = PAUSES;
    pid_t pid;
    struct fab_node *node = with_child(&way, &pid);

    (void)kill(pid, SIGKILL);
    expect_death(node, pid);
}

Test(node_park, a_rank_that_left_is_not_dead)
{
    enum way way = CLOSES;
    pid_t pid;
    struct fab_node *node = with_child(&way, &pid);

    rig_until(3, 1);
    cr_assert(fab_node_is_alive(node, 1));
    rig_set(4, 1);
    cr_assert_eq(rig_wait(pid), 0);
    cr_assert(fab_node_is_alive(node, 1));
    cr_assert_eq(fab_node_check_all(node), 0);
    cr_assert_eq(atomic_load(&node->ctl[1].state), FAB_RANK_FINAL);
    fab_node_close(node);
}

Test(node_park, a_stopped_rank_is_not_dead)
{
    enum way way = PAUSES;
    pid_t pid;
    struct fab_node *node = with_child(&way, &pid);
    siginfo_t info;

    (void)kill(pid, SIGSTOP);
    cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
    cr_assert(fab_node_is_alive(node, 1));
    (void)kill(pid, SIGKILL);
    (void)rig_wait(pid);
    cr_assert_not(fab_node_is_alive(node, 1));
    fab_node_close(node);
}

/* ---------------------------------------------------------------- parking */

Test(node_park, a_sleep_ends_by_itself)
{
    struct fab_node *node = rig_node(1, 0);
    uint64_t begin = orl_clock_ns();
    uint32_t epoch = fab_node_park_begin(node, FAB_CALLER);

    cr_assert_eq(atomic_load(&node->header->nparked[FAB_CALLER]), 1);
    cr_assert_eq(atomic_load(&node->ctl[0].parked[FAB_CALLER]), 1);
    fab_node_park_sleep(node, FAB_CALLER, epoch, 20 * ORL_NS_PER_MS);
    cr_assert_geq(orl_clock_ns() - begin, 15 * ORL_NS_PER_MS);
    (void)fab_node_park_begin(node, FAB_CALLER);
    fab_node_park_cancel(node, FAB_CALLER);
    cr_assert_eq(atomic_load(&node->header->nparked[FAB_CALLER]), 0);
    cr_assert_eq(atomic_load(&node->ctl[0].parked[FAB_CALLER]), 0);
    fab_node_close(node);
}

/* What is for everybody is for callers: a barrier must not wake every agent of the node. */
Test(node_park, an_agent_wakes_for_its_rank_only)
{
    struct fab_node *node = rig_node(1, 0);
    uint32_t epoch = fab_node_park_begin(node, FAB_AGENT);

    fab_node_wake(node, -1);
    cr_assert_eq(atomic_load(&node->ctl[0].epoch[FAB_AGENT]), epoch);
    fab_node_wake(node, 0);
    cr_assert_eq(atomic_load(&node->ctl[0].epoch[FAB_AGENT]), epoch + 1);
    fab_node_park_cancel(node, FAB_AGENT);
    epoch = fab_node_park_begin(node, FAB_CALLER);
    fab_node_wake(node, -1);
    cr_assert_eq(atomic_load(&node->ctl[0].epoch[FAB_CALLER]), epoch + 1);
    fab_node_park_cancel(node, FAB_CALLER);
    cr_assert_eq(atomic_load(&node->header->nparked[FAB_AGENT]), 0);
    fab_node_close(node);
}

#define ROUNDS 100000

/* Waits for the other's turn with no other help than parking; every sleep is long, so a lost
 * wake-up is counted, and cannot pass for a short wait. */
static uint64_t wait_turn(struct fab_node *node, unsigned word, uint64_t value)
{
    uint64_t lost = 0;

    while (atomic_load_explicit(&rig->word[word], memory_order_acquire) < value) {
        uint64_t begin = orl_clock_ns();
        uint32_t epoch = fab_node_park_begin(node, FAB_CALLER);

        if (atomic_load_explicit(&rig->word[word], memory_order_acquire) >= value) {
            fab_node_park_cancel(node, FAB_CALLER);
            break;
        }
        fab_node_park_sleep(node, FAB_CALLER, epoch, 5 * ORL_NS_PER_S);
        lost += orl_clock_ns() - begin >= 5 * ORL_NS_PER_S &&
                atomic_load_explicit(&rig->word[word], memory_order_acquire) >= value;
    }
    return lost;
}

static int ping_pong(int rank, void *arg)
{
    struct fab_node *node = rig_node(2, rank);
    unsigned mine = (unsigned)rank;
    uint64_t lost = 0;

    (void)arg;
    rig_check(node != NULL);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        if (rank == 1) {
            lost += wait_turn(node, 0, i);
        }
        atomic_store_explicit(&rig->word[mine], i, memory_order_release);
        fab_node_wake(node, rank == 0 ? 1 : (i % 2 == 0 ? 0 : -1));
        if (rank == 0) {
            lost += wait_turn(node, 1, i);
        }
    }
    rig_check(lost == 0);
    fab_node_close(node);
    return 0;
}

Test(node_park, no_wake_up_is_lost)
{
    cr_assert_eq(rig_run(2, ping_pong, NULL), 0);
}

static int sleep_until_death(int rank, void *arg)
{
    struct fab_node *node = rig_node(3, rank);
    uint32_t epoch;

    (void)arg;
    rig_check(node != NULL);
    if (rank == 2) {
        rig_set(6, 1);
        rig_until(5, 2);
        (void)fab_node_park_begin(node, FAB_CALLER);
        (void)raise(SIGKILL);
    }
    rig_until(6, 1);
    epoch = fab_node_park_begin(node, FAB_CALLER);
    atomic_fetch_add(&rig->word[5], 1);
    if (rank == 0) {
        /* Finds the death; the other is woken by that and nothing else. */
        fab_node_park_cancel(node, FAB_CALLER);
        while (fab_node_check_all(node) == 0) {
            rig_sleep_ms(1);
        }
    } else {
        fab_node_park_sleep(node, FAB_CALLER, epoch, ORL_NEVER);
    }
    rig_check(fab_node_is_dead(node, 2));
    /* The finder takes the dead sleeper off the counts a moment later. */
    while (atomic_load(&node->ctl[2].parked[FAB_CALLER]) != 0) {
        rig_sleep_ms(1);
    }
    fab_node_close(node);
    return 0;
}

Test(node_park, a_death_wakes_everybody)
{
    pid_t pids[3];

    for (int i = 0; i < 3; i++) {
        pids[i] = rig_start(sleep_until_death, i, NULL);
    }
    cr_assert_eq(rig_wait(pids[2]), 128 + SIGKILL);
    cr_assert_eq(rig_wait(pids[0]), 0);
    cr_assert_eq(rig_wait(pids[1]), 0);
}
