/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns a flight recording into text.
 *
 * Called when an engine or a peer failed, on a time-out, or when somebody asks. Adding events is
 * inline in trace.h. Takes no lock: the owner may go on recording meanwhile, and the oldest lines
 * of the dump are then newer than they should be.
 */
#include "base/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "base/strbuf.h"

_Static_assert(sizeof(struct orl_trace_event) == 32, "two events share a cache line");

struct kind_row {
    const char *name;
    const char *operands[3];
};

static const struct kind_row kinds[] = {
#define ORL_TRACE_ROW(code, name, a, b, c) [ORL_TRACE_##code] = { name, { a, b, c } },
    ORL_TRACE_KINDS(ORL_TRACE_ROW)
#undef ORL_TRACE_ROW
        [ORL_TRACE_KIND_COUNT] = { "unknown", { "a", "b", "c" } },
};

/* Text on its way to the descriptor. A line is at most a quarter of it. */
struct dump {
    int fd;
    struct orl_strbuf text;
    char memory[2048];
};

void orl_trace_init(struct orl_trace *trace, const char *name)
{
    memset(trace, 0, sizeof(*trace));
    trace->name = name;
}

static const struct kind_row *row_of(uint32_t kind)
{
    return &kinds[kind < ORL_TRACE_KIND_COUNT ? kind : ORL_TRACE_KIND_COUNT];
}

const char *orl_trace_kind_name(enum orl_trace_kind kind)
{
    return row_of((uint32_t)kind)->name;
}

static int dump_flush(struct dump *dump)
{
    const char *text = orl_strbuf_str(&dump->text);
    size_t left = dump->text.length;
    while (left > 0) {
        ssize_t n = write(dump->fd, text, left);
        if (n < 0 && errno != EINTR) {
            return orl_fail(ORL_ERR_SYS, "cannot write the event recording: %s",
                            orl_os_text(errno));
        }
        if (n > 0) {
            text += n;
            left -= (size_t)n;
        }
    }
    orl_strbuf_init(&dump->text, dump->memory, sizeof(dump->memory));
    return ORL_OK;
}

static int dump_flush_if_full(struct dump *dump)
{
    return dump->text.length > sizeof(dump->memory) * 3 / 4 ? dump_flush(dump) : ORL_OK;
}

static void render_time(struct orl_strbuf *out, uint64_t ticks, uint64_t now_ticks)
{
    if (ticks == 0) {
        orl_strbuf_addf(out, "%18s ", ".");
        return;
    }
    uint64_t age_ns = now_ticks > ticks ? orl_clock_ns_of_ticks(now_ticks - ticks) : 0;
    orl_strbuf_addf(out, "%11" PRIu64 ".%03" PRIu64 " us ", age_ns / 1000, age_ns % 1000);
}

static void render_operand(struct orl_strbuf *out, const char *name, uint64_t value)
{
    if (name[0] != '\0') {
        orl_strbuf_addf(out, " %s %" PRIu64, name, value);
    }
}

static void render_event(struct orl_strbuf *out, const struct orl_trace_event *event,
                         uint64_t now_ticks)
{
    const struct kind_row *row = row_of(event->kind);
    render_time(out, event->ticks, now_ticks);
    orl_strbuf_addf(out, "%-10s", row->name);
    render_operand(out, row->operands[0], event->a);
    render_operand(out, row->operands[1], event->b);
    render_operand(out, row->operands[2], event->c);
    orl_strbuf_add(out, "\n");
}

int orl_trace_dump(const struct orl_trace *trace, int fd)
{
    struct dump dump = { .fd = fd };
    uint64_t now_ticks = orl_clock_ticks();
    uint64_t count = __atomic_load_n(&trace->count, __ATOMIC_ACQUIRE);
    uint64_t kept = count < ORL_TRACE_EVENTS ? count : ORL_TRACE_EVENTS;

    orl_strbuf_init(&dump.text, dump.memory, sizeof(dump.memory));
    orl_strbuf_addf(&dump.text, "%s: last %" PRIu64 " of %" PRIu64 " events, by time before now\n",
                    trace->name, kept, count);
    for (uint64_t i = count - kept; i < count; i++) {
        render_event(&dump.text, &trace->ring[i % ORL_TRACE_EVENTS], now_ticks);
        int status = dump_flush_if_full(&dump);
        if (status != ORL_OK) {
            return status;
        }
    }
    return dump_flush(&dump);
}
