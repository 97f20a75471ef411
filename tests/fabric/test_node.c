/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a node segment: making it, opening it from other processes, what is left behind, and
 * machines where something is forbidden or small.
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/status.h"
#include "base/sys.h"
#include "node_rig.h"

#define SKIPPED 77 /* a child could not make its surroundings */

TestSuite(node, .init = rig_begin, .timeout = 120);

static char use_auto[] = "auto";
static char use_memfd[] = "memfd";
static char use_file[] = "file";

static void set_backing(const char *backing)
{
    orl_conf_reset_for_test();
    (void)setenv("ORIEL_SHM_BACKING", backing, 1);
    rig_check(orl_conf_load() == 0);
}

/* ---------------------------------------------------------------- two processes */

static int exchange(int rank, void *arg)
{
    struct fab_node *node;
    uint64_t *memory = NULL;

    set_backing(arg);
    node = rig_node(2, rank);
    rig_check(node != NULL);
    rig_check(node->nranks == 2 && node->local == rank && node->creator == (rank == 0));
    rig_check(node->header->job == 77 && node->arena_stride == RIG_ARENA);
    rig_check((uintptr_t)node->arena % (2 << 20) == 0);
    if (rank == 0) {
        rig_check(fab_node_alloc(node, 1 << 16, (void **)&memory) == 0);
        memory[5] = 42;
        rig_set(0, (uint64_t)((unsigned char *)memory - node->base));
        rig_until(1, 1);
        rig_check(memory[6] == 43);
        fab_node_unlink(node);
        rig_check(node->path[0] == '\0');
    } else {
        rig_until(0, 1);
        memory = (void *)(node->base + atomic_load(&rig->word[0]));
        rig_check(memory[5] == 42);
        memory[6] = 43;
        rig_check(node->ctl[0].pid == rig->ticket.pid && node->ctl[1].pid == getpid());
        rig_set(1, 1);
    }
    fab_node_close(node);
    return 0;
}

Test(node, two_processes_share_it)
{
    cr_assert_eq(rig_run(2, exchange, use_auto), 0);
    cr_assert_eq(rig_files_left(), 0);
}

Test(node, two_processes_share_a_named_file)
{
    cr_assert_eq(rig_run(2, exchange, use_file), 0);
    cr_assert_eq(rig_files_left(), 0);
}

static int look_at_mode(int rank, void *arg)
{
    struct fab_node *node;
    struct stat file;

    (void)umask(0);
    set_backing(arg);
    node = rig_node(1, rank);
    rig_check(node != NULL && fstat(node->fd, &file) == 0);
    rig_check((file.st_mode & 07777) == 0600);
    rig_check((node->path[0] != '\0') == (strcmp(arg, "file") == 0));
    fab_node_close(node);
    return 0;
}

Test(node, only_the_user_may_open_it)
{
    cr_assert_eq(rig_run(1, look_at_mode, use_memfd), 0);
    cr_assert_eq(rig_run(1, look_at_mode, use_file), 0);
    cr_assert_eq(rig_files_left(), 0);
}

static int die_inside(int rank, void *arg)
{
    struct fab_node *node = rig_node(1, rank);

    (void)arg;
    rig_check(node != NULL);
    (void)raise(SIGKILL);
    return 1;
}

Test(node, a_killed_job_leaves_nothing)
{
    for (int i = 0; i < 20; i++) {
        rig_begin();
        cr_assert_eq(rig_wait(rig_start(die_inside, 0, NULL)), 128 + SIGKILL);
    }
    cr_assert_eq(rig_files_left(), 0);
}

/* ---------------------------------------------------------------- what is refused */

Test(node, arguments_are_checked)
{
    struct fab_node *node = NULL;

    cr_assert_eq(fab_node_create(&node, 0, 1, 1, &rig->ticket), ORL_ERR_INVAL);
    cr_assert_eq(fab_node_create(&node, FAB_NODE_RANKS_MAX + 1, 1, 1, &rig->ticket), ORL_ERR_INVAL);
    cr_assert_eq(fab_node_create(&node, 2, 1, UINT64_C(1) << 47, &rig->ticket), ORL_ERR_NOMEM);
    cr_assert_eq(fab_node_create(&node, 2, 1, 1, &rig->ticket), 0);
    cr_assert_eq(fab_node_join(node, 2, 0), ORL_ERR_INVAL);
    cr_assert_eq(fab_node_join(node, -1, 0), ORL_ERR_INVAL);
    cr_assert_eq(fab_node_join(node, 1, 9), 0);
    cr_assert_eq(fab_node_join(node, 0, 9), ORL_ERR_STATE);
    cr_assert_eq(node->ctl[1].rank, 9);
    cr_assert_eq(fab_node_reserve(node, node->base, node->bytes + 1), ORL_ERR_INVAL);
    fab_node_close(node);
    fab_node_close(NULL);
}

static int two_claim_one_place(int rank, void *arg)
{
    struct fab_node *node = NULL;

    (void)rank;
    (void)arg;
    rig_check(fab_node_attach(&node, &rig->ticket) == 0);
    rig_check(fab_node_join(node, 0, 0) == ORL_ERR_STATE);
    rig_check(fab_node_join(node, 1, 1) == 0);
    fab_node_close(node);
    return 0;
}

Test(node, a_place_is_taken_once)
{
    struct fab_node *node = rig_node(2, 0);

    cr_assert_not_null(node);
    cr_assert_eq(rig_wait(rig_start(two_claim_one_place, 1, NULL)), 0);
    fab_node_close(node);
}

Test(node, wrong_tickets_are_refused)
{
    struct fab_node *node = rig_node(1, 0);
    struct fab_node *other = NULL;
    struct fab_node_ticket ticket = rig->ticket;

    cr_assert_not_null(node);
    ticket.job++;
    cr_assert_eq(fab_node_attach(&other, &ticket), ORL_ERR_BOOT);
    ticket = rig->ticket;
    ticket.host[3] ^= 1;
    cr_assert_eq(fab_node_attach(&other, &ticket), ORL_ERR_BOOT);
    ticket = rig->ticket;
    ticket.fd = 0;
    cr_assert_neq(fab_node_attach(&other, &ticket), 0);
    ticket.fd = 9999;
    cr_assert_neq(fab_node_attach(&other, &ticket), 0);
    cr_assert_null(other);
    fab_node_close(node);
}

/* A process with two handles keeps the proof of life of one when the other ends. */
static int ask_life(int rank, void *arg)
{
    struct fab_node *node = NULL;

    (void)rank;
    (void)arg;
    rig_check(fab_node_attach(&node, &rig->ticket) == 0);
    rig_check(fab_node_is_alive(node, 0) && fab_node_is_alive(node, 1));
    rig_check(fab_node_check_all(node) == 0);
    fab_node_close(node);
    return 0;
}

Test(node, two_handles_in_one_process)
{
    struct fab_node *a = rig_node(2, 0);
    struct fab_node *b = rig_node(2, 1);

    cr_assert(a != NULL && b != NULL);
    cr_assert(fab_node_is_alive(a, 1) && fab_node_is_alive(b, 0));
    fab_node_close(b);
    cr_assert_eq(rig_wait(rig_start(ask_life, 0, NULL)), 0);
    fab_node_close(a);
}

/* ---------------------------------------------------------------- small and hostile machines */

static int in_small_dev_shm(int rank, void *arg)
{
    struct fab_node *node = NULL;
    unsigned char *memory = NULL;
    int st = 0;
    int n = 0;

    (void)arg;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=768k") != 0) {
        return SKIPPED;
    }
    set_backing("file");
    node = rig_node(1, rank);
    rig_check(node != NULL);
    rig_check(fab_node_alloc(node, 4 << 20, (void **)&memory) == ORL_ERR_NOMEM);
    rig_check(strstr(orl_last_error(), "4194304 bytes") != NULL);
    rig_check(strstr(orl_last_error(), "free") != NULL);
    rig_check(strstr(orl_last_error(), "/dev/shm") != NULL);
    /* Whatever is granted can be written to the last byte. */
    for (; st == 0; n++) {
        st = fab_node_alloc(node, 50000, (void **)&memory);
        if (st == 0) {
            memset(memory, n, 50000);
        }
    }
    rig_check(st == ORL_ERR_NOMEM && n > 5);
    /* Small ones still fit, and a release makes room. */
    rig_check(fab_node_free(node, memory) == 0);
    rig_check(fab_node_alloc(node, 50000, (void **)&memory) == 0);
    fab_node_close(node);
    /* A segment whose control part alone is too large. */
    rig_check(fab_node_create(&node, 1024, 1, 1, &rig->ticket) == ORL_ERR_NOMEM);
    rig_check(strstr(orl_last_error(), "free") != NULL);
    rig_check(rig_files_left() == 0);
    return 0;
}

Test(node, a_small_dev_shm_is_an_error_and_no_signal)
{
    int status = rig_run(1, in_small_dev_shm, NULL);

    if (status == SKIPPED) {
        cr_skip_test("needs the right to mount");
    }
    cr_assert_eq(status, 0);
}

static int forbid_memfd(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = 4, .filter = code };

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int without_memfd(int rank, void *arg)
{
    struct fab_node *node = NULL;

    if (!forbid_memfd()) {
        return SKIPPED;
    }
    set_backing("memfd");
    if (rank == 0) {
        rig_check(fab_node_create(&node, 1, 1, 1, &rig->ticket) == ORL_ERR_SYS);
        rig_check(strstr(orl_last_error(), "ORIEL_SHM_BACKING=file") != NULL);
    }
    return exchange(rank, arg);
}

Test(node, memory_files_forbidden)
{
    int status = rig_run(2, without_memfd, use_auto);

    if (status == SKIPPED) {
        cr_skip_test("needs seccomp");
    }
    cr_assert_eq(status, 0);
    cr_assert_eq(rig_files_left(), 0);
}

/* The address sanitizer needs more address space than the test leaves. */
extern void __asan_init(void) __attribute__((weak));

static int in_little_address_space(int rank, void *arg)
{
    struct rlimit limit = { .rlim_cur = UINT64_C(4) << 30, .rlim_max = UINT64_C(4) << 30 };
    struct fab_node *node = NULL;
    void *memory = NULL;

    (void)rank;
    (void)arg;
    rig_check(setrlimit(RLIMIT_AS, &limit) == 0);
    rig_check(fab_node_create(&node, 4, 1, UINT64_C(2) << 30, &rig->ticket) == ORL_ERR_NOMEM);
    rig_check(strstr(orl_last_error(), "ulimit -v") != NULL);
    rig_check(strstr(orl_last_error(), "ORIEL_SHM_SIZE") != NULL);
    rig_check(node == NULL && rig_files_left() == 0);
    /* Left to itself the library takes what the limit allows. */
    rig_check(fab_node_create(&node, 4, 1, 0, &rig->ticket) == 0);
    rig_check(fab_node_join(node, 0, 0) == 0);
    rig_check(fab_node_alloc(node, 32 << 20, &memory) == 0);
    fab_node_close(node);
    return 0;
}

Test(node, little_address_space)
{
    if (__asan_init != NULL) {
        cr_skip_test("the address sanitizer is in");
    }
    cr_assert_eq(rig_run(1, in_little_address_space, NULL), 0);
}

Test(node, address_space_is_all_a_large_node_costs)
{
    struct fab_node *node = NULL;
    struct stat file;

    cr_assert_eq(fab_node_create(&node, 4, 1, 0, &rig->ticket), 0);
    cr_assert_eq(fab_node_join(node, 3, 3), 0);
    cr_assert_eq(fstat(node->fd, &file), 0);
    cr_assert_lt(file.st_blocks * 512, 256 << 10);
    fab_node_close(node);
    cr_assert_eq(fab_node_create(&node, FAB_NODE_RANKS_MAX, 1, 0, &rig->ticket), 0);
    cr_assert_eq(fab_node_join(node, 1023, 1023), 0);
    cr_assert_eq(fstat(node->fd, &file), 0);
    cr_assert_lt(file.st_blocks * 512, 4 << 20);
    fab_node_close(node);
}
