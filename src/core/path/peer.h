/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers: who lives. The peer table is light: one 16-byte record per rank of the job, so that 10,000
 * untouched peers cost next to nothing; the path behind it (path.h) is made on first use. A peer
 * that ended, by death or by finalize, is marked once; from then on every call to it ends with PEER
 * and its endpoints fail. What is known of a peer outside my node memory, its contact, is read from
 * its bootstrap record when it is first needed. Any thread; no lock.
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
    int32_t local;                    /* index in my node memory, -1: it is not in it */
    _Atomic int32_t failed;           /* 0, or the status every call to it ends with */
};

int core_peers_open(void) ORL_MUST_CHECK;
/* This rank is about to leave, and so are the others: whoever is not to be reached any more has
 * left before, unless the launcher says otherwise, and that is worth no warning. */
void core_peers_leave(void);
/* Stops and closes all paths. */
void core_peers_close(void);

/* What a peer's engines need to be reached, in the order of their numbers in tokens; valid until
 * core_peers_close. Read from its record at the first call. Errors: UNSUPP naming both ends when no
 * network of mine speaks with one of its, BOOT, NOMEM. */
int core_peer_cards(int rank, const struct fab_card **cards, int *n) ORL_MUST_CHECK;
/* Name of its host where its record has been read, else NULL. */
const char *core_peer_host(int rank);

/* Mark a rank gone: calls to it end with PEER, its endpoint fails, its collectives end. Logs once.
 * Not from done functions or handlers. */
void core_peer_fail(int rank, const char *how);
/* No rail leads to it any more, all with this cause at last: marks it gone, for the reason that the
 * launcher gives where it has given one. Not from done functions or handlers. */
void core_peer_lost(int rank, const char *cause);
/* Look now whether it lives and mark it if not. 0 or PEER with its text. A system call for a rank
 * of this host; of others what the launcher has told, two loads. */
int core_peer_check(int rank);
/* What is known already, cheap. */
static inline bool core_peer_is_failed(int rank)
{
    return ORL_UNLIKELY(atomic_load_explicit(&core.peers[rank].failed, memory_order_relaxed) != 0);
}
/* PEER with its text, for a rank that is marked; 0 for one that is not. */
int core_peer_error(int rank);
/* True when a rank went through oriel_finalize, or has ended in good order as far as the launcher
 * knows: gone, but nobody's failure. */
bool core_peer_has_left(int rank);
/* Some rank that is known to have died, -1: none is. */
int core_peer_any_dead(void);

/* Time for a periodic look at everybody (every 64th direct operation asks; 100 ms between looks).
 */
void core_peer_tick(struct fab_hazard *line);

_Static_assert(sizeof(struct core_peer) == 16, "an untouched peer costs 16 bytes");

#endif
