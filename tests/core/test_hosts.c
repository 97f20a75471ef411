/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs that span hosts, pretended on one machine: how they start, which rank is where, what is said
 * when they cannot start, and that a job of one host has nothing to do with networks.
 */
#include <criterion/criterion.h>

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/conf.h"
#include "base/crc.h"
#include "base/sys.h"
#include "core/boot/boot.h"
#include "core/core.h"
#include "core/path/hosts.h"
#include "core/path/peer.h"
#include "oriel.h"
#include "tests/t.h"

static const char timeout[] = "60s";

TestSuite(hosts, .timeout = 100);

static void expect_detail(const char *words)
{
    if (strstr(oriel_error_detail(), words) == NULL) {
        fprintf(stderr, "rank %d: no '%s' in '%s'\n", t_rank, words, oriel_error_detail());
        t_check(0);
    }
}

static void use_networks(void)
{
    setenv("ORIEL_TRANSPORTS", "self,shm,ofi", 1);
    setenv("ORIEL_BOOT_TIMEOUT", timeout, 1);
}

/* ---------------------------------------------------------------- who is where */

static int look_around(int rank, void *arg)
{
    const int *expected = arg; /* host of each of five ranks */
    const struct core_hosts *hosts;
    const struct core_hosts *again;
    int nranks[2] = { 0, 0 };

    t_check_ok(core_hosts(&hosts));
    t_check_eq(hosts->nhosts, 2);
    for (int r = 0; r < 5; r++) {
        t_check_eq(hosts->of[r], expected[r]);
        nranks[expected[r]]++;
        t_check_eq(core.peers[r].local >= 0, expected[r] == expected[rank]);
        t_check(strcmp(core_host_name(r), core.host) == 0);
    }
    t_check_eq(hosts->mine, expected[rank]);
    t_check_eq(hosts->leader[0], 0);
    t_check_eq(hosts->leader[1], expected[1] == 1 ? 1 : 3);
    t_check_eq(hosts->nranks[0], nranks[0]);
    t_check_eq(hosts->nranks[1], nranks[1]);
    t_check_eq(oriel_local_size(), nranks[expected[rank]]);
    t_check_eq(core.node->nranks, nranks[expected[rank]]);
    t_check_ok(core_hosts(&again));
    t_check(again == hosts);
    return 0;
}

Test(hosts, ranks_know_who_is_where)
{
    int blocks[] = { 0, 0, 0, 1, 1 };
    int dealt[] = { 0, 1, 0, 1, 0 };

    use_networks();
    t_hosts = 2;
    cr_assert_eq(t_job(5, look_around, blocks), 0);
    t_hosts = -2;
    cr_assert_eq(t_job(5, look_around, dealt), 0);
}

static int each_alone(int rank, void *arg)
{
    const struct core_hosts *hosts;

    (void)arg;
    t_check_ok(core_hosts(&hosts));
    t_check_eq(hosts->nhosts, 3);
    t_check_eq(hosts->mine, rank);
    t_check_eq(core.node->nranks, 1);
    t_check_eq(oriel_local_size(), 3);
    t_check_eq(core.peers[rank].local, 0);
    t_check_eq(core.peers[(rank + 1) % 3].local, -1);
    return 0;
}

Test(hosts, without_shm_every_rank_is_one)
{
    use_networks();
    setenv("ORIEL_TRANSPORTS", "self,ofi", 1);
    cr_assert_eq(t_job(3, each_alone, NULL), 0);
}

/* ---------------------------------------------------------------- one host, no network */

static atomic_int asked; /* libfabric, for interfaces */
static atomic_int sockets;

/* Stand before those of the libraries. */
int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const void *hints, void **info);
int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const void *hints, void **info)
{
    int (*real)(uint32_t, const char *, const char *, uint64_t, const void *, void **);
    void *symbol = dlsym(RTLD_NEXT, "fi_getinfo");

    atomic_fetch_add(&asked, 1);
    memcpy(&real, &symbol, sizeof(real));
    return real(version, node, service, flags, hints, info);
}

__attribute__((visibility("default"))) int socket(int domain, int type, int protocol)
{
    int (*real)(int, int, int);
    void *symbol = dlsym(RTLD_NEXT, "socket");

    atomic_fetch_add(&sockets, domain != AF_UNIX);
    memcpy(&real, &symbol, sizeof(real));
    return real(domain, type, protocol);
}

static int counts_calls(int rank, void *arg)
{
    const int *spans_hosts = arg;
    struct oriel_mem *memory;

    (void)rank;
    t_check_ok(oriel_init(NULL));
    t_check_ok(oriel_mem_alloc(4096, NULL, &memory));
    t_check_ok(oriel_mem_free(memory));
    t_check_eq(atomic_load(&asked) > 0, *spans_hosts);
    t_check_eq(atomic_load(&sockets) > 0, *spans_hosts);
    t_check_eq(core.nnetworks > 0, *spans_hosts);
    t_check_ok(oriel_finalize());
    return 0;
}

/* covers: BOOT-21 G11 */
Test(hosts, a_job_of_one_host_opens_no_network)
{
    int spans_hosts = 0;

    use_networks();
    cr_assert_eq(t_ranks(1, counts_calls, &spans_hosts), 0);
    cr_assert_eq(t_ranks(4, counts_calls, &spans_hosts), 0);
    spans_hosts = 1;
    t_hosts = 2;
    cr_assert_eq(t_ranks(2, counts_calls, &spans_hosts), 0);
}

/* ---------------------------------------------------------------- starts that fail */

struct fault {
    int rank; /* that has it; -1: all */
    const char *name;
    const char *value;
    int own; /* status of that rank */
    const char *words[3];
};

static int starts_badly(int rank, void *arg)
{
    const struct fault *fault = arg;
    bool mine = fault->rank < 0 || rank == fault->rank;
    double began = t_now();

    if (mine) {
        setenv(fault->name, fault->value, 1);
    }
    t_check_eq(oriel_init(NULL), mine ? fault->own : ORIEL_ERR_BOOT);
    for (int i = 0; i < 3 && fault->words[i] != NULL; i++) {
        expect_detail(fault->words[i]);
    }
    if (!mine) {
        expect_detail("oriel_init: rank 3 on ");
    }
    t_check(t_now() - began < 30);
    return 0;
}

/* covers: L3 */
Test(hosts, no_transport_leads_to_other_hosts)
{
    use_networks();
    t_hosts = 2;
    cr_assert_eq(
        t_ranks(4, starts_badly,
                &(struct fault){ -1,
                                 "ORIEL_TRANSPORTS",
                                 "self,shm",
                                 ORIEL_ERR_CONF,
                                 { "ORIEL_TRANSPORTS is 'self,shm'",
                                   "no transport reaches the other 2 ranks", "add ofi" } }),
        0);
}

/* covers: M2 BOOT-21 */
Test(hosts, a_pin_to_nothing_is_told_to_all_hosts)
{
    struct fault fault = {
        3, "ORIEL_NICS", "eth77", ORIEL_ERR_CONF, { "ORIEL_NICS", "eth77", NULL }
    };

    use_networks();
    t_hosts = 2;
    cr_assert_eq(t_ranks(4, starts_badly, &fault), 0);
    t_hosts = -4;
    cr_assert_eq(t_ranks(4, starts_badly, &fault), 0);
}

static int one_without_shm(int rank, void *arg)
{
    (void)arg;
    if (rank == 1) {
        setenv("ORIEL_TRANSPORTS", "self,ofi", 1);
    }
    int st = oriel_init(NULL);
    t_check(st == ORIEL_ERR_CONF || st == ORIEL_ERR_BOOT || st == ORIEL_ERR_PEER);
    if (st == ORIEL_ERR_CONF) {
        expect_detail("rank 1 has not");
    }
    return 0;
}

Test(hosts, shm_for_all_ranks_of_a_host_or_none)
{
    use_networks();
    cr_assert_eq(t_ranks(3, one_without_shm, NULL), 0);
}

/* Rank 1 is no Oriel but these bytes. */
struct stranger {
    unsigned version;
    const char *tag;
    const char *words[2];
    int status;
};

static void be_a_stranger(const struct stranger *stranger)
{
    struct core_boot_id id;
    struct core_record mine = { .rank = 1, .leader = 1, .hostname = "elsewhere", .ncards = 1 };
    unsigned char bytes[CORE_RECORD_BYTES];

    orl_sys_host_id(mine.host);
    strncpy(mine.card[0].tag, stranger->tag, sizeof(mine.card[0].tag) - 1);
    mine.card[0].bytes = 8;
    t_check_ok(orl_conf_load());
    t_check_ok(core_boot_local.open(&id));
    size_t n = core_record_encode(&mine, bytes, sizeof(bytes));
    bytes[0] = (unsigned char)stranger->version;
    t_check_ok(core_boot_local.put(bytes, n));
    t_check_ok(core_boot_local.fence("exchange"));
}

static int meets_a_stranger(int rank, void *arg)
{
    const struct stranger *stranger = arg;

    if (rank == 1) {
        be_a_stranger(stranger);
        t_meet(2);
        return 0;
    }
    t_check_eq(oriel_init(NULL), stranger->status);
    expect_detail(stranger->words[0]);
    expect_detail(stranger->words[1]);
    t_meet(2);
    return 0;
}

Test(hosts, another_wire_version_says_so)
{
    use_networks();
    t_hosts = 2;
    cr_assert_eq(t_ranks(2, meets_a_stranger,
                         &(struct stranger){ CORE_WIRE_VERSION + 1,
                                             "ofi/x",
                                             { "rank 1: a rank of this job uses wire version",
                                               "must load the same liboriel" },
                                             ORIEL_ERR_BOOT }),
                 0);
    cr_assert_eq(t_ranks(2, meets_a_stranger,
                         &(struct stranger){ CORE_WIRE_VERSION,
                                             "ofi/other/9",
                                             { "rank 1 on elsewhere speaks ofi/other/9 and rank 0",
                                               "no network protocol and version in common" },
                                             ORIEL_ERR_UNSUPP }),
                 0);
}
