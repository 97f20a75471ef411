/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a copy kernel is: private to the copy files. copy.c picks one of the kernels that the
 * build lists (copy_x86.c, copy_arm.c or copy_none.c, chosen by the makefile, and copy_words.c
 * always) and sends it everything above ORL_COPY_SMALL_MAX bytes. Stateless, no lock.
 */
#ifndef BASE_COPY_KERNEL_H
#define BASE_COPY_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

/* Copies up to this size are made of overlapping words and never reach a kernel. */
#define ORL_COPY_SMALL_MAX ((size_t)64)

typedef void (*orl_copy_fn)(unsigned char *dst, const unsigned char *src, size_t n);

struct orl_copy_kernel {
    const char *name;
    bool (*is_usable)(void);  /* asks the CPU */
    orl_copy_fn copy;         /* n is above ORL_COPY_SMALL_MAX, here and below */
    orl_copy_fn stream;       /* the same past the caches, fenced at the end */
    bool (*has_string)(void); /* asks the CPU whether `string` is fast; NULL: there is none */
    orl_copy_fn string;       /* the same by the CPU's own copy instruction */
};

/* Kernels of this build's processor family, best first, NULL at the end. */
extern const struct orl_copy_kernel *const orl_copy_native[];

/* The kernel that runs anywhere. */
extern const struct orl_copy_kernel orl_copy_words;

/*
 * Words at any address and of any type. The compiler may neither split the access (it is one
 * instruction on every family supported) nor reason from the pointer's type.
 */
struct __attribute__((packed, may_alias)) orl_any128 {
    uint64_t v __attribute__((vector_size(16)));
};

struct __attribute__((packed, may_alias)) orl_any64 {
    uint64_t v;
};

struct __attribute__((packed, may_alias)) orl_any32 {
    uint32_t v;
};

struct __attribute__((packed, may_alias)) orl_any16 {
    uint16_t v;
};

static inline uint64_t orl_load64(const unsigned char *from)
{
    return ((const struct orl_any64 *)(const void *)from)->v;
}

static inline void orl_store64(unsigned char *to, uint64_t value)
{
    struct orl_any64 *at = (void *)to;

    at->v = value;
}

static inline uint32_t orl_load32(const unsigned char *from)
{
    return ((const struct orl_any32 *)(const void *)from)->v;
}

static inline void orl_store32(unsigned char *to, uint32_t value)
{
    struct orl_any32 *at = (void *)to;

    at->v = value;
}

static inline uint16_t orl_load16(const unsigned char *from)
{
    return ((const struct orl_any16 *)(const void *)from)->v;
}

static inline void orl_store16(unsigned char *to, uint16_t value)
{
    struct orl_any16 *at = (void *)to;

    at->v = value;
}

/* Copies up to ORL_COPY_SMALL_MAX bytes: the head and the tail of a partial block. */
void orl_copy_small(unsigned char *dst, const unsigned char *src, size_t n);

#endif
