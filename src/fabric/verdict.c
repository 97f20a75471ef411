/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Verdicts on transports and ports: the words for each, and whether the job can go on with what
 * there is. Nothing is started or closed here.
 */
#include "fabric/verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "fabric/nics.h"

#define FIRST_PORTS 8 /* room made for ports at first */

const char *fab_level_name(enum fab_level level)
{
    static const char *const names[FAB_LEVELS] = { "process", "host", "NIC", "network" };

    return (unsigned)level < FAB_LEVELS ? names[level] : "unknown";
}

const char *fab_nic_transport(const struct fab_nic *nic)
{
    return nic->transport->name;
}

/* ---------------------------------------------------------------- transports */

ORL_PRINTF(3, 4)
static void say(struct fab_verdict *verdict, enum fab_verdict_state state, const char *format, ...)
{
    va_list args;

    verdict->state = state;
    va_start(args, format);
    (void)vsnprintf(verdict->reason, sizeof(verdict->reason), format, args);
    va_end(args);
}

void fab_verdict_begin(struct fab *fabric, const struct fab_choice *choice)
{
    memset(fabric, 0, sizeof(*fabric));
    fabric->known = choice->known;
    fabric->list = choice->list;
    fabric->is_forced = choice->is_forced;
    fabric->inflight = orl_conf.inflight > 0 ? (uint64_t)orl_conf.inflight : 1024;
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

/* "eth0 by net, eth1 by net". */
static void say_ports(struct fab_verdict *verdict, const struct fab *fabric, unsigned from)
{
    struct orl_strbuf sb;

    verdict->state = FAB_CHOSEN;
    orl_strbuf_init(&sb, verdict->reason, sizeof(verdict->reason));
    for (unsigned i = from; i < fabric->nengines; i++) {
        const struct fab_engine *engine = fabric->engine[i];
        bool has_device = engine->nic.device[0] != '\0';

        orl_strbuf_join(&sb, ", ", has_device ? engine->nic.device : "engine ");
        orl_strbuf_add(&sb, has_device ? "" : engine->name);
        if (has_device && engine->nic.provider[0] != '\0') {
            orl_strbuf_addf(&sb, " by %s", engine->nic.provider);
        }
    }
}

void fab_verdict_chosen(struct fab *fabric, unsigned i, unsigned from)
{
    struct fab_verdict *verdict = &fabric->verdict[i];
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
        say_ports(verdict, fabric, from);
        return;
    }
}

void fab_verdict_failed(struct fab *fabric, unsigned i, int status)
{
    struct fab_verdict *verdict = &fabric->verdict[i];

    if (status != 0) {
        verdict->status = status;
        say(verdict, FAB_FAILED, "%s", orl_last_error());
    } else if (fabric->is_forced) {
        verdict->status = ORL_ERR_UNSUPP;
        say(verdict, FAB_FAILED,
            "ORIEL_TRANSPORTS asks for it, but this machine has no device "
            "that it could use");
    } else {
        say(verdict, FAB_ABSENT, "no device on this machine that it could use");
    }
}

void fab_verdict_not_needed(struct fab *fabric)
{
    int nranks = fabric->node != NULL ? fabric->node->nranks : 1;

    for (unsigned i = 0; i < fabric->nverdicts; i++) {
        struct fab_verdict *verdict = &fabric->verdict[i];

        if (verdict->state == FAB_IDLE && verdict->level >= FAB_LEVEL_NIC && nranks > 1) {
            say(verdict, FAB_IDLE, "not needed: all %d ranks are on this host", nranks);
        } else if (verdict->state == FAB_IDLE && verdict->level >= FAB_LEVEL_NIC) {
            say(verdict, FAB_IDLE, "not needed: this job has one rank");
        }
    }
}

void fab_verdict_given_up(struct fab *fabric)
{
    for (unsigned i = 0; i < fabric->nverdicts; i++) {
        if (fabric->verdict[i].state == FAB_CHOSEN) {
            say(&fabric->verdict[i], FAB_IDLE, "could be started; given up with the others");
        }
    }
    for (unsigned i = 0; i < fabric->nports; i++) {
        if (fabric->port[i].state == FAB_CHOSEN) {
            fabric->port[i].state = FAB_IDLE;
        }
    }
}

/* ---------------------------------------------------------------- ports */

/* The entry of this port, a new one where there is none; NULL: no room. */
static struct fab_port *port_of(struct fab *fabric, const struct fab_nic *nic)
{
    struct fab_port *grown;
    unsigned n = fabric->nports;

    for (unsigned i = 0; i < n; i++) {
        struct fab_port *port = &fabric->port[i];

        if (port->nic.transport == nic->transport && strcmp(port->nic.name, nic->name) == 0 &&
            strcmp(port->nic.provider, nic->provider) == 0) {
            return port;
        }
    }
    if (n == FAB_PORTS_MAX) {
        return NULL;
    }
    if (n % FIRST_PORTS == 0) {
        grown = realloc(fabric->port, (n + FIRST_PORTS) * sizeof(*grown));
        if (grown == NULL) {
            return NULL;
        }
        fabric->port = grown;
    }
    fabric->nports = n + 1;
    return &fabric->port[n];
}

void fab_port_judge(struct fab *fabric, const struct fab_nic *nic, enum fab_verdict_state state,
                    const char *format, ...)
{
    struct fab_port *port = port_of(fabric, nic);
    va_list args;

    if (port == NULL) {
        return;
    }
    port->nic = *nic;
    port->state = state;
    va_start(args, format);
    (void)vsnprintf(port->reason, sizeof(port->reason), format, args);
    va_end(args);
    orl_log_debug(ORL_CAT_FABRIC, "port %s: %s", nic->name, port->reason);
}

/* "[lo: the loopback; eth0: no carrier]": the ports of a transport that are not in use. */
static void explain_ports(const struct fab *fabric, const struct fab_transport_ops *ops,
                          struct orl_strbuf *out)
{
    const char *before = " [";

    for (unsigned i = 0; i < fabric->nports; i++) {
        const struct fab_port *port = &fabric->port[i];

        if (port->nic.transport == ops &&
            (port->state != FAB_CHOSEN || port->nic.net[1] == FAB_NET_ALONE)) {
            orl_strbuf_addf(out, "%s%s: %s", before, port->nic.device, port->reason);
            before = "; ";
        }
    }
    orl_strbuf_add(out, before[0] == ';' ? "]" : "");
}

static void explain_one(const struct fab *fabric, unsigned i, struct orl_strbuf *out)
{
    const struct fab_verdict *verdict = &fabric->verdict[i];

    orl_strbuf_addf(out, "%s%s: %s", out->length > 0 ? "; " : "", verdict->name, verdict->reason);
    if (verdict->state != FAB_DISABLED && verdict->status != ORL_ERR_CONF &&
        fabric->known[i].ops != NULL) {
        explain_ports(fabric, fabric->known[i].ops, out);
    }
}

/* Whether a transport has a port that leads to other hosts. */
static bool reaches_out(const struct fab *fabric, unsigned i)
{
    for (unsigned e = 0; e < fabric->nengines; e++) {
        if (fabric->engine[e]->transport == fabric->known[i].ops &&
            !fab_engine_is_alone(fabric->engine[e])) {
            return true;
        }
    }
    return false;
}

void fab_explain(const struct fab *fabric, struct orl_strbuf *out)
{
    char text[ORL_ERROR_TEXT_BYTES];
    struct orl_strbuf sb;

    orl_strbuf_init(&sb, text, sizeof(text));
    for (unsigned i = 0; i < fabric->nverdicts; i++) {
        const struct fab_verdict *verdict = &fabric->verdict[i];
        bool is_network = verdict->level >= FAB_LEVEL_NIC;
        bool serves = verdict->state == FAB_CHOSEN && (!is_network || reaches_out(fabric, i));
        bool is_to_come =
            fabric->is_far && fabric->node == NULL && !is_network && verdict->state == FAB_IDLE;

        if (!serves && !is_to_come) {
            explain_one(fabric, i, &sb);
        }
    }
    orl_strbuf_add(out, text);
}

/* ---------------------------------------------------------------- can the job go on? */

bool fab_verdict_is_fatal(const struct fab *fabric, const struct fab_verdict *failed)
{
    bool is_pinned = failed->level >= FAB_LEVEL_NIC && fab_nics_has_pin(orl_conf.nics);

    return failed->state == FAB_FAILED &&
           (fabric->is_forced || is_pinned || failed->status == ORL_ERR_CONF ||
            failed->status == ORL_ERR_INTERNAL);
}

/* Whether the job can do without this one, which failed: not when peers would be out of reach. */
static bool is_spare(const struct fab *fabric, const struct fab_verdict *failed)
{
    bool has_peers = fabric->is_far || fabric->node == NULL || fabric->node->nranks > 1;
    bool reaches = false;

    for (unsigned i = 0; i < fabric->nverdicts; i++) {
        const struct fab_verdict *other = &fabric->verdict[i];

        reaches = reaches ||
                  (other->state == FAB_CHOSEN && (!has_peers || other->level >= failed->level));
    }
    return reaches && !fab_verdict_is_fatal(fabric, failed);
}

static bool has_network(const struct fab *fabric)
{
    for (unsigned i = 0; i < fabric->nengines; i++) {
        if (fabric->engine[i]->level >= FAB_LEVEL_NIC) {
            return true;
        }
    }
    return false;
}

int fab_verdict_weigh(const struct fab *fabric)
{
    const struct fab_verdict *first = NULL;
    char text[ORL_ERROR_TEXT_BYTES];
    struct orl_strbuf reasons;

    orl_strbuf_init(&reasons, text, sizeof(text));
    for (unsigned i = 0; i < fabric->nverdicts; i++) {
        const struct fab_verdict *verdict = &fabric->verdict[i];

        if (verdict->state == FAB_FAILED && is_spare(fabric, verdict)) {
            orl_log_warn(ORL_CAT_FABRIC, "transport %s cannot be started: %s; going on without it",
                         verdict->name, verdict->reason);
        } else if (verdict->state == FAB_FAILED) {
            first = first != NULL ? first : verdict;
            explain_one(fabric, i, &reasons);
        }
    }
    if (first != NULL) {
        return orl_fail(first->status, "transports that cannot be started: %s", text);
    }
    if (fabric->nengines == 0 || (fabric->is_far && !has_network(fabric))) {
        fab_explain(fabric, &reasons);
        return orl_fail(ORL_ERR_UNSUPP, "there is no transport %s: %s",
                        fabric->nengines == 0 ? "to use" : "that reaches the other ranks", text);
    }
    return 0;
}
