/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract: several threads post to shared and to own endpoints and all of them poll. Each op is
 * done once, on some thread's progress; no two upcalls of one engine overlap; sums are right.
 */
#include "contract_list.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define OPS     3000
#define DEPTH   50

struct worker {
    struct ct_rig *rig;
    struct ct_mem *src;
    struct fab_ep *ep;
    const struct fab_rkey *key;
    struct ct_op *op;
    unsigned index;
    pthread_t thread;
};

static void work_op(struct worker *me, struct ct_tally *tally, unsigned i)
{
    struct ct_op *op = &me->op[i];
    size_t at = 4096 + ((size_t)me->index * OPS + i) * 16;

    switch (i % 5) {
    case 0:
        ct_op_put(op, tally, me->key, at, me->src, at, 16);
        break;
    case 1:
        ct_op_amo(op, tally, me->key, 8, FAB_AMO_ADD, 8, 1);
        break;
    case 2:
        ct_op_put(op, tally, me->key, at, me->src, at, 16);
        ct_op_notify(op, 16, 1);
        break;
    case 3:
        /* A stream of its own per thread, so that order can be checked. */
        ct_fill(me->src->base + at, 16, ct_seed(me->index, i / 5));
        ct_op_send(op, tally, CT_MSG_B, ct_header(me->index, i / 5, 16), me->src, at, 16);
        break;
    default:
        ct_op_flush(op, tally);
        break;
    }
}

static void *work(void *arg)
{
    struct worker *me = arg;
    unsigned i;
    unsigned k;

    for (i = 0; i < OPS && ct_is_fine(); i += DEPTH) {
        struct ct_tally tally = { 0 };

        for (k = 0; k < DEPTH; k++) {
            work_op(me, &tally, i + k);
            ct_post(me->ep, &me->op[i + k]);
        }
        (void)ct_wait_fine(me->rig, &tally);
    }
    return NULL;
}

static bool workers_run(struct ct_rig *rig, struct worker *worker)
{
    unsigned i;

    for (i = 0; i < THREADS; i++) {
        worker[i].op = calloc(OPS, sizeof *worker[i].op);
        if (!ct_check(worker[i].op != NULL, "no memory") ||
            !ct_check(pthread_create(&worker[i].thread, NULL, work, &worker[i]) == 0,
                      "no thread")) {
            return false;
        }
    }
    for (i = 0; i < THREADS; i++) {
        (void)pthread_join(worker[i].thread, NULL);
        free(worker[i].op);
    }
    (void)ct_wait_messages(rig, &rig->inbox_b, (uint64_t)THREADS * OPS / 5);
    ct_check(ct_flush_wait(rig, rig->ab) == 0 && ct_flush_wait(rig, rig->ab2) == 0,
             "a flush fails");
    return ct_is_fine();
}

/* Two threads share an endpoint, the two others another one. */
/* covers: N1 */
void ct_threads_post(struct ct_rig *rig)
{
    const size_t bytes = 4096 + (size_t)THREADS * OPS * 16;
    struct worker worker[THREADS];
    struct fab_rkey second;
    struct ct_mem mem;
    struct ct_mem src;
    uint64_t sums[3];
    size_t i;

    rig->is_threaded = true;
    if (!ct_mem_open(rig, CT_AT_B, bytes, FAB_ACCESS_ALL, &mem) ||
        !ct_mem_open(rig, CT_AT_A, bytes, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    ct_check(ct_mem_key(&mem, rig->ab2, &second) == 0, "no key");
    memset(mem.base, 0, 64);
    ct_fill(src.base, bytes, 1);
    for (i = 0; i < THREADS; i++) {
        struct worker one = { .rig = rig,
                              .src = &src,
                              .ep = i % 2 == 0 ? rig->ab : rig->ab2,
                              .key = i % 2 == 0 ? &mem.key : &second,
                              .index = (unsigned)i };

        worker[i] = one;
    }
    if (!workers_run(rig, worker)) {
        return;
    }
    memcpy(sums, mem.base, sizeof sums);
    ct_check(sums[1] == THREADS * OPS / 5, "atomics of threads add up to %llu",
             (unsigned long long)sums[1]);
    ct_check(sums[2] == THREADS * OPS / 5, "notifies of threads add up to %llu",
             (unsigned long long)sums[2]);
    for (i = 0; i < (size_t)THREADS * OPS; i++) {
        if (i % 5 == 0 || i % 5 == 2) {
            ct_check(memcmp(mem.base + 4096 + i * 16, src.base + 4096 + i * 16, 16) == 0,
                     "a put of a thread is lost");
        }
    }
    fab_rkey_close(rig->ab2, &second);
    ct_mem_close(&mem);
    ct_mem_close(&src);
}

struct shorter {
    struct ct_rig *rig;
    struct fab_ep *ep;
    const struct fab_rkey *key;
    unsigned index;
};

static void *put_shorts(void *arg)
{
    struct shorter *me = arg;
    unsigned i;

    for (i = 0; i < OPS && ct_is_fine(); i++) {
        unsigned char src[8];
        int rc;

        ct_fill(src, sizeof src, me->index + i);
        rc = ct_put_short_wait(me->rig, me->ep, me->key, ((size_t)me->index * OPS + i) * 8, src,
                               sizeof src);
        ct_check(rc == 0, "put_short: %s", orl_status_name(rc));
    }
    return NULL;
}

/* Short puts of several threads on one endpoint, while others poll. */
void ct_threads_short(struct ct_rig *rig)
{
    struct shorter shorter[THREADS];
    pthread_t thread[THREADS];
    struct ct_mem mem;
    unsigned i;

    rig->is_threaded = true;
    if (rig->a.engine->limits.put_short < 8 ||
        !ct_mem_open(rig, CT_AT_B, (size_t)THREADS * OPS * 8, FAB_ACCESS_ALL, &mem)) {
        return;
    }
    for (i = 0; i < THREADS; i++) {
        struct shorter one = { rig, rig->ab, &mem.key, i };

        shorter[i] = one;
        if (!ct_check(pthread_create(&thread[i], NULL, put_shorts, &shorter[i]) == 0,
                      "no thread")) {
            return;
        }
    }
    for (i = 0; i < THREADS; i++) {
        (void)pthread_join(thread[i], NULL);
    }
    ct_check(ct_flush_wait(rig, rig->ab) == 0, "a flush fails");
    for (i = 0; i < THREADS * OPS && ct_is_fine(); i++) {
        ct_check(ct_is_filled(mem.base + (size_t)i * 8, 8, i / OPS + i % OPS),
                 "a short put of a thread is lost");
    }
    ct_mem_close(&mem);
}
