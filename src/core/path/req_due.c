/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deadlines of requests that nobody waits for. A request that is started with a deadline is on a
 * timer wheel until it is freed; the agent asks in its turns. Whoever waits looks at the deadline
 * of its request by itself, to the nanosecond. The lock is taken before that of a request, and
 * freeing a request takes it alone, so a request that is looked at here cannot go.
 */
#include "core/path/req.h"

#include "base/clock.h"
#include "base/wheel.h"
#include "core/path/progress.h"

static struct {
    struct orl_lock lock;
    struct orl_wheel wheel; /* lock */
    _Atomic uint64_t next;  /* nothing is due before; ORL_NEVER without deadlines */
} dues;

void core_reqs_due_open(void)
{
    orl_lock_init(&dues.lock, ORL_RANK_DUE, "deadlines");
    orl_wheel_init(&dues.wheel, orl_clock_ns());
    atomic_store(&dues.next, ORL_NEVER);
}

void core_reqs_due_close(void)
{
    orl_lock_fini(&dues.lock);
}

/* Lock held. */
static void set_next(void)
{
    atomic_store_explicit(&dues.next, orl_wheel_next(&dues.wheel), memory_order_relaxed);
}

void core_req_due(struct oriel_request *req)
{
    if (req->deadline == ORL_NEVER) {
        return;
    }
    orl_lock(&dues.lock);
    orl_wheel_add(&dues.wheel, &req->due, req->deadline);
    set_next();
    orl_unlock(&dues.lock);
}

void core_req_undue(struct oriel_request *req)
{
    if (req->deadline == ORL_NEVER) {
        return;
    }
    orl_lock(&dues.lock);
    orl_wheel_del(&dues.wheel, &req->due);
    set_next();
    orl_unlock(&dues.lock);
}

uint64_t core_reqs_look(uint64_t now)
{
    struct orl_timer *timer;
    bool found = false;

    if (now < atomic_load_explicit(&dues.next, memory_order_relaxed)) {
        return atomic_load_explicit(&dues.next, memory_order_relaxed);
    }
    orl_lock(&dues.lock);
    while ((timer = orl_wheel_pop(&dues.wheel, now)) != NULL) {
        core_req_look(container_of(timer, struct oriel_request, due));
        found = true;
    }
    set_next();
    orl_unlock(&dues.lock);
    if (found) {
        core_wake();
    }
    return atomic_load_explicit(&dues.next, memory_order_relaxed);
}
