/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cross-memory attach: copies straight between the private memories of two processes, by system
 * calls that a container, a security module or namespaces may forbid. Whether they work is found
 * out by reading a known value from each peer, once, and nobody is told when they do not. Called
 * under tx. Every copy is inside the origin's hazard line, so an ended registration is not touched.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/copy.h"
#include "base/log.h"
#include "base/sys.h"
#include "fabric/shm/shm.h"

#define PAGE_MASK   4095u
#define SLOW_OFFSET 64u /* see is_slow */
#define SLOW_BYTES  4096u

/* ---------------------------------------------------------------- may we? */

static int refuse(struct shm_peer *peer, const char *why)
{
    peer->cma = SHM_CMA_NO;
    orl_log_debug(ORL_CAT_SHM, "no cross-memory attach to local rank %u, process %d: %s",
                  peer->local, peer->pid, why);
    if (orl_conf.shm_copy == ORL_CONF_SHM_COPY_CMA) {
        return orl_fail(ORL_ERR_CONF,
                        "ORIEL_SHM_COPY=cma, but the memory of process %d cannot be reached: %s; "
                        "auto or ring work",
                        peer->pid, why);
    }
    return ORL_ERR_AGAIN;
}

/* A process that ends loses its memory before its lock: it is dying, though not yet proved dead.
 * Progress looks at peers that block somebody. */
static int say_dying(struct shm_engine *shm, struct shm_peer *peer)
{
    (void)fab_node_is_alive(shm->node, (int)peer->local);
    (void)shm_peer_is_gone(shm, peer);
    atomic_store_explicit(&peer->blocked, true, memory_order_relaxed);
    atomic_store_explicit(&shm->has_blocked, true, memory_order_relaxed);
    return ORL_ERR_PEER;
}

/* No process of that number has memory: is it the peer at its end, or another pid namespace? */
static bool is_dying(struct shm_engine *shm, const struct shm_peer *peer)
{
    const struct fab_node_ctl *ctl = &shm->node->ctl[peer->local];

    return !fab_node_is_alive(shm->node, (int)peer->local) ||
           ctl->start_time == orl_sys_pid_starttime(peer->pid);
}

static int probe(struct shm_engine *shm, struct shm_peer *peer)
{
    uint64_t got[2] = { 0, 0 };
    struct iovec local = { .iov_base = got, .iov_len = sizeof(got) };
    struct iovec remote = { .iov_base = (void *)(uintptr_t)peer->probe_at, .iov_len = sizeof(got) };
    ssize_t n = process_vm_readv(peer->pid, &local, 1, &remote, 1, 0);

    int error = errno;

    if (n < 0 && error == ESRCH && is_dying(shm, peer)) {
        return say_dying(shm, peer);
    }
    if (n < 0) {
        return refuse(peer, orl_os_text(error));
    }
    if (n != (ssize_t)sizeof(got) || got[0] != peer->probe_value ||
        got[1] != shm->node->header->job) {
        return refuse(peer, "that pid is another process here (pid namespaces differ)");
    }
    peer->cma = SHM_CMA_YES;
    peer->checked_ns = orl_clock_ns();
    orl_log_debug(ORL_CAT_SHM, "cross-memory attach to local rank %u works", peer->local);
    return 0;
}

int shm_cma_ask(struct shm_engine *shm, struct shm_peer *peer)
{
    if (orl_conf.shm_copy == ORL_CONF_SHM_COPY_RING) {
        return ORL_ERR_AGAIN;
    }
    if (ORL_LIKELY(peer->cma == SHM_CMA_YES)) {
        return 0;
    }
    if (peer->cma == SHM_CMA_UNKNOWN) {
        return probe(shm, peer);
    }
    if (orl_conf.shm_copy == ORL_CONF_SHM_COPY_CMA) {
        return refuse(peer, "it was refused before");
    }
    return ORL_ERR_AGAIN;
}

/* ---------------------------------------------------------------- copying */

/* The kernel copies with string instructions, which are some twenty times slower where the
 * destination lies a few bytes behind the source modulo 4 KiB. */
static bool is_slow(const void *dst, const void *src, uint64_t bytes)
{
    uintptr_t behind = ((uintptr_t)dst - (uintptr_t)src) & PAGE_MASK;

    return bytes >= SLOW_BYTES && behind > 0 && behind < SLOW_OFFSET;
}

static ssize_t copy_once(struct shm_peer *peer, void *local, unsigned char *remote, uint64_t bytes,
                         enum shm_direction direction)
{
    uint64_t tail = bytes > sizeof(uint64_t) ? sizeof(uint64_t) : 0;
    struct iovec mine = { .iov_base = local, .iov_len = bytes };
    /* The last word in a piece of its own: it is stored after the rest, for peers that poll it. */
    struct iovec theirs[2] = {
        { .iov_base = remote, .iov_len = bytes - tail },
        { .iov_base = remote + (bytes - tail), .iov_len = tail },
    };
    unsigned long pieces = tail > 0 ? 2 : 1;

    if (direction == SHM_READ) {
        return process_vm_readv(peer->pid, &mine, 1, theirs, pieces, 0);
    }
    return process_vm_writev(peer->pid, &mine, 1, theirs, pieces, 0);
}

/* Through memory of ours that lies to the page as the peer's does. */
static ssize_t copy_bounced(struct shm_engine *shm, struct shm_peer *peer, void *local,
                            unsigned char *remote, uint64_t bytes, enum shm_direction direction)
{
    unsigned char *bounce = shm->bounce + ((uintptr_t)remote & PAGE_MASK);

    bytes = bytes < SHM_BOUNCE ? bytes : SHM_BOUNCE;
    if (direction == SHM_WRITE) {
        orl_copy(bounce, local, bytes);
        return copy_once(peer, bounce, remote, bytes, direction);
    }
    ssize_t n = copy_once(peer, bounce, remote, bytes, direction);
    if (n > 0) {
        orl_copy(local, bounce, (size_t)n);
    }
    return n;
}

/* One of the two ranges is not mapped: whose? */
static int explain_fault(struct shm_peer *peer, unsigned char *remote)
{
    unsigned char byte = 0;
    struct iovec mine = { .iov_base = &byte, .iov_len = 1 };
    struct iovec theirs = { .iov_base = remote, .iov_len = 1 };

    if (process_vm_readv(peer->pid, &mine, 1, &theirs, 1, 0) == 1) {
        return orl_fail(ORL_ERR_INVAL,
                        "the local buffer is not accessible, or the peer's memory at %p is "
                        "read-only there",
                        (void *)remote);
    }
    return orl_fail(ORL_ERR_GONE,
                    "the peer has unmapped registered memory at %p without ending the registration",
                    (void *)remote);
}

static int explain(struct shm_engine *shm, struct shm_peer *peer, unsigned char *remote, int error)
{
    switch (error) {
    case EFAULT:
        return explain_fault(peer, remote);
    case EPERM:
    case ENOSYS:
        return refuse(peer, orl_os_text(error));
    case ESRCH:
        return say_dying(shm, peer);
    case ENOMEM:
        return orl_fail(ORL_ERR_NOMEM, "the kernel has no memory for a copy between processes");
    default:
        return orl_fail(ORL_ERR_SYS, "a copy between processes failed: %s", orl_os_text(error));
    }
}

/* A pid may be used again after its process has died, so the proof of life is renewed. */
static bool is_alive(struct shm_engine *shm, struct shm_peer *peer)
{
    uint64_t now = orl_clock_ns();

    if (now - peer->checked_ns >= SHM_CHECK_NS) {
        peer->checked_ns = now;
        (void)fab_node_is_alive(shm->node, (int)peer->local);
    }
    return !shm_peer_is_gone(shm, peer);
}

int shm_cma_copy(struct shm_engine *shm, struct shm_peer *peer, const struct fab_rkey *rkey,
                 uint64_t offset, void *local, uint64_t bytes, enum shm_direction direction,
                 uint64_t *moved)
{
    /* An address in the peer: a number here, never followed. */
    unsigned char *remote = (unsigned char *)(uintptr_t)(rkey->addr + offset);
    void *dst = direction == SHM_READ ? local : remote;
    void *src = direction == SHM_READ ? remote : local;
    struct fab_hazard *line;
    ssize_t n;

    *moved = 0;
    if (!is_alive(shm, peer)) {
        return ORL_ERR_PEER;
    }
    line = fab_hazard_of(shm->node);
    if (!fab_hazard_enter(line, rkey->hazard, rkey->live, rkey->gen)) {
        return orl_fail(ORL_ERR_GONE, "the registration has been ended by its owner");
    }
    if (is_slow(dst, src, bytes)) {
        n = copy_bounced(shm, peer, local, remote, bytes, direction);
    } else {
        n = copy_once(peer, local, remote, bytes, direction);
    }
    int error = errno;
    fab_hazard_leave(line);
    if (n < 0) {
        return explain(shm, peer, remote, error);
    }
    if (n == 0) {
        return explain_fault(peer, remote);
    }
    *moved = (uint64_t)n;
    orl_stat_add(&shm->base.stats, ORL_STAT_CMA_BYTES, (uint64_t)n);
    return 0;
}
