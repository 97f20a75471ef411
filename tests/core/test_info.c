/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the library tells of itself by oriel_setting_query, oriel_transport_query and
 * oriel_fact_query: before oriel_init, in a job, and after a start that failed.
 */
#include <criterion/criterion.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "oriel.h"
#include "tests/t.h"

TestSuite(info, .timeout = 60);

static struct oriel_setting_info setting(const char *name)
{
    struct oriel_setting_info info = { .size = sizeof(info) };

    for (size_t i = 0; oriel_setting_query(i, &info) == 0; i++) {
        if (strcmp(info.name, name) == 0) {
            return info;
        }
    }
    t_check(name == NULL); /* there is no such setting */
    return info;
}

static struct oriel_transport_info transport(const char *name)
{
    struct oriel_transport_info info = { .size = sizeof(info) };

    for (size_t i = 0; oriel_transport_query(i, &info) == 0; i++) {
        t_check(info.name != NULL && info.level != NULL && strlen(info.reason) > 5);
        t_check((info.error != 0) == (info.state == ORIEL_TRANSPORT_FAILED));
        if (strcmp(info.name, name) == 0) {
            return info;
        }
    }
    t_check(name == NULL); /* there is no such transport */
    return info;
}

static struct oriel_fact fact(const char *name)
{
    struct oriel_fact f = { .size = sizeof(f) };

    for (size_t i = 0; oriel_fact_query(i, &f) == 0; i++) {
        if (strcmp(f.name, name) == 0) {
            return f;
        }
    }
    t_check(name == NULL); /* there is no such fact */
    return f;
}

/* ---------------------------------------------------------------- settings */

static int origins(int rank, void *arg)
{
    struct oriel_setting row = { "SPIN_TIME", "5us" };
    struct oriel_init_opts opts = ORIEL_INIT_OPTS_INIT;

    (void)rank;
    (void)arg;
    opts.settings = &row;
    opts.nsettings = 1;
    setenv("ORIEL_SPIN_TIME", "9us", 1);
    setenv("ORIEL_INFLIGHT", "77", 1);
    t_check(strcmp(setting("ORIEL_SPIN_TIME").value, "9us") == 0);
    t_check_eq(setting("ORIEL_SPIN_TIME").origin, ORIEL_ORIGIN_ENVIRONMENT);
    t_check_ok(oriel_init(&opts));
    setenv("ORIEL_INFLIGHT", "78", 1); /* too late */
    t_check(strcmp(setting("ORIEL_SPIN_TIME").value, "5us") == 0);
    t_check_eq(setting("ORIEL_SPIN_TIME").origin, ORIEL_ORIGIN_PROGRAM);
    t_check(strcmp(setting("ORIEL_INFLIGHT").value, "77") == 0);
    t_check_eq(setting("ORIEL_INFLIGHT").origin, ORIEL_ORIGIN_ENVIRONMENT);
    t_check_eq(setting("ORIEL_AGENT").origin, ORIEL_ORIGIN_DEFAULT);
    t_check(setting("ORIEL_AGENT").problem == NULL);
    t_check_ok(oriel_finalize());
    return 0;
}

Test(info, settings_have_an_origin)
{
    cr_assert_eq(t_ranks(1, origins, NULL), 0);
}

/* Asking what is wrong does not change what went wrong. */
static int problems(int rank, void *arg)
{
    char detail[512];

    (void)rank;
    (void)arg;
    setenv("ORIEL_INFLIGHT", "lots", 1);
    setenv("ORIEL_LOG", "loud", 1);
    setenv("ORIEL_TRANSPORTS", "self,pigeon", 1);
    setenv("ORIEL_SPIN_TIME", "1us", 1);
    t_check_eq(oriel_init(NULL), ORIEL_ERR_CONF);
    strncpy(detail, oriel_error_detail(), sizeof(detail) - 1);
    detail[sizeof(detail) - 1] = 0;
    t_check(strcmp(setting("ORIEL_INFLIGHT").value, "lots") == 0);
    t_check(strstr(setting("ORIEL_INFLIGHT").problem, "not a whole number") != NULL);
    t_check(strstr(setting("ORIEL_LOG").problem, "loud") != NULL);
    t_check(setting("ORIEL_SPIN_TIME").problem == NULL);
    t_check(strstr(transport("shm").reason, "ORIEL_TRANSPORTS is wrong") != NULL);
    (void)fact("bootstrap");
    t_check(strcmp(detail, oriel_error_detail()) == 0);
    return 0;
}

Test(info, wrong_settings_are_marked)
{
    cr_assert_eq(t_ranks(1, problems, NULL), 0);
}

/* A program built with the oriel.h of before has a shorter struct. */
static int older(int rank, void *arg)
{
    union {
        struct oriel_setting_info info;
        unsigned char byte[sizeof(struct oriel_setting_info) + 8];
    } u;
    size_t old = offsetof(struct oriel_setting_info, problem);

    (void)rank;
    (void)arg;
    memset(&u, 0x5a, sizeof(u));
    u.info.size = old;
    t_check_ok(oriel_setting_query(0, &u.info));
    t_check(strcmp(u.info.name, "ORIEL_LOG") == 0);
    t_check_eq(u.info.size, old);
    for (size_t i = old; i < sizeof(u); i++) {
        t_check_eq(u.byte[i], 0x5a);
    }
    memset(&u, 0x5a, sizeof(u));
    u.info.size = sizeof(u);
    t_check_ok(oriel_setting_query(0, &u.info));
    t_check_eq(u.byte[sizeof(struct oriel_setting_info)], 0x5a);
    u.info.size = old - 1;
    t_check_eq(oriel_setting_query(0, &u.info), ORIEL_ERR_INVAL);
    return 0;
}

Test(info, older_programs_get_what_they_know)
{
    cr_assert_eq(t_ranks(1, older, NULL), 0);
}

/* ---------------------------------------------------------------- transports */

static int verdicts(int rank, void *arg)
{
    (void)rank;
    (void)arg;
    t_check_eq(transport("self").state, ORIEL_TRANSPORT_IDLE);
    t_check_eq(transport("verbs").state, ORIEL_TRANSPORT_ABSENT);
    t_check(strcmp(transport("shm").level, "host") == 0);
    t_check_ok(oriel_init(NULL));
    t_check_eq(transport("self").state, ORIEL_TRANSPORT_CHOSEN);
    t_check(strcmp(transport("self").reason, "a rank's own memory") == 0);
    t_check_eq(transport("shm").state, ORIEL_TRANSPORT_CHOSEN);
    t_check(strcmp(transport("shm").reason, "3 ranks on this host") == 0);
    if (transport("ofi").state != ORIEL_TRANSPORT_ABSENT) {
        t_check_eq(transport("ofi").state, ORIEL_TRANSPORT_IDLE);
        t_check(strcmp(transport("ofi").reason, "not needed: all 3 ranks are on this host") == 0);
    }
    t_check_ok(oriel_finalize());
    return 0;
}

static int left_out(int rank, void *arg)
{
    (void)rank;
    (void)arg;
    setenv("ORIEL_TRANSPORTS", "self", 1);
    t_check_eq(transport("shm").state, ORIEL_TRANSPORT_DISABLED);
    t_check_ok(oriel_init(NULL));
    t_check_eq(transport("shm").state, ORIEL_TRANSPORT_DISABLED);
    t_check(strstr(transport("shm").reason, "ORIEL_TRANSPORTS") != NULL);
    t_check_eq(transport("self").state, ORIEL_TRANSPORT_CHOSEN);
    t_check_ok(oriel_finalize());
    return 0;
}

/* covers: L6 L13 */
Test(info, transports_say_why)
{
    cr_assert_eq(t_ranks(3, verdicts, NULL), 0);
    cr_assert_eq(t_ranks(1, left_out, NULL), 0);
}

/* ---------------------------------------------------------------- ports */

/* How many there are; each must be told of in words. */
static size_t count_nics(void)
{
    struct oriel_nic_info info = { .size = sizeof(info) };
    size_t n = 0;

    for (; oriel_nic_query(n, &info) == 0; n++) {
        t_check(info.name[0] != '\0' && strcmp(info.transport, "ofi") == 0);
        t_check(strlen(info.reason) > 3 && info.pci != NULL && info.provider != NULL);
        t_check(info.state >= ORIEL_TRANSPORT_ABSENT && info.state <= ORIEL_TRANSPORT_CHOSEN);
        t_check((info.address[0] == '\0') == (info.network[0] == '\0') || info.provider[0] != '\0');
        t_check(info.message_max == 0 || info.state == ORIEL_TRANSPORT_CHOSEN);
    }
    t_check_eq(oriel_nic_query(n + 1, &info), ORIEL_ERR_RANGE);
    info.size--;
    t_check_eq(oriel_nic_query(0, &info), ORIEL_ERR_INVAL);
    t_check_eq(oriel_nic_query(0, NULL), ORIEL_ERR_INVAL);
    return n;
}

static bool has_ofi(void)
{
    return transport("ofi").state != ORIEL_TRANSPORT_ABSENT;
}

/* Before the start, in a job that needs no network, and after the end: nothing is open, and what
 * would be used is known all the same. */
static int considered(int rank, void *arg)
{
    struct oriel_nic_info info = { .size = sizeof(info) };
    size_t n;

    (void)rank;
    (void)arg;
    if (!has_ofi()) {
        t_check_eq(oriel_nic_query(0, &info), ORIEL_ERR_RANGE);
        return 0;
    }
    n = count_nics();
    t_check(n >= 1); /* there is a loopback everywhere */
    t_check_ok(oriel_init(NULL));
    t_check_eq(count_nics(), n);
    for (size_t i = 0; oriel_nic_query(i, &info) == 0; i++) {
        t_check(info.state != ORIEL_TRANSPORT_CHOSEN);
    }
    t_check_ok(oriel_finalize());
    t_check_eq(count_nics(), n);
    return 0;
}

/* covers: L6 */
Test(info, ports_are_considered_without_opening)
{
    cr_assert_eq(t_ranks(2, considered, NULL), 0);
}

static int malformed_nics(int rank, void *arg)
{
    struct oriel_nic_info info = { .size = sizeof(info) };

    (void)rank;
    (void)arg;
    setenv("ORIEL_NICS", "lo,,", 1);
    t_check_eq(oriel_init(NULL), ORIEL_ERR_CONF);
    t_check(strstr(oriel_error_detail(), "ORIEL_NICS") != NULL);
    t_check(strstr(oriel_error_detail(), "character 4") != NULL);
    t_check(oriel_nic_query(0, &info) != 0);
    return 0;
}

static int wrong_nics(int rank, void *arg)
{
    struct oriel_nic_info info = { .size = sizeof(info) };

    (void)rank;
    (void)arg;
    setenv("ORIEL_NICS", "nowhere0", 1);
    if (has_ofi()) {
        t_check_ok(oriel_nic_query(0, &info)); /* what there is, for whoever asks why */
        t_check(info.state != ORIEL_TRANSPORT_CHOSEN);
        t_check(strstr(info.reason, "ORIEL_NICS names others") != NULL);
    }
    return 0;
}

/* covers: F10 */
Test(info, wrong_ports_are_an_error_and_can_be_looked_at)
{
    cr_assert_eq(t_ranks(1, malformed_nics, NULL), 0);
    cr_assert_eq(t_ranks(1, wrong_nics, NULL), 0);
}

/* ---------------------------------------------------------------- facts */

static int facts(int rank, void *arg)
{
    static const char *const groups[] = { "build", "topology",    "limits",
                                          "job",   "collectives", "network" };
    struct oriel_fact f = { .size = sizeof(f) };
    unsigned seen = 0;

    (void)rank;
    (void)arg;
    t_check_eq(fact("ranks").number, 0); /* not known yet */
    t_check(fact("ranks").unit == NULL);
    t_check_ok(oriel_init(NULL));
    for (size_t i = 0; oriel_fact_query(i, &f) == 0; i++) {
        unsigned group = 0;

        while (group < 6 && strcmp(f.group, groups[group]) != 0) {
            group++;
        }
        t_check(group < 6);
        seen |= 1u << group;
        t_check(strlen(f.name) > 2 && strlen(f.value) > 0 && strlen(f.text) > 0);
        t_check(strcmp(f.value, "unknown") != 0 || strcmp(f.group, "build") == 0 ||
                strstr(f.text, "hwloc does not tell") != NULL);
        t_check(f.unit != NULL || f.number == 0);
    }
    t_check_eq(seen, 63);
    t_check_eq(fact("ranks").number, 2);
    t_check(strcmp(fact("ranks").unit, "ranks") == 0);
    t_check(strcmp(fact("bootstrap").value, "local") == 0);
    t_check(strstr(fact("bootstrap").text, "forked into a group") != NULL);
    t_check_eq(fact("token").number, ORIEL_TOKEN_BYTES_MAX);
    t_check(strcmp(fact("token").value, "512 B") == 0);
    t_check(fact("cpus_allowed").number >= 1 && fact("cpus_allowed").number <= fact("cpus").number);
    t_check(strcmp(fact("form").value, "flat") == 0);
    t_check_eq(oriel_fact_query(100000, &f), ORIEL_ERR_RANGE);
    t_check_ok(oriel_finalize());
    return 0;
}

/* covers: Q5 */
Test(info, facts_before_and_in_a_job)
{
    cr_assert_eq(t_ranks(2, facts, NULL), 0);
}
