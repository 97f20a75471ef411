/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control table of the libfabric transport: bringing an engine up and down, its address, and
 * endpoints. An address is the engine's cookie, the wire's version and the libfabric address; the
 * cookie is random, so that nobody without the address can say anything the engine listens to.
 */
#include "fabric/ofi/ofi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"

#define BUFFERS    64                    /* receives that are posted */
#define STAGGER    192                   /* neighbours must not share the sets of a cache */
#define SENDS      256                   /* messages at the provider, if it takes as many */
#define SLOTS      4096                  /* send buffers of each size, at most */
#define CLOSE_WAIT (500 * ORL_NS_PER_MS) /* for the last messages to leave */
#define SMALL      ((size_t)384)         /* what stands alone fits twice */

struct address_blob {
    uint64_t cookie;
    uint8_t version;
    uint8_t bytes;
    uint8_t zero[2];
    uint8_t name[OFI_NAME_BYTES];
};

#define BLOB_FIXED offsetof(struct address_blob, name)
_Static_assert(sizeof(struct address_blob) <= FAB_ADDRESS_BYTES, "fits an address");

/* ---------------------------------------------------------------- open */

static int say(const struct ofi_engine *ofi, const char *what, long rc)
{
    return orl_fail(ORL_ERR_SYS, "%s of provider %s cannot be opened: %s: %s", ofi->base.name,
                    ofi->base.nic.provider, what, fi_strerror((int)-rc));
}

static int open_queue(struct ofi_engine *ofi)
{
    struct fi_cq_attr attr = { .size = BUFFERS + SENDS + OFI_READS + OFI_EVENTS,
                               .format = FI_CQ_FORMAT_DATA,
                               .wait_obj = FI_WAIT_FD };
    int rc = fi_cq_open(ofi->domain, &attr, &ofi->cq, NULL);

    if (rc == 0) {
        rc = fi_control(&ofi->cq->fid, FI_GETWAIT, &ofi->wait_fd);
        if (rc == 0) {
            return 0;
        }
        (void)fi_close(&ofi->cq->fid);
    }
    ofi->wait_fd = -1;
    attr.wait_obj = FI_WAIT_NONE;
    rc = fi_cq_open(ofi->domain, &attr, &ofi->cq, NULL);
    return rc == 0 ? 0 : say(ofi, "completion queue", rc);
}

static int open_carrier(struct ofi_engine *ofi)
{
    struct fi_av_attr attr = { .type = FI_AV_TABLE };
    int rc = fi_av_open(ofi->domain, &attr, &ofi->av, NULL);

    rc = rc != 0 ? rc : fi_endpoint(ofi->domain, ofi->info, &ofi->carrier, NULL);
    rc = rc != 0 ? rc : fi_ep_bind(ofi->carrier, &ofi->av->fid, 0);
    rc = rc != 0 ? rc : fi_ep_bind(ofi->carrier, &ofi->cq->fid, FI_TRANSMIT | FI_RECV);
    rc = rc != 0 ? rc : fi_enable(ofi->carrier);
    if (rc != 0) {
        return say(ofi, "endpoint", rc);
    }
    /* The length first: what does not fit is no error of fi_getname on all providers. */
    ofi->name_bytes = 0;
    (void)fi_getname(&ofi->carrier->fid, NULL, &ofi->name_bytes);
    if (ofi->name_bytes == 0 || ofi->name_bytes > sizeof(ofi->name)) {
        return orl_fail(ORL_ERR_UNSUPP,
                        "%s of provider %s has an address of %zu bytes, not 1 to %d",
                        ofi->base.name, ofi->base.nic.provider, ofi->name_bytes, OFI_NAME_BYTES);
    }
    rc = fi_getname(&ofi->carrier->fid, ofi->name, &ofi->name_bytes);
    return rc == 0 ? 0 : say(ofi, "address", rc);
}

static int open_buffers(struct ofi_engine *ofi)
{
    size_t stride = ((ofi->message_bytes + 63) & ~(size_t)63) + STAGGER;
    uint32_t n = (uint32_t)ofi->info->rx_attr->size;
    void *desc = NULL;
    int status;

    ofi->buffer = calloc(n, sizeof(*ofi->buffer));
    if (ofi->buffer == NULL ||
        posix_memalign((void **)&ofi->buffer_memory, 4096, stride * n) != 0) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for %u receive buffers of %zu bytes", n, stride);
    }
    status = ofi_local_reg(ofi, ofi->buffer_memory, stride * n, "receive buffers", &ofi->buffer_mr,
                           &desc);
    if (status != 0) {
        return status;
    }
    ofi->nbuffers = n;
    for (uint32_t i = 0; i < n; i++) {
        ofi->buffer[i].context.use = OFI_USE_RECEIVE;
        ofi->buffer[i].desc = desc;
        ofi->buffer[i].data = ofi->buffer_memory + i * stride;
        ofi_buffer_post(ofi, &ofi->buffer[i]);
    }
    return ofi_slots_init(ofi, &ofi->large, ofi->message_bytes, SLOTS);
}

/* Without a descriptor the engine is polled. The provider's descriptor counts by its edges: that of
 * `net` in 1.17 stays readable for ever after the first completion, whatever fi_trywait says. */
static int open_waiting(struct ofi_engine *ofi)
{
    struct epoll_event event = { .events = EPOLLIN };
    struct epoll_event edge = { .events = EPOLLIN | EPOLLET };

    if (ofi->wait_fd < 0) {
        return 0;
    }
    ofi->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    ofi->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (ofi->epoll_fd < 0 || ofi->timer_fd < 0 ||
        epoll_ctl(ofi->epoll_fd, EPOLL_CTL_ADD, ofi->timer_fd, &event) != 0 ||
        epoll_ctl(ofi->epoll_fd, EPOLL_CTL_ADD, ofi->wait_fd, &edge) != 0) {
        return orl_fail(ORL_ERR_SYS, "%s cannot be slept on: %s", ofi->base.name,
                        orl_os_text(errno));
    }
    return 0;
}

static void lower(size_t *value, size_t most)
{
    if (*value > most || *value == 0) {
        *value = most;
    }
}

static int bring_up(struct ofi_engine *ofi, const struct fab_nic *nic)
{
    int status = ofi_pick_info(nic, &ofi->info);

    if (status != 0) {
        return status;
    }
    /* Some providers make memory for as many at once, at every connection. */
    lower(&ofi->info->rx_attr->size, BUFFERS);
    lower(&ofi->info->tx_attr->size, SENDS);
    int rc = fi_fabric(ofi->info->fabric_attr, &ofi->fabric, NULL);
    rc = rc != 0 ? rc : fi_domain(ofi->fabric, ofi->info, &ofi->domain, NULL);
    if (rc != 0) {
        return say(ofi, "domain", rc);
    }
    ofi->message_bytes = ofi->facts->message_bytes;
    lower(&ofi->message_bytes, ofi->info->ep_attr->max_msg_size);
    ofi->message_bytes &= ~(size_t)7;
    if (ofi->message_bytes < SMALL) {
        return orl_fail(ORL_ERR_UNSUPP, "%s of provider %s takes messages of %zu bytes, not %zu",
                        ofi->base.name, ofi->base.nic.provider, ofi->message_bytes, SMALL);
    }
    status = open_queue(ofi);
    status = status != 0 ? status : open_carrier(ofi);
    status = status != 0 ? status : ofi_slots_init(ofi, &ofi->small, SMALL, SLOTS);
    status = status != 0 ? status : open_buffers(ofi);
    return status != 0 ? status : open_waiting(ofi);
}

static void close_fid(struct fid *fid)
{
    if (fid != NULL) {
        (void)fi_close(fid);
    }
}

static void take_down(struct ofi_engine *ofi)
{
    bool is_bound = ofi->info != NULL && (ofi->info->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0;

    /* Contexts are the provider's until its queue is closed, and memory is in use until its
     * endpoint is; but for registrations that are bound to that, which go before it. */
    if (is_bound) {
        ofi_slots_dereg(&ofi->small);
        ofi_slots_dereg(&ofi->large);
        ofi_local_dereg(&ofi->buffer_mr);
    }
    ofi_bulk_close(ofi);
    close_fid(ofi->carrier == NULL ? NULL : &ofi->carrier->fid);
    close_fid(ofi->cq == NULL ? NULL : &ofi->cq->fid);
    ofi_bulk_fini(ofi);
    ofi_slots_dereg(&ofi->small);
    ofi_slots_dereg(&ofi->large);
    ofi_local_dereg(&ofi->buffer_mr);
    ofi_slots_fini(&ofi->small);
    ofi_slots_fini(&ofi->large);
    close_fid(ofi->av == NULL ? NULL : &ofi->av->fid);
    close_fid(ofi->domain == NULL ? NULL : &ofi->domain->fid);
    close_fid(ofi->fabric == NULL ? NULL : &ofi->fabric->fid);
    if (ofi->info != NULL) {
        fi_freeinfo(ofi->info);
    }
    if (ofi->epoll_fd >= 0) {
        (void)close(ofi->epoll_fd);
    }
    if (ofi->timer_fd >= 0) {
        (void)close(ofi->timer_fd);
    }
    free(ofi->buffer_memory);
    free(ofi->buffer);
    free(ofi->regs.at);
    ofi_table_fini(&ofi->eps);
    ofi_table_fini(&ofi->halves);
    orl_map_fini(&ofi->peer_of);
    fab_engine_fini(&ofi->base);
    free(ofi);
}

static void set_limits(struct ofi_engine *ofi)
{
    size_t most;

    ofi->room = ofi->message_bytes - sizeof(struct ofi_header) - sizeof(struct ofi_piece);
    most = ofi->room - sizeof(struct ofi_access);
    most = most < OFI_SHORT ? most : OFI_SHORT;
    ofi->send_cap = SENDS;
    if (ofi->info->tx_attr->size != 0 && ofi->info->tx_attr->size < SENDS) {
        ofi->send_cap = (uint32_t)ofi->info->tx_attr->size;
    }
    ofi->base.limits = (struct fab_limits){
        .put_short = most,
        .send_short = most,
        .send_max = ofi->room - sizeof(uint64_t),
        .op_max = FAB_UNLIMITED,
        .poll_unit = ofi->room - sizeof(struct ofi_access),
        .amo_widths = 4 | 8,
        .amo_align = 8,
        .address_bytes = BLOB_FIXED + ofi->name_bytes,
        .rkey_bytes = ofi_rkey_bytes(),
        .ordered = true,
        .needs_target = true,
    };
    (void)snprintf(ofi->base.tag, sizeof(ofi->base.tag), "ofi-%.8s-%d", ofi->base.nic.provider,
                   OFI_WIRE_VERSION);
}

static int ofi_open(struct fab *fabric, const struct fab_nic *nic, struct fab_engine **engine)
{
    struct ofi_engine *ofi = calloc(1, sizeof(*ofi));
    int status;

    if (ofi == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for the engine %s", nic->name);
    }
    status = orl_sys_random(&ofi->cookie, sizeof(ofi->cookie));
    status = status != 0 ? status : orl_sys_random(&ofi->next_key, sizeof(ofi->next_key));
    if (status != 0) {
        free(ofi);
        return status;
    }
    fab_engine_init(&ofi->base, &fab_ofi_ops, fabric, nic->name);
    ofi->base.nic = *nic;
    ofi->facts = ofi_facts_of(nic->provider);
    ofi->cookie |= 1; /* never 0 */
    ofi->wait_fd = -1;
    ofi->epoll_fd = -1;
    ofi->timer_fd = -1;
    ofi->timer_at = ORL_NEVER;
    orl_list_init(&ofi->peers);
    orl_list_init(&ofi->connecting);
    orl_list_init(&ofi->waiting);
    orl_list_init(&ofi->troubled);
    orl_list_init(&ofi->owing);
    orl_list_init(&ofi->unsent);
    orl_fifo_init(&ofi->unposted);
    orl_map_init(&ofi->peer_of);
    status = bring_up(ofi, nic);
    if (status != 0) {
        take_down(ofi);
        return status;
    }
    set_limits(ofi);
    *engine = &ofi->base;
    return 0;
}

/* ---------------------------------------------------------------- close */

/* What has been said last must leave; peers' endpoints may still be open and talk to nobody. */
static void ofi_close(struct fab_engine *engine)
{
    struct ofi_engine *ofi = ofi_of(engine);
    uint64_t limit = orl_deadline_in((int64_t)CLOSE_WAIT);

    ofi->is_closing = true;
    while ((ofi->nsending != 0 || ofi->farewells != NULL || !orl_list_is_empty(&ofi->unsent)) &&
           ofi->dead == 0 && !orl_deadline_passed(limit)) {
        (void)ofi_progress(engine);
    }
    orl_lock(&engine->tx);
    ofi_farewells_drop(ofi, NULL);
    while (!orl_list_is_empty(&ofi->peers)) {
        struct ofi_peer *peer = container_of(ofi->peers.next, struct ofi_peer, all);

        peer->busy = 1;
        while (!orl_list_is_empty(&peer->halves)) {
            ofi_half_end(ofi, container_of(peer->halves.next, struct ofi_half, of_peer));
        }
        peer->busy = 0;
        ofi_peer_drop(ofi, peer);
    }
    orl_unlock(&engine->tx);
    take_down(ofi);
}

/* ---------------------------------------------------------------- addresses and endpoints */

static void ofi_address(struct fab_engine *engine, void *blob)
{
    const struct ofi_engine *ofi = ofi_of(engine);
    struct address_blob made = { .cookie = ofi->cookie,
                                 .version = OFI_WIRE_VERSION,
                                 .bytes = (uint8_t)ofi->name_bytes };

    memcpy(made.name, ofi->name, ofi->name_bytes);
    memcpy(blob, &made, BLOB_FIXED + ofi->name_bytes);
}

static int read_address(const struct ofi_engine *ofi, const void *address, size_t bytes,
                        const char *label, struct address_blob *blob)
{
    memset(blob, 0, sizeof(*blob));
    memcpy(blob, address, bytes < sizeof(*blob) ? bytes : sizeof(*blob));
    if (blob->version != OFI_WIRE_VERSION && blob->cookie != 0 && blob->version != 0) {
        return orl_fail(ORL_ERR_UNSUPP,
                        "%s speaks version %u of the wire of ofi, this end version %d: use one "
                        "version of the library in all ranks",
                        label == NULL ? "the peer" : label, blob->version, OFI_WIRE_VERSION);
    }
    if (blob->cookie == 0 || blob->bytes != ofi->name_bytes) {
        return orl_fail(ORL_ERR_INVAL, "these %zu bytes are no address of %s", bytes,
                        ofi->base.nic.provider);
    }
    return 0;
}

static int ofi_ep_open(struct fab_engine *engine, const void *address, size_t bytes,
                       const char *label, struct fab_ep **ep)
{
    struct ofi_engine *ofi = ofi_of(engine);
    struct address_blob blob;
    struct ofi_ep *made;
    int status = read_address(ofi, address, bytes, label, &blob);

    if (status != 0) {
        return status;
    }
    if (ofi->dead != 0) {
        return orl_fail(ofi->dead, "%s cannot be reached over %s, which has been given up", label,
                        engine->name);
    }
    made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for an endpoint of %zu bytes", sizeof(*made));
    }
    made->idle = UINT64_MAX;
    orl_fifo_init(&made->flushes);
    orl_list_init(&made->of_peer);
    orl_list_init(&made->connecting);
    orl_list_init(&made->waiting);
    ofi_ep_large_init(made);
    fab_ep_init(&made->base, engine, &fab_connecting_ops, label);
    orl_lock(&engine->tx);
    status = ofi_table_add(&ofi->eps, made, &made->id);
    if (status == 0) {
        status = ofi_peer_get(ofi, blob.cookie, blob.name, blob.bytes, &made->peer);
        if (status != 0) {
            ofi_table_del(&ofi->eps, made->id);
        }
    }
    if (status == 0) {
        orl_list_add_tail(&made->peer->eps, &made->of_peer);
        orl_list_add_tail(&ofi->connecting, &made->connecting);
    }
    orl_unlock(&engine->tx);
    if (status != 0) {
        fab_ep_fini(&made->base);
        free(made);
        return status;
    }
    *ep = &made->base;
    return 0;
}

static void ofi_ep_close(struct fab_ep *base)
{
    struct ofi_engine *ofi = ofi_of(base->engine);
    struct ofi_ep *ep = ofi_ep_of(base);

    orl_lock(&base->engine->tx);
    ofi_say_bye(ofi, ep);
    ofi_table_del(&ofi->eps, ep->id);
    orl_list_del(&ep->of_peer);
    orl_list_del(&ep->connecting);
    orl_list_del(&ep->waiting);
    ofi_peer_drop(ofi, ep->peer);
    orl_unlock(&base->engine->tx);
    fab_ep_fini(base);
    free(ep);
}

/* By position, so that a new slot breaks the build. */
const struct fab_transport_ops fab_ofi_ops = {
    "ofi",             /* name */
    ofi_pick,          /* probe */
    ofi_open,          /* open */
    ofi_close,         /* close */
    ofi_address,       /* address */
    ofi_reg,           /* reg */
    ofi_dereg,         /* dereg */
    ofi_rkey_pack,     /* rkey_pack */
    ofi_rkey_open,     /* rkey_open */
    fab_no_rkey_close, /* rkey_close */
    ofi_ep_open,       /* ep_open */
    ofi_ep_stop,       /* ep_stop */
    ofi_ep_close,      /* ep_close */
    ofi_progress,      /* progress */
    ofi_arm,           /* arm */
    ofi_rx_release,    /* rx_release */
};
