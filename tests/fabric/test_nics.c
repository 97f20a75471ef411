/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ORIEL_NICS: what each item means, what is malformed and where, and what includes and excludes say
 * together of ports. Then random lists: none may crash, and what is accepted must be read the same
 * with spaces around its items.
 */
#include "fabric/nics.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "base/status.h"
#include "base/strbuf.h"

static struct fab_nics nics;

static struct fab_nics_port port(const char *name, const char *pci, const char *address)
{
    struct fab_nics_port p = { .name = name, .pci = pci };

    if (address != NULL) {
        bool is_six = strchr(address, ':') != NULL;

        p.family = is_six ? 6 : 4;
        cr_assert_eq(inet_pton(is_six ? AF_INET6 : AF_INET, address, p.address), 1);
    }
    return p;
}

static enum fab_nics_answer ask(const char *list, struct fab_nics_port p)
{
    cr_assert_eq(fab_nics_parse(list, &nics), 0, "%s: %s", list, orl_last_error());
    return fab_nics_ask(&nics, &p);
}

struct question {
    const char *list;
    const char *name;
    const char *pci;
    const char *address;
    enum fab_nics_answer answer;
};

static const struct question questions[] = {
    { "", "eth0", "", "10.0.0.1", FAB_NICS_FREE },
    { NULL, "eth0", "", NULL, FAB_NICS_FREE },
    { "eth0", "eth0", "", NULL, FAB_NICS_PINNED },
    { "eth0", "eth01", "", NULL, FAB_NICS_UNNAMED },
    { " eth1 , eth0 ", "eth0", "", NULL, FAB_NICS_PINNED },
    { "eth*", "eth01", "", NULL, FAB_NICS_PINNED },
    { "eth*", "et", "", NULL, FAB_NICS_UNNAMED },
    { "*", "anything", "", NULL, FAB_NICS_PINNED },
    { "eth0.100", "eth0.100", "", NULL, FAB_NICS_PINNED },
    { "mlx5_0:1", "mlx5_0:1", "", NULL, FAB_NICS_PINNED },
    { "^docker0", "docker0", "", "172.17.0.1", FAB_NICS_OUT },
    { "^docker0", "eth0", "", "10.0.0.1", FAB_NICS_FREE },
    { "^veth*", "veth12ab", "", NULL, FAB_NICS_OUT },
    /* Includes first, then excludes, in whatever order they stand. */
    { "eth*,^eth1", "eth0", "", NULL, FAB_NICS_PINNED },
    { "^eth1,eth*", "eth1", "", NULL, FAB_NICS_OUT },
    { "eth*,^eth1", "ib0", "", NULL, FAB_NICS_UNNAMED },
    { "10.77.0.0/16,^10.77.9.0/24", "a", "", "10.77.8.1", FAB_NICS_PINNED },
    { "10.77.0.0/16,^10.77.9.0/24", "a", "", "10.77.9.1", FAB_NICS_OUT },
    /* Subnets; bits behind the prefix do not count. */
    { "10.77.0.0/16", "a", "", "10.78.0.1", FAB_NICS_UNNAMED },
    { "10.77.3.9/16", "a", "", "10.77.200.1", FAB_NICS_PINNED },
    { "10.77.0.1", "a", "", "10.77.0.1", FAB_NICS_PINNED },
    { "10.77.0.1", "a", "", "10.77.0.2", FAB_NICS_UNNAMED },
    { "10.77.0.128/25", "a", "", "10.77.0.127", FAB_NICS_UNNAMED },
    { "10.77.0.128/25", "a", "", "10.77.0.255", FAB_NICS_PINNED },
    { "0.0.0.0/0", "a", "", "8.8.8.8", FAB_NICS_PINNED },
    { "0.0.0.0/0", "a", "", "fd00::1", FAB_NICS_UNNAMED },
    { "0.0.0.0/0", "a", "", NULL, FAB_NICS_UNNAMED },
    { "fd00::/64", "a", "", "fd00::5:1", FAB_NICS_PINNED },
    { "fd00::/64", "a", "", "fd00:0:0:1::1", FAB_NICS_UNNAMED },
    { "^::/0", "a", "", "fd00::1", FAB_NICS_OUT },
    { "fd00::1", "a", "", "fd00::1", FAB_NICS_PINNED },
    /* PCI addresses; without a domain it is the first. */
    { "0000:3b:00.1", "a", "0000:3b:00.1", NULL, FAB_NICS_PINNED },
    { "3B:00.1", "a", "0000:3b:00.1", NULL, FAB_NICS_PINNED },
    { "3b:00.1", "a", "0001:3b:00.1", NULL, FAB_NICS_UNNAMED },
    { "0001:3b:00.1", "a", "0001:3b:00.1", NULL, FAB_NICS_PINNED },
    { "3b:00.1", "a", "", NULL, FAB_NICS_UNNAMED },
    { "^3b:00.0", "a", "0000:3b:00.0", NULL, FAB_NICS_OUT },
};

/* covers: L4 */
Test(nics, each_item_means_what_it_says)
{
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        const struct question *q = &questions[i];
        enum fab_nics_answer answer = ask(q->list, port(q->name, q->pci, q->address));

        cr_expect_eq(answer, q->answer, "'%s' of %s %s %s: %d, not %d",
                     q->list != NULL ? q->list : "", q->name, q->pci,
                     q->address != NULL ? q->address : "-", (int)answer, (int)q->answer);
    }
}

/* An interface and its RDMA device are one port with two names. */
Test(nics, a_second_name_counts)
{
    struct fab_nics_port p = port("ib0", "", NULL);

    p.other = "mlx5_0";
    cr_assert_eq(ask("mlx5_0", p), FAB_NICS_PINNED);
    cr_assert_eq(ask("^mlx5_*", p), FAB_NICS_OUT);
    cr_assert_eq(ask("mlx5_1", p), FAB_NICS_UNNAMED);
}

/* covers: F10 */
Test(nics, malformed_is_an_error_that_names_the_place)
{
    static const struct {
        const char *list;
        const char *words;
    } wrong[] = {
        { "eth0,,eth1", "(at character 6)" },
        { ",eth0", "(at character 1)" },
        { "eth0,", "(at character 6)" },
        { "^", "empty" },
        { "eth0, ^", "(at character 7)" },
        { "^^eth0", "no `^`" },
        { "e*h0", "`*` stands at the end" },
        { "eth**", "`*` stands at the end" },
        { "eth0 eth1", "a name has no" },
        { "10.0.0.0/33", "0 to 32" },
        { "10.0.0.0/", "0 to 32" },
        { "10.0.0.0/x", "0 to 32" },
        { "10.0.0.0/8x", "0 to 32" },
        { "10.0.0.0/-1", "0 to 32" },
        { "fd00::/129", "0 to 128" },
        { "10.0.0/8", "no address before the slash" },
        { "eth0/24", "no address before the slash" },
        { "a234567890123456789012345678901234567890123456789012345678901234", "longer than 63" },
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_expect_eq(fab_nics_parse(wrong[i].list, &nics), ORL_ERR_CONF, "%s", wrong[i].list);
        cr_expect_not_null(strstr(orl_last_error(), wrong[i].words), "%s", orl_last_error());
        cr_expect_not_null(strstr(orl_last_error(), "ORIEL_NICS is '"), "%s", orl_last_error());
        cr_expect_eq(fab_nics_check(wrong[i].list), ORL_ERR_CONF);
        cr_expect(!fab_nics_has_pin(wrong[i].list));
    }
    cr_assert(fab_nics_has_pin("^a,b"));
    cr_assert(!fab_nics_has_pin("^a,^b"));
    cr_assert(!fab_nics_has_pin(""));
}

Test(nics, networks_have_names)
{
    const uint8_t four[4] = { 10, 77, 3, 9 };
    uint8_t six[16] = { 0xfd };
    uint8_t net[FAB_NET_BYTES];
    uint8_t other[FAB_NET_BYTES];
    char text[64];
    struct orl_strbuf sb;

    orl_strbuf_init(&sb, text, sizeof(text));
    memset(net, 0, sizeof(net));
    fab_net_words(net, &sb);
    cr_assert_str_eq(text, "");
    fab_net_fill(net, 4, four, 20);
    fab_net_words(net, &sb);
    cr_assert_str_eq(text, "10.77.0.0/20");
    six[15] = 1;
    orl_strbuf_init(&sb, text, sizeof(text));
    fab_net_fill(net, 6, six, 64);
    fab_net_words(net, &sb);
    cr_assert_str_eq(text, "fd00::/64");
    six[15] = 2;
    fab_net_fill(other, 6, six, 64);
    cr_assert_eq(memcmp(net, other, sizeof(net)), 0, "hosts of one network agree on its name");
    fab_net_fill(other, 6, six, 128);
    cr_assert_neq(memcmp(net, other, sizeof(net)), 0);
    fab_net_fill_alone(net, 4);
    orl_strbuf_init(&sb, text, sizeof(text));
    fab_net_words(net, &sb);
    cr_assert_str_eq(text, "this host alone");
}

/* ---------------------------------------------------------------- random lists */

static uint64_t state;

static unsigned below(unsigned n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state >> 33) % n;
}

/* Mostly grammatical, so that both ends are reached. */
static void make_list(char *text, size_t capacity)
{
    static const char *const parts[] = { "eth0",      "ib*", "^",   ",",  "/",       "10.0.0.0/8",
                                         "fd00::/64", "*",   "::1", "00", "3b:00.1", ",^" };
    static const char letters[] = "abet01.:/*^, \t\xff-";
    struct orl_strbuf sb;

    orl_strbuf_init(&sb, text, capacity);
    for (unsigned n = below(12); n > 0; n--) {
        if (below(3) > 0) {
            orl_strbuf_add(&sb, parts[below(sizeof(parts) / sizeof(parts[0]))]);
        } else {
            orl_strbuf_addf(&sb, "%c", letters[below(sizeof(letters) - 1)]);
        }
    }
}

static void with_spaces(const char *list, char *text, size_t capacity)
{
    struct orl_strbuf sb;

    orl_strbuf_init(&sb, text, capacity);
    for (; *list != '\0'; list++) {
        orl_strbuf_addf(&sb, *list == ',' ? " %c  " : "%c", *list);
    }
}

Test(nics, random_lists)
{
    static struct fab_nics again;
    char list[256];
    char spaced[1024];
    unsigned accepted = 0;

    for (state = 1; state < 20001;) {
        uint64_t seed = state;

        make_list(list, sizeof(list));
        if (fab_nics_parse(list, &nics) == 0) {
            struct fab_nics_port p = port("eth0", "0000:3b:00.1", "10.0.0.1");

            accepted++;
            with_spaces(list, spaced, sizeof(spaced));
            cr_assert_eq(fab_nics_parse(spaced, &again), 0, "seed %zu: '%s'", (size_t)seed, spaced);
            cr_assert_eq(memcmp(&nics, &again, sizeof(nics)), 0, "'%s'", list);
            cr_assert_eq(fab_nics_ask(&nics, &p), fab_nics_ask(&again, &p));
        } else {
            cr_assert_not_null(strstr(orl_last_error(), "(at character "), "'%s'", list);
        }
        state = seed + 1;
    }
    cr_assert_gt(accepted, 1000);
    cr_assert_lt(accepted, 19000);
}

Test(nics, a_list_has_an_end)
{
    char list[512];
    struct orl_strbuf sb;

    orl_strbuf_init(&sb, list, sizeof(list));
    for (int i = 0; i < FAB_NICS_MAX; i++) {
        orl_strbuf_join(&sb, ",", "a");
    }
    cr_assert_eq(fab_nics_parse(list, &nics), 0);
    orl_strbuf_join(&sb, ",", "a");
    cr_assert_eq(fab_nics_parse(list, &nics), ORL_ERR_CONF);
    cr_assert_not_null(strstr(orl_last_error(), "more than 64"));
}
