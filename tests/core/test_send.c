/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between ranks: order, size, sending from handlers, and one stream out of two rails of
 * which one dies.
 */
#include <criterion/criterion.h>

#include <string.h>

#include "core/path/path.h"
#include "core/path/progress.h"
#include "oriel.h"
#include "tests/core/two_rails.h"
#include "tests/t.h"

#define MANY 2000

static struct {
    uint64_t next; /* header that is expected */
    uint64_t wrong;
    uint64_t replies; /* asked for in handlers */
    unsigned char data[CORE_SEND_MAX];
    size_t bytes;
} seen;

static void note(void *user, struct fab_rx *rx)
{
    (void)user;
    seen.wrong += rx->header == seen.next ? 0 : 1;
    seen.next++;
    seen.bytes = rx->bytes;
    memcpy(seen.data, rx->data, rx->bytes);
}

static void answer(void *user, struct fab_rx *rx)
{
    (void)user;
    cr_assert_eq(core_path_send(loop_path(), CORE_ON_PONG, rx->header, rx->data, rx->bytes), 0);
    seen.replies++;
}

static void open_with(int nengines)
{
    static const uint32_t speeds[] = { 1000, 1000 };

    memset(&seen, 0, sizeof(seen));
    loop_open(nengines, speeds);
    (void)loop_path();
    core.rank = LOOP_PEER; /* it is rank 1 that sends, to itself: one process plays both */
    fab_handler_set(&core.fabric, CORE_ON_COLL, note, NULL);
    fab_handler_set(&core.fabric, CORE_ON_PONG, note, NULL);
    fab_handler_set(&core.fabric, CORE_ON_PING, answer, NULL);
}

static void send(uint64_t header, size_t bytes)
{
    unsigned char data[CORE_SEND_MAX];

    t_fill(data, bytes, 3, header, 0);
    cr_assert_eq(core_path_send(loop_path(), CORE_ON_COLL, header, data, bytes), 0);
}

static void expect(uint64_t n)
{
    loop_settle();
    cr_assert_eq(seen.next, n);
    cr_assert_eq(seen.wrong, 0);
    cr_assert_eq(atomic_load(&loop_path()->messages), 0);
}

static void all_sizes(int nengines)
{
    static const size_t sizes[] = { 0, 1, 8, 255, 256, 257, 1024, 1025, CORE_SEND_MAX };
    unsigned char byte = 0;

    open_with(nengines);
    for (uint64_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        send(i, sizes[i]);
        expect(i + 1);
        cr_assert_eq(seen.bytes, sizes[i]);
        cr_assert_eq(t_differs(seen.data, seen.bytes, 3, i, 0), seen.bytes);
    }
    cr_assert_eq(core_path_send(loop_path(), CORE_ON_COLL, 0, &byte, CORE_SEND_MAX + 1),
                 ORIEL_ERR_INVAL);
    loop_close();
}

Test(send, all_sizes_one_rail, .timeout = 30)
{
    all_sizes(1);
}

Test(send, all_sizes_two_rails, .timeout = 30)
{
    all_sizes(2);
}

/* More than the transport has room for: they wait in the library's memory, in order. */
static void many(int nengines)
{
    open_with(nengines);
    for (uint64_t i = 0; i < MANY; i++) {
        send(i, i % 3 == 0 ? 2000 : i % 300);
    }
    expect(MANY);
    loop_close();
}

Test(send, many_one_rail, .timeout = 30)
{
    many(1);
}

Test(send, many_two_rails, .timeout = 30)
{
    many(2);
}

/* covers: N18 */
Test(send, from_handlers, .timeout = 30)
{
    open_with(2);
    for (uint64_t i = 0; i < 100; i++) {
        cr_assert_eq(core_path_send(loop_path(), CORE_ON_PING, i, "ping", 4), 0);
    }
    expect(100);
    cr_assert_eq(seen.replies, 100);
    loop_close();
}

/* A rail dies again and again at another place in the stream: each message comes once, in order. */
Test(send, a_dying_rail_loses_repeats_and_swaps_nothing, .timeout = 60)
{
    for (int after = 0; after < 40; after++) {
        open_with(2);
        for (uint64_t i = 0; i < 200; i++) {
            send(i, i % 50);
            if (i == 100) {
                for (int k = 0; k < after; k++) {
                    (void)fab_engine_progress(core.network[0]);
                }
                loop_kill(0);
            }
        }
        expect(200);
        loop_close();
    }
}

/* The same message again, and one too early: as when a rail died after its last one had arrived. */
Test(send, numbers_put_things_right, .timeout = 30)
{
    static const uint64_t order[] = { 2, 0, 0, 3, 1, 2, 1, 5, 5, 4 };

    open_with(2);
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        unsigned char envelope[24] = { 0 };
        struct fab_rx rx = { .engine = core.network[0],
                             .header = order[i],
                             .data = envelope,
                             .bytes = sizeof(envelope) };

        envelope[0] = (unsigned char)order[i];
        envelope[8] = LOOP_PEER;
        envelope[12] = CORE_ON_COLL;
        core.fabric.handler[CORE_ON_RAILED].fn(NULL, &rx);
    }
    cr_assert_eq(seen.next, 6);
    cr_assert_eq(seen.wrong, 0);
    cr_assert_eq(seen.bytes, 8);
    loop_close();
}

/* What no rank of this job can have sent is dropped in silence. */
Test(send, garbage_is_dropped, .timeout = 30)
{
    unsigned char bytes[64];
    uint64_t state = 7;

    open_with(2);
    for (int round = 0; round < 20000; round++) {
        struct fab_rx rx = { .engine = core.network[0], .data = bytes };

        for (size_t i = 0; i < sizeof(bytes); i++) {
            state = state * UINT64_C(6364136223846793005) + 1;
            bytes[i] = (unsigned char)(state >> 40);
        }
        rx.bytes = bytes[0] % sizeof(bytes);
        core.fabric.handler[CORE_ON_RAILED].fn(NULL, &rx);
    }
    cr_assert_eq(seen.next, 0);
    loop_close();
}
