/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fabrics and domains: wrappers around the inner provider's, from which all else is made.
 */
#include "strict.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---------------------------------------------------------------- threads */

/* Promised is that no two threads are in one domain at once (or in one object, which is no less
 * than what can be checked here: an endpoint and its queues are worked by one domain). */
void st_enter(struct st_domain *domain)
{
    int self = (int)syscall(SYS_gettid);
    int nobody = 0;

    if (domain->threading == FI_THREAD_DOMAIN &&
        !__atomic_compare_exchange_n(&domain->caller, &nobody, self, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED)) {
        st_violation("threads %d and %d are in one domain, opened with FI_THREAD_DOMAIN", nobody,
                     self);
    }
    st_lock();
}

void st_leave(struct st_domain *domain)
{
    st_unlock();
    if (domain->threading == FI_THREAD_DOMAIN) {
        __atomic_store_n(&domain->caller, 0, __ATOMIC_RELEASE);
    }
}

/* ---------------------------------------------------------------- domain */

static int domain_close(struct fid *fid)
{
    struct st_domain *domain = st_of(fid, struct st_domain, fid.fid);

    if (domain->users != 0) {
        st_violation("a domain is closed with %d objects of it open", domain->users);
        return -FI_EBUSY;
    }
    (void)fi_close(&domain->inner->fid);
    fi_freeinfo(domain->inner_info);
    domain->fabric->users--;
    (void)__atomic_fetch_sub(&st_counts.fids, 1, __ATOMIC_RELAXED);
    free(domain);
    return 0;
}

static int no_scalable(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                       void *context)
{
    (void)domain;
    (void)info;
    (void)ep;
    (void)context;
    return st_unsupported("a scalable endpoint");
}

static int no_counter(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                      void *context)
{
    (void)domain;
    (void)attr;
    (void)cntr;
    (void)context;
    return st_unsupported("a counter");
}

static int no_poll(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **pollset)
{
    (void)domain;
    (void)attr;
    (void)pollset;
    return st_unsupported("a poll set");
}

static int no_shared_tx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
                        void *context)
{
    (void)domain;
    (void)attr;
    (void)stx;
    (void)context;
    return st_unsupported("a shared transmit context");
}

static int no_shared_rx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **ep,
                        void *context)
{
    (void)domain;
    (void)attr;
    (void)ep;
    (void)context;
    return st_unsupported("a shared receive context");
}

static int no_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
                     struct fi_atomic_attr *attr, uint64_t flags)
{
    (void)domain;
    (void)datatype;
    (void)op;
    (void)attr;
    (void)flags;
    return st_unsupported("an atomic");
}

static int no_collective(struct fid_domain *domain, enum fi_collective_op coll,
                         struct fi_collective_attr *attr, uint64_t flags)
{
    (void)domain;
    (void)coll;
    (void)attr;
    (void)flags;
    return st_unsupported("a collective");
}

static struct fi_ops domain_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = domain_close,
    .bind = st_no_bind,
    .control = st_no_control,
    .ops_open = st_ops_open,
};

static struct fi_ops_domain domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .av_open = st_av_open,
    .cq_open = st_cq_open,
    .endpoint = st_ep_open,
    .scalable_ep = no_scalable,
    .cntr_open = no_counter,
    .poll_open = no_poll,
    .stx_ctx = no_shared_tx,
    .srx_ctx = no_shared_rx,
    .query_atomic = no_atomic,
    .query_collective = no_collective,
};

static int domain_open(struct fid_fabric *fabric_fid, struct fi_info *info,
                       struct fid_domain **domain_fid, void *context)
{
    struct st_fabric *fabric = st_of(fabric_fid, struct st_fabric, fid);
    struct st_domain *domain = calloc(1, sizeof *domain);
    int rc;

    if (domain == NULL) {
        return -FI_ENOMEM;
    }
    rc = st_inner_info(info, &domain->inner_info);
    rc = rc != 0 ? rc : fi_domain(fabric->inner, domain->inner_info, &domain->inner, NULL);
    if (rc != 0) {
        fi_freeinfo(domain->inner_info);
        free(domain);
        return rc;
    }
    domain->fid.fid.fclass = FI_CLASS_DOMAIN;
    domain->fid.fid.context = context;
    domain->fid.fid.ops = &domain_fid_ops;
    domain->fid.ops = &domain_ops;
    domain->fid.mr = &st_mr_ops;
    domain->fabric = fabric;
    domain->threading = info->domain_attr->threading;
    st_list_init(&domain->eps);
    st_list_init(&domain->mrs);
    st_list_init(&domain->cqs);
    fabric->users++;
    (void)__atomic_fetch_add(&st_counts.fids, 1, __ATOMIC_RELAXED);
    *domain_fid = &domain->fid;
    return 0;
}

static int domain_open2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                        uint64_t flags, void *context)
{
    return flags != 0 ? -FI_EINVAL : domain_open(fabric, info, domain, context);
}

/* ---------------------------------------------------------------- fabric */

static int fabric_close(struct fid *fid)
{
    struct st_fabric *fabric = st_of(fid, struct st_fabric, fid.fid);

    if (fabric->users != 0) {
        st_violation("a fabric is closed with %d objects of it open", fabric->users);
        return -FI_EBUSY;
    }
    (void)fi_close(&fabric->inner->fid);
    (void)__atomic_fetch_sub(&st_counts.fids, 1, __ATOMIC_RELAXED);
    free(fabric);
    return 0;
}

static int no_passive(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                      void *context)
{
    (void)fabric;
    (void)info;
    (void)pep;
    (void)context;
    return st_unsupported("a passive endpoint");
}

static int eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                   void *context)
{
    struct st_fabric *self = st_of(fabric, struct st_fabric, fid);

    return fi_eq_open(self->inner, attr, eq, context);
}

static int no_wait_set(struct fid_fabric *fabric, struct fi_wait_attr *attr,
                       struct fid_wait **waitset)
{
    (void)fabric;
    (void)attr;
    (void)waitset;
    return st_unsupported("a wait set");
}

static int trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    int rc = 0;
    int i;

    (void)fabric;
    if (st_conf.wait == 0) {
        return st_unsupported("fi_trywait");
    }
    for (i = 0; rc == 0 && i < count; i++) {
        struct st_cq *cq = st_of(fids[i], struct st_cq, fid.fid);

        if (fids[i]->fclass != FI_CLASS_CQ) {
            return -FI_EINVAL;
        }
        st_enter(cq->domain);
        rc = st_cq_trywait(cq);
        st_leave(cq->domain);
    }
    return rc;
}

static struct fi_ops fabric_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = fabric_close,
    .bind = st_no_bind,
    .control = st_no_control,
    .ops_open = st_ops_open,
};

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = domain_open,
    .passive_ep = no_passive,
    .eq_open = eq_open,
    .wait_open = no_wait_set,
    .trywait = trywait,
    .domain2 = domain_open2,
};

/* The inner provider wants attributes of its own. */
static int open_inner(const struct fi_fabric_attr *attr, struct st_fabric *fabric)
{
    struct fi_fabric_attr like_attr = { .name = attr->name };
    struct fi_info like = { .fabric_attr = &like_attr };
    struct fi_info *info = NULL;
    int rc = st_inner_info(&like, &info);

    if (rc == 0) {
        rc = fi_fabric(info->fabric_attr, &fabric->inner, NULL);
        fi_freeinfo(info);
    }
    return rc;
}

int st_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric_fid, void *context)
{
    struct st_fabric *fabric = calloc(1, sizeof *fabric);
    int rc;

    st_conf_load();
    if (fabric == NULL) {
        return -FI_ENOMEM;
    }
    rc = open_inner(attr, fabric);
    if (rc != 0) {
        free(fabric);
        return rc;
    }
    fabric->fid.fid.fclass = FI_CLASS_FABRIC;
    fabric->fid.fid.context = context;
    fabric->fid.fid.ops = &fabric_fid_ops;
    fabric->fid.ops = &fabric_ops;
    (void)__atomic_fetch_add(&st_counts.fids, 1, __ATOMIC_RELAXED);
    *fabric_fid = &fabric->fid;
    return 0;
}
