/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files boot_pmix*.c share, the only ones that know PMIx: keys, bounded calls, ends of
 * ranks. Nobody else includes it.
 */
#ifndef CORE_BOOT_BOOT_PMIX_H
#define CORE_BOOT_BOOT_PMIX_H

#include <pmix.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/attr.h"
#include "core/boot/boot_side.h"

/* This process, and the number of ranks; set by open. */
struct core_pmix {
    pmix_proc_t self;
    int size;
    _Atomic uint32_t news; /* bumped, and woken, when a fence ends or an end is told */
    _Atomic bool is_lost;  /* the server has ended */
};
extern struct core_pmix core_pmix;

void core_pmix_tell_news(void);

/* ---------------------------------------------------------------- keys */

/* A flag of a call, such as PMIX_OPTIONAL. */
void core_pmix_flag(pmix_info_t *info, const char *key);
/* A key of the job (PMIX_RANK_WILDCARD) or of a rank, only if it is known already; given back by
 * core_pmix_forget. NULL: it is not. */
pmix_value_t *core_pmix_ask(pmix_rank_t rank, const char *key);
/* Accepts NULL. */
void core_pmix_forget(pmix_value_t *value);
/* A count, of whatever integer type the server chose; fallback where it is none. */
int core_pmix_number(const pmix_value_t *value, int fallback);
/* Host of a rank, for messages. */
void core_pmix_host(int rank, char *name, size_t capacity);

/* ---------------------------------------------------------------- bounded calls */

/* One call of PMIx on a side thread. */
struct core_pmix_call {
    struct core_side side; /* first */
    pmix_status_t status;
    pmix_proc_t proc;
    int code;
    int size;
    char text[256];
};

/* NULL: no memory, which core_pmix_call makes an error of. */
struct core_pmix_call *core_pmix_call_new(void (*run)(struct core_side *side));
/* Makes the call and frees it; its results are in *result. TIMEOUT, without a text, when it is
 * late: then its thread keeps it. Errors: NOMEM, SYS. */
int core_pmix_call(struct core_pmix_call *call, uint64_t timeout_ns,
                   struct core_pmix_call *result) ORL_MUST_CHECK;
void core_pmix_run_init(struct core_side *side);
void core_pmix_run_commit(struct core_side *side);
void core_pmix_run_abort(struct core_side *side);
void core_pmix_run_finalize(struct core_side *side);
/* Puts `text` where core_pmix_run_word finds it by this rank's number. */
void core_pmix_run_leave(struct core_side *side);
/* What the rank in `code` has put there: `text`, "" where nothing. */
void core_pmix_run_word(struct core_side *side);
/* Which of the ranks below `size` have put nothing under the key in `text`: a list in `text`. */
void core_pmix_run_missing(struct core_side *side);

/* ---------------------------------------------------------------- ends of ranks */

/* Ask to be told of ends; nobody waits for the answer. */
void core_pmix_ends_open(void);
/* May hang. */
void core_pmix_ends_close(void);
/* PEER when the launcher has told of an end, BOOT when it has ended itself, else 0. */
int core_pmix_told(const char *step);
/* The same, and a look at the processes of this host. A rank that has left word why it ends is not
 * blamed: its words are passed on. */
int core_pmix_look(const char *step, uint64_t patience_ns);
/* Leave word for the others: this rank ends for somebody else's sake. */
void core_pmix_leave(const char *words);

#endif
