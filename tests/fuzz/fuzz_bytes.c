/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of everything that reads bytes of others: tokens, transport keys, bootstrap records,
 * settings, what arrives from a network. The first byte of the input chooses the reader. Nothing
 * may crash, and whatever is accepted must be of use: an opened remote answers questions and can be
 * closed.
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
#include "fabric/nics.h"
#ifdef ORIEL_HAVE_LIBFABRIC
 #include "fabric/ofi/ofi_wire.h"
#endif
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

/* What such a token says need not be so, but must be bearable. */
static void use_loosely(const uint8_t *data, size_t size)
{
    struct oriel_remote *remote = NULL;
    struct oriel_remote_info info = { .size = sizeof(info) };
    uint8_t byte = 0;

    if (oriel_token_open(data, size, &remote) != 0) {
        return;
    }
    if (oriel_remote_query(remote, &info) != 0 || oriel_get(remote, info.bytes, &byte, 1) == 0) {
        abort();
    }
    (void)!oriel_get(remote, info.bytes - 1, &byte, 1);
    if (oriel_remote_close(remote) != 0) {
        abort();
    }
}

/* A token of a rank that has computed its checksum over whatever it holds. */
static void read_token_inside(const uint8_t *data, size_t size)
{
    uint8_t token[ORIEL_TOKEN_BYTES_MAX];
    size_t n = size < sizeof(token) ? size : sizeof(token);

    memcpy(token, data, n);
    if (n >= 12) {
        uint32_t crc;

        token[6] = (uint8_t)n;
        token[7] = (uint8_t)(n >> 8);
        crc = orl_crc32c(0, token, n - 4);
        memcpy(token + n - 4, &crc, 4);
    }
    use_loosely(token, n);
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

/* A list that is taken answers for every port; what it names it has kept whole. */
static void read_nics(const uint8_t *data, size_t size)
{
    static const struct fab_nics_port ports[] = {
        { .name = "eth0", .pci = "0000:00:05.0", .family = 4, .address = { 10, 77, 0, 1 } },
        { .name = "ib0", .other = "mlx5_0", .pci = "", .family = 6, .address = { 0xfd } },
        { .name = "lo", .pci = "" }
    };
    struct fab_nics nics;
    char text[512];
    size_t n = size < sizeof(text) - 1 ? size : sizeof(text) - 1;

    memcpy(text, data, n);
    text[n] = 0;
    int status = fab_nics_parse(text, &nics);
    if ((status == 0) != (fab_nics_check(text) == 0) || (status != 0 && fab_nics_has_pin(text))) {
        abort();
    }
    if (status != 0) {
        return;
    }
    for (unsigned i = 0; i < nics.nitems; i++) {
        if (strnlen(nics.item[i].word, FAB_NICS_WORD) == FAB_NICS_WORD) {
            abort();
        }
    }
    for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
        enum fab_nics_answer answer = fab_nics_ask(&nics, &ports[i]);
        if (answer > FAB_NICS_OUT || (answer == FAB_NICS_PINNED && !nics.has_pin)) {
            abort();
        }
    }
}

#ifdef ORIEL_HAVE_LIBFABRIC
 #define COOKIE UINT64_C(0x1122334455667788)

static volatile uint64_t wire_sum; /* so that reading is not left out */

static uint64_t sum_of(const unsigned char *bytes, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += bytes[i];
    }
    return sum;
}

/* In memory of its own length, so that a look behind its end is seen. What is called good has its
 * body, and its pieces lie in it; they are read as their receivers do. */
static void read_wire(const uint8_t *data, size_t size)
{
    const uint64_t cookie = COOKIE;
    unsigned char *message = malloc(size + 1);
    struct ofi_header header;
    struct ofi_piece piece;
    const unsigned char *at = NULL;
    uint32_t numbered = 0;

    if (message == NULL) {
        return;
    }
    memcpy(message, data, size);
    if (size >= sizeof(cookie) && message[0] % 8 != 0) {
        memcpy(message, &cookie, sizeof(cookie));
    }
    if (ofi_wire_check(message, size, COOKIE, &header) == OFI_ARRIVAL_GOOD) {
        if (size < sizeof(header) + ofi_wire_body(header.kind)) {
            abort();
        }
        while (header.kind == OFI_KIND_BUNDLE && ofi_wire_next(message, size, &at, &piece)) {
            if (piece.bytes < ofi_wire_body(piece.kind) ||
                ofi_wire_inside(at) + piece.bytes > message + size) {
                abort();
            }
            numbered += piece.kind >= OFI_KIND_FIRST_NUMBERED ? 1 : 0;
            wire_sum += sum_of(ofi_wire_inside(at), piece.bytes);
        }
        if (header.kind == OFI_KIND_BUNDLE && numbered != header.numbered) {
            abort();
        }
    }
    free(message);
}

/* A bundle of a put and a message. */
static size_t wire_seed(uint8_t *out)
{
    struct ofi_header header = {
        .cookie = COOKIE, .kind = OFI_KIND_BUNDLE, .version = OFI_WIRE_VERSION, .numbered = 2
    };
    struct ofi_piece put = { .kind = OFI_KIND_PUT };
    struct ofi_piece message = { .kind = OFI_KIND_MESSAGE, .bytes = 13 };
    size_t at = sizeof(header);

    put.bytes = (uint32_t)ofi_wire_body(OFI_KIND_PUT) + 24;
    memcpy(out + at, &put, sizeof(put));
    at += ofi_wire_piece(put.bytes);
    memcpy(out + at, &message, sizeof(message));
    at += ofi_wire_piece(message.bytes);
    header.bytes = (uint32_t)(at - sizeof(header));
    memcpy(out, &header, sizeof(header));
    return at;
}
#endif

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
    case FUZZ_TOKEN_INSIDE:
        read_token_inside(data + 1, size - 1);
        break;
    case FUZZ_NICS:
        read_nics(data + 1, size - 1);
        break;
#ifdef ORIEL_HAVE_LIBFABRIC
    case FUZZ_WIRE:
        read_wire(data + 1, size - 1);
        break;
#endif
    default:
        read_setting(data + 1, size - 1);
        break;
    }
    return 0;
}

size_t fuzz_seed(unsigned reader, uint8_t *out, size_t capacity)
{
    static const char nics[] = "eth*,^ib0,0000:00:05.0,10.77.0.0/16,^fd00::/8";
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
    case FUZZ_TOKEN_INSIDE:
        (void)!oriel_token_pack(memory, out + 1, capacity - 1, &bytes);
        return bytes + 1;
    case FUZZ_KEY:
        (void)!oriel_token_pack(memory, out + 1, capacity - 1, &bytes);
        /* the key lies behind the token's head, the number of its engine and its length */
        bytes = out[FUZZ_KEY_AT];
        memmove(out + 1, out + 1 + FUZZ_KEY_AT, bytes);
        return bytes + 1;
    case FUZZ_RECORD:
        return core_record_encode(&record, out + 1, capacity - 1) + 1;
    case FUZZ_NICS:
        memcpy(out + 1, nics, sizeof(nics));
        return sizeof(nics);
#ifdef ORIEL_HAVE_LIBFABRIC
    case FUZZ_WIRE:
        return wire_seed(out + 1) + 1;
#endif
    default:
        memcpy(out + 1, "SPIN_TIME=2us", 13);
        return 14;
    }
}
