/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intrusive doubly linked list. A struct orl_list is both the anchor and the node: embed one in
 * the object and come back to the object with container_of. Used everywhere that objects leave
 * from the middle. No lock of its own: whoever owns the list says which lock guards it. It does
 * not allocate, count or own the objects on it.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct orl_list {
    struct orl_list *prev;
    struct orl_list *next;
};

/* Makes an empty list, or a node that is on no list. */
static inline void orl_list_init(struct orl_list *list)
{
    list->prev = list;
    list->next = list;
}

static inline bool orl_list_is_empty(const struct orl_list *list)
{
    return list->next == list;
}

/* Puts node behind place; place is an anchor or a node on a list. The node must be on no list. */
static inline void orl_list_add_after(struct orl_list *place, struct orl_list *node)
{
    node->prev = place;
    node->next = place->next;
    place->next->prev = node;
    place->next = node;
}

static inline void orl_list_add_head(struct orl_list *list, struct orl_list *node)
{
    orl_list_add_after(list, node);
}

static inline void orl_list_add_tail(struct orl_list *list, struct orl_list *node)
{
    orl_list_add_after(list->prev, node);
}

/* Takes node off its list. Harmless on an initialised node that is on no list. */
static inline void orl_list_del(struct orl_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    orl_list_init(node);
}

/* First node, still on the list; NULL when the list is empty. */
static inline struct orl_list *orl_list_head(const struct orl_list *list)
{
    return orl_list_is_empty(list) ? NULL : list->next;
}

/* Takes the first node off; NULL when the list is empty. */
static inline struct orl_list *orl_list_pop_head(struct orl_list *list)
{
    struct orl_list *node = orl_list_head(list);

    if (node != NULL) {
        orl_list_del(node);
    }
    return node;
}

/* Moves all nodes of from, in order, behind those of list; from is empty afterwards. */
static inline void orl_list_splice_tail(struct orl_list *list, struct orl_list *from)
{
    if (orl_list_is_empty(from)) {
        return;
    }
    from->next->prev = list->prev;
    list->prev->next = from->next;
    from->prev->next = list;
    list->prev = from->prev;
    orl_list_init(from);
}

/*
 * Loops over the nodes. The caller declares the cursors (struct orl_list *), so that nothing is
 * declared out of sight. The list must not change in the body of the first form; in the body of
 * the second the current node, and only that one, may leave.
 */
#define orl_list_each(it, list) for ((it) = (list)->next; (it) != (list); (it) = (it)->next)

#define orl_list_each_safe(it, after, list)                      \
 for ((it) = (list)->next, (after) = (it)->next; (it) != (list); \
      (it) = (after), (after) = (it)->next)

#endif
