/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which thread has which hazard line.
 *
 * A rank's lines 0 to 62 belong to one thread each; the bitmap in its control block says which are
 * taken. Threads beyond share the last line and take turns by a lock of the process. A thread keeps
 * a list of what it has claimed, one line per node; the list gives the lines back when the thread
 * ends, and the end of a node takes its lines from every thread. A child of fork has its parent's
 * lines in view but none of its own: it forgets them without giving them back.
 *
 * The lists are under one mutex of the process, taken on first use and at the ends only. Line words
 * are written by nobody but the thread that has the line.
 */
#include "fabric/node.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/list.h"
#include "fabric/node_priv.h"

#define LAST_LINE (FAB_HAZARD_SLOTS - 1)

/* A line that a thread has. */
struct claim {
    struct orl_list in_thread;
    struct fab_node *node;   /* borrows */
    struct fab_hazard *line; /* borrows */
};

/* What one thread has. */
struct thread_lines {
    struct orl_list in_process;
    struct orl_list claims;   /* owns */
    struct fab_hazard **mine; /* the thread's fab_hazard_mine */
};

ORL_TLS struct fab_hazard *fab_hazard_mine;
static ORL_TLS const struct fab_hazard *turn; /* the shared line while this thread is inside */

static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lists_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;
static struct orl_list threads = { &threads, &threads }; /* lists_lock */

/* ---------------------------------------------------------------- lines of a rank */

static void raise_high(struct fab_node_ctl *ctl, uint32_t high)
{
    uint32_t now = atomic_load_explicit(&ctl->hazard_high, memory_order_relaxed);

    /* In the one total order that fab_node_dereg's scan is part of: a word in the line is preceded
     * by the mark that makes the scan look there. */
    while (now < high &&
           !atomic_compare_exchange_weak_explicit(&ctl->hazard_high, &now, high,
                                                  memory_order_seq_cst, memory_order_relaxed)) {
    }
}

static struct fab_hazard *take_line(struct fab_node *node)
{
    struct fab_node_ctl *ctl = &node->ctl[node->local];
    struct fab_hazard *lines = fab_node_lines(node, node->local);

    for (unsigned i = 0; i < LAST_LINE; i++) {
        uint64_t bit = UINT64_C(1) << i;

        if ((atomic_fetch_or_explicit(&ctl->hazard_used, bit, memory_order_acquire) & bit) == 0) {
            lines[i].checked = 0;
            raise_high(ctl, i + 1);
            return &lines[i];
        }
    }
    raise_high(ctl, FAB_HAZARD_SLOTS);
    return &lines[LAST_LINE];
}

static void give_line_back(struct fab_node *node, struct fab_hazard *line)
{
    uint64_t bit = UINT64_C(1) << (line - fab_node_lines(node, node->local));

    if (line->shared == 0) {
        atomic_store_explicit(&line->word, 0, memory_order_release);
        atomic_fetch_and_explicit(&node->ctl[node->local].hazard_used, ~bit, memory_order_release);
    }
}

/* ---------------------------------------------------------------- lists */

/* Ends what a thread has; gives_back says whether the lines return to the rank. */
static void free_thread(struct thread_lines *thread, bool gives_back)
{
    struct orl_list *it;
    struct orl_list *next;

    orl_list_each_safe(it, next, &thread->claims) {
        struct claim *claim = container_of(it, struct claim, in_thread);

        if (gives_back) {
            give_line_back(claim->node, claim->line);
        }
        free(claim);
    }
    free(thread);
}

static void thread_ends(void *value)
{
    struct thread_lines *thread = value;

    fab_hazard_mine = NULL;
    (void)pthread_mutex_lock(&lists_lock);
    orl_list_del(&thread->in_process);
    free_thread(thread, true);
    (void)pthread_mutex_unlock(&lists_lock);
}

static void before_fork(void)
{
    (void)pthread_mutex_lock(&lists_lock);
}

static void after_fork_in_parent(void)
{
    (void)pthread_mutex_unlock(&lists_lock);
}

static void after_fork_in_child(void)
{
    struct orl_list *it;
    struct orl_list *next;

    fab_hazard_mine = NULL;
    turn = NULL;
    if (has_key) {
        (void)pthread_setspecific(key, NULL);
    }
    orl_list_each_safe(it, next, &threads) {
        free_thread(container_of(it, struct thread_lines, in_process), false);
    }
    orl_list_init(&threads);
    (void)pthread_mutex_unlock(&lists_lock);
    /* A thread that the child does not have may have been inside. */
    (void)pthread_mutex_init(&turn_lock, NULL);
}

/* Without a key lines are not given back at thread exit, but at the end of the node. */
static void start(void)
{
    has_key = pthread_key_create(&key, thread_ends) == 0;
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static struct thread_lines *this_thread(void)
{
    struct thread_lines *thread = has_key ? pthread_getspecific(key) : NULL;

    if (thread != NULL || !has_key) {
        return thread;
    }
    thread = malloc(sizeof(*thread));
    if (thread == NULL) {
        return NULL;
    }
    if (pthread_setspecific(key, thread) != 0) {
        free(thread);
        return NULL;
    }
    orl_list_init(&thread->claims);
    orl_list_init(&thread->in_process);
    thread->mine = &fab_hazard_mine;
    orl_list_add_tail(&threads, &thread->in_process);
    return thread;
}

static struct claim *find_claim(struct thread_lines *thread, const struct fab_node *node)
{
    struct orl_list *it;

    orl_list_each(it, &thread->claims) {
        struct claim *claim = container_of(it, struct claim, in_thread);

        if (claim->node == node) {
            return claim;
        }
    }
    return NULL;
}

static struct claim *make_claim(struct thread_lines *thread, struct fab_node *node)
{
    struct claim *claim = malloc(sizeof(*claim));

    if (claim != NULL) {
        claim->node = node;
        claim->line = take_line(node);
        orl_list_init(&claim->in_thread);
        orl_list_add_tail(&thread->claims, &claim->in_thread);
    }
    return claim;
}

/* ---------------------------------------------------------------- calls */

struct fab_hazard *fab_hazard_claim(struct fab_node *node)
{
    struct thread_lines *thread;
    struct claim *claim = NULL;

    (void)pthread_once(&once, start);
    (void)pthread_mutex_lock(&lists_lock);
    thread = this_thread();
    if (thread != NULL) {
        claim = find_claim(thread, node);
        claim = claim != NULL ? claim : make_claim(thread, node);
    }
    (void)pthread_mutex_unlock(&lists_lock);
    if (claim == NULL) {
        /* No memory to keep a claim in: the shared line needs none. It is not remembered, so that
         * the end of the node has nothing to take away. */
        raise_high(&node->ctl[node->local], FAB_HAZARD_SLOTS);
        return &fab_node_lines(node, node->local)[LAST_LINE];
    }
    fab_hazard_mine = claim->line;
    return claim->line;
}

static void forget_in_thread(struct thread_lines *thread, struct fab_node *node)
{
    struct claim *claim = find_claim(thread, node);

    if (claim == NULL) {
        return;
    }
    if (*thread->mine == claim->line) {
        *thread->mine = NULL;
    }
    give_line_back(node, claim->line);
    orl_list_del(&claim->in_thread);
    free(claim);
}

void fab_hazard_forget(struct fab_node *node)
{
    struct orl_list *it;

    (void)pthread_mutex_lock(&lists_lock);
    orl_list_each(it, &threads) {
        forget_in_thread(container_of(it, struct thread_lines, in_process), node);
    }
    (void)pthread_mutex_unlock(&lists_lock);
}

bool fab_hazard_is_mine(const struct fab_node *node, const struct fab_hazard *line)
{
    struct thread_lines *thread;
    struct claim *claim;

    if (line->shared != 0) {
        return line == turn;
    }
    (void)pthread_once(&once, start);
    thread = has_key ? pthread_getspecific(key) : NULL;
    /* The list is this thread's own; another changes it only when the node ends. */
    claim = thread != NULL ? find_claim(thread, node) : NULL;
    return claim != NULL && claim->line == line;
}

void fab_hazard_lock_shared(struct fab_hazard *line)
{
    (void)pthread_mutex_lock(&turn_lock);
    turn = line;
}

void fab_hazard_unlock_shared(struct fab_hazard *line)
{
    orl_assert(turn == line);
    (void)line;
    turn = NULL;
    (void)pthread_mutex_unlock(&turn_lock);
}
