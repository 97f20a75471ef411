/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract: atomics of the offered widths. The stored value, the old value, and no byte beside
 * them; atomic against each other over several endpoints, and against the CPU where the memory is
 * mapped here. A misaligned or unoffered one fails and touches nothing.
 */
#include "contract_list.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

static uint64_t amo_value(enum fab_amo amo, uint64_t old, uint64_t operand, uint64_t compare)
{
    switch (amo) {
    case FAB_AMO_ADD:
        return old + operand;
    case FAB_AMO_SWAP:
        return operand;
    case FAB_AMO_CSWAP:
        return old == compare ? operand : old;
    case FAB_AMO_AND:
        return old & operand;
    case FAB_AMO_OR:
        return old | operand;
    case FAB_AMO_XOR:
        return old ^ operand;
    case FAB_AMO_KINDS:
    default:
        return 0;
    }
}

static uint64_t value_load(const void *p, unsigned width)
{
    uint32_t word;
    uint64_t value;

    if (width == 4) {
        memcpy(&word, p, sizeof word);
        return word;
    }
    memcpy(&value, p, sizeof value);
    return value;
}

static void value_store(void *p, unsigned width, uint64_t value)
{
    uint32_t word = (uint32_t)value;

    if (width == 4) {
        memcpy(p, &word, sizeof word);
    } else {
        memcpy(p, &value, sizeof value);
    }
}

struct amo_rig {
    struct ct_rig *rig;
    struct ct_mem mem;
    struct ct_mem out;
};

static uint64_t scramble(uint64_t x)
{
    x ^= x >> 31;
    x *= 0x9e3779b97f4a7c15u;
    return x ^ x >> 29;
}

/* One atomic against the model. */
static void one_amo(struct amo_rig *at, enum fab_amo amo, unsigned width, bool is_fetching,
                    uint64_t n)
{
    const uint64_t mask = width == 4 ? 0xffffffffu : UINT64_MAX;
    struct ct_tally tally = { 0 };
    struct ct_op op;
    size_t offset = 64 + n % 8 * width;
    uint64_t old = scramble(n) & mask;
    uint64_t operand = n % 3 == 0 ? mask : scramble(n + 99) & mask;
    uint64_t compare = n % 2 == 0 ? old : old ^ 1;

    memset(at->mem.base, 0xa5, 256);
    memset(at->out.base, 0xa5, 256);
    value_store(at->mem.base + offset, width, old);
    ct_op_amo(&op, &tally, &at->mem.key, offset, amo, width, operand);
    op.op.compare = compare;
    if (is_fetching) {
        ct_op_fetch(&op, &at->out, 64);
    }
    ct_check(ct_do(at->rig, at->rig->ab, &op) == 0, "atomic %d of %u bytes fails", (int)amo, width);
    ct_check(ct_flush_wait(at->rig, at->rig->ab) == 0, "a flush fails");
    ct_check(value_load(at->mem.base + offset, width) ==
                 (amo_value(amo, old, operand, compare) & mask),
             "atomic %d of %u bytes stored a wrong value", (int)amo, width);
    ct_check(!is_fetching || value_load(at->out.base + 64, width) == old,
             "atomic %d of %u bytes gave a wrong old value", (int)amo, width);
    ct_check(ct_is_byte(at->mem.base, offset, 0xa5) &&
                 ct_is_byte(at->mem.base + offset + width, 256 - offset - width, 0xa5),
             "atomic %d of %u bytes wrote beside its word", (int)amo, width);
    ct_check(ct_is_byte(at->out.base, 64, 0xa5) &&
                 ct_is_byte(at->out.base + 64 + (is_fetching ? width : 0), 128, 0xa5),
             "atomic %d of %u bytes wrote beside its old value", (int)amo, width);
}

static bool amo_rig_open(struct ct_rig *rig, struct amo_rig *at)
{
    at->rig = rig;
    return ct_mem_open(rig, CT_AT_B, 4096, FAB_ACCESS_ALL, &at->mem) &&
           ct_mem_open(rig, CT_AT_A, 16384, FAB_ACCESS_LOCAL, &at->out);
}

static void amo_rig_close(struct amo_rig *at)
{
    ct_mem_close(&at->mem);
    ct_mem_close(&at->out);
}

static bool is_offered(const struct ct_rig *rig, unsigned width)
{
    const struct fab_limits *limits = &rig->a.engine->limits;

    return limits->amo_align != 0 && (limits->amo_widths & width) != 0;
}

void ct_amo_kinds(struct ct_rig *rig)
{
    struct amo_rig at;
    unsigned width;
    unsigned amo;
    uint64_t n;

    ct_check(rig->a.engine->limits.amo_align == 0 || is_offered(rig, 4) || is_offered(rig, 8),
             "atomics have an alignment, but no width of 4 or 8 bytes");
    if (!amo_rig_open(rig, &at)) {
        return;
    }
    for (width = 4; width <= 8; width += 4) {
        for (amo = 0; amo < FAB_AMO_KINDS && is_offered(rig, width); amo++) {
            for (n = 0; n < 24 && ct_is_fine(); n++) {
                one_amo(&at, (enum fab_amo)amo, width, n % 4 < 3, n);
            }
        }
    }
    amo_rig_close(&at);
}

/* What is not offered fails, and nothing is touched. */
void ct_amo_refused(struct ct_rig *rig)
{
    static const unsigned widths[] = { 1, 2, 3, 4, 8, 16 };
    struct ct_tally tally = { 0 };
    struct ct_op op;
    struct amo_rig at;
    size_t i;
    size_t shift;

    if (!amo_rig_open(rig, &at)) {
        return;
    }
    for (i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        for (shift = 0; shift < 8 && ct_is_fine(); shift++) {
            if (is_offered(rig, widths[i]) && shift % widths[i] == 0) {
                continue;
            }
            ct_op_amo(&op, &tally, &at.mem.key, 64 + shift, FAB_AMO_ADD, widths[i], 1);
            ct_op_fetch(&op, &at.out, 64);
            ct_check(ct_do(rig, rig->ab, &op) != 0, "an atomic of %u bytes at %zu succeeds",
                     widths[i], shift);
        }
    }
    ct_op_amo(&op, &tally, &at.mem.key, 64, FAB_AMO_KINDS, 8, 1);
    ct_check(ct_do(rig, rig->ab, &op) != 0, "an unknown atomic succeeds");
    ct_op_put(&op, &tally, &at.mem.key, 64, &at.out, 0, 8);
    ct_op_notify(&op, 132, 1);
    ct_check(ct_do(rig, rig->ab, &op) != 0, "a misaligned counter is accepted");
    ct_check(ct_flush_wait(rig, rig->ab) != ORL_ERR_INTERNAL, "a flush is lost");
    ct_check(ct_is_byte(at.mem.base + 128, 64, 0xa5), "a refused counter was written");
    ct_check(ct_is_byte(at.out.base, at.out.bytes, 0xa5), "a refused atomic wrote memory");
    amo_rig_close(&at);
}

#define RACERS 400

/* Fetching adds over two endpoints: each old value comes once. */
void ct_amo_atomic(struct ct_rig *rig)
{
    static struct ct_op op[RACERS];
    static unsigned char has_seen[RACERS];
    struct fab_rkey second;
    struct ct_tally tally = { 0 };
    struct amo_rig at;
    size_t i;

    if (!is_offered(rig, 8) || !amo_rig_open(rig, &at)) {
        return;
    }
    ct_check(ct_mem_key(&at.mem, rig->ab2, &second) == 0, "no key");
    value_store(at.mem.base + 8, 8, 0);
    for (i = 0; i < RACERS; i++) {
        ct_op_amo(&op[i], &tally, i % 2 == 0 ? &at.mem.key : &second, 8, FAB_AMO_ADD, 8, 1);
        ct_op_fetch(&op[i], &at.out, i * 8);
        ct_post(i % 2 == 0 ? rig->ab : rig->ab2, &op[i]);
    }
    if (!ct_wait_fine(rig, &tally)) {
        return;
    }
    ct_check(ct_flush_wait(rig, rig->ab) == 0 && ct_flush_wait(rig, rig->ab2) == 0,
             "a flush fails");
    memset(has_seen, 0, sizeof has_seen);
    for (i = 0; i < RACERS && ct_is_fine(); i++) {
        uint64_t old = value_load(at.out.base + i * 8, 8);

        if (ct_check(old < RACERS, "an old value is %llu", (unsigned long long)old)) {
            ct_check(has_seen[old] == 0, "an old value came twice: not atomic");
            has_seen[old] = 1;
        }
    }
    ct_check(value_load(at.mem.base + 8, 8) == RACERS, "the sum is wrong");
    fab_rkey_close(rig->ab2, &second);
    amo_rig_close(&at);
}

struct adder {
    _Atomic uint64_t *word;
    uint64_t adds;
    atomic_bool has_begun;
    atomic_bool is_over;
};

static void *add_by_cpu(void *arg)
{
    struct adder *adder = arg;

    while (!atomic_load(&adder->is_over)) {
        (void)atomic_fetch_add(adder->word, 1);
        adder->adds++;
        atomic_store(&adder->has_begun, true);
    }
    return NULL;
}

static void amo_beside_cpu(struct amo_rig *at, struct ct_op *op)
{
    struct adder adder = { (void *)(at->mem.base + 8), 0, false, false };
    struct ct_tally tally = { 0 };
    pthread_t thread;
    size_t i;

    value_store(at->mem.base + 8, 8, 0);
    if (!ct_check(pthread_create(&thread, NULL, add_by_cpu, &adder) == 0, "no thread")) {
        return;
    }
    while (!atomic_load(&adder.has_begun)) {
        (void)sched_yield();
    }
    for (i = 0; i < RACERS; i++) {
        ct_op_amo(&op[i], &tally, &at->mem.key, 8, FAB_AMO_ADD, 8, 1);
        ct_post(at->rig->ab, &op[i]);
        (void)ct_progress(at->rig);
    }
    (void)ct_wait_fine(at->rig, &tally);
    atomic_store(&adder.is_over, true);
    (void)pthread_join(thread, NULL);
    ct_check(ct_flush_wait(at->rig, at->rig->ab) == 0, "a flush fails");
    ct_check(value_load(at->mem.base + 8, 8) == RACERS + adder.adds,
             "posted and CPU atomics lose each other's additions");
}

/* Memory that is mapped here is the CPU's: posted atomics and CPU atomics mix. */
void ct_amo_cpu(struct ct_rig *rig)
{
    static struct ct_op op[RACERS];
    struct amo_rig at;
    unsigned round;

    if (!is_offered(rig, 8) || !amo_rig_open(rig, &at)) {
        return;
    }
    if (at.mem.key.direct == NULL) {
        amo_rig_close(&at);
        return;
    }
    for (round = 0; round < 10 && ct_is_fine(); round++) {
        amo_beside_cpu(&at, op);
    }
    amo_rig_close(&at);
}
