/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loopback: the transport to this very process, the smallest complete one and the template for new
 * ones. Data moves from progress by plain copies under the engine's tx lock, which also guards
 * the registrations, so that an ended one is never touched. Messages wait in a FIFO until the
 * next progress. Keeps no connection state; an endpoint is ready at once.
 */
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/pool.h"
#include "base/sys.h"
#include "fabric/fabric.h"
#include "fabric/transport.h"

#define SELF_SHORT     1024                  /* payload of send_short */
#define SELF_PUT_SHORT 8192                  /* copied under tx, so kept short */
#define SELF_SEND_MAX  8192                  /* payload of a message */
#define SELF_MSGS_MAX  1024                  /* messages that may wait or be kept */
#define SELF_QUANTUM   ((uint64_t)256 << 10) /* bytes of one turn of an endpoint */
#define SELF_CHUNK     256                   /* registrations per allocation */
#define SELF_CHUNKS    256
#define SELF_MAGIC     UINT32_C(0x53656c66)
#define NO_SLOT        UINT32_MAX

struct self_reg {
    uint32_t gen; /* odd while the registration lives */
    uint32_t next_free;
    unsigned char *base;
    uint64_t bytes;
    uint32_t access;
    uint32_t node_slot; /* its twin in the node segment, where there is one */
    uint64_t node_gen;
};

struct self_engine {
    struct fab_engine base;
    uint64_t id;                         /* random: tells an address of another process */
    struct self_reg *chunk[SELF_CHUNKS]; /* owns; tx */
    uint32_t nregs;                      /* slots ever used; tx */
    uint32_t free_slot;                  /* newest free one; tx */
    struct orl_fifo arrived;             /* messages for the next progress; tx */
    struct orl_pool msgs;
};

struct self_msg {
    struct orl_link link;
    uint64_t header;
    uint32_t handler;
    uint32_t bytes;
    _Alignas(16) unsigned char data[SELF_SEND_MAX];
};

struct self_address {
    uint32_t magic;
    uint32_t zero;
    uint64_t id;
};

struct self_blob {
    uint32_t magic;
    uint32_t slot;
    uint64_t id;
    uint32_t gen;
    uint32_t zero;
};

_Static_assert(sizeof(struct self_address) <= FAB_ADDRESS_BYTES, "fits an address");
_Static_assert(sizeof(struct self_blob) <= FAB_RKEY_BYTES, "fits a key");

static struct self_engine *self_of(struct fab_engine *engine)
{
    return container_of(engine, struct self_engine, base);
}

static const struct self_engine *self_of_const(const struct fab_engine *engine)
{
    return (const struct self_engine *)engine;
}

/* ---------------------------------------------------------------- registrations */

static struct self_reg *reg_at(const struct self_engine *self, uint32_t slot)
{
    return &self->chunk[slot / SELF_CHUNK][slot % SELF_CHUNK];
}

/* tx held. */
static int take_slot(struct self_engine *self, uint32_t *slot)
{
    if (self->free_slot != NO_SLOT) {
        *slot = self->free_slot;
        self->free_slot = reg_at(self, *slot)->next_free;
        return 0;
    }
    uint32_t chunk = self->nregs / SELF_CHUNK;
    if (chunk == SELF_CHUNKS) {
        return orl_fail(ORL_ERR_NOMEM, "%u registrations are alive, the most that self can hold",
                        self->nregs);
    }
    if (self->chunk[chunk] == NULL) {
        self->chunk[chunk] = calloc(SELF_CHUNK, sizeof(struct self_reg));
        if (self->chunk[chunk] == NULL) {
            return orl_fail(ORL_ERR_NOMEM, "no memory for %d registrations", SELF_CHUNK);
        }
    }
    *slot = self->nregs++;
    return 0;
}

static int self_reg(struct fab_engine *engine, struct fab_region *region)
{
    struct self_engine *self = self_of(engine);
    struct fab_node *node = engine->fabric->node;
    uint32_t node_slot = 0;
    uint32_t slot = 0;
    uint64_t node_gen = 0;
    int status = 0;

    if (node != NULL) {
        status =
            fab_node_reg(node, region->base, region->bytes, region->access, &node_slot, &node_gen);
    }
    if (status != 0) {
        return status;
    }
    orl_lock(&engine->tx);
    status = take_slot(self, &slot);
    if (status == 0) {
        struct self_reg *reg = reg_at(self, slot);

        reg->gen++;
        reg->base = region->base;
        reg->bytes = region->bytes;
        reg->access = region->access;
        reg->node_slot = node_slot;
        reg->node_gen = node_gen;
        region->slot[engine->index].word[0] = slot;
        region->slot[engine->index].word[1] = reg->gen;
    }
    orl_unlock(&engine->tx);
    if (status != 0 && node != NULL) {
        fab_node_dereg(node, node_slot);
    }
    return status;
}

static void self_dereg(struct fab_engine *engine, struct fab_region *region)
{
    struct self_engine *self = self_of(engine);
    uint32_t slot = (uint32_t)region->slot[engine->index].word[0];

    /* Every access looks at the generation under tx: after this one none is under way. */
    orl_lock(&engine->tx);
    struct self_reg *reg = reg_at(self, slot);
    uint32_t node_slot = reg->node_slot;
    reg->gen++;
    reg->next_free = self->free_slot;
    self->free_slot = slot;
    orl_unlock(&engine->tx);
    if (engine->fabric->node != NULL) {
        fab_node_dereg(engine->fabric->node, node_slot);
    }
}

static void self_rkey_pack(struct fab_engine *engine, const struct fab_region *region, void *blob)
{
    struct self_blob made = {
        .magic = SELF_MAGIC,
        .slot = (uint32_t)region->slot[engine->index].word[0],
        .id = self_of(engine)->id,
        .gen = (uint32_t)region->slot[engine->index].word[1],
    };

    memcpy(blob, &made, sizeof(made));
}

static bool is_live(const struct self_engine *self, const struct fab_rkey *rkey)
{
    const struct self_reg *reg = reg_at(self, (uint32_t)(rkey->word[0] >> 32));

    if (reg->gen != (uint32_t)rkey->word[0]) {
        return false;
    }
    /* A peer that has the key may have ended it from afar. */
    return rkey->live == NULL ||
           atomic_load_explicit(rkey->live, memory_order_acquire) == rkey->gen;
}

static void fill_rkey(struct fab_node *node, const struct self_blob *blob,
                      const struct self_reg *reg, struct fab_rkey *rkey)
{
    rkey->direct = reg->base;
    rkey->bytes = reg->bytes;
    rkey->addr = (uintptr_t)reg->base;
    rkey->word[0] = (uint64_t)blob->slot << 32 | blob->gen;
    rkey->word[1] = reg->access;
    if (node != NULL) {
        rkey->live = &node->regs[(size_t)node->local * FAB_REGS_MAX + reg->node_slot].gen;
        rkey->gen = reg->node_gen;
        rkey->hazard = fab_hazard_word((unsigned)node->local, reg->node_slot, reg->node_gen);
    }
}

static int self_rkey_open(struct fab_ep *ep, const void *blob, size_t bytes, struct fab_rkey *rkey)
{
    struct self_engine *self = self_of(ep->engine);
    struct self_blob got;
    int status = 0;

    memcpy(&got, blob, sizeof(got) < bytes ? sizeof(got) : bytes);
    if (got.magic != SELF_MAGIC || got.id != self->id || got.zero != 0 || got.gen % 2 == 0) {
        return orl_fail(ORL_ERR_INVAL, "these %zu bytes are no key of this process", bytes);
    }
    orl_lock(&ep->engine->tx);
    if (got.slot >= self->nregs) {
        status = ORL_ERR_INVAL;
    } else if (reg_at(self, got.slot)->gen != got.gen) {
        status = ORL_ERR_GONE;
    } else {
        fill_rkey(ep->engine->fabric->node, &got, reg_at(self, got.slot), rkey);
        status = is_live(self, rkey) ? 0 : ORL_ERR_GONE;
    }
    orl_unlock(&ep->engine->tx);
    if (status != 0) {
        return orl_fail(status, "registration %u of this process %s", got.slot,
                        status == ORL_ERR_GONE ? "has been ended" : "does not exist");
    }
    return 0;
}

/* ---------------------------------------------------------------- data, tx held */

/* Check the op and that its registration lives. */
static int admit(const struct self_engine *self, const struct fab_op *op)
{
    int status = fab_op_check(op, (unsigned)op->rkey->word[1]);

    if (status == 0 && !is_live(self, op->rkey)) {
        status = orl_fail(ORL_ERR_GONE, "%s: the registration has been ended", op->ep->label);
    }
    return status;
}

static int send_now(struct self_engine *self, unsigned handler, uint64_t header, const void *src,
                    size_t bytes)
{
    struct self_msg *msg = orl_pool_alloc(&self->msgs);

    if (msg == NULL) {
        return ORL_ERR_AGAIN;
    }
    msg->header = header;
    msg->handler = handler;
    msg->bytes = (uint32_t)bytes;
    orl_copy(msg->data, src, bytes);
    orl_fifo_push(&self->arrived, &msg->link);
    orl_stat_add(&self->base.stats, ORL_STAT_MSGS_SENT, 1);
    orl_stat_add(&self->base.stats, ORL_STAT_MSG_BYTES, bytes);
    return 0;
}

static int check_send(size_t bytes, size_t limit)
{
    if (bytes > limit) {
        return orl_fail(ORL_ERR_INVAL, "a message of %zu bytes is beyond the limit of %zu", bytes,
                        limit);
    }
    return 0;
}

static enum fab_try try_send(struct self_engine *self, struct fab_op *op, uint64_t *bytes)
{
    int status = check_send(op->bytes, SELF_SEND_MAX);

    if (status == 0) {
        status = send_now(self, op->handler, op->operand, op->local, op->bytes);
    }
    if (status == ORL_ERR_AGAIN) {
        *bytes = 0;
        return FAB_TRY_STOP;
    }
    *bytes = op->bytes;
    fab_op_finish(&self->base, op, status);
    return FAB_TRY_TAKEN;
}

/* A put or get, a piece at a time. */
static enum fab_try try_copy(struct self_engine *self, struct fab_op *op, uint64_t *bytes)
{
    uint64_t left = op->bytes - op->moved;
    uint64_t n = left < *bytes ? left : *bytes;
    unsigned char *local = (unsigned char *)op->local + op->moved;
    unsigned char *remote = op->rkey->direct + op->offset + op->moved;

    if (op->kind == FAB_OP_GET) {
        orl_copy(local, remote, n);
    } else {
        fab_put_apply(remote, local, n);
    }
    *bytes = n;
    op->moved += n;
    if (op->moved < op->bytes) {
        return FAB_TRY_MORE;
    }
    if (op->kind == FAB_OP_PUT_NOTIFY) {
        (void)fab_amo_apply(op->rkey->direct + op->notify, FAB_AMO_ADD, 8, op->operand, 0);
    }
    fab_op_finish(&self->base, op, 0);
    return FAB_TRY_TAKEN;
}

static enum fab_try try_op(struct fab_ep *ep, struct fab_op *op, uint64_t *bytes)
{
    struct self_engine *self = self_of(ep->engine);

    if (op->kind == FAB_OP_SEND) {
        return try_send(self, op, bytes);
    }
    if (op->kind == FAB_OP_FLUSH) {
        *bytes = 0;
        atomic_thread_fence(memory_order_seq_cst);
        fab_op_finish(ep->engine, op, 0);
        return FAB_TRY_TAKEN;
    }
    int status = admit(self, op);
    if (status == 0 && op->kind != FAB_OP_AMO) {
        return try_copy(self, op, bytes);
    }
    if (status == 0) {
        fab_amo_store_old(op, fab_amo_apply(op->rkey->direct + op->offset, (enum fab_amo)op->amo,
                                            op->width, op->operand, op->compare));
    }
    *bytes = op->width;
    fab_op_finish(ep->engine, op, status);
    return FAB_TRY_TAKEN;
}

/* ---------------------------------------------------------------- data table */

static int self_put_short(struct fab_ep *ep, const struct fab_rkey *rkey, uint64_t offset,
                          const void *src, size_t bytes)
{
    struct fab_op op = {
        .kind = FAB_OP_PUT, .rkey = rkey, .offset = offset, .bytes = bytes, .ep = ep
    };

    if (bytes > SELF_PUT_SHORT) {
        return orl_fail(ORL_ERR_INVAL, "a short put of %zu bytes is beyond the limit of %d", bytes,
                        SELF_PUT_SHORT);
    }
    orl_lock(&ep->engine->tx);
    int status = fab_ep_has_queue(ep) ? ORL_ERR_AGAIN : admit(self_of(ep->engine), &op);
    if (status == 0) {
        fab_put_apply(rkey->direct + offset, src, bytes);
    }
    orl_unlock(&ep->engine->tx);
    return status;
}

static int self_send_short(struct fab_ep *ep, unsigned handler, uint64_t header, const void *src,
                           size_t bytes)
{
    int status = check_send(bytes, SELF_SHORT);

    if (status != 0) {
        return status;
    }
    orl_lock(&ep->engine->tx);
    status = ORL_ERR_AGAIN;
    if (!fab_ep_has_queue(ep)) {
        status = send_now(self_of(ep->engine), handler, header, src, bytes);
    }
    orl_unlock(&ep->engine->tx);
    return status;
}

static const struct fab_ep_ops self_ep_ops = {
    self_put_short,     /* put_short */
    self_send_short,    /* send_short */
    fab_ep_queue,       /* post */
    fab_ep_queue_flush, /* flush */
};

/* ---------------------------------------------------------------- control table */

static int self_probe(struct fab *fabric, struct fab_nic *nics, int cap)
{
    (void)fabric;
    if (cap < 1) {
        return 0;
    }
    memset(&nics[0], 0, sizeof(nics[0]));
    nics[0].transport = &fab_self_ops;
    memcpy(nics[0].name, "self", sizeof("self"));
    return 1;
}

static int self_open(struct fab *fabric, const struct fab_nic *nic, struct fab_engine **engine)
{
    struct self_engine *self = calloc(1, sizeof(*self));
    int status;

    if (self == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for the engine of self");
    }
    status = orl_sys_random(&self->id, sizeof(self->id));
    if (status == 0) {
        status = orl_pool_init(&self->msgs, "self messages", sizeof(struct self_msg), 16, 16,
                               SELF_MSGS_MAX);
    }
    if (status != 0) {
        free(self);
        return status;
    }
    fab_engine_init(&self->base, &fab_self_ops, fabric, nic->name);
    self->free_slot = NO_SLOT;
    orl_fifo_init(&self->arrived);
    self->base.limits = (struct fab_limits){
        .put_short = SELF_PUT_SHORT,
        .send_short = SELF_SHORT,
        .send_max = SELF_SEND_MAX,
        .op_max = FAB_UNLIMITED,
        .poll_unit = SIZE_MAX,
        .amo_widths = 4 | 8,
        .amo_align = 8,
        .address_bytes = sizeof(struct self_address),
        .rkey_bytes = sizeof(struct self_blob),
        .ordered = true,
    };
    *engine = &self->base;
    return 0;
}

static void self_close(struct fab_engine *engine)
{
    struct self_engine *self = self_of(engine);
    struct orl_link *link;

    while ((link = orl_fifo_pop(&self->arrived)) != NULL) {
        orl_pool_free(&self->msgs, container_of(link, struct self_msg, link));
    }
    orl_pool_fini(&self->msgs);
    for (unsigned i = 0; i < SELF_CHUNKS; i++) {
        free(self->chunk[i]);
    }
    fab_engine_fini(engine);
    free(self);
}

static void self_address(struct fab_engine *engine, void *blob)
{
    struct self_address made = { .magic = SELF_MAGIC, .id = self_of(engine)->id };

    memcpy(blob, &made, sizeof(made));
}

static int self_ep_open(struct fab_engine *engine, const void *address, size_t bytes,
                        const char *label, struct fab_ep **ep)
{
    struct self_address got;
    struct fab_ep *made;

    memcpy(&got, address, sizeof(got) < bytes ? sizeof(got) : bytes);
    if (got.magic != SELF_MAGIC || got.zero != 0 || got.id != self_of_const(engine)->id) {
        return orl_fail(ORL_ERR_INVAL, "these %zu bytes are not the address of this process",
                        bytes);
    }
    made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for an endpoint of self");
    }
    fab_ep_init(made, engine, &self_ep_ops, label);
    *ep = made;
    return 0;
}

/* Nothing is ever taken without being finished at once. */
static void self_ep_stop(struct fab_ep *ep, int status)
{
    (void)ep;
    (void)status;
}

static void self_ep_close(struct fab_ep *ep)
{
    fab_ep_fini(ep);
    free(ep);
}

static int deliver(struct self_engine *self)
{
    int n = 0;

    for (; n < FAB_BATCH; n++) {
        orl_lock(&self->base.tx);
        struct orl_link *link = orl_fifo_pop(&self->arrived);
        orl_unlock(&self->base.tx);
        if (link == NULL) {
            break;
        }
        struct self_msg *msg = container_of(link, struct self_msg, link);
        struct fab_rx rx = { .header = msg->header, .data = msg->data, .bytes = msg->bytes };

        rx.word[0] = (uintptr_t)msg;
        if (!fab_rx_deliver(&self->base, msg->handler, &rx)) {
            orl_pool_free(&self->msgs, msg);
        }
    }
    return n;
}

static int self_progress(struct fab_engine *engine)
{
    int events = deliver(self_of(engine));

    return events + fab_engine_serve(engine, try_op, SELF_QUANTUM);
}

static void self_rx_release(struct fab_engine *engine, struct fab_rx *rx)
{
    orl_pool_free(&self_of(engine)->msgs, (struct self_msg *)rx->word[0]);
}

/* By position, so that a new slot breaks the build here first. */
const struct fab_transport_ops fab_self_ops = {
    "self",            /* name */
    self_probe,        /* probe */
    self_open,         /* open */
    self_close,        /* close */
    self_address,      /* address */
    self_reg,          /* reg */
    self_dereg,        /* dereg */
    self_rkey_pack,    /* rkey_pack */
    self_rkey_open,    /* rkey_open */
    fab_no_rkey_close, /* rkey_close */
    self_ep_open,      /* ep_open */
    self_ep_stop,      /* ep_stop */
    self_ep_close,     /* ep_close */
    self_progress,     /* progress */
    fab_no_arm,        /* arm */
    self_rx_release,   /* rx_release */
};
