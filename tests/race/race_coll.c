/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both sides of the flag matrix as threads of one process, for ThreadSanitizer: exchanges flat and
 * grouped, staged exchanges, spreads whose root runs ahead. Every rank checks every result.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/copy.h"
#include "core/coll/coll.h"

#define RANKS  5
#define ROUNDS 1500

static int yield_until_met(const struct coll_need *need)
{
    while (!coll_need_is_met(need)) {
        sched_yield();
    }
    return 0;
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

static int staged(struct rank *r, uint64_t i)
{
    enum {
        N = 3000
    };
    static _Thread_local uint32_t in[N];
    static _Thread_local uint32_t out[N];
    core_op_fn fn;
    for (uint32_t k = 0; k < N; k++) {
        in[k] = (uint32_t)i + k + (uint32_t)r->m.me;
    }
    if (core_op_query(ORIEL_MAX, ORIEL_UINT32, &fn) != 0) {
        return 1;
    }
    struct coll_operand x = {
        .send = in, .recv = out, .elements = N, .bytes = sizeof(in), .fn = fn
    };
    int st = coll_exchange_staged(&r->m, "race", &x, 4);
    for (uint32_t k = 0; st == 0 && k < N; k++) {
        st = out[k] != (uint32_t)i + k + RANKS - 1;
    }
    return st;
}

static int spread(struct rank *r, uint64_t i)
{
    unsigned char data[300];
    int root = (int)(i / 20 % RANKS);
    size_t n = i % 3 == 0 ? sizeof(data) : 8;
    memset(data, r->m.me == root ? (int)(i & 0xff) : 0x11, sizeof(data));
    int st = coll_spread(&r->m, "race", data, n, root);
    for (size_t k = 0; st == 0 && k < n; k++) {
        st = data[k] != (i & 0xff);
    }
    return st;
}

static void *run(void *arg)
{
    struct rank *r = arg;
    for (uint64_t i = 0; i < ROUNDS && r->failed == 0; i++) {
        r->failed = exchange(r, i);
        if (r->failed == 0 && i % 10 == 0) {
            r->failed = staged(r, i);
        }
        if (r->failed == 0) {
            r->failed = spread(r, i);
        }
        if (r->failed == 0 && i % 7 == 0) {
            r->failed = coll_exchange(&r->m, "race", &(struct coll_operand){ 0 });
        }
    }
    return NULL;
}

static int race(int group, const char *name)
{
    uint64_t bytes = fab_node_lay_bytes(RANKS, 4096);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct rank ranks[RANKS];
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
        ranks[i].m = (struct coll_matrix){ .node = &ranks[i].node,
                                           .wait = yield_until_met,
                                           .me = i,
                                           .nranks = RANKS,
                                           .group = group };
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
    orl_copy_open();
    int failed = race(RANKS, "flat");
    return failed | race(2, "grouped");
}
