/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rig: two sides with engines, endpoints and memory, made as one row of the table says. A new
 * transport adds a row here, and an open function where two fabrics in one process are not made
 * by one of those below. No case lives here.
 */
#include "contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"

#define ARENA_BYTES (64 * CT_MIB)

const struct ct_row ct_rows[] = {
    { "self", "self", NULL, NULL, ct_open_loop, 0, 0 },
    { "self-node", "self", NULL, NULL, ct_open_loop_node, 0, 0 },
    { "shm-direct", "shm", "auto", NULL, ct_open_node, CT_ROW_ARENA | CT_ROW_FORK, 0 },
    { "shm-cma", "shm", "cma", NULL, ct_open_node, CT_ROW_FORK, 0 },
    { "shm-ring", "shm", "ring", NULL, ct_open_node, CT_ROW_FORK, 0 },
    { "ofi", "ofi", NULL, "net", ct_open_network, CT_ROW_FORK, 8192 },
    { "ofi-rxm", "ofi", NULL, "tcp;ofi_rxm", ct_open_network, CT_ROW_FORK, 4096 },
    { "ofi-strict", "ofi", NULL, "strict", ct_open_network, CT_ROW_FORK, 8192 },
};
const size_t ct_nrows = sizeof ct_rows / sizeof ct_rows[0];

void (*ct_engine_hook)(struct fab_engine *engine);

const struct ct_row *ct_row_find(const char *name)
{
    size_t i;

    for (i = 0; i < ct_nrows; i++) {
        if (strcmp(ct_rows[i].name, name) == 0) {
            return &ct_rows[i];
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------- sides */

/* An engine is named after its port; of several of one transport any will do. */
static struct fab_engine *first_of(const struct fab *fabric, const char *transport)
{
    const size_t n = strlen(transport);
    unsigned i;

    for (i = 0; i < fabric->nengines; i++) {
        const char *name = fabric->engine[i]->name;

        if (strncmp(name, transport, n) == 0 && (name[n] == '\0' || name[n] == ':')) {
            return fabric->engine[i];
        }
    }
    return NULL;
}

bool ct_side_open(struct ct_side *side, const struct ct_row *row, struct fab_node *node)
{
    const char *last = strrchr(row->transports, ',');
    int rc;

    side->node = node;
    rc = fab_open(&side->fabric, row->transports, node);
    if (!ct_check(rc == 0, "fab_open: %s: %s", orl_status_name(rc), orl_last_error())) {
        return false;
    }
    side->fab = &side->fabric;
    side->engine = first_of(side->fab, last == NULL ? row->transports : last + 1);
    if (!ct_check(side->engine != NULL, "the fabric has no engine %s", row->transports)) {
        return false;
    }
    if (ct_engine_hook != NULL) {
        ct_engine_hook(side->engine);
    }
    return true;
}

/* Where this build has the provider that enforces the contract of EFA. */
static void find_strict(void)
{
    const char *build = getenv("top_builddir");
    char path[4096];

    (void)snprintf(path, sizeof path, "%s/tests/fake/strict/.libs", build == NULL ? "." : build);
    (void)setenv("FI_PROVIDER_PATH", path, 0);
}

void ct_load_settings(const struct ct_row *row)
{
    int rc;

    if (row->copy != NULL) {
        (void)setenv("ORIEL_SHM_COPY", row->copy, 1);
    }
    if (row->provider != NULL) {
        (void)setenv("ORIEL_OFI_PROVIDER", row->provider, 1);
        find_strict();
    }
    rc = orl_conf_load();
    ct_check(rc == 0, "settings: %s", orl_last_error());
}

void ct_open_loop(struct ct_rig *rig)
{
    ct_load_settings(rig->row);
    if (ct_side_open(&rig->a, rig->row, NULL)) {
        rig->b.fab = rig->a.fab;
        rig->b.engine = rig->a.engine;
    }
}

/* The shape of a job without shm: a node of one rank, in which registrations are entered too. */
void ct_open_loop_node(struct ct_rig *rig)
{
    struct fab_node_ticket ticket;
    struct fab_node *node = NULL;
    int rc;

    ct_load_settings(rig->row);
    rc = fab_node_create(&node, 1, 4711, ARENA_BYTES, &ticket);
    rc = rc != 0 ? rc : fab_node_join(node, 0, 0);
    if (!ct_check(rc == 0, "node: %s: %s", orl_status_name(rc), orl_last_error())) {
        return;
    }
    fab_node_unlink(node);
    if (ct_side_open(&rig->a, rig->row, node)) {
        rig->b.fab = rig->a.fab;
        rig->b.engine = rig->a.engine;
    }
}

void ct_open_node(struct ct_rig *rig)
{
    struct fab_node_ticket ticket;
    struct fab_node *first = NULL;
    struct fab_node *second = NULL;
    int rc;

    ct_load_settings(rig->row);
    rc = fab_node_create(&first, 2, 4711, ARENA_BYTES, &ticket);
    rc = rc != 0 ? rc : fab_node_attach(&second, &ticket);
    rc = rc != 0 ? rc : fab_node_join(first, 0, 0);
    rc = rc != 0 ? rc : fab_node_join(second, 1, 1);
    if (!ct_check(rc == 0, "node: %s: %s", orl_status_name(rc), orl_last_error())) {
        return;
    }
    fab_node_unlink(first);
    if (ct_side_open(&rig->a, rig->row, first)) {
        (void)ct_side_open(&rig->b, rig->row, second);
    }
}

void ct_open_network(struct ct_rig *rig)
{
    ct_load_settings(rig->row);
    if (ct_side_open(&rig->a, rig->row, NULL)) {
        (void)ct_side_open(&rig->b, rig->row, NULL);
    }
}

bool ct_ep_open(struct ct_side *from, struct ct_side *to, const char *label, struct fab_ep **ep)
{
    unsigned char blob[FAB_ADDRESS_BYTES];
    size_t bytes = sizeof blob;
    int rc = fab_engine_address(to->engine, blob, &bytes);

    if (rc == 0) {
        ct_check(bytes == to->engine->limits.address_bytes, "an address of %zu bytes, not %zu",
                 bytes, to->engine->limits.address_bytes);
        rc = fab_ep_open(from->engine, blob, bytes, label, ep);
    }
    return ct_check(rc == 0, "endpoint: %s: %s", orl_status_name(rc), orl_last_error()) &&
           ct_check(strcmp((*ep)->label, label) == 0, "the endpoint has lost its label");
}

static void set_handlers(struct ct_rig *rig, struct fab *fabric)
{
    rig->inbox_a.rig = rig;
    rig->inbox_b.rig = rig;
    fab_handler_set(fabric, CT_MSG_A, ct_on_message, &rig->inbox_a);
    fab_handler_set(fabric, CT_MSG_B, ct_on_message, &rig->inbox_b);
}

/* Cases count files and heap, and look at states: what a connection takes is there before. */
static bool is_connected(void *arg)
{
    const struct ct_rig *rig = arg;

    return atomic_load(&rig->ab->state) != FAB_EP_CONNECTING &&
           atomic_load(&rig->ab2->state) != FAB_EP_CONNECTING &&
           atomic_load(&rig->ba->state) != FAB_EP_CONNECTING;
}

void ct_rig_open(struct ct_rig *rig, const struct ct_row *row)
{
    memset(rig, 0, sizeof *rig);
    rig->row = row;
    row->open(rig);
    if (!ct_is_fine()) {
        return;
    }
    set_handlers(rig, rig->a.fab);
    set_handlers(rig, rig->b.fab);
    if (ct_ep_open(&rig->a, &rig->b, "rank 1 on b", &rig->ab) &&
        ct_ep_open(&rig->a, &rig->b, "rank 1 again", &rig->ab2) &&
        ct_ep_open(&rig->b, &rig->a, "rank 0 on a", &rig->ba)) {
        ct_check(ct_until(rig, is_connected, rig), "no connection comes about");
        ct_settle(rig);
    }
}

static void end_ep(struct ct_rig *rig, struct fab_ep **ep)
{
    if (*ep == NULL) {
        return;
    }
    if (atomic_load(&(*ep)->state) == FAB_EP_READY) {
        int rc = ct_flush_wait(rig, *ep);

        ct_check(rc == 0, "the last flush of %s: %s", (*ep)->label, orl_status_name(rc));
    }
    ct_settle(rig);
    if (ct_is_fine()) {
        fab_ep_close(*ep);
    }
    *ep = NULL;
}

void ct_rig_close(struct ct_rig *rig)
{
    if (!ct_is_fine()) {
        return;
    }
    atomic_store(&rig->b_sleeps, false);
    end_ep(rig, &rig->ab);
    end_ep(rig, &rig->ab2);
    end_ep(rig, &rig->ba);
    if (!ct_is_fine()) {
        return;
    }
    fab_close(rig->a.fab);
    if (rig->b.fab != rig->a.fab) {
        fab_close(rig->b.fab);
    }
    fab_node_close(rig->b.node);
    fab_node_close(rig->a.node);
    memset(rig, 0, sizeof *rig);
}

/* ---------------------------------------------------------------- memory */

static unsigned char byte_at(unsigned seed, size_t i)
{
    return (unsigned char)(seed * 31u + (unsigned)i * 7u + (unsigned)(i >> 8) * 13u +
                           (unsigned)(i >> 16));
}

void ct_fill(void *p, size_t n, unsigned seed)
{
    unsigned char *bytes = p;
    size_t i;

    for (i = 0; i < n; i++) {
        bytes[i] = byte_at(seed, i);
    }
}

bool ct_is_filled(const void *p, size_t n, unsigned seed)
{
    const unsigned char *bytes = p;
    size_t i;

    for (i = 0; i < n; i++) {
        if (bytes[i] != byte_at(seed, i)) {
            return false;
        }
    }
    return true;
}

bool ct_is_byte(const void *p, size_t n, unsigned char byte)
{
    const unsigned char *bytes = p;

    return n == 0 || (bytes[0] == byte && memcmp(bytes, bytes + 1, n - 1) == 0);
}

int ct_mem_key(const struct ct_mem *mem, struct fab_ep *ep, struct fab_rkey *key)
{
    unsigned char blob[FAB_RKEY_BYTES];
    size_t bytes = sizeof blob;
    int rc = fab_rkey_pack(mem->region, mem->rig->b.engine, blob, &bytes);

    return rc != 0 ? rc : fab_rkey_open(ep, blob, bytes, key);
}

static unsigned char *block_alloc(struct ct_rig *rig, enum ct_place place, size_t total)
{
    void *memory = NULL;

    if (place == CT_AT_B && (rig->row->flags & CT_ROW_ARENA) != 0) {
        return fab_node_alloc(rig->b.node, total, &memory) == 0 ? memory : NULL;
    }
    return posix_memalign(&memory, 4096, total) == 0 ? memory : NULL;
}

bool ct_mem_open(struct ct_rig *rig, enum ct_place place, size_t bytes, unsigned access,
                 struct ct_mem *mem)
{
    struct fab *fabric = place == CT_AT_A ? rig->a.fab : rig->b.fab;
    int rc;

    memset(mem, 0, sizeof *mem);
    mem->rig = rig;
    mem->place = place;
    mem->bytes = bytes;
    mem->block = block_alloc(rig, place, bytes + (size_t)2 * CT_GUARD);
    if (!ct_check(mem->block != NULL, "no memory of %zu bytes", bytes)) {
        return false;
    }
    mem->base = mem->block + CT_GUARD;
    memset(mem->block, 0xa5, bytes + (size_t)2 * CT_GUARD);
    rc = fab_region_open(fabric, mem->base, bytes, access, &mem->region);
    if (!ct_check(rc == 0, "region: %s: %s", orl_status_name(rc), orl_last_error())) {
        return false;
    }
    if (place == CT_AT_B && access != FAB_ACCESS_LOCAL) {
        rc = ct_mem_key(mem, rig->ab, &mem->key);
        mem->has_key = rc == 0;
        ct_check(rc == 0, "key: %s: %s", orl_status_name(rc), orl_last_error());
        ct_check(mem->key.bytes == bytes, "a key of %llu bytes for a range of %zu",
                 (unsigned long long)mem->key.bytes, bytes);
    }
    return ct_is_fine();
}

void ct_mem_close(struct ct_mem *mem)
{
    bool is_arena = mem->place == CT_AT_B && (mem->rig->row->flags & CT_ROW_ARENA) != 0;

    ct_check(ct_is_byte(mem->block, CT_GUARD, 0xa5), "bytes before a range were written");
    ct_check(ct_is_byte(mem->base + mem->bytes, CT_GUARD, 0xa5),
             "bytes behind a range were written");
    if (!ct_is_fine()) {
        return;
    }
    if (mem->has_key) {
        fab_rkey_close(mem->rig->ab, &mem->key);
    }
    fab_region_drop(mem->region);
    if (is_arena) {
        int rc = fab_node_free(mem->rig->b.node, mem->block);

        ct_check(rc == 0, "fab_node_free: %s", orl_status_name(rc));
    } else {
        free(mem->block);
    }
    memset(mem, 0, sizeof *mem);
}
