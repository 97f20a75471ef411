/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking put, get and atomics. Memory that is mapped here is loaded, stored and counted in place:
 * complete on return, visible at the flush. The order of every direct call is: check the range,
 * name the registration in this thread's hazard line, prove that it still lives, touch, leave the
 * line. No lock, system call, allocation or call into libc on that way.
 *
 * Memory that is not mapped here goes down as one posted operation on the stack, waited for.
 */
#include "core/mem/mem.h"

#include <string.h>

#include "base/copy.h"
#include "core/path/path.h"

/* Operations of one thread between two looks at the clock for dead peers. */
#define TICK_MASK 63u

/* Whether the call may go the direct way: everything a put has to ask, in one expression. */
static inline bool is_direct(const struct oriel_remote *remote, uint64_t offset, uint64_t bytes,
                             uint32_t access)
{
    return ORL_LIKELY(core_is_open()) && ORL_LIKELY(remote != NULL) &&
           ORL_LIKELY(remote->magic == CORE_REMOTE_MAGIC) &&
           ORL_LIKELY(remote->key.direct != NULL) && ORL_LIKELY(bytes <= remote->key.bytes) &&
           ORL_LIKELY(offset <= remote->key.bytes - bytes) &&
           ORL_LIKELY((remote->access & access) != 0) &&
           ORL_LIKELY(atomic_load_explicit(&remote->peer->failed, memory_order_relaxed) == 0);
}

enum {
    PUTS,
    GETS,
    ATOMICS
};

/* This thread's hazard line, with one operation of that kind and so many bytes counted in it. */
static inline struct fab_hazard *my_line(unsigned kind, uint64_t bytes)
{
    struct fab_hazard *line = fab_hazard_mine;
    if (ORL_UNLIKELY(line == NULL)) {
        line = fab_hazard_claim(core.node);
    }
    if (kind != ATOMICS) {
        line->bytes[kind] += bytes;
    }
    if (ORL_UNLIKELY((++line->done[kind] & TICK_MASK) == 0)) {
        core_peer_tick(line);
    }
    return line;
}

static unsigned kind_of(const struct oriel_xfer *x)
{
    static const uint8_t kinds[] = { [ORIEL_PUT] = PUTS,
                                     [ORIEL_GET] = GETS,
                                     [ORIEL_PUT_NOTIFY] = PUTS,
                                     [ORIEL_ATOMIC] = ATOMICS,
                                     [ORIEL_COMPARE_SWAP] = ATOMICS };
    return kinds[x->kind];
}

void core_count(const struct oriel_xfer *x)
{
    (void)my_line(kind_of(x), x->bytes);
}

void core_count_sum(struct orl_stats *sum)
{
    const struct fab_hazard *line =
        core.node->hazards + (size_t)core.node->local * FAB_HAZARD_SLOTS;
    for (int i = 0; i < FAB_HAZARD_SLOTS; i++, line++) {
        orl_stat_add(sum, ORL_STAT_PUTS, line->done[PUTS]);
        orl_stat_add(sum, ORL_STAT_GETS, line->done[GETS]);
        orl_stat_add(sum, ORL_STAT_ATOMICS, line->done[ATOMICS]);
        orl_stat_add(sum, ORL_STAT_PUT_BYTES, line->bytes[PUTS]);
        orl_stat_add(sum, ORL_STAT_GET_BYTES, line->bytes[GETS]);
    }
}

static inline bool name(struct fab_hazard *line, const struct oriel_remote *remote)
{
    return fab_hazard_name(line, remote->key.hazard, remote->key.live, remote->key.gen);
}

static inline bool enter(struct fab_hazard *line, const struct oriel_remote *remote)
{
    return fab_hazard_enter(line, remote->key.hazard, remote->key.live, remote->key.gen);
}

/* Eight bytes are the common case and one store; the rest is the copy kernel's. */
static inline void move(void *dst, const void *src, uint64_t bytes)
{
    if (bytes == 8) {
        memcpy(dst, src, 8);
    } else {
        orl_copy(dst, src, bytes);
    }
}

/* A failed operation counts, its bytes do not. */
static void take_back(struct fab_hazard *line, unsigned kind, uint64_t bytes)
{
    if (kind != ATOMICS) {
        line->bytes[kind] -= bytes;
    }
}

static ORL_COLD int gone(const struct oriel_remote *remote, struct fab_hazard *line, unsigned kind,
                         uint64_t bytes)
{
    take_back(line, kind, bytes);
    return orl_fail(ORL_ERR_GONE,
                    "memory %llu of rank %d has been released; open a token of memory that lives",
                    (unsigned long long)remote->id, remote->owner);
}

/* ---------------------------------------------------------------- the slow way */

/* One posted operation, counted and waited for. The range has been checked. */
static int run_posted(struct oriel_remote *remote, unsigned kind, struct fab_op *op)
{
    const uint64_t bytes = op->bytes;
    struct fab_hazard *line = my_line(kind, bytes);
    op->rkey = remote->keys;
    op->flags = remote->rails;
    int st = core_path_run(remote->path, op, ORL_NEVER);
    if (st != 0) {
        take_back(line, kind, bytes);
    }
    return st;
}

static ORL_NOINLINE int put_slow(struct oriel_remote *remote, uint64_t offset, const void *src,
                                 uint64_t bytes)
{
    int st = core_remote_check(remote, offset, src, bytes, ORIEL_ACCESS_WRITE);
    if (st != 0 || bytes == 0) {
        return st;
    }
    union {
        const void *in;
        void *out;
    } local = { .in = src };
    struct fab_op op = { .kind = FAB_OP_PUT, .local = local.out, .bytes = bytes, .offset = offset };
    return run_posted(remote, PUTS, &op);
}

static ORL_NOINLINE int get_slow(struct oriel_remote *remote, uint64_t offset, void *dst,
                                 uint64_t bytes)
{
    int st = core_remote_check(remote, offset, dst, bytes, ORIEL_ACCESS_READ);
    if (st != 0 || bytes == 0) {
        return st;
    }
    struct fab_op op = { .kind = FAB_OP_GET, .local = dst, .bytes = bytes, .offset = offset };
    return run_posted(remote, GETS, &op);
}

static ORL_NOINLINE int notify_slow(struct oriel_remote *remote, const struct oriel_xfer *x)
{
    int st = core_remote_check(remote, x->offset, x->src, x->bytes, ORIEL_ACCESS_WRITE);
    if (st == 0) {
        st = core_counter_check(remote, x->counter);
    }
    if (st != 0) {
        return st;
    }
    union {
        const void *in;
        void *out;
    } local = { .in = x->src };
    struct fab_op op = { .kind = FAB_OP_PUT_NOTIFY,
                         .local = local.out,
                         .bytes = x->bytes,
                         .offset = x->offset,
                         .operand = x->operand,
                         .notify = x->counter };
    return run_posted(remote, PUTS, &op);
}

/* ORIEL_COMPARE_SWAP is asked for by kind, the others by x->atomic. */
static ORL_NOINLINE int atomic_slow(struct oriel_remote *remote, const struct oriel_xfer *x)
{
    int st = core_atomic_check(remote, x);
    if (st != 0) {
        return st;
    }
    struct fab_op op = { .kind = FAB_OP_AMO,
                         .amo = core_amo_of(x),
                         .width = (uint8_t)x->bytes,
                         .local = x->dst,
                         .bytes = x->bytes,
                         .offset = x->offset,
                         .operand = x->operand,
                         .compare = x->expected };
    return run_posted(remote, ATOMICS, &op);
}

/* ---------------------------------------------------------------- put and get */

static ORL_NOINLINE int put_any(struct oriel_remote *remote, uint64_t offset, const void *src,
                                uint64_t bytes)
{
    if (!is_direct(remote, offset, bytes, ORIEL_ACCESS_WRITE) || ORL_UNLIKELY(src == NULL)) {
        return put_slow(remote, offset, src, bytes);
    }
    struct fab_hazard *line = my_line(PUTS, bytes);
    if (ORL_UNLIKELY(!enter(line, remote))) {
        return gone(remote, line, PUTS, bytes);
    }
    move(remote->key.direct + offset, src, bytes);
    fab_hazard_leave(line);
    return 0;
}

static ORL_NOINLINE int get_any(struct oriel_remote *remote, uint64_t offset, void *dst,
                                uint64_t bytes)
{
    if (!is_direct(remote, offset, bytes, ORIEL_ACCESS_READ) || ORL_UNLIKELY(dst == NULL)) {
        return get_slow(remote, offset, dst, bytes);
    }
    struct fab_hazard *line = my_line(GETS, bytes);
    if (ORL_UNLIKELY(!enter(line, remote))) {
        return gone(remote, line, GETS, bytes);
    }
    move(dst, remote->key.direct + offset, bytes);
    fab_hazard_leave(line);
    return 0;
}

/* Eight bytes by a thread with a line of its own and no look at the clock due: no call in sight, so
 * no register has to be saved. Everything else goes to the general form, which asks again. */
static inline struct fab_hazard *line_for_8(unsigned kind)
{
    struct fab_hazard *line = fab_hazard_mine;
    if (ORL_UNLIKELY(line == NULL) || ORL_UNLIKELY(line->shared != 0) ||
        ORL_UNLIKELY(((line->done[kind] + 1) & TICK_MASK) == 0)) {
        return NULL;
    }
    line->done[kind]++;
    line->bytes[kind] += 8;
    return line;
}

ORL_PUBLIC int oriel_put(struct oriel_remote *remote, uint64_t offset, const void *src,
                         uint64_t bytes)
{
    struct fab_hazard *line = NULL;
    if (bytes == 8 && is_direct(remote, offset, 8, ORIEL_ACCESS_WRITE) && src != NULL) {
        line = line_for_8(PUTS);
    }
    if (line == NULL) {
        return put_any(remote, offset, src, bytes);
    }
    if (ORL_UNLIKELY(!name(line, remote))) {
        return gone(remote, line, PUTS, 8);
    }
    memcpy(remote->key.direct + offset, src, 8);
    atomic_store_explicit(&line->word, 0, memory_order_release);
    return 0;
}

ORL_PUBLIC int oriel_get(struct oriel_remote *remote, uint64_t offset, void *dst, uint64_t bytes)
{
    struct fab_hazard *line = NULL;
    if (bytes == 8 && is_direct(remote, offset, 8, ORIEL_ACCESS_READ) && dst != NULL) {
        line = line_for_8(GETS);
    }
    if (line == NULL) {
        return get_any(remote, offset, dst, bytes);
    }
    if (ORL_UNLIKELY(!name(line, remote))) {
        return gone(remote, line, GETS, 8);
    }
    memcpy(dst, remote->key.direct + offset, 8);
    atomic_store_explicit(&line->word, 0, memory_order_release);
    return 0;
}

ORL_PUBLIC int oriel_put_notify(struct oriel_remote *remote, uint64_t offset, const void *src,
                                uint64_t bytes, uint64_t counter, uint64_t add)
{
    struct oriel_xfer x = { .kind = ORIEL_PUT_NOTIFY,
                            .remote = remote,
                            .offset = offset,
                            .src = src,
                            .bytes = bytes,
                            .counter = counter,
                            .operand = add };
    if (!is_direct(remote, offset, bytes, ORIEL_ACCESS_WRITE) ||
        !is_direct(remote, counter, 8, ORIEL_ACCESS_WRITE) ||
        ORL_UNLIKELY(((uintptr_t)(remote->key.direct + counter) & 7) != 0) ||
        ORL_UNLIKELY(src == NULL)) {
        return notify_slow(remote, &x);
    }
    return core_direct_run(&x);
}

/* ---------------------------------------------------------------- atomics */

static inline uint64_t apply64(_Atomic uint64_t *word, enum oriel_atomic op, uint64_t operand)
{
    switch (op) {
    case ORIEL_ATOMIC_ADD:
        return atomic_fetch_add_explicit(word, operand, memory_order_acq_rel);
    case ORIEL_ATOMIC_SWAP:
        return atomic_exchange_explicit(word, operand, memory_order_acq_rel);
    case ORIEL_ATOMIC_AND:
        return atomic_fetch_and_explicit(word, operand, memory_order_acq_rel);
    case ORIEL_ATOMIC_OR:
        return atomic_fetch_or_explicit(word, operand, memory_order_acq_rel);
    case ORIEL_ATOMIC_XOR:
    default:
        return atomic_fetch_xor_explicit(word, operand, memory_order_acq_rel);
    }
}

static inline uint32_t apply32(_Atomic uint32_t *word, enum oriel_atomic op, uint32_t operand)
{
    switch (op) {
    case ORIEL_ATOMIC_ADD:
        return atomic_fetch_add_explicit(word, operand, memory_order_acq_rel);
    case ORIEL_ATOMIC_SWAP:
        return atomic_exchange_explicit(word, operand, memory_order_acq_rel);
    case ORIEL_ATOMIC_AND:
        return atomic_fetch_and_explicit(word, operand, memory_order_acq_rel);
    case ORIEL_ATOMIC_OR:
        return atomic_fetch_or_explicit(word, operand, memory_order_acq_rel);
    case ORIEL_ATOMIC_XOR:
    default:
        return atomic_fetch_xor_explicit(word, operand, memory_order_acq_rel);
    }
}

/* Whether an atomic of this width may be done in place. */
static inline bool is_direct_atomic(const struct oriel_remote *remote, uint64_t offset,
                                    uint64_t width, int op)
{
    return is_direct(remote, offset, width, ORIEL_ACCESS_ATOMIC) &&
           ORL_LIKELY(((uintptr_t)(remote->key.direct + offset) & (width - 1)) == 0) &&
           ORL_LIKELY((unsigned)op <= ORIEL_ATOMIC_XOR);
}

ORL_PUBLIC int oriel_atomic64(struct oriel_remote *remote, uint64_t offset, enum oriel_atomic op,
                              uint64_t operand, uint64_t *old)
{
    if (!is_direct_atomic(remote, offset, 8, (int)op)) {
        return atomic_slow(remote, &(struct oriel_xfer){ .kind = ORIEL_ATOMIC,
                                                         .atomic = (int)op,
                                                         .remote = remote,
                                                         .offset = offset,
                                                         .dst = old,
                                                         .bytes = 8,
                                                         .operand = operand });
    }
    struct fab_hazard *line = my_line(ATOMICS, 8);
    if (ORL_UNLIKELY(!enter(line, remote))) {
        return gone(remote, line, ATOMICS, 8);
    }
    void *word = remote->key.direct + offset;
    uint64_t before = apply64(word, op, operand);
    fab_hazard_leave(line);
    if (old != NULL) {
        *old = before;
    }
    return 0;
}

ORL_PUBLIC int oriel_atomic32(struct oriel_remote *remote, uint64_t offset, enum oriel_atomic op,
                              uint32_t operand, uint32_t *old)
{
    if (!is_direct_atomic(remote, offset, 4, (int)op)) {
        return atomic_slow(remote, &(struct oriel_xfer){ .kind = ORIEL_ATOMIC,
                                                         .atomic = (int)op,
                                                         .remote = remote,
                                                         .offset = offset,
                                                         .dst = old,
                                                         .bytes = 4,
                                                         .operand = operand });
    }
    struct fab_hazard *line = my_line(ATOMICS, 4);
    if (ORL_UNLIKELY(!enter(line, remote))) {
        return gone(remote, line, ATOMICS, 4);
    }
    void *word = remote->key.direct + offset;
    uint32_t before = apply32(word, op, operand);
    fab_hazard_leave(line);
    if (old != NULL) {
        *old = before;
    }
    return 0;
}

ORL_PUBLIC int oriel_compare_swap64(struct oriel_remote *remote, uint64_t offset, uint64_t expected,
                                    uint64_t desired, uint64_t *old)
{
    if (!is_direct_atomic(remote, offset, 8, ORIEL_ATOMIC_SWAP)) {
        return atomic_slow(remote, &(struct oriel_xfer){ .kind = ORIEL_COMPARE_SWAP,
                                                         .remote = remote,
                                                         .offset = offset,
                                                         .dst = old,
                                                         .bytes = 8,
                                                         .operand = desired,
                                                         .expected = expected });
    }
    struct fab_hazard *line = my_line(ATOMICS, 8);
    if (ORL_UNLIKELY(!enter(line, remote))) {
        return gone(remote, line, ATOMICS, 8);
    }
    void *at = remote->key.direct + offset;
    _Atomic uint64_t *word = at;
    atomic_compare_exchange_strong_explicit(word, &expected, desired, memory_order_acq_rel,
                                            memory_order_acquire);
    fab_hazard_leave(line);
    if (old != NULL) {
        *old = expected;
    }
    return 0;
}

ORL_PUBLIC int oriel_compare_swap32(struct oriel_remote *remote, uint64_t offset, uint32_t expected,
                                    uint32_t desired, uint32_t *old)
{
    if (!is_direct_atomic(remote, offset, 4, ORIEL_ATOMIC_SWAP)) {
        return atomic_slow(remote, &(struct oriel_xfer){ .kind = ORIEL_COMPARE_SWAP,
                                                         .remote = remote,
                                                         .offset = offset,
                                                         .dst = old,
                                                         .bytes = 4,
                                                         .operand = desired,
                                                         .expected = expected });
    }
    struct fab_hazard *line = my_line(ATOMICS, 4);
    if (ORL_UNLIKELY(!enter(line, remote))) {
        return gone(remote, line, ATOMICS, 4);
    }
    void *at = remote->key.direct + offset;
    _Atomic uint32_t *word = at;
    atomic_compare_exchange_strong_explicit(word, &expected, desired, memory_order_acq_rel,
                                            memory_order_acquire);
    fab_hazard_leave(line);
    if (old != NULL) {
        *old = expected;
    }
    return 0;
}

/* ---------------------------------------------------------------- any kind, in place */

/* What x asks for, on memory that is mapped and checked, inside the hazard line. */
static void touch(const struct oriel_xfer *x)
{
    unsigned char *at = x->remote->key.direct + x->offset;
    void *word = at;
    uint64_t old = 0;
    switch ((enum oriel_kind)x->kind) {
    case ORIEL_PUT:
        move(at, x->src, x->bytes);
        return;
    case ORIEL_GET:
        move(x->dst, at, x->bytes);
        return;
    case ORIEL_PUT_NOTIFY:
        move(at, x->src, x->bytes);
        word = x->remote->key.direct + x->counter;
        /* release: who sees the count sees the data */
        (void)atomic_fetch_add_explicit((_Atomic uint64_t *)word, x->operand, memory_order_release);
        fab_node_wake(core.node, x->remote->peer->local);
        return;
    case ORIEL_ATOMIC:
        old = x->bytes == 8 ? apply64(word, (enum oriel_atomic)x->atomic, x->operand)
                            : apply32(word, (enum oriel_atomic)x->atomic, (uint32_t)x->operand);
        break;
    case ORIEL_COMPARE_SWAP:
        if (x->bytes == 8) {
            old = x->expected;
            atomic_compare_exchange_strong((_Atomic uint64_t *)word, &old, x->operand);
        } else {
            uint32_t old32 = (uint32_t)x->expected;
            atomic_compare_exchange_strong((_Atomic uint32_t *)word, &old32, (uint32_t)x->operand);
            old = old32;
        }
        break;
    }
    if (x->dst != NULL && x->bytes == 8) {
        memcpy(x->dst, &old, 8);
    } else if (x->dst != NULL) {
        memcpy(x->dst, &(uint32_t){ (uint32_t)old }, 4);
    }
}

int core_direct_run(const struct oriel_xfer *x)
{
    if (x->bytes == 0 && x->kind != ORIEL_PUT_NOTIFY) {
        return 0;
    }
    struct fab_hazard *line = my_line(kind_of(x), x->bytes);
    if (ORL_UNLIKELY(!enter(line, x->remote))) {
        return gone(x->remote, line, kind_of(x), x->bytes);
    }
    touch(x);
    fab_hazard_leave(line);
    return 0;
}
