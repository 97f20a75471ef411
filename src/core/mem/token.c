/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tokens: the bytes that let any rank of the job reach a memory, and the remotes opened from them.
 * Tokens come from peers by any means the program likes, so opening one trusts nothing: length,
 * magic, version and a checksum over every byte, then job, owner and key.
 *
 * Layout, little-endian, version 2:
 *
 *   0 u32 magic | 4 u16 version | 6 u16 length of all | 8 u64 job | 16 i32 owner | 20 u8 access |
 *   21 u8 atomicity | 22 u8 keys | 23 u8 address modulo 64 | 24 u64 id | 32 u64 bytes |
 *   40 keys: { u8 engine; u8 length; u8 key[length]; }… | u32 crc32c of all before
 *
 * A key belongs to one engine of the owner: its number among the owner's networks, or 0xff for shm
 * (self where there is no shm). A reader takes the keys that the rails of its path to the owner
 * need, and skips the others.
 *
 * Memory is registered with networks here, when its first token is made: pinning takes time and
 * locked memory, and nobody reaches over a network what no token tells of.
 */
#include "core/mem/mem.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc.h"
#include "base/log.h"
#include "base/pool.h"
#include "core/path/path.h"
#include "core/path/rail.h"

#define TOKEN_MAGIC   0x6b54724fu /* "OrTk" */
#define TOKEN_VERSION 2
#define TOKEN_HEAD    40
#define TOKEN_KEY     2 /* before a key's bytes */
#define TOKEN_CRC     4
#define TOKEN_NEAR    0xff /* number of the engine of this process and host */

_Static_assert(TOKEN_HEAD + (CORE_NETWORKS_MAX + 1) * (TOKEN_KEY + FAB_RKEY_BYTES) + TOKEN_CRC <=
                   ORIEL_TOKEN_BYTES_MAX,
               "a token with all keys fits");
_Static_assert(CORE_NETWORKS_MAX < TOKEN_NEAR, "numbers of engines");

static struct orl_pool remotes;
static struct orl_lock lock;
static struct orl_list opened; /* of struct oriel_remote; lock */

int core_remotes_open(void)
{
    orl_lock_init(&lock, ORL_RANK_MEM, "remotes");
    orl_list_init(&opened);
    return orl_pool_init(&remotes, "remotes", sizeof(struct oriel_remote), ORL_CACHE_LINE, 64, 0);
}

void core_remotes_close(void)
{
    while (!orl_list_is_empty(&opened)) {
        struct oriel_remote *forgotten = container_of(opened.next, struct oriel_remote, all);
        forgotten->magic = 0;
        core_remote_drop(forgotten);
    }
    orl_pool_fini(&remotes);
    orl_lock_fini(&lock);
}

struct fab_engine *core_token_engine(void)
{
    return core.shm != NULL ? core.shm : core.self;
}

/* ---------------------------------------------------------------- bytes */

/* A token's fields, as decoded. */
struct token {
    uint64_t job;
    uint64_t id;
    uint64_t bytes;
    int owner;
    uint32_t access;
    int atomicity;
    uint32_t misalign;
    const unsigned char *in; /* the bytes; keys end at `end` */
    size_t end;
};

/* Stands for the bytes of a token that has none. */
static const unsigned char no_token[TOKEN_HEAD];

/* A token being written. */
struct writer {
    unsigned char out[ORIEL_TOKEN_BYTES_MAX];
    size_t at;
};

static int pack_key(struct writer *w, struct fab_region *region, struct fab_engine *engine,
                    unsigned number)
{
    size_t bytes = FAB_RKEY_BYTES;
    int st = fab_rkey_pack(region, engine, w->out + w->at + TOKEN_KEY, &bytes);
    if (st == 0) {
        w->out[w->at] = (unsigned char)number;
        w->out[w->at + 1] = (unsigned char)bytes;
        w->out[22]++;
        w->at += TOKEN_KEY + bytes;
    }
    return st;
}

/* The networks' keys. One that cannot register the memory is left out: peers that need it find
 * none. Where ranks are out of this memory's reach otherwise, at least one must have a key. */
static int pack_networks(struct writer *w, struct fab_region *region)
{
    int failed = 0;
    int packed = 0;
    for (int i = 0; i < core.nnetworks; i++) {
        int st = pack_key(w, region, core.network[i], (unsigned)i);
        if (st == ORL_ERR_GONE) {
            return st;
        }
        if (st != 0) {
            failed = st;
            orl_log_info(ORL_CAT_MEM, "memory of %llu bytes has no key for %s: %s",
                         (unsigned long long)region->bytes, core.network[i]->name,
                         orl_last_error());
        }
        packed += st == 0 ? 1 : 0;
    }
    return packed == 0 ? failed : 0;
}

static int pack_keys(struct writer *w, struct fab_region *region)
{
    int st = pack_key(w, region, core_token_engine(), TOKEN_NEAR);
    return st != 0 ? st : pack_networks(w, region);
}

ORL_PUBLIC int oriel_token_pack(const struct oriel_mem *mem, void *token, size_t capacity,
                                size_t *bytes)
{
    int st = core_mem_check(mem, 0, 0);
    if (st != 0) {
        return st;
    }
    if (bytes == NULL || (token == NULL && capacity != 0)) {
        return orl_fail(ORL_ERR_INVAL, "%s is NULL", bytes == NULL ? "bytes" : "token");
    }
    struct writer w = { .at = TOKEN_HEAD };
    orl_store_le(w.out, TOKEN_MAGIC, 4);
    orl_store_le(w.out + 4, TOKEN_VERSION, 2);
    orl_store_le(w.out + 8, core.job, 8);
    orl_store_le(w.out + 16, (uint32_t)core.rank, 4);
    w.out[20] = (unsigned char)mem->access;
    w.out[21] = (unsigned char)mem->atomicity;
    w.out[23] = (unsigned char)((uintptr_t)mem->base % CORE_TOKEN_ALIGN);
    orl_store_le(w.out + 24, mem->id, 8);
    orl_store_le(w.out + 32, mem->bytes, 8);
    st = pack_keys(&w, mem->region);
    if (st != 0) {
        return st;
    }
    size_t length = w.at + TOKEN_CRC;
    orl_store_le(w.out + 6, length, 2);
    orl_store_le(w.out + w.at, orl_crc32c(0, w.out, w.at), TOKEN_CRC);
    *bytes = length;
    if (token == NULL || capacity < length) {
        return orl_fail(ORL_ERR_TRUNC, "the token has %zu bytes, the buffer %zu", length, capacity);
    }
    memcpy(token, w.out, length);
    return 0;
}

/* Whether the keys fill their place exactly. */
static int check_keys(const unsigned char *in, size_t end)
{
    size_t at = TOKEN_HEAD;
    for (unsigned i = 0; i < in[22]; i++) {
        if (at + TOKEN_KEY > end || at + TOKEN_KEY + in[at + 1] > end) {
            return orl_fail(ORL_ERR_INVAL, "malformed token: key %u passes its end", i);
        }
        at += TOKEN_KEY + in[at + 1];
    }
    if (at != end) {
        return orl_fail(ORL_ERR_INVAL, "malformed token: %zu bytes behind its %u keys", end - at,
                        (unsigned)in[22]);
    }
    return 0;
}

/* The key of one engine of the owner; NULL: it has none. */
static const unsigned char *find_key(const struct token *t, unsigned number, size_t *bytes)
{
    size_t at = TOKEN_HEAD;
    for (unsigned i = 0; i < t->in[22]; i++) {
        if (t->in[at] == number) {
            *bytes = t->in[at + 1];
            return t->in + at + TOKEN_KEY;
        }
        at += TOKEN_KEY + t->in[at + 1];
    }
    return NULL;
}

/* Everything that can be known from the bytes alone. */
static int check_envelope(const unsigned char *in, size_t bytes)
{
    if (bytes < TOKEN_HEAD + TOKEN_CRC || bytes > ORIEL_TOKEN_BYTES_MAX) {
        return orl_fail(ORL_ERR_INVAL, "a token has %d to %d bytes, not %zu: truncated?",
                        TOKEN_HEAD + TOKEN_CRC, ORIEL_TOKEN_BYTES_MAX, bytes);
    }
    if (orl_load_le(in, 4) != TOKEN_MAGIC) {
        return orl_fail(ORL_ERR_INVAL, "these bytes are not a token of oriel_token_pack");
    }
    if (orl_load_le(in + 4, 2) != TOKEN_VERSION) {
        return orl_fail(ORL_ERR_INVAL, "token of version %u; this library reads version %u",
                        (unsigned)orl_load_le(in + 4, 2), TOKEN_VERSION);
    }
    if (orl_load_le(in + 6, 2) != bytes) {
        return orl_fail(ORL_ERR_INVAL, "the token has %u bytes, %zu were given: truncated?",
                        (unsigned)orl_load_le(in + 6, 2), bytes);
    }
    if (orl_load_le(in + bytes - TOKEN_CRC, TOKEN_CRC) != orl_crc32c(0, in, bytes - TOKEN_CRC)) {
        return orl_fail(ORL_ERR_INVAL, "the token is damaged: its checksum does not fit");
    }
    return 0;
}

static int decode(const void *token, size_t bytes, struct token *t)
{
    if (!core_is_open()) {
        return core_state_error();
    }
    if (token == NULL) {
        return orl_fail(ORL_ERR_INVAL, "token is NULL");
    }
    const unsigned char *in = token;
    int st = check_envelope(in, bytes);
    if (st != 0) {
        return st;
    }
    t->job = orl_load_le(in + 8, 8);
    t->owner = (int)(int32_t)orl_load_le(in + 16, 4);
    t->access = in[20];
    t->atomicity = in[21];
    t->id = orl_load_le(in + 24, 8);
    t->bytes = orl_load_le(in + 32, 8);
    t->misalign = in[23] % CORE_TOKEN_ALIGN;
    t->in = in;
    t->end = bytes - TOKEN_CRC;
    if (t->job != core.job) {
        return orl_fail(ORL_ERR_INVAL, "the token is of another job (%016llx, this one is %016llx)",
                        (unsigned long long)t->job, (unsigned long long)core.job);
    }
    if (t->owner < 0 || t->owner >= core.size) {
        return orl_fail(ORL_ERR_INVAL, "malformed token: owner %d of a job of %d ranks", t->owner,
                        core.size);
    }
    return check_keys(in, t->end);
}

/* ---------------------------------------------------------------- remotes */

static struct fab_ep *ep_of(const struct oriel_remote *remote, int rail)
{
    return atomic_load_explicit(&remote->path->rail[rail].ep, memory_order_acquire);
}

static void close_keys(struct oriel_remote *remote)
{
    for (int r = 0; r < remote->path->nrails; r++) {
        if ((remote->rails >> r & 1) != 0) {
            fab_rkey_close(ep_of(remote, r), &remote->keys[r]);
        }
    }
    if (remote->keys != &remote->key) {
        free(remote->keys);
    }
}

/* The key for one rail, where the token has it. */
static int open_key(const struct token *t, struct oriel_remote *remote, int rail)
{
    const struct core_rail *on = &remote->path->rail[rail];
    size_t bytes = 0;
    const unsigned char *key = find_key(t, on->card == NULL ? TOKEN_NEAR : on->remote, &bytes);
    if (key == NULL) {
        return 0;
    }
    int st = fab_rkey_open(ep_of(remote, rail), key, bytes, &remote->keys[rail]);
    if (st == 0) {
        remote->rails |= 1u << rail;
        if (remote->keys[rail].bytes != t->bytes) {
            st = orl_fail(ORL_ERR_INVAL, "malformed token: %llu bytes, its key says %llu",
                          (unsigned long long)t->bytes,
                          (unsigned long long)remote->keys[rail].bytes);
        }
    }
    return st;
}

static ORL_COLD int no_key(const struct token *t, const struct oriel_remote *remote)
{
    return orl_fail(ORL_ERR_UNSUPP,
                    "the token has %u keys, none of them for %s, which reaches rank %d from here",
                    (unsigned)t->in[22], remote->path->ep->engine->name, t->owner);
}

static void take_first_key(struct oriel_remote *remote)
{
    int first = 0;
    while ((remote->rails >> first & 1) == 0) {
        first++;
    }
    if (remote->keys != &remote->key) {
        remote->key = remote->keys[first];
    }
}

/* What a token leads to, in a zeroed remote. */
static int open_keys(const struct token *t, struct oriel_remote *remote)
{
    int st = core_path_of(t->owner, &remote->path);
    if (st != 0) {
        return st;
    }
    remote->keys = &remote->key;
    if (remote->path->nrails > 1) {
        remote->keys = calloc((size_t)remote->path->nrails, sizeof(*remote->keys));
        if (remote->keys == NULL) {
            return orl_fail(ORL_ERR_NOMEM, "no memory for %d keys", remote->path->nrails);
        }
    }
    for (int r = 0; st == 0 && r < remote->path->nrails; r++) {
        st = open_key(t, remote, r);
    }
    if (st == 0 && remote->rails == 0) {
        st = no_key(t, remote);
    }
    if (st != 0) {
        close_keys(remote);
        return st;
    }
    take_first_key(remote);
    return 0;
}

ORL_PUBLIC int oriel_token_open(const void *token, size_t bytes, struct oriel_remote **remote)
{
    struct token t = { .in = no_token };
    int st = decode(token, bytes, &t);
    if (st != 0) {
        return st;
    }
    if (remote == NULL) {
        return orl_fail(ORL_ERR_INVAL, "remote is NULL; give the address of a pointer");
    }
    struct oriel_remote *r = orl_pool_alloc(&remotes);
    if (r == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for a remote of %zu bytes", sizeof(*r));
    }
    memset(r, 0, sizeof(*r));
    st = open_keys(&t, r);
    if (st != 0) {
        orl_pool_free(&remotes, r);
        return st;
    }
    r->access = t.access;
    r->atomicity = t.atomicity;
    r->misalign = t.misalign;
    r->owner = t.owner;
    r->id = t.id;
    r->peer = &core.peers[t.owner];
    r->magic = CORE_REMOTE_MAGIC;
    atomic_init(&r->refs, 1);
    orl_lock(&lock);
    orl_list_add_tail(&opened, &r->all);
    orl_unlock(&lock);
    *remote = r;
    return 0;
}

void core_release_came(void *user, struct fab_rx *rx)
{
    (void)user;
    core_mem_revoke(rx->header);
}

/* The owner ends the registration for all its engines. The path is used for the message alone, so
 * that the memory's keys do not matter. */
static int ask_owner(const struct token *t)
{
    struct core_path *path;
    int st = core_path_of(t->owner, &path);
    return st != 0 ? st : core_path_send(path, CORE_ON_RELEASE, t->id, NULL, 0);
}

/* Ended at once for all who reach it through the node segment. */
static int end_near(const struct token *t)
{
    struct oriel_remote r = { 0 };
    int st = open_keys(t, &r);
    if (st == 0) {
        st = r.key.live != NULL ? fab_rkey_end(&r.key) : 0;
        close_keys(&r);
    }
    if (st == ORL_ERR_GONE) {
        orl_last_error_clear();
        st = 0;
    }
    return st;
}

ORL_PUBLIC int oriel_token_release(const void *token, size_t bytes)
{
    struct token t = { .in = no_token };
    int st = decode(token, bytes, &t);
    if (st == 0) {
        st = end_near(&t);
    }
    if (st == 0 && core.nnetworks > 0) {
        if (t.owner == core.rank) {
            core_mem_revoke(t.id);
        } else {
            st = ask_owner(&t);
        }
    }
    return st;
}

void core_remote_hold(struct oriel_remote *remote)
{
    atomic_fetch_add_explicit(&remote->refs, 1, memory_order_relaxed);
}

void core_remote_drop(void *held)
{
    struct oriel_remote *remote = held;
    /* acq_rel: the last one to drop sees what the others did with it */
    if (atomic_fetch_sub_explicit(&remote->refs, 1, memory_order_acq_rel) == 1) {
        orl_lock(&lock);
        orl_list_del(&remote->all);
        orl_unlock(&lock);
        close_keys(remote);
        orl_pool_free(&remotes, remote);
    }
}

static int check_open_remote(const struct oriel_remote *remote)
{
    if (!core_is_open()) {
        return core_state_error();
    }
    if (remote == NULL || remote->magic != CORE_REMOTE_MAGIC) {
        return orl_fail(ORL_ERR_INVAL, "remote %p is closed or was never one",
                        (const void *)remote);
    }
    return 0;
}

ORL_PUBLIC int oriel_remote_query(const struct oriel_remote *remote, struct oriel_remote_info *info)
{
    int st = check_open_remote(remote);
    if (st != 0) {
        return st;
    }
    if (info == NULL || info->size < sizeof(*info)) {
        return orl_fail(ORL_ERR_INVAL, "info is NULL, or info->size is not sizeof(*info)");
    }
    info->bytes = remote->key.bytes;
    info->generation = remote->id;
    info->owner = remote->owner;
    info->atomicity = remote->atomicity;
    info->access = remote->access;
    info->direct = remote->key.direct != NULL;
    return 0;
}

ORL_PUBLIC int oriel_remote_close(struct oriel_remote *remote)
{
    if (remote == NULL) {
        return 0;
    }
    int st = check_open_remote(remote);
    if (st == 0) {
        remote->magic = 0;
        core_remote_drop(remote);
    }
    return st;
}
