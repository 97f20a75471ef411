/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The PMIx server: a process of its own, because libpmix's thread can hang or crash when two ranks
 * are lost in one fence (4.2.2 to 6.1.0: the fence's record is used after it is freed). It serves
 * the ranks, notes on the board how far each has come, writes a byte to the supervisor when
 * something changed, and tells the ranks of a death when the supervisor orders it. It ends when
 * its pipe of orders does.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <pmix_server.h>

#include <net/if.h>
#include <pmix.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define INFO_MAX 16

struct order {
    int rank;
    int code; /* of the PMIx event */
    int exit_code;
};

/* What PMIx's thread sees; set before it exists. */
static struct run_board *board;
static int wake_pipe = -1;
/* The job with a rank; the library reads a whole pmix_nspace_t where it is given a name. */
static pmix_proc_t client;

/* What the next call of the library is told; only one thread makes calls, and they wait. */
static struct {
    pmix_info_t items[INFO_MAX];
    size_t count;
} list;

static void wake(void)
{
    /* A full pipe wakes as well. */
    (void)!write(wake_pipe, "", 1);
}

static void note(const pmix_proc_t *proc, enum run_joined joined)
{
    atomic_store(&board->notes[proc->rank].joined, (int)joined);
    wake();
}

static pmix_status_t on_connected(const pmix_proc_t *proc, void *object, pmix_info_t info[],
                                  size_t ninfo, pmix_op_cbfunc_t done, void *argument)
{
    (void)object;
    (void)info;
    (void)ninfo;
    (void)done;
    (void)argument;
    note(proc, RUN_JOINED);
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done,
                                  void *argument)
{
    (void)object;
    (void)done;
    (void)argument;
    note(proc, RUN_LEFT);
    return PMIX_OPERATION_SUCCEEDED;
}

/* The caller is never answered: it waits for its death. */
static pmix_status_t on_abort(const pmix_proc_t *proc, void *object, int status, const char text[],
                              pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t done,
                              void *argument)
{
    (void)object;
    (void)procs;
    (void)nprocs;
    (void)done;
    (void)argument;
    if (atomic_load(&board->abort_rank) < 0) {
        board->abort_status = status;
        snprintf(board->abort_text, sizeof(board->abort_text), "%s", text == NULL ? "" : text);
        atomic_store(&board->abort_rank, (int)proc->rank);
    }
    wake();
    return PMIX_SUCCESS;
}

/* The library completes fences of one host by itself while all ranks live; after a death it asks.
 * On one host nothing is to be added to its own verdict and data. */
static pmix_status_t on_fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
                              size_t ninfo, char *data, size_t ndata, pmix_modex_cbfunc_t done,
                              void *argument)
{
    pmix_status_t status = PMIX_SUCCESS;

    (void)procs;
    (void)nprocs;
    for (size_t i = 0; i < ninfo; i++) {
        if (PMIX_CHECK_KEY(&info[i], PMIX_LOCAL_COLLECTIVE_STATUS)) {
            status = info[i].value.data.status;
        }
    }
    done(status, data, ndata, argument, free, data);
    return PMIX_SUCCESS;
}

static pmix_status_t on_get(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
                            pmix_modex_cbfunc_t done, void *argument)
{
    (void)proc;
    (void)info;
    (void)ninfo;
    (void)done;
    (void)argument;
    return PMIX_ERR_NOT_FOUND;
}

/* The slot's type says so. NOLINTNEXTLINE(readability-non-const-parameter) */
static pmix_status_t on_register(pmix_status_t *codes, size_t ncodes, const pmix_info_t info[],
                                 size_t ninfo, pmix_op_cbfunc_t done, void *argument)
{
    (void)codes;
    (void)ncodes;
    (void)info;
    (void)ninfo;
    (void)done;
    (void)argument;
    return PMIX_OPERATION_SUCCEEDED;
}

/* The slot's type says so. NOLINTNEXTLINE(readability-non-const-parameter) */
static pmix_status_t on_deregister(pmix_status_t *codes, size_t ncodes, pmix_op_cbfunc_t done,
                                   void *argument)
{
    (void)codes;
    (void)ncodes;
    (void)done;
    (void)argument;
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_notify(pmix_status_t code, const pmix_proc_t *source,
                               pmix_data_range_t range, pmix_info_t info[], size_t ninfo,
                               pmix_op_cbfunc_t done, void *argument)
{
    (void)code;
    (void)source;
    (void)range;
    (void)info;
    (void)ninfo;
    (void)done;
    (void)argument;
    return PMIX_OPERATION_SUCCEEDED;
}

/* Must exist: without it the library refuses clients' requests to remove files at their end, which
 * it serves by itself. */
static pmix_status_t on_control(const pmix_proc_t *proc, const pmix_proc_t targets[],
                                size_t ntargets, const pmix_info_t info[], size_t ninfo,
                                pmix_info_cbfunc_t done, void *argument)
{
    (void)proc;
    (void)targets;
    (void)ntargets;
    (void)info;
    (void)ninfo;
    (void)done;
    (void)argument;
    return PMIX_ERR_NOT_SUPPORTED;
}

static pmix_server_module_t module = {
    .client_finalized = on_finalized,
    .abort = on_abort,
    .fence_nb = on_fence,
    .direct_modex = on_get,
    .register_events = on_register,
    .deregister_events = on_deregister,
    .notify_event = on_notify,
    .job_control = on_control,
    .client_connected2 = on_connected,
};

static void add(const char *key, const void *value, pmix_data_type_t type)
{
    PMIX_INFO_LOAD(&list.items[list.count], key, value, type);
    list.count++;
}

/* The library listens on the loopback interface, and says no more than "INIT" when it cannot. */
static bool is_loopback_down(void)
{
    struct ifreq request = { .ifr_name = "lo" };
    int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_down =
        any < 0 || ioctl(any, SIOCGIFFLAGS, &request) != 0 || (request.ifr_flags & IFF_UP) == 0;

    if (any >= 0) {
        close(any);
    }
    return is_down;
}

/* Ends the server; the supervisor prints the text. */
static void give_up(const char *step, const char *why)
{
    snprintf(board->error, sizeof(board->error), "%s: %s", step, why);
    _exit(1);
}

static void check(const char *step, pmix_status_t status)
{
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
        give_up(step, PMIx_Error_string(status));
    }
}

/* "0,1,2": all ranks, on this one host. Owned by the caller. */
static char *list_ranks(int ranks)
{
    size_t used = 0;
    char *text = malloc((size_t)ranks * 12 + 1);

    for (int rank = 0; rank < ranks && text != NULL; rank++) {
        used += (size_t)sprintf(text + used, rank == 0 ? "%d" : ",%d", rank);
    }
    return text;
}

/* It needs no picture of the machine, and to take one costs it a third of its start. A rank that
 * asks the library for one is not given the server's. */
static void open_server(const struct run_job *job, const char *directory)
{
    char name[RUN_NAME_BYTES + 8];
    pmix_rank_t rank = 0;

    (void)setenv("HWLOC_SYNTHETIC", "pu:1", 1);
    (void)setenv("HWLOC_PLUGINS_PATH", RUN_NO_PLUGINS, 1);
    list.count = 0;
    snprintf(name, sizeof(name), "%s-server", job->name);
    add(PMIX_SERVER_TMPDIR, directory, PMIX_STRING);
    add(PMIX_SYSTEM_TMPDIR, directory, PMIX_STRING);
    add(PMIX_SERVER_NSPACE, name, PMIX_STRING);
    add(PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK);
    add(PMIX_HOSTNAME, job->host, PMIX_STRING);
    pmix_status_t status = PMIx_server_init(&module, list.items, list.count);
    if (status != PMIX_SUCCESS && is_loopback_down()) {
        give_up("PMIx_server_init", "the loopback interface is down (ip link set lo up)");
    }
    check("PMIx_server_init", status);
}

/* With size and maps the library derives what else there is to know of a job on one host. The keys
 * are flat: the same in an array are not found after a second PMIx_Init. */
static void describe_job(const struct run_job *job, const char *directory)
{
    uint32_t size = (uint32_t)job->opts.ranks;
    uint32_t apps = 1;
    bool yes = true;
    bool no = false;
    char *nodes = NULL;
    char *ranks = NULL;
    char *text = list_ranks(job->opts.ranks);

    list.count = 0;
    if (text == NULL) {
        give_up("describing the job", "no memory");
    }
    check("describing the host", PMIx_generate_regex(job->host, &nodes));
    check("describing the ranks", PMIx_generate_ppn(text, &ranks));
    add(PMIX_JOB_SIZE, &size, PMIX_UINT32);
    add(PMIX_NODE_MAP, nodes, PMIX_REGEX);
    add(PMIX_PROC_MAP, ranks, PMIX_REGEX);
    add(PMIX_UNIV_SIZE, &size, PMIX_UINT32);
    add(PMIX_NODE_SIZE, &size, PMIX_UINT32);
    add(PMIX_JOB_NUM_APPS, &apps, PMIX_UINT32);
    add(PMIX_JOBID, client.nspace, PMIX_STRING);
    add(PMIX_SPAWNED, &no, PMIX_BOOL);
    add(PMIX_TMPDIR, directory, PMIX_STRING);
    add(PMIX_NSDIR, directory, PMIX_STRING);
    add(PMIX_TDIR_RMCLEAN, &yes, PMIX_BOOL);
    add(PMIX_RM_NAME, "oriel-run", PMIX_STRING);
    check("registering the job", PMIx_server_register_nspace(client.nspace, job->opts.ranks,
                                                             list.items, list.count, NULL, NULL));
    free(text);
}

/* Put the environment of the ranks on the board. */
static void hand_out(void)
{
    char **env = NULL;
    size_t used = 0;

    check("making the environment", PMIx_server_setup_fork(&client, &env));
    for (char **entry = env; entry != NULL && *entry != NULL; entry++) {
        size_t bytes = strlen(*entry) + 1;
        if (used + bytes > sizeof(board->env)) {
            give_up("making the environment", "it is too long");
        }
        memcpy(board->env + used, *entry, bytes);
        used += bytes;
    }
    board->env_bytes = used;
    atomic_store(&board->is_ready, true);
    wake();
}

static void name_rank(const struct run_job *job, int rank, pmix_proc_t *proc)
{
    memset(proc, 0, sizeof(*proc));
    snprintf(proc->nspace, sizeof(proc->nspace), "%s", job->name);
    proc->rank = (pmix_rank_t)rank;
}

static void prepare(const struct run_job *job)
{
    char *files = NULL;
    char *clients = NULL;

    /* Open MPI empties the directory it is given for the job: not the server's own. */
    if (asprintf(&files, "%s/server", job->directory) < 0 ||
        asprintf(&clients, "%s/job", job->directory) < 0) {
        give_up("PMIx_server_init", "no memory");
    }
    if (mkdir(files, S_IRWXU) != 0 || mkdir(clients, S_IRWXU) != 0) {
        give_up("making directories", strerror(errno));
    }
    open_server(job, files);
    name_rank(job, 0, &client);
    describe_job(job, clients);
    for (int rank = 0; rank < job->opts.ranks; rank++) {
        client.rank = (pmix_rank_t)rank;
        check("registering a rank",
              PMIx_server_register_client(&client, geteuid(), getegid(), NULL, NULL, NULL));
    }
    client.rank = 0;
    hand_out();
}

static void tell(const struct run_job *job, const struct order *order)
{
    pmix_proc_t dead;

    list.count = 0;
    name_rank(job, order->rank, &dead);
    add(PMIX_EVENT_AFFECTED_PROC, &dead, PMIX_PROC);
    add(PMIX_EXIT_CODE, &order->exit_code, PMIX_INT);
    (void)PMIx_Notify_event(order->code, &dead, PMIX_RANGE_LOCAL, list.items, list.count, NULL,
                            NULL);
}

static void serve(const struct run_job *job, int orders)
{
    struct order order;
    ssize_t got;

    prepare(job);
    while ((got = read(orders, &order, sizeof(order))) != 0) {
        if (got == (ssize_t)sizeof(order)) {
            tell(job, &order);
        } else if (got > 0 || errno != EINTR) {
            break;
        }
    }
    PMIx_server_deregister_nspace(client.nspace, NULL, NULL);
    (void)PMIx_server_finalize();
    _exit(0);
}

/* Everything in the child that is not PMIx. What the library says is kept for -v: it grumbles at
 * every death, and the supervisor has words of its own for a server that fails. */
static void server_main(const struct run_job *job, int orders, pid_t supervisor)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor) {
        _exit(1);
    }
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(job->opts.is_verbose ? STDERR_FILENO : null, STDOUT_FILENO);
    (void)dup2(job->opts.is_verbose ? STDERR_FILENO : null, STDERR_FILENO);
    close(job->cleaner_pipe);
    close(job->signals);
    (void)!chdir("/");
    serve(job, orders);
}

bool run_server_start(struct run_job *job)
{
    int orders[2] = { -1, -1 };
    int news[2] = { -1, -1 };
    pid_t supervisor = getpid();

    if (pipe2(orders, O_CLOEXEC) != 0 || pipe2(news, O_CLOEXEC | O_NONBLOCK) != 0) {
        run_say("cannot make a pipe: %s", strerror(errno));
        return false;
    }
    board = job->board;
    job->server.pid = fork();
    if (job->server.pid == 0) {
        close(orders[1]);
        close(news[0]);
        wake_pipe = news[1];
        server_main(job, orders[0], supervisor);
    }
    close(orders[0]);
    close(news[1]);
    job->orders = orders[1];
    job->wake = news[0];
    (void)fcntl(job->orders, F_SETFL, O_NONBLOCK);
    if (job->server.pid < 0) {
        run_say("cannot start the PMIx server's process: %s", strerror(errno));
        job->server.pid = 0;
        return false;
    }
    return true;
}

void run_server_tell(const struct run_job *job, int rank, bool by_signal, int exit_code)
{
    struct order order = {
        .rank = rank,
        .code = by_signal ? PMIX_ERR_PROC_ABORTED_BY_SIG : PMIX_ERR_PROC_TERM_WO_SYNC,
        .exit_code = exit_code,
    };

    (void)!write(job->orders, &order, sizeof(order));
}
