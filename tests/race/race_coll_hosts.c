/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mailbox of collectives that span hosts, for ThreadSanitizer: every rank is a thread that runs
 * collectives of all forms without meeting otherwise, and a second one takes its messages at the
 * same time, so that pieces come early, in the middle and late. Every rank checks every result.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/status.h"
#include "tests/core/coll_rig.h"

#define ROUNDS 150
#define MOST   120000

static const size_t sizes[] = { 1, 40, 300, 5000, 4 * COLL_PIECE_BYTES, 70000, MOST };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static int cast(struct rig_rank *me, unsigned char *data, size_t bytes, int root, int mark)
{
    memset(data, rig_rank_of(me) == root ? mark : 0, bytes);
    int st = coll_hosts_bcast(&me->hosts, "race", data, bytes, root);
    for (size_t i = 0; st == 0 && i < bytes; i++) {
        st = data[i] != mark;
    }
    return st;
}

static int reduce(struct rig_rank *me, unsigned char *data, size_t bytes)
{
    const struct coll_operand x = {
        .send = data, .recv = data, .elements = bytes, .bytes = bytes, .fn = rig_after
    };
    for (size_t i = 0; i < bytes; i++) {
        data[i] = rig_operand(rig_rank_of(me), i);
    }
    int st = coll_hosts_allreduce(&me->hosts, "race", &x, 1);
    for (size_t i = 0; st == 0 && i < bytes; i += 1 + i / 64) {
        st = data[i] != rig_result(rig.n, i);
    }
    return st;
}

static int run(struct rig_rank *me, void *arg)
{
    unsigned char *data = malloc(MOST);
    int st = data == NULL;

    (void)arg;
    for (size_t i = 0; st == 0 && i < ROUNDS; i++) {
        size_t bytes = sizes[i / 3 % SIZES];
        st = cast(me, data, bytes, (int)(i / 10) % rig.n, (int)(i % 200) + 1);
        if (st == 0 && i % 3 == 0) {
            st = reduce(me, data, bytes);
        }
        if (st == 0 && i % 5 == 0) {
            st = coll_hosts_barrier(&me->hosts, "race");
        }
    }
    free(data);
    return st != 0 ? st : coll_hosts_leave(&me->hosts, "race");
}

/* One rank gives up while the others are anywhere in their calls: all end, and nothing is written
 * to memory that a call had. */
static int run_until_end(struct rig_rank *me, void *arg)
{
    int st = 0;

    (void)arg;
    for (size_t i = 0; st == 0; i++) {
        unsigned char *data = malloc(MOST);
        if (rig_rank_of(me) == rig.n - 1 && i == 40) {
            st = coll_net_give_up(&me->hosts.net, rig.n - 1, ORL_ERR_SYS);
        } else if (data != NULL) {
            st = i % 2 == 0 ? cast(me, data, sizes[i / 2 % SIZES], (int)i % rig.n, 1)
                            : reduce(me, data, sizes[i / 2 % SIZES]);
        }
        free(data);
    }
    return st != ORL_ERR_SYS;
}

static int race(int n, int hosts, enum rig_placement placement, rig_fn fn, const char *name)
{
    int failed = rig_run(n, hosts, placement, fn, NULL);

    printf("%s: race_coll_hosts: %s\n", failed != 0 ? "FAIL" : "PASS", name);
    return failed;
}

int main(void)
{
    /* Plain loads and stores, which the sanitizer sees, at every size. */
    if (orl_copy_select("words") != 0) {
        return 1;
    }
    rig.has_servers = true;
    int failed = race(4, 4, RIG_IN_ORDER, run, "each rank a host");
    failed |= race(4, 2, RIG_IN_ORDER, run, "two of two");
    failed |= race(5, 2, RIG_IN_TURNS, run, "in turns");
    failed |= race(3, 3, RIG_IN_ORDER, run_until_end, "one gives up");
    failed |= race(4, 2, RIG_IN_ORDER, run_until_end, "one of two gives up");
    return failed != 0;
}
