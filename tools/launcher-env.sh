# SPDX-License-Identifier: BSD-3-Clause
#
# Sourced: what mpirun must be told on a laptop or in a container. It refuses root, more ranks than
# cores, and a machine without ssh, though one host needs none of that.

OMPI_ALLOW_RUN_AS_ROOT=1
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
OMPI_MCA_rmaps_base_oversubscribe=1
PRTE_ALLOW_RUN_AS_ROOT=1
PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe
export PRTE_ALLOW_RUN_AS_ROOT PRTE_ALLOW_RUN_AS_ROOT_CONFIRM PRTE_MCA_rmaps_default_mapping_policy
if ! command -v ssh >/dev/null; then
    OMPI_MCA_plm_rsh_agent=false
    PRTE_MCA_plm_ssh_agent=false
    export OMPI_MCA_plm_rsh_agent PRTE_MCA_plm_ssh_agent
fi
