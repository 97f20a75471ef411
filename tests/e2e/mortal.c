/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job in which one rank goes at a chosen moment and the others say what they hear of it:
 *
 *   mortal STAGE HOW VICTIM FILE
 *
 * STAGE is where the victim goes:
 *   before    before oriel_init
 *   fence     in oriel_init, entering the exchange of addresses
 *   get       in oriel_init, after the exchange, before it has joined the node's memory
 *   idle      while the others are busy with work of their own; they then enter a barrier
 *   barrier   while the others wait in a barrier
 *   storm     at any point of a stream of puts, gets and atomics of all to all
 *   leave     before oriel_finalize, where the others wait for it
 *   finalize  at the end of oriel_finalize, parting from the launcher
 *   never     nowhere: everybody waits in a barrier that rank VICTIM does not enter
 *   skew      nowhere: rank VICTIM enters oriel_finalize 5 s before the others
 *
 * HOW is "kill" (SIGKILL), "abort" (oriel_abort(7)) or, with the last two, "none". FILE gets the
 * time of it, in seconds since the machine's start; it is also what the job's processes can be
 * found by. Survivors print "rank R heard ERROR at TIME: detail", or "rank R done at TIME" when all
 * their calls went well, and exit with 0 either way, so that no launcher has a reason to stop the
 * others.
 *
 * The moments in oriel_init and oriel_finalize are met exactly, because the PMIx calls that the
 * library makes come to the functions below first.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "exchange.h"

static const char *stage, *how, *file;
static int victim;
static bool is_victim;
static bool has_fenced;
static pthread_t main_thread;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void rest(double seconds)
{
    struct timespec t = { .tv_sec = (time_t)seconds };
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    nanosleep(&t, NULL);
}

static void go(void)
{
    int fd = open(file, O_WRONLY | O_CREAT, 0600);
    dprintf(fd, "%.2f\n", now());
    close(fd);
    if (strcmp(how, "abort") == 0) {
        oriel_abort(7, "as asked");
    }
    if (strcmp(how, "kill") == 0) {
        kill(getpid(), SIGKILL);
    }
}

static bool goes_at(const char *here)
{
    return is_victim && strcmp(stage, here) == 0;
}

/* ---------------------------------------------------------------- PMIx calls of the library */

/* The function of that name behind ours. */
static void real(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        fprintf(stderr, "mortal: no %s behind ours\n", name);
        _exit(1);
    }
    memcpy(function, &found, sizeof(found));
}

pmix_status_t PMIx_Init(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo)
{
    pmix_status_t (*init)(pmix_proc_t *, pmix_info_t[], size_t);
    real("PMIx_Init", &init);
    pmix_status_t status = init(proc, info, ninfo);
    is_victim = status == PMIX_SUCCESS && (int)proc->rank == victim;
    return status;
}

pmix_status_t PMIx_Fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
                         size_t ninfo)
{
    pmix_status_t (*fence)(const pmix_proc_t[], size_t, const pmix_info_t[], size_t);
    if (goes_at("fence")) {
        go();
    }
    real("PMIx_Fence", &fence);
    has_fenced = true;
    return fence(procs, nprocs, info, ninfo);
}

pmix_status_t PMIx_Fence_nb(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
                            size_t ninfo, pmix_op_cbfunc_t done, void *argument)
{
    pmix_status_t (*fence)(const pmix_proc_t[], size_t, const pmix_info_t[], size_t,
                           pmix_op_cbfunc_t, void *);
    if (goes_at("fence")) {
        go();
    }
    real("PMIx_Fence_nb", &fence);
    has_fenced = true;
    return fence(procs, nprocs, info, ninfo, done, argument);
}

pmix_status_t PMIx_Get(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
                       size_t ninfo, pmix_value_t **value)
{
    pmix_status_t (*get)(const pmix_proc_t *, const char[], const pmix_info_t[], size_t,
                         pmix_value_t **);
    if (goes_at("get") && has_fenced && pthread_equal(pthread_self(), main_thread)) {
        go();
    }
    real("PMIx_Get", &get);
    return get(proc, key, info, ninfo, value);
}

pmix_status_t PMIx_Finalize(const pmix_info_t info[], size_t ninfo)
{
    pmix_status_t (*finalize)(const pmix_info_t[], size_t);
    if (goes_at("finalize")) {
        go();
    }
    real("PMIx_Finalize", &finalize);
    return finalize(info, ninfo);
}

/* ---------------------------------------------------------------- stages */

static int rank_before_init;

/* What a launcher that speaks PMIx leaves in the environment. */
static void note_rank(void)
{
    const char *text = getenv("PMIX_RANK");
    rank_before_init = text != NULL ? atoi(text) : 0;
}

static int heard(int status)
{
    printf("rank %d heard %s at %.2f: %s\n", rank_before_init, oriel_error_name(status), now(),
           oriel_error_detail());
    fflush(stdout);
    return status;
}

static void *go_soon(void *seconds)
{
    rest(*(double *)seconds);
    go();
    return NULL;
}

/* Everything to everybody until somebody is gone. */
static int storm(void)
{
    static double delay = 0.3;
    static unsigned char data[4096];
    struct oriel_mem *mem = NULL;
    int status = ORIEL_OK;
    pthread_t thread;
    check(oriel_mem_alloc(sizeof(data) + 64, NULL, &mem), "alloc");
    struct oriel_remote **remotes = exchange(mem);
    check(oriel_barrier(ORIEL_WORLD), "barrier");
    if (is_victim) {
        pthread_create(&thread, NULL, go_soon, &delay);
    }
    for (int to = 0; status == ORIEL_OK; to = (to + 1) % oriel_size()) {
        status = oriel_put(remotes[to], 64, data, sizeof(data));
        if (status == ORIEL_OK) {
            status = oriel_atomic64(remotes[to], 0, ORIEL_ATOMIC_ADD, 1, NULL);
        }
        if (status == ORIEL_OK) {
            status = oriel_get(remotes[to], 64, data, sizeof(data));
        }
        if (status == ORIEL_OK) {
            status = oriel_flush(to);
        }
    }
    free(remotes);
    return status;
}

/* Between init and finalize: the first call that fails ends it. */
static int work(void)
{
    int status = oriel_barrier(ORIEL_WORLD);
    if (status != ORIEL_OK) {
        return status; /* a launcher may end a fence without a rank that has died in it */
    }
    if (strcmp(stage, "storm") == 0) {
        return storm();
    }
    if (goes_at("idle") || goes_at("barrier") || goes_at("leave") || goes_at("never")) {
        rest(0.3);
        go();
        rest(600);
    }
    if (strcmp(stage, "skew") == 0) {
        rest(is_victim ? 0 : 5);
        return ORIEL_OK;
    }
    if (strcmp(stage, "idle") == 0) {
        /* Whoever aborts must not depend on a call of the others. */
        rest(strcmp(how, "abort") == 0 ? 600 : 1);
    }
    if (strcmp(stage, "leave") == 0 || strcmp(stage, "finalize") == 0) {
        return ORIEL_OK;
    }
    return oriel_barrier(ORIEL_WORLD);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: mortal STAGE HOW VICTIM FILE\n");
        return 2;
    }
    stage = argv[1];
    how = argv[2];
    victim = atoi(argv[3]);
    file = argv[4];
    main_thread = pthread_self();
    note_rank();
    if (strcmp(stage, "before") == 0 && rank_before_init == victim) {
        go();
    }
    int status = oriel_init(NULL);
    if (status != ORIEL_OK) {
        return heard(status) == ORIEL_OK;
    }
    is_victim = oriel_rank() == victim;
    status = work();
    if (status != ORIEL_OK) {
        (void)heard(status);
    }
    int last = oriel_finalize();
    if (status == ORIEL_OK && last != ORIEL_OK) {
        status = heard(last);
    }
    if (status == ORIEL_OK) {
        printf("rank %d done at %.2f\n", rank_before_init, now());
    }
    return 0;
}
