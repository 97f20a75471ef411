/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cases of the contract, one prototype each, by file. contract_cases.c has the table that
 * gives them names; a new case needs a line here and a line there.
 */
#ifndef TESTS_FABRIC_CONTRACT_LIST_H
#define TESTS_FABRIC_CONTRACT_LIST_H

#include "contract.h"

/* Sizes around words, vectors, lines, pages and chunks (contract_put.c). */
extern const size_t ct_sizes[];
extern const size_t ct_nsizes;

#define CT_RANGE 4096
/* Every kind of access by key at offset, `bytes` long, must end with `want`. local has two times
 * CT_RANGE bytes (contract_mem.c). */
void ct_refused(struct ct_rig *rig, const struct fab_rkey *key, uint64_t offset, size_t bytes,
                int want, const struct ct_mem *local);

/* contract_mem.c */
void ct_mem_keys(struct ct_rig *rig);
void ct_mem_malformed(struct ct_rig *rig);
void ct_mem_range(struct ct_rig *rig);
void ct_mem_access(struct ct_rig *rig);
void ct_mem_many(struct ct_rig *rig);
/* contract_gone.c */
void ct_gone_all(struct ct_rig *rig);
void ct_gone_from_afar(struct ct_rig *rig);
void ct_gone_live(struct ct_rig *rig);
/* contract_put.c */
void ct_put_sizes(struct ct_rig *rig);
void ct_put_aligns(struct ct_rig *rig);
void ct_put_shorts(struct ct_rig *rig);
void ct_put_source(struct ct_rig *rig);
void ct_put_from_done(struct ct_rig *rig);
/* contract_get.c */
void ct_get_sizes(struct ct_rig *rig);
void ct_get_aligns(struct ct_rig *rig);
void ct_get_after_put(struct ct_rig *rig);
/* contract_amo.c */
void ct_amo_kinds(struct ct_rig *rig);
void ct_amo_refused(struct ct_rig *rig);
void ct_amo_atomic(struct ct_rig *rig);
void ct_amo_cpu(struct ct_rig *rig);
/* contract_notify.c */
void ct_notify_polled(struct ct_rig *rig);
void ct_notify_observed(struct ct_rig *rig);
void ct_notify_sums(struct ct_rig *rig);
/* contract_send.c */
void ct_send_sizes(struct ct_rig *rig);
void ct_send_order(struct ct_rig *rig);
void ct_send_chains(struct ct_rig *rig);
void ct_send_answers(struct ct_rig *rig);
void ct_send_keep(struct ct_rig *rig);
void ct_send_arm(struct ct_rig *rig);
/* contract_flush.c */
void ct_flush_each(struct ct_rig *rig);
void ct_flush_shorts(struct ct_rig *rig);
void ct_flush_large(struct ct_rig *rig);
void ct_flush_amos(struct ct_rig *rig);
/* contract_order.c */
void ct_order_again(struct ct_rig *rig);
void ct_order_visible(struct ct_rig *rig);
void ct_order_fair(struct ct_rig *rig);
/* contract_exhaust.c */
void ct_exhaust_sends(struct ct_rig *rig);
void ct_exhaust_puts(struct ct_rig *rig);
void ct_exhaust_mixed(struct ct_rig *rig);
void ct_exhaust_shorts(struct ct_rig *rig);
/* contract_stop.c */
void ct_stop_live(struct ct_rig *rig);
void ct_stop_source(struct ct_rig *rig);
void ct_stop_then(struct ct_rig *rig);
/* contract_fail.c */
void ct_fail_told(struct ct_rig *rig);
void ct_fail_killed(struct ct_rig *rig);
void ct_fail_killed_asleep(struct ct_rig *rig);
void ct_fail_killed_idle(struct ct_rig *rig);
/* contract_close.c */
void ct_close_eps(struct ct_rig *rig);
void ct_close_regions(struct ct_rig *rig);
void ct_close_rigs(struct ct_rig *rig);
/* contract_threads.c */
void ct_threads_post(struct ct_rig *rig);
void ct_threads_short(struct ct_rig *rig);

#endif
