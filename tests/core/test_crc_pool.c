/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checksums of operations: right, off the calling and the polling thread, part of completion, and
 * absent for what failed.
 */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/crc.h"
#include "core/path/crc_pool.h"
#include "core/path/req.h"
#include "oriel.h"
#include "tests/core/fake_path.h"
#include "tests/t.h"

#define OPS 6

static struct fake_path fake;
static unsigned char data[OPS][512];

static void open_all(void)
{
    fake_open(4);
    fake_path_init(&fake, 2);
}

static void close_all(void)
{
    cr_assert_eq(fake_close(), 0);
}

TestSuite(crc_pool, .init = open_all, .fini = close_all, .timeout = 60);

/* covers: O1 O4 */
Test(crc_pool, each_operation_has_its_own)
{
    struct oriel_xfer ops[OPS];
    struct oriel_result results[OPS];
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct oriel_request *request;

    for (int i = 0; i < OPS; i++) {
        t_fill(data[i], 512, 7, 1, (uint64_t)i * 512);
        ops[i] = (struct oriel_xfer){ .kind = i == 4 ? ORIEL_GET : ORIEL_PUT,
                                      .remote = &fake.remote,
                                      .offset = (uint64_t)i * 512,
                                      .src = data[i],
                                      .dst = data[i],
                                      .bytes = i == 5 ? 0 : 500 + (uint64_t)i };
    }
    opts.flags = ORIEL_CRC32C;
    opts.results = results;
    cr_assert_eq(oriel_start(ops, OPS, &opts, &request), 0);
    fake_end(&fake, 1, ORIEL_ERR_GONE);
    fake_end_all(&fake, 0);
    cr_assert_eq(oriel_wait(&request, NULL), ORIEL_ERR_GONE);
    for (int i = 0; i < OPS; i++) {
        uint32_t want = i == 1 ? 0 : orl_crc32c(0, data[i], ops[i].bytes);

        cr_assert_eq(results[i].crc32c, want, "operation %d", i);
    }
    cr_assert_eq(t_differs(data[4], 504, 2, 0, 4 * 512), 504, "hashed after it landed");
}

/* covers: N9 O1 */
Test(crc_pool, known_answer_in_the_status)
{
    struct oriel_xfer op = {
        .kind = ORIEL_PUT, .remote = &fake.remote, .src = "123456789", .bytes = 9
    };
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct oriel_request *request;
    struct oriel_status status;

    opts.flags = ORIEL_CRC32C;
    cr_assert_eq(oriel_start(&op, 1, &opts, &request), 0);
    fake_end_all(&fake, 0);
    cr_assert_eq(oriel_wait(&request, &status), 0);
    cr_assert_eq(status.crc32c, 0xE3069283u);
    op.kind = ORIEL_ATOMIC;
    op.bytes = 8;
    op.operand = UINT64_C(0x3837363534333231); /* "12345678" */
    cr_assert_eq(oriel_start(&op, 1, &opts, &request), 0);
    fake_end_all(&fake, 0);
    cr_assert_eq(oriel_wait(&request, &status), 0);
    cr_assert_eq(status.crc32c, orl_crc32c(0, "12345678", 8));
}

static pthread_t worker;
static atomic_int hashed;

static void remember(struct core_crc_job *job, uint32_t crc32c)
{
    (void)job;
    (void)crc32c;
    worker = pthread_self();
    atomic_fetch_add(&hashed, 1);
}

/* covers: O2 O3 */
Test(crc_pool, works_off_the_caller_and_finishes_before_it_ends)
{
    static struct core_crc_job jobs[200];
    static unsigned char big[1 << 20];

    cr_assert_eq(core_crc_open(), 0);
    cr_assert_eq(core_crc_open(), 0, "again is fine");
    for (int i = 0; i < 200; i++) {
        jobs[i] = (struct core_crc_job){ .data = big, .bytes = sizeof(big), .done = remember };
        core_crc_submit(&jobs[i]);
    }
    core_crc_close();
    cr_assert_eq(atomic_load(&hashed), 200, "what was queued is computed");
    cr_assert(!pthread_equal(worker, pthread_self()));
    core_crc_close();
    cr_assert_eq(core_crc_open(), 0, "may be made again");
}

/* covers: O2 */
Test(crc_pool, done_of_a_part_does_not_hash)
{
    static unsigned char big[64 << 20];
    struct oriel_run_opts opts = ORIEL_RUN_OPTS_INIT;
    struct oriel_request *request;
    struct oriel_xfer op = { .kind = ORIEL_PUT, .remote = &fake.remote, .src = big };

    memset(big, 3, sizeof(big));
    fake.remote.key.bytes = op.bytes = sizeof(big);
    opts.flags = ORIEL_CRC32C;
    cr_assert_eq(oriel_start(&op, 1, &opts, &request), 0);
    fake_end_all(&fake, 0);
    /* Several ms of hashing are ahead of the worker when the done function has returned. */
    cr_assert(!oriel_request_settled(request), "complete only with its checksum");
    cr_assert_eq(oriel_wait(&request, NULL), 0);
}
