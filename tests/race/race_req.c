/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The request counters under ThreadSanitizer: one thread starts batches and waits, tests, times out
 * or gives up; another ends what was posted, in the way a poller does. Every request must complete
 * once with the right counts, and nothing may be touched after it is freed.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "core/path/req.h"
#include "oriel.h"
#include "tests/core/fake_path.h"

#define ROUNDS 4000
#define OPS    6

static struct fake_path fake;
static struct orl_lock held; /* guards what the fake path holds */
static atomic_bool stop;
static atomic_int errors;

static void *end_them(void *arg)
{
    unsigned seed = 1;

    (void)arg;
    for (bool ending = false; !ending;) {
        struct fab_op *op = NULL;

        ending = atomic_load(&stop);
        orl_lock(&held);
        if (fake.nheld > 0) {
            seed = seed * 1103515245u + 12345u;
            op = fake_take(&fake, (int)(seed >> 16) % fake.nheld);
        }
        orl_unlock(&held);
        if (op != NULL) {
            ending = false;
            op->done(op, 0);
        } else {
            (void)sched_yield();
        }
    }
    return NULL;
}

static void expect(bool holds, const char *what)
{
    if (!holds) {
        (void)fprintf(stderr, "wrong: %s: %s\n", what, oriel_error_detail());
        atomic_fetch_add(&errors, 1);
    }
}

static void settle(struct oriel_request **request)
{
    while (!oriel_request_settled(*request)) {
        (void)sched_yield();
    }
    (void)oriel_wait(request, NULL);
    expect(*request == NULL, "settled and waited for");
}

static void wait_in_some_way(int round, struct oriel_request *request)
{
    struct oriel_status status;
    int done = 0;
    int error = 0;

    switch (round % 4) {
    case 0:
        error = oriel_wait(&request, &status);
        expect(error == 0 && status.bytes == 64 * OPS, "wait");
        break;
    case 1:
        while (done == 0) {
            error = oriel_test(&request, &done, &status);
        }
        expect(error == 0 && status.bytes == 64 * OPS, "test");
        break;
    case 2:
        expect(oriel_request_free(&request) == 0, "free");
        break;
    default:
        error = oriel_wait(&request, &status);
        expect(error == 0 || error == ORIEL_ERR_TIMEOUT, "deadline");
        settle(&request);
        break;
    }
}

int main(void)
{
    static unsigned char data[OPS][64];
    struct oriel_xfer ops[OPS];
    struct oriel_result results[OPS];
    pthread_t ender;

    fake_open(2);
    fake_path_init(&fake, 1);
    orl_lock_init(&held, ORL_RANK_TX, "held");
    fake.lock = &held;
    if (pthread_create(&ender, NULL, end_them, NULL) != 0) {
        return 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
        struct oriel_request *request;

        opts.results = results;
        opts.flags = round % 3 == 0 ? ORIEL_CRC32C : 0;
        opts.timeout_ns = round % 4 == 3 ? 1 + round % 5000 : 0;
        for (int i = 0; i < OPS; i++) {
            ops[i] = (struct oriel_xfer){
                .kind = ORIEL_PUT, .remote = &fake.remote, .src = data[i], .bytes = 64
            };
        }
        expect(oriel_start(ops, OPS, &opts, &request) == 0, "start");
        wait_in_some_way(round, request);
        memset(results, 0, sizeof(results)); /* mine again, whatever is under way */
    }
    atomic_store(&stop, true);
    (void)pthread_join(ender, NULL);
    expect(fake_close() == 0, "close");
    (void)printf("%s: race_req\n", atomic_load(&errors) == 0 ? "PASS" : "FAIL");
    return atomic_load(&errors) == 0 ? 0 : 1;
}
