/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rig whose side b is a child process, so that it can be killed. Parent and child exchange the
 * node's ticket, where they share one, addresses and a key over a socket pair.
 */
#include "contract.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What the child tells when it is ready. */
struct peer_card {
    unsigned char address[FAB_ADDRESS_BYTES];
    uint64_t address_bytes;
    unsigned char key[FAB_RKEY_BYTES];
    uint64_t key_bytes;
};

static void swallow(void *user, struct fab_rx *rx)
{
    (void)user;
    (void)rx;
}

static bool has_node(const struct ct_rig *rig)
{
    return rig->row->open != ct_open_network;
}

static bool exchange(int fd, const void *out, size_t out_bytes, void *in, size_t in_bytes)
{
    return (out_bytes == 0 || write(fd, out, out_bytes) == (ssize_t)out_bytes) &&
           (in_bytes == 0 || recv(fd, in, in_bytes, MSG_WAITALL) == (ssize_t)in_bytes);
}

static bool child_card(struct ct_rig *rig, size_t bytes, struct peer_card *card)
{
    struct ct_side *b = &rig->b;
    struct fab_region *region;
    size_t address_bytes = sizeof card->address;
    size_t key_bytes = sizeof card->key;
    void *memory = NULL;
    int rc;

    rc = (rig->row->flags & CT_ROW_ARENA) != 0 ? fab_node_alloc(b->node, bytes, &memory)
                                               : posix_memalign(&memory, 4096, bytes);
    rc = rc != 0 ? rc : fab_region_open(b->fab, memory, bytes, FAB_ACCESS_ALL, &region);
    rc = rc != 0 ? rc : fab_rkey_pack(region, b->engine, card->key, &key_bytes);
    rc = rc != 0 ? rc : fab_engine_address(b->engine, card->address, &address_bytes);
    card->address_bytes = address_bytes;
    card->key_bytes = key_bytes;
    return rc == 0;
}

static _Noreturn void child(struct ct_rig *rig, enum ct_peer_mode mode, size_t bytes, int fd)
{
    struct fab_node_ticket ticket;
    struct fab_node *node = NULL;
    struct peer_card card;

    memset(&card, 0, sizeof card);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!exchange(fd, NULL, 0, &ticket, sizeof ticket) ||
        (has_node(rig) &&
         (fab_node_attach(&node, &ticket) != 0 || fab_node_join(node, 1, 1) != 0)) ||
        !ct_side_open(&rig->b, rig->row, node)) {
        _exit(1);
    }
    fab_handler_set(rig->b.fab, CT_MSG_B, swallow, NULL);
    if (!child_card(rig, bytes, &card) || !exchange(fd, &card, sizeof card, NULL, 0)) {
        _exit(1);
    }
    for (;;) {
        const struct timespec nap = { 0, 100000 };

        if (mode == CT_PEER_SLEEPS) {
            (void)pause();
        } else if (fab_progress(rig->b.fab) == 0) {
            (void)nanosleep(&nap, NULL);
        }
    }
}

static void parent_open(struct ct_rig *rig, struct ct_mem *mem)
{
    struct fab_node_ticket ticket;
    struct fab_node *node = NULL;
    struct peer_card card;
    int rc = 0;

    memset(&ticket, 0, sizeof ticket);
    if (has_node(rig)) {
        rc = fab_node_create(&node, 2, 4712, 64 * CT_MIB, &ticket);
        rc = rc != 0 ? rc : fab_node_join(node, 0, 0);
    }
    if (!ct_check(rc == 0, "node: %s: %s", orl_status_name(rc), orl_last_error()) ||
        !ct_side_open(&rig->a, rig->row, node) ||
        !ct_check(exchange(rig->peer_socket, &ticket, sizeof ticket, &card, sizeof card),
                  "the peer did not come up")) {
        return;
    }
    rc = fab_ep_open(rig->a.engine, card.address, card.address_bytes, "rank 1 on b", &rig->ab);
    rc = rc != 0 ? rc : fab_rkey_open(rig->ab, card.key, card.key_bytes, &mem->key);
    mem->has_key = rc == 0;
    ct_check(rc == 0, "endpoint: %s: %s", orl_status_name(rc), orl_last_error());
}

void ct_peer_open(struct ct_rig *rig, const struct ct_row *row, enum ct_peer_mode mode,
                  size_t bytes, struct ct_mem *mem)
{
    int fds[2];

    memset(rig, 0, sizeof *rig);
    memset(mem, 0, sizeof *mem);
    rig->row = row;
    ct_load_settings(row);
    if (!ct_is_fine() ||
        !ct_check(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "no socket pair")) {
        return;
    }
    rig->peer = fork();
    if (rig->peer == 0) {
        (void)close(fds[0]);
        child(rig, mode, bytes, fds[1]);
    }
    (void)close(fds[1]);
    rig->peer_socket = fds[0];
    if (ct_check(rig->peer > 0, "no child")) {
        parent_open(rig, mem);
    }
}

/* The child stays a zombie until ct_peer_close: a zombie is dead. */
void ct_peer_kill(struct ct_rig *rig)
{
    (void)kill(rig->peer, SIGKILL);
}

void ct_peer_close(struct ct_rig *rig, struct ct_mem *mem)
{
    if (!ct_is_fine()) {
        return;
    }
    fab_rkey_close(rig->ab, &mem->key);
    ct_settle(rig);
    fab_ep_close(rig->ab);
    fab_close(rig->a.fab);
    fab_node_close(rig->a.node);
    (void)close(rig->peer_socket);
    (void)waitpid(rig->peer, NULL, 0);
}
