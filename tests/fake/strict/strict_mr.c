/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations: keys drawn at random, and whether memory may be used as it is about to be, here
 * or by a peer.
 */
#include "strict.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOCAL  (FI_SEND | FI_RECV | FI_READ | FI_WRITE)
#define REMOTE (FI_REMOTE_READ | FI_REMOTE_WRITE)

/* ---------------------------------------------------------------- use */

static struct st_mr *by_desc(struct st_domain *domain, const void *desc)
{
    struct st_link *at;

    for (at = domain->mrs.next; at != &domain->mrs; at = at->next) {
        struct st_mr *mr = st_of(at, struct st_mr, link);

        if (mr == desc) {
            return mr;
        }
    }
    return NULL;
}

static bool covers(const struct st_mr *mr, uint64_t at, size_t bytes)
{
    return at >= mr->base && bytes <= mr->bytes && at - mr->base <= mr->bytes - bytes;
}

int st_mr_check(struct st_ep *ep, const struct iovec *iov, void *desc, uint64_t access,
                const char *what, struct st_mr **found)
{
    struct st_mr *mr = by_desc(ep->domain, desc);

    *found = NULL;
    if (iov->iov_len == 0) {
        return 0;
    }
    if (mr == NULL) {
        st_violation("%s of %zu bytes at %p with descriptor %p, which is no registration of this "
                     "domain",
                     what, iov->iov_len, iov->iov_base, desc);
        return -FI_EINVAL;
    }
    if (!covers(mr, (uintptr_t)iov->iov_base, iov->iov_len)) {
        st_violation("%s of %zu bytes at %p with the registration of %zu bytes at %p", what,
                     iov->iov_len, iov->iov_base, mr->bytes, (void *)mr->base);
        return -FI_EINVAL;
    }
    if ((mr->access & access) != access) {
        st_violation("%s with a registration that was not made for it (access 0x%llx, not 0x%llx)",
                     what, (unsigned long long)mr->access, (unsigned long long)access);
        return -FI_EINVAL;
    }
    *found = mr;
    return 0;
}

void st_mr_hold(struct st_mr *mr, int by)
{
    if (mr != NULL) {
        mr->users += (unsigned)by;
    }
}

void *st_mr_find(struct st_domain *domain, uint64_t key, uint64_t remote, size_t bytes,
                 uint64_t access, int *status)
{
    struct st_link *at;

    for (at = domain->mrs.next; at != &domain->mrs; at = at->next) {
        const struct st_mr *mr = st_of(at, struct st_mr, link);

        if (mr->fid.key != key) {
            continue;
        }
        if (!covers(mr, remote, bytes) || (mr->access & access) != access) {
            st_violation("a peer used the key of %zu bytes at 0x%llx, access 0x%llx, for %zu "
                         "bytes at 0x%llx and access 0x%llx",
                         mr->bytes, (unsigned long long)mr->base, (unsigned long long)mr->access,
                         bytes, (unsigned long long)remote, (unsigned long long)access);
            *status = ST_E_KEY;
            return NULL;
        }
        *status = 0;
        return (unsigned char *)mr->base + (remote - mr->base);
    }
    *status = ST_E_KEY;
    return NULL;
}

/* ---------------------------------------------------------------- life */

static int mr_close(struct fid *fid)
{
    struct st_mr *mr = st_of(fid, struct st_mr, fid.fid);
    struct st_domain *domain = mr->domain;

    st_enter(domain);
    if (mr->users != 0) {
        st_violation("a registration is ended under %u operations that use it", mr->users);
    }
    st_list_del(&mr->link);
    domain->users--;
    st_counts.mrs--;
    st_leave(domain);
    free(mr);
    return 0;
}

static struct fi_ops mr_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = mr_close,
    .bind = st_no_bind,
    .control = st_no_control,
    .ops_open = st_ops_open,
};

/* Pages that do not exist cannot be pinned. */
static bool is_there(uintptr_t base, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = base & ~(page - 1);
    uintptr_t end = (base + bytes + page - 1) & ~(page - 1);

    for (; first < end; first += page) {
        unsigned char in_core;

        if (mincore((unsigned char *)first, page, &in_core) != 0) {
            return false;
        }
    }
    return true;
}

static bool is_refused(void)
{
    st_counts.mrs_made++;
    if (st_conf.reg_fail != 0 && st_counts.mrs_made % st_conf.reg_fail == 0) {
        st_counts.mrs_refused++;
        return true;
    }
    return false;
}

static bool is_key(struct st_domain *domain, uint64_t key)
{
    struct st_link *at;

    for (at = domain->mrs.next; at != &domain->mrs; at = at->next) {
        if (st_of(at, struct st_mr, link)->fid.key == key) {
            return true;
        }
    }
    return false;
}

static uint64_t new_key(struct st_domain *domain)
{
    uint64_t key;

    do {
        key = 1 + st_random(UINT32_MAX);
    } while (is_key(domain, key));
    return key;
}

static int check(const struct iovec *iov, size_t count, uint64_t access, uint64_t flags)
{
    if (count != 1 || flags != 0) {
        return st_unsupported("a registration of several ranges, or with flags");
    }
    if (iov->iov_len == 0 || access == 0 || (access & ~(uint64_t)(LOCAL | REMOTE)) != 0) {
        st_violation("a registration of %zu bytes with access 0x%llx", iov->iov_len,
                     (unsigned long long)access);
        return -FI_EINVAL;
    }
    if (!is_there((uintptr_t)iov->iov_base, iov->iov_len)) {
        st_violation("a registration of %zu bytes at %p, where no memory is", iov->iov_len,
                     iov->iov_base);
        return -FI_EFAULT;
    }
    return 0;
}

static int regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
                uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr_fid,
                void *context)
{
    struct st_domain *domain = st_of(fid, struct st_domain, fid.fid);
    struct st_mr *mr;
    int rc = check(iov, count, access, flags);

    (void)requested_key;
    if (rc != 0 || offset != 0) {
        return rc != 0 ? rc : -FI_EINVAL;
    }
    mr = calloc(1, sizeof *mr);
    st_enter(domain);
    if (mr == NULL || is_refused()) {
        st_leave(domain);
        free(mr);
        return -FI_ENOMEM;
    }
    mr->fid.fid.fclass = FI_CLASS_MR;
    mr->fid.fid.context = context;
    mr->fid.fid.ops = &mr_fid_ops;
    mr->fid.mem_desc = mr;
    mr->fid.key = new_key(domain);
    mr->domain = domain;
    mr->base = (uintptr_t)iov->iov_base;
    mr->bytes = iov->iov_len;
    mr->access = access;
    st_list_add(&domain->mrs, &mr->link);
    domain->users++;
    st_counts.mrs++;
    st_leave(domain);
    *mr_fid = &mr->fid;
    return 0;
}

static int reg(struct fid *fid, const void *buf, size_t bytes, uint64_t access, uint64_t offset,
               uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
    struct iovec iov = { .iov_len = bytes };

    memcpy(&iov.iov_base, &buf, sizeof buf);
    return regv(fid, &iov, 1, access, offset, requested_key, flags, mr, context);
}

static int regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                   struct fid_mr **mr)
{
    if (attr->iface != FI_HMEM_SYSTEM) {
        return st_unsupported("memory of a device");
    }
    return regv(fid, attr->mr_iov, attr->iov_count, attr->access, attr->offset, attr->requested_key,
                flags, mr, attr->context);
}

struct fi_ops_mr st_mr_ops = {
    .size = sizeof(struct fi_ops_mr),
    .reg = reg,
    .regv = regv,
    .regattr = regattr,
};
