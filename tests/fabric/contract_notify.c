/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract: put_notify. Whoever reads the counter and finds it raised finds all of the data, be it
 * between two polls or in another thread of the target that never polls.
 */
#include "contract_list.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#define COUNTER (256 * CT_KIB) /* offset of the counter, behind the data */
#define ROUNDS  150

static uint64_t counter_load(const struct ct_mem *mem)
{
    return atomic_load_explicit((_Atomic uint64_t *)(void *)(mem->base + COUNTER),
                                memory_order_acquire);
}

static bool notify_open(struct ct_rig *rig, struct ct_mem *mem, struct ct_mem *src)
{
    bool ok = ct_mem_open(rig, CT_AT_B, COUNTER + 4096, FAB_ACCESS_ALL, mem) &&
              ct_mem_open(rig, CT_AT_A, COUNTER, FAB_ACCESS_LOCAL, src);

    if (ok) {
        memset(mem->base + COUNTER, 0, 8);
    }
    return ok;
}

static size_t size_of_round(unsigned round)
{
    return round % 5 == 0 ? (size_t)round * 1601 % (256 * CT_KIB) : 1 + (size_t)round * 37 % 3000;
}

struct polled {
    struct ct_mem *mem;
    struct ct_tally *tally;
    uint64_t want;
    size_t bytes;
    unsigned seed;
};

/* Looked at between polls: the counter has not moved, or all is there. */
static bool is_polled_done(void *arg)
{
    struct polled *polled = arg;
    uint64_t count = counter_load(polled->mem);

    if (count == polled->want) {
        ct_check(ct_is_filled(polled->mem->base, polled->bytes, polled->seed),
                 "the counter rose before %zu bytes of data were there", polled->bytes);
        return polled->tally->done == polled->tally->posted;
    }
    ct_check(count < polled->want, "the counter went to %llu, not %llu", (unsigned long long)count,
             (unsigned long long)polled->want);
    return !ct_is_fine();
}

/* covers: G9 */
void ct_notify_polled(struct ct_rig *rig)
{
    struct ct_mem mem;
    struct ct_mem src;
    struct ct_op op;
    uint64_t sum = 0;
    unsigned round;

    if (!notify_open(rig, &mem, &src)) {
        return;
    }
    for (round = 0; round < ROUNDS && ct_is_fine(); round++) {
        struct ct_tally tally = { 0 };
        uint64_t add = round % 3 == 0 ? 1 : (uint64_t)round << 33 | 5u;
        struct polled polled = { &mem, &tally, sum + add, size_of_round(round), round };

        sum += add;
        ct_fill(src.base, polled.bytes, round);
        ct_op_put(&op, &tally, &mem.key, 0, &src, 0, polled.bytes);
        ct_op_notify(&op, COUNTER, add);
        ct_post(rig->ab, &op);
        ct_check(ct_until(rig, is_polled_done, &polled), "a counter never rose");
        ct_check(tally.failed == 0, "a put_notify fails");
    }
    ct_mem_close(&mem);
    ct_mem_close(&src);
}

struct observer {
    struct ct_mem *mem;
    _Atomic uint32_t seen; /* rounds checked */
    atomic_bool is_over;
};

static void *observe(void *arg)
{
    struct observer *observer = arg;
    unsigned round = 0;

    while (round < ROUNDS && !atomic_load(&observer->is_over)) {
        if (counter_load(observer->mem) <= round) {
            (void)sched_yield();
            continue;
        }
        ct_check(ct_is_filled(observer->mem->base, size_of_round(round), round),
                 "a third thread saw the counter before the data");
        round++;
        atomic_store(&observer->seen, round);
    }
    return NULL;
}

struct seen_wait {
    struct observer *observer;
    struct ct_tally *tally;
    uint32_t want;
};

static bool is_seen(void *arg)
{
    struct seen_wait *wait = arg;

    return !ct_is_fine() || (atomic_load(&wait->observer->seen) >= wait->want &&
                             wait->tally->done == wait->tally->posted);
}

void ct_notify_observed(struct ct_rig *rig)
{
    struct ct_mem mem;
    struct ct_mem src;
    struct observer observer = { &mem, 0, false };
    struct ct_op op;
    pthread_t thread;
    unsigned round;

    if (!notify_open(rig, &mem, &src)) {
        return;
    }
    if (!ct_check(pthread_create(&thread, NULL, observe, &observer) == 0, "no thread")) {
        return;
    }
    for (round = 0; round < ROUNDS && ct_is_fine(); round++) {
        struct ct_tally tally = { 0 };
        struct seen_wait wait = { &observer, &tally, round + 1 };

        ct_fill(src.base, size_of_round(round), round);
        ct_op_put(&op, &tally, &mem.key, 0, &src, 0, size_of_round(round));
        ct_op_notify(&op, COUNTER, 1);
        ct_post(rig->ab, &op);
        ct_check(ct_until(rig, is_seen, &wait), "a counter never rose");
    }
    atomic_store(&observer.is_over, true);
    (void)pthread_join(thread, NULL);
    ct_mem_close(&mem);
    ct_mem_close(&src);
}

#define SUMS 256

/* Counters of many puts over two endpoints add up; zero bytes notify too. */
void ct_notify_sums(struct ct_rig *rig)
{
    static struct ct_op op[SUMS];
    struct fab_rkey second;
    struct ct_tally tally = { 0 };
    struct ct_mem mem;
    struct ct_mem src;
    uint64_t want = 0;
    size_t i;

    if (!notify_open(rig, &mem, &src)) {
        return;
    }
    ct_check(ct_mem_key(&mem, rig->ab2, &second) == 0, "no key");
    ct_fill(src.base, src.bytes, 9);
    for (i = 0; i < SUMS; i++) {
        ct_op_put(&op[i], &tally, i % 2 == 0 ? &mem.key : &second, i * 64, &src, i * 64, i % 65);
        ct_op_notify(&op[i], COUNTER, i + 1);
        want += i + 1;
        ct_post(i % 2 == 0 ? rig->ab : rig->ab2, &op[i]);
    }
    (void)ct_wait_fine(rig, &tally);
    ct_check(ct_flush_wait(rig, rig->ab) == 0 && ct_flush_wait(rig, rig->ab2) == 0,
             "a flush fails");
    ct_check(counter_load(&mem) == want, "the counter is %llu, not %llu",
             (unsigned long long)counter_load(&mem), (unsigned long long)want);
    for (i = 0; i < SUMS && ct_is_fine(); i++) {
        ct_check(memcmp(mem.base + i * 64, src.base + i * 64, i % 65) == 0,
                 "data of a put_notify is damaged");
    }
    fab_rkey_close(rig->ab2, &second);
    ct_mem_close(&mem);
    ct_mem_close(&src);
}
