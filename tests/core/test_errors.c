/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrong use and bad starts. Every public call before oriel_init, after oriel_finalize, with NULL
 * and with a handle that has been freed gives a code and words, and nothing crashes; the table
 * below is compared with oriel.h, so that no call is forgotten. Every way in which oriel_init fails
 * tells what failed, where, and what to try.
 */
#include <criterion/criterion.h>

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/crc.h"
#include "oriel.h"
#include "tests/t.h"

TestSuite(errors, .timeout = 60);

struct handles {
    struct oriel_mem *mem;
    struct oriel_remote *remote;
    struct oriel_request *request;
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
    size_t bytes;
};

/* What a call answers: codes, or what calls without a code give then. */
#define FINE  0
#define STATE ORIEL_ERR_STATE
#define INVAL ORIEL_ERR_INVAL
#define NONE  100 /* nothing there, and no code to say so */

static uint64_t word;

/* A started operation may end well or not: its request says. */
static int outcome(int status, struct handles *h)
{
    return status != 0 ? status : oriel_wait(&h->request, NULL);
}

/* One function per public call, named after it: call_X asks oriel_X. */
#define CALL(name, expression)             \
 static int call_##name(struct handles *h) \
 {                                         \
  (void)h;                                 \
  return (int)(expression);                \
 }
CALL(finalize, oriel_finalize())
CALL(is_initialized, oriel_is_initialized() ? 1 : 0)
CALL(rank, oriel_rank() == -1 ? NONE : FINE)
CALL(size, oriel_size() == -1 ? NONE : FINE)
CALL(local_rank, oriel_local_rank() == -1 ? NONE : FINE)
CALL(local_size, oriel_local_size() == -1 ? NONE : FINE)
CALL(is_local, oriel_is_local(0))
CALL(team_rank, oriel_team_rank(NULL))
CALL(team_size, oriel_team_size(NULL))
CALL(mem_alloc, oriel_mem_alloc(8, NULL, NULL))
CALL(mem_register, oriel_mem_register(&word, 8, NULL, NULL))
CALL(mem_free, oriel_mem_free(h->mem))
CALL(mem_base, oriel_mem_base(h->mem) == NULL ? NONE : FINE)
CALL(mem_size, oriel_mem_size(h->mem) == 0 ? NONE : FINE)
CALL(token_pack, oriel_token_pack(h->mem, h->token, sizeof(h->token), &h->bytes))
CALL(token_open, oriel_token_open(h->remote == NULL ? NULL : h->token, h->bytes, NULL))
CALL(token_release, oriel_token_release(NULL, 0))
CALL(remote_query, oriel_remote_query(h->remote, NULL))
CALL(remote_close, oriel_remote_close(h->remote))
CALL(put, oriel_put(h->remote, 0, &word, 8))
CALL(get, oriel_get(h->remote, 0, &word, 8))
CALL(atomic32, oriel_atomic32(h->remote, 0, ORIEL_ATOMIC_ADD, 1, NULL))
CALL(atomic64, oriel_atomic64(h->remote, 0, ORIEL_ATOMIC_ADD, 1, NULL))
CALL(compare_swap32, oriel_compare_swap32(h->remote, 0, 1, 2, NULL))
CALL(compare_swap64, oriel_compare_swap64(h->remote, 0, 1, 2, NULL))
CALL(put_notify, oriel_put_notify(h->remote, 0, &word, 8, 8, 1))
CALL(counter_wait, oriel_counter_wait(h->mem, 0, 1, ORIEL_NOW, NULL))
CALL(flush, oriel_flush(0))
CALL(flush_all, oriel_flush_all())
CALL(start, oriel_start(NULL, 1, NULL, &h->request))
CALL(run, oriel_run(NULL, 1, NULL))
CALL(put_start, outcome(oriel_put_start(h->remote, 0, &word, 8, &h->request), h))
CALL(get_start, outcome(oriel_get_start(h->remote, 0, &word, 8, &h->request), h))
CALL(wait, oriel_wait(h->request == NULL ? NULL : &h->request, NULL))
CALL(wait_for, oriel_wait_for(h->request == NULL ? NULL : &h->request, ORIEL_NOW, NULL))
CALL(test, oriel_test(h->request == NULL ? NULL : &h->request, NULL, NULL))
CALL(wait_any, oriel_wait_any(h->request == NULL ? NULL : &h->request, 1, 0, &word, NULL))
CALL(wait_all, oriel_wait_all(h->request == NULL ? NULL : &h->request, 1, NULL))
CALL(request_settled, oriel_request_settled(h->request) ? FINE : NONE)
CALL(request_free, oriel_request_free(h->request == NULL ? NULL : &h->request))
CALL(barrier, oriel_barrier(NULL))
CALL(bcast, oriel_bcast(&word, 1, ORIEL_UINT64, 0, NULL))
CALL(allreduce, oriel_allreduce(&word, &word, 1, ORIEL_UINT64, ORIEL_SUM, NULL))
CALL(version, oriel_version(NULL, NULL, NULL) != NULL ? FINE : NONE)
CALL(error_name, oriel_error_name(INT_MIN) != NULL ? FINE : NONE)
CALL(error_text, oriel_error_text(INT_MAX) != NULL ? FINE : NONE)
CALL(error_detail, oriel_error_detail() != NULL ? FINE : NONE)
CALL(counter_query, oriel_counter_query(0, NULL))
CALL(setting_query, oriel_setting_query(0, NULL))
CALL(settings_print, oriel_settings_print(ORIEL_FORM_TEXT, NULL, 0, NULL))
CALL(transport_query, oriel_transport_query(0, NULL))
CALL(nic_query, oriel_nic_query(0, NULL))
CALL(fact_query, oriel_fact_query(0, NULL))

static const struct row {
    const char *name;
    int (*call)(struct handles *h);
    int closed; /* before oriel_init and after oriel_finalize */
    int null;   /* with NULL, in a job */
    int freed;  /* with a freed handle, in a job; INVAL: and words that say so */
} rows[] = {
#define ROW(name, closed, null, freed)    \
 {                                        \
  #name, call_##name, closed, null, freed \
 }
    ROW(is_initialized, FINE, 1, 1),
    ROW(rank, NONE, FINE, FINE),
    ROW(size, NONE, FINE, FINE),
    ROW(local_rank, NONE, FINE, FINE),
    ROW(local_size, NONE, FINE, FINE),
    ROW(is_local, STATE, 1, 1),
    ROW(team_rank, STATE, INVAL, FINE),
    ROW(team_size, STATE, INVAL, FINE),
    ROW(mem_alloc, STATE, INVAL, FINE),
    ROW(mem_register, STATE, INVAL, FINE),
    ROW(mem_free, STATE, FINE, INVAL),
    ROW(mem_base, NONE, NONE, NONE),
    ROW(mem_size, NONE, NONE, NONE),
    ROW(token_pack, STATE, INVAL, INVAL),
    ROW(token_open, STATE, INVAL, FINE),
    ROW(token_release, STATE, INVAL, FINE),
    ROW(remote_query, STATE, INVAL, INVAL),
    ROW(remote_close, STATE, FINE, INVAL),
    ROW(put, STATE, INVAL, INVAL),
    ROW(get, STATE, INVAL, INVAL),
    ROW(atomic32, STATE, INVAL, INVAL),
    ROW(atomic64, STATE, INVAL, INVAL),
    ROW(compare_swap32, STATE, INVAL, INVAL),
    ROW(compare_swap64, STATE, INVAL, INVAL),
    ROW(put_notify, STATE, INVAL, INVAL),
    ROW(counter_wait, STATE, INVAL, INVAL),
    ROW(flush, STATE, FINE, FINE),
    ROW(flush_all, STATE, FINE, FINE),
    ROW(start, STATE, INVAL, FINE),
    ROW(run, STATE, INVAL, FINE),
    ROW(put_start, STATE, INVAL, INVAL),
    ROW(get_start, STATE, INVAL, INVAL),
    ROW(wait, STATE, INVAL, INVAL),
    ROW(wait_for, STATE, INVAL, INVAL),
    ROW(test, STATE, INVAL, INVAL),
    ROW(wait_any, STATE, INVAL, INVAL),
    ROW(wait_all, STATE, INVAL, INVAL),
    ROW(request_settled, FINE, FINE, FINE),
    ROW(request_free, STATE, INVAL, INVAL),
    ROW(barrier, STATE, INVAL, FINE),
    ROW(bcast, STATE, INVAL, FINE),
    ROW(allreduce, STATE, INVAL, FINE),
    ROW(version, FINE, FINE, FINE),
    ROW(error_name, FINE, FINE, FINE),
    ROW(error_text, FINE, FINE, FINE),
    ROW(error_detail, FINE, FINE, FINE),
    ROW(counter_query, INVAL, INVAL, FINE),
    ROW(setting_query, INVAL, INVAL, FINE),
    ROW(settings_print, INVAL, INVAL, FINE),
    ROW(nic_query, INVAL, INVAL, FINE),
    ROW(transport_query, INVAL, INVAL, FINE),
    ROW(fact_query, INVAL, INVAL, FINE),
    ROW(finalize, STATE, FINE, FINE), /* last: it ends the job */
};
#define NROWS (sizeof(rows) / sizeof(rows[0]))

/* A code and words that are of this call, not left from another. */
static void ask(const struct row *row, const struct handles *given, int want, const char *words)
{
    struct handles h = *given;
    int got;

    (void)oriel_counter_query(SIZE_MAX, &(struct oriel_counter){ .size = SIZE_MAX });
    got = row->call(&h);
    if (got != want) {
        (void)fprintf(stderr, "oriel_%s: %d (%s), not %d\n", row->name, got, oriel_error_detail(),
                      want);
    }
    t_check_eq(got, want);
    if (want < 0) {
        t_check(strstr(oriel_error_detail(), "counters, from 0") == NULL);
        t_check(strlen(oriel_error_detail()) > 10);
    }
    if (words != NULL && strstr(oriel_error_detail(), words) == NULL) {
        (void)fprintf(stderr, "oriel_%s: '%s' has no '%s'\n", row->name, oriel_error_detail(),
                      words);
        t_check(words == NULL);
    }
}

static void ask_closed(const struct handles *h, const char *words)
{
    for (size_t i = 0; i < NROWS; i++) {
        /* nothing to free is fine at any time */
        bool is_fine = rows[i].null == FINE && rows[i].freed == INVAL && h->mem == NULL;
        int want = is_fine ? FINE : rows[i].closed;

        ask(&rows[i], h, want, want == STATE ? words : NULL);
    }
}

static void fill(struct handles *h)
{
    t_check_ok(oriel_mem_register(&word, 8, NULL, &h->mem));
    t_check_ok(oriel_token_pack(h->mem, h->token, sizeof(h->token), &h->bytes));
    t_check_ok(oriel_token_open(h->token, h->bytes, &h->remote));
    t_check_ok(oriel_put_start(h->remote, 0, &word, 8, &h->request));
}

static int misuse(int rank, void *arg)
{
    struct handles none = { 0 };
    struct handles freed = { 0 };
    struct handles left = { 0 };
    struct handles copy;

    (void)rank;
    (void)arg;
    ask_closed(&none, "oriel_init first");
    t_check_ok(oriel_init(NULL));
    fill(&left);
    fill(&freed);
    copy = freed;
    t_check_ok(oriel_wait(&copy.request, NULL));
    t_check_ok(oriel_remote_close(freed.remote));
    t_check_ok(oriel_mem_free(freed.mem));
    for (size_t i = 0; i < NROWS && rows[i].call != call_finalize; i++) {
        ask(&rows[i], &none, rows[i].null, NULL);
        if (rows[i].freed != FINE) {
            const char *words = rows[i].freed == INVAL ? "never" : NULL; /* "… or was never one" */
            ask(&rows[i], &freed, rows[i].freed, words);
        }
    }
    t_check_ok(oriel_wait(&left.request, NULL));
    t_check_ok(oriel_put_start(left.remote, 0, &word, 8, &left.request));
    (void)oriel_finalize(); /* frees what is left */
    ask_closed(&none, "finalized");
    ask_closed(&left, "finalized");
    ask_closed(&freed, "finalized");
    t_check_eq(oriel_init(NULL), STATE);
    return 0;
}

/* covers: USE-05 */
Test(errors, no_call_crashes_whenever_and_with_whatever_it_is_called)
{
    cr_assert_eq(t_ranks(1, misuse, NULL), 0);
}

static int abort_early(int rank, void *arg)
{
    (void)rank;
    (void)arg;
    oriel_abort(7, NULL);
    return 0;
}

Test(errors, abort_before_init_ends_this_process)
{
    cr_assert_eq(t_ranks(1, abort_early, NULL), 7);
}

/* Names of the functions that oriel.h declares: at the start of a line, behind a type. */
Test(errors, the_table_has_every_call)
{
    static const char *const elsewhere[] = { "init", "abort" };
    const char *top = getenv("top_srcdir");
    char path[PATH_MAX];
    char line[256];
    int found = 0;

    if (top == NULL) {
        cr_skip("the place of oriel.h is not given (top_srcdir)");
    }
    (void)snprintf(path, sizeof(path), "%s/include/oriel.h", top);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    while (fgets(line, sizeof(line), file) != NULL) {
        char *name = strstr(line, "oriel_");
        char *end = name != NULL ? strchr(name, '(') : NULL;
        bool is_known = false;

        if (end == NULL || line[0] < 'a' || line[0] > 'z' || strchr(name, ' ') < end - 1) {
            name = end != NULL && line[0] >= 'a' && line[0] <= 'z' ? end : NULL;
            while (name != NULL && name > line && name[-1] != ' ' && name[-1] != '*') {
                name--;
            }
        }
        if (name == NULL || strncmp(name, "oriel_", 6) != 0) {
            continue;
        }
        *end = 0;
        for (size_t i = 0; i < NROWS; i++) {
            is_known = is_known || strcmp(rows[i].name, name + 6) == 0;
        }
        for (size_t i = 0; i < 2; i++) {
            is_known = is_known || strcmp(elsewhere[i], name + 6) == 0;
        }
        cr_assert(is_known, "%s is not in the table", name);
        found++;
    }
    (void)fclose(file);
    cr_assert_eq(found, NROWS + 2);
}

/* A token without a key that this process can use is told at once, with the transport's name. */
static int foreign_key(int rank, void *arg)
{
    struct handles h = { 0 };
    uint32_t crc;

    (void)rank;
    (void)arg;
    fill(&h);
    t_check_ok(oriel_wait(&h.request, NULL));
    h.token[40] = 3; /* the first key's engine: a network in place of this host's memory */
    crc = orl_crc32c(0, h.token, h.bytes - 4);
    memcpy(h.token + h.bytes - 4, &crc, 4);
    t_check_eq(oriel_token_open(h.token, h.bytes, &h.remote), ORIEL_ERR_UNSUPP);
    t_check(strstr(oriel_error_detail(), "none of them for shm") != NULL);
    return 0;
}

/* covers: L12 */
Test(errors, a_token_of_another_transport)
{
    cr_assert_eq(t_job(1, foreign_key, NULL), 0);
}

/* ---------------------------------------------------------------- starts that fail */

static const struct bad_start {
    const char *name, *value; /* environment; NULL: none */
    int resource;             /* limit, -1: none */
    rlim_t limit;
    int ranks;
    int code;
    const char *what, *try; /* words */
} bad_starts[] = {
    { "ORIEL_INFLIGHT", "0", -1, 0, 2, ORIEL_ERR_CONF, "ORIEL_INFLIGHT is '0'", "1 to 1048576" },
    { "ORIEL_TRANSPORTS", "self,tin", -1, 0, 1, ORIEL_ERR_CONF, "self,tin", "a list of self, shm" },
    { "ORIEL_TRANSPORTS", "self", -1, 0, 2, ORIEL_ERR_CONF, "no transport reaches", "add shm" },
    { "ORIEL_LOG", "loud", -1, 0, 1, ORIEL_ERR_CONF, "'loud'", "error, warn, info, debug" },
    { "ORIEL_BOOT", "pmix", -1, 0, 1, ORIEL_ERR_BOOT, "no PMIx launcher", "srun --mpi=pmix" },
    { "ORIEL_SHM_SIZE", "512g", RLIMIT_AS, (rlim_t)8 << 30, 1, ORIEL_ERR_NOMEM,
      "address space is limited to 8 GiB", "ORIEL_SHM_SIZE makes it smaller" },
    { NULL, NULL, RLIMIT_FSIZE, 1 << 20, 1, ORIEL_ERR_NOMEM, "the limit is 1 MiB", "ulimit -f" },
    { NULL, NULL, RLIMIT_NOFILE, 3, 1, ORIEL_ERR_SYS, "Too many open files", "ulimit -n" },
};

static int bad_start(int rank, void *arg)
{
    const struct bad_start *bad = arg;
    char where[96];
    char host[64] = "";

    (void)gethostname(host, sizeof(host) - 1);
    host[strcspn(host, ".")] = 0;
    (void)snprintf(where, sizeof(where), "on host %s", host);
    unsetenv("PMIX_NAMESPACE");
    unsetenv("PMIX_RANK");
    if (bad->name != NULL) {
        setenv(bad->name, bad->value, 1);
    }
    if (bad->resource >= 0) {
        struct rlimit l = { bad->limit, bad->limit };
        t_check_eq(setrlimit((__rlimit_resource_t)bad->resource, &l), 0);
    }
    int code = oriel_init(NULL);
    const char *words = oriel_error_detail();
    if (code != bad->code || strstr(words, bad->what) == NULL || strstr(words, bad->try) == NULL ||
        strstr(words, where) == NULL) {
        (void)fprintf(stderr, "rank %d: %s: %s\n", rank, oriel_error_name(code), words);
        return 1;
    }
    return oriel_is_initialized() ? 2 : 0;
}

/* covers: USE-01 */
Test(errors, a_bad_start_says_what_where_and_what_to_try)
{
    for (size_t i = 0; i < sizeof(bad_starts) / sizeof(bad_starts[0]); i++) {
        struct bad_start bad = bad_starts[i];
        cr_expect_eq(t_ranks(bad.ranks, bad_start, &bad), 0, "%s", bad.what);
    }
}
