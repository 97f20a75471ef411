/* SPDX-License-Identifier: BSD-3-Clause */
/* Who gets which hazard line: threads, more threads than lines, children, several nodes. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "node_rig.h"

TestSuite(node_hazard, .init = rig_begin, .timeout = 120);

#define THREADS 80

struct crew {
    struct fab_node *node;
    pthread_barrier_t barrier;
    struct fab_hazard *line[THREADS];
    struct fab_reg *reg;
    uint64_t count; /* guarded by the shared line */
};

struct member {
    struct crew *crew;
    int index;
};

static void *claim_and_meet(void *arg)
{
    struct member *member = arg;
    struct crew *crew = member->crew;
    struct fab_hazard *line = fab_hazard_of(crew->node);

    crew->line[member->index] = line;
    (void)pthread_barrier_wait(&crew->barrier);
    for (int i = 0; i < 2000 && line->shared != 0; i++) {
        if (fab_hazard_enter(line, fab_hazard_word(0, 0, 1), &crew->reg->gen, 1)) {
            crew->count++;
            fab_hazard_leave(line);
        }
    }
    return (void *)fab_hazard_of(crew->node);
}

static void run_crew(struct crew *crew)
{
    pthread_t threads[THREADS];
    struct member members[THREADS];
    void *line = NULL;

    (void)pthread_barrier_init(&crew->barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        members[i] = (struct member){ crew, i };
        cr_assert_eq(pthread_create(&threads[i], NULL, claim_and_meet, &members[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], &line);
        cr_assert_eq(line, crew->line[i]);
    }
    (void)pthread_barrier_destroy(&crew->barrier);
}

Test(node_hazard, more_threads_than_lines)
{
    struct fab_node *node = rig_node(1, 0);
    struct crew crew = { .node = node, .reg = node->regs };
    int memory = 0;
    uint32_t slot = 0;
    uint64_t gen = 0;
    int shared = 0;

    cr_assert_eq(fab_node_reg(node, &memory, 4, 15, &slot, &gen), 0);
    for (int round = 0; round < 3; round++) {
        run_crew(&crew);
        shared = 0;
        for (int i = 0; i < THREADS; i++) {
            shared += crew.line[i] == &node->hazards[FAB_HAZARD_SLOTS - 1];
            for (int k = 0; k < i; k++) {
                cr_assert(crew.line[i] != crew.line[k] || crew.line[i]->shared != 0);
            }
        }
        cr_assert_eq(shared, THREADS - (FAB_HAZARD_SLOTS - 1));
        /* All have ended and given their lines back. */
        cr_assert_eq(atomic_load(&node->ctl[0].hazard_used), 0);
        cr_assert_eq(atomic_load(&node->ctl[0].hazard_high), FAB_HAZARD_SLOTS);
    }
    cr_assert_eq(crew.count, 3 * 2000 * (uint64_t)shared);
    fab_node_dereg(node, slot);
    fab_node_close(node);
}

Test(node_hazard, lines_follow_the_node)
{
    struct fab_node *a = rig_node(2, 0);
    struct fab_node *b = NULL;
    struct fab_hazard *first;

    cr_assert_eq(fab_node_create(&b, 1, 5, RIG_ARENA, &rig->ticket), 0);
    cr_assert_eq(fab_node_join(b, 0, 0), 0);
    first = fab_hazard_of(a);
    cr_assert(first >= a->hazards && first < a->hazards + FAB_HAZARD_SLOTS);
    cr_assert_eq(fab_hazard_of(b), b->hazards);
    cr_assert_eq(fab_hazard_of(a), first);
    cr_assert_eq(atomic_load(&a->ctl[0].hazard_used), 1);
    fab_node_close(a);
    cr_assert_null(fab_hazard_mine);
    cr_assert_eq(fab_hazard_of(b), b->hazards);
    fab_node_close(b);
    cr_assert_null(fab_hazard_mine);
}

static int child_of_a_rank(int rank, void *arg)
{
    struct fab_node *node = arg;

    (void)rank;
    rig_check(fab_hazard_mine == NULL);
    fab_node_close(node);
    return 0;
}

Test(node_hazard, a_child_keeps_nothing_and_ends_nothing)
{
    struct fab_node *node = rig_node(1, 0);

    cr_assert_eq(fab_hazard_of(node), node->hazards);
    cr_assert_eq(rig_wait(rig_start(child_of_a_rank, 0, node)), 0);
    cr_assert_eq(atomic_load(&node->ctl[0].hazard_used), 1);
    cr_assert_eq(atomic_load(&node->ctl[0].state), FAB_RANK_RUNNING);
    cr_assert_eq(fab_hazard_mine, node->hazards);
    fab_node_close(node);
}

Test(node_hazard, a_node_over_given_memory)
{
    uint64_t bytes = fab_node_lay_bytes(2, 1);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct fab_node nodes[2];
    void *block = NULL;
    uint32_t slot = 0;
    uint64_t gen = 0;

    cr_assert_neq(memory, MAP_FAILED);
    cr_assert_eq(fab_node_lay(&nodes[0], memory, 2, 1, 0), 0);
    cr_assert_eq(fab_node_lay(&nodes[1], memory, 2, 1, 1), 0);
    cr_assert_eq(fab_node_alloc(&nodes[0], 4096, &block), 0);
    cr_assert_eq(fab_node_reg(&nodes[0], block, 4096, 15, &slot, &gen), 0);
    cr_assert_eq(nodes[1].regs[slot].direct, 1);
    cr_assert(fab_node_is_alive(&nodes[0], 1));
    fab_node_dereg(&nodes[0], slot);
    cr_assert_eq(fab_node_free(&nodes[0], block), 0);
    fab_node_unlay(&nodes[1]);
    fab_node_unlay(&nodes[0]);
    (void)munmap(memory, bytes);
}
