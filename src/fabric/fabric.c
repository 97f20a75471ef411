/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric object: the list of compiled-in transports, opening and closing of their engines, and
 * the calls that go over all engines. Called by the core at start and end, and by its progress
 * loop. No lock of its own: open and close are for one thread. What an engine does is in
 * engine.c and in the transports.
 */
#include "fabric/fabric.h"

#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "fabric/transport.h"

/* A new transport adds one line here, and its name below. */
static const struct fab_transport_ops *const compiled_in[] = {
    &fab_self_ops,
    &fab_shm_ops,
};
static const char transport_names[] = "self,shm";

#define NTRANSPORTS (sizeof(compiled_in) / sizeof(compiled_in[0]))

const char *fab_transports(void)
{
    return transport_names;
}

/* A forgotten slot is a defect of the transport, found at the first start instead of in use. */
static bool slots_are_filled(const struct fab_transport_ops *ops)
{
    const unsigned char *bytes = (const unsigned char *)ops;

    for (size_t i = 0; i < sizeof(*ops); i += sizeof(uintptr_t)) {
        uintptr_t word;

        memcpy(&word, bytes + i, sizeof(word));
        if (word == 0) {
            return false;
        }
    }
    return true;
}

static bool is_word(const char *word, size_t length, const char *name)
{
    return strlen(name) == length && strncmp(word, name, length) == 0;
}

static bool is_listed(const char *list, const char *name)
{
    while (*list != '\0') {
        size_t length = strcspn(list, ",");

        if (is_word(list, length, name)) {
            return true;
        }
        list += length + (list[length] == ',');
    }
    return false;
}

static int check_list(const char *list)
{
    if (*list == '\0') {
        return orl_fail(ORL_ERR_CONF, "the list of transports is empty; there are: %s",
                        transport_names);
    }
    for (const char *word = list; *word != '\0';) {
        size_t length = strcspn(word, ",");
        bool found = false;

        for (size_t i = 0; i < NTRANSPORTS; i++) {
            found = found || is_word(word, length, compiled_in[i]->name);
        }
        if (!found) {
            return orl_fail(ORL_ERR_CONF, "transport \"%.*s\" is not in this build; there are: %s",
                            (int)length, word, transport_names);
        }
        word += length + (word[length] == ',');
    }
    return 0;
}

static int open_transport(struct fab *fabric, const struct fab_transport_ops *ops)
{
    struct fab_nic nics[FAB_ENGINES_MAX];
    int cap = FAB_ENGINES_MAX - (int)fabric->nengines;
    int found = ops->probe(fabric, nics, cap);

    for (int i = 0; i < found; i++) {
        struct fab_engine *engine;
        int status = ops->open(fabric, &nics[i], &engine);

        if (status != 0) {
            return status;
        }
        engine->index = fabric->nengines;
        fabric->engine[fabric->nengines++] = engine;
        orl_log_info(ORL_CAT_FABRIC, "engine %s is open", engine->name);
    }
    return 0;
}

int fab_open(struct fab *fabric, const char *transports, struct fab_node *node)
{
    memset(fabric, 0, sizeof(*fabric));
    int status = check_list(transports);
    if (status != 0) {
        return status;
    }
    fabric->node = node;
    fabric->inflight = orl_conf.inflight > 0 ? (uint64_t)orl_conf.inflight : 1024;
    for (size_t i = 0; i < NTRANSPORTS; i++) {
        if (!slots_are_filled(compiled_in[i])) {
            status = orl_fail(ORL_ERR_INTERNAL, "transport %s leaves a slot of its table empty",
                              compiled_in[i]->name);
        } else if (is_listed(transports, compiled_in[i]->name)) {
            status = open_transport(fabric, compiled_in[i]);
        }
        if (status != 0) {
            fab_close(fabric);
            return status;
        }
    }
    return 0;
}

void fab_close(struct fab *fabric)
{
    if (fabric == NULL) {
        return;
    }
    while (fabric->nengines > 0) {
        struct fab_engine *engine = fabric->engine[--fabric->nengines];

        fabric->engine[fabric->nengines] = NULL;
        if (!orl_list_is_empty(&engine->eps)) {
            orl_log_error(ORL_CAT_FABRIC, "engine %s is closed while endpoints are open",
                          engine->name);
        }
        engine->transport->close(engine);
    }
    fabric->node = NULL;
}

struct fab_engine *fab_engine_find(struct fab *fabric, const char *name)
{
    for (unsigned i = 0; i < fabric->nengines; i++) {
        if (strcmp(fabric->engine[i]->name, name) == 0) {
            return fabric->engine[i];
        }
    }
    return NULL;
}

int fab_progress(struct fab *fabric)
{
    int events = 0;

    for (unsigned i = 0; i < fabric->nengines; i++) {
        events += fab_engine_progress(fabric->engine[i]);
    }
    return events;
}

bool fab_is_busy(const struct fab *fabric)
{
    for (unsigned i = 0; i < fabric->nengines; i++) {
        const struct fab_engine *engine = fabric->engine[i];
        uint64_t done = atomic_load_explicit(&engine->ndone, memory_order_acquire);

        if (atomic_load_explicit(&engine->nposted, memory_order_relaxed) != done) {
            return true;
        }
    }
    return false;
}

int fab_engine_arm(struct fab_engine *engine, int *fd)
{
    return engine->transport->arm(engine, fd);
}

int fab_engine_address(struct fab_engine *engine, void *blob, size_t *bytes)
{
    engine->transport->address(engine, blob);
    *bytes = engine->limits.address_bytes;
    return 0;
}
