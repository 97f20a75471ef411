/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large transfers of the libfabric transport: they go by reads, over providers that want memory
 * registered and providers that do not; whatever ends the reads while they are under way, what is
 * left goes by messages, or the op ends, and nothing is touched afterwards.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "tests/fabric/ofi_pair.h"

#define BYTES ((size_t)3 << 20)
#define OPS   4

static const char *const providers[] = { "net", "strict" };
static int numbers[] = { 0, 1 };

/* Memory of b, memory of a, an endpoint between them and a key. */
struct stage {
    struct fab_region *region;
    struct fab_rkey key;
    struct fab_ep *ep;
    unsigned char *there;
    unsigned char *here;
};

static unsigned nended;
static int first_status;

static void on_end(struct fab_op *op, int status)
{
    (void)op;
    nended++;
    first_status = first_status != 0 ? first_status : status;
}

static struct ofi_bulk *bulk_of(const struct fab *fabric)
{
    return pair_engine(fabric)->bulk;
}

static void fill(unsigned char *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (unsigned char)(i * 7 + (i >> 9) + seed);
    }
}

static bool is_filled(const unsigned char *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) {
        if (at[i] != (unsigned char)(i * 7 + (i >> 9) + seed)) {
            return false;
        }
    }
    return true;
}

static void post(struct stage *stage, struct fab_op *op, enum fab_op_kind kind, size_t at,
                 size_t bytes)
{
    *op = (struct fab_op){ .kind = (uint8_t)kind,
                           .done = on_end,
                           .local = stage->here + at,
                           .bytes = bytes,
                           .offset = at,
                           .rkey = &stage->key };
    fab_post(stage->ep, op);
}

/* A large op asks for the peer's bulk endpoint and goes by messages as long as that is unknown. */
static void introduce(struct stage *stage)
{
    struct fab_op op;
    unsigned rounds = 0;

    do {
        nended = 0;
        post(stage, &op, FAB_OP_GET, 0, BYTES);
        PAIR_UNTIL(nended == 1);
        cr_assert(++rounds < 100, "never by reads");
    } while (bulk_of(&pair_a) == NULL || bulk_of(&pair_a)->nreads == 0);
    cr_assert_eq(first_status, 0);
}

static void stage_open(struct stage *stage, const char *provider)
{
    unsigned char blob[FAB_RKEY_BYTES];
    size_t bytes = sizeof(blob);

    char path[512];

    (void)snprintf(path, sizeof(path), "%s/tests/fake/strict/.libs",
                   getenv("top_builddir") != NULL ? getenv("top_builddir") : ".");
    (void)setenv("FI_PROVIDER_PATH", path, 0);
    (void)setenv("STRICT_ABORT", "1", 1);
    pair_open(provider);
    nended = 0;
    first_status = 0;
    cr_assert(posix_memalign((void **)&stage->there, 4096, BYTES) == 0);
    cr_assert(posix_memalign((void **)&stage->here, 4096, BYTES) == 0);
    memset(stage->there, 0, BYTES);
    memset(stage->here, 0, BYTES);
    cr_assert(fab_region_open(&pair_b, stage->there, BYTES, FAB_ACCESS_ALL, &stage->region) == 0);
    cr_assert(fab_rkey_pack(stage->region, pair_b.engine[0], blob, &bytes) == 0);
    stage->ep = pair_ep(&pair_a, &pair_b);
    cr_assert(fab_rkey_open(stage->ep, blob, bytes, &stage->key) == 0);
    introduce(stage);
    nended = 0;
}

static void stage_close(struct stage *stage)
{
    fab_rkey_close(stage->ep, &stage->key);
    fab_ep_close(stage->ep);
    fab_region_drop(stage->region);
    pair_close();
    free(stage->there);
    free(stage->here);
}

ParameterizedTestParameters(ofi_large, moves)
{
    return cr_make_param_array(int, numbers, 2);
}

ParameterizedTest(int *number, ofi_large, moves, .timeout = 90)
{
    struct stage stage;
    struct fab_op op[2];

    stage_open(&stage, providers[*number]);
    uint64_t at_b = bulk_of(&pair_b)->nreads;
    fill(stage.here, BYTES, 1);
    post(&stage, &op[0], FAB_OP_PUT, 8, BYTES - 19);
    PAIR_UNTIL(nended == 1);
    cr_assert(is_filled(stage.here, BYTES, 1));
    cr_assert(memcmp(stage.here + 8, stage.there + 8, BYTES - 19) == 0);
    cr_assert(stage.there[7] == 0 && stage.there[BYTES - 11] == 0, "beside the range");
    cr_assert(bulk_of(&pair_b)->nreads > at_b, "a put by messages");

    uint64_t at_a = bulk_of(&pair_a)->nreads;
    fill(stage.there, BYTES, 2);
    post(&stage, &op[0], FAB_OP_GET, 0, BYTES);
    PAIR_UNTIL(nended == 2);
    cr_assert(is_filled(stage.here, BYTES, 2));
    cr_assert(bulk_of(&pair_a)->nreads > at_a, "a get by messages");

    /* Order: a small put and a counter behind a large put, over the same bytes. */
    fill(stage.here, BYTES, 3);
    post(&stage, &op[0], FAB_OP_PUT, 0, BYTES);
    post(&stage, &op[1], FAB_OP_PUT, 0, 64);
    PAIR_UNTIL(nended == 4);
    cr_assert(is_filled(stage.there, BYTES, 3));
    cr_assert_eq(first_status, 0);
    stage_close(&stage);
}

/* Several ops over the same bytes while an end closes its bulk endpoint: the last one stands. */
ParameterizedTestParameters(ofi_large, reset)
{
    return cr_make_param_array(int, numbers, 2);
}

ParameterizedTest(int *number, ofi_large, reset, .timeout = 90)
{
    static unsigned char source[OPS][BYTES];
    struct fab_op op[OPS];
    struct fab_op flush = { .kind = FAB_OP_FLUSH, .done = on_end };
    struct stage stage;

    stage_open(&stage, providers[*number]);
    for (unsigned round = 0; round < 8; round++) {
        struct ofi_engine *ofi = pair_engine(round % 2 == 0 ? &pair_a : &pair_b);

        pair_engine(&pair_a)->now = ORL_NEVER - 1; /* no pause after a failure */
        nended = 0;
        for (unsigned i = 0; i < OPS; i++) {
            fill(source[i], BYTES, round * OPS + i);
            op[i] = (struct fab_op){ .kind = FAB_OP_PUT,
                                     .done = on_end,
                                     .local = source[i],
                                     .bytes = BYTES,
                                     .rkey = &stage.key };
            fab_post(stage.ep, &op[i]);
        }
        fab_flush(stage.ep, &flush);
        for (unsigned i = 0; i < round * 3; i++) {
            pair_poll();
        }
        orl_lock(&ofi->base.tx);
        ofi_bulk_reset(ofi);
        orl_unlock(&ofi->base.tx);
        PAIR_UNTIL(nended == OPS + 1);
        cr_assert_eq(first_status, 0);
        cr_assert(is_filled(stage.there, BYTES, round * OPS + OPS - 1), "round %u", round);
        /* And gets. */
        post(&stage, &op[0], FAB_OP_GET, 0, BYTES);
        for (unsigned i = 0; i < round * 3; i++) {
            pair_poll();
        }
        orl_lock(&ofi->base.tx);
        ofi_bulk_reset(ofi);
        orl_unlock(&ofi->base.tx);
        PAIR_UNTIL(nended == OPS + 2);
        cr_assert(is_filled(stage.here, BYTES, round * OPS + OPS - 1), "round %u", round);
    }
    stage_close(&stage);
}

/* The registration ends while the target reads into it, and while the origin reads from it. */
/* covers: D8 */
ParameterizedTestParameters(ofi_large, gone)
{
    return cr_make_param_array(int, numbers, 2);
}

ParameterizedTest(int *number, ofi_large, gone, .timeout = 90)
{
    for (unsigned polls = 0; polls < 12; polls += 3) {
        struct stage stage;
        struct fab_op op;

        stage_open(&stage, providers[*number]);
        memset(stage.here, 0x11, BYTES);
        post(&stage, &op, polls % 2 == 0 ? FAB_OP_PUT : FAB_OP_GET, 0, BYTES);
        for (unsigned i = 0; i < polls; i++) {
            pair_poll();
        }
        fab_region_revoke(stage.region);
        memset(stage.there, 0x55, BYTES);
        PAIR_UNTIL(nended == 1);
        cr_assert(first_status == ORL_ERR_GONE || first_status == 0);
        for (size_t i = 0; i < BYTES; i++) {
            cr_assert(stage.there[i] == 0x55, "written after its end");
        }
        stage_close(&stage);
    }
}

/* An endpoint is stopped while its peer stands still in the middle; another one goes on. */
ParameterizedTestParameters(ofi_large, stop)
{
    return cr_make_param_array(int, numbers, 2);
}

ParameterizedTest(int *number, ofi_large, stop, .timeout = 90)
{
    for (unsigned polls = 0; polls < 12; polls += 3) {
        struct stage stage;
        struct fab_op op[2];

        stage_open(&stage, providers[*number]);
        memset(stage.here, 0x11, BYTES);
        memset(stage.there, 0x22, BYTES);
        post(&stage, &op[0], polls % 2 == 0 ? FAB_OP_PUT : FAB_OP_GET, 0, BYTES);
        for (unsigned i = 0; i < polls; i++) {
            pair_poll();
        }
        fab_ep_stop(stage.ep);
        memset(stage.here, 0x77, BYTES);
        PAIR_UNTIL(nended == 1);
        cr_assert(first_status == ORL_ERR_CANCELED || first_status == 0);
        for (unsigned i = 0; i < 200; i++) {
            pair_poll();
        }
        for (size_t i = 0; i < BYTES; i++) {
            cr_assert(stage.here[i] == 0x77, "written after the stop");
            cr_assert(stage.there[i] != 0x77, "read after the stop");
        }
        stage_close(&stage);
    }
}
