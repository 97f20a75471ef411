/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Help for tests: ranks forked in the test process, checks that work inside them, data whose every
 * byte tells where it comes from, names for temporary files. Used by the tests of core and of the
 * fabric. A rank is a child without Criterion: it says t_check, not cr_assert; the test process
 * asserts on what t_ranks returns.
 */
#ifndef TESTS_T_H
#define TESTS_T_H

#include <stddef.h>
#include <stdint.h>

/* What a rank does; 0 is success, 1..99 its exit status. */
typedef int (*t_rank_fn)(int rank, void *arg);

/* Results of t_ranks beside the status of the first child that failed. */
enum {
    T_TIMEOUT = 124,   /* a rank did not end in time; all were killed */
    T_LEFT_CHILD = 125 /* a rank left a process of its own behind */
    /* 128 + n: a rank was killed by signal n */
};

/* Seconds that t_ranks gives its ranks; 20 at first. */
extern int t_limit_s;
/* Hosts that t_ranks says its ranks are spread over: 1 at first; -2: two, dealt out in turn. */
extern int t_hosts;

/* Run fn as n ranks of one job and wait for them: each child has joined a boot group and calls
 * oriel_init itself. 0 when all succeed, else the status of the first that failed; the others then
 * get two seconds before they are killed. Only own children are ever killed. */
int t_ranks(int n, t_rank_fn fn, void *arg);

/* The same with oriel_init before and oriel_finalize after fn; both must succeed. */
int t_job(int n, t_rank_fn fn, void *arg);

/* Run fn once in a child that belongs to no group: a job of one rank, or none. */
int t_child(t_rank_fn fn, void *arg);

/* ---------------------------------------------------------------- inside a rank */

/* Which rank this process is, -1 in the test process. */
extern int t_rank;

/* Memory all ranks of this t_ranks call share, zero at first, T_SHARED_BYTES long. */
#define T_SHARED_BYTES 65536
extern void *t_shared;

/* Meet all n ranks without the library. Kills nothing: a rank that never comes is the limit's. */
void t_meet(int n);

/* Die as by kill -9, on purpose: t_ranks counts it as success. Does not return. */
void t_die(void);
/* The same by another way that the caller takes next: whatever its end, it counts as success. */
void t_mark_dying(void);

/* End this rank as failed, with the place, unless the condition holds. */
void t_check_at(int holds, const char *text, const char *file, int line);
void t_check_eq_at(long long got, long long want, const char *text, const char *file, int line);
/* The same for calls that give an Oriel code: prints the error's detail. */
void t_check_ok_at(int status, const char *text, const char *file, int line);
#define t_check(x)       t_check_at((x) ? 1 : 0, #x, __FILE__, __LINE__)
#define t_check_eq(x, y) t_check_eq_at((long long)(x), (long long)(y), #x, __FILE__, __LINE__)
#define t_check_ok(call) t_check_ok_at((call), #call, __FILE__, __LINE__)

/* ---------------------------------------------------------------- data and names */

/* Fill n bytes that depend on who wrote them, in which round, and where in the whole they lie. */
void t_fill(void *data, size_t n, uint64_t origin, uint64_t iteration, uint64_t offset);
/* Index of the first byte that is not as t_fill would make it; n when all are. */
size_t t_differs(const void *data, size_t n, uint64_t origin, uint64_t iteration, uint64_t offset);

/* Monotonic seconds. */
double t_now(void);
/* CPU seconds this process has used. */
double t_cpu(void);
/* Sleep, whatever signals come. */
void t_sleep_ms(int ms);
/* Bytes of this process that are resident now. */
size_t t_resident(void);

/* A path for a temporary file under TMPDIR, different in every call of every process. */
void t_temp(char *path, size_t capacity, const char *hint);

#endif
