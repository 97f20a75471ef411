/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the provider `strict` does to those who keep its contract: nothing is in order, nothing is
 * prompt, and all of it arrives.
 */
/* covers: OFI-04 OFI-05 */
#include "tests/fabric/strict_rig.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sr_rig rig;

TestSuite(strict_shape, .timeout = 120);

static const struct strict_counts *counts(void)
{
    return rig.api->counts();
}

/* ---------------------------------------------------------------- each kind of bad weather */

Test(strict_shape, messages_overtake)
{
    unsigned char seen[16];
    bool is_shuffled = false;
    unsigned i;

    sr_setting("EAGAIN", "0");
    sr_setting("DEPTH", "16");
    sr_open(&rig);
    for (i = 0; i < 16; i++) {
        cr_assert_eq(sr_recv(&rig.b, i, (size_t)i * 64, 64), 0);
        rig.a.memory[i * 64] = (unsigned char)i;
    }
    for (i = 0; i < 16; i++) {
        cr_assert_eq(sr_send(&rig.a, i, (size_t)i * 64, 64, FI_COMPLETION), 0);
    }
    for (i = 0; i < 16; i++) {
        sr_wait(&rig, &rig.b, i + 1);
        seen[i] = *(unsigned char *)rig.b.last.buf;
        is_shuffled = is_shuffled || seen[i] != i;
    }
    cr_assert(is_shuffled);
    cr_assert_gt(counts()->overtaken, 0);
    sr_wait(&rig, &rig.a, 16);
    sr_expect(&rig, 0, "");
    sr_close(&rig);
}

/* A completion without delivery-complete says nothing of the target. */
Test(strict_shape, completion_is_not_delivery)
{
    unsigned absent = 0;
    unsigned late = 0;
    unsigned i;

    sr_setting("EAGAIN", "0");
    sr_setting("DEPTH", "1");
    sr_open(&rig);
    for (i = 0; i < 50; i++) {
        unsigned char *there = rig.b.memory + SR_HALF + (size_t)i * 8;

        rig.a.memory[0] = 1;
        cr_assert_eq(sr_rma(&rig.a, true, 0, 0, 8, &rig.b, SR_HALF + (size_t)i * 8, 0), 0);
        sr_wait(&rig, &rig.a, i + 1);
        rig.a.memory[0] = 2; /* ours again */
        absent += *there == 0;
        while (*(volatile unsigned char *)there == 0) {
            sr_poll(&rig);
            late++;
        }
        cr_assert_eq(*there, 1);
    }
    cr_assert_gt(absent, 0);
    cr_assert_lt(absent, 50);
    cr_assert_gt(late, 0);
    for (i = 0; i < 50; i++) {
        unsigned char *there = rig.b.memory + SR_HALF + (size_t)i * 8;

        rig.a.memory[0] = 3;
        cr_assert_eq(
            sr_rma(&rig.a, true, 0, 0, 8, &rig.b, SR_HALF + (size_t)i * 8, FI_DELIVERY_COMPLETE),
            0);
        sr_wait(&rig, &rig.a, 50 + i + 1);
        cr_assert_eq(*there, 3);
    }
    sr_expect(&rig, 0, "");
    sr_close(&rig);
}

/* The source is read when the operation goes, not when it is posted. */
Test(strict_shape, source_is_read_late)
{
    unsigned changed = 0;
    unsigned i;

    sr_setting("EAGAIN", "0");
    sr_open(&rig);
    for (i = 0; i < 50; i++) {
        rig.a.memory[0] = 1;
        cr_assert_eq(sr_rma(&rig.a, true, 0, 0, 8, &rig.b, SR_HALF, FI_DELIVERY_COMPLETE), 0);
        rig.a.memory[0] = 2; /* a mistake */
        sr_wait(&rig, &rig.a, i + 1);
        changed += rig.b.memory[SR_HALF] == 2;
    }
    cr_assert_gt(changed, 0);
    sr_close(&rig);
}

Test(strict_shape, parts_come_last_first)
{
    unsigned torn = 0;
    unsigned i;

    sr_setting("EAGAIN", "0");
    sr_open(&rig);
    for (i = 0; i < 20; i++) {
        memset(rig.a.memory, (int)i + 1, 1024);
        cr_assert_eq(sr_rma(&rig.a, true, 0, 0, 1024, &rig.b, SR_HALF, FI_DELIVERY_COMPLETE), 0);
        while (rig.a.ndone < i + 1) {
            sr_poll(&rig);
            torn += rig.b.memory[SR_HALF + 1023] == i + 1 && rig.b.memory[SR_HALF] != i + 1;
        }
        cr_assert_eq(rig.b.memory[SR_HALF], i + 1);
        cr_assert_eq(rig.b.memory[SR_HALF + 1023], i + 1);
    }
    cr_assert_gt(torn, 0);
    cr_assert_gt(counts()->split, 0);
    sr_close(&rig);
}

Test(strict_shape, posts_are_turned_away)
{
    unsigned i;

    sr_setting("DEPTH", "1");
    sr_setting("EAGAIN", "50");
    sr_open(&rig);
    for (i = 0; i < 50; i++) {
        int rc = sr_try(&rig, sr_rma(&rig.a, true, i % 4, 0, 8, &rig.b, SR_HALF, 0));

        cr_assert_eq(rc, 0);
        cr_assert_eq(sr_rma(&rig.a, true, 5, 0, 8, &rig.b, SR_HALF, 0), -FI_EAGAIN, "depth 1");
        sr_wait(&rig, &rig.a, i + 1);
    }
    cr_assert_gt(counts()->eagain, 60);
    sr_expect(&rig, 0, "");
    sr_close(&rig);
}

Test(strict_shape, data_with_a_write)
{
    sr_setting("EAGAIN", "0");
    sr_open(&rig);
    cr_assert_eq(
        sr_rma(&rig.a, true, 3, 0, 8, &rig.b, SR_HALF, FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA),
        0);
    sr_wait(&rig, &rig.b, 1);
    cr_assert_eq(rig.b.last.data, 3);
    cr_assert_null(rig.b.last.op_context);
    cr_assert(rig.b.last.flags & FI_REMOTE_CQ_DATA);
    sr_wait(&rig, &rig.a, 1);
    sr_close(&rig);
}

/* ---------------------------------------------------------------- sleeping */

/* Sleep at a's queue until it has n completions, never without fi_trywait's leave. */
static void sleep_for(unsigned n)
{
    struct fid *fid = &rig.a.cq->fid;
    struct pollfd at = { .events = POLLIN };

    cr_assert_eq(fi_control(fid, FI_GETWAIT, &at.fd), 0);
    while (rig.a.ndone < n) {
        sr_poll(&rig);
        if (fi_trywait(rig.a.fabric, &fid, 1) == 0) {
            (void)poll(&at, 1, 5);
        }
    }
}

Test(strict_shape, sleep)
{
    unsigned i;

    sr_open(&rig);
    for (i = 0; i < 40; i++) {
        int rc = sr_try(&rig, sr_rma(&rig.a, true, 0, 0, 8, &rig.b, SR_HALF, 0));

        cr_assert_eq(rc, 0);
        sleep_for(i + 1);
    }
    sr_expect(&rig, 0, "");
    sr_close(&rig);
}

/* With nothing under way a sleeper sleeps; what comes wakes it. */
Test(strict_shape, sleep_is_sleep)
{
    struct fid *fid;
    struct pollfd at = { .events = POLLIN };

    sr_setting("EAGAIN", "0");
    sr_open(&rig);
    cr_assert_eq(sr_recv(&rig.a, 0, 0, 64), 0);
    fid = &rig.a.cq->fid;
    cr_assert_eq(fi_control(fid, FI_GETWAIT, &at.fd), 0);
    while (fi_trywait(rig.a.fabric, &fid, 1) != 0) {
        sr_poll(&rig);
    }
    cr_assert_eq(poll(&at, 1, 300), 0);
    cr_assert_eq(sr_send(&rig.b, 0, 0, 8, FI_DELIVERY_COMPLETE), 0);
    while (rig.a.ndone == 0) {
        struct fi_cq_data_entry entry;

        (void)fi_cq_read(rig.b.cq, &entry, 1);
        if (fi_trywait(rig.a.fabric, &fid, 1) != 0 || poll(&at, 1, 0) == 1) {
            sr_poll(&rig);
        }
    }
    sr_close(&rig);
}

Test(strict_shape, no_wait_objects)
{
    struct fi_cq_attr attr = { .wait_obj = FI_WAIT_FD };
    struct fid_cq *cq;
    struct fid *fid;

    sr_setting("WAIT", "0");
    sr_open(&rig);
    fid = &rig.a.cq->fid;
    cr_assert_eq(fi_cq_open(rig.a.domain, &attr, &cq, NULL), -FI_ENOSYS);
    cr_assert_neq(fi_trywait(rig.a.fabric, &fid, 1), 0);
    cr_assert_eq(sr_try(&rig, sr_rma(&rig.a, true, 0, 0, 8, &rig.b, SR_HALF, 0)), 0);
    sr_wait(&rig, &rig.a, 1);
    sr_close(&rig);
}

/* ---------------------------------------------------------------- who keeps the contract */

static uint64_t state;

static unsigned chance(unsigned below)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

#define PIECE 256

/* One message, write or read of a random size, checked to the last byte. */
static void round_of(unsigned i, unsigned slot, unsigned *received)
{
    size_t here = (size_t)slot * PIECE;
    size_t there = SR_HALF + (size_t)chance(SR_HALF / PIECE) * PIECE;
    size_t bytes = 1 + chance(PIECE);
    unsigned kind = chance(3);
    int rc;

    memset(rig.a.memory + here, (int)(i % 251) + 1, PIECE);
    memset(rig.b.memory + there, 0, PIECE);
    if (kind == 0) {
        rc = sr_try(&rig, sr_recv(&rig.b, 0, 0, PIECE));
        cr_assert_eq(rc, 0);
        rc = sr_try(&rig, sr_send(&rig.a, slot, here, bytes, FI_DELIVERY_COMPLETE));
        there = 0;
    } else if (kind == 1) {
        rc = sr_try(&rig,
                    sr_rma(&rig.a, true, slot, here, bytes, &rig.b, there, FI_DELIVERY_COMPLETE));
    } else {
        memset(rig.b.memory + there, (int)(i % 251) + 1, PIECE);
        memset(rig.a.memory + here, 0, PIECE);
        rc = sr_try(&rig, sr_rma(&rig.a, false, slot, here, bytes, &rig.b, there, 0));
    }
    cr_assert_eq(rc, 0);
    sr_wait(&rig, &rig.a, i + 1);
    if (kind == 0) {
        sr_wait(&rig, &rig.b, ++*received);
        cr_assert_eq(rig.b.last.len, bytes);
    }
    cr_assert_eq(rig.a.memory[here], i % 251 + 1);
    cr_assert_eq(memcmp(rig.a.memory + here, rig.b.memory + there, bytes), 0);
    cr_assert(bytes == PIECE || kind == 0 ||
              rig.a.memory[here + bytes] != rig.b.memory[there + bytes]);
}

Test(strict_shape, twenty_seeds)
{
    unsigned seed;

    cr_assert(sr_find(&rig));
    fi_freeinfo(rig.info);
    for (seed = 1; seed <= 20; seed++) {
        unsigned received = 0;
        unsigned i;

        memset(&rig, 0, sizeof rig);
        sr_open(&rig);
        cr_assert(rig.api->set("SEED", seed));
        cr_assert(rig.api->set("EAGAIN", seed * 4));
        state = seed;
        for (i = 0; i < 300; i++) {
            round_of(i, i % 8, &received);
        }
        cr_assert_eq(rig.a.nerrors + rig.b.nerrors, 0);
        sr_expect(&rig, 0, "");
        sr_close(&rig);
    }
}

/* ---------------------------------------------------------------- the report */

static void child(const char *path)
{
    (void)setenv("STRICT_REPORT", path, 1);
    sr_setting("EAGAIN", "0");
    sr_open(&rig);
    (void)sr_rma(&rig.a, true, 0, 0, 8, &rig.b, SR_HALF, FI_DELIVERY_COMPLETE);
    sr_wait(&rig, &rig.a, 1);
    sr_close(&rig);
}

Test(strict_shape, report)
{
    const char *dir = getenv("TMPDIR");
    char path[512];
    char line[1024] = "";
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/strict-report-%d", dir == NULL ? "/tmp" : dir,
                   (int)getpid());
    child(path);
    rig.api->report();
    file = fopen(path, "r");
    cr_assert_not_null(file);
    cr_assert_not_null(fgets(line, sizeof line, file));
    (void)fclose(file);
    (void)remove(path);
    (void)unsetenv("STRICT_REPORT");
    cr_assert_not_null(strstr(line, " violations=0 posts=1 doorbells=1 "), "%s", line);
}
