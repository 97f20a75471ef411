/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the parts of a node segment lie, and which of its pages exist.
 *
 * The shape follows from the number of ranks and the size of an arena alone, so that every rank
 * finds the same places. Almost all of it is address space without pages; a part's pages are made
 * before it is touched, so that no store can fail for want of room. No state and no lock; any
 * thread may reserve and populate.
 */
#include "fabric/node.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/status.h"
#include "base/sys.h"
#include "fabric/node_priv.h"

#define ARENA_MIN (UINT64_C(64) << 20) /* an automatic size shrinks to this under limits */

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* ---------------------------------------------------------------- shape */

/* Takes bytes from the front of what is not laid out yet. */
static uint64_t next_part(uint64_t *used, uint64_t bytes, uint64_t align)
{
    uint64_t offset = round_up(*used, align);

    *used = offset + bytes;
    return offset;
}

uint64_t fab_node_arena_stride(uint64_t arena_bytes)
{
    return round_up(arena_bytes == 0 ? 1 : arena_bytes, FAB_HUGE_BYTES);
}

/* Alignments are constants, not the page size, so that the shape is the same everywhere: 64 KiB is
 * the largest page there is. */
struct fab_node_shape fab_node_shape(uint64_t n, uint64_t arena_stride)
{
    const uint64_t part = UINT64_C(64) << 10;
    const uint64_t line = sizeof(struct fab_flag);
    uint64_t used = FAB_HEADER_PART;
    struct fab_node_shape s;

    s.ctl = next_part(&used, n * sizeof(struct fab_node_ctl), ORL_CACHE_LINE);
    s.flags = next_part(&used, FAB_FLAG_SETS * n * line, ORL_CACHE_LINE);
    s.done = next_part(&used, n * line, ORL_CACHE_LINE);
    s.hazards = next_part(&used, n * FAB_HAZARD_SLOTS * sizeof(struct fab_hazard), part);
    s.stage = next_part(&used, n * FAB_STAGE_STRIDE, FAB_HUGE_BYTES);
    s.regs = next_part(&used, n * FAB_REGS_MAX * sizeof(struct fab_reg), FAB_HUGE_BYTES);
    s.rings = next_part(&used, n * n * FAB_RING_STRIDE, FAB_HUGE_BYTES);
    s.cells = next_part(&used, n * FAB_CELL_STRIDE, FAB_HUGE_BYTES);
    s.arena = next_part(&used, n * arena_stride, FAB_HUGE_BYTES);
    s.bytes = used;
    return s;
}

void fab_node_lay_out(struct fab_node *node, void *base, int nranks, uint64_t arena_stride)
{
    struct fab_node_shape s = fab_node_shape((uint64_t)nranks, arena_stride);
    unsigned char *start = base;

    node->base = start;
    node->bytes = s.bytes;
    node->nranks = nranks;
    node->header = base;
    node->ctl = (void *)(start + s.ctl);
    node->hazards = (void *)(start + s.hazards);
    node->regs = (void *)(start + s.regs);
    node->flags = (void *)(start + s.flags);
    node->done = (void *)(start + s.done);
    node->stage = start + s.stage;
    node->rings = start + s.rings;
    node->cells = start + s.cells;
    node->arena = start + s.arena;
    node->ring_stride = FAB_RING_STRIDE;
    node->cell_stride = FAB_CELL_STRIDE;
    node->arena_stride = arena_stride;
}

uint64_t fab_node_lay_bytes(int nranks, uint64_t arena_bytes)
{
    return fab_node_shape((uint64_t)nranks, fab_node_arena_stride(arena_bytes)).bytes;
}

/* What a limit leaves for the segment: half, the rest is the program's. */
static uint64_t limit_of(__rlimit_resource_t resource)
{
    struct rlimit limit;

    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return FAB_SPACE_MAX;
    }
    return limit.rlim_cur / 2;
}

/* An arena as large as the machine's memory costs nothing but address space; a limit on that, or
 * very many ranks, makes it smaller. */
uint64_t fab_node_automatic_arena(int nranks)
{
    uint64_t memory = orl_sys_mem_total_bytes();
    uint64_t arena = ARENA_MIN;
    uint64_t room = limit_of(RLIMIT_AS);
    uint64_t file = limit_of(RLIMIT_FSIZE);

    room = file < room ? file : room;
    while (arena < memory && arena < FAB_SPACE_MAX &&
           fab_node_shape((uint64_t)nranks, arena * 2).bytes <= room) {
        arena *= 2;
    }
    if (arena < memory) {
        orl_log_info(ORL_CAT_NODE,
                     "limits leave each of %d ranks %llu bytes of address space for shared memory",
                     nranks, (unsigned long long)arena);
    }
    return arena;
}

/* ---------------------------------------------------------------- pages */

int fab_node_reserve(struct fab_node *node, const void *part, uint64_t bytes)
{
    uint64_t page = orl_sys_page_bytes();
    uint64_t offset = (uint64_t)((uintptr_t)part - (uintptr_t)node->base);
    uint64_t start = offset / page * page;

    if (offset > node->bytes || bytes > node->bytes - offset) {
        return orl_fail(ORL_ERR_INVAL, "%llu bytes at offset %llu do not lie in the node segment",
                        (unsigned long long)bytes, (unsigned long long)offset);
    }
    if (node->fd < 0 || bytes == 0) {
        return 0;
    }
    return orl_sys_reserve(node->fd, start, round_up(offset + bytes, page) - start);
}

void fab_node_populate(struct fab_node *node, const void *part, uint64_t bytes)
{
    uint64_t page = orl_sys_page_bytes();
    uint64_t offset = (uint64_t)((uintptr_t)part - (uintptr_t)node->base);
    uint64_t start = offset / page * page;

    if (node->fd >= 0 && bytes > 0) {
        (void)madvise(node->base + start, round_up(offset + bytes, page) - start,
                      MADV_POPULATE_WRITE);
    }
}
