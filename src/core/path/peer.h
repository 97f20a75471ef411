/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers: who lives. The peer table is light: one 16-byte record per rank of the job, so that 10,000
 * untouched peers cost next to nothing; the path behind it (path.h) is made on first use. A peer
 * that ended, by death or by finalize, is marked once; from then on every call to it ends with PEER
 * and its endpoint fails. Any thread; no lock.
 */
#ifndef CORE_PATH_PEER_H
#define CORE_PATH_PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "core/core.h"
#include "core/path/path.h"
#include "fabric/fabric.h"

struct core_peer {
    _Atomic(struct core_path *) path; /* NULL until first contact; owns */
    int32_t local;                    /* index on my host, -1: on another one */
    _Atomic int32_t failed;           /* 0, or the status every call to it ends with */
};

int core_peers_open(void) ORL_MUST_CHECK;
/* Stops and closes all paths. */
void core_peers_close(void);

/* Mark a rank gone: calls to it end with PEER, its endpoint fails, its collectives end. Logs once.
 * Not from done functions or handlers. */
void core_peer_fail(int rank, const char *how);
/* Look now whether it lives (system call) and mark it if not. 0 or PEER with its text. */
int core_peer_check(int rank);
/* What is known already, cheap. */
static inline bool core_peer_is_failed(int rank)
{
    return ORL_UNLIKELY(atomic_load_explicit(&core.peers[rank].failed, memory_order_relaxed) != 0);
}
/* PEER with its text, for a rank that is marked; 0 for one that is not. */
int core_peer_error(int rank);
/* True when a rank of this host went through oriel_finalize: gone, but in good order. */
bool core_peer_has_left(int rank);
/* Some rank that is known to have died, -1: none is. */
int core_peer_any_dead(void);

/* Time for a periodic look at everybody (every 64th direct operation asks; 100 ms between looks).
 */
void core_peer_tick(struct fab_hazard *line);

_Static_assert(sizeof(struct core_peer) == 16, "an untouched peer costs 16 bytes");

#endif
