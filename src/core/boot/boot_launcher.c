/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launchers and their promises; see boot_launcher.h. Variables of an outer launcher are inherited
 * by the jobs that are started inside it, so a promise is held against a launcher only where it is
 * known to be the innermost: by the form of PMIx's name of the job, which each launcher makes
 * itself, or by the process number that it noted.
 */
#include "core/boot/boot_launcher.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/status.h"

struct launcher {
    const char *variable; /* holds the number of ranks */
    const char *mark;     /* is set as well; NULL: nothing else is needed */
    const char *name;
    const char *remedy;
};

static const char oriel_run_size[] = "ORIEL_RUN_SIZE";

/* Those that start ranks without PMIx, or whose PMIx got lost. The innermost of two is usually the
 * one that comes first here: mpirun and hydra start their own agents by srun. */
static const struct launcher launchers[] = {
    { "OMPI_COMM_WORLD_SIZE", NULL, "Open MPI's mpirun",
      "something between mpirun and this program has removed PMIX_NAMESPACE and its kin from the "
      "environment (env -i, sudo, a container): pass them on" },
    { "PMI_SIZE", "PALS_APID", "PALS", "start the job with mpiexec --pmi=pmix" },
    { "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "srun, with PMI-1 or PMI-2 (a PMI-1 launcher),",
      "start the job with srun --mpi=pmix" },
    { "PMI_SIZE", NULL, "a PMI-1 launcher (MPICH's mpiexec, hydra)",
      "start the job with oriel-run, Open MPI's mpirun or srun --mpi=pmix" },
    { "MPI_LOCALNRANKS", NULL, "MPICH's mpiexec (hydra)",
      "start the job with oriel-run, Open MPI's mpirun or srun --mpi=pmix" },
    { "MV2_COMM_WORLD_SIZE", NULL, "MVAPICH's mpirun_rsh",
      "start the job with oriel-run, Open MPI's mpirun or srun --mpi=pmix" },
    { "PALS_SIZE", NULL, "PALS", "start the job with mpiexec --pmi=pmix" },
    { "SLURM_STEP_NUM_TASKS", NULL, "srun", "start the job with srun --mpi=pmix" },
};

/* The number that a variable holds; `otherwise` where it is unset or holds none. */
static long number_in(const char *variable, long otherwise)
{
    const char *text = orl_conf_launcher_variable(variable);
    char *end;
    if (text == NULL || *text == '\0') {
        return otherwise;
    }
    long n = strtol(text, &end, 10);
    return *end == '\0' ? n : otherwise;
}

int core_launcher_allows_one(void)
{
    long n = number_in(oriel_run_size, 0);
    if (n > 0) {
        return orl_fail(ORL_ERR_BOOT,
                        "oriel-run started %ld rank%s, but PMIX_NAMESPACE is not set: something "
                        "between oriel-run and this program has removed it from the environment "
                        "(env -i, sudo, a container); pass it on, or set ORIEL_BOOT=single to run "
                        "as a job of one",
                        n, n == 1 ? "" : "s");
    }
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        const struct launcher *l = &launchers[i];
        n = number_in(l->variable, 1);
        if (n > 1 && (l->mark == NULL || orl_conf_launcher_variable(l->mark) != NULL)) {
            return orl_fail(ORL_ERR_BOOT,
                            "%s started %ld ranks (%s) but offers no PMIx here: %s, or set "
                            "ORIEL_BOOT=single to run each as a job of its own",
                            l->name, n, l->variable, l->remedy);
        }
    }
    return 0;
}

static int fail_mixed(const char *name, const char *variable, long n, int size)
{
    return orl_fail(ORL_ERR_BOOT,
                    "%s started %ld ranks (%s), but PMIx tells of %d: the PMIX_ variables here are "
                    "of another job, around this one; unset them (env -u PMIX_NAMESPACE -u "
                    "PMIX_RANK) where the inner job is started, or set ORIEL_BOOT=pmix if PMIx is "
                    "right",
                    name, n, variable, size);
}

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* srun noted the number of the process that it started, and it is this one. */
static bool is_task_of_srun(void)
{
    return number_in("SLURM_TASK_PID", -1) == (long)getpid();
}

int core_launcher_agrees(int size)
{
    static const char step_size[] = "SLURM_STEP_NUM_TASKS";
    static const char pmi_size[] = "PMI_SIZE";
    static const char mpirun_size[] = "OMPI_COMM_WORLD_SIZE";
    const char *nspace = orl_conf_launcher_variable("PMIX_NAMESPACE");
    bool is_known = false;
    long n = size;
    if (nspace != NULL && begins_with(nspace, "oriel-run")) {
        n = number_in(oriel_run_size, size);
        return n == size ? 0 : fail_mixed("oriel-run", oriel_run_size, n, size);
    }
    if (nspace != NULL && begins_with(nspace, "slurm.")) {
        is_known = true;
        n = number_in(step_size, size);
    } else if (is_task_of_srun()) {
        n = number_in(step_size, size);
    }
    if (n != size) {
        return fail_mixed("srun", step_size, n, size);
    }
    n = is_known ? size : number_in(mpirun_size, size);
    if (n != size) {
        return fail_mixed("mpirun", mpirun_size, n, size);
    }
    /* Hydra leaves PMIX_ variables of a job around it in place. */
    n = number_in(pmi_size, size);
    return n == size || n <= 1 ? 0 : fail_mixed("a PMI-1 launcher (hydra)", pmi_size, n, size);
}
