/* SPDX-License-Identifier: BSD-3-Clause */
/* The bell of an agent that sleeps on descriptors: who rings it, who cannot, and none is lost. */
#include <criterion/criterion.h>

#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "node_rig.h"

TestSuite(node_bell, .init = rig_begin, .timeout = 120);

/* Whether the bell rings within so many milliseconds. */
static bool rings(int fd, int ms)
{
    struct pollfd bell = { .fd = fd, .events = POLLIN };

    return poll(&bell, 1, ms) == 1;
}

Test(node_bell, it_rings_once_for_its_rank_only)
{
    struct fab_node *node = rig_node(1, 0);
    int fd;

    cr_assert_eq(fab_node_bell_open(node, &fd), 0, "%s", orl_last_error());
    fab_node_wake(node, 0);
    cr_assert_not(rings(fd, 0), "nobody sleeps");
    fab_node_bell_begin(node);
    fab_node_wake(node, -1);
    cr_assert_not(rings(fd, 0), "what is for everybody is for callers");
    for (int i = 0; i < 1000; i++) {
        fab_node_wake(node, 0);
    }
    cr_assert(rings(fd, 0));
    fab_node_bell_end(node);
    cr_assert_not(rings(fd, 0), "one ring for a sleep, taken off at its end");
    fab_node_bell_begin(node);
    fab_node_bell_end(node);
    cr_assert_eq(atomic_load(&node->header->nparked[FAB_AGENT]), 0);
    /* The futex word is the agent's other bed. */
    uint32_t epoch = fab_node_park_begin(node, FAB_AGENT);
    fab_node_wake(node, 0);
    cr_assert_not(rings(fd, 0));
    cr_assert_eq(atomic_load(&node->ctl[0].epoch[FAB_AGENT]), epoch + 1);
    fab_node_park_cancel(node, FAB_AGENT);
    fab_node_bell_close(node);
    fab_node_close(node);
}

Test(node_bell, its_name_is_the_ranks_own)
{
    struct fab_node *node = rig_node(1, 0);
    int fd;
    int again;

    cr_assert_eq(fab_node_bell_open(node, &fd), 0);
    cr_assert_eq(fab_node_bell_open(node, &again), ORL_ERR_SYS, "one of that name is there");
    cr_assert(strstr(orl_last_error(), "oriel-") != NULL, "%s", orl_last_error());
    fab_node_bell_close(node);
    fab_node_bell_close(node);
    cr_assert_eq(fab_node_bell_open(node, &fd), 0);
    fab_node_close(node);
}

/* A stranger who knows the name can ring, and nothing else. */
Test(node_bell, strangers_only_wake)
{
    struct fab_node *node = rig_node(1, 0);
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    char letter[4096] = "anything";
    int stranger = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    int fd;
    int n;

    cr_assert_eq(fab_node_bell_open(node, &fd), 0);
    n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "oriel-%016llx-0",
                 (unsigned long long)node->header->cookie);
    for (int i = 0; i < 10000; i++) {
        (void)!sendto(stranger, letter, sizeof(letter), MSG_DONTWAIT, (struct sockaddr *)&name,
                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n));
    }
    fab_node_bell_begin(node);
    cr_assert(rings(fd, 0));
    fab_node_bell_end(node);
    cr_assert_not(rings(fd, 0));
    (void)close(stranger);
    fab_node_close(node);
}

/* ---------------------------------------------------------------- who cannot ring */

static int ring_from_afar(int rank, void *arg)
{
    struct fab_node *node = rig_node(2, rank);

    (void)arg;
    rig_check(node != NULL);
    if (unshare(CLONE_NEWNET) != 0) {
        rig_set(3, 1); /* not allowed here */
        return 0;
    }
    rig_set(1, 1);
    rig_until(2, 1);
    fab_node_wake(node, 0);
    rig_set(1, 2);
    rig_until(2, 2);
    fab_node_close(node);
    return 0;
}

Test(node_bell, another_network_namespace_is_found_out)
{
    struct fab_node *node = rig_node(2, 0);
    pid_t pid = rig_start(ring_from_afar, 1, NULL);
    int fd;

    cr_assert_eq(fab_node_bell_open(node, &fd), 0);
    while (atomic_load(&rig->word[1]) == 0 && atomic_load(&rig->word[3]) == 0) {
        rig_sleep_ms(1);
    }
    if (atomic_load(&rig->word[3]) == 0) {
        fab_node_bell_begin(node);
        cr_assert_not(fab_node_bell_is_deaf(node));
        rig_set(2, 1);
        rig_until(1, 2);
        cr_assert_not(rings(fd, 0));
        fab_node_bell_end(node);
        cr_assert(fab_node_bell_is_deaf(node));
        rig_set(2, 2);
    } else {
        cr_log_warn("no network namespace can be made here: nothing was tried");
    }
    cr_assert_eq(rig_wait(pid), 0);
    fab_node_close(node);
}

/* ---------------------------------------------------------------- none is lost */

#define ROUNDS  100000
#define LONG_MS 5000

/* Waits for the other's turn on the bell alone; every sleep is long, so a ring that is lost is
 * counted, and cannot pass for a short wait. */
static uint64_t wait_turn(struct fab_node *node, int fd, unsigned word, uint64_t value)
{
    uint64_t lost = 0;

    while (atomic_load_explicit(&rig->word[word], memory_order_acquire) < value) {
        fab_node_bell_begin(node);
        if (atomic_load_explicit(&rig->word[word], memory_order_acquire) < value) {
            lost += !rings(fd, LONG_MS) &&
                    atomic_load_explicit(&rig->word[word], memory_order_acquire) >= value;
        }
        fab_node_bell_end(node);
    }
    return lost;
}

static int ping_pong(int rank, void *arg)
{
    struct fab_node *node = rig_node(2, rank);
    uint64_t lost = 0;
    int fd;

    (void)arg;
    rig_check(node != NULL);
    rig_check(fab_node_bell_open(node, &fd) == 0);
    atomic_fetch_add(&rig->word[4], 1);
    rig_until(4, 2);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        if (rank == 1) {
            lost += wait_turn(node, fd, 0, i);
        }
        atomic_store_explicit(&rig->word[rank], i, memory_order_release);
        fab_node_wake(node, 1 - rank);
        if (rank == 0) {
            lost += wait_turn(node, fd, 1, i);
        }
    }
    rig_check(lost == 0);
    rig_check(!fab_node_bell_is_deaf(node));
    /* The other's last ring finds a socket. */
    atomic_fetch_add(&rig->word[4], 1);
    rig_until(4, 4);
    fab_node_close(node);
    return 0;
}

/* covers: N11 */
Test(node_bell, no_ring_is_lost)
{
    cr_assert_eq(rig_run(2, ping_pong, NULL), 0);
}
