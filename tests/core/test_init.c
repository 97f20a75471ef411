/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Life of a process: init and finalize in every order, forked children, settings given by the
 * program, introspection, bootstrap records.
 */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "oriel.h"
#include "tests/t.h"

/* covers: M1 */
static int twice(int rank, void *arg)
{
    (void)arg;
    t_check_eq(oriel_finalize(), ORIEL_ERR_STATE);
    t_check_eq(oriel_barrier(ORIEL_WORLD), ORIEL_ERR_STATE);
    t_check(strstr(oriel_error_detail(), "oriel_init") != NULL);
    t_check_eq(oriel_rank(), -1);
    t_check_ok(oriel_init(NULL));
    t_check_ok(oriel_init(NULL));
    t_check(oriel_is_initialized());
    t_check_eq(oriel_rank(), rank);
    t_check_eq(oriel_local_rank(), rank);
    t_check_eq(oriel_local_size(), oriel_size());
    t_check_eq(oriel_is_local(0), 1);
    t_check_eq(oriel_is_local(oriel_size()), ORIEL_ERR_RANK);
    t_check_ok(oriel_finalize());
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    t_check_ok(oriel_finalize());
    t_check(!oriel_is_initialized());
    t_check_eq(oriel_finalize(), ORIEL_ERR_STATE);
    t_check_eq(oriel_init(NULL), ORIEL_ERR_STATE);
    t_check(strstr(oriel_error_detail(), "finalized") != NULL);
    return 0;
}

Test(init, twice_is_fine_and_after_the_end_is_not)
{
    cr_assert_eq(t_ranks(2, twice, NULL), 0);
    cr_assert_eq(t_ranks(1, twice, NULL), 0);
}

/* A child of fork leaves quietly. */
static int fork_after(int rank, void *arg)
{
    (void)arg;
    (void)rank;
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            int ok = oriel_barrier(ORIEL_WORLD) == ORIEL_ERR_STATE &&
                     strstr(oriel_error_detail(), "forked") != NULL &&
                     oriel_init(NULL) == ORIEL_ERR_STATE && oriel_finalize() == ORIEL_ERR_STATE;
            exit(ok ? 0 : 9);
        }
        int status = -1;
        t_check_eq(waitpid(pid, &status, 0), pid);
        t_check_eq(status, 0);
        t_check_ok(oriel_barrier(ORIEL_WORLD));
    }
    t_sleep_ms(150); /* long enough for a look at everybody's life */
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    return 0;
}

Test(init, forked_children_disturb_nobody)
{
    cr_assert_eq(t_job(2, fork_after, NULL), 0);
}

static int settings(int rank, void *arg)
{
    (void)arg;
    (void)rank;
    struct oriel_setting rows[] = { { "SPIN_TIME", "5us" }, { "ORIEL_INFLIGHT", "77" } };
    struct oriel_init_opts opts = ORIEL_INIT_OPTS_INIT;
    opts.settings = rows;
    opts.nsettings = 2;
    setenv("ORIEL_SPIN_TIME", "9us", 1);
    t_check_ok(oriel_init(&opts));
    struct oriel_setting_info info = { .size = sizeof(info) };
    int found = 0;
    for (size_t i = 0; oriel_setting_query(i, &info) == 0; i++) {
        if (strcmp(info.name, "ORIEL_SPIN_TIME") == 0) {
            t_check(strstr(info.value, "5") != NULL);
            found++;
        }
        if (strcmp(info.name, "ORIEL_INFLIGHT") == 0) {
            t_check(strcmp(info.value, "77") == 0);
            found++;
        }
    }
    t_check_eq(found, 2);
    t_check_ok(oriel_finalize());
    return 0;
}

static int wrong(int rank, void *arg)
{
    (void)rank;
    const char *const *pair = arg;
    setenv(pair[0], pair[1], 1);
    t_check_eq(oriel_init(NULL), ORIEL_ERR_CONF);
    t_check(strstr(oriel_error_detail(), pair[0]) != NULL);
    t_check(strstr(oriel_error_detail(), pair[1]) != NULL);
    t_check(!oriel_is_initialized());
    unsetenv(pair[0]);
    t_check_ok(oriel_init(NULL));
    t_check_ok(oriel_finalize());
    return 0;
}

/* Settings malformed or out of range; what failed is not remembered. */
/* covers: D12 */
Test(init, settings_of_the_program_and_wrong_ones)
{
    static const char *const bad[][2] = {
        { "ORIEL_SPIN_TIME", "3 parsecs" }, { "ORIEL_INFLIGHT", "0" },
        { "ORIEL_INFLIGHT", "lots" },       { "ORIEL_TRANSPORTS", "self,carrier-pigeon" },
        { "ORIEL_SHM_COPY", "teleport" },   { "ORIEL_BOOT_TIMEOUT", "-1s" },
    };
    cr_assert_eq(t_ranks(1, settings, NULL), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *pair[2] = { bad[i][0], bad[i][1] };
        cr_assert_eq(t_ranks(1, wrong, pair), 0, "%s=%s", pair[0], pair[1]);
    }
}

static int without_shm(int rank, void *arg)
{
    (void)arg;
    (void)rank;
    setenv("ORIEL_TRANSPORTS", "self", 1);
    t_check_eq(oriel_init(NULL), ORIEL_ERR_CONF);
    t_check(strstr(oriel_error_detail(), "add shm") != NULL);
    return 0;
}

static int alone_without_shm(int rank, void *arg)
{
    (void)arg;
    (void)rank;
    setenv("ORIEL_TRANSPORTS", "self", 1);
    t_check_ok(oriel_init(NULL));
    struct oriel_mem *mem = NULL;
    struct oriel_remote *r = NULL;
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
    size_t n = 0;
    uint64_t word = 17;
    uint64_t got = 0;
    t_check_ok(oriel_mem_register(&got, sizeof(got), NULL, &mem));
    t_check_ok(oriel_token_pack(mem, token, sizeof(token), &n));
    t_check_ok(oriel_token_open(token, n, &r));
    t_check_ok(oriel_put(r, 0, &word, 8));
    t_check_ok(oriel_flush(0));
    t_check_eq(got, 17);
    t_check_ok(oriel_mem_free(mem));
    t_check_eq(oriel_put(r, 0, &word, 8), ORIEL_ERR_GONE);
    t_check_ok(oriel_finalize());
    return 0;
}

Test(init, transports_are_chosen_loudly)
{
    cr_assert_eq(t_ranks(2, without_shm, NULL), 0);
    cr_assert_eq(t_ranks(1, alone_without_shm, NULL), 0);
}

static int late(int rank, void *arg)
{
    (void)arg;
    setenv("ORIEL_BOOT_TIMEOUT", "1s", 1);
    if (rank == 2) {
        t_meet(3); /* lives, and never comes */
        return 0;
    }
    t_check_eq(oriel_init(NULL), ORIEL_ERR_BOOT);
    t_check(strstr(oriel_error_detail(), "rank 2") != NULL);
    t_check(strstr(oriel_error_detail(), "ORIEL_BOOT_TIMEOUT") != NULL);
    t_meet(3);
    return 0;
}

/* Whose process has ended is not waited for. */
static int ended(int rank, void *arg)
{
    (void)arg;
    setenv("ORIEL_BOOT_TIMEOUT", "60s", 1);
    if (rank == 2) {
        return 0;
    }
    t_check_eq(oriel_init(NULL), ORIEL_ERR_PEER);
    t_check(strstr(oriel_error_detail(), "rank 2") != NULL);
    return 0;
}

/* covers: K10 */
Test(init, a_missing_rank_is_named_in_time)
{
    cr_assert_eq(t_ranks(3, late, NULL), 0);
    cr_assert_eq(t_ranks(3, ended, NULL), 0);
}

/* Stands in for libpmix's: another library of this process may hold PMIx open, and a close too many
 * would drop its reference. */
int PMIx_Finalize(const void *info, size_t n);
static int pmix_closed;

int PMIx_Finalize(const void *info, size_t n)
{
    (void)info;
    (void)n;
    pmix_closed++;
    return 0;
}

static int no_launcher(int rank, void *arg)
{
    (void)arg;
    (void)rank;
    unsetenv("PMIX_RANK");
    unsetenv("PMIX_NAMESPACE");
    setenv("ORIEL_BOOT", "pmix", 1);
    t_check_eq(oriel_init(NULL), ORIEL_ERR_BOOT);
    t_check_eq(pmix_closed, 0);
    return 0;
}

Test(init, a_bootstrap_that_did_not_open_is_not_closed)
{
    cr_assert_eq(t_ranks(1, no_launcher, NULL), 0);
}

static int introspection(int rank, void *arg)
{
    (void)arg;
    (void)rank;
    int major = -1;
    t_check(strcmp(oriel_version(&major, NULL, NULL), "0.1.0") == 0);
    t_check_eq(major, ORIEL_VERSION_MAJOR);
    t_check(strcmp(oriel_error_name(ORIEL_ERR_GONE), "ORIEL_ERR_GONE") == 0);
    t_check(strcmp(oriel_error_name(0), "ORIEL_OK") == 0);
    t_check(strcmp(oriel_error_name(-999), "ORIEL_ERR_UNKNOWN") == 0);
    t_check(strlen(oriel_error_text(ORIEL_ERR_PEER)) > 5);
    size_t need = 0;
    char small[10];
    t_check_eq(oriel_settings_print(ORIEL_FORM_MARKDOWN, small, sizeof(small), &need),
               ORIEL_ERR_TRUNC);
    char *text = malloc(need + 1);
    t_check_ok(oriel_settings_print(ORIEL_FORM_MARKDOWN, text, need + 1, &need));
    t_check(strstr(text, "ORIEL_SPIN_TIME") != NULL);
    free(text);
    t_check_ok(oriel_init(NULL));
    struct oriel_counter c = { .size = sizeof(c) };
    t_check_ok(oriel_counter_query(0, &c));
    t_check(c.name != NULL && c.unit != NULL && c.text != NULL);
    t_check_eq(oriel_counter_query(100000, &c), ORIEL_ERR_RANGE);
    t_check_ok(oriel_finalize());
    return 0;
}

Test(init, introspection)
{
    cr_assert_eq(t_ranks(1, introspection, NULL), 0);
}
