/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the code asks of the compiler and the processor, under names of our own.
 *
 * Every other file includes this one. It is the only place that tests the compiler or the
 * processor family; the rest of the tree chooses by these names, by file or by table. It owns no
 * state and takes no lock.
 */
#ifndef BASE_ATTR_H
#define BASE_ATTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
 #include <cpuid.h>
#endif

#define ORL_MUST_CHECK   __attribute__((warn_unused_result))
#define ORL_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define ORL_LIKELY(x)    __builtin_expect(!!(x), 1)
#define ORL_UNLIKELY(x)  __builtin_expect(!!(x), 0)
#define ORL_COLD         __attribute__((cold))
#define ORL_NOINLINE     __attribute__((noinline))
#define ORL_UNUSED       __attribute__((unused))
#define ORL_FALLTHROUGH  __attribute__((fallthrough))
#define ORL_PUBLIC       __attribute__((visibility("default")))

/* Build one function for a processor that has the named extensions. Callers ask the CPU first. */
#define ORL_TARGET(extensions) __attribute__((target(extensions)))

/* Thread-local storage that is reached without a call, also from inside a shared library. */
#define ORL_TLS _Thread_local __attribute__((tls_model("initial-exec")))

/* Bytes that move between caches as one. Lines that different CPUs write are padded to two. */
#define ORL_CACHE_LINE 64

/* The struct that holds `member`, from a pointer to that member; a wrong pointer type warns. */
#define container_of(ptr, type, member) \
 ((type *)(void *)((char *)(1 ? (ptr) : &((type *)0)->member) - offsetof(type, member)))

/*
 * An invariant of our own, checked in builds with ORL_DEBUG, where a broken one is printed and
 * stops the process. In other builds the expression is not evaluated. ORL_IS_DEBUG is for checks
 * that need more than an expression.
 */
#ifdef ORL_DEBUG
 #define ORL_IS_DEBUG  1
 #define orl_assert(x) ((x) ? (void)0 : orl_assert_failed(#x, __FILE__, __LINE__))
#else
 #define ORL_IS_DEBUG  0
 #define orl_assert(x) ((void)sizeof((x) ? 1 : 0))
#endif
ORL_COLD void orl_assert_failed(const char *expression, const char *file, int line);

/* Who compiles: "gcc 12.2.0". */
#if defined(__clang__)
 #define ORL_COMPILER "clang " __clang_version__
#else
 #define ORL_COMPILER "gcc " __VERSION__
#endif

/*
 * Clang's lock analysis. For declarations only: gcc refuses attributes on definitions, and sees
 * none here.
 */
#if defined(__clang__)
 #define ORL_CAPABILITY(name)  __attribute__((capability(name)))
 #define ORL_ACQUIRES(...)     __attribute__((acquire_capability(__VA_ARGS__)))
 #define ORL_RELEASES(...)     __attribute__((release_capability(__VA_ARGS__)))
 #define ORL_TRY_ACQUIRES(...) __attribute__((try_acquire_capability(__VA_ARGS__)))
 #define ORL_REQUIRES(...)     __attribute__((requires_capability(__VA_ARGS__)))
 #define ORL_EXCLUDES(...)     __attribute__((locks_excluded(__VA_ARGS__)))
 #define ORL_GUARDED_BY(lock)  __attribute__((guarded_by(lock)))
 #define ORL_NO_LOCK_ANALYSIS  __attribute__((no_thread_safety_analysis))
#else
 #define ORL_CAPABILITY(name)
 #define ORL_ACQUIRES(...)
 #define ORL_RELEASES(...)
 #define ORL_TRY_ACQUIRES(...)
 #define ORL_REQUIRES(...)
 #define ORL_EXCLUDES(...)
 #define ORL_GUARDED_BY(lock)
 #define ORL_NO_LOCK_ANALYSIS
#endif

/*
 * Processor family. ORL_CPU_HAS_TICKS says that orl_cpu_ticks reads a counter; what a tick is
 * worth is clock.c's business.
 */
#if defined(__x86_64__)

 #define ORL_CPU_X86       1
 #define ORL_CPU_ARM64     0
 #define ORL_CPU_HAS_TICKS 1

static inline void orl_cpu_pause(void)
{
    __builtin_ia32_pause();
}

static inline uint64_t orl_cpu_ticks(void)
{
    return __builtin_ia32_rdtsc();
}

/* False when this processor has no such leaf. */
static inline bool orl_cpu_id(uint32_t leaf, uint32_t subleaf, uint32_t eax_to_edx[4])
{
    return __get_cpuid_count(leaf, subleaf, &eax_to_edx[0], &eax_to_edx[1], &eax_to_edx[2],
                             &eax_to_edx[3]) != 0;
}

#elif defined(__aarch64__)

 #define ORL_CPU_X86       0
 #define ORL_CPU_ARM64     1
 #define ORL_CPU_HAS_TICKS 1

static inline void orl_cpu_pause(void)
{
    __asm__ __volatile__("isb" ::: "memory");
}

static inline uint64_t orl_cpu_ticks(void)
{
    uint64_t ticks;
    __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}

static inline bool orl_cpu_id(uint32_t leaf, uint32_t subleaf, uint32_t eax_to_edx[4])
{
    (void)leaf;
    (void)subleaf;
    (void)eax_to_edx;
    return false;
}

#else

 #define ORL_CPU_X86       0
 #define ORL_CPU_ARM64     0
 #define ORL_CPU_HAS_TICKS 0

static inline void orl_cpu_pause(void)
{
    __asm__ __volatile__("" ::: "memory");
}

static inline uint64_t orl_cpu_ticks(void)
{
    return 0;
}

static inline bool orl_cpu_id(uint32_t leaf, uint32_t subleaf, uint32_t eax_to_edx[4])
{
    (void)leaf;
    (void)subleaf;
    (void)eax_to_edx;
    return false;
}

#endif

#endif
