/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bootstrap from PMIx against a library that is late, wrong or silent: every wait ends in time
 * and says what was waited for; what is left behind harms nobody.
 */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/status.h"
#include "core/boot/boot.h"
#include "tests/fake/fake_pmix.h"
#include "tests/t.h"

#define STEP "the step of the test"
/* Far above any bound that is tested, for machines under load. */
#define SOON_S 20.0

static int log_fd;
static struct core_boot_id id;

static void prepare(void)
{
    setenv("PMIX_NAMESPACE", FAKE_NSPACE, 1);
    setenv("PMIX_RANK", "0", 1);
    setenv("PMIX_VERSION", "6.5.4", 1);
    setenv("ORIEL_BOOT_TIMEOUT", "1s", 1);
    log_fd = memfd_create("log", MFD_CLOEXEC);
    orl_log_redirect(log_fd);
}

TestSuite(boot_pmix, .init = prepare, .timeout = 100);

static const struct core_boot *const boot = &core_boot_pmix;

static void load(void)
{
    cr_assert_eq(orl_conf_load(), 0);
}

static void load_and_open(void)
{
    load();
    cr_assert_eq(boot->open(&id), 0, "%s", orl_last_error());
}

static void expect_text(const char *words)
{
    cr_assert_not_null(strstr(orl_last_error(), words), "'%s' is not in '%s'", words,
                       orl_last_error());
}

/* The call ended with that status, after at least this and not much more time. */
static void expect_bounded(int got, int want, double began, double least_s)
{
    double took = t_now() - began;
    cr_assert_eq(got, want, "%s", orl_last_error());
    cr_assert_geq(took, least_s);
    cr_assert_lt(took, SOON_S);
}

static int put_something(void)
{
    unsigned char bytes[100] = { 1, 2, 3 };
    return boot->put(bytes, sizeof(bytes));
}

/* covers: M1 M5 */
Test(boot_pmix, a_start_and_its_way_back)
{
    unsigned char got[CORE_RECORD_BYTES];
    size_t bytes = sizeof(got);
    int ranks[2];
    load_and_open();
    cr_assert(id.rank == 0 && id.size == 2 && id.local == 0 && id.nlocal == 2);
    cr_assert_eq(boot->local_ranks(ranks), 0);
    cr_assert(ranks[0] == 0 && ranks[1] == 1);
    cr_assert_eq(put_something(), 0);
    cr_assert_eq(boot->fence(STEP), 0);
    cr_assert_eq(boot->get(0, got, &bytes), 0);
    cr_assert(bytes == 100 && got[0] == 1 && got[2] == 3);
    cr_assert(fake_pmix_has_handler());
    boot->close();
    cr_assert(!fake_pmix_has_handler(), "another user of PMIx would keep it");
    cr_assert_eq(fake_pmix.users, 0);
    cr_assert_eq(fake_pmix.call[FAKE_COMMIT].count, 1);
    cr_assert_eq(fake_pmix.call[FAKE_FENCE].count, 1);
    cr_assert_eq(fake_pmix.waiting_gets, 0, "each Get is marked as one that does not wait");
}

Test(boot_pmix, an_init_that_hangs)
{
    double began = t_now();
    fake_pmix.call[FAKE_INIT].hangs = true;
    load();
    expect_bounded(boot->open(&id), ORL_ERR_BOOT, began, 1);
    expect_text("PMIx_Init in oriel_init");
    expect_text("1.0 s (ORIEL_BOOT_TIMEOUT)");
    expect_text("client version Fake 9.8.7");
    expect_text("server version 6.5.4");
    expect_text("address in the environment: no");
    cr_assert_eq(fake_pmix.call[FAKE_FINALIZE].count, 0, "nothing is open yet");
}

Test(boot_pmix, an_init_that_comes_back_too_late)
{
    fake_pmix.call[FAKE_INIT].delay_ms = 1500;
    setenv("PMIX_SERVER_URI4", "x", 1);
    load();
    cr_assert_eq(boot->open(&id), ORL_ERR_BOOT);
    expect_text("address in the environment: yes");
    while (fake_pmix.users == 0) {
        t_sleep_ms(10);
    }
    t_sleep_ms(100); /* its thread ends, and frees what is its own */
    cr_assert_eq(fake_pmix.call[FAKE_FINALIZE].count, 0);
}

Test(boot_pmix, an_init_that_fails)
{
    fake_pmix.call[FAKE_INIT].status = PMIX_ERR_UNREACH;
    load();
    cr_assert_eq(boot->open(&id), ORL_ERR_BOOT);
    expect_text("PMIx_Init in oriel_init: FAKE-UNREACH; client version Fake 9.8.7");
    cr_assert_eq(fake_pmix.call[FAKE_FINALIZE].count, 0);
}

/* covers: BOOT-09 */
Test(boot_pmix, versions_are_in_the_debug_log)
{
    char text[4096];
    setenv("ORIEL_LOG", "warn,boot:debug", 1);
    load_and_open();
    ssize_t n = pread(log_fd, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    cr_assert_not_null(strstr(text, "PMIx client Fake 9.8.7, server 6.5.4"), "%s", text);
    boot->close();
}

/* covers: BOOT-08 */
Test(boot_pmix, a_fence_that_never_ends)
{
    fake_pmix.fence_never = true;
    load_and_open();
    cr_assert_eq(put_something(), 0);
    double began = t_now();
    expect_bounded(boot->fence(STEP), ORL_ERR_BOOT, began, 1);
    expect_text(STEP ": PMIx_Fence of 2 ranks: no sign of rank 1 after 1.0 s (ORIEL_BOOT_TIMEOUT)");
    boot->close();
}

Test(boot_pmix, a_fence_that_ends_too_late_frees_itself)
{
    fake_pmix.fence_delay_ms = 1500;
    fake_pmix.call[FAKE_GET].status = PMIX_SUCCESS;
    load_and_open();
    cr_assert_eq(boot->fence(STEP), ORL_ERR_BOOT);
    while (!fake_pmix.fence_ended) {
        t_sleep_ms(10);
    }
    boot->close();
}

/* The server does not even answer the question who is missing. */
Test(boot_pmix, a_server_that_is_stuck_altogether)
{
    fake_pmix.fence_never = true;
    load_and_open();
    fake_pmix.call[FAKE_GET].hangs = true;
    fake_pmix.call[FAKE_FINALIZE].hangs = true;
    double began = t_now();
    expect_bounded(boot->fence(STEP), ORL_ERR_BOOT, began, 1);
    expect_text("PMIx cannot tell which");
    boot->close();
    cr_assert_lt(t_now() - began, SOON_S);
}

Test(boot_pmix, a_fence_that_fails)
{
    fake_pmix.fence_status = PMIX_ERR_PARTIAL_SUCCESS;
    load_and_open();
    double began = t_now();
    expect_bounded(boot->fence(STEP), ORL_ERR_BOOT, began, 0);
    expect_text(STEP ": PMIx_Fence of 2 ranks: FAKE-PARTIAL; a rank has probably ended");
    boot->close();
}

Test(boot_pmix, a_fence_that_is_refused_or_done_at_once)
{
    load_and_open();
    fake_pmix.call[FAKE_FENCE].status = PMIX_ERR_UNREACH;
    cr_assert_eq(boot->fence(STEP), ORL_ERR_BOOT);
    expect_text(STEP ": PMIx_Fence of 2 ranks: FAKE-UNREACH");
    fake_pmix.call[FAKE_FENCE].status = PMIX_OPERATION_SUCCEEDED;
    cr_assert_eq(boot->fence(STEP), 0);
    boot->close();
}

/* A peer that is seconds late is waited for; what it has put is there after the fence. */
/* covers: BOOT-12 BOOT-10 */
Test(boot_pmix, slow_peers_and_slow_answers)
{
    unsigned char got[CORE_RECORD_BYTES];
    size_t bytes = sizeof(got);
    setenv("ORIEL_BOOT_TIMEOUT", "60s", 1);
    fake_pmix.call[FAKE_COMMIT].delay_ms = 3000;
    fake_pmix.fence_delay_ms = 3000;
    load_and_open();
    cr_assert_eq(put_something(), 0);
    cr_assert_eq(boot->fence(STEP), 0, "%s", orl_last_error());
    fake_pmix.call[FAKE_GET].delay_ms = 5000;
    fake_pmix.record_bytes[1] = 50;
    cr_assert_eq(boot->get(1, got, &bytes), 0, "%s", orl_last_error());
    cr_assert_eq(bytes, 50);
    boot->close();
}

Test(boot_pmix, records_that_are_missing_or_too_large)
{
    unsigned char got[CORE_RECORD_BYTES];
    size_t bytes = sizeof(got);
    load_and_open();
    fake_pmix.missing_record[1] = true;
    cr_assert_eq(boot->get(1, got, &bytes), ORL_ERR_BOOT);
    expect_text("no record of rank 1");
    fake_pmix.missing_record[1] = false;
    fake_pmix.record_bytes[1] = CORE_RECORD_BYTES + 1;
    bytes = sizeof(got);
    cr_assert_eq(boot->get(1, got, &bytes), ORL_ERR_BOOT);
    expect_text("the record of rank 1 is not one of ours");
    boot->close();
}

Test(boot_pmix, a_commit_that_hangs_or_fails)
{
    load_and_open();
    fake_pmix.call[FAKE_PUT].status = PMIX_ERROR;
    cr_assert_eq(put_something(), ORL_ERR_BOOT);
    expect_text("PMIx_Put of this rank's record in oriel_init: FAKE-ERROR");
    fake_pmix.call[FAKE_PUT].status = PMIX_SUCCESS;
    fake_pmix.call[FAKE_COMMIT].status = PMIX_ERROR;
    cr_assert_eq(put_something(), ORL_ERR_BOOT);
    expect_text("PMIx_Commit of this rank's record in oriel_init: FAKE-ERROR");
    fake_pmix.call[FAKE_COMMIT].hangs = true;
    double began = t_now();
    expect_bounded(put_something(), ORL_ERR_BOOT, began, 1);
    expect_text("PMIx_Commit of this rank's record in oriel_init: no answer");
    boot->close();
}

Test(boot_pmix, keys_that_are_missing)
{
    load();
    fake_pmix.number = PMIX_UNDEF;
    cr_assert_eq(boot->open(&id), ORL_ERR_BOOT);
    expect_text("PMIX_JOB_SIZE");
    fake_pmix.number = PMIX_STRING; /* no count */
    cr_assert_eq(boot->open(&id), ORL_ERR_BOOT);
    fake_pmix.number = PMIX_UINT32;
    fake_pmix.local_peers = NULL;
    cr_assert_eq(boot->open(&id), ORL_ERR_BOOT);
    expect_text("PMIX_LOCAL_PEERS");
    fake_pmix.local_peers = "1,2"; /* without me */
    cr_assert_eq(boot->open(&id), ORL_ERR_BOOT);
    fake_pmix.local_peers = "0,1,fish";
    cr_assert_eq(boot->open(&id), ORL_ERR_BOOT);
    cr_assert_eq(fake_pmix.users, 0, "what fails half-way is closed");
}

Test(boot_pmix, every_integer_type)
{
    static const pmix_data_type_t types[] = {
        PMIX_INT,  PMIX_INT8,  PMIX_INT16,  PMIX_INT32,  PMIX_INT64,  PMIX_UINT,      PMIX_BYTE,
        PMIX_SIZE, PMIX_UINT8, PMIX_UINT16, PMIX_UINT32, PMIX_UINT64, PMIX_PROC_RANK,
    };
    load();
    fake_pmix.size = 100;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        fake_pmix.number = types[i];
        cr_assert_eq(boot->open(&id), 0, "type %d: %s", types[i], orl_last_error());
        cr_assert_eq(id.size, 100, "type %d", types[i]);
        boot->close();
    }
    fake_pmix.number = PMIX_INT64;
    fake_pmix.size = -5;
    cr_assert_eq(boot->open(&id), ORL_ERR_BOOT, "a size below zero is none");
}

Test(boot_pmix, an_abort_that_hangs)
{
    load_and_open();
    fake_pmix.call[FAKE_ABORT].hangs = true;
    double began = t_now();
    boot->abort(42, "the moon is full");
    cr_assert_geq(t_now() - began, 0.9);
    cr_assert_lt(t_now() - began, SOON_S);
    cr_assert_eq(fake_pmix.abort_code, 42);
    cr_assert_str_eq(fake_pmix.abort_text, "the moon is full");
}
