/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank of the jobs that test_oriel_run.sh starts: a PMIx client without Oriel, so that what is
 * seen is the launcher's work. It does what its arguments say, one after the other; "2:exit=3" is
 * for rank 2 alone, "!2:sleep=9" for all others.
 *
 *   init fence finalize    of PMIx               say          "rank R of N"
 *   strict                 a fence, and exit with 5 when it fails
 *   exit=N kill=N abort=N  end so                out=T err=T  text to stdout, stderr (\n is a line)
 *   sleep=SECONDS          fractions allowed     cpus         the CPUs it may run on
 *   deaf                   ignore SIGTERM        count        bytes of stdin, and their sum
 *   child                  leave a process in a session of its own, print its number
 *   hear                   wait for the news of a death, at most 20 s, and print whose
 */
#include <fcntl.h>
#include <pmix.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pmix_proc_t self;
static _Atomic int dead = -1;
static _Atomic int dead_code;

static void leave(int status)
{
    fflush(stdout);
    _exit(status);
}

static void check(pmix_status_t status, const char *what)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
        leave(99);
    }
}

static void on_death(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t info[],
                     size_t ninfo, pmix_info_t results[], size_t nresults,
                     pmix_event_notification_cbfunc_fn_t done, void *argument)
{
    (void)id;
    (void)source;
    (void)results;
    (void)nresults;
    for (size_t i = 0; i < ninfo; i++) {
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC)) {
            atomic_store(&dead_code, code);
            atomic_store(&dead, (int)info[i].value.data.proc->rank);
        }
    }
    done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, argument);
}

static void init(void)
{
    pmix_status_t codes[] = { PMIX_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_PROC_TERM_WO_SYNC };

    check(PMIx_Init(&self, NULL, 0), "init");
    PMIx_Register_event_handler(codes, 2, NULL, 0, on_death, NULL, NULL);
}

static void nap(double seconds)
{
    struct timespec pause = { .tv_sec = (time_t)seconds };
    pause.tv_nsec = (long)((seconds - (double)pause.tv_sec) * 1e9);
    while (nanosleep(&pause, &pause) != 0) {
    }
}

static void say(int rank)
{
    pmix_proc_t all = self;
    pmix_value_t *value = NULL;

    all.rank = PMIX_RANK_WILDCARD;
    check(PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value), "size");
    printf("rank %d of %u\n", rank, value->data.uint32);
    PMIX_VALUE_RELEASE(value);
}

static void print(FILE *to, const char *text)
{
    for (; *text != '\0'; text++) {
        if (text[0] == '\\' && text[1] == 'n') {
            fputc('\n', to);
            text++;
        } else {
            fputc(*text, to);
        }
    }
    fflush(to);
}

static void count(int rank)
{
    unsigned long sum = 0;
    unsigned long bytes = 0;
    int c;

    while ((c = getchar()) != EOF) {
        sum = sum * 31 + (unsigned long)c;
        bytes++;
    }
    printf("rank %d read %lu bytes, sum %lx\n", rank, bytes, sum);
}

static void cpus(int rank)
{
    cpu_set_t set;

    sched_getaffinity(0, sizeof(set), &set);
    printf("rank %d:", rank);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            printf(" %d", cpu);
        }
    }
    printf("\n");
}

/* Twice forked, in a session of its own, deaf to TERM, and holding the rank's output open. */
static void child(void)
{
    pid_t first = fork();

    if (first == 0) {
        setsid();
        if (fork() == 0) {
            signal(SIGTERM, SIG_IGN);
            nap(1000);
        }
        _exit(0);
    }
    nap(0.05);
}

static void hear(int rank)
{
    for (int i = 0; i < 20000 && atomic_load(&dead) < 0; i++) {
        nap(0.001);
    }
    printf("rank %d heard of %d: %s\n", rank, atomic_load(&dead),
           PMIx_Error_string(atomic_load(&dead_code)));
}

static void end(const char *action, int number)
{
    if (strcmp(action, "exit") == 0) {
        leave(number);
    } else if (strcmp(action, "kill") == 0) {
        fflush(stdout);
        (void)signal(number, SIG_DFL); /* a sanitizer would answer some with an exit */
        kill(getpid(), number);
    } else {
        PMIx_Abort(number, "as\nasked", NULL, 0);
    }
}

static void act(int rank, const char *action, const char *value)
{
    if (strcmp(action, "init") == 0) {
        init();
    } else if (strcmp(action, "fence") == 0) {
        (void)PMIx_Fence(NULL, 0, NULL, 0);
    } else if (strcmp(action, "strict") == 0) {
        if (PMIx_Fence(NULL, 0, NULL, 0) != PMIX_SUCCESS) {
            leave(5);
        }
    } else if (strcmp(action, "finalize") == 0) {
        check(PMIx_Finalize(NULL, 0), "finalize");
    } else if (strcmp(action, "say") == 0) {
        say(rank);
    } else if (strcmp(action, "out") == 0) {
        print(stdout, value);
    } else if (strcmp(action, "err") == 0) {
        print(stderr, value);
    } else if (strcmp(action, "sleep") == 0) {
        nap(strtod(value, NULL));
    } else if (strcmp(action, "cpus") == 0) {
        cpus(rank);
    } else if (strcmp(action, "deaf") == 0) {
        signal(SIGTERM, SIG_IGN);
    } else if (strcmp(action, "count") == 0) {
        count(rank);
    } else if (strcmp(action, "child") == 0) {
        child();
    } else if (strcmp(action, "hear") == 0) {
        hear(rank);
    } else {
        end(action, atoi(value));
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *text = getenv("PMIX_RANK");
    int rank = text == NULL ? -1 : atoi(text);

    for (int i = 1; i < argc; i++) {
        char word[256];
        snprintf(word, sizeof(word), "%s", argv[i]);
        char *action = word;
        char *value = strchr(word, '=');
        char *colon = strchr(word, ':');
        if (value != NULL) {
            *value++ = '\0';
        }
        if (colon != NULL && (value == NULL || colon < value)) {
            bool is_other = word[0] == '!';
            action = colon + 1;
            if ((atoi(word + is_other) == rank) == is_other) {
                continue;
            }
        }
        act(rank, action, value == NULL ? "" : value);
    }
    leave(0);
}
