/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The libfabric transport beside the contract, over provider `net`: work that is posted before
 * there is a connection, two that call each other at once, strangers and garbage, another version
 * of the wire, nobody at the address, sleeping. The stranger is a libfabric endpoint of this file's
 * own that knows the address and says what it likes.
 */
#include "fabric/ofi/ofi.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/conf.h"

#define PATIENCE (20 * ORL_NS_PER_S)
#define HANDLER  4

static struct fab a;
static struct fab b;
static unsigned done_count;
static int done_status;
static unsigned messages;

static void on_done(struct fab_op *op, int status)
{
    (void)op;
    done_count++;
    done_status = status != 0 ? status : done_status;
}

static void on_message(void *user, struct fab_rx *rx)
{
    (void)user;
    cr_assert(rx->header == 77 && rx->bytes == 5 && memcmp(rx->data, "hello", 5) == 0);
    messages++;
}

static void open_one(struct fab *fabric)
{
    cr_assert(fab_open(fabric, "ofi", NULL) == 0, "%s", orl_last_error());
    fab_handler_set(fabric, HANDLER, on_message, NULL);
}

static void open_both(void)
{
    cr_assert(setenv("ORIEL_OFI_PROVIDER", "net", 1) == 0);
    cr_assert(orl_conf_load() == 0, "%s", orl_last_error());
    open_one(&a);
    open_one(&b);
}

static void close_both(void)
{
    fab_close(&a);
    fab_close(&b);
}

TestSuite(ofi, .init = open_both, .fini = close_both, .timeout = 60);

static void poll_both(void)
{
    (void)fab_progress(&a);
    (void)fab_progress(&b);
}

/* Progress while `condition` does not hold. */
#define UNTIL(condition)                                       \
 do {                                                          \
  uint64_t limit = orl_clock_ns() + PATIENCE;                  \
  while (!(condition)) {                                       \
   poll_both();                                                \
   cr_assert(orl_clock_ns() < limit, "never: %s", #condition); \
  }                                                            \
 } while (0)

static struct fab_ep *ep_to(struct fab *from, struct fab *to, const char *label)
{
    unsigned char blob[FAB_ADDRESS_BYTES];
    struct fab_ep *ep = NULL;
    size_t bytes = 0;

    cr_assert(fab_engine_address(to->engine[0], blob, &bytes) == 0);
    cr_assert(fab_ep_open(from->engine[0], blob, bytes, label, &ep) == 0, "%s", orl_last_error());
    return ep;
}

static void post_message(struct fab_ep *ep, struct fab_op *op)
{
    static char text[] = "hello";

    *op = (struct fab_op){ .kind = FAB_OP_SEND,
                           .done = on_done,
                           .handler = HANDLER,
                           .operand = 77,
                           .local = text,
                           .bytes = 5 };
    fab_post(ep, op);
}

/* ---------------------------------------------------------------- connections */

/* One end has seen the connection fail and has forgotten it: the other learns it by its ping. With
 * `lost` it is a message that has gone, as one does that a provider had taken. */
static void half_forgets(bool lost)
{
    struct ofi_engine *at_b = ofi_of(b.engine[0]);
    struct fab_ep *ep = ep_to(&a, &b, "b");
    struct fab_op op;

    done_count = 0;
    done_status = 0;
    post_message(ep, &op);
    UNTIL(done_count == 1);
    orl_lock(&at_b->base.tx);
    struct ofi_peer *peer = container_of(at_b->peers.next, struct ofi_peer, all);
    struct ofi_half *half = container_of(peer->halves.next, struct ofi_half, of_peer);
    if (lost) {
        half->next--;
    } else {
        ofi_half_end(at_b, half);
    }
    orl_unlock(&at_b->base.tx);
    post_message(ep, &op);
    UNTIL(done_count == 2);
    cr_assert_eq(done_status, ORL_ERR_LINK);
    cr_assert(strstr(ep->cause, "lost") != NULL, "%s", ep->cause);
    fab_ep_close(ep);
}

Test(ofi, a_connection_ends_at_both_ends)
{
    half_forgets(false);
    half_forgets(true);
}

/* Two endpoints each way, work posted on all of them before anything is connected. */
/* covers: OFI-01 */
Test(ofi, early_and_at_once)
{
    struct fab_ep *ep[4];
    struct fab_op op[4];
    struct fab_op flush[4];
    unsigned i;

    for (i = 0; i < 4; i++) {
        ep[i] = i < 2 ? ep_to(&a, &b, "b") : ep_to(&b, &a, "a");
        cr_assert(atomic_load(&ep[i]->state) == FAB_EP_CONNECTING);
        cr_assert(fab_send_short(ep[i], HANDLER, 77, "hello", 5) == ORL_ERR_AGAIN);
        post_message(ep[i], &op[i]);
        flush[i] = (struct fab_op){ .done = on_done };
        fab_flush(ep[i], &flush[i]);
    }
    UNTIL(done_count == 8);
    cr_assert(done_status == 0 && messages == 4);
    for (i = 0; i < 4; i++) {
        fab_ep_close(ep[i]);
    }
    /* Both ends forget each other. */
    UNTIL(orl_list_is_empty(&ofi_of(a.engine[0])->peers) &&
          orl_list_is_empty(&ofi_of(b.engine[0])->peers));
}

/* An endpoint that is closed before it was welcomed leaves nothing at the other end. */
Test(ofi, closed_while_connecting)
{
    unsigned i;

    for (i = 0; i < 50; i++) {
        struct fab_ep *ep = ep_to(&a, &b, "b");
        unsigned polls;

        for (polls = 0; polls < i; polls++) {
            (void)fab_progress(&a);
        }
        fab_ep_close(ep);
    }
    UNTIL(orl_list_is_empty(&ofi_of(a.engine[0])->peers) &&
          orl_list_is_empty(&ofi_of(b.engine[0])->peers));
}

/* covers: REL-09 G21 K9 */
Test(ofi, nobody_there)
{
    struct fab_ep *ep;
    struct fab_op op;

    ep = ep_to(&a, &b, "rank 9");
    fab_close(&b);
    b.nengines = 0;
    post_message(ep, &op);
    UNTIL(done_count == 1);
    cr_assert(done_status == ORL_ERR_PEER, "%s", orl_status_name(done_status));
    cr_assert(strstr(ep->cause, "rank 9") != NULL && strstr(ep->cause, "refused") != NULL, "%s",
              ep->cause);
    fab_ep_close(ep);
    open_one(&b);
}

/* ---------------------------------------------------------------- sleeping */

Test(ofi, sleeps_until_a_message)
{
    struct fab_ep *ep = ep_to(&a, &b, "b");
    struct pollfd wait = { .events = POLLIN };
    struct fab_op op;
    unsigned i;

    UNTIL(atomic_load(&ep->state) == FAB_EP_READY);
    for (i = 0; i < 50; i++) {
        UNTIL(fab_engine_arm(b.engine[0], &wait.fd) == 0);
        cr_assert(poll(&wait, 1, 0) == 0 || fab_progress(&b) >= 0);
        post_message(ep, &op);
        (void)fab_progress(&a);
        cr_assert(poll(&wait, 1, 10000) == 1, "not woken");
        UNTIL(done_count == i + 1);
    }
    cr_assert(messages == 50);
    fab_ep_close(ep);
}

/* ---------------------------------------------------------------- strangers */

struct stranger {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep;
    fi_addr_t victim;
    uint64_t cookie;
    unsigned char in[4096];
    size_t got; /* bytes of the last message that came in */
    unsigned sent;
};

static void stranger_open(struct stranger *me, struct fab *fabric)
{
    struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_DATA, .size = 1024 };
    struct fi_av_attr av = { .type = FI_AV_TABLE };
    struct ofi_engine *ofi = ofi_of(fabric->engine[0]);
    struct fi_info *info = fi_dupinfo(ofi->info);

    memset(me, 0, sizeof *me);
    cr_assert(info != NULL);
    me->info = info;
    me->cookie = ofi->cookie;
    cr_assert(fi_fabric(info->fabric_attr, &me->fabric, NULL) == 0);
    cr_assert(fi_domain(me->fabric, info, &me->domain, NULL) == 0);
    cr_assert(fi_cq_open(me->domain, &cq, &me->cq, NULL) == 0);
    cr_assert(fi_av_open(me->domain, &av, &me->av, NULL) == 0);
    cr_assert(fi_endpoint(me->domain, info, &me->ep, NULL) == 0);
    cr_assert(fi_ep_bind(me->ep, &me->av->fid, 0) == 0);
    cr_assert(fi_ep_bind(me->ep, &me->cq->fid, FI_TRANSMIT | FI_RECV) == 0);
    cr_assert(fi_enable(me->ep) == 0);
    cr_assert(fi_av_insert(me->av, ofi->name, 1, &me->victim, 0, NULL) == 1);
    cr_assert(fi_recv(me->ep, me->in, sizeof me->in, NULL, FI_ADDR_UNSPEC, me) == 0);
}

static void stranger_close(struct stranger *me)
{
    (void)fi_close(&me->ep->fid);
    (void)fi_close(&me->av->fid);
    (void)fi_close(&me->cq->fid);
    (void)fi_close(&me->domain->fid);
    (void)fi_close(&me->fabric->fid);
    fi_freeinfo(me->info);
}

static bool stranger_polls(struct stranger *me)
{
    struct fi_cq_data_entry entry;

    while (fi_cq_read(me->cq, &entry, 1) == 1) {
        if ((entry.flags & FI_RECV) != 0) {
            me->got = entry.len;
        } else {
            me->sent--;
        }
    }
    return me->got != 0;
}

static bool is_taken(struct stranger *me, const void *message, size_t bytes)
{
    ssize_t rc = fi_send(me->ep, message, bytes, NULL, me->victim, NULL);

    cr_assert(rc == 0 || rc == -FI_EAGAIN);
    me->sent += rc == 0;
    (void)stranger_polls(me);
    return rc == 0;
}

static bool is_sent(struct stranger *me)
{
    (void)stranger_polls(me);
    return me->sent == 0;
}

static void stranger_says(struct stranger *me, const void *message, size_t bytes)
{
    UNTIL(is_taken(me, message, bytes));
    UNTIL(is_sent(me));
}

/* A message that fits in its form and is wrong in what it says. */
static size_t make_garbage(const struct stranger *me, unsigned round, unsigned char *out)
{
    struct ofi_header header;
    size_t data = (size_t)(rand() % 300);
    size_t whole;
    size_t i;

    for (i = 0; i < 1024; i++) {
        out[i] = (unsigned char)rand();
    }
    if (round % 4 == 0) {
        return (size_t)(rand() % 1024);
    }
    memcpy(&header, out, sizeof header);
    header.kind = (uint8_t)(1 + rand() % (OFI_KINDS - 1));
    header.cookie = round % 4 == 1 ? header.cookie : me->cookie;
    header.version = OFI_WIRE_VERSION;
    header.to = (uint32_t)(rand() % 4) << 20 | (uint32_t)(rand() % 4);
    header.ack_ep = (uint32_t)(rand() % 4) << 20 | (uint32_t)(rand() % 4);
    header.seq = (uint32_t)(rand() % 70);
    header.bytes = (uint32_t)(ofi_wire_body(header.kind) + data);
    whole = sizeof header + header.bytes;
    memcpy(out, &header, sizeof header);
    return whole;
}

/* An endpoint works on while garbage comes in between, and is the same afterwards. */
/* covers: SEC-01 */
Test(ofi, garbage)
{
    struct fab_ep *ep = ep_to(&b, &a, "a");
    struct stranger me;
    unsigned char message[2048];
    struct fab_op op;
    unsigned i;

    srand(7);
    UNTIL(atomic_load(&ep->state) == FAB_EP_READY);
    stranger_open(&me, &b);
    for (i = 0; i < 3000; i++) {
        stranger_says(&me, message, make_garbage(&me, i, message));
    }
    /* Half of it can be told by its form; the other half names what does not exist. */
    UNTIL(ofi_of(b.engine[0])->strangers > 1400);
    post_message(ep, &op);
    UNTIL(done_count == 1);
    stranger_close(&me);
    fab_ep_close(ep);
}

Test(ofi, another_version)
{
    struct ofi_header header = { .kind = OFI_KIND_HELLO, .bytes = sizeof(struct ofi_hello) };
    struct ofi_hello hello = { .cookie = 99, .ep = 5 };
    struct ofi_welcome welcome;
    unsigned char message[sizeof header + sizeof hello];
    unsigned char blob[FAB_ADDRESS_BYTES];
    struct fab_ep *ep = NULL;
    struct stranger me;
    size_t bytes = sizeof hello.name;

    stranger_open(&me, &b);
    cr_assert(fi_getname(&me.ep->fid, hello.name, &bytes) == 0);
    hello.name_bytes = (uint16_t)bytes;
    header.cookie = me.cookie;
    header.version = OFI_WIRE_VERSION + 1;
    memcpy(message, &header, sizeof header);
    memcpy(message + sizeof header, &hello, sizeof hello);
    stranger_says(&me, message, sizeof message);
    UNTIL(stranger_polls(&me));
    memcpy(&header, me.in, sizeof header);
    memcpy(&welcome, me.in + sizeof header, sizeof welcome);
    cr_assert(header.kind == OFI_KIND_WELCOME && header.cookie == 99 && welcome.ep == 5);
    cr_assert(welcome.status == ORL_ERR_UNSUPP && strstr(welcome.text, "version") != NULL, "%s",
              welcome.text);
    stranger_close(&me);

    /* And before anything is sent, where the address tells. */
    cr_assert(fab_engine_address(b.engine[0], blob, &bytes) == 0);
    blob[8]++;
    cr_assert(fab_ep_open(a.engine[0], blob, bytes, "rank 3", &ep) == ORL_ERR_UNSUPP);
    cr_assert(strstr(orl_last_error(), "rank 3") != NULL &&
                  strstr(orl_last_error(), "version 2") != NULL,
              "%s", orl_last_error());
}
