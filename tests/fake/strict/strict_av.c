/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address tables. An address that is in already keeps its index, and goes with one removal, however
 * often it was inserted; an index is never used for another.
 */
#include "strict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 4096 /* at first: a test that counts bytes must not see it grow */

static bool is_same(const struct st_address *a, const struct st_address *b)
{
    return a->bytes == b->bytes && memcmp(a->byte, b->byte, a->bytes) == 0;
}

fi_addr_t st_av_index(const struct st_av *av, const struct st_address *address)
{
    size_t i;

    for (i = 0; i < av->n; i++) {
        if (av->entry[i].is_in && is_same(&av->entry[i].address, address)) {
            return i;
        }
    }
    return FI_ADDR_NOTAVAIL;
}

static fi_addr_t insert_one(struct st_av *av, const struct st_address *address)
{
    fi_addr_t index = st_av_index(av, address);
    struct st_entry *more;

    if (index != FI_ADDR_NOTAVAIL) {
        return index;
    }
    if (av->n == av->room) {
        more = realloc(av->entry, (2 * av->room + ROOM) * sizeof *more);
        if (more == NULL) {
            return FI_ADDR_NOTAVAIL;
        }
        av->entry = more;
        av->room = 2 * av->room + ROOM;
    }
    av->entry[av->n].address = *address;
    av->entry[av->n].is_in = true;
    st_counts.av_entries++;
    return av->n++;
}

static size_t address_bytes(const struct st_domain *domain)
{
    return domain->inner_info->addr_format == FI_SOCKADDR_IN6 ? 28 : 16;
}

static int insert(struct fid_av *fid, const void *addresses, size_t count, fi_addr_t *index,
                  uint64_t flags, void *context)
{
    struct st_av *av = st_of(fid, struct st_av, fid);
    size_t bytes = address_bytes(av->domain);
    size_t good = 0;
    size_t i;

    (void)context;
    if ((flags & ~(uint64_t)FI_MORE) != 0) {
        return st_unsupported("fi_av_insert with flags");
    }
    st_enter(av->domain);
    for (i = 0; i < count; i++) {
        struct st_address address = { .bytes = (uint32_t)bytes };
        fi_addr_t got;

        memcpy(address.byte, (const unsigned char *)addresses + i * bytes, bytes);
        got = insert_one(av, &address);
        good += got != FI_ADDR_NOTAVAIL;
        if (index != NULL) {
            index[i] = got;
        }
    }
    st_leave(av->domain);
    return (int)good;
}

static int insertsvc(struct fid_av *av, const char *node, const char *service, fi_addr_t *index,
                     uint64_t flags, void *context)
{
    (void)av;
    (void)node;
    (void)service;
    (void)index;
    (void)flags;
    (void)context;
    return st_unsupported("fi_av_insertsvc");
}

static int insertsym(struct fid_av *av, const char *node, size_t nodes, const char *service,
                     size_t services, fi_addr_t *index, uint64_t flags, void *context)
{
    (void)av;
    (void)node;
    (void)nodes;
    (void)service;
    (void)services;
    (void)index;
    (void)flags;
    (void)context;
    return st_unsupported("fi_av_insertsym");
}

/* Operations to an address that goes. */
static unsigned in_flight(const struct st_av *av, const struct st_address *address)
{
    struct st_link *at;
    struct st_link *op;
    unsigned n = 0;

    for (at = av->domain->eps.next; at != &av->domain->eps; at = at->next) {
        struct st_ep *ep = st_of(at, struct st_ep, link);

        for (op = ep->ops.next; ep->av == av && op != &ep->ops; op = op->next) {
            const struct st_op *one = st_of(op, struct st_op, link);

            n += !one->is_told && is_same(&one->peer->address, address);
        }
    }
    return n;
}

static int remove_them(struct fid_av *fid, fi_addr_t *index, size_t count, uint64_t flags)
{
    struct st_av *av = st_of(fid, struct st_av, fid);
    int rc = 0;
    size_t i;

    (void)flags;
    st_enter(av->domain);
    for (i = 0; i < count; i++) {
        struct st_entry *entry = index[i] < av->n ? &av->entry[index[i]] : NULL;

        if (entry == NULL || !entry->is_in) {
            st_violation("address %llu is removed and is not in", (unsigned long long)index[i]);
            rc = -FI_EINVAL;
            continue;
        }
        if (in_flight(av, &entry->address) != 0) {
            st_violation("address %llu is removed under %u operations",
                         (unsigned long long)index[i], in_flight(av, &entry->address));
        }
        entry->is_in = false;
        st_counts.av_entries--;
    }
    st_leave(av->domain);
    return rc;
}

static int lookup(struct fid_av *fid, fi_addr_t index, void *address, size_t *bytes)
{
    struct st_av *av = st_of(fid, struct st_av, fid);
    const struct st_entry *entry;

    st_enter(av->domain);
    entry = index < av->n && av->entry[index].is_in ? &av->entry[index] : NULL;
    if (entry != NULL) {
        memcpy(address, entry->address.byte,
               *bytes < entry->address.bytes ? *bytes : entry->address.bytes);
        *bytes = entry->address.bytes;
    }
    st_leave(av->domain);
    return entry == NULL ? -FI_EINVAL : 0;
}

static const char *straddr(struct fid_av *fid, const void *address, char *text, size_t *bytes)
{
    const unsigned char *byte = address;
    size_t n = address_bytes(st_of(fid, struct st_av, fid)->domain);
    size_t i;

    for (i = 0; i < n && 2 * i + 2 < *bytes; i++) {
        (void)snprintf(text + 2 * i, *bytes - 2 * i, "%02x", byte[i]);
    }
    *bytes = 2 * n + 1;
    return text;
}

static int av_close(struct fid *fid)
{
    struct st_av *av = st_of(fid, struct st_av, fid.fid);
    struct st_domain *domain = av->domain;
    size_t i;

    st_enter(domain);
    if (av->users != 0) {
        st_leave(domain);
        st_violation("an address table is closed with %d endpoints bound to it", av->users);
        return -FI_EBUSY;
    }
    for (i = 0; i < av->n; i++) {
        st_counts.av_entries -= av->entry[i].is_in;
    }
    domain->users--;
    st_counts.fids--;
    st_leave(domain);
    free(av->entry);
    free(av);
    return 0;
}

static struct fi_ops av_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = av_close,
    .bind = st_no_bind,
    .control = st_no_control,
    .ops_open = st_ops_open,
};

static struct fi_ops_av av_ops = {
    .size = sizeof(struct fi_ops_av),
    .insert = insert,
    .insertsvc = insertsvc,
    .insertsym = insertsym,
    .remove = remove_them,
    .lookup = lookup,
    .straddr = straddr,
};

int st_av_open(struct fid_domain *domain_fid, struct fi_av_attr *attr, struct fid_av **av_fid,
               void *context)
{
    struct st_domain *domain = st_of(domain_fid, struct st_domain, fid);
    struct st_av *av;

    if (attr != NULL && (attr->flags != 0 || attr->name != NULL)) {
        return st_unsupported("a shared address table, or one with events");
    }
    av = calloc(1, sizeof *av);
    if (av == NULL) {
        return -FI_ENOMEM;
    }
    av->fid.fid.fclass = FI_CLASS_AV;
    av->fid.fid.context = context;
    av->fid.fid.ops = &av_fid_ops;
    av->fid.ops = &av_ops;
    av->domain = domain;
    st_enter(domain);
    domain->users++;
    st_counts.fids++;
    st_leave(domain);
    *av_fid = &av->fid;
    return 0;
}
