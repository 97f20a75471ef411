/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copy kernels of x86: AVX-512 and AVX2. Unaligned loads, stores aligned after a head of one
 * vector, four vectors a turn, and a tail that overlaps what is written already; and the string
 * instruction, where copy.c finds it safe. Called by copy.c alone, after it asked is_usable; every
 * function names its own target, so the file needs no compiler flag.
 */
#include <cpuid.h>
#include <immintrin.h>

#include "base/copy_kernel.h"

enum {
    YMM_BYTES = 32,
    ZMM_BYTES = 64,
    LINE_BYTES = 64, /* a non-temporal store is only good by whole lines */
    TURN = 4         /* vectors a turn of the loop */
};

/* ---- string instruction ---- */

/* Enhanced rep movsb: leaf 7, EBX bit 9 (Intel SDM volume 2, CPUID; AMD's manuals agree). */
static bool has_string(void)
{
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;

    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & 1u << 9) != 0;
}

/* Its stores may pass each other, but none that follows it (Intel SDM volume 3, 9.2.4). The slot's
 * type wants a pointer to write through. NOLINTNEXTLINE(readability-non-const-parameter) */
static void copy_string(unsigned char *dst, const unsigned char *src, size_t n)
{
    __asm__ __volatile__("rep movsb" : "+D"(dst), "+S"(src), "+c"(n) : : "memory");
}

/* ---- AVX-512 ---- */

/*
 * 512-bit loads and stores slow the clock of the first server cores that had them; VBMI2 came
 * with the generation that no longer does.
 */
static bool has_avx512(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vbmi2");
}

ORL_TARGET("avx512f") static inline __m512i load512(const unsigned char *from)
{
    return _mm512_loadu_si512((const void *)from);
}

ORL_TARGET("avx512f") static inline void store512(unsigned char *to, __m512i value)
{
    _mm512_storeu_si512((void *)to, value);
}

/* Four vectors from src to dst, loaded before the first store. */
ORL_TARGET("avx512f") static inline void turn512(unsigned char *dst, const unsigned char *src)
{
    __m512i a = load512(src);
    __m512i b = load512(src + ZMM_BYTES);
    __m512i c = load512(src + (size_t)2 * ZMM_BYTES);
    __m512i d = load512(src + (size_t)3 * ZMM_BYTES);

    store512(dst, a);
    store512(dst + ZMM_BYTES, b);
    store512(dst + (size_t)2 * ZMM_BYTES, c);
    store512(dst + (size_t)3 * ZMM_BYTES, d);
}

/* 65 to 256 bytes: one or two vectors from either end. */
ORL_TARGET("avx512f")
static inline void short512(unsigned char *dst, const unsigned char *src, size_t n)
{
    __m512i first = load512(src);
    __m512i last = load512(src + n - ZMM_BYTES);

    if (n > (size_t)2 * ZMM_BYTES) {
        __m512i second = load512(src + ZMM_BYTES);
        __m512i third = load512(src + n - (size_t)2 * ZMM_BYTES);

        store512(dst + ZMM_BYTES, second);
        store512(dst + n - (size_t)2 * ZMM_BYTES, third);
    }
    store512(dst, first);
    store512(dst + n - ZMM_BYTES, last);
}

ORL_TARGET("avx512f")
static void copy_avx512(unsigned char *dst, const unsigned char *src, size_t n)
{
    const size_t block = (size_t)TURN * ZMM_BYTES;
    size_t done = ZMM_BYTES - ((uintptr_t)dst & (ZMM_BYTES - 1));

    if (n <= block) {
        short512(dst, src, n);
        return;
    }
    store512(dst, load512(src));
    for (; n - done > block; done += block) {
        turn512(dst + done, src + done);
    }
    turn512(dst + n - block, src + n - block);
}

ORL_TARGET("avx512f")
static inline void stream512(unsigned char *dst, const unsigned char *src)
{
    _mm512_stream_si512((void *)dst, load512(src));
}

/* Head and tail are stored plainly, and touch no line that was streamed. */
ORL_TARGET("avx512f")
static void stream_avx512(unsigned char *dst, const unsigned char *src, size_t n)
{
    const size_t block = (size_t)TURN * ZMM_BYTES;
    size_t done = -(uintptr_t)dst & (LINE_BYTES - 1);

    orl_copy_small(dst, src, done);
    for (; n - done >= block; done += block) {
        stream512(dst + done, src + done);
        stream512(dst + done + ZMM_BYTES, src + done + ZMM_BYTES);
        stream512(dst + done + (size_t)2 * ZMM_BYTES, src + done + (size_t)2 * ZMM_BYTES);
        stream512(dst + done + (size_t)3 * ZMM_BYTES, src + done + (size_t)3 * ZMM_BYTES);
    }
    for (; n - done >= ZMM_BYTES; done += ZMM_BYTES) {
        stream512(dst + done, src + done);
    }
    orl_copy_small(dst + done, src + done, n - done);
    /* Streamed stores are weakly ordered: this puts them before the caller's release. */
    _mm_sfence();
}

/* ---- AVX2 ---- */

static bool has_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2");
}

ORL_TARGET("avx2") static inline __m256i load256(const unsigned char *from)
{
    return _mm256_loadu_si256((const __m256i_u *)(const void *)from);
}

ORL_TARGET("avx2") static inline void store256(unsigned char *to, __m256i value)
{
    _mm256_storeu_si256((__m256i_u *)(void *)to, value);
}

ORL_TARGET("avx2") static inline void turn256(unsigned char *dst, const unsigned char *src)
{
    __m256i a = load256(src);
    __m256i b = load256(src + YMM_BYTES);
    __m256i c = load256(src + (size_t)2 * YMM_BYTES);
    __m256i d = load256(src + (size_t)3 * YMM_BYTES);

    store256(dst, a);
    store256(dst + YMM_BYTES, b);
    store256(dst + (size_t)2 * YMM_BYTES, c);
    store256(dst + (size_t)3 * YMM_BYTES, d);
}

/* 65 to 128 bytes: two vectors from either end. */
ORL_TARGET("avx2")
static inline void short256(unsigned char *dst, const unsigned char *src, size_t n)
{
    __m256i first = load256(src);
    __m256i second = load256(src + YMM_BYTES);
    __m256i third = load256(src + n - (size_t)2 * YMM_BYTES);
    __m256i last = load256(src + n - YMM_BYTES);

    store256(dst, first);
    store256(dst + YMM_BYTES, second);
    store256(dst + n - (size_t)2 * YMM_BYTES, third);
    store256(dst + n - YMM_BYTES, last);
}

ORL_TARGET("avx2") static void copy_avx2(unsigned char *dst, const unsigned char *src, size_t n)
{
    const size_t block = (size_t)TURN * YMM_BYTES;
    size_t done = YMM_BYTES - ((uintptr_t)dst & (YMM_BYTES - 1));

    if (n <= block) {
        short256(dst, src, n);
        return;
    }
    store256(dst, load256(src));
    for (; n - done > block; done += block) {
        turn256(dst + done, src + done);
    }
    turn256(dst + n - block, src + n - block);
}

ORL_TARGET("avx2") static inline void stream256(unsigned char *dst, const unsigned char *src)
{
    _mm256_stream_si256((__m256i *)(void *)dst, load256(src));
    _mm256_stream_si256((__m256i *)(void *)(dst + YMM_BYTES), load256(src + YMM_BYTES));
}

ORL_TARGET("avx2") static void stream_avx2(unsigned char *dst, const unsigned char *src, size_t n)
{
    size_t done = -(uintptr_t)dst & (LINE_BYTES - 1);

    orl_copy_small(dst, src, done);
    for (; n - done >= (size_t)2 * LINE_BYTES; done += (size_t)2 * LINE_BYTES) {
        stream256(dst + done, src + done);
        stream256(dst + done + LINE_BYTES, src + done + LINE_BYTES);
    }
    if (n - done >= LINE_BYTES) {
        stream256(dst + done, src + done);
        done += LINE_BYTES;
    }
    orl_copy_small(dst + done, src + done, n - done);
    /* As in stream_avx512. */
    _mm_sfence();
}

static const struct orl_copy_kernel avx512 = {
    .name = "avx512",
    .is_usable = has_avx512,
    .copy = copy_avx512,
    .stream = stream_avx512,
    .has_string = has_string,
    .string = copy_string,
};

static const struct orl_copy_kernel avx2 = {
    .name = "avx2",
    .is_usable = has_avx2,
    .copy = copy_avx2,
    .stream = stream_avx2,
    .has_string = has_string,
    .string = copy_string,
};

const struct orl_copy_kernel *const orl_copy_native[] = { &avx512, &avx2, NULL };
