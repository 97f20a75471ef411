/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts and their network in one process; see coll_rig.h.
 */
#include "tests/core/coll_rig.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/status.h"

#define ARENA 4096

struct message {
    struct message *next;
    uint64_t header;
    size_t bytes;
    unsigned char data[];
};

/* From one rank to one other. `taking`: messages of one sender are handled one after the other. */
static struct wire {
    pthread_mutex_t lock;
    pthread_mutex_t taking;
    struct message *first, *last;
} wire[RIG_RANKS][RIG_RANKS];

struct rig_job rig;

static struct {
    rig_fn fn;
    void *arg;
    atomic_int running;
} task;

static _Thread_local struct rig_rank *self;

int rig_rank_of(const struct rig_rank *me)
{
    return (int)(me - rig.rank);
}

uint64_t rig_dice(struct rig_rank *me)
{
    me->dice = me->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return me->dice >> 33;
}

/* ---------------------------------------------------------------- network */

static int send_message(void *user, int to, uint64_t header, const void *data, size_t bytes)
{
    struct rig_rank *me = user;
    struct wire *w = &wire[rig_rank_of(me)][to];
    struct message *m = malloc(sizeof(*m) + bytes);

    if (m == NULL || atomic_load(&me->cannot_send)) {
        free(m);
        return orl_fail(ORL_ERR_NOMEM, "the test has no memory for messages");
    }
    m->next = NULL;
    m->header = header;
    m->bytes = bytes;
    memcpy(m->data, data, bytes);
    pthread_mutex_lock(&w->lock);
    if (w->last != NULL) {
        w->last->next = m;
    } else {
        w->first = m;
    }
    w->last = m;
    pthread_mutex_unlock(&w->lock);
    return 0;
}

static struct message *take(struct wire *w)
{
    pthread_mutex_lock(&w->lock);
    struct message *m = w->first;
    if (m != NULL) {
        w->first = m->next;
        w->last = m->next == NULL ? NULL : w->last;
    }
    pthread_mutex_unlock(&w->lock);
    return m;
}

/* One message of a sender, if there is one. */
static void serve_from(struct rig_rank *me, int from)
{
    struct wire *w = &wire[from][rig_rank_of(me)];

    if (pthread_mutex_trylock(&w->taking) == 0) {
        struct message *m = take(w);
        if (m != NULL) {
            coll_net_arrived(&me->hosts.net, m->header, m->data, m->bytes);
        }
        free(m);
        pthread_mutex_unlock(&w->taking);
    }
}

/* One of each, beginning anywhere. */
static void serve_some(struct rig_rank *me)
{
    int first = (int)(rig_dice(me) % (uint64_t)rig.n);

    for (int i = 0; i < rig.n; i++) {
        serve_from(me, (first + i) % rig.n);
    }
}

static void *serve_always(void *arg)
{
    struct rig_rank *me = arg;
    uint64_t turn = 0;

    while (atomic_load(&task.running) != 0) {
        serve_from(me, (int)(turn++ % (uint64_t)rig.n));
        sched_yield();
    }
    return NULL;
}

/* ---------------------------------------------------------------- waiting */

static int found_dead(struct rig_rank *me, int rank)
{
    int st = orl_fail(ORL_ERR_PEER, "rank %d is gone", rank);

    me->ended_by = rank;
    return coll_net_give_up(&me->hosts.net, rank, st);
}

static int wait_messages(void *user, struct coll_exchange *x)
{
    struct rig_rank *me = user;

    while (!coll_exchange_is_ready(x)) {
        serve_some(me);
        for (int r = coll_exchange_misses(x, 0); r >= 0; r = coll_exchange_misses(x, r + 1)) {
            if (atomic_load(&rig.rank[r].is_gone)) {
                return found_dead(me, r);
            }
        }
        sched_yield();
    }
    return 0;
}

static int wait_lines(const struct coll_need *need)
{
    struct rig_rank *me = self;

    while (!coll_need_is_met(need)) {
        serve_some(me);
        int st = coll_net_ended(&me->hosts.net);
        if (st != 0) {
            return st;
        }
        for (int i = 0; i < me->hosts.nlocal; i++) {
            int r = me->local_rank[i];
            if (atomic_load(&rig.rank[r].is_gone) && !coll_need_is_met(need)) {
                return found_dead(me, r);
            }
        }
        sched_yield();
    }
    return 0;
}

static int ended(void *user, int rank, int status)
{
    struct rig_rank *me = user;

    me->ended_by = rank;
    return orl_fail(status, "rank %d has ended it", rank);
}

static void gave_up(void *user, int rank, int status)
{
    struct rig_rank *me = user;
    bool cannot = atomic_exchange(&me->cannot_send, false);

    me->ended_by = rank;
    for (int to = 0; to < rig.n; to++) {
        if (to != rig_rank_of(me)) {
            (void)!coll_net_tell_end(&me->hosts.net, to, rank, status);
        }
    }
    atomic_store(&me->cannot_send, cannot);
}

uint32_t rig_untaken(const struct rig_rank *from, int to)
{
    const struct coll_peer *peer = &from->hosts.net.peer[to];

    return peer->sent - atomic_load(&peer->taken);
}

/* ---------------------------------------------------------------- jobs */

/* Hosts get their numbers by their lowest ranks. */
static void place(int n, int nhosts, enum rig_placement placement)
{
    int number[RIG_RANKS];

    rig.nhosts = 0;
    memset(number, -1, sizeof(number));
    for (int r = 0; r < n; r++) {
        int h = placement == RIG_IN_ORDER   ? r * nhosts / n
                : placement == RIG_IN_TURNS ? r % nhosts
                                            : (int)(rig_dice(&rig.rank[0]) % (uint64_t)nhosts);
        if (number[h] < 0) {
            number[h] = rig.nhosts++;
            rig.leader[number[h]] = r;
        }
        rig.host_of[r] = number[h];
    }
    /* chance may have chosen one only, and then nothing spans */
    if (rig.nhosts == 1) {
        rig.host_of[n - 1] = rig.nhosts;
        rig.leader[rig.nhosts++] = n - 1;
    }
}

static int ranks_of(int host)
{
    int count = 0;

    for (int r = 0; r < rig.n; r++) {
        count += rig.host_of[r] == host ? 1 : 0;
    }
    return count;
}

static int open_rank(struct rig_rank *me, void *memory, int nlocal, int local)
{
    const struct coll_ports ports = {
        .send = send_message, .wait = wait_messages, .ended = ended, .gave_up = gave_up, .user = me
    };
    struct coll_hosts *h = &me->hosts;

    if (fab_node_lay(&me->node, memory, nlocal, ARENA, local) != 0 ||
        coll_net_open(&h->net, rig_rank_of(me), rig.n, &ports) != 0) {
        return 1;
    }
    me->lines = (struct coll_matrix){ .node = &me->node,
                                      .wait = wait_lines,
                                      .reserve = fab_node_reserve,
                                      .me = local,
                                      .nranks = nlocal,
                                      .group = nlocal };
    me->ended_by = -1;
    h->node = &me->lines;
    h->host_of = rig.host_of;
    h->local_rank = me->local_rank;
    h->nlocal = nlocal;
    coll_hosts_set(h, rig.leader, rig.nhosts);
    return 0;
}

static int open_host(int host, void **memory, uint64_t *bytes)
{
    int nlocal = ranks_of(host);
    int local = 0;
    int st = 0;

    *bytes = fab_node_lay_bytes(nlocal, ARENA);
    *memory = mmap(NULL, *bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (*memory == MAP_FAILED) {
        return 1;
    }
    for (int r = 0; r < rig.n; r++) {
        if (rig.host_of[r] == host) {
            for (int q = 0; q < rig.n; q++) {
                if (rig.host_of[q] == host) {
                    rig.rank[q].local_rank[local] = r;
                }
            }
            local++;
        }
    }
    local = 0;
    for (int r = 0; r < rig.n; r++) {
        if (rig.host_of[r] == host) {
            st |= open_rank(&rig.rank[r], *memory, nlocal, local++);
        }
    }
    return st;
}

static void *run_rank(void *arg)
{
    self = arg;
    self->failed = task.fn(self, task.arg);
    atomic_fetch_sub(&task.running, 1);
    return NULL;
}

static int run_all(void)
{
    pthread_t thread[RIG_RANKS];
    pthread_t server[RIG_RANKS];
    int failed = 0;

    atomic_store(&task.running, rig.n);
    for (int r = 0; r < rig.n; r++) {
        pthread_create(&thread[r], NULL, run_rank, &rig.rank[r]);
        if (rig.has_servers) {
            pthread_create(&server[r], NULL, serve_always, &rig.rank[r]);
        }
    }
    for (int r = 0; r < rig.n; r++) {
        pthread_join(thread[r], NULL);
        failed |= rig.rank[r].failed;
    }
    for (int r = 0; rig.has_servers && r < rig.n; r++) {
        pthread_join(server[r], NULL);
    }
    return failed;
}

static void close_job(void **memory, const uint64_t *bytes)
{
    for (int r = 0; r < rig.n; r++) {
        coll_net_close(&rig.rank[r].hosts.net);
        fab_node_unlay(&rig.rank[r].node);
        for (int to = 0; to < rig.n; to++) {
            for (struct message *m = take(&wire[r][to]); m != NULL; m = take(&wire[r][to])) {
                free(m);
            }
        }
    }
    for (int h = 0; h < rig.nhosts; h++) {
        munmap(memory[h], bytes[h]);
    }
}

int rig_run(int n, int nhosts, enum rig_placement placement, rig_fn fn, void *arg)
{
    void *memory[RIG_RANKS];
    uint64_t bytes[RIG_RANKS];
    int failed = 0;

    memset(rig.rank, 0, sizeof(rig.rank));
    rig.n = n;
    for (int r = 0; r < n; r++) {
        rig.rank[r].dice = ++rig.seed;
        for (int to = 0; to < n; to++) {
            pthread_mutex_init(&wire[r][to].lock, NULL);
            pthread_mutex_init(&wire[r][to].taking, NULL);
        }
    }
    place(n, nhosts, placement);
    for (int h = 0; h < rig.nhosts; h++) {
        failed |= open_host(h, &memory[h], &bytes[h]);
    }
    task.fn = fn;
    task.arg = arg;
    if (failed == 0) {
        failed = run_all();
    }
    close_job(memory, bytes);
    return failed;
}
