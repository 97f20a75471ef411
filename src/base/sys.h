/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operating system, as the rest of the library wants to see it: facts about machine and
 * process, shared segments, locks that the kernel drops at death, futexes.
 *
 * Everything is a thin call without state of its own (host facts are read afresh each time), so
 * any thread may call and there is no lock. What a segment holds is not known here.
 */
#ifndef BASE_SYS_H
#define BASE_SYS_H

#include <sys/types.h>

#include "base/attr.h"

struct orl_strbuf;

/* ---- Facts about the machine and this process ---- */

size_t orl_sys_page_bytes(void);

/* Memory this process may use: what the machine has, or the cgroup's limit where that is less. */
uint64_t orl_sys_mem_total_bytes(void);

/* CPUs in the affinity mask of the calling thread; at least 1. */
int orl_sys_cpus_allowed(void);

/* The same as a list for people: "0-3,8". */
void orl_sys_cpu_list(struct orl_strbuf *out);

/* CPUs' worth of time a cgroup quota leaves, rounded up; 0 when there is no quota. */
int orl_sys_cgroup_cpus(void);

/*
 * The same limits as found in the proc and sys trees below `root` ("" for the machine's own): bytes
 * and thousandths of a CPU, UINT64_MAX when there is none. Split out so that a test can bring
 * trees of its own.
 */
uint64_t orl_sys_cgroup_memory_limit(const char *root);
uint64_t orl_sys_cgroup_cpu_limit(const char *root);

/* Memory that could be had now without pushing others out, within orl_sys_mem_total_bytes. */
uint64_t orl_sys_mem_available_bytes(void);

/* The start of a small file as a string; false when it cannot be read. */
bool orl_sys_read_text(const char *path, char *text, size_t capacity);

/* The host's name without its domain, always terminated. */
void orl_sys_hostname(char *name, size_t capacity);

/*
 * Names the host this process runs on: the boot of the kernel and the host's name. Processes of
 * one host get the same bytes whatever their mount or pid namespace; containers and namespaces
 * with host names of their own count as hosts of their own.
 */
void orl_sys_host_id(uint8_t id[16]);

/* When the process began, in the kernel's ticks since boot; tells a pid from its reuse. 0: none. */
uint64_t orl_sys_pid_starttime(pid_t pid);

/* Names the calling thread, for debuggers and top; cut at 15 bytes. */
void orl_sys_thread_name(const char *name);

/* Unpredictable bytes. Errors: SYS. */
ORL_MUST_CHECK int orl_sys_random(void *bytes, size_t n);

/* ---- Shared segments ---- */

enum orl_sys_backing {
    ORL_SYS_BACKING_AUTO,  /* a memory file; where that is not allowed, a file in /dev/shm */
    ORL_SYS_BACKING_MEMFD, /* a memory file, which has no name and so leaves nothing behind */
    ORL_SYS_BACKING_FILE   /* a file in /dev/shm with a name nobody can guess */
};

#define ORL_SYS_PATH_BYTES 128

struct orl_sys_segment {
    int fd;                        /* close-on-exec, mode 0600 whatever the umask */
    char path[ORL_SYS_PATH_BYTES]; /* "" for a memory file */
};

/*
 * Makes a segment of `bytes`, all zero, of which no page exists yet: its size costs nothing.
 * `hint` appears in its name (/proc/PID/maps), nothing more. Owns: the caller closes the
 * descriptor, and unlinks the path, when there is one, as soon as every process that needs the
 * segment has it. Errors: NOMEM when a limit on file sizes (RLIMIT_FSIZE) is lower; SYS.
 */
ORL_MUST_CHECK int orl_sys_segment_create(enum orl_sys_backing backing, const char *hint,
                                          uint64_t bytes, struct orl_sys_segment *segment);

/*
 * Makes the pages exist, so that no later store can fail for want of room (a sparse page that
 * cannot be had at the time of the store kills with SIGBUS). The contents stay. Errors: NOMEM
 * says how much was needed, how much is free and how to raise it; pages reserved by then stay, for
 * the caller to release.
 */
ORL_MUST_CHECK int orl_sys_reserve(int fd, uint64_t offset, uint64_t bytes);

/* Gives whole pages of the range back; they read as zero from now on. Errors: SYS. */
ORL_MUST_CHECK int orl_sys_release(int fd, uint64_t offset, uint64_t bytes);

/*
 * Maps the segment from its start, shared, readable and writable, at a multiple of 2 MiB, without
 * counting it as used memory and without it appearing in core dumps. Errors: NOMEM names the limit
 * on address space when one is set; SYS.
 */
ORL_MUST_CHECK int orl_sys_map(int fd, uint64_t bytes, void **base);

/* NULL is allowed. */
void orl_sys_unmap(void *base, uint64_t bytes);

/* Asks for huge pages, where the kernel gives them to shared memory. False when it refuses. */
bool orl_sys_huge_pages(void *base, uint64_t bytes);

/*
 * Opens descriptor `fd` of process `pid` as one of our own. Works for memory files and for files
 * already unlinked. Errors: SYS, also when the process is another user's or has ended.
 */
ORL_MUST_CHECK int orl_sys_attach(pid_t pid, int fd, int *my_fd);

/*
 * Opens a segment by its path, for processes that cannot see each other's /proc. Errors: SYS,
 * also when the file is not a plain file of this user alone.
 */
ORL_MUST_CHECK int orl_sys_attach_path(const char *path, int *my_fd);

/*
 * Proof of life. A process holds a lock on one byte of the segment (the byte need not exist); the
 * kernel drops it when the process dies in whatever way, zombies included, and no pid has to be
 * trusted.
 *
 * The locks belong to the process, not to the descriptor, and POSIX drops all of them when the
 * process closes ANY descriptor of the same file, its own duplicates and second attachments
 * included. So a process that holds a lock keeps one descriptor of the segment open and closes
 * none. Children made by fork do not inherit the lock, but they do not disturb it either.
 *
 * Errors of orl_sys_lock_byte: BUSY when another process holds it; SYS.
 */
ORL_MUST_CHECK int orl_sys_lock_byte(int fd, uint64_t index);

/*
 * True while another process holds the byte. A process never sees its own lock. When the kernel
 * cannot tell, the answer is true: nobody is declared dead by mistake.
 */
bool orl_sys_byte_is_locked(int fd, uint64_t index);

/* ---- Futex ---- */

/*
 * Sleeps while *word == expect, at most timeout_ns (ORL_NEVER: no limit). The word may be shared
 * between processes; it is 32 bits wide, atomic or not. Returns 0 when woken, when the word
 * differs, or for no reason at all (a signal): the caller looks again. ORL_ERR_TIMEOUT is
 * returned without an error text, since time-outs are how waiting loops work.
 */
ORL_MUST_CHECK int orl_sys_futex_wait(const void *word, uint32_t expect, uint64_t timeout_ns);

/* Wakes up to n sleepers; returns how many there were. The caller stores before it calls. */
int orl_sys_futex_wake(void *word, int n);

#endif
