/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that peers load and store directly: the allocator of a rank's own arena.
 *
 * Called by the owner only, any thread; what it knows of blocks is in the process's own memory, so
 * a peer can neither read nor break it. Blocks of a page and more occupy whole pages, smaller ones
 * are packed in steps of 64 bytes. Free blocks are kept by size class; the search takes the first
 * that fits in the smallest class that has one.
 *
 * Pages exist exactly where a used block is: those that lay wholly inside the free block an
 * allocation is cut from are reserved before it is returned, those that lie wholly inside the free
 * block a release makes are given back. Both need only the block's two ends, no count per page.
 * Blocks of whole pages share none with others, so their pages come and go without the lock. The
 * page or two that the last small block left stay until the next such release: a program that makes
 * and frees one small block again and again costs no system call.
 */
#include "fabric/node.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/status.h"
#include "base/sys.h"
#include "fabric/node_priv.h"

#define ALIGN_SMALL ((uint64_t)ORL_CACHE_LINE)
#define BIG_BYTES   (UINT64_C(1) << 20) /* from here on aligned to a huge page */

struct block {
    struct orl_list by_address;
    struct orl_list in_bin; /* free blocks */
    uint64_t start;         /* in the arena */
    uint64_t bytes;
    bool is_free;
};

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) & ~(unit - 1);
}

static uint64_t round_down(uint64_t value, uint64_t unit)
{
    return value & ~(unit - 1);
}

static unsigned bin_of(uint64_t bytes)
{
    return 63u - (unsigned)__builtin_clzll(bytes);
}

static uint64_t end_of(const struct block *block)
{
    return block->start + block->bytes;
}

/* ---------------------------------------------------------------- blocks */

static struct block *block_make(uint64_t start, uint64_t bytes)
{
    struct block *block = malloc(sizeof(*block));

    if (block != NULL) {
        orl_list_init(&block->by_address);
        orl_list_init(&block->in_bin);
        block->start = start;
        block->bytes = bytes;
        block->is_free = false;
    }
    return block;
}

static void bin_add(struct fab_arena *arena, struct block *block)
{
    unsigned bin = bin_of(block->bytes);

    block->is_free = true;
    orl_list_add_head(&arena->bins[bin], &block->in_bin);
    arena->bins_used |= UINT64_C(1) << bin;
}

static void bin_del(struct fab_arena *arena, struct block *block)
{
    unsigned bin = bin_of(block->bytes);

    block->is_free = false;
    orl_list_del(&block->in_bin);
    if (orl_list_is_empty(&arena->bins[bin])) {
        arena->bins_used &= ~(UINT64_C(1) << bin);
    }
}

static struct block *neighbour(const struct fab_arena *arena, struct orl_list *node)
{
    struct block *block;

    if (node == &arena->blocks) {
        return NULL;
    }
    block = container_of(node, struct block, by_address);
    return block->is_free ? block : NULL;
}

static struct block *fit_in_bin(struct fab_arena *arena, unsigned bin, uint64_t bytes,
                                uint64_t align)
{
    struct orl_list *it;

    orl_list_each(it, &arena->bins[bin]) {
        struct block *block = container_of(it, struct block, in_bin);
        uint64_t start = round_up(block->start, align);

        if (start < end_of(block) && end_of(block) - start >= bytes) {
            return block;
        }
    }
    return NULL;
}

static struct block *find_fit(struct fab_arena *arena, uint64_t bytes, uint64_t align)
{
    uint64_t bins = arena->bins_used & ~((UINT64_C(1) << bin_of(bytes)) - 1);

    while (bins != 0) {
        struct block *block = fit_in_bin(arena, (unsigned)__builtin_ctzll(bins), bytes, align);

        if (block != NULL) {
            return block;
        }
        bins &= bins - 1;
    }
    return NULL;
}

/* Puts what is left of a free block behind the used part back as a block of its own. */
static void split_off(struct fab_arena *arena, struct orl_list *place, struct block *rest)
{
    if (rest->bytes == 0) {
        free(rest);
        return;
    }
    orl_list_add_after(place, &rest->by_address);
    bin_add(arena, rest);
}

/*
 * Cuts [start, start + bytes) out of a free block and enters it as used. Returns it, or NULL when
 * there is no memory for that, with nothing changed.
 */
static struct block *cut(struct fab_arena *arena, struct block *from, uint64_t start,
                         uint64_t bytes)
{
    struct block *head = block_make(from->start, start - from->start);
    struct block *tail = block_make(start + bytes, end_of(from) - start - bytes);

    if (head == NULL || tail == NULL || orl_map_put(&arena->used, start, from) != 0) {
        free(head);
        free(tail);
        return NULL;
    }
    bin_del(arena, from);
    from->start = start;
    from->bytes = bytes;
    arena->free_bytes -= bytes;
    split_off(arena, from->by_address.prev, head);
    split_off(arena, &from->by_address, tail);
    return from;
}

/* Makes a used block free and one with its free neighbours; returns that one. */
static struct block *merge(struct fab_arena *arena, struct block *block)
{
    struct block *prev = neighbour(arena, block->by_address.prev);
    struct block *next = neighbour(arena, block->by_address.next);

    arena->free_bytes += block->bytes;
    if (prev != NULL) {
        bin_del(arena, prev);
        block->start = prev->start;
        block->bytes += prev->bytes;
        orl_list_del(&prev->by_address);
        free(prev);
    }
    if (next != NULL) {
        bin_del(arena, next);
        block->bytes += next->bytes;
        orl_list_del(&next->by_address);
        free(next);
    }
    bin_add(arena, block);
    return block;
}

int fab_arena_init(struct fab_node *node)
{
    struct fab_arena *arena = &node->priv->arena;
    struct block *all = block_make(0, node->arena_stride);

    orl_lock_init(&arena->lock, ORL_RANK_POOL, "arena");
    orl_list_init(&arena->blocks);
    orl_map_init(&arena->used);
    for (unsigned i = 0; i < FAB_ARENA_BINS; i++) {
        orl_list_init(&arena->bins[i]);
    }
    if (all == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for the list of blocks of shared memory");
    }
    arena->free_bytes = all->bytes;
    orl_list_add_tail(&arena->blocks, &all->by_address);
    bin_add(arena, all);
    return 0;
}

void fab_arena_fini(struct fab_node *node)
{
    struct fab_arena *arena = &node->priv->arena;
    struct orl_list *it = arena->blocks.next;

    /* NULL: never made. */
    while (it != NULL && it != &arena->blocks) {
        struct block *block = container_of(it, struct block, by_address);

        it = it->next;
        free(block);
    }
    orl_list_init(&arena->blocks);
    orl_map_fini(&arena->used);
    orl_lock_fini(&arena->lock);
}

/* ---------------------------------------------------------------- pages */

/* The pages that [start, start + bytes) touches and that lie wholly in the free span around it. */
static struct fab_span pages_in(struct fab_span free_span, uint64_t start, uint64_t bytes)
{
    uint64_t page = orl_sys_page_bytes();
    struct fab_span pages = { round_down(start, page), round_up(start + bytes, page) };
    uint64_t low = round_up(free_span.start, page);
    uint64_t high = round_down(free_span.end, page);

    pages.start = pages.start < low ? low : pages.start;
    pages.end = pages.end > high ? high : pages.end;
    return pages;
}

/* Whether the system gives huge pages to shared memory that asks; read once. */
static bool has_huge_pages(void)
{
    static _Atomic int known = -1;
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    char text[128] = "";
    ssize_t n;
    int fd;

    if (answer >= 0) {
        return answer != 0;
    }
    fd = open("/sys/kernel/mm/transparent_hugepage/shmem_enabled", O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    /* The setting in force stands in brackets. */
    answer = n > 0 && strstr(text, "[never]") == NULL && strstr(text, "[deny]") == NULL;
    atomic_store_explicit(&known, answer, memory_order_relaxed);
    return answer != 0;
}

/* Fills whole huge pages at the start of the block; returns how many bytes of it now exist. What
 * cannot be had so is left for small pages. */
static uint64_t take_huge_pages(unsigned char *memory, uint64_t bytes)
{
    uint64_t whole = round_down(bytes, FAB_HUGE_BYTES);

    if (whole == 0 || orl_conf.shm_huge == ORL_CONF_SHM_HUGE_NEVER || !has_huge_pages() ||
        whole > orl_sys_mem_available_bytes()) {
        return 0;
    }
    /* Reserving by descriptor would fill the range with small pages: a fault, where it sees the
     * advice, takes huge ones. */
    if (!orl_sys_huge_pages(memory, whole) || madvise(memory, whole, MADV_POPULATE_WRITE) != 0) {
        return 0;
    }
    return whole;
}

static void release_pages(struct fab_node *node, struct fab_span pages)
{
    unsigned char *memory = fab_node_my_arena(node) + pages.start;

    if (pages.end <= pages.start) {
        return;
    }
    if (node->fd < 0 ||
        orl_sys_release(node->fd, (uint64_t)(memory - node->base), pages.end - pages.start) != 0) {
        /* They stay, so they are cleared as the next allocation expects them. */
        memset(memory, 0, pages.end - pages.start);
    }
}

static void release_idle(struct fab_node *node)
{
    release_pages(node, node->priv->arena.idle);
    node->priv->arena.idle = (struct fab_span){ 0, 0 };
}

/* Before [start, end) becomes used: pages of it that are idle are not zero. */
static void release_idle_in(struct fab_node *node, uint64_t start, uint64_t end)
{
    if (node->priv->arena.idle.start < end && start < node->priv->arena.idle.end) {
        release_idle(node);
    }
}

/* Makes the pages of a small block exist. */
static int take_pages(struct fab_node *node, struct fab_span pages)
{
    struct fab_arena *arena = &node->priv->arena;

    if (pages.end <= pages.start) {
        return 0;
    }
    if (pages.start == arena->idle.start && pages.end == arena->idle.end) {
        arena->idle = (struct fab_span){ 0, 0 };
        return 0;
    }
    release_idle_in(node, pages.start, pages.end);
    return fab_node_reserve(node, fab_node_my_arena(node) + pages.start, pages.end - pages.start);
}

/* ---------------------------------------------------------------- calls */

/* The block, and the free span it was cut from; NULL with *st and its text. */
static struct block *find_and_cut(struct fab_arena *arena, uint64_t bytes, uint64_t align,
                                  struct fab_span *around, int *st)
{
    struct block *from = find_fit(arena, bytes, align);
    struct block *block;

    if (from == NULL) {
        *st = orl_fail(ORL_ERR_NOMEM,
                       "%llu bytes of shared memory do not fit: this rank's part has %llu bytes "
                       "free, not all in one piece; ORIEL_SHM_SIZE sets its size",
                       (unsigned long long)bytes, (unsigned long long)arena->free_bytes);
        return NULL;
    }
    around->start = from->start;
    around->end = end_of(from);
    block = cut(arena, from, round_up(from->start, align), bytes);
    if (block == NULL) {
        *st = orl_fail(ORL_ERR_NOMEM, "no memory to keep account of %llu bytes of shared memory",
                       (unsigned long long)bytes);
    }
    return block;
}

/* A block that could not get its pages. */
static void uncut(struct fab_arena *arena, struct block *block)
{
    (void)orl_map_del(&arena->used, block->start);
    (void)merge(arena, block);
}

/* Under the lock, since neighbours may share its pages. */
static struct block *cut_small(struct fab_node *node, uint64_t bytes, int *st)
{
    struct fab_arena *arena = &node->priv->arena;
    struct fab_span around = { 0, 0 };
    struct block *block = find_and_cut(arena, bytes, ALIGN_SMALL, &around, st);

    if (block == NULL) {
        return NULL;
    }
    *st = take_pages(node, pages_in(around, block->start, block->bytes));
    if (*st != 0) {
        uncut(arena, block);
        return NULL;
    }
    return block;
}

static int alloc_small(struct fab_node *node, uint64_t bytes, void **memory)
{
    struct fab_arena *arena = &node->priv->arena;
    struct block *block;
    int st = 0;

    orl_lock(&arena->lock);
    block = cut_small(node, bytes, &st);
    orl_unlock(&arena->lock);
    if (block == NULL) {
        return st;
    }
    *memory = fab_node_my_arena(node) + block->start;
    /* Its pages may hold what an earlier block left. */
    memset(*memory, 0, bytes);
    return 0;
}

static int alloc_pages(struct fab_node *node, uint64_t bytes, uint64_t align, void **memory)
{
    struct fab_arena *arena = &node->priv->arena;
    struct block *block;
    struct fab_span around;
    unsigned char *start;
    uint64_t done;
    int st = 0;

    orl_lock(&arena->lock);
    block = find_and_cut(arena, bytes, align, &around, &st);
    if (block != NULL) {
        release_idle_in(node, block->start, end_of(block));
    }
    orl_unlock(&arena->lock);
    if (block == NULL) {
        return st;
    }
    start = fab_node_my_arena(node) + block->start;
    done = take_huge_pages(start, bytes);
    st = fab_node_reserve(node, start + done, bytes - done);
    if (st != 0) {
        st = orl_fail(st, "%llu bytes of shared memory asked: %s", (unsigned long long)bytes,
                      orl_last_error());
        release_pages(node, (struct fab_span){ block->start, end_of(block) });
        orl_lock(&arena->lock);
        uncut(arena, block);
        orl_unlock(&arena->lock);
        return st;
    }
    *memory = start;
    return 0;
}

int fab_node_alloc(struct fab_node *node, uint64_t bytes, void **memory)
{
    uint64_t page = orl_sys_page_bytes();

    if (bytes > node->arena_stride) {
        return orl_fail(ORL_ERR_NOMEM,
                        "%llu bytes of shared memory asked, but a rank has %llu in all; "
                        "ORIEL_SHM_SIZE sets how many",
                        (unsigned long long)bytes, (unsigned long long)node->arena_stride);
    }
    bytes = bytes == 0 ? ALIGN_SMALL : round_up(bytes, ALIGN_SMALL);
    if (bytes < page) {
        return alloc_small(node, bytes, memory);
    }
    return alloc_pages(node, round_up(bytes, page), bytes >= BIG_BYTES ? FAB_HUGE_BYTES : page,
                       memory);
}

static void free_small(struct fab_node *node, struct block *block)
{
    uint64_t start = block->start;
    uint64_t bytes = block->bytes;
    struct block *merged = merge(&node->priv->arena, block);
    struct fab_span pages =
        pages_in((struct fab_span){ merged->start, end_of(merged) }, start, bytes);

    if (pages.end > pages.start) {
        release_idle(node);
        node->priv->arena.idle = pages;
    }
}

int fab_node_free(struct fab_node *node, void *memory)
{
    struct fab_arena *arena = &node->priv->arena;
    struct block *block = NULL;
    uint64_t start;

    if (memory == NULL) {
        return 0;
    }
    start = (uint64_t)((uintptr_t)memory - (uintptr_t)fab_node_my_arena(node));
    orl_lock(&arena->lock);
    block = orl_map_del(&arena->used, start);
    if (block != NULL && block->bytes < orl_sys_page_bytes()) {
        free_small(node, block);
        orl_unlock(&arena->lock);
        return 0;
    }
    orl_unlock(&arena->lock);
    if (block == NULL) {
        return orl_fail(ORL_ERR_INVAL,
                        "%p is not shared memory of this rank, or was given back before", memory);
    }
    /* Still a used block, and of no other's pages: the lock is not needed for this. */
    release_pages(node, (struct fab_span){ block->start, end_of(block) });
    orl_lock(&arena->lock);
    (void)merge(arena, block);
    orl_unlock(&arena->lock);
    return 0;
}

bool fab_node_holds(const struct fab_node *node, const void *memory, uint64_t bytes)
{
    uint64_t start = (uint64_t)((uintptr_t)memory - (uintptr_t)fab_node_my_arena(node));

    return start < node->arena_stride && bytes <= node->arena_stride - start;
}
