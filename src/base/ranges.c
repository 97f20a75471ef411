/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The range set as a treap: a search tree by start that is at the same time a heap by a random
 * weight drawn for each node, which keeps its expected depth near two log2 of the count without
 * any balance to store. Nodes know their parent, so nothing recurses and walking needs no stack.
 * Since ranges never overlap, their ends are in the order of their starts. Callers bring their
 * own lock.
 */
#include "base/ranges.h"

#include "base/status.h"

#include <stdlib.h>

enum side {
    LEFT,
    RIGHT
};

struct orl_range_node {
    struct orl_range range; /* first, so that a range leads back to its node */
    struct orl_range_node *parent;
    struct orl_range_node *child[2];
    uint64_t weight;
};

void orl_ranges_init(struct orl_ranges *ranges)
{
    ranges->root = NULL;
    ranges->count = 0;
    ranges->seed = 1;
}

/* Frees leaves until none is left. */
void orl_ranges_fini(struct orl_ranges *ranges)
{
    struct orl_range_node *node;

    if (ranges == NULL) {
        return;
    }
    node = ranges->root;
    while (node != NULL) {
        struct orl_range_node *parent = node->parent;

        if (node->child[LEFT] != NULL) {
            parent = node->child[LEFT];
            node->child[LEFT] = NULL;
        } else if (node->child[RIGHT] != NULL) {
            parent = node->child[RIGHT];
            node->child[RIGHT] = NULL;
        } else {
            free(node);
        }
        node = parent;
    }
    orl_ranges_init(ranges);
}

/* xorshift64*: good enough for a coin. */
static uint64_t draw(struct orl_ranges *ranges)
{
    uint64_t x = ranges->seed;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    ranges->seed = x;
    return x * UINT64_C(2685821657736338717);
}

static enum side side_of(const struct orl_range_node *node)
{
    return node->parent->child[RIGHT] == node ? RIGHT : LEFT;
}

/* Where the pointer to node is kept: in its parent or in the set. */
static struct orl_range_node **place_of(struct orl_ranges *ranges, struct orl_range_node *node)
{
    return node->parent == NULL ? &ranges->root : &node->parent->child[side_of(node)];
}

/* Puts node where its parent is, and the parent below it. Keeps the order by start. */
static void rotate_up(struct orl_ranges *ranges, struct orl_range_node *node)
{
    struct orl_range_node *parent = node->parent;
    enum side side = side_of(node);
    enum side other = side == LEFT ? RIGHT : LEFT;
    struct orl_range_node *moved = node->child[other];

    *place_of(ranges, parent) = node;
    node->parent = parent->parent;
    node->child[other] = parent;
    parent->parent = node;
    parent->child[side] = moved;
    if (moved != NULL) {
        moved->parent = parent;
    }
}

/* Lowest node that ends above addr. */
static struct orl_range_node *first_ending_above(const struct orl_ranges *ranges, uint64_t addr)
{
    struct orl_range_node *node = ranges->root;
    struct orl_range_node *best = NULL;

    while (node != NULL) {
        if (node->range.end > addr) {
            best = node;
            node = node->child[LEFT];
        } else {
            node = node->child[RIGHT];
        }
    }
    return best;
}

struct orl_range *orl_ranges_find(const struct orl_ranges *ranges, uint64_t addr)
{
    struct orl_range_node *node = first_ending_above(ranges, addr);

    return node != NULL && node->range.start <= addr ? &node->range : NULL;
}

struct orl_range *orl_ranges_find_overlap(const struct orl_ranges *ranges, uint64_t start,
                                          uint64_t end)
{
    struct orl_range_node *node = first_ending_above(ranges, start);

    return start < end && node != NULL && node->range.start < end ? &node->range : NULL;
}

static void insert(struct orl_ranges *ranges, struct orl_range_node *node)
{
    struct orl_range_node **place = &ranges->root;
    struct orl_range_node *parent = NULL;

    while (*place != NULL) {
        parent = *place;
        place = &parent->child[node->range.start > parent->range.start ? RIGHT : LEFT];
    }
    node->parent = parent;
    *place = node;
    while (node->parent != NULL && node->parent->weight < node->weight) {
        rotate_up(ranges, node);
    }
}

int orl_ranges_add(struct orl_ranges *ranges, uint64_t start, uint64_t end, void *data)
{
    const struct orl_range *other;
    struct orl_range_node *node;

    if (end <= start) {
        return orl_fail(ORL_ERR_INVAL, "range %#lx to %#lx is empty", (unsigned long)start,
                        (unsigned long)end);
    }
    other = orl_ranges_find_overlap(ranges, start, end);
    if (other != NULL) {
        return orl_fail(ORL_ERR_BUSY, "range %#lx to %#lx overlaps %#lx to %#lx",
                        (unsigned long)start, (unsigned long)end, (unsigned long)other->start,
                        (unsigned long)other->end);
    }
    node = calloc(1, sizeof *node);
    if (node == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for range %zu of a set", ranges->count + 1);
    }
    node->range.start = start;
    node->range.end = end;
    node->range.data = data;
    node->weight = draw(ranges);
    insert(ranges, node);
    ranges->count++;
    return ORL_OK;
}

static struct orl_range_node *heavier_child(const struct orl_range_node *node)
{
    struct orl_range_node *left = node->child[LEFT];
    struct orl_range_node *right = node->child[RIGHT];

    return left->weight > right->weight ? left : right;
}

/* Sinks node until it has at most one child, which then takes its place. */
static void cut_out(struct orl_ranges *ranges, struct orl_range_node *node)
{
    struct orl_range_node *only;

    while (node->child[LEFT] != NULL && node->child[RIGHT] != NULL) {
        rotate_up(ranges, heavier_child(node));
    }
    only = node->child[LEFT] != NULL ? node->child[LEFT] : node->child[RIGHT];
    *place_of(ranges, node) = only;
    if (only != NULL) {
        only->parent = node->parent;
    }
}

bool orl_ranges_del(struct orl_ranges *ranges, uint64_t start)
{
    struct orl_range_node *node = first_ending_above(ranges, start);

    if (node == NULL || node->range.start != start) {
        return false;
    }
    cut_out(ranges, node);
    free(node);
    ranges->count--;
    return true;
}

static struct orl_range_node *leftmost(struct orl_range_node *node)
{
    while (node != NULL && node->child[LEFT] != NULL) {
        node = node->child[LEFT];
    }
    return node;
}

struct orl_range *orl_ranges_next(const struct orl_ranges *ranges, const struct orl_range *prev)
{
    const struct orl_range_node *node = (const struct orl_range_node *)(const void *)prev;
    struct orl_range_node *after;

    if (prev == NULL) {
        after = leftmost(ranges->root);
    } else if (node->child[RIGHT] != NULL) {
        after = leftmost(node->child[RIGHT]);
    } else {
        while (node->parent != NULL && side_of(node) == RIGHT) {
            node = node->parent;
        }
        after = node->parent;
    }
    return after != NULL ? &after->range : NULL;
}

size_t orl_ranges_count(const struct orl_ranges *ranges)
{
    return ranges->count;
}
