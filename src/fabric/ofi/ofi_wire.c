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
    case OFI_KIND_BULK:
        return sizeof(struct ofi_hello);
    case OFI_KIND_WELCOME:
        return sizeof(struct ofi_welcome);
    case OFI_KIND_ANSWER:
    case OFI_KIND_REFUSAL:
    case OFI_KIND_RETURN:
        return sizeof(struct ofi_answer);
    case OFI_KIND_MESSAGE:
        return sizeof(uint64_t);
    case OFI_KIND_PUT:
        return offsetof(struct ofi_access, length);
    case OFI_KIND_GET:
        return offsetof(struct ofi_access, operand);
    case OFI_KIND_NOTIFY:
    case OFI_KIND_AMO:
        return sizeof(struct ofi_access);
    case OFI_KIND_PULL:
    case OFI_KIND_BORROW:
        return sizeof(struct ofi_large_body);
    default:
        return 0;
    }
}

static bool has_data(unsigned kind)
{
    return kind == OFI_KIND_MESSAGE || kind == OFI_KIND_PUT || kind == OFI_KIND_NOTIFY ||
           kind == OFI_KIND_ANSWER || kind == OFI_KIND_BUNDLE;
}

/* Whether a kind may have so many bytes of body and data. */
static bool is_whole(unsigned kind, size_t bytes)
{
    size_t want = ofi_wire_body(kind);

    return has_data(kind) ? bytes >= want : bytes == want;
}

static bool is_introduction_sane(const void *body)
{
    struct ofi_hello hello;

    memcpy(&hello, body, sizeof(hello));
    return hello.name_bytes != 0 && hello.name_bytes <= sizeof(hello.name) && hello.ep != 0 &&
           hello.cookie != 0;
}

static bool is_bundle_sane(const struct ofi_header *header, const unsigned char *at, size_t left)
{
    uint32_t numbered = 0;
    struct ofi_piece piece;

    if (left == 0) {
        return false;
    }
    while (left != 0) {
        if (left < sizeof(piece)) {
            return false;
        }
        memcpy(&piece, at, sizeof(piece));
        bool is_known = piece.kind >= OFI_KIND_FIRST_PIECE && piece.kind < OFI_KINDS;
        if (!is_known || !is_whole(piece.kind, piece.bytes) || ofi_wire_piece(piece.bytes) > left) {
            return false;
        }
        numbered += piece.kind >= OFI_KIND_FIRST_NUMBERED ? 1 : 0;
        at += ofi_wire_piece(piece.bytes);
        left -= ofi_wire_piece(piece.bytes);
    }
    return numbered == header->numbered;
}

static bool is_body_sane(const struct ofi_header *header, const unsigned char *body)
{
    switch (header->kind) {
    case OFI_KIND_HELLO:
    case OFI_KIND_BYE:
    case OFI_KIND_PING:
    case OFI_KIND_BULK:
        return is_introduction_sane(body);
    case OFI_KIND_BUNDLE:
        return is_bundle_sane(header, body, header->bytes);
    default:
        return true;
    }
}

enum ofi_arrival ofi_wire_check(const void *message, size_t bytes, uint64_t cookie,
                                struct ofi_header *header)
{
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
    if (header->kind >= OFI_KIND_FIRST_PIECE || header->bytes != bytes - sizeof(*header) ||
        !is_whole(header->kind, header->bytes) ||
        !is_body_sane(header, (const unsigned char *)message + sizeof(*header))) {
        return OFI_ARRIVAL_STRANGE;
    }
    return header->version == OFI_WIRE_VERSION ? OFI_ARRIVAL_GOOD : OFI_ARRIVAL_OTHER;
}

bool ofi_wire_next(const void *message, size_t bytes, const unsigned char **at,
                   struct ofi_piece *piece)
{
    const unsigned char *end = (const unsigned char *)message + bytes;

    if (*at == NULL) {
        *at = (const unsigned char *)message + sizeof(struct ofi_header);
    } else {
        memcpy(piece, *at, sizeof(*piece));
        *at += ofi_wire_piece(piece->bytes);
    }
    if (*at >= end) {
        return false;
    }
    memcpy(piece, *at, sizeof(*piece));
    return true;
}
