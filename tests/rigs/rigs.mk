# SPDX-License-Identifier: BSD-3-Clause
# Launchers and machines made of namespaces; tests call them by their path in the sources.

EXTRA_DIST += \
    %D%/README.md \
    %D%/enclosure.sh \
    %D%/hosts \
    %D%/slurm
