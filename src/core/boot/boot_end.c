/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends of ranks that the launcher has told of; see boot_watch.h. Handed in by a thread of the
 * launcher's library, read by whoever waits: entries are claimed by a counter, filled, and then
 * published by their own flag. There is room for the first ones; a job that loses more has ended.
 * Ends in good order, which may be many, leave half of it to the others.
 * And the words for all ends, told or seen.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "core/boot/boot_watch.h"

#define TOLD_MAX 64

static struct {
    _Atomic unsigned count; /* claimed; may grow beyond TOLD_MAX */
    struct {
        _Atomic bool is_there;
        struct core_end end;
    } told[TOLD_MAX];
} ends;

unsigned core_end_count(void)
{
    unsigned count = atomic_load_explicit(&ends.count, memory_order_acquire);
    return count < TOLD_MAX ? count : TOLD_MAX;
}

bool core_end_at(unsigned i, struct core_end *end)
{
    if (!atomic_load_explicit(&ends.told[i].is_there, memory_order_acquire)) {
        return false;
    }
    *end = ends.told[i].end;
    return true;
}

/* The last word on a rank counts: what began as an end in good order may prove to be none. */
bool core_end_of(int rank, struct core_end *end)
{
    for (unsigned i = core_end_count(); i > 0; i--) {
        if (core_end_at(i - 1, end) && end->rank == rank) {
            return true;
        }
    }
    return false;
}

void core_end_told(int rank, enum core_end_how how, int number)
{
    struct core_end known;
    if (core_end_of(rank, &known) && (known.how != CORE_END_NORMAL || how == CORE_END_NORMAL)) {
        return;
    }
    if (how == CORE_END_NORMAL && core_end_count() >= TOLD_MAX / 2) {
        return;
    }
    unsigned i = atomic_fetch_add(&ends.count, 1);
    if (i < TOLD_MAX) {
        ends.told[i].end = (struct core_end){
            .rank = rank, .how = how, .number = number, .when = orl_clock_kernel_ns()
        };
        atomic_store_explicit(&ends.told[i].is_there, true, memory_order_release);
    }
}

void core_end_text(const struct core_end *end, char *text, size_t capacity)
{
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, text, capacity);
    switch (end->how) {
    case CORE_END_NORMAL:
        orl_strbuf_add(&sb, " (it has ended in good order)");
        break;
    case CORE_END_EXIT:
        orl_strbuf_addf(&sb, " (exit status %d)", end->number);
        break;
    case CORE_END_SIGNAL:
        orl_strbuf_addf(&sb, " (killed by signal %d)", end->number);
        break;
    case CORE_END_ABORT:
        orl_strbuf_addf(&sb, " (it aborted with code %d)", end->number);
        break;
    case CORE_END_UNKNOWN:
    default:
        break;
    }
}

void core_gone_add(struct core_gone *gone, int rank, bool was_seen)
{
    if (gone->rank < 0) {
        gone->rank = rank;
        gone->was_seen = was_seen;
        gone->list[0] = '\0';
        return;
    }
    struct orl_strbuf sb = { .text = gone->list,
                             .capacity = sizeof(gone->list),
                             .length = strlen(gone->list) };
    gone->others++;
    if (sb.length < sizeof(gone->list) - 16) {
        orl_strbuf_addf(&sb, "%s%d", sb.length > 0 ? ", " : "", rank);
    }
}

void core_gone_text(const struct core_gone *gone, char *text, size_t capacity)
{
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, text, capacity);
    if (gone->others > 0) {
        orl_strbuf_addf(&sb, ", and so %s %s", gone->others > 1 ? "are" : "is", gone->list);
    }
}

void core_end_forget_for_test(void)
{
    for (unsigned i = 0; i < TOLD_MAX; i++) {
        atomic_store(&ends.told[i].is_there, false);
    }
    atomic_store(&ends.count, 0);
}
