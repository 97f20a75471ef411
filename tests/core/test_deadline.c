/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deadlines over a path that never answers by itself: when a request times out, what it says, what
 * stays leased, and that a call with a deadline gives the caller's buffers back.
 */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/path/path.h"
#include "core/path/peer.h"
#include "core/path/req.h"
#include "oriel.h"
#include "tests/core/fake_path.h"
#include "tests/t.h"

#define OPS 8

static struct fake_path fake;
static unsigned char data[OPS][64];

static void open_all(void)
{
    fake_open(4);
    fake_path_init(&fake, 2);
}

static void close_all(void)
{
    cr_assert_eq(atomic_load(&fake.path.inflight), 0);
    cr_assert_eq(atomic_load(&fake.remote.refs), 1);
    cr_assert_eq(fake_close(), 0);
}

TestSuite(deadline, .init = open_all, .fini = close_all, .timeout = 30);

static void fill_ops(struct oriel_xfer ops[OPS])
{
    for (int i = 0; i < OPS; i++) {
        ops[i] = (struct oriel_xfer){ .kind = i % 2 == 0 ? ORIEL_PUT : ORIEL_GET,
                                      .remote = &fake.remote,
                                      .offset = 64 * (uint64_t)i,
                                      .src = data[i],
                                      .dst = data[i],
                                      .bytes = 64 };
    }
}

static void expect_detail(const char *words)
{
    cr_assert(strstr(oriel_error_detail(), words) != NULL, "'%s' is not in '%s'", words,
              oriel_error_detail());
}

/* covers: K1 K3 K7 K13 Q6 */
Test(deadline, request_times_out_with_counts_and_stays_until_settled)
{
    struct oriel_xfer ops[OPS];
    struct oriel_result results[OPS];
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct oriel_request *request;
    struct oriel_status status;

    fill_ops(ops);
    opts.timeout_ns = 30 * 1000 * 1000;
    opts.results = results;
    cr_assert_eq(oriel_start(ops, OPS, &opts, &request), 0);
    fake_end(&fake, 0, 0);
    fake_end(&fake, 0, ORIEL_ERR_GONE);
    fake_end(&fake, 0, 0);
    cr_assert_eq(oriel_wait(&request, &status), ORIEL_ERR_TIMEOUT);
    expect_detail("timed out after 3 of 8 operations, 1 failed, rank 2");
    cr_assert_eq(status.error, ORIEL_ERR_TIMEOUT);
    cr_assert_eq(status.failed, 1);
    cr_assert_not_null(request, "kept while its buffers are leased");
    cr_assert(!oriel_request_settled(request));
    for (int i = 0; i < OPS; i++) {
        cr_assert_eq(results[i].error, i == 1 ? ORIEL_ERR_GONE : i < 3 ? 0 : ORIEL_ERR_TIMEOUT);
    }
    memset(results, 0x5a, sizeof(results));
    cr_assert_eq(oriel_wait(&request, NULL), ORIEL_ERR_TIMEOUT, "at once");
    fake_end_all(&fake, 0);
    for (size_t i = 0; i < sizeof(results); i++) {
        cr_assert_eq(((unsigned char *)results)[i], 0x5a, "results are the user's after the end");
    }
    cr_assert(oriel_request_settled(request));
    cr_assert_eq(oriel_wait(&request, &status), ORIEL_ERR_TIMEOUT);
    cr_assert_null(request);
    cr_assert_eq(status.bytes, 128, "what came late does not count");
}

/* covers: K7 K14 */
Test(deadline, timed_out_and_given_up)
{
    struct oriel_xfer ops[OPS];
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct oriel_request *request;
    uint64_t index = 9;
    int done = 0;

    fill_ops(ops);
    opts.timeout_ns = 1;
    cr_assert_eq(oriel_start(ops, 1, &opts, &request), 0);
    t_sleep_ms(2);
    cr_assert_eq(oriel_test(&request, &done, NULL), ORIEL_ERR_TIMEOUT);
    cr_assert_eq(done, 1);
    cr_assert_eq(oriel_wait_any(&request, 1, ORIEL_FOREVER, &index, NULL), ORIEL_ERR_TIMEOUT);
    cr_assert_eq(index, 0);
    cr_assert_eq(oriel_request_free(&request), 0);
    cr_assert_eq(atomic_load(&fake.remote.refs), 2);
    fake_end_all(&fake, ORIEL_ERR_CANCELED);
}

Test(deadline, wait_any_ends_at_the_earliest)
{
    struct oriel_xfer ops[OPS];
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct oriel_request *requests[2];
    uint64_t index = 9;

    fill_ops(ops);
    cr_assert_eq(oriel_start(ops, 1, NULL, &requests[0]), 0);
    opts.timeout_ns = 20 * 1000 * 1000;
    cr_assert_eq(oriel_start(ops + 1, 1, &opts, &requests[1]), 0);
    cr_assert_eq(oriel_wait_any(requests, 2, ORIEL_FOREVER, &index, NULL), ORIEL_ERR_TIMEOUT);
    cr_assert_eq(index, 1);
    expect_detail("timed out after 0 of 1 operations");
    fake_end_all(&fake, 0);
    cr_assert_eq(oriel_wait(&requests[0], NULL), 0);
    cr_assert_eq(oriel_wait(&requests[1], NULL), ORIEL_ERR_TIMEOUT);
}

/* covers: K1 K7 */
Test(deadline, run_gives_the_buffers_back)
{
    struct oriel_xfer ops[OPS];
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct oriel_result results[OPS];
    const struct fab_op *put;

    memset(data, 1, sizeof(data));
    fill_ops(ops);
    opts.timeout_ns = 10 * 1000 * 1000;
    opts.results = results;
    cr_assert_eq(oriel_run(ops, OPS, &opts), ORIEL_ERR_TIMEOUT);
    cr_assert_eq(fake.nheld, OPS, "the transport still has them");
    memset(data, 2, sizeof(data));
    put = fake.held[0];
    cr_assert_eq(put->kind, FAB_OP_PUT);
    for (int i = 0; i < 64; i++) {
        cr_assert_eq(((const unsigned char *)put->local)[i], 1, "what was put stays as it was");
    }
    fake_end_all(&fake, 0);
    for (size_t i = 0; i < sizeof(data); i++) {
        cr_assert_eq(((unsigned char *)data)[i], 2, "a late get leaves the buffer alone");
    }
}

/* Ends what is posted while the test waits. */
static void *end_soon(void *arg)
{
    (void)arg;
    t_sleep_ms(20);
    while (fake.nheld > 0) {
        fake_end(&fake, 0, fake.nheld == 3 ? ORIEL_ERR_GONE : 0);
    }
    return NULL;
}

/* covers: K3 */
Test(deadline, run_lands_what_succeeded)
{
    struct oriel_xfer ops[OPS];
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct oriel_result results[OPS];
    pthread_t ender;
    bool failed;

    memset(data, 1, sizeof(data));
    fill_ops(ops);
    for (int i = 0; i < OPS; i++) {
        ops[i].kind = ORIEL_GET;
    }
    opts.timeout_ns = INT64_C(20) * 1000 * 1000 * 1000;
    opts.results = results;
    /* Operation 5 is the one that is ended with three left. */
    cr_assert_eq(pthread_create(&ender, NULL, end_soon, NULL), 0);
    cr_assert_eq(oriel_run(ops, OPS, &opts), ORIEL_ERR_GONE);
    (void)pthread_join(ender, NULL);
    for (int i = 0; i < OPS; i++) {
        failed = i == 5;
        cr_assert_eq(results[i].error, failed ? ORIEL_ERR_GONE : 0);
        cr_assert_eq(t_differs(data[i], 64, 2, 0, 64 * (uint64_t)i) == 64, !failed);
        cr_assert(!failed || data[i][0] == 1, "a failed get leaves the buffer alone");
    }
}

/* covers: K4 */
Test(deadline, one_that_has_passed_looks_once)
{
    struct oriel_xfer ops[OPS];
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct fab_op op = { .kind = FAB_OP_GET, .bytes = 8 };
    double begin = t_now();

    fill_ops(ops);
    opts.timeout_ns = -1;
    cr_assert_eq(oriel_run(ops, 2, &opts), ORIEL_ERR_TIMEOUT);
    cr_assert_eq(fake.nheld, 2);
    cr_assert_eq(core_path_run(&fake.path, &op, 1), ORIEL_ERR_TIMEOUT);
    cr_assert_eq(fake.nheld, 2, "nothing more was posted");
    cr_assert_lt(t_now() - begin, 20, "did not wait");
    fake_end_all(&fake, 0);
}

/* covers: K13 */
Test(deadline, flush_may_be_left_behind)
{
    struct oriel_request *request;

    cr_assert_eq(oriel_put_start(&fake.remote, 0, data[0], 64, &request), 0);
    cr_assert_eq(core_path_flush(&fake.path, orl_deadline_in(5 * 1000 * 1000)), ORIEL_ERR_TIMEOUT);
    cr_assert_eq(fake.nheld, 2);
    fake_end_all(&fake, 0);
    cr_assert_eq(oriel_wait(&request, NULL), 0);
    cr_assert_neq(atomic_load(&fake.path.posted), atomic_load(&fake.path.visible),
                  "a flush that timed out has made nothing visible");
}
