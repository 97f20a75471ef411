/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A PMIx client library with no server behind it, linked in place of libpmix: answers what the
 * knobs say, late, wrongly or never. One job per process, this process being rank 0.
 */
#ifndef TESTS_FAKE_FAKE_PMIX_H
#define TESTS_FAKE_FAKE_PMIX_H

#include <pmix.h>
#include <stdatomic.h>
#include <stdbool.h>

#define FAKE_NSPACE    "fake-job"
#define FAKE_RANKS_MAX 8

enum fake_call {
    FAKE_INIT,
    FAKE_GET,
    FAKE_PUT,
    FAKE_COMMIT,
    FAKE_FENCE, /* status: what PMIx_Fence_nb itself returns */
    FAKE_FINALIZE,
    FAKE_ABORT,
    FAKE_REGISTER,
    FAKE_DEREGISTER,
    FAKE_CALLS
};

struct fake_pmix {
    struct {
        pmix_status_t status; /* what it returns */
        int delay_ms;         /* before it returns */
        bool hangs;           /* it never returns */
        _Atomic int count;    /* how often it was called */
    } call[FAKE_CALLS];

    /* the fence's callback */
    pmix_status_t fence_status;
    int fence_delay_ms;
    bool fence_never;
    _Atomic bool fence_ended;

    /* keys */
    int size;
    const char *local_peers; /* NULL: no such key */
    pmix_data_type_t number; /* of PMIX_JOB_SIZE; PMIX_UNDEF: no such key */
    bool missing_record[FAKE_RANKS_MAX];
    unsigned char record[FAKE_RANKS_MAX][1024]; /* of others; of rank 0: what was put */
    size_t record_bytes[FAKE_RANKS_MAX];

    char word[FAKE_RANKS_MAX][256]; /* why a rank ends; "": it has not said */

    /* what was seen */
    _Atomic int waiting_gets; /* calls of PMIx_Get that could have waited for ever */
    _Atomic int users;        /* inits that were not undone */
    int abort_code;
    char abort_text[64];
};

extern struct fake_pmix fake_pmix;

/* An end of a rank, as a server tells it: from a thread of the library. exit_code below 0: the
 * server does not tell one. */
void fake_pmix_end(pmix_status_t code, const char *nspace, int rank, int exit_code);
/* Whether somebody has asked to be told. */
bool fake_pmix_has_handler(void);

#endif
