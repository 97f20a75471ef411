/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flight recorder: the last 1,024 events of one engine, always on, read when something went wrong.
 *
 * One writer, who holds the engine's lock; adding an event is a handful of stores. A reading of
 * the cycle counter costs more than the whole budget of 3 ns, so orl_trace_add takes one event in
 * 16 with its time; orl_trace_mark takes every one and is for rare events. Whoever dumps may see
 * the very last event half written. Not for printing: the log does that.
 */
#ifndef BASE_TRACE_H
#define BASE_TRACE_H

#include "base/clock.h"

#define ORL_TRACE_EVENTS       1024
#define ORL_TRACE_STAMP_PERIOD 16

/* Name for code, name for people, what a, b and c are ("" when unused). */
#define ORL_TRACE_KINDS(X)                               \
 X(PUT, "put", "peer", "bytes", "offset")                \
 X(GET, "get", "peer", "bytes", "offset")                \
 X(ATOMIC, "atomic", "peer", "bytes", "offset")          \
 X(NOTIFY, "notify", "peer", "counter", "value")         \
 X(FLUSH, "flush", "peer", "pending", "sequence")        \
 X(POST, "post", "peer", "bytes", "sequence")            \
 X(DONE, "done", "peer", "bytes", "sequence")            \
 X(FAIL, "fail", "peer", "status", "sequence")           \
 X(SEND, "send", "peer", "bytes", "sequence")            \
 X(RECEIVE, "receive", "peer", "bytes", "sequence")      \
 X(DEFER, "defer", "peer", "waiting", "sequence")        \
 X(CONNECT, "connect", "peer", "from_state", "to_state") \
 X(PEER_GONE, "peer_gone", "peer", "pid", "state")       \
 X(COLLECTIVE, "collective", "team", "step", "sequence") \
 X(PARK, "park", "word", "epoch", "timeout_ns")          \
 X(WAKE, "wake", "peer", "epoch", "")                    \
 X(REGISTER, "register", "slot", "address", "bytes")     \
 X(RELEASE, "release", "slot", "address", "generation")  \
 X(TEST, "test", "a", "b", "c")

enum orl_trace_kind {
#define ORL_TRACE_ENUM(code, name, a, b, c) ORL_TRACE_##code,
    ORL_TRACE_KINDS(ORL_TRACE_ENUM)
#undef ORL_TRACE_ENUM
    ORL_TRACE_KIND_COUNT
};

struct orl_trace_event {
    uint64_t ticks; /* 0: no time of its own, it lies between its neighbours */
    uint32_t kind;
    uint32_t a;
    uint64_t b;
    uint64_t c;
};

struct orl_trace {
    uint64_t count;   /* events ever added */
    const char *name; /* not copied */
    struct orl_trace_event ring[ORL_TRACE_EVENTS];
};

/* Begins an empty recording. `name` appears in dumps and must outlive it. */
void orl_trace_init(struct orl_trace *trace, const char *name);

static inline void orl_trace_store(struct orl_trace *trace, uint64_t ticks,
                                   struct orl_trace_event event)
{
    event.ticks = ticks;
    trace->ring[trace->count % ORL_TRACE_EVENTS] = event;
    __atomic_store_n(&trace->count, trace->count + 1, __ATOMIC_RELEASE);
}

/* Adds an event; one in 16 carries its time. */
static inline void orl_trace_add(struct orl_trace *trace, enum orl_trace_kind kind, uint32_t a,
                                 uint64_t b, uint64_t c)
{
    bool stamped = trace->count % ORL_TRACE_STAMP_PERIOD == 0;
    struct orl_trace_event event = { .kind = (uint32_t)kind, .a = a, .b = b, .c = c };
    orl_trace_store(trace, stamped ? orl_clock_ticks() : 0, event);
}

/* Adds an event with its time. For what is rare: parking, failures, changes of state. */
static inline void orl_trace_mark(struct orl_trace *trace, enum orl_trace_kind kind, uint32_t a,
                                  uint64_t b, uint64_t c)
{
    struct orl_trace_event event = { .kind = (uint32_t)kind, .a = a, .b = b, .c = c };
    orl_trace_store(trace, orl_clock_ticks(), event);
}

const char *orl_trace_kind_name(enum orl_trace_kind kind);

/*
 * Writes the events to `fd` as text, oldest first, one a line, times counted back from now.
 * Errors: SYS when the descriptor does not take it all.
 */
ORL_MUST_CHECK int orl_trace_dump(const struct orl_trace *trace, int fd);

#endif
