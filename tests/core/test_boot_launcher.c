/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What launchers promise: a rank that would start alone, or in a job of another size, although a
 * launcher started several says which launcher, how many, and what to do.
 */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/status.h"
#include "core/boot/boot.h"
#include "core/boot/boot_launcher.h"

#define VARIABLES 6

struct row {
    const char *what;
    const char *set[VARIABLES]; /* NAME=VALUE; %d is this process's number */
    int size;                   /* that PMIx tells of; 0: there is no PMIx */
    const char *words[3];       /* of the error; none: it is fine */
};

/* No variable of the tester's own launcher reaches a test. */
static void prepare(void)
{
    static char *none[] = { NULL };
    environ = none;
}

TestSuite(boot_launcher, .init = prepare);

static void set_all(const struct row *row)
{
    clearenv();
    for (int i = 0; i < VARIABLES && row->set[i] != NULL; i++) {
        char text[128];
        const char *mark = strstr(row->set[i], "%d");
        if (mark != NULL) {
            snprintf(text, sizeof(text), "%.*s%d", (int)(mark - row->set[i]), row->set[i],
                     (int)getpid());
        } else {
            snprintf(text, sizeof(text), "%s", row->set[i]);
        }
        char *value = strchr(text, '=');
        *value++ = '\0';
        setenv(text, value, 1);
    }
}

static void check(const struct row *row)
{
    set_all(row);
    orl_last_error_clear();
    int st = row->size == 0 ? core_launcher_allows_one() : core_launcher_agrees(row->size);
    cr_assert_eq(st, row->words[0] != NULL ? ORL_ERR_BOOT : 0, "%s: %s", row->what,
                 orl_last_error());
    for (int i = 0; i < 3 && row->words[i] != NULL; i++) {
        cr_assert_not_null(strstr(orl_last_error(), row->words[i]), "%s: no '%s' in '%s'",
                           row->what, row->words[i], orl_last_error());
    }
}

static void check_all(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        check(&rows[i]);
    }
}

/* covers: BOOT-03 */
Test(boot_launcher, several_ranks_without_pmix)
{
    static const struct row rows[] = {
        { "nothing", { NULL }, 0, { NULL } },
        { "srun without --mpi=pmix",
          { "SLURM_JOB_ID=7", "SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID=2" },
          0,
          { "srun started 4 ranks", "srun --mpi=pmix", "ORIEL_BOOT=single" } },
        { "srun --mpi=pmi2",
          { "SLURM_STEP_NUM_TASKS=4", "PMI_SIZE=4", "PMI_RANK=1" },
          0,
          { "srun", "started 4 ranks", "srun --mpi=pmix" } },
        { "hydra",
          { "PMI_SIZE=3", "PMI_RANK=0", "MPI_LOCALNRANKS=3" },
          0,
          { "hydra", "started 3 ranks", "oriel-run" } },
        { "hydra -pmi-port",
          { "PMI_PORT=h:1", "PMI_ID=0", "MPI_LOCALNRANKS=3" },
          0,
          { "hydra", "started 3 ranks", "oriel-run" } },
        { "PALS",
          { "PALS_APID=x", "PMI_SIZE=8", "PMI_RANK=1" },
          0,
          { "PALS started 8 ranks", "mpiexec --pmi=pmix" } },
        { "Open MPI, its PMIx variables lost",
          { "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=0" },
          0,
          { "Open MPI's mpirun started 4 ranks", "removed PMIX_NAMESPACE" } },
        { "Open MPI's agents are started by srun",
          { "OMPI_COMM_WORLD_SIZE=4", "SLURM_STEP_NUM_TASKS=2" },
          0,
          { "Open MPI's mpirun started 4 ranks" } },
        { "MVAPICH", { "MV2_COMM_WORLD_SIZE=2" }, 0, { "MVAPICH", "started 2 ranks" } },
        { "oriel-run, its PMIx variables lost",
          { "ORIEL_RUN_SIZE=2" },
          0,
          { "oriel-run started 2 ranks", "PMIX_NAMESPACE is not set", "ORIEL_BOOT=single" } },
        { "oriel-run -n 1 likewise",
          { "ORIEL_RUN_SIZE=1" },
          0,
          { "oriel-run started 1 rank,", "PMIX_NAMESPACE is not set" } },
    };
    check_all(rows, sizeof(rows) / sizeof(rows[0]));
}

Test(boot_launcher, one_rank_alone_is_fine)
{
    static const struct row rows[] = {
        { "inside salloc",
          { "SLURM_JOB_ID=7", "SLURM_NTASKS=4", "SLURM_NNODES=2", "SLURM_JOB_NODELIST=h[1-2]" },
          0,
          { NULL } },
        { "srun -n1 --pty bash",
          { "SLURM_JOB_ID=7", "SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=0", "SLURM_STEP_ID=0" },
          0,
          { NULL } },
        { "hydra -n 1", { "PMI_SIZE=1", "PMI_RANK=0", "MPI_LOCALNRANKS=1" }, 0, { NULL } },
        { "mpirun -n 1", { "OMPI_COMM_WORLD_SIZE=1" }, 0, { NULL } },
        { "no number", { "PMI_SIZE=many", "SLURM_STEP_NUM_TASKS=" }, 0, { NULL } },
    };
    check_all(rows, sizeof(rows) / sizeof(rows[0]));
}

Test(boot_launcher, sizes_that_agree)
{
    static const struct row rows[] = {
        { "mpirun", { "PMIX_NAMESPACE=12345", "OMPI_COMM_WORLD_SIZE=4" }, 4, { NULL } },
        { "a launcher that is not known", { "PMIX_NAMESPACE=prterun-h-1@1" }, 4, { NULL } },
        { "srun", { "PMIX_NAMESPACE=slurm.pmix.7.0", "SLURM_STEP_NUM_TASKS=4" }, 4, { NULL } },
        { "oriel-run", { "PMIX_NAMESPACE=oriel-run-AbCdEf", "ORIEL_RUN_SIZE=3" }, 3, { NULL } },
        { "oriel-run in srun in mpirun",
          { "PMIX_NAMESPACE=oriel-run-AbCdEf", "ORIEL_RUN_SIZE=3", "SLURM_STEP_NUM_TASKS=2",
            "OMPI_COMM_WORLD_SIZE=2", "SLURM_TASK_PID=1" },
          3,
          { NULL } },
        { "mpirun whose agents srun has started",
          { "PMIX_NAMESPACE=12345", "OMPI_COMM_WORLD_SIZE=4", "SLURM_STEP_NUM_TASKS=2",
            "SLURM_TASK_PID=1" },
          4,
          { NULL } },
        { "mpirun in oriel-run",
          { "PMIX_NAMESPACE=12345", "OMPI_COMM_WORLD_SIZE=4", "ORIEL_RUN_SIZE=1" },
          4,
          { NULL } },
        { "srun in mpirun",
          { "PMIX_NAMESPACE=slurm.pmix.7.1", "OMPI_COMM_WORLD_SIZE=2", "SLURM_STEP_NUM_TASKS=4" },
          4,
          { NULL } },
    };
    check_all(rows, sizeof(rows) / sizeof(rows[0]));
}

/* An inner launcher without PMIx leaves the variables of the job around it in place. */
/* covers: BOOT-03 */
Test(boot_launcher, sizes_that_differ)
{
    static const struct row rows[] = {
        { "mpirun",
          { "PMIX_NAMESPACE=12345", "OMPI_COMM_WORLD_SIZE=4" },
          1,
          { "mpirun started 4 ranks", "PMIx tells of 1", "ORIEL_BOOT=pmix" } },
        { "srun without PMIx in a step with it",
          { "PMIX_NAMESPACE=slurm.pmix.7.0", "SLURM_STEP_NUM_TASKS=4" },
          1,
          { "srun started 4 ranks", "PMIx tells of 1", "PMIX_NAMESPACE" } },
        { "srun without PMIx in mpirun",
          { "PMIX_NAMESPACE=12345", "OMPI_COMM_WORLD_SIZE=1", "SLURM_STEP_NUM_TASKS=4",
            "SLURM_TASK_PID=%d" },
          1,
          { "srun started 4 ranks", "PMIx tells of 1" } },
        { "hydra in mpirun",
          { "PMIX_NAMESPACE=12345", "OMPI_COMM_WORLD_SIZE=1", "PMI_SIZE=4", "PMI_RANK=2" },
          1,
          { "hydra", "started 4 ranks", "PMIx tells of 1" } },
        { "oriel-run",
          { "PMIX_NAMESPACE=oriel-run-AbCdEf", "ORIEL_RUN_SIZE=3" },
          2,
          { "oriel-run started 3 ranks", "PMIx tells of 2" } },
    };
    check_all(rows, sizeof(rows) / sizeof(rows[0]));
}

/* The way through the choice of a bootstrap, and past it. */
Test(boot_launcher, the_choice_asks_and_can_be_forced)
{
    const struct core_boot *boot = NULL;
    struct core_boot_id id;
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    cr_assert_eq(orl_conf_load(), 0);
    cr_assert_eq(core_boot_open(&boot, &id), ORL_ERR_BOOT);
    cr_assert_not_null(strstr(orl_last_error(), "srun started 4 ranks"));
    orl_conf_reset_for_test();
    setenv("ORIEL_BOOT", "single", 1);
    cr_assert_eq(orl_conf_load(), 0);
    cr_assert_eq(core_boot_open(&boot, &id), 0);
    cr_assert(id.rank == 0 && id.size == 1 && id.nlocal == 1);
    boot->close();
}
