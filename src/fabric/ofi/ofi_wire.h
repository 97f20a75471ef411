/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What engines say to each other, byte for byte. Little-endian, no padding that is not named. A
 * message is a header, then a body that its kind names, then data. Whatever arrives comes from
 * a stranger until its cookie, version and sizes have been checked (ofi_wire_check).
 *
 * Two kinds of messages. Numbered ones count in the sequence of the endpoint that sends them, are
 * delivered in that order exactly once, and need a credit. The others stand alone: they carry
 * answers whose number the requests bound, or may be lost or doubled without harm.
 */
#ifndef FABRIC_OFI_OFI_WIRE_H
#define FABRIC_OFI_OFI_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OFI_WIRE_VERSION 1
#define OFI_NAME_BYTES   48 /* largest libfabric address that is carried */
#define OFI_TEXT_BYTES   80

enum ofi_kind {
    OFI_KIND_NONE,
    /* Not numbered. The first two keep their layout in every version. */
    OFI_KIND_HELLO,   /* struct ofi_hello: an endpoint wants to speak */
    OFI_KIND_WELCOME, /* struct ofi_welcome: it may, or why not */
    OFI_KIND_BYE,     /* struct ofi_hello: that endpoint is closed */
    OFI_KIND_ACK,     /* nothing but the fields of the header */
    OFI_KIND_PING,    /* struct ofi_hello; to: its receiving half; seq: its next; wants an ACK */
    OFI_KIND_ANSWER,  /* struct ofi_answer, then the data of a get */
    OFI_KIND_REFUSAL, /* struct ofi_answer: a numbered put has failed */
    /* Numbered. */
    OFI_KIND_FIRST_NUMBERED,
    OFI_KIND_MESSAGE = OFI_KIND_FIRST_NUMBERED, /* user data for a handler */
    OFI_KIND_PUT,                               /* struct ofi_access, then data */
    OFI_KIND_GET,                               /* struct ofi_access */
    OFI_KIND_AMO,                               /* struct ofi_access */
    OFI_KINDS
};

/* ack_*: what the sender has received from endpoint ack_ep of the receiver; 0: nothing said. */
struct ofi_header {
    uint64_t cookie; /* the receiver's: whoever does not know it is a stranger */
    uint32_t to;     /* object of the receiver that this is for; 0 in a hello */
    uint8_t kind;    /* enum ofi_kind */
    uint8_t version; /* OFI_WIRE_VERSION */
    uint8_t handler; /* of a message */
    uint8_t flags;   /* zero */
    uint32_t seq;    /* of numbered ones */
    uint32_t bytes;  /* behind the header */
    uint64_t word;   /* header of a message */
    uint32_t ack_ep;
    uint32_t ack_seq;   /* all below have been delivered */
    uint32_t ack_limit; /* numbers below this may be sent */
    uint32_t refused;   /* of those below ack_seq, how many in all were refused */
};

struct ofi_access {
    uint32_t slot; /* of the registration */
    uint32_t gen;
    uint64_t offset;
    uint64_t operand; /* atomic; put: what the counter rises by */
    uint64_t other;   /* atomic: compare; put: offset of the counter */
    uint32_t length;  /* get: bytes wanted */
    uint32_t request; /* names the asker's record in the answer */
    uint32_t serial;
    uint8_t amo;
    uint8_t width;
    uint8_t notifies; /* the last piece of a put that raises a counter */
    uint8_t zero;
};

struct ofi_answer {
    uint32_t request;
    uint32_t serial;
    int32_t status;
    uint32_t seq; /* of the refused put */
    uint64_t value;
};

struct ofi_hello {
    uint64_t cookie; /* the sender's */
    uint32_t ep;     /* the sender's endpoint */
    uint16_t name_bytes;
    uint16_t zero;
    uint8_t name[OFI_NAME_BYTES]; /* the sender's libfabric address */
};

struct ofi_welcome {
    uint32_t ep; /* the endpoint that asked */
    uint32_t in; /* the half that will receive from it */
    uint32_t limit;
    int32_t status; /* 0, or why not */
    uint8_t version;
    uint8_t zero[3];
    char text[OFI_TEXT_BYTES];
};

_Static_assert(sizeof(struct ofi_header) == 48, "headers travel");
_Static_assert(offsetof(struct ofi_header, to) == 8, "no version moves this");
_Static_assert(offsetof(struct ofi_header, kind) == 12, "no version moves this");
_Static_assert(offsetof(struct ofi_header, version) == 13, "no version moves this");
_Static_assert(sizeof(struct ofi_access) == 48, "accesses travel");
_Static_assert(sizeof(struct ofi_answer) == 24, "answers travel");
_Static_assert(sizeof(struct ofi_hello) == 64, "hellos travel");
_Static_assert(sizeof(struct ofi_hello) != sizeof(struct ofi_answer) &&
                   sizeof(struct ofi_hello) != sizeof(struct ofi_access),
               "introductions are known by their length");
_Static_assert(sizeof(struct ofi_welcome) == 100, "welcomes travel");
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
 #error "the wire is little-endian: a big-endian host needs conversions here"
#endif

enum ofi_arrival {
    OFI_ARRIVAL_GOOD,
    OFI_ARRIVAL_STRANGE, /* garbage, or from someone who does not know this engine */
    OFI_ARRIVAL_OTHER    /* well formed, of another version */
};

/* Judge `bytes` bytes that arrived for the engine with that cookie; fills *header unless strange.
 * A good one has its whole body, and no more data than its kind has. */
enum ofi_arrival ofi_wire_check(const void *message, size_t bytes, uint64_t cookie,
                                struct ofi_header *header);

/* Bytes of the body that a kind has in front of its data. */
size_t ofi_wire_body(unsigned kind);

/* Signed distance of two numbers that wrap. */
static inline int32_t ofi_wire_ahead(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b);
}

#endif
