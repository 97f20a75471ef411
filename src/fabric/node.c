/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a node segment: making, opening, joining, leaving. Called by bootstrap and finalize,
 * one thread at a time. Where things lie in it is node_shape.c's.
 *
 * Descriptors. The proof of life is a lock of the process on the file, and the kernel drops all
 * locks of a process on a file when it closes any descriptor of it. So a process with two handles
 * of one segment, which only tests have, does not close the descriptor of the first to end: the
 * other handle keeps it. The list of handles that this needs is under a mutex of its own.
 */
#include "fabric/node.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "base/sys.h"
#include "fabric/node_priv.h"

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static struct orl_list handles = { &handles, &handles }; /* handles_lock */

/* ---------------------------------------------------------------- handles */

static struct fab_node *handle_new(void)
{
    struct fab_node *node = calloc(1, sizeof(*node));

    if (node == NULL) {
        return NULL;
    }
    node->priv = calloc(1, sizeof(*node->priv));
    if (node->priv == NULL) {
        free(node);
        return NULL;
    }
    node->fd = -1;
    node->local = -1;
    node->priv->kept_fd = -1;
    node->priv->bell_fd = -1;
    atomic_init(&node->priv->ring_fd, -1);
    node->priv->maker = getpid();
    orl_list_init(&node->priv->handle);
    return node;
}

/* From now on the handle is responsible for the descriptor. */
static void handle_add(struct fab_node *node, int fd)
{
    struct stat file;

    node->fd = fd;
    if (fstat(fd, &file) == 0) {
        node->priv->device = file.st_dev;
        node->priv->inode = file.st_ino;
    }
    (void)pthread_mutex_lock(&handles_lock);
    orl_list_add_tail(&handles, &node->priv->handle);
    (void)pthread_mutex_unlock(&handles_lock);
}

static struct fab_node_priv *find_same_file(const struct fab_node_priv *priv)
{
    struct orl_list *it;

    orl_list_each(it, &handles) {
        struct fab_node_priv *other = container_of(it, struct fab_node_priv, handle);

        if (other->device == priv->device && other->inode == priv->inode) {
            return other;
        }
    }
    return NULL;
}

static void close_kept(struct fab_node_priv *priv)
{
    while (priv != NULL) {
        struct fab_node_priv *next = priv->kept;

        (void)close(priv->kept_fd);
        free(priv);
        priv = next;
    }
}

/* Ends the handle's descriptor, now or when the last handle of the same file ends. */
static void handle_free(struct fab_node *node)
{
    struct fab_node_priv *priv = node->priv;
    struct fab_node_priv *heir;
    struct fab_node_priv *last = priv;

    (void)pthread_mutex_lock(&handles_lock);
    orl_list_del(&priv->handle);
    heir = node->fd >= 0 ? find_same_file(priv) : NULL;
    priv->kept_fd = node->fd;
    if (heir != NULL) {
        while (last->kept != NULL) {
            last = last->kept;
        }
        last->kept = heir->kept;
        heir->kept = priv;
    }
    (void)pthread_mutex_unlock(&handles_lock);
    if (heir == NULL) {
        close_kept(priv);
    }
    free(node);
}

/* ---------------------------------------------------------------- making and opening */

static int map_segment(struct fab_node *node, int nranks, uint64_t arena_stride)
{
    uint64_t bytes = fab_node_shape((uint64_t)nranks, arena_stride).bytes;
    void *base = NULL;
    int st;

    if (bytes > 2 * FAB_SPACE_MAX) {
        return orl_fail(ORL_ERR_NOMEM,
                        "%llu bytes of shared memory on each of %d ranks are more than can be "
                        "mapped; set ORIEL_SHM_SIZE to less",
                        (unsigned long long)arena_stride, nranks);
    }
    st = orl_sys_map(node->fd, bytes, &base);
    if (st != 0) {
        return orl_fail(st, "%s; the segment of %d ranks with ORIEL_SHM_SIZE %llu needs %llu bytes",
                        orl_last_error(), nranks, (unsigned long long)arena_stride,
                        (unsigned long long)bytes);
    }
    fab_node_lay_out(node, base, nranks, arena_stride);
    return 0;
}

static void fill_header(struct fab_node *node, uint64_t job)
{
    struct fab_node_header *header = node->header;

    header->magic = FAB_NODE_MAGIC;
    header->version = FAB_NODE_VERSION;
    header->nranks = (uint32_t)node->nranks;
    header->job = job;
    header->bytes = node->bytes;
    header->arena_stride = node->arena_stride;
    if (orl_sys_random(&header->cookie, sizeof(header->cookie)) != 0) {
        header->cookie = job ^ orl_clock_kernel_ns(); /* a name taken only costs the bell */
    }
    atomic_store_explicit(&header->ready, 1, memory_order_release);
}

static void fill_ticket(const struct fab_node *node, uint64_t job, struct fab_node_ticket *ticket)
{
    memset(ticket, 0, sizeof(*ticket));
    ticket->pid = getpid();
    ticket->fd = node->fd;
    ticket->job = job;
    orl_sys_host_id(ticket->host);
    memcpy(ticket->path, node->path, sizeof(ticket->path));
}

static int make_segment(struct fab_node *node, int nranks, uint64_t arena_stride)
{
    struct orl_sys_segment segment;
    enum orl_sys_backing backing = (enum orl_sys_backing)orl_conf.shm_backing;
    uint64_t bytes = fab_node_shape((uint64_t)nranks, arena_stride).bytes;
    int st = orl_sys_segment_create(backing, "node", bytes, &segment);

    if (st != 0) {
        return st;
    }
    handle_add(node, segment.fd);
    if (strlen(segment.path) >= sizeof(node->path)) {
        (void)unlink(segment.path);
        return orl_fail(ORL_ERR_INTERNAL, "the path %s is too long for a ticket", segment.path);
    }
    memcpy(node->path, segment.path, strlen(segment.path) + 1);
    return 0;
}

int fab_node_create(struct fab_node **node, int nranks, uint64_t job, uint64_t arena_bytes,
                    struct fab_node_ticket *ticket)
{
    uint64_t arena_stride;
    struct fab_node *made;
    int st;

    if (nranks < 1 || nranks > FAB_NODE_RANKS_MAX) {
        return orl_fail(ORL_ERR_INVAL, "a node of %d ranks: from 1 to %d are possible", nranks,
                        FAB_NODE_RANKS_MAX);
    }
    arena_stride =
        fab_node_arena_stride(arena_bytes != 0 ? arena_bytes : fab_node_automatic_arena(nranks));
    made = handle_new();
    if (made == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for the handle of the node segment");
    }
    st = make_segment(made, nranks, arena_stride);
    if (st == 0) {
        st = map_segment(made, nranks, arena_stride);
    }
    if (st == 0) {
        made->creator = 1;
        /* All parts that any rank may touch at any time: everything before the hazard lines. */
        st = fab_node_reserve(made, made->base, fab_node_shape((uint64_t)nranks, 0).hazards);
    }
    if (st != 0) {
        fab_node_close(made);
        return st;
    }
    fill_header(made, job);
    fill_ticket(made, job, ticket);
    *node = made;
    return 0;
}

/* Reads the shape out of the header of what claims to be the segment, believing nothing. */
static int read_header(int fd, uint64_t job, int *nranks, uint64_t *arena_stride)
{
    const struct fab_node_header *header;
    struct stat file;
    void *base = NULL;
    bool is_ours;
    int st;

    if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || file.st_size < (off_t)FAB_HEADER_PART) {
        return orl_fail(ORL_ERR_BOOT, "what the ticket names is not a node segment");
    }
    st = orl_sys_map(fd, FAB_HEADER_PART, &base);
    if (st != 0) {
        return st;
    }
    header = base;
    is_ours = header->magic == FAB_NODE_MAGIC && header->version == FAB_NODE_VERSION &&
              atomic_load_explicit(&header->ready, memory_order_acquire) == 1 &&
              header->job == job && header->bytes == (uint64_t)file.st_size &&
              header->nranks >= 1 && header->nranks <= FAB_NODE_RANKS_MAX &&
              header->arena_stride % FAB_HUGE_BYTES == 0 && header->arena_stride <= FAB_SPACE_MAX &&
              fab_node_shape(header->nranks, header->arena_stride).bytes == header->bytes;
    *nranks = (int)header->nranks;
    *arena_stride = header->arena_stride;
    orl_sys_unmap(base, FAB_HEADER_PART);
    if (!is_ours) {
        return orl_fail(ORL_ERR_BOOT,
                        "what the ticket names is not the node segment of job %llx, version %d",
                        (unsigned long long)job, FAB_NODE_VERSION);
    }
    return 0;
}

static int open_ticket(const struct fab_node_ticket *ticket, int *fd)
{
    int st = orl_sys_attach(ticket->pid, ticket->fd, fd);

    if (st != 0 && ticket->path[0] != '\0') {
        st = orl_sys_attach_path(ticket->path, fd);
    }
    return st;
}

int fab_node_attach(struct fab_node **node, const struct fab_node_ticket *ticket)
{
    struct fab_node *made;
    uint8_t host[16];
    uint64_t arena_stride = 0;
    int nranks = 0;
    int fd = -1;
    int st;

    orl_sys_host_id(host);
    if (memcmp(host, ticket->host, sizeof(host)) != 0 ||
        memchr(ticket->path, '\0', sizeof(ticket->path)) == NULL) {
        return orl_fail(ORL_ERR_BOOT, "the ticket is of a node segment of another host");
    }
    made = handle_new();
    if (made == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for the handle of the node segment");
    }
    st = open_ticket(ticket, &fd);
    if (st == 0) {
        handle_add(made, fd);
        st = read_header(fd, ticket->job, &nranks, &arena_stride);
    }
    if (st == 0) {
        st = map_segment(made, nranks, arena_stride);
    }
    if (st != 0) {
        fab_node_close(made);
        return st;
    }
    *node = made;
    return 0;
}

/* ---------------------------------------------------------------- joining and leaving */

static int reserve_mine(struct fab_node *node)
{
    int st = fab_node_reserve(node, fab_node_lines(node, node->local),
                              FAB_HAZARD_SLOTS * sizeof(struct fab_hazard));

    return st != 0 ? st
                   : fab_node_reserve(node, node->stage + (uint64_t)node->local * FAB_STAGE_STRIDE,
                                      FAB_STAGE_READY);
}

static void populate_mine(struct fab_node *node)
{
    unsigned char *hazards = (void *)node->hazards;

    fab_node_populate(node, node->base, (uint64_t)(hazards - node->base));
    fab_node_populate(node, fab_node_lines(node, node->local),
                      FAB_HAZARD_SLOTS * sizeof(struct fab_hazard));
}

static void forget_mine(struct fab_node *node)
{
    fab_node_bells_fini(node);
    fab_arena_fini(node);
    fab_reg_slots_fini(node);
}

/* The part of joining that laid nodes share. */
static int become(struct fab_node *node, int rank)
{
    struct fab_node_ctl *ctl = &node->ctl[node->local];
    int st = fab_reg_slots_init(node);

    if (st == 0) {
        st = fab_arena_init(node);
    }
    if (st != 0) {
        forget_mine(node);
        return st;
    }
    node->priv->joiner = getpid();
    fab_node_lines(node, node->local)[FAB_HAZARD_SLOTS - 1].shared = 1;
    ctl->pid = node->priv->joiner;
    ctl->start_time = orl_sys_pid_starttime(node->priv->joiner);
    ctl->rank = rank;
    /* Whoever sees the rank running sees the block complete, and the lock that proves it held. */
    atomic_store_explicit(&ctl->state, FAB_RANK_RUNNING, memory_order_release);
    return 0;
}

static void leave(struct fab_node *node)
{
    struct fab_hazard *lines = fab_node_lines(node, node->local);
    uint32_t running = FAB_RANK_RUNNING;

    fab_hazard_forget(node);
    for (unsigned i = 0; i < FAB_HAZARD_SLOTS; i++) {
        atomic_store_explicit(&lines[i].word, 0, memory_order_release);
    }
    /* One that has given up stays so. */
    (void)atomic_compare_exchange_strong_explicit(&node->ctl[node->local].state, &running,
                                                  FAB_RANK_FINAL, memory_order_release,
                                                  memory_order_relaxed);
    fab_node_wake(node, -1);
}

void fab_node_give_up(struct fab_node *node, int local, enum fab_rank_state state, int code,
                      const char *words)
{
    struct fab_node_ctl *ctl = &node->ctl[local];
    struct orl_strbuf sb;

    orl_strbuf_init(&sb, ctl->words, sizeof(ctl->words));
    orl_strbuf_add(&sb, words);
    ctl->code = code;
    atomic_store_explicit(&ctl->state, state, memory_order_release);
    fab_node_wake(node, -1);
}

int fab_node_join(struct fab_node *node, int local, int rank)
{
    int st;

    if (local < 0 || local >= node->nranks) {
        return orl_fail(ORL_ERR_INVAL, "local rank %d: the node has ranks 0 to %d", local,
                        node->nranks - 1);
    }
    if (node->local >= 0 ||
        atomic_load_explicit(&node->ctl[local].state, memory_order_acquire) != FAB_RANK_ABSENT) {
        return orl_fail(ORL_ERR_STATE, "local rank %d of the node has joined already", local);
    }
    node->local = local;
    st = reserve_mine(node);
    if (st == 0) {
        populate_mine(node);
        st = orl_sys_lock_byte(node->fd, (uint64_t)local);
    }
    if (st == 0) {
        st = become(node, rank);
    }
    if (st != 0) {
        node->local = -1;
    }
    return st;
}

void fab_node_unlink(struct fab_node *node)
{
    if (node->path[0] != '\0') {
        (void)unlink(node->path);
        node->path[0] = '\0';
    }
}

void fab_node_close(struct fab_node *node)
{
    if (node == NULL) {
        return;
    }
    if (node->priv->joiner == getpid()) {
        leave(node);
    }
    forget_mine(node);
    if (node->priv->maker == getpid()) {
        fab_node_unlink(node);
    }
    orl_sys_unmap(node->base, node->bytes);
    handle_free(node);
}

int fab_node_lay(struct fab_node *node, void *memory, int nranks, uint64_t arena_bytes, int local)
{
    struct fab_node *made = handle_new();
    int st;

    if (made == NULL) {
        return orl_fail(ORL_ERR_NOMEM, "no memory for the handle of the node segment");
    }
    *node = *made;
    free(made);
    fab_node_lay_out(node, memory, nranks, fab_node_arena_stride(arena_bytes));
    if (node->header->magic != FAB_NODE_MAGIC) {
        fill_header(node, 0);
    }
    node->local = local;
    st = become(node, local);
    if (st != 0) {
        free(node->priv);
    }
    return st;
}

void fab_node_unlay(struct fab_node *node)
{
    leave(node);
    forget_mine(node);
    free(node->priv);
    memset(node, 0, sizeof(*node));
}
