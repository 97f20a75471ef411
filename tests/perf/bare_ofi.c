/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The floor of what a network through libfabric can give: oriel-perf's put and get tests, with its
 * sizes, samples, checks, tables and JSON lines, on nothing but fi_writemsg(FI_DELIVERY_COMPLETE)
 * and fi_readmsg between two processes. perf_ops.h by libfabric; the rest is oriel-perf's. Run by
 * hand, or as a contestant of tools/compare.
 *
 *   BARE_PROVIDER=tcp;ofi_rxm bare_ofi put_lat put_bw         two processes over loopback
 *   BARE_AT=10.77.0.2 mpirun -n 2 bare_ofi put_lat            rank 1 is on the host of that address
 *
 *   BARE_PROVIDER   a provider by name (default net)
 *   BARE_THREAD=1   its threading is FI_THREAD_DOMAIN, else FI_THREAD_SAFE
 *   BARE_MANUAL=1   it moves nothing by itself, else as it likes
 *   BARE_PARK=1     the target sleeps until there is something to do, else it polls
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include "bare_link.h"
#include "bare_ofi.h"
#include "perf.h"

enum {
    ADDRESS_BYTES = 128,
    CONTEXTS = 4096,
    PARK_MS = 10
};

const char ops_program[] = "bare_ofi";
const char ops_interface[] = "libfabric";

/* What the other process must know of a memory. */
struct offer {
    uint64_t address;
    uint64_t key;
    uint64_t bytes;
};

struct ops_mem {
    unsigned char *base;
    struct fid_mr *mr;
    struct offer theirs;
};

int bare_rank;
static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_av *av;
static struct fid_ep *ep;
static fi_addr_t peer;
static uint64_t outstanding;
static struct fi_context2 contexts[CONTEXTS];
static bool parks;

/* What the provider wants to know of local memory, where it does. */
static struct fid_mr *local_mr;
static const unsigned char *local_base;
static size_t local_bytes;

static _Noreturn void die(const char *what, int code)
{
    char text[200];

    (void)snprintf(text, sizeof(text), "bare_ofi: rank %d: %s: %s", bare_rank, what,
                   fi_strerror(-code));
    ops_abort(text);
}

static void must(int code, const char *what)
{
    if (code != 0) {
        die(what, code);
    }
}

void ops_abort(const char *text)
{
    fflush(stdout);
    fprintf(stderr, "%s\n", text);
    _exit(PERF_FAILED);
}

const char *ops_version(void)
{
    static char text[64];
    uint32_t version = fi_version();

    (void)snprintf(text, sizeof(text), "%u.%u", FI_MAJOR(version), FI_MINOR(version));
    return text;
}

static const char *provider(void)
{
    const char *name = getenv("BARE_PROVIDER");

    return name != NULL && *name != '\0' ? name : "net";
}

static bool is_set(const char *name)
{
    const char *text = getenv(name);

    return text != NULL && strcmp(text, "1") == 0;
}

const char *ops_transport(int of)
{
    (void)of;
    return provider();
}

/* ---------------------------------------------------------------- progress */

static void reap(void)
{
    struct fi_cq_data_entry entries[16];
    struct fi_cq_err_entry error = { 0 };
    ssize_t n = fi_cq_read(cq, entries, 16);

    if (n > 0) {
        outstanding -= (uint64_t)n;
    } else if (n == -FI_EAVAIL) {
        (void)fi_cq_readerr(cq, &error, 0);
        die("an operation", -error.err);
    } else if (n != -FI_EAGAIN) {
        die("fi_cq_read", (int)n);
    }
}

static void wait_for_all(void)
{
    while (outstanding > 0) {
        reap();
    }
}

/* While the other one measures: look at the queue often and at the link seldom, as the loop that
 * calls this looks at it once each time. */
void bare_idle(void)
{
    struct fid *fids[] = { &cq->fid };
    struct pollfd fds[] = { { .fd = bare_link_fd(), .events = POLLIN }, { .events = POLLIN } };

    for (int i = 0; i < 32; i++) {
        reap();
    }
    if (parks && fi_control(&cq->fid, FI_GETWAIT, &fds[1].fd) == 0 &&
        fi_trywait(fabric, fids, 1) == 0) {
        (void)poll(fds, 2, PARK_MS);
    }
}

/* ---------------------------------------------------------------- the job */

static void find_provider(void)
{
    struct fi_info *hints = fi_allocinfo();
    int code;

    if (hints == NULL) {
        die("fi_allocinfo", -FI_ENOMEM);
    }
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup(provider());
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = is_set("BARE_THREAD") ? FI_THREAD_DOMAIN : FI_THREAD_SAFE;
    if (is_set("BARE_MANUAL")) {
        hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
        hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    }
    code = fi_getinfo(FI_VERSION(1, 14), bare_link_address(), NULL, FI_SOURCE, hints, &info);
    fi_freeinfo(hints);
    if (code != 0) {
        fprintf(stderr, "bare_ofi: no provider %s at %s: %s\n", provider(), bare_link_address(),
                fi_strerror(-code));
        _exit(PERF_FAILED);
    }
}

static void open_endpoint(void)
{
    struct fi_cq_attr cq_attr = { .size = CONTEXTS,
                                  .format = FI_CQ_FORMAT_DATA,
                                  .wait_obj = parks ? FI_WAIT_FD : FI_WAIT_NONE };
    struct fi_av_attr av_attr = { .type = FI_AV_TABLE, .count = 2 };

    must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    must(fi_domain(fabric, info, &domain, NULL), "fi_domain");
    must(fi_cq_open(domain, &cq_attr, &cq, NULL), "fi_cq_open");
    must(fi_av_open(domain, &av_attr, &av, NULL), "fi_av_open");
    must(fi_endpoint(domain, info, &ep, NULL), "fi_endpoint");
    must(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind");
    must(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    must(fi_enable(ep), "fi_enable");
}

bool ops_open(struct ops_job *job)
{
    unsigned char mine[ADDRESS_BYTES] = { 0 };
    unsigned char theirs[ADDRESS_BYTES];
    size_t bytes = sizeof(mine);

    parks = is_set("BARE_PARK");
    if (!bare_link_open(&bare_rank)) {
        return false;
    }
    find_provider();
    open_endpoint();
    must(fi_getname(&ep->fid, mine, &bytes), "fi_getname");
    bare_swap(mine, theirs, sizeof(mine));
    if (fi_av_insert(av, theirs, 1, &peer, 0, NULL) != 1) {
        die("fi_av_insert", -FI_EINVAL);
    }
    job->rank = bare_rank;
    job->size = 2;
    job->hosts = bare_link_is_local() ? 1 : 2;
    return true;
}

bool ops_close(void)
{
    ops_sync(NULL);
    must(fi_close(&ep->fid), "fi_close");
    must(fi_close(&av->fid), "fi_close");
    must(fi_close(&cq->fid), "fi_close");
    must(fi_close(&domain->fid), "fi_close");
    must(fi_close(&fabric->fid), "fi_close");
    fi_freeinfo(info);
    return bare_link_close();
}

/* ---------------------------------------------------------------- memory */

struct ops_mem *ops_mem_open(size_t bytes, enum ops_memory kind)
{
    struct ops_mem *mem = calloc(1, sizeof(*mem));
    struct offer mine = { .bytes = bytes };

    (void)kind;
    if (mem == NULL) {
        die("memory", -FI_ENOMEM);
    }
    if (bytes > 0) {
        mem->base = perf_alloc(bytes);
        memset(mem->base, 0, bytes);
        must(fi_mr_reg(domain, mem->base, bytes, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0x5eed, 0,
                       &mem->mr, NULL),
             "fi_mr_reg");
        if (info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
            must(fi_mr_bind(mem->mr, &ep->fid, 0), "fi_mr_bind");
            must(fi_mr_enable(mem->mr), "fi_mr_enable");
        }
        mine.key = fi_mr_key(mem->mr);
        if (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) {
            mine.address = (uintptr_t)mem->base;
        }
    }
    bare_swap(&mine, &mem->theirs, sizeof(mine));
    return mem;
}

unsigned char *ops_mem_base(const struct ops_mem *mem)
{
    return mem->base;
}

static void forget_local(void)
{
    if (local_mr != NULL) {
        must(fi_close(&local_mr->fid), "fi_close");
    }
    local_mr = NULL;
    local_base = NULL;
}

void ops_mem_close(struct ops_mem *mem)
{
    ops_sync(mem);
    forget_local();
    if (mem->mr != NULL) {
        must(fi_close(&mem->mr->fid), "fi_close");
    }
    free(mem->base);
    free(mem);
}

/* ---------------------------------------------------------------- measured */

static void *local_desc(const struct ops_move *move)
{
    size_t bytes = move->span > move->bytes ? move->span : move->bytes;

    if ((info->domain_attr->mr_mode & FI_MR_LOCAL) == 0) {
        return NULL;
    }
    if (local_base == move->local && local_bytes == bytes) {
        return fi_mr_desc(local_mr);
    }
    forget_local();
    must(fi_mr_reg(domain, move->local, bytes, FI_READ | FI_WRITE, 0, 0x10ca1, 0, &local_mr, NULL),
         "fi_mr_reg");
    local_base = move->local;
    local_bytes = bytes;
    return fi_mr_desc(local_mr);
}

/* One window, to its last completion. Whatever finds no room waits in place. */
static void window(const struct ops_move *move, void *desc, bool is_put)
{
    struct iovec iov = { .iov_len = move->bytes };
    struct fi_rma_iov rma = { .len = move->bytes, .key = move->mem->theirs.key };
    struct fi_msg_rma msg = { .msg_iov = &iov,
                              .desc = &desc,
                              .iov_count = 1,
                              .addr = peer,
                              .rma_iov = &rma,
                              .rma_iov_count = 1 };
    size_t place = 0;

    for (uint64_t i = 0; i < move->window; i++) {
        ssize_t code;

        iov.iov_base = move->local + place;
        rma.addr = move->mem->theirs.address + move->at + place;
        msg.context = &contexts[i % CONTEXTS];
        while (outstanding == CONTEXTS) {
            reap();
        }
        while ((code = is_put ? fi_writemsg(ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION)
                              : fi_readmsg(ep, &msg, FI_COMPLETION)) == -FI_EAGAIN) {
            reap();
        }
        must((int)code, is_put ? "fi_writemsg" : "fi_readmsg");
        outstanding++;
        place = place + move->bytes < move->span ? place + move->bytes : 0;
    }
    wait_for_all();
}

void ops_put(const struct ops_move *move, uint64_t n)
{
    void *desc = local_desc(move);

    for (uint64_t i = 0; i < n; i++) {
        window(move, desc, true);
    }
}

void ops_get(const struct ops_move *move, uint64_t n)
{
    void *desc = local_desc(move);

    for (uint64_t i = 0; i < n; i++) {
        window(move, desc, false);
    }
}
