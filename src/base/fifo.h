/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intrusive first-in first-out queues, one pointer per element. struct orl_fifo belongs to one
 * thread or lives under its owner's lock. struct orl_mpsc takes pushes from any thread, without
 * a lock, and gives them to one consumer. Neither allocates or counts, and an element is on at
 * most one queue at a time.
 *
 * Argument for orl_mpsc. Writers: a pusher writes link->next of its own element, then publishes
 * it with a release compare-and-swap on `pushed`. The consumer takes the whole chain with one
 * acquire exchange; every swap continues the release sequence of the earlier ones, so that one
 * acquire sees all elements of the chain complete. No element is ever compared after it was
 * taken, so a recycled address cannot confuse a swap. A thread that dies between its writes and
 * its swap has pushed nothing; the chain is whole at every moment.
 */
#ifndef BASE_FIFO_H
#define BASE_FIFO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct orl_link {
    struct orl_link *next;
};

struct orl_fifo {
    struct orl_link *head;
    struct orl_link *tail; /* meaningless while head is NULL */
};

static inline void orl_fifo_init(struct orl_fifo *fifo)
{
    fifo->head = NULL;
    fifo->tail = NULL;
}

static inline bool orl_fifo_is_empty(const struct orl_fifo *fifo)
{
    return fifo->head == NULL;
}

/* Appends link. */
static inline void orl_fifo_push(struct orl_fifo *fifo, struct orl_link *link)
{
    link->next = NULL;
    if (fifo->head == NULL) {
        fifo->head = link;
    } else {
        fifo->tail->next = link;
    }
    fifo->tail = link;
}

/* Puts link first, for an element that was popped and could not be served. */
static inline void orl_fifo_push_head(struct orl_fifo *fifo, struct orl_link *link)
{
    link->next = fifo->head;
    if (fifo->head == NULL) {
        fifo->tail = link;
    }
    fifo->head = link;
}

/* Oldest element, left in place; NULL when empty. */
static inline struct orl_link *orl_fifo_peek(const struct orl_fifo *fifo)
{
    return fifo->head;
}

/* Takes the oldest element; NULL when empty. */
static inline struct orl_link *orl_fifo_pop(struct orl_fifo *fifo)
{
    struct orl_link *link = fifo->head;

    if (link != NULL) {
        fifo->head = link->next;
    }
    return link;
}

/* Moves all elements of from, in order, behind those of fifo; from is empty afterwards. */
static inline void orl_fifo_splice(struct orl_fifo *fifo, struct orl_fifo *from)
{
    if (from->head == NULL) {
        return;
    }
    if (fifo->head == NULL) {
        fifo->head = from->head;
    } else {
        fifo->tail->next = from->head;
    }
    fifo->tail = from->tail;
    orl_fifo_init(from);
}

/* Loops over the links without taking them; the caller declares the cursor. */
#define orl_fifo_each(it, fifo) for ((it) = (fifo)->head; (it) != NULL; (it) = (it)->next)

struct orl_mpsc {
    struct orl_link *_Atomic pushed; /* newest first, written by all */
    struct orl_link *ready;          /* oldest first, the consumer's own */
};

static inline void orl_mpsc_init(struct orl_mpsc *mpsc)
{
    atomic_init(&mpsc->pushed, NULL);
    mpsc->ready = NULL;
}

/*
 * Appends link, from any thread. True when nothing was waiting to be taken, so that the pusher
 * may have to wake the consumer.
 */
static inline bool orl_mpsc_push(struct orl_mpsc *mpsc, struct orl_link *link)
{
    struct orl_link *top = atomic_load_explicit(&mpsc->pushed, memory_order_relaxed);

    do {
        link->next = top;
    } while (!atomic_compare_exchange_weak_explicit(&mpsc->pushed, &top, link, memory_order_release,
                                                    memory_order_relaxed));
    return top == NULL;
}

/*
 * Takes the oldest element; NULL when there is none. One consumer at a time.
 * Order: the order of the pushes, over all pushers.
 */
static inline struct orl_link *orl_mpsc_pop(struct orl_mpsc *mpsc)
{
    struct orl_link *link = mpsc->ready;

    if (link == NULL && atomic_load_explicit(&mpsc->pushed, memory_order_relaxed) != NULL) {
        struct orl_link *chain =
            atomic_exchange_explicit(&mpsc->pushed, NULL, memory_order_acquire);

        while (chain != NULL) {
            struct orl_link *older = chain->next;

            chain->next = link;
            link = chain;
            chain = older;
        }
    }
    if (link != NULL) {
        mpsc->ready = link->next;
    }
    return link;
}

/* Whether a pop would give nothing. For the consumer; a push may follow at once. */
static inline bool orl_mpsc_is_empty(const struct orl_mpsc *mpsc)
{
    return mpsc->ready == NULL && atomic_load_explicit(&mpsc->pushed, memory_order_relaxed) == NULL;
}

#endif
