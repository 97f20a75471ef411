/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric object: the list of known transports, opening and closing of their engines, and the
 * calls that go over all engines. Called by the core at start and end, and by its progress loop. No
 * lock of its own: open and close are for one thread. What an engine does is in engine.c and in the
 * transports, what is said of each in verdict.c.
 */
#include "fabric/fabric.h"

#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "fabric/nics.h"
#include "fabric/transport.h"
#include "fabric/verdict.h"

/* What configure found, for those that would need it. */
#ifdef ORIEL_HAVE_VERBS
 #define VERBS_FOUND "libibverbs was found by configure and is not used by this version"
#else
 #define VERBS_FOUND "not in this version, and configure did not find libibverbs"
#endif
#ifdef ORIEL_HAVE_LIBFABRIC
 #define OFI_OPS  &fab_ofi_ops
 #define OFI_NAME ",ofi"
#else
 #define OFI_OPS  NULL
 #define OFI_NAME ""
#endif
#define OFI_ABSENT "configure did not find libfabric (Debian package: libfabric-dev)"

/* A new transport gets its table here, and its name below. */
static const struct fab_known known_here[] = {
    { "self", FAB_LEVEL_PROCESS, &fab_self_ops, NULL },
    { "shm", FAB_LEVEL_HOST, &fab_shm_ops, NULL },
    { "verbs", FAB_LEVEL_NIC, NULL, VERBS_FOUND },
    { "ofi", FAB_LEVEL_NETWORK, OFI_OPS, OFI_ABSENT },
};
static const char transport_names[] = "self,shm" OFI_NAME;

#define NKNOWN (sizeof(known_here) / sizeof(known_here[0]))
_Static_assert(NKNOWN <= FAB_KNOWN_MAX, "one verdict for each");

static struct fab_choice choice_here(const char *transports)
{
    return (struct fab_choice){ known_here, NKNOWN, transports, orl_conf_is_given("TRANSPORTS") };
}

const char *fab_transports(void)
{
    return transport_names;
}

const char *fab_library_version(void)
{
#ifdef ORIEL_HAVE_LIBFABRIC
    return fab_ofi_version();
#else
    return "";
#endif
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

void fab_judge(struct fab *fabric, const char *transports)
{
    const struct fab_choice choice = choice_here(transports);

    fab_verdict_begin(fabric, &choice);
}

/* ---------------------------------------------------------------- the list */

/* A word of the list: one that this build has, one that it only knows, or nonsense. What this build
 * lacks is wrong only where the user asks for it: the default names all there could be. */
static int check_word(const struct fab_choice *choice, const char *word, size_t length)
{
    for (size_t i = 0; i < choice->nknown; i++) {
        const struct fab_known *known = &choice->known[i];

        if (is_word(word, length, known->name)) {
            return known->ops != NULL || !choice->is_forced
                       ? 0
                       : orl_fail(ORL_ERR_CONF,
                                  "transport \"%s\" is not in this build: %s; there are: %s",
                                  known->name, known->absent, transport_names);
        }
    }
    return orl_fail(ORL_ERR_CONF, "transport \"%.*s\" is not in this build; there are: %s",
                    (int)length, word, transport_names);
}

static int check_list(const struct fab_choice *choice)
{
    if (*choice->list == '\0') {
        return orl_fail(ORL_ERR_CONF, "the list of transports is empty; there are: %s",
                        transport_names);
    }
    for (const char *word = choice->list; *word != '\0';) {
        size_t length = strcspn(word, ",");
        int status = check_word(choice, word, length);

        if (status != 0) {
            return status;
        }
        word += length + (word[length] == ',');
    }
    return 0;
}

/* ---------------------------------------------------------------- open */

static void close_engines(struct fab *fabric, unsigned down_to)
{
    while (fabric->nengines > down_to) {
        struct fab_engine *engine = fabric->engine[--fabric->nengines];

        fabric->engine[fabric->nengines] = NULL;
        if (!orl_list_is_empty(&engine->eps)) {
            orl_log_error(ORL_CAT_FABRIC, "engine %s is closed while endpoints are open",
                          engine->name);
        }
        engine->transport->close(engine);
    }
}

/* A port of a network that does not start is left out while others do, unless the user named it. */
static int open_port(struct fab *fabric, const struct fab_known *known, const struct fab_nic *nic)
{
    struct fab_engine *engine;
    int status = known->ops->open(fabric, nic, &engine);

    if (status != 0) {
        if (known->level >= FAB_LEVEL_NIC) {
            fab_port_judge(fabric, nic, FAB_FAILED, "%s", orl_last_error());
        }
        return status;
    }
    engine->index = fabric->nengines;
    engine->level = nic->level != FAB_LEVEL_PROCESS ? nic->level : known->level;
    engine->nic = *nic;
    fabric->engine[fabric->nengines++] = engine;
    orl_log_info(ORL_CAT_FABRIC, "engine %s is open (%s)", engine->name,
                 fab_level_name(engine->level));
    return 0;
}

/* All ports of a transport. Returns how many are open, or the status of the one that failed; then
 * none of them is open. */
static int open_ports(struct fab *fabric, const struct fab_known *known)
{
    struct fab_nic nics[FAB_ENGINES_MAX];
    unsigned before = fabric->nengines;
    bool may_lack = known->level >= FAB_LEVEL_NIC && !fab_nics_has_pin(orl_conf.nics);
    int failed = 0;
    int found;

    if (!slots_are_filled(known->ops)) {
        return orl_fail(ORL_ERR_INTERNAL, "transport %s leaves a slot of its table empty",
                        known->name);
    }
    found = known->ops->probe(fabric, nics, FAB_ENGINES_MAX - (int)before);
    for (int i = 0; i < found; i++) {
        int status = open_port(fabric, known, &nics[i]);

        failed = status != 0 ? status : failed;
        if (status != 0 && !may_lack) {
            close_engines(fabric, before);
            return status;
        }
    }
    if (found <= 0) {
        return found;
    }
    return fabric->nengines > before ? (int)(fabric->nengines - before) : failed;
}

static void start(struct fab *fabric, unsigned i)
{
    unsigned before = fabric->nengines;
    int found = open_ports(fabric, &fabric->known[i]);

    if (found > 0) {
        fab_verdict_chosen(fabric, i, before);
    } else {
        fab_verdict_failed(fabric, i, found);
    }
}

/* Open what is listed of the levels from `lowest` to `highest`. */
static void start_levels(struct fab *fabric, enum fab_level lowest, enum fab_level highest)
{
    for (unsigned i = 0; i < fabric->nverdicts; i++) {
        const struct fab_verdict *verdict = &fabric->verdict[i];

        if (verdict->state == FAB_IDLE && verdict->level >= lowest && verdict->level <= highest) {
            start(fabric, i);
        }
    }
}

/* What is wrong with the settings, before anything is started. */
static int check_settings(const struct fab_choice *choice)
{
    int status = check_list(choice);

    return status != 0 ? status : fab_nics_check(orl_conf.nics);
}

/* What could be started is not in use either. The verdicts stay, for whoever asks why. */
static int give_up(struct fab *fabric, int status)
{
    close_engines(fabric, 0);
    fabric->node = NULL;
    fab_verdict_given_up(fabric);
    return status;
}

int fab_open_choice(struct fab *fabric, const struct fab_choice *choice, struct fab_node *node)
{
    int status;

    fab_verdict_begin(fabric, choice);
    status = check_settings(choice);
    if (status != 0) {
        return status;
    }
    fabric->node = node;
    start_levels(fabric, FAB_LEVEL_PROCESS, FAB_LEVEL_NETWORK);
    status = fab_verdict_weigh(fabric);
    return status != 0 ? give_up(fabric, status) : 0;
}

int fab_open(struct fab *fabric, const char *transports, struct fab_node *node)
{
    const struct fab_choice choice = choice_here(transports);

    return fab_open_choice(fabric, &choice, node);
}

int fab_open_networks_choice(struct fab *fabric, const struct fab_choice *choice)
{
    int status;

    fab_verdict_begin(fabric, choice);
    status = check_settings(choice);
    if (status != 0) {
        return status;
    }
    fabric->is_far = true;
    start_levels(fabric, FAB_LEVEL_NIC, FAB_LEVEL_NETWORK);
    for (unsigned i = 0; i < fabric->nverdicts; i++) {
        if (fab_verdict_is_fatal(fabric, &fabric->verdict[i])) {
            return give_up(fabric, fab_verdict_weigh(fabric));
        }
    }
    return 0;
}

int fab_open_networks(struct fab *fabric, const char *transports)
{
    const struct fab_choice choice = choice_here(transports);

    return fab_open_networks_choice(fabric, &choice);
}

int fab_open_node(struct fab *fabric, struct fab_node *node)
{
    int status = 0;

    if (!fabric->is_far) {
        const struct fab_choice choice = { fabric->known, fabric->nverdicts, fabric->list,
                                           fabric->is_forced };

        status = check_settings(&choice);
    }
    if (status != 0) {
        return status;
    }
    fabric->node = node;
    start_levels(fabric, FAB_LEVEL_PROCESS, FAB_LEVEL_HOST);
    fab_verdict_not_needed(fabric);
    status = fab_verdict_weigh(fabric);
    return status != 0 ? give_up(fabric, status) : 0;
}

/* What a network would use. One that is left out is looked at as well: what it could use is of
 * interest, what is wrong with it is not. */
static int consider(struct fab *fabric, unsigned i)
{
    const struct fab_verdict *verdict = &fabric->verdict[i];
    struct fab_nic nics[FAB_ENGINES_MAX];
    int status;

    if (fabric->known[i].ops == NULL || verdict->level < FAB_LEVEL_NIC) {
        return 0;
    }
    status = fabric->known[i].ops->probe(fabric, nics, FAB_ENGINES_MAX);
    if (verdict->state == FAB_DISABLED) {
        for (int k = 0; k < status; k++) {
            fab_port_judge(fabric, &nics[k], FAB_DISABLED, "%s", verdict->reason);
        }
        return 0;
    }
    if (status < 0) {
        fab_verdict_failed(fabric, i, status);
    }
    return status < 0 ? status : 0;
}

int fab_consider(struct fab *fabric, const char *transports)
{
    const struct fab_choice choice = choice_here(transports);
    int status = 0;

    fab_verdict_begin(fabric, &choice);
    for (unsigned i = 0; i < fabric->nverdicts && status == 0; i++) {
        status = consider(fabric, i);
    }
    fab_verdict_given_up(fabric);
    return status;
}

static uint32_t mbps_of_card(uint64_t mbps)
{
    return mbps < UINT32_MAX ? (uint32_t)mbps : UINT32_MAX;
}

void fab_engine_card(struct fab_engine *engine, struct fab_card *card)
{
    memset(card, 0, sizeof(*card));
    if (engine->level == FAB_LEVEL_PROCESS) {
        return;
    }
    memcpy(card->tag, engine->tag, sizeof(card->tag));
    memcpy(card->net, engine->nic.net, sizeof(card->net));
    card->mbps = mbps_of_card(engine->nic.mbps);
    engine->transport->address(engine, card->address);
    card->bytes = (uint8_t)engine->limits.address_bytes;
}

bool fab_engine_is_alone(const struct fab_engine *engine)
{
    return engine->nic.net[1] == FAB_NET_ALONE;
}

static bool ends_at_other_host(const struct fab_engine *engine, const struct fab_card *card)
{
    bool is_alone = fab_engine_is_alone(engine) || card->net[1] == FAB_NET_ALONE;

    return is_alone && memcmp(engine->nic.net, card->net, sizeof(card->net)) != 0;
}

/* The first byte of a network is its family of addresses, which an endpoint does not cross. */
bool fab_engine_speaks(const struct fab_engine *engine, const struct fab_card *card)
{
    uint8_t mine = engine->nic.net[0];
    uint8_t theirs = card->net[0];

    return engine->tag[0] != '\0' && memcmp(engine->tag, card->tag, sizeof(card->tag)) == 0 &&
           (mine == 0 || theirs == 0 || (mine == theirs && !ends_at_other_host(engine, card)));
}

void fab_close(struct fab *fabric)
{
    if (fabric == NULL) {
        return;
    }
    close_engines(fabric, 0);
    free(fabric->port);
    fabric->port = NULL;
    fabric->nports = 0;
    fabric->node = NULL;
}

struct fab_engine *fab_engine_find(struct fab *fabric, const char *name)
{
    for (unsigned i = 0; i < fabric->nengines; i++) {
        const struct fab_engine *engine = fabric->engine[i];

        if (strcmp(engine->name, name) == 0 || strcmp(engine->transport->name, name) == 0) {
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
