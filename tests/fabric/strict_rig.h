/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two endpoints of the provider `strict` in one process, worked by hand with libfabric's own
 * calls: no line of the library between a test and the provider.
 */
#ifndef TESTS_FABRIC_STRICT_RIG_H
#define TESTS_FABRIC_STRICT_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "tests/fake/strict/strict_api.h"

#define SR_BYTES  8192 /* of a side's memory */
#define SR_HALF   4096 /* local buffers lie below, what peers may touch above */
#define SR_SLOTS  32   /* contexts of a side */
#define SR_ROUNDS 200000

struct sr_side {
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep;
    struct fid_mr *mr; /* all of memory, for everything */
    fi_addr_t peer;
    unsigned char *memory;
    struct fi_context2 slot[SR_SLOTS];
    /* What the queue has given so far. */
    unsigned ndone;
    unsigned nerrors;
    void *done[1024];
    struct fi_cq_data_entry last;
    struct fi_cq_err_entry error;
};

struct sr_rig {
    struct sr_side a;
    struct sr_side b;
    struct fi_info *info;
    const struct strict_api *api;
};

/* Settings in the environment before the provider is loaded: name without STRICT_, value. */
void sr_setting(const char *name, const char *value);
/* Hints that fit; fi_freeinfo them. */
struct fi_info *sr_hints(void);
/* The offer for the loopback interface; false where the provider cannot be loaded. */
bool sr_find(struct sr_rig *rig);
/* All of it, peers in each other's tables. */
void sr_open(struct sr_rig *rig);
void sr_side_open(struct sr_rig *rig, struct sr_side *side, size_t cq_size);
void sr_meet(struct sr_rig *rig);
void sr_side_close(struct sr_side *side);
void sr_close(struct sr_rig *rig);

/* Read each queue once. */
void sr_poll(struct sr_rig *rig);
/* Poll until that many completions (errors count) have come at that side. */
void sr_wait(struct sr_rig *rig, const struct sr_side *side, unsigned n);
/* The call's result once it is not -FI_EAGAIN, polling between tries. */
#define sr_try(rig, call) \
 __extension__({ \
ssize_t sr_rc_; \
while ((sr_rc_ = (call)) == -FI_EAGAIN) { \
sr_poll(rig); \
} \
(int)sr_rc_; \
 })

/* One post, flags as given. */
ssize_t sr_send(struct sr_side *side, unsigned slot, size_t at, size_t bytes, uint64_t flags);
ssize_t sr_recv(struct sr_side *side, unsigned slot, size_t at, size_t bytes);
ssize_t sr_rma(struct sr_side *side, bool is_write, unsigned slot, size_t at, size_t bytes,
               const struct sr_side *peer, size_t peer_at, uint64_t flags);

/* Violations so far, and what the last said must contain `text`. */
void sr_expect(struct sr_rig *rig, uint64_t violations, const char *text);

#endif
