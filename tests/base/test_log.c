/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log lines: the spec chooses, one line is one write, repeats are counted.
 *
 * Output goes to a sequenced-packet socket, where each write stays a packet of its own.
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/status.h"

static int sockets[2];
static char line[2 * ORL_LOG_LINE_BYTES];

static void capture(void)
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
    orl_log_redirect(sockets[0]);
}

static void release(void)
{
    orl_log_redirect(-1);
    close(sockets[0]);
    close(sockets[1]);
}

TestSuite(log, .init = capture, .fini = release);

/* The next write as a string; NULL when there was none. */
static const char *next_write(void)
{
    ssize_t n = recv(sockets[1], line, sizeof(line) - 1, MSG_DONTWAIT);
    if (n < 0) {
        return NULL;
    }
    line[n] = '\0';
    return line;
}

Test(log, a_line_is_one_write_with_its_prefix)
{
    unsigned ms;
    char rest[128];
    orl_log_ident(3, "node7");
    orl_log_warn(ORL_CAT_SHM, "ring of peer %d is full", 4);
    cr_assert_not_null(next_write());
    cr_assert_eq(sscanf(line, "[%u %127[^\n]", &ms, rest), 2);
    cr_assert_str_eq(rest, "3 node7 shm] warn: ring of peer 4 is full");
    cr_assert_eq(line[strlen(line) - 1], '\n');
    cr_assert_null(next_write());
}

Test(log, before_ident_there_are_dashes)
{
    orl_log_error(ORL_CAT_BOOT, "x");
    cr_assert_not_null(next_write());
    cr_assert_not_null(strstr(line, " - - boot] error: x\n"));
}

Test(log, default_level_is_warn)
{
    cr_assert_eq(orl_log_open(NULL), ORL_OK);
    orl_log_info(ORL_CAT_TEST, "quiet");
    orl_log_debug(ORL_CAT_TEST, "quiet");
    cr_assert_null(next_write());
    orl_log_warn(ORL_CAT_TEST, "loud");
    cr_assert_not_null(next_write());
}

Test(log, categories_have_levels_of_their_own)
{
    cr_assert_eq(orl_log_open("error,shm:debug,coll:info"), ORL_OK);
    cr_assert(orl_log_is_on(ORL_LOG_DEBUG, ORL_CAT_SHM));
    cr_assert(orl_log_is_on(ORL_LOG_INFO, ORL_CAT_COLL));
    cr_assert_not(orl_log_is_on(ORL_LOG_DEBUG, ORL_CAT_COLL));
    cr_assert_not(orl_log_is_on(ORL_LOG_WARN, ORL_CAT_BOOT));
    cr_assert(orl_log_is_on(ORL_LOG_ERROR, ORL_CAT_BOOT));
    cr_assert_eq(orl_log_open("shm:debug"), ORL_OK);
    cr_assert(orl_log_is_on(ORL_LOG_WARN, ORL_CAT_BOOT), "unnamed categories keep warn");
}

Test(log, wrong_specs_are_refused_and_change_nothing)
{
    static const char *const wrong[] = { "loud",     "warn,",     "shm:",      ":debug",
                                         "shm:loud", "fish:info", "warn;info", "debug,fish:info" };
    cr_assert_eq(orl_log_open("error"), ORL_OK);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_assert_eq(orl_log_open(wrong[i]), ORL_ERR_CONF, "%s", wrong[i]);
        cr_assert_eq(orl_log_check(wrong[i]), ORL_ERR_CONF, "%s", wrong[i]);
        cr_assert_not(orl_log_is_on(ORL_LOG_WARN, ORL_CAT_TEST), "%s", wrong[i]);
    }
}

Test(log, errors_of_the_spec_list_what_is_valid)
{
    cr_assert_eq(orl_log_open("fish:info"), ORL_ERR_CONF);
    cr_assert_not_null(strstr(orl_last_error(), "'fish'"));
    cr_assert_not_null(strstr(orl_last_error(), "base, conf, boot"));
    cr_assert_eq(orl_log_open("shm:loud"), ORL_ERR_CONF);
    cr_assert_str_eq(orl_last_error(),
                     "'loud' is not a log level; valid: error, warn, info, debug");
}

/* Reads all lines; returns how many repeats they tell of, and how many hold the word. */
static int count_repeats(const char *word, int *lines)
{
    int repeats = 0;
    *lines = 0;
    while (next_write() != NULL) {
        const char *told = strstr(line, "last line repeated ");
        repeats += told != NULL ? (int)strtol(told + strlen("last line repeated "), NULL, 10) : 0;
        *lines += strstr(line, word) != NULL;
    }
    return repeats;
}

Test(log, repeats_are_counted)
{
    int lines;
    for (int i = 0; i < 5; i++) {
        orl_log_warn(ORL_CAT_TEST, "again");
    }
    orl_log_warn(ORL_CAT_TEST, "other");
    cr_assert_eq(count_repeats("again", &lines), 4);
    cr_assert_eq(lines, 1);
}

Test(log, close_tells_what_was_held_back)
{
    int lines;
    orl_log_warn(ORL_CAT_TEST, "again");
    orl_log_warn(ORL_CAT_TEST, "again");
    orl_log_close();
    cr_assert_eq(count_repeats("repeated 1 time\n", &lines), 1);
    cr_assert_eq(lines, 1);
}

Test(log, same_words_of_another_level_are_another_line)
{
    orl_log_warn(ORL_CAT_TEST, "x");
    orl_log_error(ORL_CAT_TEST, "x");
    orl_log_error(ORL_CAT_SHM, "x");
    for (int i = 0; i < 3; i++) {
        cr_assert_not_null(next_write());
        cr_assert_null(strstr(line, "repeated"));
    }
}

Test(log, a_line_stays_one_line_of_bounded_length)
{
    char text[2 * ORL_LOG_LINE_BYTES];
    memset(text, 'y', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    text[10] = '\n';
    orl_log_warn(ORL_CAT_TEST, "%s", text);
    const char *got = next_write();
    cr_assert_not_null(got);
    cr_assert_leq(strlen(got), ORL_LOG_LINE_BYTES);
    cr_assert_eq(strchr(got, '\n'), got + strlen(got) - 1);
}

static int evaluations;

static int evaluate(void)
{
    return ++evaluations;
}

Test(log, arguments_of_quiet_lines_are_not_evaluated)
{
    orl_log_debug(ORL_CAT_TEST, "%d", evaluate());
    cr_assert_eq(evaluations, 0);
    orl_log_warn(ORL_CAT_TEST, "%d", evaluate());
    cr_assert_eq(evaluations, 1);
}

Test(log, errno_survives_and_a_broken_descriptor_is_borne)
{
    errno = ENOENT;
    orl_log_redirect(9999);
    orl_log_warn(ORL_CAT_TEST, "nobody hears");
    cr_assert_eq(errno, ENOENT);
}

Test(log, failures_are_logged_at_debug)
{
    cr_assert_eq(orl_log_open("warn,base:debug"), ORL_OK);
    cr_assert_eq(orl_fail(ORL_ERR_BUSY, "slot 4"), ORL_ERR_BUSY);
    cr_assert_not_null(next_write());
    cr_assert_not_null(strstr(line, "base] debug: BUSY: slot 4\n"));
}

static void *log_many(void *number)
{
    for (int i = 0; i < 20; i++) {
        orl_log_warn(ORL_CAT_TEST, "thread %d line %d", *(const int *)number, i);
    }
    return NULL;
}

Test(log, threads_do_not_lose_or_mix_lines)
{
    pthread_t threads[4];
    int numbers[4];
    int lines = 0;
    for (int i = 0; i < 4; i++) {
        numbers[i] = i;
        cr_assert_eq(pthread_create(&threads[i], NULL, log_many, &numbers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
    while (next_write() != NULL) {
        int thread;
        int number;
        const char *text = strstr(line, "thread ");
        cr_assert_not_null(text);
        cr_assert_eq(sscanf(text, "thread %d line %d\n", &thread, &number), 2);
        lines++;
    }
    cr_assert_eq(lines, 80);
}
