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

/* A sound message of the kind with `data` bytes behind its body; its size. */
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
    if (kind == OFI_KIND_HELLO || kind == OFI_KIND_BYE || kind == OFI_KIND_PING) {
        memcpy(out + sizeof(header), &hello, sizeof(hello));
    }
    return sizeof(header) + behind;
}

static bool takes_data(unsigned kind)
{
    return kind == OFI_KIND_MESSAGE || kind == OFI_KIND_PUT || kind == OFI_KIND_ANSWER;
}

Test(ofi_wire, sizes)
{
    unsigned char message[512];
    struct ofi_header header;
    unsigned kind;

    for (kind = 1; kind < OFI_KINDS; kind++) {
        size_t whole = make(kind, 0, message);
        size_t n;

        cr_assert(judge(message, whole, &header) == OFI_ARRIVAL_GOOD, "kind %u", kind);
        cr_assert(header.kind == kind && header.bytes == whole - sizeof(header));
        for (n = 0; n < whole + 20; n++) {
            cr_assert(n == whole || judge(message, n, &header) == OFI_ARRIVAL_STRANGE,
                      "kind %u of %zu bytes passes with %zu", kind, whole, n);
        }
        whole = make(kind, 33, message);
        cr_assert((judge(message, whole, &header) == OFI_ARRIVAL_GOOD) == takes_data(kind),
                  "kind %u with data", kind);
    }
}

Test(ofi_wire, strangers)
{
    unsigned char message[512];
    struct ofi_header header;
    size_t whole = make(OFI_KIND_MESSAGE, 8, message);
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

    for (kind = 1; kind < OFI_KINDS; kind++) {
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
