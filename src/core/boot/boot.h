/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bootstrap: who am I, who are my peers. A table of functions; PMIx (boot_pmix.c, the only file
 * that knows PMIx), a group of processes forked by a test and the job of one (boot_local.c)
 * implement it. One fixed-size record per process, one collecting fence, then reads of what is
 * known to exist. All waits are bounded by ORIEL_BOOT_TIMEOUT and say which step and which ranks
 * are missing.
 */
#ifndef CORE_BOOT_BOOT_H
#define CORE_BOOT_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "fabric/fabric.h"

#define CORE_WIRE_VERSION 3
#define CORE_CARDS_MAX    8 /* engines of one process that other hosts can reach */
#define CORE_RECORD_BYTES 1408
#define CORE_MASK_BYTES   32  /* affinity masks are folded to 256 CPUs */
#define CORE_CARD_BYTES   208 /* of an error text that peers quote */

/* One process's record, as others read it. Encoded little-endian with version, length and checksum:
 * decode trusts nothing (boot.c; fuzzed). */
struct core_record {
    uint32_t version;
    int32_t rank;
    uint8_t host[16];              /* orl_sys_host_id */
    char hostname[32];             /* cut where longer */
    uint64_t nonce;                /* random: rank 0's tells this job from one of the same name */
    uint8_t cpus[CORE_MASK_BYTES]; /* CPUs this process may use */
    int32_t pid;                   /* of this process, in its own pid namespace */
    int32_t leader;                /* lowest rank of the node memory it shares; -1: none (no shm) */
    uint64_t start_time;           /* of that pid: tells a reused one */
    struct fab_node_ticket node;   /* of the creator; pid 0 where this process made none */
    uint32_t ncards;
    struct fab_card card[CORE_CARDS_MAX]; /* its engines of networks; a card's place in this list is
                                             the engine's number in tokens */
    /* An error card: this rank cannot start. Its peers end their start with its words. */
    int32_t status; /* 0: all is well */
    char text[CORE_CARD_BYTES];
};

struct core_boot_id {
    int rank, size;
    int nlocal, local; /* as the launcher says */
    uint64_t job;      /* hash of the launcher's name of the job */
};

struct core_boot {
    const char *name;
    bool has_launcher; /* somebody started these ranks as one job, which ends as a whole */
    bool is_pretence;  /* what it calls hosts is one machine: loopback leads everywhere */
    /* Connect. BOOT with the launcher's words on failure; UNSUPP when this bootstrap is not present
     * here (auto tries the next). */
    int (*open)(struct core_boot_id *id);
    /* World ranks of the processes on my host, ascending; [id.nlocal]. */
    int (*local_ranks)(int *ranks);
    /* Make `bytes` (at most CORE_RECORD_BYTES) readable for every rank after the next fence. */
    int (*put)(const void *record, size_t bytes);
    /* Collective, bounded: returns when every rank has come; exchanges what was put. PEER names a
     * rank that will not come, BOOT those that have not. */
    int (*fence)(const char *step);
    /* Read what a rank has put before the last fence. *bytes: capacity in, length out. */
    int (*get)(int rank, void *record, size_t *bytes);
    /* For whoever waits for a rank in another way: PEER, with `step` before the words, when one of
     * this host is known to have ended, else 0. Cheap; called in turns. */
    int (*look)(const char *step);
    /* This rank is about to end because of another's death: words for whoever finds it gone before
     * that other one. Bounded; NULL: nobody would hear them. */
    void (*leave)(const char *words);
    /* End the job, in bounded time. May return when the launcher cannot do it; the caller then
     * exits. */
    void (*abort)(int code, const char *text);
    void (*close)(void);
};

extern const struct core_boot core_boot_pmix;
extern const struct core_boot core_boot_local;
extern const struct core_boot core_boot_single;

/* What the PMIx library that is loaded says of itself. */
const char *core_boot_pmix_version(void);

/* Choose by ORIEL_BOOT (auto: a local group if this process was forked into one, else PMIx when a
 * launcher left its variables, else a job of one) and open it. A launcher that promises several
 * ranks without PMIx (another PMI, a mismatch of sizes) is an error that names it and what to do.
 */
int core_boot_open(const struct core_boot **boot, struct core_boot_id *id) ORL_MUST_CHECK;

/* Record to bytes and back. decode: BOOT naming what is wrong. */
size_t core_record_encode(const struct core_record *record, void *bytes, size_t capacity);
int core_record_decode(const void *bytes, size_t length, struct core_record *record) ORL_MUST_CHECK;
/* get and decode. */
int core_record_of(const struct core_boot *boot, int rank,
                   struct core_record *record) ORL_MUST_CHECK;

/* Call this when the launcher has ended and left its ranks alone: at once if it has already, else
 * from a thread of the launcher's library. NULL: nothing any more. */
typedef void (*core_boot_loss_fn)(void);
void core_boot_on_loss(core_boot_loss_fn lost);

/* Hash of a name, FNV-1a with 64 bits. */
uint64_t core_boot_hash(const char *name);

/* A group of processes forked by one parent (tests, benchmarks): the parent makes it, each child
 * says which rank it is before oriel_init. The group's memory is anonymous and shared. */
struct core_boot_group;
struct core_boot_group *core_boot_group_create(int size);
/* Before any use: its ranks count as spread over so many hosts, in blocks or dealt out in turn. */
void core_boot_group_spread(struct core_boot_group *group, int hosts, bool are_dealt);
void core_boot_group_use(struct core_boot_group *group, int rank);
void core_boot_group_free(struct core_boot_group *group);

#endif
