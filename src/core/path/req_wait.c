/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for requests, testing, giving them up: the public half of req.c. A request whose own
 * deadline passed before the transport let go is reported at once and stays with the user until it
 * has settled. No locks of its own.
 */
#include "core/path/req.h"

#include <stdio.h>

#include "base/clock.h"
#include "core/path/peer.h"
#include "core/path/progress.h"

static bool is_done(const struct oriel_request *req)
{
    return atomic_load_explicit(&req->done, memory_order_acquire) != 0;
}

static bool is_settled(const struct oriel_request *req)
{
    return atomic_load_explicit(&req->live, memory_order_acquire) == 0;
}

/* What every call asks of its request argument. */
static int check_request(struct oriel_request *const *request)
{
    if (!core_is_open()) {
        return core_state_error();
    }
    if (request == NULL) {
        return orl_fail(ORL_ERR_INVAL, "request is NULL; give the address of a request");
    }
    if (*request != NULL && (*request)->magic != CORE_REQ_MAGIC) {
        return orl_fail(ORL_ERR_INVAL, "request %p has been freed or was never one",
                        (const void *)*request);
    }
    return 0;
}

static void report_nothing(struct oriel_status *status)
{
    if (status != NULL) {
        *status = (struct oriel_status){ .source = -1, .tag = -1 };
    }
}

/* Of a complete request: report, and let go if it has settled. */
static int finish(struct oriel_request **request, struct oriel_status *status)
{
    struct oriel_request *req = *request;
    bool settled = is_settled(req);
    int error = core_req_report(req, status);

    if (settled) {
        *request = NULL;
        core_req_leave(req);
    }
    return error;
}

ORL_PUBLIC int oriel_wait_for(struct oriel_request **request, int64_t timeout_ns,
                              struct oriel_status *status)
{
    int error = check_request(request);

    if (error != 0) {
        return error;
    }
    if (*request == NULL) {
        report_nothing(status);
        return 0;
    }
    if (!is_done(*request)) {
        error = core_req_await(*request, orl_deadline_in(timeout_ns), "oriel_wait");
        if (error != 0) {
            return error;
        }
    }
    return finish(request, status);
}

ORL_PUBLIC int oriel_wait(struct oriel_request **request, struct oriel_status *status)
{
    return oriel_wait_for(request, ORIEL_FOREVER, status);
}

ORL_PUBLIC int oriel_test(struct oriel_request **request, int *done, struct oriel_status *status)
{
    int error = check_request(request);

    if (error != 0) {
        return error;
    }
    if (done == NULL) {
        return orl_fail(ORL_ERR_INVAL, "done is NULL; give the address of an int");
    }
    *done = 1;
    if (*request == NULL) {
        report_nothing(status);
        return 0;
    }
    if (!is_done(*request)) {
        (void)core_progress();
        core_req_look(*request);
    }
    if (!is_done(*request)) {
        *done = 0;
        return 0;
    }
    return finish(request, status);
}

/* ---------------------------------------------------------------- several */

static int check_requests(struct oriel_request *const *requests, uint64_t count)
{
    if (!core_is_open()) {
        return core_state_error();
    }
    if (requests == NULL && count != 0) {
        return orl_fail(ORL_ERR_INVAL, "requests is NULL with a count of %llu",
                        (unsigned long long)count);
    }
    for (uint64_t i = 0; i < count; i++) {
        if (requests[i] != NULL && requests[i]->magic != CORE_REQ_MAGIC) {
            return orl_fail(ORL_ERR_INVAL,
                            "request %llu of %llu (%p) has been freed or was never "
                            "one",
                            (unsigned long long)i, (unsigned long long)count,
                            (const void *)requests[i]);
        }
    }
    return 0;
}

struct any {
    struct oriel_request **requests;
    uint64_t count;
    uint64_t found; /* count: none is complete */
};

static bool any_is_done(void *arg)
{
    struct any *any = arg;

    for (uint64_t i = 0; i < any->count; i++) {
        if (any->requests[i] != NULL && is_done(any->requests[i])) {
            any->found = i;
            return true;
        }
    }
    return false;
}

static int any_alive(void *arg)
{
    struct any *any = arg;

    for (uint64_t i = 0; i < any->count; i++) {
        if (any->requests[i] != NULL) {
            core_req_check_peers(any->requests[i]);
        }
    }
    return 0;
}

/* The earliest deadline of the requests and of the call; *live: some request is there. */
static uint64_t earliest(const struct any *any, uint64_t deadline, bool *live)
{
    *live = false;
    for (uint64_t i = 0; i < any->count; i++) {
        const struct oriel_request *req = any->requests[i];

        if (req != NULL) {
            *live = true;
            deadline = req->deadline < deadline ? req->deadline : deadline;
        }
    }
    return deadline;
}

/* Completes the requests whose deadline has passed. */
static void look_at_all(const struct any *any)
{
    for (uint64_t i = 0; i < any->count; i++) {
        if (any->requests[i] != NULL) {
            core_req_look(any->requests[i]);
        }
    }
}

ORL_PUBLIC int oriel_wait_any(struct oriel_request **requests, uint64_t count, int64_t timeout_ns,
                              uint64_t *index, struct oriel_status *status)
{
    struct any any = { .requests = requests, .count = count, .found = count };
    struct core_wait wait = {
        .ready = any_is_done, .alive = any_alive, .arg = &any, .call = "oriel_wait_any", .rank = -1
    };
    bool live;
    int error = check_requests(requests, count);

    if (error != 0) {
        return error;
    }
    if (index == NULL) {
        return orl_fail(ORL_ERR_INVAL, "index is NULL; give the address of a uint64_t");
    }
    wait.deadline = earliest(&any, orl_deadline_in(timeout_ns), &live);
    if (!live) {
        *index = count;
        report_nothing(status);
        return 0;
    }
    error = core_wait(&wait);
    if (error == ORL_ERR_TIMEOUT) {
        look_at_all(&any);
        error = any_is_done(&any) ? 0 : error;
    }
    if (error != 0) {
        return error;
    }
    *index = any.found;
    return finish(&requests[any.found], status);
}

ORL_PUBLIC int oriel_wait_all(struct oriel_request **requests, uint64_t count,
                              struct oriel_status *statuses)
{
    int first = check_requests(requests, count);
    char text[ORL_ERROR_TEXT_BYTES];

    if (first != 0) {
        return first;
    }
    for (uint64_t i = 0; i < count; i++) {
        int error = oriel_wait(&requests[i], statuses == NULL ? NULL : &statuses[i]);

        if (error != 0 && first == 0) {
            first = error;
            (void)snprintf(text, sizeof(text), "%s", orl_last_error());
        }
    }
    return first == 0 ? 0 : orl_fail(first, "%s", text);
}

/* ---------------------------------------------------------------- giving up */

ORL_PUBLIC bool oriel_request_settled(struct oriel_request *request)
{
    if (request == NULL || !core_is_open() || request->magic != CORE_REQ_MAGIC) {
        return true;
    }
    if (!is_settled(request)) {
        (void)core_progress();
    }
    return is_settled(request);
}

ORL_PUBLIC int oriel_request_free(struct oriel_request **request)
{
    struct oriel_request *req;
    int error = check_request(request);

    if (error != 0 || *request == NULL) {
        return error;
    }
    req = *request;
    *request = NULL;
    core_req_leave(req);
    return 0;
}
