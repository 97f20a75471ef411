# SPDX-License-Identifier: BSD-3-Clause
# Whole programs under real launchers (rank scripts), and the scripts of the tree checked against
# planted faults.

e2e_scripts = \
    %D%/test_install.sh \
    %D%/test_lint.sh \
    %D%/test_rows.sh \
    %D%/test_totals.sh

e2e_rank_scripts = \
    %D%/test_mpirun.sh \
    %D%/test_perf.sh

script_tests += $(e2e_scripts)
rank_scripts += $(e2e_rank_scripts)
EXTRA_DIST   += $(e2e_scripts) $(e2e_rank_scripts)

# What test_mpirun.sh starts: a client of the shared object.
helper_programs += %D%/job
%C%_job_LDADD = liboriel.la
