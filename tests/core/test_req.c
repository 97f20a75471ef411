/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests over a path that the test ends by hand: completion, errors of single operations, the
 * waits of several, giving up, back-pressure, misuse.
 */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/path/peer.h"
#include "core/path/req.h"
#include "oriel.h"
#include "tests/core/fake_path.h"
#include "tests/t.h"

#define OPS 8

static struct fake_path fake[3];
static unsigned char data[OPS][64];

static void open_all(void)
{
    fake_open(4);
    for (int i = 0; i < 3; i++) {
        fake_path_init(&fake[i], i + 1);
    }
}

static void close_all(void)
{
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(atomic_load(&fake[i].path.inflight), 0);
        cr_assert_eq(atomic_load(&fake[i].remote.refs), 1, "leases given back");
    }
    cr_assert_eq(fake_close(), 0);
}

TestSuite(req, .init = open_all, .fini = close_all, .timeout = 30);

static struct oriel_xfer put_to(struct fake_path *path, int i)
{
    return (struct oriel_xfer){ .kind = ORIEL_PUT,
                                .remote = &path->remote,
                                .offset = 64 * (uint64_t)i,
                                .src = data[i],
                                .bytes = 64 };
}

/* Eight puts, in turn to the three paths. */
static void fill_ops(struct oriel_xfer ops[OPS])
{
    for (int i = 0; i < OPS; i++) {
        ops[i] = put_to(&fake[i % 3], i);
    }
}

static void expect_detail(const char *words)
{
    cr_assert(strstr(oriel_error_detail(), words) != NULL, "'%s' is not in '%s'", words,
              oriel_error_detail());
}

/* covers: K5 */
Test(req, empty_batch_is_complete_and_may_come_again)
{
    for (int i = 0; i < 2; i++) {
        struct oriel_request *request = NULL;
        struct oriel_status status = { .bytes = 7 };

        cr_assert_eq(oriel_start(NULL, 0, NULL, &request), 0);
        cr_assert_not_null(request);
        cr_assert_eq(oriel_wait(&request, &status), 0);
        cr_assert_null(request);
        cr_assert_eq(status.bytes, 0);
        cr_assert_eq(oriel_run(NULL, 0, NULL), 0);
    }
}

/* covers: I1 */
Test(req, completes_when_the_last_part_has_in_any_order)
{
    static const int order[OPS] = { 2, 0, 1, 1, 0, 2, 0, 1 };
    struct oriel_xfer ops[OPS];
    struct oriel_request *request;
    struct oriel_status status;
    int done;

    fill_ops(ops);
    cr_assert_eq(oriel_start(ops, OPS, NULL, &request), 0);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(fake[i].nposts, 1, "one chain a path");
    }
    for (int i = 0; i < OPS; i++) {
        struct fake_path *path = &fake[order[i]];

        cr_assert_eq(oriel_test(&request, &done, &status), 0);
        cr_assert_eq(done, 0);
        cr_assert(!oriel_request_settled(request));
        fake_end(path, path->nheld - 1, 0);
    }
    cr_assert(oriel_request_settled(request));
    cr_assert_eq(oriel_test(&request, &done, &status), 0);
    cr_assert_eq(done, 1);
    cr_assert_null(request);
    cr_assert_eq(status.bytes, 64 * OPS);
    cr_assert_eq(status.failed, 0);
    cr_assert_eq(status.error, 0);
}

/* covers: I12 K3 O5 Q6 */
Test(req, each_operation_ends_by_itself)
{
    struct oriel_xfer ops[OPS];
    struct oriel_result results[OPS];
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct oriel_request *request;
    struct oriel_status status;

    fill_ops(ops);
    ops[4].offset = FAKE_BYTES; /* out of range */
    ops[6].kind = 77;
    ops[7].remote = NULL;
    opts.results = results;
    cr_assert_eq(oriel_start(ops, OPS, &opts, &request), 0);
    fake_end(&fake[2], 0, ORIEL_ERR_GONE); /* operation 2 */
    fake_end_all(&fake[2], 0);
    fake_end_all(&fake[1], 0);
    fake_end_all(&fake[0], 0);
    cr_assert_eq(oriel_wait(&request, &status), ORIEL_ERR_GONE, "the first in order");
    expect_detail("operation 2 of 8");
    expect_detail("rank 3");
    cr_assert_eq(status.failed, 4);
    cr_assert_eq(status.bytes, 64 * 4);
    for (int i = 0; i < OPS; i++) {
        int want = i == 2   ? ORIEL_ERR_GONE
                   : i == 4 ? ORIEL_ERR_RANGE
                   : i >= 6 ? ORIEL_ERR_INVAL
                            : 0;

        cr_assert_eq(results[i].error, want, "operation %d: %d", i, results[i].error);
        cr_assert_eq(results[i].bytes, want == 0 ? 64 : 0);
    }
}

/* covers: K14 */
Test(req, given_up_it_goes_on_and_frees_itself)
{
    struct oriel_result result = { .error = 55 };
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct oriel_xfer op = put_to(&fake[0], 1);
    struct oriel_request *request;
    struct oriel_request *old;

    opts.results = &result;
    cr_assert_eq(oriel_start(&op, 1, &opts, &request), 0);
    old = request;
    cr_assert_eq(oriel_request_free(&request), 0);
    cr_assert_null(request);
    result.error = 55;
    cr_assert_eq(atomic_load(&fake[0].remote.refs), 2, "still leased");
    fake_end_all(&fake[0], 0);
    cr_assert_eq(result.error, 55, "the results are the user's again");
    cr_assert_eq(oriel_wait(&old, NULL), ORIEL_ERR_INVAL);
    cr_assert_eq(oriel_request_free(&request), 0, "NULL is fine");
}

/* covers: K4 */
Test(req, wait_any_and_wait_all)
{
    struct oriel_request *requests[4] = { NULL };
    struct oriel_status statuses[4];
    uint64_t index = 99;

    for (int i = 0; i < 3; i++) {
        cr_assert_eq(oriel_put_start(&fake[i].remote, 0, data[i], 64, &requests[i]), 0);
    }
    cr_assert_eq(oriel_wait_any(requests, 4, ORIEL_NOW, &index, NULL), ORIEL_ERR_TIMEOUT);
    cr_assert_eq(oriel_wait_for(&requests[0], ORIEL_NOW, NULL), ORIEL_ERR_TIMEOUT);
    cr_assert_not_null(requests[0], "a wait's own time-out keeps the request");
    fake_end_all(&fake[1], 0);
    cr_assert_eq(oriel_wait_any(requests, 4, ORIEL_FOREVER, &index, &statuses[0]), 0);
    cr_assert_eq(index, 1);
    cr_assert_null(requests[1]);
    cr_assert_eq(statuses[0].bytes, 64);
    fake_end_all(&fake[0], 0);
    fake_end_all(&fake[2], ORIEL_ERR_CANCELED);
    cr_assert_eq(oriel_wait_all(requests, 4, statuses), ORIEL_ERR_CANCELED);
    cr_assert_eq(statuses[0].error, 0);
    cr_assert_eq(statuses[1].error, 0);
    cr_assert_eq(statuses[2].cancelled, 1);
    cr_assert_eq(oriel_wait_any(requests, 4, ORIEL_FOREVER, &index, NULL), 0);
    cr_assert_eq(index, 4, "all are NULL");
    cr_assert_eq(oriel_wait_all(NULL, 0, NULL), 0);
}

/* covers: H7 */
Test(req, one_post_for_a_whole_batch)
{
    struct oriel_xfer ops[FAKE_HELD];
    struct oriel_request *request;

    for (int i = 0; i < FAKE_HELD; i++) {
        ops[i] = put_to(&fake[0], i % OPS);
    }
    cr_assert_eq(oriel_start(ops, FAKE_HELD, NULL, &request), 0);
    cr_assert_eq(fake[0].nheld, FAKE_HELD);
    cr_assert_eq(fake[0].nposts, 1);
    fake_end_all(&fake[0], 0);
    cr_assert_eq(oriel_wait(&request, NULL), 0);
}

Test(req, misuse_is_told)
{
    struct oriel_xfer op = put_to(&fake[0], 0);
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct oriel_request *request = NULL;
    struct oriel_request *stale;
    uint64_t index;
    int done;

    cr_assert_eq(oriel_start(NULL, 2, NULL, &request), ORIEL_ERR_INVAL);
    expect_detail("ops is NULL");
    cr_assert_eq(oriel_start(&op, 1, NULL, NULL), ORIEL_ERR_INVAL);
    opts.size = 3;
    cr_assert_eq(oriel_start(&op, 1, &opts, &request), ORIEL_ERR_INVAL);
    expect_detail("size is 3");
    opts.size = sizeof(opts);
    opts.flags = 64;
    cr_assert_eq(oriel_run(&op, 1, &opts), ORIEL_ERR_INVAL);
    cr_assert_null(request, "set on success only");
    cr_assert_eq(oriel_wait(NULL, NULL), ORIEL_ERR_INVAL);
    cr_assert_eq(oriel_test(&request, NULL, NULL), ORIEL_ERR_INVAL);
    cr_assert_eq(oriel_wait_any(NULL, 1, 0, &index, NULL), ORIEL_ERR_INVAL);
    cr_assert_eq(oriel_wait_any(&request, 1, 0, NULL, NULL), ORIEL_ERR_INVAL);
    cr_assert_eq(oriel_wait_all(NULL, 1, NULL), ORIEL_ERR_INVAL);
    cr_assert_eq(oriel_wait(&request, NULL), 0, "NULL is complete");
    cr_assert_eq(oriel_test(&request, &done, NULL), 0);
    cr_assert_eq(done, 1);
    cr_assert(oriel_request_settled(NULL));

    cr_assert_eq(oriel_start(NULL, 0, NULL, &request), 0);
    stale = request;
    cr_assert_eq(oriel_wait(&request, NULL), 0);
    cr_assert_eq(oriel_wait(&stale, NULL), ORIEL_ERR_INVAL);
    expect_detail("has been freed");
    cr_assert_eq(oriel_wait_all(&stale, 1, NULL), ORIEL_ERR_INVAL);
    cr_assert(oriel_request_settled(stale));
}

static void *flush_two(void *arg)
{
    return oriel_flush(2) == 0 ? arg : NULL;
}

/* A flush covers what was posted before it began, and nothing else. */
Test(req, flush_covers_what_came_before_it)
{
    struct oriel_request *requests[2];
    pthread_t flusher;
    void *result;

    atomic_store(&core.peers[2].path, &fake[1].path);
    cr_assert_eq(oriel_flush(2), 0);
    cr_assert_eq(fake[1].nheld, 0, "nothing to flush, nothing posted");
    cr_assert_eq(oriel_put_start(&fake[1].remote, 0, data[0], 64, &requests[0]), 0);
    cr_assert_eq(pthread_create(&flusher, NULL, flush_two, data), 0);
    while (atomic_load(&fake[1].path.inflight) < 2 || fake[1].nheld < 2) {
        t_sleep_ms(1);
    }
    t_sleep_ms(1);
    cr_assert_eq(fake[1].held[1]->kind, FAB_OP_FLUSH);
    cr_assert_eq(oriel_put_start(&fake[1].remote, 0, data[1], 64, &requests[1]), 0);
    fake_end_all(&fake[1], 0);
    (void)pthread_join(flusher, &result);
    cr_assert_not_null(result);
    cr_assert_eq(oriel_wait_all(requests, 2, NULL), 0);
    cr_assert_eq(atomic_load(&fake[1].path.posted), 2);
    cr_assert_eq(atomic_load(&fake[1].path.visible), 1, "the second came after the flush");
    atomic_store(&core.peers[2].path, NULL);
}

/* covers: H8 */
Test(req_room, nowait_posts_all_or_nothing)
{
    struct oriel_xfer ops[OPS];
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct oriel_request *first;
    struct oriel_request *second = NULL;

    (void)setenv("ORIEL_INFLIGHT", "4", 1);
    open_all();
    for (int i = 0; i < OPS; i++) {
        ops[i] = put_to(&fake[i < 3 ? 0 : 1], i);
    }
    opts.flags = ORIEL_NOWAIT;
    cr_assert_eq(oriel_start(ops, OPS, &opts, &first), ORIEL_ERR_AGAIN, "5 to one rank");
    expect_detail("ORIEL_INFLIGHT");
    cr_assert_eq(fake[0].nheld + fake[1].nheld, 0, "nothing was posted");
    cr_assert_eq(atomic_load(&fake[0].path.inflight), 0);
    cr_assert_eq(oriel_start(ops, 6, &opts, &first), 0);
    cr_assert_eq(oriel_start(ops, 2, &opts, &second), ORIEL_ERR_AGAIN);
    cr_assert_null(second);
    fake_end(&fake[0], 0, 0);
    cr_assert_eq(oriel_start(ops, 2, &opts, &second), 0);
    fake_end_all(&fake[0], 0);
    fake_end_all(&fake[1], 0);
    cr_assert_eq(oriel_wait(&first, NULL), 0);
    cr_assert_eq(oriel_wait(&second, NULL), 0);
    close_all();
}

/* covers: K2 */
Test(req_room, deadline_while_waiting_for_room)
{
    struct oriel_xfer ops[OPS];
    struct oriel_result results[OPS];
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct oriel_request *request = NULL;
    struct oriel_request *full;

    (void)setenv("ORIEL_INFLIGHT", "4", 1);
    open_all();
    for (int i = 0; i < OPS; i++) {
        ops[i] = put_to(&fake[0], i);
    }
    cr_assert_eq(oriel_start(ops, 4, NULL, &full), 0);
    opts.timeout_ns = 20 * 1000 * 1000;
    opts.results = results;
    cr_assert_eq(oriel_start(ops, 2, &opts, &request), ORIEL_ERR_TIMEOUT);
    cr_assert_null(request);
    fake_end(&fake[0], 0, 0);
    cr_assert_eq(oriel_start(ops, 3, &opts, &request), 0, "one of three had room");
    fake_end_all(&fake[0], 0);
    cr_assert_eq(oriel_wait(&full, NULL), 0);
    cr_assert_eq(oriel_wait(&request, NULL), ORIEL_ERR_TIMEOUT);
    cr_assert_null(request);
    cr_assert_eq(results[0].error, 0);
    cr_assert_eq(results[1].error, ORIEL_ERR_TIMEOUT);
    cr_assert_eq(results[2].error, ORIEL_ERR_TIMEOUT);
    close_all();
}

/* covers: R5 */
Test(req_room, close_counts_what_is_outstanding)
{
    struct oriel_request *request;

    open_all();
    cr_assert_eq(oriel_put_start(&fake[0].remote, 0, data[0], 64, &request), 0);
    cr_assert_eq(oriel_request_free(&request), 0);
    cr_assert_eq(fake_close(), 1);
}
