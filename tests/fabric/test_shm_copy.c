/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ways to private memory of a peer: cross-memory attach where it is allowed, messages where it
 * is refused from the start or later, and what is said when it was insisted on. Refusal is made
 * with a system-call filter of this test's process. Two ranks of a node live in this process.
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/log.h"
#include "fabric/fabric.h"
#include "fabric/node.h"

#define BYTES ((size_t)1 << 20)

struct side {
    struct fab fabric;
    struct fab_engine *engine;
    struct fab_node *node;
};

static struct side a;
static struct side b;
static struct fab_ep *ep;
static unsigned char *target;
static unsigned char *source;
static struct fab_region *region;
static struct fab_rkey key;

static void filter(uint32_t action)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof code[0], code };

    cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static bool is_attach_allowed(void)
{
    uint64_t value = 7;
    uint64_t got = 0;

    return syscall(SYS_process_vm_readv, getpid(), &(struct iovec){ &got, sizeof got }, 1,
                   &(struct iovec){ &value, sizeof value }, 1, 0) == sizeof got;
}

static void open_side(struct side *side, struct fab_node *node)
{
    side->node = node;
    cr_assert_eq(fab_open(&side->fabric, "shm", node), 0, "%s", orl_last_error());
    side->engine = fab_engine_find(&side->fabric, "shm");
}

/* What opening the key says. */
static int open_rig_with_key(const char *copy, void (*spoil)(unsigned char *address))
{
    struct fab_node_ticket ticket;
    unsigned char blob[FAB_ADDRESS_BYTES];
    unsigned char packed[FAB_RKEY_BYTES];
    struct fab_node *first;
    struct fab_node *second;
    size_t bytes;

    cr_assert_eq(setenv("ORIEL_SHM_COPY", copy, 1), 0);
    cr_assert_eq(orl_conf_load(), 0);
    cr_assert_eq(fab_node_create(&first, 2, 1234, 1 << 20, &ticket), 0);
    cr_assert_eq(fab_node_attach(&second, &ticket), 0);
    cr_assert_eq(fab_node_join(first, 0, 0), 0);
    cr_assert_eq(fab_node_join(second, 1, 1), 0);
    fab_node_unlink(first);
    open_side(&a, first);
    open_side(&b, second);
    cr_assert_eq(fab_engine_address(b.engine, blob, &bytes), 0);
    if (spoil != NULL) {
        spoil(blob);
    }
    cr_assert_eq(fab_ep_open(a.engine, blob, bytes, "rank 1", &ep), 0);
    target = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    source = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(target != MAP_FAILED && source != MAP_FAILED);
    for (size_t i = 0; i < 2 * BYTES; i++) {
        source[i] = (unsigned char)(i * 7 + (i >> 8) * 3 + (i >> 16));
    }
    cr_assert_eq(fab_region_open(&b.fabric, target, 2 * BYTES, FAB_ACCESS_ALL, &region), 0);
    cr_assert_eq(fab_rkey_pack(region, b.engine, packed, &bytes), 0);
    return fab_rkey_open(ep, packed, bytes, &key);
}

static void open_rig(const char *copy, void (*spoil)(unsigned char *address))
{
    cr_assert_eq(open_rig_with_key(copy, spoil), 0, "%s", orl_last_error());
    cr_assert_null(key.direct);
}

static void on_done(struct fab_op *op, int status)
{
    *(int *)op->user = status;
}

static int run(uint8_t kind, void *local, uint64_t offset, uint64_t bytes)
{
    int status = 77;
    struct fab_op op = { .done = on_done,
                         .kind = kind,
                         .local = local,
                         .bytes = bytes,
                         .offset = offset,
                         .rkey = &key,
                         .user = &status };

    fab_post(ep, &op);
    while (status == 77) {
        (void)fab_progress(&a.fabric);
        (void)fab_progress(&b.fabric);
    }
    return status;
}

static void close_rig(void)
{
    fab_rkey_close(ep, &key);
    fab_region_drop(region);
    fab_ep_close(ep);
    fab_close(&a.fabric);
    fab_close(&b.fabric);
    fab_node_close(b.node);
    fab_node_close(a.node);
}

static uint64_t stat_of(enum orl_stat id)
{
    return orl_stat_get(&a.engine->stats, id) + orl_stat_get(&b.engine->stats, id);
}

static void both_ways(void)
{
    static unsigned char back[2 * BYTES];

    cr_assert_eq(run(FAB_OP_PUT, source, 5, BYTES), 0, "%s", orl_last_error());
    cr_assert(memcmp(target + 5, source, BYTES) == 0);
    cr_assert_eq(run(FAB_OP_GET, back, 5, BYTES), 0, "%s", orl_last_error());
    cr_assert(memcmp(back, source, BYTES) == 0);
    cr_assert_eq(target[4], 0);
    cr_assert_eq(target[5 + BYTES], 0);
}

/* Nothing may be printed in silence() .. is_silent(). */
static int quiet[2];

static void silence(void)
{
    cr_assert_eq(pipe2(quiet, O_NONBLOCK), 0);
    orl_log_redirect(quiet[1]);
}

static bool is_silent(void)
{
    char byte;

    return read(quiet[0], &byte, 1) < 0 && errno == EAGAIN;
}

Test(shm_copy, attach)
{
    if (!is_attach_allowed()) {
        cr_skip("process_vm_readv is not allowed here");
    }
    open_rig("auto", NULL);
    both_ways();
    cr_assert_eq(stat_of(ORL_STAT_CMA_BYTES), 2 * BYTES);
    cr_assert_eq(stat_of(ORL_STAT_RING_BYTES), 0);
    close_rig();
}

Test(shm_copy, every_offset_to_the_page)
{
    static unsigned char back[16384];

    open_rig("auto", NULL);
    for (size_t shift = 0; shift < 70; shift++) {
        for (size_t bytes = 4090; bytes <= 9000; bytes += 4909) {
            memset(target, 0, 32768);
            cr_assert_eq(run(FAB_OP_PUT, source + 64, 64 + shift, bytes), 0);
            cr_assert(memcmp(target + 64 + shift, source + 64, bytes) == 0, "shift %zu", shift);
            cr_assert_eq(target[63 + shift], 0);
            cr_assert_eq(target[64 + shift + bytes], 0);
            memset(back, 0, sizeof back);
            cr_assert_eq(run(FAB_OP_GET, back + shift, 64 + shift, bytes), 0);
            cr_assert(memcmp(back + shift, source + 64, bytes) == 0, "shift %zu", shift);
        }
    }
    close_rig();
}

Test(shm_copy, refused_from_the_start)
{
    static const int errors[] = { EPERM, ENOSYS };

    filter(SECCOMP_RET_ERRNO | (uint32_t)errors[getpid() % 2]);
    silence();
    open_rig("auto", NULL);
    both_ways();
    cr_assert_eq(stat_of(ORL_STAT_CMA_BYTES), 0);
    cr_assert_geq(stat_of(ORL_STAT_RING_BYTES), 2 * BYTES);
    close_rig();
    cr_assert(is_silent());
}

Test(shm_copy, refused_later)
{
    if (!is_attach_allowed()) {
        cr_skip("process_vm_readv is not allowed here");
    }
    silence();
    open_rig("auto", NULL);
    cr_assert_eq(run(FAB_OP_PUT, source, 2 * BYTES - 4096, 4096), 0);
    cr_assert_eq(stat_of(ORL_STAT_CMA_BYTES), 4096);
    filter(SECCOMP_RET_ERRNO | EPERM);
    both_ways();
    cr_assert_eq(stat_of(ORL_STAT_CMA_BYTES), 4096);
    cr_assert_eq(fab_put_short(ep, &key, 0, source, 100), 0);
    close_rig();
    cr_assert(is_silent());
}

Test(shm_copy, insisted_on_and_refused)
{
    filter(SECCOMP_RET_ERRNO | EPERM);
    cr_assert_eq(open_rig_with_key("cma", NULL), ORL_ERR_CONF);
    cr_assert_not_null(strstr(orl_last_error(), "ORIEL_SHM_COPY=cma"), "%s", orl_last_error());
    cr_assert_not_null(strstr(orl_last_error(), strerror(EPERM)), "%s", orl_last_error());
    close_rig();
}

/* The filter would end the process. */
Test(shm_copy, ring_never_asks)
{
    open_rig("ring", NULL);
    filter(SECCOMP_RET_KILL_PROCESS);
    both_ways();
    close_rig();
}

/* The pid in the address is another process's: what is found there is not the value promised. */
static void change_value(unsigned char *address)
{
    address[24] ^= 1;
}

Test(shm_copy, another_pid_namespace)
{
    silence();
    open_rig("auto", change_value);
    both_ways();
    cr_assert_eq(stat_of(ORL_STAT_CMA_BYTES), 0);
    close_rig();
    cr_assert(is_silent());
}

Test(shm_copy, unmapped_memory)
{
    if (!is_attach_allowed()) {
        cr_skip("process_vm_readv is not allowed here");
    }
    open_rig("auto", NULL);
    cr_assert_eq(munmap(target + BYTES, BYTES), 0);
    cr_assert_eq(run(FAB_OP_PUT, source, BYTES - 4096, 8192), ORL_ERR_GONE);
    cr_assert(memcmp(target + BYTES - 4096, source, 4096) == 0);
    cr_assert_eq(munmap(source + BYTES, BYTES), 0);
    cr_assert_eq(run(FAB_OP_PUT, source + BYTES, 0, 4096), ORL_ERR_INVAL);
    cr_assert_eq(run(FAB_OP_GET, source + BYTES, 0, 4096), ORL_ERR_INVAL);
    close_rig();
}
