/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oriel_abort. Peers on this host learn of it from the state word in node memory, the rest of the
 * job from the launcher, which ends it. A launcher that was asked to, but lets the job live (mpirun
 * --enable-recovery), would leave the others at their work: then this rank, whose own end is near,
 * tells one rank of every other host, and each of these ends the ranks of its host and itself.
 */
#include "core/abort.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "core/boot/boot.h"
#include "core/core.h"
#include "core/path/hosts.h"
#include "core/path/path.h"
#include "core/path/peer.h"
#include "core/path/progress.h"

/* For the launcher to end an aborted job, before the rank that aborts does it. */
#define GRACE_NS (1000 * ORL_NS_PER_MS)
/* Of that, for the word to reach other hosts. */
#define TELL_NS (500 * ORL_NS_PER_MS)

/* How to reach the launcher; NULL: not yet, or not any more. */
static _Atomic(const struct core_boot *) abort_boot;

void core_abort_by(const struct core_boot *boot)
{
    atomic_store(&abort_boot, boot);
}

/* ---------------------------------------------------------------- this host */

static void end_locals(void)
{
    for (int i = 0; i < core.node->nranks; i++) {
        const struct fab_node_ctl *ctl = &core.node->ctl[i];
        if (i != core.node->local && ctl->start_time != 0 &&
            atomic_load_explicit(&ctl->state, memory_order_acquire) == FAB_RANK_RUNNING &&
            orl_sys_pid_starttime(ctl->pid) == ctl->start_time) {
            (void)kill(ctl->pid, SIGTERM);
        }
    }
}

void core_abort_without_launcher(void)
{
    if (core_is_open()) {
        orl_log_error(ORL_CAT_BOOT, "the launcher has ended, so this rank ends as well");
        fab_node_give_up(core.node, core.node->local, FAB_RANK_ABORTED, 1,
                         "its launcher has ended");
        _exit(1);
    }
}

/* ---------------------------------------------------------------- other hosts */

/* A rank of another host has aborted the job: header is its rank and, above it, the code; the bytes
 * are its words. Ranks that have left need nobody to end them. */
static void obey(void *user, struct fab_rx *rx)
{
    char words[FAB_NODE_WORDS_BYTES];
    size_t bytes = rx->bytes < sizeof(words) - 1 ? rx->bytes : sizeof(words) - 1;
    int rank = (int)(int32_t)(uint32_t)rx->header;
    int code = (int)(int32_t)(uint32_t)(rx->header >> 32);
    (void)user;
    if (rank < 0 || rank >= core.size || rank == core.rank || code == 0 || !core_is_open()) {
        return;
    }
    memcpy(words, rx->data, bytes);
    words[bytes] = '\0';
    orl_log_error(ORL_CAT_BOOT,
                  "rank %d on %s has aborted the job with code %d, so this rank ends as well: %s",
                  rank, core_host_name(rank), code, words);
    fab_node_give_up(core.node, core.node->local, FAB_RANK_ABORTED, code, words);
    end_locals();
    _exit(code);
}

void core_abort_open(void)
{
    fab_handler_set(&core.fabric, CORE_ON_ABORT, obey, NULL);
}

static bool tell_rank(int rank, int code, const char *words)
{
    uint64_t header = (uint32_t)core.rank | (uint64_t)(uint32_t)code << 32;
    struct core_path *path;
    return !core_peer_is_failed(rank) && core_path_of(rank, &path) == 0 &&
           core_path_send(path, CORE_ON_ABORT, header, words,
                          strnlen(words, FAB_NODE_WORDS_BYTES)) == 0;
}

/* One rank of each other host; whatever goes wrong here, this rank's end is near. */
static void tell_hosts(int code, const char *words)
{
    const struct core_hosts *hosts;
    uint64_t deadline = orl_deadline_in(TELL_NS);
    if (core.nnetworks == 0 || core_hosts(&hosts) != 0) {
        return;
    }
    bool *told = calloc((size_t)hosts->nhosts, sizeof(*told));
    for (int rank = 0; told != NULL && rank < core.size; rank++) {
        int h = hosts->of[rank];
        if (h != hosts->mine && !told[h]) {
            told[h] = tell_rank(rank, code, words);
        }
    }
    free(told);
    while (fab_is_busy(&core.fabric) && !orl_deadline_passed(deadline)) {
        if (core_progress() == 0) {
            (void)sched_yield();
        }
    }
}

/* ---------------------------------------------------------------- oriel_abort */

static void end_job(int code, const char *words)
{
    uint64_t end = orl_deadline_in(GRACE_NS);
    tell_hosts(code, words);
    uint64_t left = orl_deadline_left(end);
    usleep((useconds_t)(left / ORL_NS_PER_US));
    end_locals();
}

/* Between the start and oriel_init's end, or after oriel_finalize's begin: nobody hears of it but
 * by the launcher, which takes this rank's end for a failure of its own where it sees it first. */
static void end_job_in_init(const struct core_boot *boot, int code, const char *words)
{
    orl_log_error(ORL_CAT_BOOT, "oriel_abort(%d): %s", code, words);
    boot->abort(code, words);
    if (boot->has_launcher) {
        usleep(GRACE_NS / ORL_NS_PER_US);
    }
}

/* An abort is never a success: code 0 becomes 1. */
ORL_PUBLIC void oriel_abort(int code, const char *text)
{
    const char *words = text != NULL ? text : "no reason given";
    const struct core_boot *boot = atomic_load(&abort_boot);
    code = code != 0 ? code : 1;
    if (core_is_open()) {
        orl_log_error(ORL_CAT_BOOT, "oriel_abort(%d): %s", code, words);
        fab_node_give_up(core.node, core.node->local, FAB_RANK_ABORTED, code, words);
        core.boot->abort(code, words);
        if (core.boot->has_launcher) {
            end_job(code, words);
        }
    } else if (boot != NULL) {
        end_job_in_init(boot, code, words);
    }
    _exit(code);
}
