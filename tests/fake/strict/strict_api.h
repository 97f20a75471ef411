/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a test may ask of the provider `strict` and tell it, in the same process: by
 * fi_open_ops(fid, STRICT_OPS, 0, &api, NULL) on any of its fids, or by the symbol strict_api of
 * the module (dlopen with RTLD_NOLOAD).
 */
#ifndef TESTS_FAKE_STRICT_API_H
#define TESTS_FAKE_STRICT_API_H

#include <stddef.h>
#include <stdint.h>

#define STRICT_OPS "strict"

/* Of this process, all fabrics together. */
struct strict_counts {
    uint64_t violations;
    uint64_t posts;       /* sends, writes and reads taken */
    uint64_t doorbells;   /* of these, those without FI_MORE */
    uint64_t rx_posts;    /* receives taken */
    uint64_t receives;    /* receives posted now */
    uint64_t contexts;    /* contexts that are the provider's now */
    uint64_t mrs;         /* registrations alive */
    uint64_t mrs_made;    /* registrations ever made */
    uint64_t mrs_refused; /* by STRICT_REG_FAIL */
    uint64_t av_entries;  /* addresses alive */
    uint64_t fids;        /* objects open */
    uint64_t eagain;      /* posts turned away, for whatever reason */
    uint64_t unsupported; /* calls and flags that are not offered */
    uint64_t completions; /* entries read, errors among them */
    uint64_t errors;      /* error entries read */
    uint64_t refused;     /* RMA of others that this process turned away */
    uint64_t early;       /* ops completed before anything of them was sent */
    uint64_t overtaken;   /* frames sent before an older one */
    uint64_t split;       /* writes and reads placed in two parts */
    uint64_t rnr;         /* messages that found no receive posted */
    uint64_t strange;     /* frames of others that were no frames */
    uint64_t tight;       /* posts that could overrun their completion queue */
};

struct strict_api {
    const struct strict_counts *(*counts)(void);
    /* The last violation in words, "" for none; read once. */
    const char *(*violation)(void);
    /* Change a setting: the name as in STRICT_<NAME>. False: there is none of that name. */
    int (*set)(const char *name, uint64_t value);
    /* The peer of that address is gone: all ops to it end with an error, nothing of it arrives. */
    void (*drop)(const void *address, size_t bytes);
    /* Append the line of STRICT_REPORT now; it comes again when the process ends. */
    void (*report)(void);
};

/* By dlsym. */
typedef const struct strict_api *(*strict_api_fn)(void);

#endif
