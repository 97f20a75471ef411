/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric object: the list of known transports, the verdict on each, opening and closing of
 * their engines, and the calls that go over all engines. Called by the core at start and end, and
 * by its progress loop. No lock of its own: open and close are for one thread. What an engine does
 * is in engine.c and in the transports.
 */
#include "fabric/fabric.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "fabric/transport.h"

/* What configure found, for those that would need it. */
#ifdef ORIEL_HAVE_VERBS
 #define VERBS_FOUND "libibverbs was found by configure and is not used by this version"
#else
 #define VERBS_FOUND "not in this version, and configure did not find libibverbs"
#endif
#ifdef ORIEL_HAVE_LIBFABRIC
 #define LIBFABRIC_FOUND "libfabric was found by configure and is not used by this version"
#else
 #define LIBFABRIC_FOUND "not in this version, and configure did not find libfabric"
#endif

/* A new transport gets its table here, and its name below. */
static const struct fab_known known_here[] = {
    { "self", FAB_LEVEL_PROCESS, &fab_self_ops, NULL },
    { "shm", FAB_LEVEL_HOST, &fab_shm_ops, NULL },
    { "verbs", FAB_LEVEL_NIC, NULL, VERBS_FOUND },
    { "libfabric", FAB_LEVEL_NETWORK, NULL, LIBFABRIC_FOUND },
};
static const char transport_names[] = "self,shm";

#define NKNOWN (sizeof(known_here) / sizeof(known_here[0]))
_Static_assert(NKNOWN <= FAB_KNOWN_MAX, "one verdict for each");

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

const char *fab_level_name(enum fab_level level)
{
    static const char *const names[FAB_LEVELS] = { "process", "host", "NIC", "network" };

    return (unsigned)level < FAB_LEVELS ? names[level] : "unknown";
}

/* ---------------------------------------------------------------- verdicts */

ORL_PRINTF(3, 4)
static void say(struct fab_verdict *verdict, enum fab_verdict_state state, const char *format, ...)
{
    va_list args;

    verdict->state = state;
    va_start(args, format);
    (void)vsnprintf(verdict->reason, sizeof(verdict->reason), format, args);
    va_end(args);
}

static void say_chosen(struct fab_verdict *verdict, const struct fab *fabric, int engines)
{
    int nranks = fabric->node != NULL ? fabric->node->nranks : 1;

    switch (verdict->level) {
    case FAB_LEVEL_PROCESS:
        say(verdict, FAB_CHOSEN, "a rank's own memory");
        return;
    case FAB_LEVEL_HOST:
        say(verdict, FAB_CHOSEN, "%d rank%s on this host", nranks, nranks == 1 ? "" : "s");
        return;
    case FAB_LEVEL_NIC:
    case FAB_LEVEL_NETWORK:
    case FAB_LEVELS:
    default:
        say(verdict, FAB_CHOSEN, "%d port%s of this host", engines, engines == 1 ? "" : "s");
        return;
    }
}

static void judge(struct fab *fabric, const struct fab_choice *choice)
{
    fabric->nverdicts = (unsigned)choice->nknown;
    for (size_t i = 0; i < choice->nknown; i++) {
        const struct fab_known *known = &choice->known[i];
        struct fab_verdict *verdict = &fabric->verdict[i];

        *verdict = (struct fab_verdict){ .name = known->name, .level = known->level };
        if (known->ops == NULL) {
            say(verdict, FAB_ABSENT, "%s", known->absent);
        } else if (choice->list == NULL) {
            say(verdict, FAB_IDLE, "undecided: ORIEL_TRANSPORTS is wrong");
        } else if (!orl_conf_list_has(choice->list, known->name)) {
            say(verdict, FAB_DISABLED, "ORIEL_TRANSPORTS leaves it out");
        } else {
            say(verdict, FAB_IDLE, "in ORIEL_TRANSPORTS, and not started");
        }
    }
}

void fab_judge(struct fab *fabric, const char *transports)
{
    memset(fabric, 0, sizeof(*fabric));
    judge(fabric, &(struct fab_choice){ known_here, NKNOWN, transports, false });
}

void fab_explain(const struct fab *fabric, struct orl_strbuf *out)
{
    size_t before = out->length;

    for (unsigned i = 0; i < fabric->nverdicts; i++) {
        const struct fab_verdict *verdict = &fabric->verdict[i];

        if (verdict->state != FAB_CHOSEN) {
            orl_strbuf_addf(out, "%s%s: %s", out->length > before ? "; " : "", verdict->name,
                            verdict->reason);
        }
    }
}

/* ---------------------------------------------------------------- open */

/* A word of the list: one that this build has, one that it only knows, or nonsense. */
static int check_word(const struct fab_choice *choice, const char *word, size_t length)
{
    for (size_t i = 0; i < choice->nknown; i++) {
        const struct fab_known *known = &choice->known[i];

        if (is_word(word, length, known->name)) {
            return known->ops != NULL ? 0
                                      : orl_fail(ORL_ERR_CONF,
                                                 "transport \"%s\" is not in this build: %s; "
                                                 "there are: %s",
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

/* All ports of a transport. Returns how many there are, or the status of the one that failed; then
 * none of them is open. */
static int open_ports(struct fab *fabric, const struct fab_known *known)
{
    struct fab_nic nics[FAB_ENGINES_MAX];
    unsigned before = fabric->nengines;
    int found;

    if (!slots_are_filled(known->ops)) {
        return orl_fail(ORL_ERR_INTERNAL, "transport %s leaves a slot of its table empty",
                        known->name);
    }
    found = known->ops->probe(fabric, nics, FAB_ENGINES_MAX - (int)before);
    for (int i = 0; i < found; i++) {
        struct fab_engine *engine;
        int status = known->ops->open(fabric, &nics[i], &engine);

        if (status != 0) {
            close_engines(fabric, before);
            return status;
        }
        engine->index = fabric->nengines;
        fabric->engine[fabric->nengines++] = engine;
        orl_log_info(ORL_CAT_FABRIC, "engine %s is open (%s)", engine->name,
                     fab_level_name(known->level));
    }
    return found;
}

static void start(struct fab *fabric, const struct fab_choice *choice, size_t i)
{
    struct fab_verdict *verdict = &fabric->verdict[i];
    int found = open_ports(fabric, &choice->known[i]);

    if (found < 0) {
        verdict->status = found;
        say(verdict, FAB_FAILED, "%s", orl_last_error());
    } else if (found > 0) {
        say_chosen(verdict, fabric, found);
    } else if (choice->is_forced) {
        verdict->status = ORL_ERR_UNSUPP;
        say(verdict, FAB_FAILED,
            "ORIEL_TRANSPORTS asks for it, but this machine has no device "
            "that it could use");
    } else {
        say(verdict, FAB_ABSENT, "no device on this machine that it could use");
    }
}

/* Whether the job can do without this one, which failed: nothing is in order with it missing when
 * the user named it, when it is broken, or when peers would be out of reach. */
static bool is_spare(const struct fab *fabric, const struct fab_choice *choice,
                     const struct fab_verdict *failed)
{
    bool has_peers = fabric->node == NULL || fabric->node->nranks > 1;
    bool reaches = false;

    for (unsigned i = 0; i < fabric->nverdicts; i++) {
        const struct fab_verdict *other = &fabric->verdict[i];

        reaches = reaches ||
                  (other->state == FAB_CHOSEN && (!has_peers || other->level >= failed->level));
    }
    return reaches && !choice->is_forced && failed->status != ORL_ERR_INTERNAL;
}

/* 0, or the one error that gives each reason. */
static int weigh(const struct fab *fabric, const struct fab_choice *choice)
{
    const struct fab_verdict *first = NULL;
    char text[ORL_ERROR_TEXT_BYTES];
    struct orl_strbuf reasons;

    orl_strbuf_init(&reasons, text, sizeof(text));
    for (unsigned i = 0; i < fabric->nverdicts; i++) {
        const struct fab_verdict *verdict = &fabric->verdict[i];

        if (verdict->state == FAB_FAILED && is_spare(fabric, choice, verdict)) {
            orl_log_warn(ORL_CAT_FABRIC, "transport %s cannot be started: %s; going on without it",
                         verdict->name, verdict->reason);
        } else if (verdict->state == FAB_FAILED) {
            first = first != NULL ? first : verdict;
            orl_strbuf_addf(&reasons, "%s%s: %s", reasons.length > 0 ? "; " : "", verdict->name,
                            verdict->reason);
        }
    }
    if (first != NULL) {
        return orl_fail(first->status, "transports that cannot be started: %s",
                        orl_strbuf_str(&reasons));
    }
    if (fabric->nengines == 0) {
        fab_explain(fabric, &reasons);
        return orl_fail(ORL_ERR_UNSUPP, "there is no transport to use: %s",
                        orl_strbuf_str(&reasons));
    }
    return 0;
}

/* What could be started is not in use either. */
static void give_up(struct fab *fabric)
{
    fab_close(fabric);
    for (unsigned i = 0; i < fabric->nverdicts; i++) {
        if (fabric->verdict[i].state == FAB_CHOSEN) {
            say(&fabric->verdict[i], FAB_IDLE, "could be started; given up with the others");
        }
    }
}

int fab_open_choice(struct fab *fabric, const struct fab_choice *choice, struct fab_node *node)
{
    memset(fabric, 0, sizeof(*fabric));
    judge(fabric, choice);
    int status = check_list(choice);
    if (status != 0) {
        return status;
    }
    fabric->node = node;
    fabric->inflight = orl_conf.inflight > 0 ? (uint64_t)orl_conf.inflight : 1024;
    for (size_t i = 0; i < choice->nknown; i++) {
        if (fabric->verdict[i].state == FAB_IDLE) {
            start(fabric, choice, i);
        }
    }
    status = weigh(fabric, choice);
    if (status != 0) {
        give_up(fabric);
    }
    return status;
}

int fab_open(struct fab *fabric, const char *transports, struct fab_node *node)
{
    const struct fab_choice choice = { known_here, NKNOWN, transports,
                                       orl_conf_is_given("TRANSPORTS") };

    return fab_open_choice(fabric, &choice, node);
}

void fab_close(struct fab *fabric)
{
    if (fabric == NULL) {
        return;
    }
    close_engines(fabric, 0);
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
