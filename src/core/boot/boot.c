/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choice of the bootstrap, and the bytes of a record. Records come from other processes, so
 * decoding trusts nothing: version, length and checksum first, then each field's range.
 */
#include "core/boot/boot.h"

#include <string.h>

#include "base/conf.h"
#include "base/crc.h"
#include "base/log.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "core/boot/boot_launcher.h"

/* ---------------------------------------------------------------- record */

/* Cursor over a record being written or read; reads past the end turn `bad`. */
struct cursor {
    unsigned char *out;
    const unsigned char *in;
    size_t at, end;
    bool bad;
};

static void put_bytes(struct cursor *c, const void *bytes, size_t n)
{
    if (n > c->end - c->at) {
        c->bad = true;
        return;
    }
    memcpy(c->out + c->at, bytes, n);
    c->at += n;
}

static void put_number(struct cursor *c, uint64_t value)
{
    unsigned char le[8];
    for (unsigned i = 0; i < 8; i++) {
        le[i] = (unsigned char)(value >> (8 * i));
    }
    put_bytes(c, le, sizeof(le));
}

static void take_bytes(struct cursor *c, void *bytes, size_t n)
{
    if (n > c->end - c->at) {
        c->bad = true;
        memset(bytes, 0, n);
        return;
    }
    memcpy(bytes, c->in + c->at, n);
    c->at += n;
}

static uint64_t take_number(struct cursor *c)
{
    unsigned char le[8];
    uint64_t value = 0;
    take_bytes(c, le, sizeof(le));
    for (unsigned i = 0; i < 8; i++) {
        value |= (uint64_t)le[i] << (8 * i);
    }
    return value;
}

#define RECORD_HEAD 16 /* version, length, checksum of the rest */
/* The rest of one without cards and text, and what a card takes at most. */
#define RECORD_FIXED (10 * 8 + 16 + 32 + CORE_MASK_BYTES + 16 + 64)
#define RECORD_CARD  (FAB_TAG_BYTES + FAB_NET_BYTES + 8 + FAB_ADDRESS_BYTES)
_Static_assert(RECORD_HEAD + RECORD_FIXED + CORE_CARDS_MAX * RECORD_CARD + CORE_CARD_BYTES <=
                   CORE_RECORD_BYTES,
               "the largest record fits");

/* Of each address as many bytes as it has. */
static void put_cards(struct cursor *c, const struct core_record *record)
{
    put_number(c, record->ncards);
    for (uint32_t i = 0; i < record->ncards; i++) {
        const struct fab_card *card = &record->card[i];
        put_bytes(c, card->tag, sizeof(card->tag));
        put_bytes(c, card->net, sizeof(card->net));
        put_number(c, card->mbps | (uint64_t)card->bytes << 32);
        put_bytes(c, card->address, card->bytes);
    }
}

static void take_card(struct cursor *c, struct fab_card *card)
{
    take_bytes(c, card->tag, sizeof(card->tag));
    take_bytes(c, card->net, sizeof(card->net));
    uint64_t head = take_number(c);
    if (head >> 32 > sizeof(card->address)) {
        c->bad = true;
        return;
    }
    card->mbps = (uint32_t)head;
    card->bytes = (uint8_t)(head >> 32);
    take_bytes(c, card->address, card->bytes);
}

static void take_cards(struct cursor *c, struct core_record *record)
{
    uint64_t n = take_number(c);
    if (n > CORE_CARDS_MAX) {
        c->bad = true;
        return;
    }
    record->ncards = (uint32_t)n;
    for (uint32_t i = 0; i < record->ncards; i++) {
        take_card(c, &record->card[i]);
    }
}

/* Healthy records carry no text. */
static void put_text(struct cursor *c, const struct core_record *record)
{
    uint64_t length = record->status != 0 ? strnlen(record->text, sizeof(record->text) - 1) : 0;
    put_number(c, (uint64_t)(uint32_t)record->status | length << 32);
    put_bytes(c, record->text, (size_t)length);
}

static void take_text(struct cursor *c, struct core_record *record)
{
    uint64_t head = take_number(c);
    uint64_t length = head >> 32;
    record->status = (int32_t)(uint32_t)head;
    if (length >= sizeof(record->text) || (record->status == 0 && length != 0)) {
        c->bad = true;
        return;
    }
    take_bytes(c, record->text, (size_t)length);
    record->text[length] = '\0';
}

/* Where writing has room for it, and a card is not longer than cards are. */
static bool is_sound(const struct core_record *record, size_t capacity)
{
    bool sound = capacity >= RECORD_HEAD && record->ncards <= CORE_CARDS_MAX;
    for (uint32_t i = 0; sound && i < record->ncards; i++) {
        sound = record->card[i].bytes <= sizeof(record->card[i].address);
    }
    return sound;
}

size_t core_record_encode(const struct core_record *record, void *bytes, size_t capacity)
{
    struct cursor c = { .out = bytes, .at = RECORD_HEAD, .end = capacity };
    if (!is_sound(record, capacity)) {
        return 0;
    }
    put_number(&c, (uint64_t)record->rank);
    put_bytes(&c, record->host, sizeof(record->host));
    put_bytes(&c, record->hostname, sizeof(record->hostname));
    put_number(&c, record->nonce);
    put_bytes(&c, record->cpus, sizeof(record->cpus));
    put_number(&c, (uint64_t)(uint32_t)record->pid | (uint64_t)(uint32_t)record->leader << 32);
    put_number(&c, record->start_time);
    put_number(&c, (uint64_t)record->node.pid);
    put_number(&c, (uint64_t)record->node.fd);
    put_number(&c, record->node.job);
    put_bytes(&c, record->node.host, sizeof(record->node.host));
    put_bytes(&c, record->node.path, sizeof(record->node.path));
    put_cards(&c, record);
    put_text(&c, record);
    if (c.bad) {
        return 0;
    }
    size_t length = c.at;
    uint32_t crc = orl_crc32c(0, c.out + RECORD_HEAD, length - RECORD_HEAD);
    c.at = 0;
    put_number(&c, CORE_WIRE_VERSION | (uint64_t)length << 32);
    put_number(&c, crc);
    return length;
}

/* Tags end up in messages. */
static bool is_tag(const char tag[FAB_TAG_BYTES])
{
    size_t length = strnlen(tag, FAB_TAG_BYTES);
    for (size_t i = 0; i < length; i++) {
        if (tag[i] <= ' ' || tag[i] > '~') {
            return false;
        }
    }
    return length > 0 && length < FAB_TAG_BYTES;
}

static int check_fields(const struct core_record *record)
{
    if (memchr(record->hostname, 0, sizeof(record->hostname)) == NULL ||
        memchr(record->node.path, 0, sizeof(record->node.path)) == NULL) {
        return orl_fail(ORL_ERR_BOOT, "record of rank %d: a name without end", record->rank);
    }
    if (record->leader < -1 || record->leader > record->rank) {
        return orl_fail(ORL_ERR_BOOT, "record of rank %d: rank %d cannot be the lowest of its host",
                        record->rank, record->leader);
    }
    for (uint32_t i = 0; i < record->ncards; i++) {
        if (!is_tag(record->card[i].tag) || record->card[i].bytes == 0) {
            return orl_fail(ORL_ERR_BOOT, "record of rank %d: card %u of %u is none", record->rank,
                            (unsigned)i + 1, (unsigned)record->ncards);
        }
    }
    return 0;
}

static void take_record(struct cursor *c, struct core_record *record)
{
    memset(record, 0, sizeof(*record));
    record->version = CORE_WIRE_VERSION;
    record->rank = (int32_t)take_number(c);
    take_bytes(c, record->host, sizeof(record->host));
    take_bytes(c, record->hostname, sizeof(record->hostname));
    record->nonce = take_number(c);
    take_bytes(c, record->cpus, sizeof(record->cpus));
    uint64_t process = take_number(c);
    record->pid = (int32_t)(uint32_t)process;
    record->leader = (int32_t)(uint32_t)(process >> 32);
    record->start_time = take_number(c);
    record->node.pid = (int32_t)take_number(c);
    record->node.fd = (int32_t)take_number(c);
    record->node.job = take_number(c);
    take_bytes(c, record->node.host, sizeof(record->node.host));
    take_bytes(c, record->node.path, sizeof(record->node.path));
    take_cards(c, record);
    take_text(c, record);
}

int core_record_decode(const void *bytes, size_t length, struct core_record *record)
{
    struct cursor c = { .in = bytes, .end = length };
    uint64_t head = take_number(&c);
    uint64_t crc = take_number(&c);
    if (c.bad) {
        return orl_fail(ORL_ERR_BOOT, "a bootstrap record of %zu bytes is truncated", length);
    }
    if ((uint32_t)head != CORE_WIRE_VERSION) {
        return orl_fail(ORL_ERR_BOOT,
                        "a rank of this job uses wire version %u, this one %u: all ranks must "
                        "load the same liboriel",
                        (unsigned)(uint32_t)head, CORE_WIRE_VERSION);
    }
    if (head >> 32 != length || crc != orl_crc32c(0, c.in + RECORD_HEAD, length - RECORD_HEAD)) {
        return orl_fail(ORL_ERR_BOOT, "a bootstrap record of %zu bytes is damaged", length);
    }
    take_record(&c, record);
    if (c.bad || c.at != length) {
        return orl_fail(ORL_ERR_BOOT, "a bootstrap record of %zu bytes has the wrong length",
                        length);
    }
    return check_fields(record);
}

int core_record_of(const struct core_boot *boot, int rank, struct core_record *record)
{
    unsigned char bytes[CORE_RECORD_BYTES];
    size_t length = sizeof(bytes);
    int st = boot->get(rank, bytes, &length);
    if (st == 0 && core_record_decode(bytes, length, record) != 0) {
        char why[ORL_ERROR_TEXT_BYTES];
        struct orl_strbuf sb;
        orl_strbuf_init(&sb, why, sizeof(why));
        orl_strbuf_add(&sb, orl_last_error());
        st = orl_fail(ORL_ERR_BOOT, "rank %d: %s", rank, why);
    }
    if (st == 0 && record->rank != rank) {
        st = orl_fail(ORL_ERR_BOOT, "the record of rank %d says it is of rank %d", rank,
                      record->rank);
    }
    return st;
}

uint64_t core_boot_hash(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name != 0; name++) {
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* ---------------------------------------------------------------- choice */

static int open_auto(const struct core_boot **boot, struct core_boot_id *id)
{
    *boot = &core_boot_local;
    int st = core_boot_local.open(id);
    if (st != ORL_ERR_UNSUPP) {
        return st;
    }
    *boot = &core_boot_pmix;
    st = core_boot_pmix.open(id);
    if (st == 0) {
        st = core_launcher_agrees(id->size);
        if (st != 0) {
            core_boot_pmix.close();
        }
    }
    if (st != ORL_ERR_UNSUPP) {
        return st;
    }
    orl_last_error_clear();
    st = core_launcher_allows_one();
    *boot = &core_boot_single;
    return st != 0 ? st : core_boot_single.open(id);
}

int core_boot_open(const struct core_boot **boot, struct core_boot_id *id)
{
    static const struct core_boot *const forced[] = {
        [ORL_CONF_BOOT_PMIX] = &core_boot_pmix,
        [ORL_CONF_BOOT_LOCAL] = &core_boot_local,
        [ORL_CONF_BOOT_SINGLE] = &core_boot_single,
    };
    memset(id, 0, sizeof(*id));
    if (orl_conf.boot == ORL_CONF_BOOT_AUTO) {
        return open_auto(boot, id);
    }
    *boot = forced[orl_conf.boot];
    int st = (*boot)->open(id);
    if (st == ORL_ERR_UNSUPP) {
        char why[256];
        strncpy(why, orl_last_error(), sizeof(why) - 1);
        why[sizeof(why) - 1] = 0;
        return orl_fail(ORL_ERR_BOOT, "ORIEL_BOOT=%s: %s", (*boot)->name, why);
    }
    return st;
}
