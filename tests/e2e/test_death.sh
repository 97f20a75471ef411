#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# One of four ranks is killed at each stage of a job under each launcher: the others name it, or the
# job ends, within five seconds (more where the machine is busy), and nothing stays.

. "$(dirname "$0")/cells.sh"
begin death

all_of()
{
    for stage in before fence get idle barrier storm leave finalize; do
        cell "$1" $stage kill
    done
}

all_launchers "$@"
finish
