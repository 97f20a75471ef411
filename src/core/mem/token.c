/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tokens: the bytes that let any rank of the job reach a memory, and the remotes opened from them.
 * Tokens come from peers by any means the program likes, so opening one trusts nothing: length,
 * magic, version and a checksum over every byte, then job, owner and key.
 *
 * Layout, little-endian, version 1:
 *
 *   0 u32 magic | 4 u16 version | 6 u16 length of all | 8 u64 job | 16 i32 owner | 20 u8 access |
 *   21 u8 atomicity | 22 u8 keys | 23 u8 0 | 24 u64 id | 32 u64 bytes |
 *   40 keys: { char transport[8]; u8 length; u8 key[length]; }… | u32 crc32c of all before
 *
 * A reader takes the first key whose transport it has; unknown transports are skipped, so a token
 * may carry keys for NICs that only some ranks have.
 */
#include "core/mem/mem.h"

#include <string.h>

#include "base/crc.h"
#include "base/pool.h"

#define TOKEN_MAGIC   0x6b54724fu /* "OrTk" */
#define TOKEN_VERSION 1
#define TOKEN_HEAD    40
#define TOKEN_NAME    8
#define TOKEN_CRC     4

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

static void store_le(unsigned char *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint64_t load_le(const unsigned char *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

/* A token's fields, as decoded. */
struct token {
    uint64_t job;
    uint64_t id;
    uint64_t bytes;
    int owner;
    uint32_t access;
    int atomicity;
    const unsigned char *key; /* of the engine this process uses for the owner */
    size_t key_bytes;
};

/* Append the key of one engine; returns its length on the wire, or a negative status. */
static int pack_key(struct fab_region *region, struct fab_engine *engine, unsigned char *at)
{
    size_t bytes = FAB_RKEY_BYTES;
    memset(at, 0, TOKEN_NAME);
    memcpy(at, engine->name, strnlen(engine->name, TOKEN_NAME));
    int st = fab_rkey_pack(region, engine, at + TOKEN_NAME + 1, &bytes);
    if (st != 0) {
        return st;
    }
    at[TOKEN_NAME] = (unsigned char)bytes;
    return (int)(TOKEN_NAME + 1 + bytes);
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
    unsigned char out[ORIEL_TOKEN_BYTES_MAX] = { 0 };
    store_le(out, TOKEN_MAGIC, 4);
    store_le(out + 4, TOKEN_VERSION, 2);
    store_le(out + 8, core.job, 8);
    store_le(out + 16, (uint32_t)core.rank, 4);
    out[20] = (unsigned char)mem->access;
    out[21] = (unsigned char)mem->atomicity;
    out[22] = 1;
    store_le(out + 24, mem->id, 8);
    store_le(out + 32, mem->bytes, 8);
    int key = pack_key(mem->region, core_token_engine(), out + TOKEN_HEAD);
    if (key < 0) {
        return key;
    }
    size_t length = TOKEN_HEAD + (size_t)key + TOKEN_CRC;
    store_le(out + 6, length, 2);
    store_le(out + length - TOKEN_CRC, orl_crc32c(0, out, length - TOKEN_CRC), TOKEN_CRC);
    *bytes = length;
    if (token == NULL || capacity < length) {
        return orl_fail(ORL_ERR_TRUNC, "the token has %zu bytes, the buffer %zu", length, capacity);
    }
    memcpy(token, out, length);
    return 0;
}

/* Find the key this process can use. */
static int find_key(const unsigned char *in, size_t length, struct token *t)
{
    const struct fab_engine *engine = core_token_engine();
    size_t at = TOKEN_HEAD;
    for (unsigned i = 0; i < in[22]; i++) {
        if (at + TOKEN_NAME + 1 > length || at + TOKEN_NAME + 1 + in[at + TOKEN_NAME] > length) {
            return orl_fail(ORL_ERR_INVAL, "malformed token: key %u passes its end", i);
        }
        if (strncmp((const char *)in + at, engine->name, TOKEN_NAME) == 0) {
            t->key = in + at + TOKEN_NAME + 1;
            t->key_bytes = in[at + TOKEN_NAME];
            return 0;
        }
        at += TOKEN_NAME + 1 + in[at + TOKEN_NAME];
    }
    return orl_fail(ORL_ERR_UNSUPP,
                    "the token has no key for transport %s, the only one that "
                    "reaches rank %d from here",
                    engine->name, t->owner);
}

/* Everything that can be known from the bytes alone. */
static int check_envelope(const unsigned char *in, size_t bytes)
{
    if (bytes < TOKEN_HEAD + TOKEN_CRC || bytes > ORIEL_TOKEN_BYTES_MAX) {
        return orl_fail(ORL_ERR_INVAL, "a token has %d to %d bytes, not %zu: truncated?",
                        TOKEN_HEAD + TOKEN_CRC, ORIEL_TOKEN_BYTES_MAX, bytes);
    }
    if (load_le(in, 4) != TOKEN_MAGIC) {
        return orl_fail(ORL_ERR_INVAL, "these bytes are not a token of oriel_token_pack");
    }
    if (load_le(in + 4, 2) != TOKEN_VERSION) {
        return orl_fail(ORL_ERR_INVAL, "token of version %u; this library reads version %u",
                        (unsigned)load_le(in + 4, 2), TOKEN_VERSION);
    }
    if (load_le(in + 6, 2) != bytes) {
        return orl_fail(ORL_ERR_INVAL, "the token has %u bytes, %zu were given: truncated?",
                        (unsigned)load_le(in + 6, 2), bytes);
    }
    if (load_le(in + bytes - TOKEN_CRC, TOKEN_CRC) != orl_crc32c(0, in, bytes - TOKEN_CRC)) {
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
    t->job = load_le(in + 8, 8);
    t->owner = (int)(int32_t)load_le(in + 16, 4);
    t->access = in[20];
    t->atomicity = in[21];
    t->id = load_le(in + 24, 8);
    t->bytes = load_le(in + 32, 8);
    if (t->job != core.job) {
        return orl_fail(ORL_ERR_INVAL, "the token is of another job (%016llx, this one is %016llx)",
                        (unsigned long long)t->job, (unsigned long long)core.job);
    }
    if (t->owner < 0 || t->owner >= core.size) {
        return orl_fail(ORL_ERR_INVAL, "malformed token: owner %d of a job of %d ranks", t->owner,
                        core.size);
    }
    return find_key(in, bytes - TOKEN_CRC, t);
}

/* ---------------------------------------------------------------- remotes */

static int open_key(const struct token *t, struct oriel_remote *remote)
{
    int st = core_path_of(t->owner, &remote->path);
    if (st != 0) {
        return st;
    }
    remote->ep = remote->path->ep;
    st = fab_rkey_open(remote->ep, t->key, t->key_bytes, &remote->key);
    if (st == 0 && remote->key.bytes != t->bytes) {
        fab_rkey_close(remote->ep, &remote->key);
        st = orl_fail(ORL_ERR_INVAL, "malformed token: %llu bytes, its key says %llu",
                      (unsigned long long)t->bytes, (unsigned long long)remote->key.bytes);
    }
    return st;
}

ORL_PUBLIC int oriel_token_open(const void *token, size_t bytes, struct oriel_remote **remote)
{
    struct token t = { 0 };
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
    st = open_key(&t, r);
    if (st != 0) {
        orl_pool_free(&remotes, r);
        return st;
    }
    r->access = t.access;
    r->atomicity = t.atomicity;
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

ORL_PUBLIC int oriel_token_release(const void *token, size_t bytes)
{
    struct token t = { 0 };
    int st = decode(token, bytes, &t);
    if (st != 0) {
        return st;
    }
    struct oriel_remote r = { 0 };
    st = open_key(&t, &r);
    if (st == ORL_ERR_GONE) {
        orl_last_error_clear();
        return 0;
    }
    if (st == 0) {
        st = fab_rkey_end(&r.key);
        fab_rkey_close(r.ep, &r.key);
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
        fab_rkey_close(remote->ep, &remote->key);
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
