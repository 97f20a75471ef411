/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first look at what arrives from the network: sizes, kinds, versions, strangers. Every message
 * is in memory of exactly its size, so that the sanitizers and valgrind see a byte read too many.
 */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "fabric/ofi/ofi_wire.h"

#define COOKIE UINT64_C(0x1122334455667788)

/* Judge the first `bytes` bytes of a message. */
static enum ofi_arrival judge(const void *message, size_t bytes, struct ofi_header *header)
{
    unsigned char *exact = malloc(bytes == 0 ? 1 : bytes);
    enum ofi_arrival arrival;

    cr_assert(exact != NULL);
    memcpy(exact, message, bytes);
    arrival = ofi_wire_check(exact, bytes, COOKIE, header);
    free(exact);
    return arrival;
}

/* What stands alone, sound, of the kind, with `data` bytes behind its body; its size. */
static size_t make(unsigned kind, size_t data, unsigned char *out)
{
    struct ofi_header header = { .cookie = COOKIE,
                                 .kind = (uint8_t)kind,
                                 .version = OFI_WIRE_VERSION };
    struct ofi_hello hello = { .cookie = 5, .ep = 7, .name_bytes = 16 };
    size_t behind = ofi_wire_body(kind) + data;

    header.bytes = (uint32_t)behind;
    memset(out, 0, sizeof(header) + behind);
    memcpy(out, &header, sizeof(header));
    if (ofi_wire_body(kind) == sizeof(hello)) {
        memcpy(out + sizeof(header), &hello, sizeof(hello));
    }
    return sizeof(header) + behind;
}

/* Add a piece to a bundle; `out` has its header. */
static size_t add(unsigned kind, size_t data, unsigned char *out, size_t at)
{
    struct ofi_piece piece = { .bytes = (uint32_t)(ofi_wire_body(kind) + data),
                               .kind = (uint8_t)kind };
    struct ofi_header header;

    memcpy(&header, out, sizeof(header));
    memset(out + at, 0x5a, ofi_wire_piece(piece.bytes));
    memcpy(out + at, &piece, sizeof(piece));
    header.bytes += (uint32_t)ofi_wire_piece(piece.bytes);
    header.numbered += kind >= OFI_KIND_FIRST_NUMBERED ? 1 : 0;
    memcpy(out, &header, sizeof(header));
    return at + ofi_wire_piece(piece.bytes);
}

static bool takes_data(unsigned kind)
{
    return kind == OFI_KIND_MESSAGE || kind == OFI_KIND_PUT || kind == OFI_KIND_NOTIFY ||
           kind == OFI_KIND_ANSWER;
}

Test(ofi_wire, sizes)
{
    unsigned char message[512];
    struct ofi_header header;
    unsigned kind;

    for (kind = 1; kind < OFI_KIND_FIRST_PIECE; kind++) {
        size_t whole = make(kind, 0, message);
        size_t n;

        if (kind == OFI_KIND_BUNDLE) {
            continue;
        }
        cr_assert(judge(message, whole, &header) == OFI_ARRIVAL_GOOD, "kind %u", kind);
        cr_assert(header.kind == kind && header.bytes == whole - sizeof(header));
        for (n = 0; n < whole + 20; n++) {
            cr_assert(n == whole || judge(message, n, &header) == OFI_ARRIVAL_STRANGE,
                      "kind %u of %zu bytes passes with %zu", kind, whole, n);
        }
        whole = make(kind, 33, message);
        cr_assert(judge(message, whole, &header) == OFI_ARRIVAL_STRANGE, "kind %u with data", kind);
    }
}

Test(ofi_wire, pieces)
{
    unsigned char message[1024];
    struct ofi_header header;
    unsigned kind;

    cr_assert(judge(message, make(OFI_KIND_BUNDLE, 0, message), &header) == OFI_ARRIVAL_STRANGE,
              "a bundle of nothing");
    for (kind = OFI_KIND_FIRST_PIECE; kind < OFI_KINDS; kind++) {
        size_t first = make(OFI_KIND_BUNDLE, 0, message);
        size_t second = add(kind, 0, message, first);
        size_t whole = add(OFI_KIND_MESSAGE, 3, message, second);
        size_t n;

        cr_assert(judge(message, whole, &header) == OFI_ARRIVAL_GOOD, "kind %u", kind);
        for (n = sizeof(header); n < whole; n++) {
            uint32_t bytes = (uint32_t)(n - sizeof(header));

            memcpy(message + offsetof(struct ofi_header, bytes), &bytes, sizeof(bytes));
            cr_assert(judge(message, n, &header) == OFI_ARRIVAL_STRANGE,
                      "kind %u and another are whole with %zu of %zu bytes", kind, n, whole);
        }
        whole = add(kind, 5, message, make(OFI_KIND_BUNDLE, 0, message));
        cr_assert((judge(message, whole, &header) == OFI_ARRIVAL_GOOD) == takes_data(kind),
                  "kind %u with data", kind);
    }
}

Test(ofi_wire, malformed)
{
    unsigned char good[512];
    unsigned char message[512];
    struct ofi_header header;
    size_t first = make(OFI_KIND_BUNDLE, 0, good);
    size_t whole = add(OFI_KIND_GET, 0, good, add(OFI_KIND_PUT, 8, good, first));
    static const uint32_t sizes[] = { 0,          1,          15,         25,        32,
                                      0x7fffffff, 0xfffffff0, 0xfffffff8, 0xffffffff };
    unsigned kind;
    size_t i;

    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memcpy(message, good, whole);
        memcpy(message + first, &sizes[i], sizeof(sizes[i]));
        cr_assert(judge(message, whole, &header) == OFI_ARRIVAL_STRANGE, "a piece of %u bytes",
                  sizes[i]);
    }
    for (kind = 0; kind < 256; kind++) {
        bool is_piece = kind >= OFI_KIND_FIRST_PIECE && kind < OFI_KINDS;

        memcpy(message, good, whole);
        message[first + offsetof(struct ofi_piece, kind)] = (unsigned char)kind;
        cr_assert(is_piece || judge(message, whole, &header) == OFI_ARRIVAL_STRANGE,
                  "a piece of kind %u", kind);
    }
    for (i = 0; i < 5; i++) {
        uint32_t numbered = (uint32_t)i;

        memcpy(message, good, whole);
        memcpy(message + offsetof(struct ofi_header, numbered), &numbered, sizeof(numbered));
        cr_assert((judge(message, whole, &header) == OFI_ARRIVAL_GOOD) == (i == 2),
                  "2 numbered pieces pass for %zu", i);
    }
}

Test(ofi_wire, steps)
{
    unsigned char message[512];
    const unsigned char *at = NULL;
    struct ofi_piece piece;
    size_t first = make(OFI_KIND_BUNDLE, 0, message);
    size_t second = add(OFI_KIND_MESSAGE, 5, message, first);
    size_t whole = add(OFI_KIND_ANSWER, 16, message, second);

    cr_assert(second == first + sizeof(piece) + 16);
    cr_assert(ofi_wire_next(message, whole, &at, &piece));
    cr_assert(at == message + first && piece.kind == OFI_KIND_MESSAGE && piece.bytes == 13);
    cr_assert(ofi_wire_next(message, whole, &at, &piece));
    cr_assert(at == message + second && piece.kind == OFI_KIND_ANSWER);
    cr_assert(ofi_wire_inside(at) == message + second + sizeof(piece));
    cr_assert(!ofi_wire_next(message, whole, &at, &piece));
}

Test(ofi_wire, strangers)
{
    unsigned char message[512];
    struct ofi_header header;
    size_t whole = make(OFI_KIND_ACK, 0, message);
    unsigned bit;

    for (bit = 0; bit < 64; bit++) {
        message[bit / 8] ^= (unsigned char)(1u << bit % 8);
        cr_assert(judge(message, whole, &header) == OFI_ARRIVAL_STRANGE, "bit %u", bit);
        message[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    message[offsetof(struct ofi_header, kind)] = OFI_KINDS;
    cr_assert(judge(message, whole, &header) == OFI_ARRIVAL_STRANGE);
    message[offsetof(struct ofi_header, kind)] = OFI_KIND_NONE;
    cr_assert(judge(message, whole, &header) == OFI_ARRIVAL_STRANGE);
}

Test(ofi_wire, versions)
{
    unsigned char message[512];
    struct ofi_header header;
    unsigned kind;

    for (kind = 1; kind < OFI_KIND_FIRST_PIECE; kind++) {
        size_t whole = make(kind, 0, message);

        message[offsetof(struct ofi_header, version)] = OFI_WIRE_VERSION + 1;
        cr_assert(judge(message, whole, &header) == OFI_ARRIVAL_OTHER, "kind %u", kind);
    }
}

Test(ofi_wire, hellos)
{
    unsigned char message[512];
    struct ofi_header header;
    size_t whole = make(OFI_KIND_HELLO, 0, message);
    unsigned char *body = message + sizeof(header);

    body[offsetof(struct ofi_hello, name_bytes)] = OFI_NAME_BYTES;
    cr_assert(judge(message, whole, &header) == OFI_ARRIVAL_GOOD);
    body[offsetof(struct ofi_hello, name_bytes)] = OFI_NAME_BYTES + 1;
    cr_assert(judge(message, whole, &header) == OFI_ARRIVAL_STRANGE);
    body[offsetof(struct ofi_hello, name_bytes)] = 0;
    cr_assert(judge(message, whole, &header) == OFI_ARRIVAL_STRANGE);
    (void)make(OFI_KIND_HELLO, 0, message);
    memset(body + offsetof(struct ofi_hello, ep), 0, 4);
    cr_assert(judge(message, whole, &header) == OFI_ARRIVAL_STRANGE);
}

Test(ofi_wire, distance)
{
    cr_assert(ofi_wire_ahead(5, 3) == 2);
    cr_assert(ofi_wire_ahead(3, 5) == -2);
    cr_assert(ofi_wire_ahead(1, UINT32_MAX) == 2);
    cr_assert(ofi_wire_ahead(UINT32_MAX, 1) == -2);
}
