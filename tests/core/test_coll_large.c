/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives whose data goes through the stages: sizes around every change of form, all types and
 * operators against a model, roots that run ahead of slow readers and rings that grow, ranks that
 * have no memory for stages, ranks that disagree, ranks that die in the middle.
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "oriel.h"
#include "tests/t.h"

#define KIB   ((size_t)1024)
#define LARGE (2 * 1024 * KIB + 200)

/* ---------------------------------------------------------------- allreduce */

/* Bytes where a form begins or ends, for one number of ranks or another, and their neighbours. */
static const size_t edges[] = { 57,        2048,      4096,      6 * KIB,    8 * KIB,
                                12 * KIB,  16 * KIB,  24 * KIB,  48 * KIB,   64 * KIB,
                                128 * KIB, 256 * KIB, 512 * KIB, 1024 * KIB, 2048 * KIB };
#define EDGES (sizeof(edges) / sizeof(edges[0]))

/* Bytes are summed, so that every count is a size; the value tells the place and the rank. */
static unsigned char byte_of(size_t i, int rank)
{
    return (unsigned char)(i * 7 + i / 251 + (size_t)rank * 13);
}

static void bytes_summed(size_t n, unsigned char *in, unsigned char *out)
{
    int rank = oriel_rank();
    int ranks = oriel_size();
    for (size_t i = 0; i < n; i++) {
        in[i] = byte_of(i, rank);
    }
    out[n] = 77;
    t_check_ok(oriel_allreduce(in, out, n, ORIEL_UINT8, ORIEL_SUM, ORIEL_WORLD));
    for (size_t i = 0; i < n; i++) {
        unsigned want = (unsigned)ranks * byte_of(i, 0) + 13u * (unsigned)(ranks * (ranks - 1) / 2);
        t_check_eq(out[i], (unsigned char)want);
        t_check_eq(in[i], byte_of(i, rank));
    }
    t_check_eq(out[n], 77);
    t_check_ok(oriel_allreduce(ORIEL_IN_PLACE, in, n, ORIEL_UINT8, ORIEL_SUM, ORIEL_WORLD));
    t_check(memcmp(in, out, n) == 0);
}

static int at_edges(int rank, void *arg)
{
    (void)rank;
    (void)arg;
    unsigned char *in = malloc(LARGE);
    unsigned char *out = malloc(LARGE);
    t_check(in != NULL && out != NULL);
    for (size_t e = 0; e < EDGES; e++) {
        for (size_t n = edges[e] - 1; n <= edges[e] + 1; n++) {
            bytes_summed(n, in + 1, out + 3);
        }
    }
    /* and back, when all stages have grown */
    bytes_summed(700, in, out);
    bytes_summed(20001, in, out);
    free(in);
    free(out);
    return 0;
}

Test(coll_large, allreduce_at_every_change_of_form, .timeout = 120)
{
    t_limit_s = 60;
    for (int n = 1; n <= 9; n += n < 5 ? 1 : 4) {
        cr_assert_eq(t_job(n, at_edges, NULL), 0, "%d ranks", n);
    }
}

/* In rank order, bit by bit: this sum depends on it. */
static int ordered(int rank, void *arg)
{
    static const double part[] = { 1e16, 1.0, -1e16, 3.0, 1e-3, 7.0, 1e8, -2.0, 0.1 };
    (void)arg;
    const size_t n = 40 * KIB;
    double *x = malloc(n * sizeof(*x));
    double want = part[0];
    for (int r = 1; r < oriel_size(); r++) {
        want += part[r];
    }
    for (size_t count = 8; count <= n; count *= 8) {
        for (size_t i = 0; i < count; i++) {
            x[i] = part[rank];
        }
        t_check_ok(oriel_allreduce(ORIEL_IN_PLACE, x, count, ORIEL_DOUBLE, ORIEL_SUM, ORIEL_WORLD));
        for (size_t i = 0; i < count; i++) {
            t_check(memcmp(&x[i], &want, sizeof(want)) == 0);
        }
    }
    free(x);
    return 0;
}

Test(coll_large, allreduce_takes_operands_in_rank_order, .timeout = 60)
{
    for (int n = 2; n <= 9; n++) {
        cr_assert_eq(t_job(n, ordered, NULL), 0, "%d ranks", n);
    }
}

/* One element as a number, and back. */
static int64_t load(const void *at, int type)
{
    static const int width[] = { 0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8 };
    uint64_t word = 0;
    float f;
    double d;
    memcpy(&word, at, (size_t)width[type]);
    switch (type) {
    case 2:
        return (int8_t)word;
    case 3:
        return (int16_t)word;
    case 4:
        return (int32_t)word;
    case 10:
        memcpy(&f, at, sizeof(f));
        return (int64_t)f;
    case 11:
        memcpy(&d, at, sizeof(d));
        return (int64_t)d;
    default:
        return (int64_t)word;
    }
}

static void store(void *at, int type, int64_t value)
{
    static const int width[] = { 0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8 };
    float f = (float)value;
    double d = (double)value;
    memcpy(at,
           type == 10   ? (void *)&f
           : type == 11 ? (void *)&d
                        : (void *)&value,
           (size_t)width[type]);
}

static int64_t apply(int op, bool is_unsigned, int64_t a, int64_t b)
{
    bool less = is_unsigned ? (uint64_t)b < (uint64_t)a : b < a;
    switch (op) {
    case 1:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    case 2:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case 3:
        return less ? b : a;
    case 4:
        return less ? a : b;
    case 5:
        return a & b;
    case 6:
        return a | b;
    case 7:
        return a ^ b;
    case 8:
        return a != 0 && b != 0;
    case 9:
        return a != 0 || b != 0;
    default:
        return (a != 0) != (b != 0);
    }
}

/* Small enough that sums and products of floats are exact; with zeros and signs. */
static int64_t value_of(size_t i, int rank, int type)
{
    int64_t v = (int64_t)((i * 5 + (size_t)rank * 3) % 11) - 4;
    return type >= 6 && type <= 9 && v < 0 ? 200 + v : v;
}

static void one_operator(int type, int op, size_t n)
{
    static unsigned char in[8 * 3000 + 8];
    static unsigned char out[8 * 3000 + 8];
    static const size_t width[] = { 0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8 };
    bool is_unsigned = type >= 6 && type <= 9;
    for (size_t i = 0; i < n; i++) {
        store(in + 1 + i * width[type], type, value_of(i, oriel_rank(), type));
    }
    int st = oriel_allreduce(in + 1, out + 5, n, (const struct oriel_type *)(intptr_t)type,
                             (const struct oriel_op *)(intptr_t)op, ORIEL_WORLD);
    if (type >= 10 && op > 4) {
        t_check_eq(st, ORIEL_ERR_TYPE);
        return;
    }
    t_check_ok(st);
    for (size_t i = 0; i < n; i++) {
        unsigned char cell[8];
        store(cell, type, value_of(i, 0, type));
        for (int r = 1; r < oriel_size(); r++) {
            store(cell, type, apply(op, is_unsigned, load(cell, type), value_of(i, r, type)));
        }
        t_check_eq(load(out + 5 + i * width[type], type), load(cell, type));
    }
}

static int operators(int rank, void *arg)
{
    (void)rank;
    (void)arg;
    for (int type = 2; type <= 11; type++) {
        for (int op = 1; op <= 10; op++) {
            one_operator(type, op, 3);
            one_operator(type, op, 61);
            one_operator(type, op, 2999);
        }
    }
    return 0;
}

Test(coll_large, every_type_and_operator, .timeout = 60)
{
    cr_assert_eq(t_job(2, operators, NULL), 0);
    cr_assert_eq(t_job(5, operators, NULL), 0);
}

/* ---------------------------------------------------------------- bcast */

static void spread(unsigned char *data, size_t n, int root, uint64_t round)
{
    if (oriel_rank() == root) {
        t_fill(data, n, (uint64_t)root, round, 0);
    } else {
        memset(data, 0, n);
    }
    data[n] = 9;
    t_check_ok(oriel_bcast(data, n, ORIEL_BYTE, root, ORIEL_WORLD));
    t_check_eq(t_differs(data, n, (uint64_t)root, round, 0), n);
    t_check_eq(data[n], 9);
}

/* No meeting in between: the root is as far ahead as it may be. */
static int run_ahead(int rank, void *arg)
{
    static const size_t sizes[] = { 8,         57,       300,       8 * KIB,   8 * KIB + 1,
                                    40 * KIB,  64 * KIB, 100 * KIB, 300 * KIB, 1024 * KIB + 5,
                                    2 * LARGE, 16 * KIB, 56 };
    int n = oriel_size();
    unsigned char *data = malloc(2 * LARGE + 1);
    (void)arg;
    for (int root = 0; root<n; root += n> 4 ? 4 : 1) {
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            int rounds = sizes[s] < 1024 * KIB ? 70 : 3;
            for (int i = 0; i < rounds; i++) {
                if (i % 30 == 0 && rank == (root + 1) % n) {
                    t_sleep_ms(2);
                }
                spread(data, sizes[s], root, (uint64_t)i);
            }
        }
    }
    for (int i = 0; i < 300; i++) {
        spread(data, sizes[i % 6], i % n, (uint64_t)i);
    }
    free(data);
    return 0;
}

Test(coll_large, bcast_root_runs_ahead_and_grows, .timeout = 120)
{
    t_limit_s = 60;
    cr_assert_eq(t_job(2, run_ahead, NULL), 0);
    cr_assert_eq(t_job(4, run_ahead, NULL), 0);
    cr_assert_eq(t_job(9, run_ahead, NULL), 0);
}

/* A wrong program gets an error, not somebody else's memory. */
static int disagree(int rank, void *arg)
{
    static unsigned char data[300];
    static const size_t pairs[][2] = { { 8, 300 }, { 300, 8 }, { 200, 300 } };
    const size_t *bytes = pairs[*(int *)arg];
    int st = oriel_bcast(data, bytes[rank], ORIEL_BYTE, 0, ORIEL_WORLD);
    t_check_eq(st, rank == 0 ? 0 : ORIEL_ERR_INVAL);
    t_check(rank == 0 || strstr(oriel_error_detail(), "the root sends another number") != NULL);
    return 0;
}

Test(coll_large, bcast_of_different_sizes_is_an_error)
{
    for (int pair = 0; pair < 3; pair++) {
        cr_assert_eq(t_job(2, disagree, &pair), 0, "pair %d", pair);
    }
}

/* ---------------------------------------------------------------- poor and dead ranks */

/* From now on this process gets no more shared memory. */
static void forbid_memory(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };
    t_check_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    t_check_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* arg: bytes for which there is still memory. */
static int poor(int rank, void *arg)
{
    size_t first = *(size_t *)arg;
    unsigned char *in = malloc(LARGE);
    unsigned char *out = malloc(LARGE);
    bytes_summed(first, in, out);
    if (rank == 1) {
        forbid_memory();
    }
    bytes_summed(LARGE - 8, in, out);
    bytes_summed(100 * KIB, in, out);
    for (int root = 0; root < oriel_size(); root++) {
        spread(in, 100 * KIB, root, 1);
        spread(in, LARGE - 8, root, 2);
    }
    free(in);
    free(out);
    return 0;
}

Test(coll_large, without_memory_for_stages_it_goes_on, .timeout = 60)
{
    size_t first = 100;
    cr_assert_eq(t_job(3, poor, &first), 0);
    first = 70 * KIB;
    cr_assert_eq(t_job(3, poor, &first), 0);
}

enum {
    VICTIM = 1
};

static void die_now(int signal)
{
    (void)signal;
    t_die();
}

static int dies_in_the_middle(int rank, void *arg)
{
    int root = *(int *)arg;
    unsigned char *data = calloc(1, LARGE);
    unsigned char *out = calloc(1, LARGE);
    int st = 0;
    t_check_ok(oriel_init(NULL));
    if (rank == VICTIM) {
        struct itimerval soon = { .it_value = { .tv_usec = 30000 } };
        signal(SIGALRM, die_now);
        setitimer(ITIMER_REAL, &soon, NULL);
    }
    while (st == 0) {
        st = root < 0 ? oriel_allreduce(data, out, LARGE / 8, ORIEL_UINT64, ORIEL_SUM, ORIEL_WORLD)
                      : oriel_bcast(data, LARGE, ORIEL_BYTE, root, ORIEL_WORLD);
    }
    t_check_eq(st, ORIEL_ERR_PEER);
    t_check(strstr(oriel_error_detail(), "rank 1") != NULL);
    (void)oriel_finalize();
    return 0;
}

Test(coll_large, death_in_the_middle_is_peer_for_all, .timeout = 60)
{
    for (int root = -1; root <= 2; root++) {
        cr_assert_eq(t_ranks(4, dies_in_the_middle, &root), 0, "root %d", root);
    }
    int root = 8;
    cr_assert_eq(t_ranks(9, dies_in_the_middle, &root), 0);
}
