/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checksums off the calling and off the polling thread: one worker per process, made by the first
 * request that asks for a checksum and joined at finalize. Jobs are embedded in what they belong
 * to; nothing is allocated. It does not know requests.
 */
#ifndef CORE_PATH_CRC_POOL_H
#define CORE_PATH_CRC_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/fifo.h"

struct core_crc_job {
    struct orl_link link;
    const void *data;
    size_t bytes;
    /* Runs once, on the worker; may reuse or free the job. */
    void (*done)(struct core_crc_job *job, uint32_t crc32c);
};

/* Make the worker. Idempotent. Errors: SYS when no thread can be made. */
int core_crc_open(void) ORL_MUST_CHECK;
/* Compute what is queued, then end the worker. */
void core_crc_close(void);
/* Queue a job; core_crc_open has succeeded. Any thread. */
void core_crc_submit(struct core_crc_job *job);

#endif
