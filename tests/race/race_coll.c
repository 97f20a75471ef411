/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All sides of the collectives' lines and stages as threads of one process, for ThreadSanitizer:
 * exchanges flat and grouped, whole and sliced allreduces whose stages grow, spreads whose root
 * runs ahead and whose ring grows, one rank without memory for more. Every rank checks every
 * result.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/copy.h"
#include "base/status.h"
#include "core/coll/coll_lines.h"

#define RANKS  5
#define ROUNDS 1000
#define MOST   200000 /* bytes of a message: more than any first stage and ring */

static const size_t sizes[] = { 57, 300, 9000, 12000, 16384, 16388, 70000, MOST };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static int yield_until_met(const struct coll_need *need)
{
    while (!coll_need_is_met(need)) {
        sched_yield();
    }
    return 0;
}

static int yield_until_looked(const struct coll_need *need)
{
    while (coll_need_look(need, coll_cpu()) != COLL_MET) {
        sched_yield();
    }
    return 0;
}

static int reserve_nothing(struct fab_node *node, const void *part, uint64_t bytes)
{
    (void)node;
    (void)part;
    (void)bytes;
    return ORL_ERR_NOMEM;
}

struct rank {
    struct fab_node node;
    struct coll_matrix m;
    int failed;
};

static int exchange(struct rank *r, uint64_t i)
{
    uint64_t mine = i * 10 + (uint64_t)r->m.me;
    uint64_t sum = 0;
    core_op_fn fn;
    if (core_op_query(ORIEL_SUM, ORIEL_UINT64, &fn) != 0) {
        return 1;
    }
    struct coll_operand x = { .send = &mine, .recv = &sum, .elements = 1, .bytes = 8, .fn = fn };
    int st = coll_exchange(&r->m, "race", &x);
    return st != 0 || sum != RANKS * i * 10 + RANKS * (RANKS - 1) / 2;
}

static int staged(struct rank *r, uint64_t i, size_t bytes)
{
    static _Thread_local uint32_t in[MOST / 4];
    static _Thread_local uint32_t out[MOST / 4];
    const uint32_t n = (uint32_t)(bytes / 4);
    bool in_place = i % 2 != 0;
    core_op_fn fn;
    for (uint32_t k = 0; k < n; k++) {
        in[k] = (uint32_t)i + k + (uint32_t)r->m.me;
    }
    if (core_op_query(ORIEL_MAX, ORIEL_UINT32, &fn) != 0) {
        return 1;
    }
    struct coll_operand x = {
        .send = in, .recv = in_place ? in : out, .elements = n, .bytes = (uint64_t)n * 4, .fn = fn
    };
    int st = coll_exchange_staged(&r->m, "race", &x, 4);
    const uint32_t *got = x.recv;
    for (uint32_t k = 0; st == 0 && k < n; k++) {
        st = got[k] != (uint32_t)i + k + RANKS - 1;
    }
    return st;
}

static int spread(struct rank *r, uint64_t i, int root, size_t n)
{
    static _Thread_local unsigned char data[MOST];
    memset(data, r->m.me == root ? (int)(i & 0xff) : 0x11, n);
    int st = coll_spread(&r->m, "race", data, n, root);
    for (size_t k = 0; st == 0 && k < n; k++) {
        st = data[k] != (i & 0xff);
    }
    return st;
}

/* Nobody meets in between, so the root runs as far ahead as it may: through its lines, then through
 * its ring, which grows under its readers. */
static int burst(struct rank *r, int root)
{
    int st = 0;
    for (uint64_t k = 0; st == 0 && k < 5 * COLL_SLOTS; k++) {
        st = spread(r, k, root, 8);
    }
    for (uint64_t k = 0; st == 0 && k < 12 * SIZES; k++) {
        st = spread(r, k, root, sizes[k / 12]);
    }
    return st;
}

static void *run(void *arg)
{
    struct rank *r = arg;
    for (int root = 0; root < RANKS && r->failed == 0; root++) {
        r->failed = burst(r, root);
    }
    for (uint64_t i = 0; i < ROUNDS && r->failed == 0; i++) {
        r->failed = exchange(r, i);
        if (r->failed == 0 && i % 10 == 0) {
            r->failed = staged(r, i / 10, sizes[i / 20 % SIZES]);
        }
        if (r->failed == 0) {
            r->failed = spread(r, i, (int)(i / 20 % RANKS), i % 3 == 0 ? sizes[i / 60 % SIZES] : 8);
        }
        if (r->failed == 0 && i % 7 == 0) {
            r->failed = coll_exchange(&r->m, "race", &(struct coll_operand){ 0 });
        }
    }
    return NULL;
}

static int race(int group, bool crowded, int poor, const char *name)
{
    uint64_t bytes = fab_node_lay_bytes(RANKS, 4096);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    static struct rank ranks[RANKS];
    pthread_t thread[RANKS];
    int failed = 0;
    if (memory == MAP_FAILED) {
        printf("FAIL: race_coll: %s: no memory\n", name);
        return 1;
    }
    memset(ranks, 0, sizeof(ranks));
    for (int i = 0; i < RANKS; i++) {
        if (fab_node_lay(&ranks[i].node, memory, RANKS, 4096, i) != 0) {
            printf("FAIL: race_coll: %s: no node\n", name);
            return 1;
        }
        ranks[i].m =
            (struct coll_matrix){ .node = &ranks[i].node,
                                  .wait = crowded ? yield_until_looked : yield_until_met,
                                  .reserve = i == poor ? reserve_nothing : fab_node_reserve,
                                  .me = i,
                                  .nranks = RANKS,
                                  .group = group,
                                  .crowded = crowded };
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_create(&thread[i], NULL, run, &ranks[i]);
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(thread[i], NULL);
        failed |= ranks[i].failed;
    }
    for (int i = 0; i < RANKS; i++) {
        fab_node_unlay(&ranks[i].node);
    }
    munmap(memory, bytes);
    printf("%s: race_coll: %s\n", failed ? "FAIL" : "PASS", name);
    return failed;
}

int main(void)
{
    /* Plain loads and stores, which the sanitizer sees, at every size. */
    if (orl_copy_select("words") != 0) {
        return 1;
    }
    int failed = race(RANKS, false, -1, "flat");
    failed |= race(RANKS, true, -1, "words with the CPU");
    failed |= race(RANKS, false, 2, "one rank without memory");
    return failed | race(2, false, -1, "grouped");
}
