/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Environment of the ranks: the launcher's own, without what another launcher around it has left,
 * with what the PMIx server wants its clients to have and what makes Open MPI programs feel at
 * home.
 */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Names that begin so speak of another job or of a place in it. */
static const char *const foreign[] = {
    "PMIX_",
    "PMI_",
    "HYDI_",
    "MPI_LOCALRANKID=",
    "MPI_LOCALNRANKS=",
    "OMPI_COMM_",
    "OMPI_MCA_ess",
    "OMPI_MCA_orte_",
    "OMPI_MCA_pmix=",
    "OMPI_APP_CTX_",
    "OMPI_FIRST_",
    "OMPI_NUM_APP_",
    "OMPI_UNIVERSE_",
    "OMPI_FILE_LOC",
    "OMPI_COMMAND=",
    "OMPI_ARGV=",
    "SLURM_STEP",
    "SLURM_PROCID=",
    "SLURM_LOCALID=",
    "SLURM_NODEID=",
    "SLURM_TASK_PID",
    "SLURM_PMIX",
    "SLURM_GTIDS=",
    "SLURM_SRUN_",
    "OMPI_MCA_initial_wdir=",
};

/* Parameters for the PMIx library itself, which a user may have set. */
static const char kept[] = "PMIX_MCA_";

static char *inherited_name;

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_foreign(const char *entry)
{
    if (begins(entry, kept)) {
        return false;
    }
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        if (begins(entry, foreign[i])) {
            return true;
        }
    }
    return false;
}

void run_env_clean(void)
{
    char **to = environ;

    for (char **from = environ; from != NULL && *from != NULL; from++) {
        if (begins(*from, "PMIX_NAMESPACE=")) {
            inherited_name = *from;
        }
        if (!is_foreign(*from)) {
            *to++ = *from;
        }
    }
    if (to != NULL) {
        *to = NULL;
    }
}

/* The launcher around this one finds processes to kill by that entry in /proc/PID/environ, which
 * shows the memory of the strings. The cleaner has work to do just then. */
void run_env_hide(void)
{
    if (inherited_name != NULL) {
        memset(inherited_name, '-', strlen(inherited_name));
    }
}

void run_env_common(bool is_oversubscribed)
{
    /* With the default list a rank's second PMIx_Init finds no key of single ranks (4.2.2: the
     * first module has one lock slot per rank, the second was never filled). */
    (void)setenv("PMIX_MCA_gds", "ds21,hash", 0);
    /* Segments of the server's store are zeroed as a whole, by it and in part by the ranks. With
     * 256 KiB and 1 MiB instead of 4 MiB each PMIx_Init takes a third of the time. One rank's
     * data of one commit must fit the second. */
    (void)setenv("NS_META_SEG_SIZE", "262144", 0);
    (void)setenv("NS_DATA_SEG_SIZE", "1048576", 0);
    /* Open MPI 4 takes itself for a job of one under any launcher it does not know by its
     * variables; this one makes it ask PMIx. */
    (void)setenv("JSM_JSRUN_PORT", "1", 0);
    if (is_oversubscribed) {
        (void)setenv("OMPI_MCA_mpi_oversubscribe", "1", 0);
    }
}

/* The name in entry is one that the server sets: the server's word stands. */
static bool is_set_by_server(const struct run_board *board, const char *entry)
{
    size_t length = strcspn(entry, "=") + 1;

    for (size_t at = 0; at < board->env_bytes; at += strlen(board->env + at) + 1) {
        if (strncmp(board->env + at, entry, length) == 0) {
            return true;
        }
    }
    return false;
}

char **run_env_make(const struct run_board *board, size_t *rank_slot)
{
    size_t count = 0;
    size_t used = 0;

    for (char **entry = environ; *entry != NULL; entry++) {
        count++;
    }
    for (size_t at = 0; at < board->env_bytes; at += strlen(board->env + at) + 1) {
        count++;
    }
    char **all = calloc(count + 2, sizeof(*all));
    if (all == NULL) {
        return NULL;
    }
    for (char **entry = environ; *entry != NULL; entry++) {
        if (!is_set_by_server(board, *entry)) {
            all[used++] = *entry;
        }
    }
    for (size_t at = 0; at < board->env_bytes; at += strlen(board->env + at) + 1) {
        char *copy = strdup(board->env + at);
        if (copy != NULL && !begins(copy, "PMIX_RANK=")) {
            all[used++] = copy;
        } else {
            free(copy);
        }
    }
    *rank_slot = used;
    return all;
}
