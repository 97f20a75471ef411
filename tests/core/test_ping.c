/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Silent peers: when a rank is pinged, what is said of one that does not answer and of one that
 * does again, and what ORIEL_PEER_TIMEOUT makes of it. Answers come when the test says so.
 */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "core/core.h"
#include "core/path/peer.h"
#include "core/path/ping.h"
#include "core/path/progress.h"
#include "oriel.h"
#include "tests/core/fake_net.h"
#include "tests/core/fake_path.h"
#include "tests/t.h"

TestSuite(ping, .timeout = 60);

#define RANK 2

static struct core_path path;
static struct fab_ep ep;
static int log_fd;

static void begin(const char *timeout)
{
    char name[256];

    (void)setenv("ORIEL_PEER_TIMEOUT", timeout, 1);
    t_temp(name, sizeof(name), "ping");
    log_fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    cr_assert_geq(log_fd, 0);
    (void)unlink(name);
    fake_open(4);
    fake_net_open(FAKE_ARM_NONE);
    fake_net_path(&path, &ep, RANK);
    orl_log_redirect(log_fd);
}

static void end(void)
{
    fake_net_close();
    cr_assert_eq(fake_close(), 0);
    orl_log_redirect(-1);
    (void)close(log_fd);
}

/* How often the words are in what was logged. */
static int said(const char *words)
{
    char text[8192];
    ssize_t n = pread(log_fd, text, sizeof(text) - 1, 0);
    int times = 0;

    text[n > 0 ? n : 0] = '\0';
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++) {
        times++;
    }
    return times;
}

/* Looks as core_wait does, for so long; the first status that is not 0 ends it. */
static int look_for(double seconds)
{
    double start = t_now();
    int status = 0;

    while (status == 0 && t_now() - start < seconds) {
        status = core_ping_look(RANK);
        t_sleep_ms(50);
    }
    return status;
}

static void answer(int place)
{
    uint32_t number = (uint32_t)fake_net.sent[place].header;

    fake_net_message(CORE_ON_PONG, (uint64_t)RANK << 32 | number);
}

Test(ping, who_asks_is_answered)
{
    begin("0");
    fake_net_message(CORE_ON_PING, (uint64_t)RANK << 32 | 77);
    cr_assert_eq(atomic_load(&fake_net.nsent), 1);
    cr_assert_eq(fake_net.sent[0].handler, CORE_ON_PONG);
    cr_assert_eq(fake_net.sent[0].header, 77, "my rank, 0, and the number of the ping");
    /* From nobody: no answer, no harm. */
    fake_net_message(CORE_ON_PING, (uint64_t)4 << 32);
    fake_net_message(CORE_ON_PING, (uint64_t)UINT32_MAX << 32);
    fake_net_message(CORE_ON_PING, 0);
    fake_net_message(CORE_ON_PONG, (uint64_t)1 << 32);
    fake_net_message(CORE_ON_PONG, (uint64_t)UINT32_MAX << 32);
    cr_assert_eq(atomic_load(&fake_net.nsent), 1);
    end();
}

/* covers: N11 */
Test(ping, a_short_wait_asks_nothing_and_a_long_one_once_in_a_while)
{
    begin("0");
    cr_assert_eq(look_for(1), 0);
    t_sleep_ms(1100);
    cr_assert_eq(look_for(1.5), 0);
    cr_assert_eq(atomic_load(&fake_net.nsent), 0, "two waits, each shorter than two seconds");
    cr_assert_eq(look_for(1.5), 0);
    cr_assert_eq(atomic_load(&fake_net.nsent), 1);
    cr_assert_eq(fake_net.sent[0].handler, CORE_ON_PING);
    answer(0);
    cr_assert_eq(look_for(1), 0);
    cr_assert_eq(atomic_load(&fake_net.nsent), 1);
    cr_assert_eq(look_for(1.5), 0);
    cr_assert_eq(atomic_load(&fake_net.nsent), 2, "it goes on as long as the wait does");
    cr_assert_eq(said("has not answered"), 0);
    cr_assert_eq(core_ping_look(0), 0, "myself");
    end();
}

Test(ping, silence_is_reported_once_and_its_end_too)
{
    struct orl_strbuf text;
    char room[256];

    begin("0");
    cr_assert_eq(look_for(4.5), 0);
    cr_assert_eq(said("rank 2 has not answered for 2."), 1);
    cr_assert_eq(said("fake:net0 is up"), 1);
    orl_strbuf_init(&text, room, sizeof(room));
    core_ping_explain(RANK, &text);
    cr_assert(strstr(room, "no answer to ping for 2.") != NULL, "%s", room);
    cr_assert_eq(look_for(1), 0);
    cr_assert_eq(said("has not answered"), 1);
    cr_assert_eq(atomic_load(&fake_net.nsent), 1, "one question is enough");
    answer(0);
    cr_assert_eq(said("answers again, after"), 1);
    orl_strbuf_init(&text, room, sizeof(room));
    core_ping_explain(RANK, &text);
    cr_assert(strstr(room, "no answer") == NULL, "%s", room);
    end();
}

Test(ping, a_time_out_ends_the_peer)
{
    begin("1s");
    cr_assert_eq(look_for(2.5), 0);
    cr_assert_eq(look_for(2), ORIEL_ERR_PEER);
    cr_assert(strstr(oriel_error_detail(), "rank 2") != NULL, "%s", oriel_error_detail());
    cr_assert(core_peer_is_failed(RANK));
    cr_assert_eq(said("ORIEL_PEER_TIMEOUT"), 1);
    cr_assert_eq(core_ping_look(RANK), ORIEL_ERR_PEER);
    cr_assert_not(core_peer_is_failed(1));
    end();
}

/* Who was stopped itself finds a large gap, which is nobody's silence. */
Test(ping, time_in_which_nobody_looks_does_not_count)
{
    begin("2s");
    cr_assert_eq(look_for(2.5), 0);
    cr_assert_eq(atomic_load(&fake_net.nsent), 1);
    t_sleep_ms(4000);
    cr_assert_eq(look_for(0.5), 0);
    answer(0);
    cr_assert_eq(look_for(1), 0);
    end();
}

static bool never_ready(void *arg)
{
    (void)arg;
    return false;
}

/* A wait drives it: the rank it waits for is pinged, and the watchdog tells of it. */
Test(ping, a_wait_ends_with_its_peer)
{
    struct core_wait wait = { .ready = never_ready,
                              .deadline = ORL_NEVER,
                              .call = "oriel_test_call",
                              .rank = RANK,
                              .bytes = 4711 };

    (void)setenv("ORIEL_WATCHDOG", "3s", 1);
    begin("2s");
    cr_assert_eq(core_wait(&wait), ORIEL_ERR_PEER);
    cr_assert_eq(atomic_load(&fake_net.nsent), 1);
    cr_assert_eq(said("oriel_test_call has waited 3."), 1);
    cr_assert_geq(said("no answer to ping for"), 1);
    cr_assert_eq(said("4711 bytes"), 1);
    end();
}
