/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rig of ofi_pair.h. libfabric's calls go through tables that each object points to; those of
 * engine a are copies with some entries of this file's own.
 */
#include "tests/fabric/ofi_pair.h"

#include <stdlib.h>
#include <string.h>

#include "base/conf.h"

struct fab pair_a;
struct fab pair_b;
struct pair_weather pair_weather;
unsigned pair_came;
unsigned pair_order[PAIR_MOST];
unsigned pair_ended;

static struct fi_ops_cq queue_real;
static struct fi_ops_cq queue_ours;
static struct fi_ops_msg send_real;
static struct fi_ops_msg send_ours;
static struct fi_ops_av table_real;
static struct fi_ops_av table_ours;
static struct fi_cq_data_entry kept[1024]; /* completions that are kept back */
static unsigned nkept;

/* ---------------------------------------------------------------- the queue */

static bool is_of_send(const struct fi_cq_data_entry *entry)
{
    const struct ofi_context *context = entry->op_context;

    return context != NULL && context->use == OFI_USE_SEND;
}

static ssize_t give_kept(struct fi_cq_data_entry *out, size_t count)
{
    size_t n = nkept < count ? nkept : count;

    memcpy(out, kept, n * sizeof(*out));
    memmove(kept, kept + n, (nkept - n) * sizeof(*kept));
    nkept -= (unsigned)n;
    pair_weather.flying -= (unsigned)n;
    return (ssize_t)n;
}

/* The entries that the engine gets of the n that came. */
static ssize_t sift(const struct fi_cq_data_entry *came, ssize_t n, struct fi_cq_data_entry *out)
{
    ssize_t given = 0;

    for (ssize_t i = 0; i < n; i++) {
        if (pair_weather.withholds && is_of_send(&came[i])) {
            cr_assert(nkept < sizeof(kept) / sizeof(kept[0]));
            kept[nkept++] = came[i];
            continue;
        }
        if (pair_weather.nulls) {
            out[given++] = (struct fi_cq_data_entry){ .flags = FI_SEND };
        }
        if (pair_weather.doubles && is_of_send(&came[i])) {
            out[given++] = came[i];
        }
        pair_weather.flying -= is_of_send(&came[i]) ? 1 : 0;
        out[given++] = came[i];
    }
    return given == 0 ? -FI_EAGAIN : given;
}

static ssize_t queue_read(struct fid_cq *cq, void *buffer, size_t count)
{
    struct fi_cq_data_entry came[OFI_EVENTS];
    size_t most = pair_weather.nulls || pair_weather.doubles ? count / 2 : count;
    ssize_t n;

    pair_weather.reads++;
    if (pair_weather.read_fails != 0) {
        return pair_weather.read_fails;
    }
    if (pair_weather.native != 0 && nkept > 0) {
        return -FI_EAVAIL;
    }
    if (!pair_weather.withholds && nkept > 0) {
        return give_kept(buffer, count);
    }
    cr_assert(most <= OFI_EVENTS);
    n = queue_real.read(cq, came, most);
    if (n > (ssize_t)pair_weather.entries) {
        pair_weather.entries = (unsigned)n;
    }
    return n <= 0 ? n : sift(came, n, buffer);
}

static ssize_t queue_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
    bool is_kept = pair_weather.native != 0 && nkept > 0;

    if (pair_weather.read_fails == 0 && !is_kept) {
        return queue_real.readerr(cq, entry, flags);
    }
    memset(entry, 0, sizeof(*entry));
    entry->err = pair_weather.error;
    if (is_kept) {
        entry->op_context = kept[--nkept].op_context;
        entry->prov_errno = pair_weather.native;
        pair_weather.flying--;
    }
    return 1;
}

/* ---------------------------------------------------------------- sends */

static ssize_t judge(void)
{
    if (pair_weather.send_fails != 0) {
        return pair_weather.send_fails;
    }
    if (pair_weather.refuses == 0) {
        return 0;
    }
    pair_weather.refuses--;
    pair_weather.refused++;
    return -FI_EAGAIN;
}

static ssize_t count(ssize_t rc)
{
    if (rc == 0) {
        pair_weather.sends++;
        pair_weather.flying++;
    }
    if (pair_weather.flying > pair_weather.most) {
        pair_weather.most = pair_weather.flying;
    }
    return rc;
}

static ssize_t send_one(struct fid_ep *ep, const void *data, size_t bytes, void *desc, fi_addr_t to,
                        void *context)
{
    ssize_t rc = judge();

    return rc != 0 ? rc : count(send_real.send(ep, data, bytes, desc, to, context));
}

static ssize_t send_message(struct fid_ep *ep, const struct fi_msg *message, uint64_t flags)
{
    ssize_t rc = judge();

    return rc != 0 ? rc : count(send_real.sendmsg(ep, message, flags));
}

static int remove_address(struct fid_av *av, fi_addr_t *address, size_t n, uint64_t flags)
{
    pair_weather.removed++;
    return table_real.remove(av, address, n, flags);
}

static void put_between(struct ofi_engine *ofi)
{
    queue_real = *ofi->cq->ops;
    queue_ours = queue_real;
    queue_ours.read = queue_read;
    queue_ours.readerr = queue_readerr;
    ofi->cq->ops = &queue_ours;
    send_real = *ofi->carrier->msg;
    send_ours = send_real;
    send_ours.send = send_one;
    send_ours.sendmsg = send_message;
    ofi->carrier->msg = &send_ours;
    table_real = *ofi->av->ops;
    table_ours = table_real;
    table_ours.remove = remove_address;
    ofi->av->ops = &table_ours;
}

/* ---------------------------------------------------------------- the pair */

static void on_message(void *user, struct fab_rx *rx)
{
    (void)user;
    cr_assert(pair_came < PAIR_MOST && rx->bytes == 8);
    pair_order[pair_came++] = (unsigned)rx->header;
}

static void on_done(struct fab_op *op, int status)
{
    struct pair_op *mine = container_of(op, struct pair_op, op);

    mine->ends++;
    mine->status = status;
    pair_ended++;
}

static void open_one(struct fab *fabric)
{
    cr_assert(fab_open(fabric, "ofi", NULL) == 0, "%s", orl_last_error());
    fab_handler_set(fabric, PAIR_HANDLER, on_message, NULL);
}

void pair_open(const char *provider)
{
    cr_assert(setenv("ORIEL_OFI_PROVIDER", provider, 1) == 0);
    cr_assert(orl_conf_load() == 0, "%s", orl_last_error());
    memset(&pair_weather, 0, sizeof(pair_weather));
    pair_came = 0;
    pair_ended = 0;
    nkept = 0;
    open_one(&pair_a);
    open_one(&pair_b);
    put_between(pair_engine(&pair_a));
}

void pair_close(void)
{
    fab_close(&pair_a);
    fab_close(&pair_b);
}

void pair_poll(void)
{
    (void)fab_progress(&pair_a);
    (void)fab_progress(&pair_b);
}

struct fab_ep *pair_ep(struct fab *from, struct fab *to)
{
    unsigned char blob[FAB_ADDRESS_BYTES];
    struct fab_ep *ep = NULL;
    size_t bytes = 0;

    cr_assert(fab_engine_address(to->engine[0], blob, &bytes) == 0);
    cr_assert(fab_ep_open(from->engine[0], blob, bytes, "the other", &ep) == 0, "%s",
              orl_last_error());
    return ep;
}

void pair_prepare(struct pair_op *op, unsigned index)
{
    static char text[] = "message";

    *op = (struct pair_op){ .index = index };
    op->op = (struct fab_op){ .kind = FAB_OP_SEND,
                              .done = on_done,
                              .handler = PAIR_HANDLER,
                              .operand = index,
                              .local = text,
                              .bytes = 8 };
}

void pair_send(struct fab_ep *ep, struct pair_op *op, unsigned index)
{
    pair_prepare(op, index);
    fab_post(ep, &op->op);
}
