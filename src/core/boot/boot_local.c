/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two bootstraps without a launcher: a group of processes forked by one parent (tests, benchmarks),
 * which share a piece of anonymous memory, and the job of one rank. A group may say that its ranks
 * run on several hosts: then those of different ones share no node memory and see none of each
 * other's processes once the start is over.
 *
 * The group's memory: each member says which process it is, so that the others notice its end. It
 * writes its own record and then the number of the fence it has
 * reached (release); a fence is over when every member's number is there (acquire).
 */
#include "core/boot/boot.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "base/sys.h"
#include "core/boot/boot_watch.h"

#define LOOK_EVERY_NS (100 * ORL_NS_PER_MS)

struct member {
    _Alignas(64) _Atomic uint64_t fences; /* reached by this member */
    _Atomic int pid;                      /* 0: not started yet */
    uint64_t start_time;                  /* of that pid */
    uint64_t bytes;
    unsigned char record[CORE_RECORD_BYTES];
};

struct core_boot_group {
    int size;
    int hosts;      /* the launcher's part: how many it says there are */
    bool are_dealt; /* rank 1 is on the second host, or beside rank 0 */
    uint64_t job;
    struct member member[];
};

static struct core_boot_group *group; /* borrows; of this process */
static int me;

static size_t group_bytes(int size)
{
    return sizeof(struct core_boot_group) + (size_t)size * sizeof(struct member);
}

struct core_boot_group *core_boot_group_create(int size)
{
    void *memory =
        mmap(NULL, group_bytes(size), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    struct core_boot_group *g = memory;
    g->size = size;
    g->hosts = 1;
    if (orl_sys_random(&g->job, sizeof(g->job)) != 0) {
        g->job = orl_clock_kernel_ns();
    }
    return g;
}

void core_boot_group_use(struct core_boot_group *g, int rank)
{
    pid_t pid = getpid();
    group = g;
    me = rank;
    g->member[rank].start_time = orl_sys_pid_starttime(pid);
    atomic_store_explicit(&g->member[rank].pid, pid, memory_order_release);
}

void core_boot_group_free(struct core_boot_group *g)
{
    if (g != NULL) {
        munmap(g, group_bytes(g->size));
    }
}

void core_boot_group_spread(struct core_boot_group *g, int hosts, bool are_dealt)
{
    g->hosts = hosts < 1 ? 1 : hosts < g->size ? hosts : g->size;
    g->are_dealt = are_dealt;
}

static int host_of(int rank)
{
    return group->are_dealt ? rank % group->hosts
                            : (int)((int64_t)rank * group->hosts / group->size);
}

static int local_open(struct core_boot_id *id)
{
    if (group == NULL) {
        return orl_fail(ORL_ERR_UNSUPP, "this process was not forked into a local group");
    }
    id->rank = me;
    id->size = group->size;
    id->job = group->job;
    id->local = id->nlocal = 0;
    for (int r = 0; r < group->size; r++) {
        if (host_of(r) == host_of(me)) {
            id->local += r < me;
            id->nlocal++;
        }
    }
    return 0;
}

static int local_ranks(int *ranks)
{
    for (int r = 0; r < group->size; r++) {
        if (host_of(r) == host_of(me)) {
            *ranks++ = r;
        }
    }
    return 0;
}

static int local_put(const void *record, size_t bytes)
{
    if (bytes > CORE_RECORD_BYTES) {
        return orl_fail(ORL_ERR_INVAL, "a record has at most %d bytes, not %zu", CORE_RECORD_BYTES,
                        bytes);
    }
    memcpy(group->member[me].record, record, bytes);
    group->member[me].bytes = bytes;
    return 0;
}

/* Names those that have not come, at most a dozen. */
static int fence_timeout(const char *step, uint64_t goal)
{
    char text[128];
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, text, sizeof(text));
    for (int r = 0; r < group->size && sb.length < 100; r++) {
        if (atomic_load(&group->member[r].fences) < goal) {
            orl_strbuf_addf(&sb, "%s%d", sb.length > 0 ? ", " : "", r);
        }
    }
    return orl_fail(ORL_ERR_BOOT, "%s: no sign of rank %s after %.1f s (ORIEL_BOOT_TIMEOUT)", step,
                    orl_strbuf_str(&sb), (double)orl_conf.boot_timeout / 1e9);
}

static bool has_come(int rank, uint64_t goal)
{
    return atomic_load_explicit(&group->member[rank].fences, memory_order_acquire) >= goal;
}

/* Give the CPU away; sleep once a wait has become long. */
static void pause_turn(unsigned turn)
{
    if (turn < 1000) {
        sched_yield();
    } else {
        nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
    }
}

static int local_look(const char *step)
{
    static uint64_t next; /* no look before; of the thread that starts */
    uint64_t now = orl_clock_ns();
    struct core_gone gone = { .rank = -1 };
    char host[64];
    char others[96];
    if (now < next) {
        return 0;
    }
    next = now + LOOK_EVERY_NS;
    for (int r = 0; r < group->size; r++) {
        struct member *m = &group->member[r];
        int pid = atomic_load_explicit(&m->pid, memory_order_acquire);
        if (pid != 0 && !core_process_runs(pid, m->start_time)) {
            core_gone_add(&gone, r, true);
        }
    }
    if (gone.rank < 0) {
        return 0;
    }
    orl_sys_hostname(host, sizeof(host));
    core_gone_text(&gone, others, sizeof(others));
    return orl_fail(ORL_ERR_PEER, "%s: rank %d on %s is gone: its process %d has ended%s", step,
                    gone.rank, host, atomic_load(&group->member[gone.rank].pid), others);
}

/* 0 when the member has reached the fence. */
static int await_member(const char *step, int rank, uint64_t goal, uint64_t deadline)
{
    uint64_t look_from = orl_clock_ns() + LOOK_EVERY_NS;
    int st = 0;
    for (unsigned turn = 0; st == 0 && !has_come(rank, goal); turn++) {
        pause_turn(turn);
        if (orl_deadline_passed(deadline)) {
            return fence_timeout(step, goal);
        }
        st = orl_deadline_passed(look_from) ? local_look(step) : 0;
    }
    /* It may have come before it ended. */
    return has_come(rank, goal) ? 0 : st;
}

static int local_fence(const char *step)
{
    uint64_t goal = atomic_load_explicit(&group->member[me].fences, memory_order_relaxed) + 1;
    uint64_t deadline = orl_deadline_in((int64_t)orl_conf.boot_timeout);
    atomic_store_explicit(&group->member[me].fences, goal, memory_order_release);
    int st = 0;
    for (int r = 0; st == 0 && r < group->size; r++) {
        st = await_member(step, r, goal, deadline);
    }
    return st;
}

static int local_get(int rank, void *record, size_t *bytes)
{
    const struct member *m = &group->member[rank];
    if (m->bytes == 0 || m->bytes > *bytes) {
        return orl_fail(ORL_ERR_BOOT, "rank %d has put no record that fits", rank);
    }
    memcpy(record, m->record, m->bytes);
    *bytes = m->bytes;
    return 0;
}

static void local_abort(int code, const char *text)
{
    (void)code;
    (void)text;
}

static void local_close(void)
{
}

const struct core_boot core_boot_local = { .name = "local",
                                           .is_pretence = true,
                                           .open = local_open,
                                           .local_ranks = local_ranks,
                                           .put = local_put,
                                           .fence = local_fence,
                                           .get = local_get,
                                           .look = local_look,
                                           .abort = local_abort,
                                           .close = local_close };

/* ---------------------------------------------------------------- the job of one */

static unsigned char single_record[CORE_RECORD_BYTES];
static size_t single_bytes;

static int single_open(struct core_boot_id *id)
{
    id->size = id->nlocal = 1;
    return orl_sys_random(&id->job, sizeof(id->job));
}

static int single_ranks(int *ranks)
{
    ranks[0] = 0;
    return 0;
}

static int single_put(const void *record, size_t bytes)
{
    if (bytes > sizeof(single_record)) {
        return orl_fail(ORL_ERR_INVAL, "a record has at most %zu bytes, not %zu",
                        sizeof(single_record), bytes);
    }
    memcpy(single_record, record, bytes);
    single_bytes = bytes;
    return 0;
}

static int single_fence(const char *step)
{
    (void)step;
    return 0;
}

static int single_look(const char *step)
{
    (void)step;
    return 0;
}

static int single_get(int rank, void *record, size_t *bytes)
{
    if (rank != 0 || single_bytes == 0 || single_bytes > *bytes) {
        return orl_fail(ORL_ERR_BOOT, "rank %d has put no record that fits", rank);
    }
    memcpy(record, single_record, single_bytes);
    *bytes = single_bytes;
    return 0;
}

const struct core_boot core_boot_single = { .name = "single",
                                            .open = single_open,
                                            .local_ranks = single_ranks,
                                            .put = single_put,
                                            .fence = single_fence,
                                            .get = single_get,
                                            .look = single_look,
                                            .abort = local_abort,
                                            .close = local_close };
