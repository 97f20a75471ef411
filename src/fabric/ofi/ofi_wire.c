/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first look at what arrived. Nothing behind this file reads a byte that it has not counted.
 */
#include "fabric/ofi/ofi_wire.h"

#include <string.h>

size_t ofi_wire_body(unsigned kind)
{
    switch (kind) {
    case OFI_KIND_HELLO:
    case OFI_KIND_BYE:
    case OFI_KIND_PING:
        return sizeof(struct ofi_hello);
    case OFI_KIND_WELCOME:
        return sizeof(struct ofi_welcome);
    case OFI_KIND_ANSWER:
    case OFI_KIND_REFUSAL:
        return sizeof(struct ofi_answer);
    case OFI_KIND_PUT:
    case OFI_KIND_GET:
    case OFI_KIND_AMO:
        return sizeof(struct ofi_access);
    default:
        return 0;
    }
}

static bool has_data(unsigned kind)
{
    return kind == OFI_KIND_MESSAGE || kind == OFI_KIND_PUT || kind == OFI_KIND_ANSWER;
}

static bool is_body_sane(const struct ofi_header *header, const void *body)
{
    struct ofi_hello hello;

    if (ofi_wire_body(header->kind) != sizeof(hello)) {
        return true;
    }
    memcpy(&hello, body, sizeof(hello));
    return hello.name_bytes != 0 && hello.name_bytes <= sizeof(hello.name) && hello.ep != 0 &&
           hello.cookie != 0;
}

enum ofi_arrival ofi_wire_check(const void *message, size_t bytes, uint64_t cookie,
                                struct ofi_header *header)
{
    const unsigned char *body = (const unsigned char *)message + sizeof(*header);

    if (bytes < sizeof(*header)) {
        return OFI_ARRIVAL_STRANGE;
    }
    memcpy(header, message, sizeof(*header));
    if (header->cookie != cookie || header->kind == OFI_KIND_NONE) {
        return OFI_ARRIVAL_STRANGE;
    }
    bool is_fixed = header->kind == OFI_KIND_HELLO || header->kind == OFI_KIND_WELCOME;
    if (header->version != OFI_WIRE_VERSION && !is_fixed) {
        return OFI_ARRIVAL_OTHER;
    }
    size_t want = ofi_wire_body(header->kind);
    size_t behind = bytes - sizeof(*header);
    bool is_whole =
        header->bytes == behind && (has_data(header->kind) ? behind >= want : behind == want);
    if (header->kind >= OFI_KINDS || !is_whole || !is_body_sane(header, body)) {
        return OFI_ARRIVAL_STRANGE;
    }
    return header->version == OFI_WIRE_VERSION ? OFI_ARRIVAL_GOOD : OFI_ARRIVAL_OTHER;
}
