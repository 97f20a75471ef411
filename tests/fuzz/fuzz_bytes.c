/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of everything that reads bytes of others: tokens, transport keys, bootstrap records,
 * settings. The first byte of the input chooses the reader. Nothing may crash, and whatever is
 * accepted must be of use: an opened remote answers questions and can be closed.
 *
 * Two drivers: fuzz_drive.c mutates valid inputs for a while in make check; libFuzzer (make fuzz)
 * searches as long as it is told to.
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/crc.h"
#include "core/boot/boot.h"
#include "core/core.h"
#include "core/path/peer.h"
#include "oriel.h"

static struct oriel_mem *memory;

static void open_once(void)
{
    if (memory == NULL && (oriel_init(NULL) != 0 || oriel_mem_alloc(4096, NULL, &memory) != 0)) {
        abort();
    }
}

static void read_token(const uint8_t *data, size_t size)
{
    struct oriel_remote *remote = NULL;
    struct oriel_remote_info info = { .size = sizeof(info) };
    uint8_t byte = 0;
    if (oriel_token_open(data, size, &remote) != 0) {
        return;
    }
    if (oriel_remote_query(remote, &info) != 0 || info.owner != oriel_rank() ||
        (info.bytes > 0 && oriel_get(remote, info.bytes - 1, &byte, 1) == ORIEL_ERR_RANGE) ||
        oriel_get(remote, info.bytes, &byte, 1) != ORIEL_ERR_RANGE ||
        oriel_remote_close(remote) != 0) {
        abort();
    }
}

/* A token's checksum hides what is behind it; keys are read here without one. */
static void read_key(const uint8_t *data, size_t size)
{
    struct core_path *path = NULL;
    struct fab_rkey key;
    if (core_path_of(core.rank, &path) != 0) {
        abort();
    }
    if (fab_rkey_open(path->ep, data, size, &key) == 0) {
        if (key.bytes != 0 && key.direct == NULL && key.addr == 0) {
            abort();
        }
        fab_rkey_close(path->ep, &key);
    }
}

static void check_card(const struct fab_card *card)
{
    if (card->bytes == 0 || card->bytes > sizeof(card->address) || card->tag[0] == 0 ||
        strnlen(card->tag, sizeof(card->tag)) == sizeof(card->tag)) {
        abort();
    }
}

/* The checksum in the bytes is made to fit, else nothing behind it would ever be read. */
static void read_record(const uint8_t *data, size_t size)
{
    uint8_t bytes[2048];
    struct core_record record;
    if (size < FUZZ_RECORD_HEAD || size > sizeof(bytes)) {
        (void)!core_record_decode(data, size, &record);
        return;
    }
    memcpy(bytes, data, size);
    uint32_t crc = orl_crc32c(0, bytes + FUZZ_RECORD_HEAD, size - FUZZ_RECORD_HEAD);
    for (size_t i = 0; i < 4; i++) {
        bytes[4 + i] = (uint8_t)(size >> (8 * i));
        bytes[8 + i] = (uint8_t)(crc >> (8 * i));
        bytes[12 + i] = 0;
    }
    if (core_record_decode(bytes, size, &record) != 0) {
        return;
    }
    if (strnlen(record.hostname, sizeof(record.hostname)) == sizeof(record.hostname) ||
        strnlen(record.node.path, sizeof(record.node.path)) == sizeof(record.node.path) ||
        strnlen(record.text, sizeof(record.text)) == sizeof(record.text) ||
        record.ncards > CORE_CARDS_MAX || record.leader > record.rank) {
        abort();
    }
    for (uint32_t i = 0; i < record.ncards; i++) {
        check_card(&record.card[i]);
    }
}

/* "NAME=VALUE" */
static void read_setting(const uint8_t *data, size_t size)
{
    char text[512];
    size_t n = size < sizeof(text) - 1 ? size : sizeof(text) - 1;
    memcpy(text, data, n);
    text[n] = 0;
    char *value = strchr(text, '=');
    if (value != NULL) {
        *value++ = 0;
        (void)!orl_conf_override(text, value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    open_once();
    switch (data[0] % FUZZ_READERS) {
    case FUZZ_TOKEN:
        read_token(data + 1, size - 1);
        break;
    case FUZZ_KEY:
        read_key(data + 1, size - 1);
        break;
    case FUZZ_RECORD:
        read_record(data + 1, size - 1);
        break;
    default:
        read_setting(data + 1, size - 1);
        break;
    }
    return 0;
}

size_t fuzz_seed(unsigned reader, uint8_t *out, size_t capacity)
{
    size_t bytes = 0;
    struct core_record record = { .version = CORE_WIRE_VERSION,
                                  .rank = 3,
                                  .hostname = "host",
                                  .ncards = 2,
                                  .card = { { .tag = "ofi/net/1", .bytes = 24 },
                                            { .tag = "ofi/efa/1", .mbps = 1000, .bytes = 40 } } };
    open_once();
    out[0] = (uint8_t)reader;
    switch (reader) {
    case FUZZ_TOKEN:
        (void)!oriel_token_pack(memory, out + 1, capacity - 1, &bytes);
        return bytes + 1;
    case FUZZ_KEY:
        (void)!oriel_token_pack(memory, out + 1, capacity - 1, &bytes);
        /* the key lies behind the token's head and its transport's name and length */
        memmove(out + 1, out + 1 + FUZZ_KEY_AT, bytes - FUZZ_KEY_AT - 4);
        return bytes - FUZZ_KEY_AT - 4 + 1;
    case FUZZ_RECORD:
        return core_record_encode(&record, out + 1, capacity - 1) + 1;
    default:
        memcpy(out + 1, "SPIN_TIME=2us", 13);
        return 14;
    }
}
