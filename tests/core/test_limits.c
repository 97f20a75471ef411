/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A poor environment: few descriptors, little address space, a small /dev/shm, cross-memory attach
 * forbidden, memory that runs out. Either it works in silence or an error says what was needed.
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "oriel.h"
#include "tests/t.h"

/* From now on this process gets `error` from the system call. */
static void forbid(unsigned call, unsigned call2, int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };
    t_check_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    t_check_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void limit(int resource, rlim_t most)
{
    struct rlimit l = { most, most };
    t_check_eq(setrlimit((__rlimit_resource_t)resource, &l), 0);
}

/* stderr of this process goes to an unlinked file from now on. */
static int catch_stderr(void)
{
    char path[256];
    t_temp(path, sizeof(path), "stderr");
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    t_check(fd >= 0);
    unlink(path);
    t_check(dup2(fd, 2) == 2);
    return fd;
}

static uint64_t counter(const char *name)
{
    struct oriel_counter c = { .size = sizeof(c) };
    for (size_t i = 0; oriel_counter_query(i, &c) == 0; i++) {
        if (strcmp(c.name, name) == 0) {
            return c.value;
        }
    }
    return UINT64_MAX;
}

struct box {
    size_t bytes;
    unsigned char token[ORIEL_TOKEN_BYTES_MAX];
};

/* Everybody puts to, gets from and counts in private memory of its right neighbour. */
static void ring_of_neighbours(int rank)
{
    enum {
        N = 50000
    };
    static unsigned char mine[N + 16];
    static unsigned char data[N];
    struct box *box = t_shared;
    struct oriel_mem *mem = NULL;
    struct oriel_remote *right = NULL;
    int n = oriel_size();
    int to = (rank + 1) % n;
    uint64_t old = 99;
    t_check_ok(oriel_mem_register(mine, sizeof(mine), NULL, &mem));
    t_check_ok(oriel_token_pack(mem, box[rank].token, sizeof(box[rank].token), &box[rank].bytes));
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    t_check_ok(oriel_token_open(box[to].token, box[to].bytes, &right));
    t_fill(data, N, (uint64_t)rank, 3, 0);
    t_check_ok(oriel_put(right, 0, data, N));
    t_check_ok(oriel_atomic64(right, (N + 7) / 8 * 8, ORIEL_ATOMIC_ADD, 5, &old));
    t_check_eq(old, 0);
    t_check_ok(oriel_flush(to));
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    t_check_eq(t_differs(mine, N, (uint64_t)((rank + n - 1) % n), 3, 0), N);
    t_check_eq(mine[(N + 7) / 8 * 8], 5);
    memset(data, 0, N);
    t_check_ok(oriel_get(right, 0, data, N));
    t_check_eq(t_differs(data, N, (uint64_t)rank, 3, 0), N);
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    t_check_ok(oriel_mem_free(mem));
    t_check_ok(oriel_remote_close(right));
}

static int cma_forbidden(int rank, void *arg)
{
    const int *error = arg;
    int fd = catch_stderr();
    forbid(__NR_process_vm_readv, __NR_process_vm_writev, *error);
    t_check_ok(oriel_init(NULL));
    ring_of_neighbours(rank);
    t_check_eq(counter("cma_bytes"), 0);
    t_check(counter("ring_bytes") > 0);
    t_check_ok(oriel_finalize());
    t_check_eq(lseek(fd, 0, SEEK_END), 0); /* in silence */
    return 0;
}

Test(limits, cross_memory_attach_forbidden)
{
    int errors[] = { EPERM, ENOSYS };
    for (size_t i = 0; i < 2; i++) {
        cr_assert_eq(t_ranks(3, cma_forbidden, &errors[i]), 0);
    }
}

static int cma_forced(int rank, void *arg)
{
    (void)arg;
    (void)rank;
    setenv("ORIEL_SHM_COPY", "cma", 1);
    forbid(__NR_process_vm_readv, __NR_process_vm_writev, EPERM);
    static unsigned char mine[100];
    struct box *box = t_shared;
    struct oriel_mem *mem = NULL;
    struct oriel_remote *other = NULL;
    t_check_ok(oriel_init(NULL));
    t_check_ok(oriel_mem_register(mine, sizeof(mine), NULL, &mem));
    t_check_ok(oriel_token_pack(mem, box[rank].token, sizeof(box[rank].token), &box[rank].bytes));
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    int st = oriel_token_open(box[1 - rank].token, box[1 - rank].bytes, &other);
    if (st == 0) {
        st = oriel_put(other, 0, &rank, sizeof(rank));
    }
    t_check_eq(st, ORIEL_ERR_CONF);
    t_check(strstr(oriel_error_detail(), "ORIEL_SHM_COPY") != NULL);
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    return 0;
}

Test(limits, cross_memory_attach_forced_but_forbidden)
{
    cr_assert_eq(t_ranks(2, cma_forced, NULL), 0);
}

static int few_descriptors(int rank, void *arg)
{
    (void)arg;
    limit(RLIMIT_NOFILE, 64);
    t_check_ok(oriel_init(NULL));
    ring_of_neighbours(rank);
    t_check_ok(oriel_finalize());
    return 0;
}

Test(limits, sixty_four_descriptors)
{
    cr_assert_eq(t_ranks(12, few_descriptors, NULL), 0);
}

static int little_address_space(int rank, void *arg)
{
    (void)arg;
    (void)rank;
    limit(RLIMIT_AS, (rlim_t)64 << 20);
    int st = oriel_init(NULL);
    if (st == 0) {
        return 0; /* an automatic size shrinks */
    }
    t_check_eq(st, ORIEL_ERR_NOMEM);
    t_check(strstr(oriel_error_detail(), "RLIMIT_AS") != NULL ||
            strstr(oriel_error_detail(), "address space") != NULL);
    return 0;
}

static int asked_too_much(int rank, void *arg)
{
    (void)arg;
    (void)rank;
    setenv("ORIEL_SHM_SIZE", "512g", 1);
    limit(RLIMIT_AS, (rlim_t)8 << 30);
    t_check_eq(oriel_init(NULL), ORIEL_ERR_NOMEM);
    t_check(strlen(oriel_error_detail()) > 30);
    return 0;
}

Test(limits, little_address_space)
{
    cr_assert_eq(t_ranks(1, little_address_space, NULL), 0);
    cr_assert_eq(t_ranks(1, asked_too_much, NULL), 0);
}

static int small_dev_shm(int rank, void *arg)
{
    (void)arg;
    (void)rank;
    struct oriel_mem *mem = NULL;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=2m") != 0) {
        return 77;
    }
    setenv("ORIEL_SHM_BACKING", "file", 1);
    int st = oriel_init(NULL);
    if (st == 0) {
        st = oriel_mem_alloc(8 << 20, NULL, &mem);
    }
    t_check_eq(st, ORIEL_ERR_NOMEM);
    t_check(strstr(oriel_error_detail(), "/dev/shm") != NULL);
    t_check(strstr(oriel_error_detail(), "MiB") != NULL);
    return 0;
}

Test(limits, small_dev_shm_is_an_error_with_the_size_needed)
{
    int st = t_ranks(1, small_dev_shm, NULL);
    if (st == 77) {
        cr_skip("no mount namespaces here");
    }
    cr_assert_eq(st, 0);
}

static int memory_comes_back(int rank, void *arg)
{
    (void)arg;
    (void)rank;
    for (int i = 0; i < 200; i++) {
        struct oriel_mem *mem = NULL;
        t_check_ok(oriel_mem_alloc(4 << 20, NULL, &mem));
        unsigned char *base = oriel_mem_base(mem);
        t_check_eq(((uintptr_t)base) % (2 << 20), 0);
        t_check_eq(base[i * 1000], 0);
        base[i * 1000] = 1;
        t_check_ok(oriel_mem_free(mem));
    }
    return 0;
}

Test(limits, freed_memory_is_reused_and_zero)
{
    setenv("ORIEL_SHM_SIZE", "16m", 1);
    cr_assert_eq(t_job(1, memory_comes_back, NULL), 0);
}
