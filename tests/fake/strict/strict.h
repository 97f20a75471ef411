/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The provider `strict`: a libfabric provider that behaves as the card of EFA's direct fabric does
 * where that is hardest on its user, and says so when the user breaks the contract. README.md has
 * the rules and the settings.
 *
 * Sends, writes and reads become frames, messages of an inner provider (`net`) between endpoints
 * of this one; the far side checks and places, and answers. So the provider decides by itself in
 * which order anything happens, on one host or on several.
 *
 * One lock for all; who calls a provider's functions holds none.
 */
#ifndef TESTS_FAKE_STRICT_H
#define TESTS_FAKE_STRICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "strict_base.h"

#define ST_SEAL_BYTES    64 /* of a context: struct fi_context2 */
#define ST_ADDRESS_BYTES 28 /* at most: IPv6 */
#define ST_IOV           2  /* of a message; RMA has one */
#define ST_BATCH         16 /* inner events taken at a time */
#define ST_FRAMES_OUT    64 /* frames the inner provider holds at most, of one endpoint */

/* ---------------------------------------------------------------- objects */

struct st_fabric {
    struct fid_fabric fid;
    struct fid_fabric *inner;
    int users;
};

struct st_domain {
    struct fid_domain fid;
    struct st_fabric *fabric;
    struct fid_domain *inner;
    struct fi_info *inner_info;
    enum fi_threading threading; /* what the user promised */
    int caller;                  /* thread inside, where threads must take turns */
    int users;                   /* objects made from it */
    uint64_t polls;              /* reads of its queues */
    uint64_t tick;               /* the time by which things are held back: polls, and jumps */
    struct st_link eps;
    struct st_link mrs;
    struct st_link cqs;
};

struct st_mr {
    struct fid_mr fid; /* mem_desc is the object itself */
    struct st_link link;
    struct st_domain *domain;
    uintptr_t base;
    size_t bytes;
    uint64_t access;
    unsigned users; /* posted operations that name it */
};

/* An address as it travels. */
struct st_address {
    uint32_t bytes;
    unsigned char byte[ST_ADDRESS_BYTES];
};

struct st_av {
    struct fid_av fid;
    struct st_domain *domain;
    struct st_entry *entry; /* [n] of room; an index is never used again */
    size_t n;
    size_t room;
    int users;
};

struct st_entry {
    struct st_address address;
    bool is_in;
};

/* A peer as an endpoint knows it, whether its user has inserted it or not. */
struct st_peer {
    struct st_link link;
    struct st_address address;
    fi_addr_t inner;
    unsigned waiting; /* ops that wait for its answer */
    uint64_t pinged_ms;
    uint64_t blocked_ms; /* since then the inner provider takes nothing for it; 0: it does */
    bool is_gone;
    bool is_closed; /* gone, and its system says so */
};

/* A context the user lent. */
struct st_context {
    struct st_link link;
    void *user;
    unsigned char seal[ST_SEAL_BYTES];
};

struct st_ep;

enum st_kind {
    ST_SEND = 1,
    ST_WRITE,
    ST_READ,
    ST_ANSWER, /* to any of these: status, and the bytes of a read */
    ST_PING
};

enum st_state {
    ST_POSTED, /* nothing of it is copied yet */
    ST_WAITING /* its frame is on the way, or the answer */
};

struct st_op {
    struct st_link link;
    struct st_ep *ep;
    struct st_peer *peer;
    enum st_kind kind;
    enum st_state state;
    uint64_t id;
    uint64_t due;
    uint64_t flags;   /* as posted */
    bool is_rung;     /* a post without FI_MORE followed */
    bool is_told;     /* its completion is in the queue, or is not wanted */
    bool is_read;     /* and has been read: context and memory are the user's again */
    bool is_answered; /* nothing more will come */
    struct st_context context;
    unsigned niov;
    struct iovec iov[ST_IOV];
    struct st_mr *mr[ST_IOV];
    size_t bytes;
    uint64_t remote;
    uint64_t key;
    uint64_t data;
};

struct st_recv {
    struct st_link link;
    struct st_ep *ep;
    bool is_rung;
    struct st_context context;
    struct iovec iov;
    struct st_mr *mr;
};

/* Start of a frame. */
struct st_header {
    uint64_t magic;
    uint32_t kind; /* enum st_kind */
    int32_t status;
    uint64_t id; /* of the op, chosen by its initiator */
    uint64_t remote;
    uint64_t key;
    uint64_t data;
    uint64_t flags;
    uint64_t bytes;
    struct st_address from;
};

/* A frame to send. */
struct st_frame {
    struct fi_context2 inner; /* first: the inner provider's context */
    struct st_link link;
    struct st_peer *peer;
    uint64_t due;
    uint64_t number;
    bool is_out;     /* the inner provider has it */
    bool is_blocked; /* the inner provider had no room */
    size_t bytes;
    struct st_header *header; /* and what follows it */
};

/* A frame that arrived and has not been dealt with wholly. */
struct st_arrival {
    struct st_link link;
    struct st_peer *peer;
    uint64_t due;
    unsigned stage;
    bool is_stuck; /* no receive was posted */
    struct st_header header;
    unsigned char payload[];
};

struct st_buffer {
    struct fi_context2 inner; /* first */
    unsigned char *bytes;
};

struct st_cq {
    struct fid_cq fid;
    struct st_link link;
    struct st_domain *domain;
    enum fi_cq_format format;
    size_t size;
    size_t n;
    struct st_link done;
    int users;
    bool has_fd;
    int epoll;
    int timer;
    bool is_armed;
    bool is_overrun;
};

struct st_done {
    struct st_link link;
    uint64_t due;
    struct fi_cq_tagged_entry entry;
    fi_addr_t from;
    int error; /* positive */
    int provider_error;
    struct st_op *op; /* counted until its entry is read */
    struct st_context *context;
    struct st_recv *recv;
};

struct st_ep {
    struct fid_ep fid;
    struct st_link link;
    struct st_link everywhere; /* in the list of all domains */
    struct st_domain *domain;
    struct fid_ep *inner;
    struct fid_cq *inner_cq;
    struct fid_av *inner_av;
    struct fi_info *info;
    struct st_av *av;
    struct st_cq *tx;
    struct st_cq *rx;
    bool tx_selective;
    bool rx_selective;
    bool is_enabled;
    struct st_address self;
    struct st_link peers;
    struct st_link ops;
    struct st_link recvs;
    struct st_link frames;
    struct st_link arrivals;
    struct st_buffer *buffer;
    size_t nbuffers;
    size_t buffer_bytes;
    unsigned nrecvs;
    unsigned depth;    /* ops that count against the limit */
    unsigned out;      /* frames the inner provider has */
    unsigned burst;    /* posts still to be turned away */
    unsigned dangling; /* polls since a post with FI_MORE that nothing followed */
    uint64_t last_id;
    uint64_t last_number;
};

/* ---------------------------------------------------------------- parts */

/* strict_info.c */
int st_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const struct fi_info *hints, struct fi_info **info);
int st_inner_info(const struct fi_info *like, struct fi_info **inner);

/* strict_fabric.c */
int st_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
/* Every call on a domain or its objects; says when two threads are in it that must not be. */
void st_enter(struct st_domain *domain);
void st_leave(struct st_domain *domain);

/* strict_mr.c */
extern struct fi_ops_mr st_mr_ops;
/* That memory may be used so: 0, else a violation was told and the post is refused. */
int st_mr_check(struct st_ep *ep, const struct iovec *iov, void *desc, uint64_t access,
                const char *what, struct st_mr **mr);
void st_mr_hold(struct st_mr *mr, int by);
/* Memory of this process that a peer names: NULL and *status when it must not be touched. */
void *st_mr_find(struct st_domain *domain, uint64_t key, uint64_t remote, size_t bytes,
                 uint64_t access, int *status);

/* strict_av.c */
int st_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
               void *context);
/* Index of that address, FI_ADDR_NOTAVAIL where it was not inserted. */
fi_addr_t st_av_index(const struct st_av *av, const struct st_address *address);

/* strict_cq.c */
int st_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
               void *context);
/* Enter a completion; the entry's due time is drawn here. Lock held. */
void st_cq_add(struct st_cq *cq, struct st_done *done);
/* The first entry that may be read, or NULL. */
struct st_done *st_cq_first(struct st_cq *cq);

/* strict_wait.c */
int st_cq_trywait(struct st_cq *cq);
/* What was held back may concern a sleeper: set the timers of the armed ones. */
void st_cq_rouse(struct st_domain *domain);
/* Wake who sleeps at it in that many milliseconds; never when negative. */
void st_cq_wake(const struct st_cq *cq, int ms);
int st_cq_watch(struct st_cq *cq, struct st_ep *ep);
void st_cq_unwatch(struct st_cq *cq, struct st_ep *ep);

/* strict_pool.c: zeroed memory, lock held */
void *st_alloc(size_t bytes);
void st_free(void *memory);

/* strict_context.c */
/* Take the user's context and write all over it. 0, else a violation was told. */
int st_context_take(struct st_context *context, void *user, const char *what);
/* It is the user's again; says when someone wrote to it. */
void st_context_give(struct st_context *context);

/* strict_ep.c */
int st_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);

/* strict_peer.c */
extern struct st_link st_all; /* endpoints of this process, whatever domain they are of */
struct st_peer *st_peer_find(struct st_ep *ep, const struct st_address *address);
void st_peer_gone(struct st_ep *ep, struct st_peer *peer, const char *why);
/* How an op to a peer that is gone ends. */
void st_op_lost(struct st_op *op);
void st_drop(const void *address, size_t bytes);
bool st_is_dropped(const struct st_address *address);

/* strict_calls.c */
extern struct fi_ops_msg st_msg_ops;
extern struct fi_ops_rma st_rma_ops;
extern struct fi_ops_tagged st_tagged_ops;
extern struct fi_ops_atomic st_atomic_ops;

/* strict_post.c */
/* A post in one shape, however it was called. */
struct st_want {
    enum st_kind kind;
    const struct iovec *iov;
    void **desc;
    size_t niov;
    fi_addr_t to;
    uint64_t remote;
    uint64_t key;
    uint64_t data;
    uint64_t flags;
    void *context;
};

ssize_t st_post(struct fid_ep *ep, const struct st_want *want);
ssize_t st_post_recv(struct fid_ep *ep, const struct iovec *iov, void *desc, uint64_t flags,
                     void *context);
/* Its completion goes to the queue; error is 0 or positive. */
void st_op_tell(struct st_op *op, int error, int provider_error);
/* Nothing more comes of it; tells it where that was not done. May free it. */
void st_op_end(struct st_op *op, int error, int provider_error);
/* Its completion has been read. May free it. */
void st_op_read(struct st_op *op);
/* Whatever its state. */
void st_op_free(struct st_op *op);
/* The receive that a message takes, or NULL. */
struct st_recv *st_recv_take(struct st_ep *ep);
void st_recv_free(struct st_recv *recv);

/* strict_link.c */
int st_wire_open(struct st_ep *ep);
void st_wire_close(struct st_ep *ep);

/* strict_due.c */
/* Milliseconds until there may be something to do without an event: -1 never, 0 at once. */
int st_wire_due(const struct st_domain *domain);
/* The first tick at which something held back is due, UINT64_MAX for none. */
uint64_t st_wire_next(const struct st_domain *domain);

/* strict_wire.c */
/* Let the inner provider have it to receive in. */
void st_wire_listen(struct st_ep *ep, struct st_buffer *buffer);
/* Everything of the domain that is due. Lock held. */
void st_progress(struct st_domain *domain);
/* Copy the op's bytes, send its frame when that is due. */
void st_wire_send(struct st_op *op);
/* A frame that belongs to no op: an answer, a ping. */
void st_wire_answer(struct st_ep *ep, struct st_peer *peer, const struct st_header *to, int status,
                    const void *payload, size_t bytes);
void st_wire_purge(struct st_ep *ep, const struct st_peer *peer);

/* strict_place.c */
/* Deal with a frame that is due: true when it is done with. */
bool st_place(struct st_ep *ep, struct st_arrival *arrival);

static inline uint64_t st_hold(const struct st_domain *domain)
{
    return domain->tick + st_random(st_conf.reorder + 1);
}

#endif
