/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network whose events a test makes: an engine with a descriptor, or without one, in a process
 * that is set up by hand (fake_path.h). It counts what is asked of it and keeps the messages that
 * are sent.
 */
#ifndef TESTS_CORE_FAKE_NET_H
#define TESTS_CORE_FAKE_NET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/path/path.h"
#include "fabric/transport.h"

#define FAKE_TRACE 4096
#define FAKE_SENT  64

enum fake_arm {
    FAKE_ARM_FD,    /* a descriptor that one event after the arming makes readable */
    FAKE_ARM_AGAIN, /* never quiet */
    FAKE_ARM_NONE   /* no descriptor */
};

struct fake_net {
    struct fab_engine engine;
    enum fake_arm arm;
    int fd;                  /* owns */
    _Atomic uint32_t armed;  /* the next event writes to fd */
    _Atomic uint64_t events; /* made and not yet polled */
    _Atomic uint64_t polled; /* events that progress has found */
    _Atomic uint64_t looks;  /* calls of progress */
    _Atomic uint64_t arms;   /* calls of arm */
    _Atomic uint32_t ntrace; /* letters in trace; those beyond its end are not kept */
    char trace[FAKE_TRACE];  /* p: progress that found nothing, e: that found events, a: arm */
    void (*reg)(void);       /* runs in every registration */
    _Atomic uint32_t nsent;
    struct {
        unsigned handler;
        uint64_t header;
    } sent[FAKE_SENT];
};

extern struct fake_net fake_net;

/* After fake_open: the one network of this process. */
void fake_net_open(enum fake_arm arm);
/* Before fake_close. */
void fake_net_close(void);
/* Something comes in over it. Any thread. */
void fake_net_event(void);
/* A message from a peer comes in: its handler runs at once, as from progress. */
void fake_net_message(unsigned handler, uint64_t header);
/* A path over it to that rank of another host. */
void fake_net_path(struct core_path *path, struct fab_ep *ep, int rank);

#endif
