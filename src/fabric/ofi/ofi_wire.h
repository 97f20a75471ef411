/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What engines say to each other, byte for byte. Little-endian, no padding that is not named. What
 * is sent at once is a header and behind it either one body that the header's kind names, or, in a
 * bundle, pieces: each a small header, a body that its kind names, data, and zeros up to a multiple
 * of 8. Whatever arrives comes from a stranger until its cookie, version and sizes have been
 * checked (ofi_wire_check).
 *
 * Two kinds of pieces. Numbered ones count in the sequence of the endpoint that sends them, are
 * delivered in that order exactly once, and need a credit; those of one bundle are of one endpoint
 * and follow each other. The others carry answers whose number the requests bound. What is sent
 * outside of bundles may be lost or doubled without harm.
 */
#ifndef FABRIC_OFI_OFI_WIRE_H
#define FABRIC_OFI_OFI_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OFI_WIRE_VERSION 2
#define OFI_NAME_BYTES   48 /* largest libfabric address that is carried */
#define OFI_TEXT_BYTES   80

enum ofi_kind {
    OFI_KIND_NONE,
    /* Alone. The first two keep their layout in every version. */
    OFI_KIND_HELLO,   /* struct ofi_hello: an endpoint wants to speak */
    OFI_KIND_WELCOME, /* struct ofi_welcome: it may, or why not */
    OFI_KIND_BYE,     /* struct ofi_hello: that endpoint is closed */
    OFI_KIND_ACK,     /* nothing but the fields of the header */
    OFI_KIND_PING,    /* struct ofi_hello; to: its receiving half; seq: its next; wants an ACK */
    OFI_KIND_BUNDLE,  /* pieces */
    OFI_KIND_BULK, /* struct ofi_hello: the bulk endpoint, `ep` its life; seq: that of the receiver
                    */
    /* Pieces. */
    OFI_KIND_FIRST_PIECE,
    OFI_KIND_ANSWER = OFI_KIND_FIRST_PIECE, /* struct ofi_answer, then the data of a get */
    OFI_KIND_REFUSAL,                       /* struct ofi_answer: a numbered put has failed */
    OFI_KIND_RETURN,                        /* struct ofi_answer: a loan is over */
    /* Numbered pieces. */
    OFI_KIND_FIRST_NUMBERED,
    OFI_KIND_MESSAGE = OFI_KIND_FIRST_NUMBERED, /* a word, then user data for a handler */
    OFI_KIND_PUT,                               /* struct ofi_access up to its length, then data */
    OFI_KIND_NOTIFY, /* struct ofi_access, then data: a put that raises a counter */
    OFI_KIND_GET,    /* struct ofi_access up to its operand */
    OFI_KIND_AMO,    /* struct ofi_access */
    OFI_KIND_PULL,   /* struct ofi_large_body: a put that the target reads */
    OFI_KIND_BORROW, /* struct ofi_large_body: a get that the origin reads */
    OFI_KINDS
};

/* ack_*: what the sender has received from endpoint ack_ep of the receiver; 0: nothing said. */
struct ofi_header {
    uint64_t cookie; /* the receiver's: whoever does not know it is a stranger */
    uint32_t to;     /* half of the receiver that this is for; 0 where that means nothing */
    uint8_t kind;    /* enum ofi_kind, up to BUNDLE */
    uint8_t version; /* OFI_WIRE_VERSION */
    uint16_t zero;
    uint32_t seq;      /* of the first numbered piece */
    uint32_t bytes;    /* behind the header */
    uint32_t numbered; /* pieces of the bundle that are */
    uint32_t flags;    /* OFI_FOLLOWED */
    uint32_t ack_ep;
    uint32_t ack_seq;   /* all below have been delivered */
    uint32_t ack_limit; /* numbers below this may be sent */
    uint32_t refused;   /* of those below ack_seq, how many in all were refused */
};

/* The sender has more of the same endpoint that follows: an acknowledgement can wait for that. */
#define OFI_FOLLOWED 1u

/* In front of each piece of a bundle. */
struct ofi_piece {
    uint32_t bytes;  /* of body and data */
    uint8_t kind;    /* enum ofi_kind, from FIRST_PIECE */
    uint8_t handler; /* of a message */
    uint16_t zero;
};

struct ofi_access {
    uint32_t slot; /* of the registration */
    uint32_t gen;
    uint64_t offset;
    uint32_t length;  /* get: bytes wanted */
    uint32_t request; /* names the asker's record in the answer */
    uint32_t serial;
    uint8_t amo;
    uint8_t width;
    uint16_t zero;
    uint64_t operand; /* atomic; notify: what the counter rises by */
    uint64_t other;   /* atomic: compare; notify: offset of the counter */
};

struct ofi_answer {
    uint32_t ep;     /* the receiver's endpoint that this is for */
    uint32_t number; /* the request's, or that of the refused put */
    uint32_t serial; /* of the request */
    int32_t status;
    uint64_t value;
};

/* A large piece: a pull says where to read, a loan is asked for. */
struct ofi_large_body {
    uint32_t slot; /* of the registration */
    uint32_t gen;
    uint64_t offset;
    uint64_t bytes;
    uint64_t operand; /* what the counter rises by */
    uint64_t other;   /* offset of the counter */
    uint64_t from;    /* pull: address and key of the source */
    uint64_t key;
    uint32_t mine; /* lives of the bulk endpoints of the sender and of the receiver */
    uint32_t yours;
    uint32_t epoch;   /* pull */
    uint32_t request; /* loan */
    uint32_t serial;
    uint8_t notifies; /* pull: raises the counter */
    uint8_t zero[3];
};

/* Data of the answer that grants a loan. */
struct ofi_grant {
    uint64_t from;
    uint64_t key;
    uint32_t loan; /* to be named when it is returned */
    uint32_t zero;
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
_Static_assert(sizeof(struct ofi_large_body) == 80, "large pieces travel");
_Static_assert(sizeof(struct ofi_grant) == 24, "grants travel");
_Static_assert(sizeof(struct ofi_hello) == 64, "hellos travel");
_Static_assert(offsetof(struct ofi_access, length) == 16, "the body of a put");
_Static_assert(offsetof(struct ofi_access, operand) == 32, "the body of a get");
_Static_assert(sizeof(struct ofi_piece) == 8, "pieces travel");
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
 * A good one has its whole body, and no more data than its kind has; a bundle has whole pieces of
 * kinds that there are, and as many numbered ones as its header says. */
enum ofi_arrival ofi_wire_check(const void *message, size_t bytes, uint64_t cookie,
                                struct ofi_header *header);

/* Bytes of the body that a kind has in front of its data. */
size_t ofi_wire_body(unsigned kind);

/* What a piece takes in a bundle, its header included. */
static inline size_t ofi_wire_piece(size_t body_and_data)
{
    return sizeof(struct ofi_piece) + ((body_and_data + 7) & ~(size_t)7);
}

/* Step through a bundle that has been checked: *at is the piece, NULL before the first one. Fills
 * *piece; false: there is none any more. */
bool ofi_wire_next(const void *message, size_t bytes, const unsigned char **at,
                   struct ofi_piece *piece);
/* Body of the piece at that place. */
static inline const unsigned char *ofi_wire_inside(const unsigned char *at)
{
    return at + sizeof(struct ofi_piece);
}

/* Signed distance of two numbers that wrap. */
static inline int32_t ofi_wire_ahead(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b);
}

#endif
