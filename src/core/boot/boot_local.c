/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two bootstraps without a launcher: a group of processes forked by one parent (tests, benchmarks),
 * which share a piece of anonymous memory, and the job of one rank.
 *
 * The group's memory: each member writes its own record and then the number of the fence it has
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

struct member {
    _Alignas(64) _Atomic uint64_t fences; /* reached by this member */
    uint64_t bytes;
    unsigned char record[CORE_RECORD_BYTES];
};

struct core_boot_group {
    int size;
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
    if (orl_sys_random(&g->job, sizeof(g->job)) != 0) {
        g->job = orl_clock_kernel_ns();
    }
    return g;
}

void core_boot_group_use(struct core_boot_group *g, int rank)
{
    group = g;
    me = rank;
}

void core_boot_group_free(struct core_boot_group *g)
{
    if (g != NULL) {
        munmap(g, group_bytes(g->size));
    }
}

static int local_open(struct core_boot_id *id)
{
    if (group == NULL) {
        return orl_fail(ORL_ERR_UNSUPP, "this process was not forked into a local group");
    }
    id->rank = id->local = me;
    id->size = id->nlocal = group->size;
    id->job = group->job;
    return 0;
}

static int local_ranks(int *ranks)
{
    for (int i = 0; i < group->size; i++) {
        ranks[i] = i;
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

static int local_fence(const char *step)
{
    uint64_t goal = atomic_load_explicit(&group->member[me].fences, memory_order_relaxed) + 1;
    uint64_t deadline = orl_deadline_in((int64_t)orl_conf.boot_timeout);
    atomic_store_explicit(&group->member[me].fences, goal, memory_order_release);
    for (int r = 0; r < group->size; r++) {
        bool is_late = false;
        for (unsigned turn = 0; !is_late && !has_come(r, goal); turn++) {
            is_late = orl_deadline_passed(deadline);
            pause_turn(turn);
        }
        if (is_late) {
            return fence_timeout(step, goal);
        }
    }
    return 0;
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
                                           .open = local_open,
                                           .local_ranks = local_ranks,
                                           .put = local_put,
                                           .fence = local_fence,
                                           .get = local_get,
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
                                            .abort = local_abort,
                                            .close = local_close };
