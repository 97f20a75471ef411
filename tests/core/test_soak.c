/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random operations: kinds, sizes, peers, forms of call, deadlines, requests given up, memory that
 * goes away under them and collectives in between, over each way that ranks reach each other. At
 * the end every operation is resolved, every byte is right, and nothing is left: no registration,
 * no lease, nothing of the provider's, no word on stderr.
 *
 * T_SEED=N draws others than those of seed 1. A failure says which seed it was; the same seed draws
 * the same operations. T_SOAK=1 makes it a million of them.
 */
#include <criterion/criterion.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/types.h>
#include <unistd.h>

#include "core/core.h"
#include "tests/core/over.h"
#include "tests/core/soak.h"
#include "tests/fake/strict/strict_api.h"
#include "tests/t.h"
#ifdef ORIEL_HAVE_LIBFABRIC
 #include "fabric/ofi/ofi.h"
#endif

enum {
    MEETINGS = 20, /* collectives in a run */
    MANY = 1000000,
    NOT_ALLOWED = 77
};

TestSuite(soak, .timeout = 3600);

/* ---------------------------------------------------------------- chance */

static uint64_t state;

static uint64_t next(void)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void soak_seed(uint64_t seed, uint64_t stream, uint64_t step)
{
    state = seed;
    state = next() + stream;
    state = next() + step;
}

uint64_t soak_draw(uint64_t below)
{
    return next() % below;
}

uint64_t soak_draw_bytes(uint64_t most)
{
    static const uint64_t edges[] = { 0,      8,      64,     128,     192,     256,    512,
                                      1024,   4096,   8192,   16384,   24576,   49152,  65536,
                                      131072, 262144, 524288, 1048576, 2097152, 3145728 };
    unsigned n = 0;
    uint64_t edge;
    uint64_t bytes;

    while (n < sizeof(edges) / sizeof(edges[0]) && edges[n] <= most) {
        n++;
    }
    edge = edges[soak_draw(n)];
    switch (soak_draw(4)) {
    case 0:
        return edge;
    case 1:
        return soak_draw(edge + 1);
    case 2:
        bytes = edge + soak_draw(257) - (edge < 128 ? edge : 128);
        break;
    default:
        bytes = edge + soak_draw(17) - (edge < 8 ? edge : 8);
    }
    return bytes < most ? bytes : most;
}

void soak_flush(int rank)
{
    int tries = 0;
    int rc;

    do {
        rc = oriel_flush(rank);
    } while (rc == ORIEL_ERR_GONE && tries++ < 1000);
    t_check_ok(rc);
}

/* ---------------------------------------------------------------- nothing is left */

static uint64_t counter_of(const char *name)
{
    struct oriel_counter counter = { .size = sizeof(counter) };

    for (size_t i = 0; oriel_counter_query(i, &counter) == 0; i++) {
        if (strcmp(counter.name, name) == 0) {
            return counter.value;
        }
    }
    return 0;
}

/* Gets that nobody waits for, and the last messages of a barrier, may still be under way. */
static void resolve(void)
{
    double end = t_now() + 60;

    while (counter_of("posted") != counter_of("completed") + counter_of("failed")) {
        t_check(t_now() < end);
        for (int r = 0; r < SOAK_RANKS; r++) {
            soak_flush(r);
        }
    }
}

/* Registrations of this process that its networks know. */
static long long registrations(void)
{
    long long live = 0;

#ifdef ORIEL_HAVE_LIBFABRIC
    for (int i = 0; i < core.nnetworks; i++) {
        const struct ofi_regs *regs = &ofi_of(core.network[i])->regs;

        for (uint32_t k = 0; k < regs->used; k++) {
            live += regs->at[k].is_live ? 1 : 0;
        }
    }
#endif
    return live;
}

/* Finalize, listening to what it says: leases that were kept, objects that were forgotten. */
static void end_in_silence(void)
{
    char path[4096];
    char said[1024];
    int before = dup(STDERR_FILENO);
    ssize_t n;
    int fd;

    t_temp(path, sizeof(path), "said");
    fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    t_check(fd >= 0 && before >= 0);
    (void)dup2(fd, STDERR_FILENO);
    int rc = oriel_finalize();
    (void)dup2(before, STDERR_FILENO);
    t_check_ok(rc);
    n = pread(fd, said, sizeof(said) - 1, 0);
    (void)close(fd);
    (void)close(before);
    (void)unlink(path);
    if (n > 0) {
        said[n] = '\0';
        (void)fprintf(stderr, "rank %d: the end was not silent: %s", t_rank, said);
    }
    t_check_eq(n, 0);
}

static void check_provider(void)
{
    const char *provider = getenv("ORIEL_OFI_PROVIDER");
    char path[4096];
    strict_api_fn api = NULL;
    void *module;

    if (provider == NULL || strcmp(provider, "strict") != 0) {
        return;
    }
    (void)snprintf(path, sizeof(path), "%s/libstrict-fi.so", getenv("FI_PROVIDER_PATH"));
    module = dlopen(path, RTLD_NOLOAD | RTLD_NOW);
    t_check(module != NULL);
    *(void **)&api = dlsym(module, "strict_api");
    t_check(api != NULL);
    t_check_eq((long long)api()->counts()->violations, 0);
    t_check_eq((long long)api()->counts()->tight, 0);
    t_check_eq((long long)api()->counts()->unsupported, 0);
    t_check_eq((long long)api()->counts()->mrs, 0);
    t_check_eq((long long)api()->counts()->fids, 0);
    t_check_eq((long long)api()->counts()->contexts, 0);
    (void)dlclose(module);
}

/* ---------------------------------------------------------------- the run of a rank */

/* All draw the same. */
static void meet(const struct soak_plan *plan, uint64_t round)
{
    uint64_t sum = 0;
    uint64_t mine;
    int root;

    soak_seed(plan->seed, SOAK_RANKS, round);
    root = (int)soak_draw(SOAK_RANKS);
    mine = round + (uint64_t)t_rank;
    switch (soak_draw(3)) {
    case 0:
        t_check_ok(oriel_barrier(ORIEL_WORLD));
        break;
    case 1:
        t_check_ok(oriel_bcast(&mine, 1, ORIEL_UINT64, root, ORIEL_WORLD));
        t_check_eq((long long)mine, (long long)round + root);
        break;
    default:
        t_check_ok(oriel_allreduce(&mine, &sum, 1, ORIEL_UINT64, ORIEL_SUM, ORIEL_WORLD));
        t_check_eq((long long)sum, (long long)(round * SOAK_RANKS + 3));
    }
}

static void work(const struct soak_plan *plan, int rank)
{
    uint64_t n = plan->ops / SOAK_RANKS;

    for (uint64_t i = 0; i < n; i++) {
        if (i % (n / MEETINGS) == 0) {
            meet(plan, i);
        }
        soak_seed(plan->seed, (uint64_t)rank, i);
        if (soak_draw(10) == 0) {
            soak_guests_step();
        } else {
            soak_cells_step();
        }
    }
}

static int soak(int rank, void *arg)
{
    const struct soak_plan *plan = arg;
    long long before;

    t_check_ok(oriel_init(NULL));
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    before = registrations();
    soak_guests_open(rank);
    soak_cells_open(plan, rank);
    work(plan, rank);
    soak_cells_check();
    t_check(!plan->is_railed || counter_of("stripes") > 0);
    soak_guests_leave();
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    resolve();
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    soak_guests_close();
    soak_cells_close();
    t_check_ok(oriel_barrier(ORIEL_WORLD));
    t_check_eq(registrations(), before);
    end_in_silence();
    check_provider();
    return 0;
}

/* ---------------------------------------------------------------- the ways */

static uint64_t first_seed(void)
{
    const char *text = getenv("T_SEED");

    return text == NULL ? 1 : strtoull(text, NULL, 10);
}

/* Few or many operations in flight, by the seed. */
static void run(const char *name, uint64_t ops, uint64_t large)
{
    uint64_t seed = first_seed();
    static const char *const inflight[] = { "1024", "6", "64" };
    struct soak_plan plan = { .seed = seed, .large = large, .rarely = 64 };
    int rc;

    plan.is_railed = strcmp(name, "rails") == 0;
    plan.ops = getenv("T_SOAK") != NULL ? MANY : ops;
    (void)setenv("ORIEL_INFLIGHT", inflight[seed % 3], 0);
    t_limit_s = getenv("T_SOAK") != NULL ? 3000 : 100;
    rc = t_ranks(SOAK_RANKS, soak, &plan);
    if (rc == NOT_ALLOWED) {
        cr_skip_test("network namespaces are not allowed here");
    }
    cr_assert_eq(rc, 0, "again: T_SEED=%llu tests/core/test_soak --filter soak/%s",
                 (unsigned long long)seed, name);
}

Test(soak, node)
{
    (void)setenv("ORIEL_TRANSPORTS", "self,shm", 1);
    run("node", 20000, 3 << 20);
}

/* covers: OFI-03 L9 */
Test(soak, network, .init = over_network)
{
    run("network", 12000, 3 << 20);
}

/* Two ranks on one host, the third on another. */
/* covers: L1 G11 */
Test(soak, mixed, .init = over_network)
{
    t_hosts = 2;
    (void)setenv("ORIEL_TRANSPORTS", "self,shm,ofi", 1);
    run("mixed", 12000, 3 << 20);
}

#ifdef ORIEL_HAVE_LIBFABRIC
/* A host of its own, with two interfaces that are as good as each other. */
static bool has_two_nets(void)
{
    return unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
           mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("sysfs", "/sys", "sysfs", 0, NULL) == 0 &&
           /* NOLINTNEXTLINE(cert-env33-c): the command is the test's */
           system("ip link set lo up && for i in 0 1; do"
                  " ip link add rail$i type veth peer name peer$i && ip link set peer$i up &&"
                  " ip link set rail$i up && ip addr add 10.7$i.0.1/24 dev rail$i || exit; done") ==
               0;
}

Test(soak, rails, .init = over_network)
{
    if (!has_two_nets()) {
        cr_skip_test("network namespaces are not allowed here");
    }
    (void)setenv("ORIEL_STRIPE_MIN", "16k", 1);
    run("rails", 12000, 3 << 20);
}

/* The provider that enforces the contract of EFA, and says what was left. */
/* covers: OFI-04 OFI-05 N18 */
Test(soak, strict, .init = over_network)
{
    const char *build = getenv("top_builddir");
    char path[4096];
    char seed[24];

    (void)snprintf(path, sizeof(path), "%s/tests/fake/strict/.libs", build == NULL ? "." : build);
    (void)snprintf(seed, sizeof(seed), "%llu", (unsigned long long)first_seed());
    (void)setenv("FI_PROVIDER_PATH", path, 0);
    (void)setenv("ORIEL_OFI_PROVIDER", "strict", 1);
    (void)setenv("STRICT_ABORT", "1", 1);
    (void)setenv("STRICT_SEED", seed, 0);
    run("strict", 3000, 262144);
}
#endif
