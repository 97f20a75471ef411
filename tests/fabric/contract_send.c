/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contract: active messages. Each arrives once, whole, in posting order of its endpoint, short and
 * posted ones mixed. A handler may post, and may keep what it got until it gives it back.
 */
#include "contract_list.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Sizes from 0 to limits.send_short by send_short, to limits.send_max by post. */
void ct_send_sizes(struct ct_rig *rig)
{
    const struct fab_limits *limits = &rig->a.engine->limits;
    struct ct_tally tally = { 0 };
    struct ct_op op;
    struct ct_mem src;
    uint64_t seq = 0;
    size_t bytes;
    size_t i;

    if (!ct_mem_open(rig, CT_AT_A, limits->send_max + 64, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    ct_check(limits->send_short <= limits->send_max, "send_short is above send_max");
    ct_check(limits->send_max >= 256, "messages of 256 bytes must go");
    for (bytes = 0; bytes <= limits->send_short && bytes < 4096 && ct_is_fine(); bytes++) {
        ct_message(rig, &op, &tally, 0, seq++, &src, bytes % 16, bytes);
        ct_check(ct_wait(rig, &tally), "a message is lost");
    }
    for (i = 0; i < ct_nsizes && ct_is_fine(); i++) {
        bytes = i == 0 ? limits->send_max : ct_sizes[i];
        if (bytes > limits->send_max) {
            break;
        }
        ct_fill(src.base + i, bytes, ct_seed(0, seq));
        ct_op_send(&op, &tally, CT_MSG_B, ct_header(0, seq, bytes), &src, i, bytes);
        ct_check(ct_do(rig, rig->ab, &op) == 0, "a send of %zu bytes fails", bytes);
        memset(src.base + i, 0xee, bytes);
        seq++;
    }
    (void)ct_wait_messages(rig, &rig->inbox_b, seq);
    ct_check(atomic_load(&rig->inbox_a.count) == 0, "a message went to the wrong side");
    ct_mem_close(&src);
}

#define MIX 4000

/* Short and posted ones in turns, with and without polls between them. */
void ct_send_order(struct ct_rig *rig)
{
    static struct ct_op op[MIX];
    struct ct_tally tally = { 0 };
    struct ct_mem src;
    size_t bytes;
    size_t i;

    if (!ct_mem_open(rig, CT_AT_A, (size_t)MIX * 256, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    for (i = 0; i < MIX && ct_is_fine(); i++) {
        bytes = i * 31 % 250;
        if (i % 7 < 2) {
            ct_fill(src.base + i * 256, bytes, ct_seed(1, i));
            ct_op_send(&op[i], &tally, CT_MSG_B, ct_header(1, i, bytes), &src, i * 256, bytes);
            ct_post(rig->ab, &op[i]);
        } else {
            ct_message(rig, &op[i], &tally, 1, i, &src, i * 256, bytes);
        }
        if (i % 64 == 5) {
            (void)ct_progress(rig);
        }
    }
    (void)ct_wait_fine(rig, &tally);
    (void)ct_wait_messages(rig, &rig->inbox_b, MIX);
    ct_mem_close(&src);
}

/* Chains of sends keep their order, and both endpoints keep their own. */
void ct_send_chains(struct ct_rig *rig)
{
    static struct ct_op op[2][MIX / 4];
    struct ct_tally tally = { 0 };
    struct ct_mem src;
    size_t i;

    if (!ct_mem_open(rig, CT_AT_A, (size_t)MIX * 64, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    for (i = 0; i < MIX / 4; i++) {
        size_t at = i * 128;

        ct_fill(src.base + at, 60, ct_seed(1, i));
        ct_fill(src.base + at + 64, 33, ct_seed(2, i));
        ct_op_send(&op[0][i], &tally, CT_MSG_B, ct_header(1, i, 60), &src, at, 60);
        ct_op_send(&op[1][i], &tally, CT_MSG_B, ct_header(2, i, 33), &src, at + 64, 33);
    }
    for (i = 0; i < MIX / 4; i += 50) {
        ct_post_chain(rig->ab, &op[0][i], 50);
        ct_post_chain(rig->ab2, &op[1][i], 50);
    }
    (void)ct_wait_fine(rig, &tally);
    (void)ct_wait_messages(rig, &rig->inbox_b, MIX / 2);
    ct_mem_close(&src);
}

struct echo {
    struct ct_rig *rig;
    struct ct_mem src; /* sent by the handler */
    struct ct_op *ops;
    struct ct_tally tally;
};

/* A handler that answers, by a short call and else by a post. */
static void answer(struct ct_inbox *inbox, struct fab_rx *rx, unsigned stream, uint64_t seq)
{
    struct echo *echo = inbox->user;
    struct fab_ep *ba = echo->rig->ba;
    uint64_t header = ct_header(stream, seq, rx->bytes);
    unsigned char *copy = echo->src.base + seq * 64;
    int rc = ORL_ERR_AGAIN;

    memcpy(copy, rx->data, rx->bytes);
    if (seq % 2 == 0) {
        rc = ct_send_short(echo->rig, ba, CT_MSG_A, header, copy, rx->bytes);
    }
    if (rc == ORL_ERR_AGAIN) {
        ct_op_send(&echo->ops[seq], &echo->tally, CT_MSG_A, header, &echo->src, seq * 64,
                   rx->bytes);
        ct_post(ba, &echo->ops[seq]);
    }
    ct_check(rc == 0 || rc == ORL_ERR_AGAIN, "a handler cannot send: %s", orl_status_name(rc));
}

/* Answers from inside the handler, while requests go on: neither side may starve the other. */
void ct_send_answers(struct ct_rig *rig)
{
    static struct ct_op op[MIX];
    static struct ct_op answers[MIX];
    struct echo echo = { .rig = rig, .ops = answers };
    struct ct_tally tally = { 0 };
    struct ct_mem src;
    size_t i;

    if (!ct_mem_open(rig, CT_AT_A, (size_t)MIX * 64, FAB_ACCESS_LOCAL, &src) ||
        !ct_mem_open(rig, CT_AT_B, (size_t)MIX * 64, FAB_ACCESS_LOCAL, &echo.src)) {
        return;
    }
    rig->inbox_b.hook = answer;
    rig->inbox_b.user = &echo;
    for (i = 0; i < MIX && ct_is_fine(); i++) {
        ct_message(rig, &op[i], &tally, 3, i, &src, i * 64, i % 60);
    }
    (void)ct_wait_fine(rig, &tally);
    (void)ct_wait_messages(rig, &rig->inbox_a, MIX);
    (void)ct_wait_fine(rig, &echo.tally);
    rig->inbox_b.hook = NULL;
    ct_mem_close(&src);
    ct_mem_close(&echo.src);
}

#define KEPT 4

struct keeper {
    struct fab_rx rx[KEPT];
    uint64_t seq[KEPT];
    unsigned count;
    bool is_open;
};

static void keep(struct ct_inbox *inbox, struct fab_rx *rx, unsigned stream, uint64_t seq)
{
    struct keeper *keeper = inbox->user;

    (void)stream;
    if (keeper->is_open && keeper->count < KEPT) {
        fab_rx_keep(rx, &keeper->rx[keeper->count]);
        keeper->seq[keeper->count] = seq;
        keeper->count++;
    }
}

static void *release_kept(void *arg)
{
    struct keeper *keeper = arg;
    unsigned i;

    for (i = 0; i < keeper->count; i++) {
        fab_rx_release(&keeper->rx[i]);
    }
    return NULL;
}

/* Give the kept ones back, every other time from a thread that never polls. */
static void give_back(struct keeper *keeper, unsigned round)
{
    pthread_t thread;

    if (round % 2 == 0) {
        (void)release_kept(keeper);
    } else if (ct_check(pthread_create(&thread, NULL, release_kept, keeper) == 0, "no thread")) {
        (void)pthread_join(thread, NULL);
    }
    keeper->count = 0;
}

/* Kept buffers stay as they are while hundreds of messages follow; released ones come back. */
void ct_send_keep(struct ct_rig *rig)
{
    static struct ct_op op[200];
    struct keeper keeper = { 0 };
    struct ct_mem src;
    uint64_t seq = 0;
    size_t most = rig->a.engine->limits.send_max < 1000 ? 250 : 1000;
    unsigned round;
    unsigned i;

    if (!ct_mem_open(rig, CT_AT_A, (size_t)200 * 1024, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    rig->inbox_b.hook = keep;
    rig->inbox_b.user = &keeper;
    for (round = 0; round < 60 && ct_is_fine(); round++) {
        struct ct_tally tally = { 0 };

        keeper.is_open = true;
        for (i = 0; i < 200; i++) {
            ct_message(rig, &op[i], &tally, 2, seq++, &src, (size_t)i * 1024,
                       (i * 97 + round) % most);
        }
        (void)ct_wait_fine(rig, &tally);
        (void)ct_wait_messages(rig, &rig->inbox_b, seq);
        ct_check(keeper.count == KEPT, "only %u messages could be kept", keeper.count);
        for (i = 0; i < keeper.count; i++) {
            ct_check(
                keeper.rx[i].bytes == (i * 97 + round) % most &&
                    ct_is_filled(keeper.rx[i].data, keeper.rx[i].bytes, ct_seed(2, keeper.seq[i])),
                "a kept message was overwritten");
        }
        give_back(&keeper, round);
    }
    keeper.is_open = false;
    rig->inbox_b.hook = NULL;
    ct_mem_close(&src);
}

/* Where an engine can be slept on, its descriptor says so of a message that is already there. */
void ct_send_arm(struct ct_rig *rig)
{
    struct ct_tally tally = { 0 };
    struct ct_op op;
    struct ct_mem src;
    struct pollfd wait = { .events = POLLIN };
    unsigned round;
    int rc;

    if (!ct_mem_open(rig, CT_AT_A, 64, FAB_ACCESS_LOCAL, &src)) {
        return;
    }
    for (round = 0; round < 10 && ct_is_fine(); round++) {
        rc = fab_engine_arm(rig->b.engine, &wait.fd);
        if (rc != 0) {
            ct_check(rc == ORL_ERR_UNSUPP, "arm gives %s", orl_status_name(rc));
            break;
        }
        atomic_store(&rig->b_sleeps, true);
        ct_message(rig, &op, &tally, 0, round, &src, 0, 8);
        ct_settle(rig);
        ct_check(poll(&wait, 1, 5000) == 1, "an armed engine does not wake for a message");
        atomic_store(&rig->b_sleeps, false);
        (void)ct_wait_messages(rig, &rig->inbox_b, round + 1);
    }
    ct_check(ct_wait(rig, &tally), "a message is lost");
    ct_mem_close(&src);
}
