# SPDX-License-Identifier: BSD-3-Clause
# The core layer, one room per subject, lower rooms first.

noinst_LTLIBRARIES += %D%/libcore.la
EXTRA_DIST += %D%/README.md
%C%_libcore_la_SOURCES = \
    %D%/abort.c \
    %D%/abort.h \
    %D%/core.h \
    %D%/facts.c \
    %D%/facts.h \
    %D%/facts_host.c \
    %D%/facts_net.c \
    %D%/init.c \
    %D%/introspect.c \
    %D%/introspect.h \
    %D%/introspect_nics.c \
    %D%/meet.c \
    %D%/meet.h

# The one file that knows how it was built.
%D%/facts.lo: AM_CPPFLAGS += -DORL_BUILD_KIND='"$(strip $(ORIEL_BUILD_KIND))"' \
    -DORL_BUILD_FLAGS='"$(strip $(CFLAGS) $(ORIEL_KIND_CFLAGS))"'

# boot: who am I, who are my peers
%C%_libcore_la_SOURCES += \
    %D%/boot/boot.c \
    %D%/boot/boot.h \
    %D%/boot/boot_end.c \
    %D%/boot/boot_launcher.c \
    %D%/boot/boot_launcher.h \
    %D%/boot/boot_local.c \
    %D%/boot/boot_pmix.c \
    %D%/boot/boot_pmix.h \
    %D%/boot/boot_pmix_call.c \
    %D%/boot/boot_pmix_end.c \
    %D%/boot/boot_pmix_key.c \
    %D%/boot/boot_side.c \
    %D%/boot/boot_side.h \
    %D%/boot/boot_watch.c \
    %D%/boot/boot_watch.h \
    %D%/boot/nets.c \
    %D%/boot/nets.h

# topo: the machine
%C%_libcore_la_SOURCES += \
    %D%/topo/topo.c \
    %D%/topo/topo.h

# path: one peer, progress, requests
%C%_libcore_la_SOURCES += \
    %D%/path/agent.c \
    %D%/path/agent.h \
    %D%/path/crc_pool.c \
    %D%/path/crc_pool.h \
    %D%/path/flush.c \
    %D%/path/hosts.c \
    %D%/path/hosts.h \
    %D%/path/path.c \
    %D%/path/path.h \
    %D%/path/path_make.c \
    %D%/path/peer.c \
    %D%/path/peer.h \
    %D%/path/ping.c \
    %D%/path/ping.h \
    %D%/path/plan.c \
    %D%/path/plan.h \
    %D%/path/progress.c \
    %D%/path/progress.h \
    %D%/path/rail.c \
    %D%/path/rail.h \
    %D%/path/req.c \
    %D%/path/req.h \
    %D%/path/req_due.c \
    %D%/path/req_wait.c \
    %D%/path/send.c \
    %D%/path/xfer.c \
    %D%/path/xfer.h

# mem: registered memory and tokens
%C%_libcore_la_SOURCES += \
    %D%/mem/batch.c \
    %D%/mem/check.c \
    %D%/mem/mem.c \
    %D%/mem/mem.h \
    %D%/mem/notify.c \
    %D%/mem/rma.c \
    %D%/mem/token.c

# team: ordered sets of peers
%C%_libcore_la_SOURCES += \
    %D%/team/team.c \
    %D%/team/team.h

# type: datatypes and operators
%C%_libcore_la_SOURCES += \
    %D%/type/dt_basic.c \
    %D%/type/op_loops.c \
    %D%/type/type.h

# coll: collectives
%C%_libcore_la_SOURCES += \
    %D%/coll/coll.c \
    %D%/coll/coll.h \
    %D%/coll/coll_across.c \
    %D%/coll/coll_across.h \
    %D%/coll/coll_across_reduce.c \
    %D%/coll/coll_hosts.c \
    %D%/coll/coll_hosts.h \
    %D%/coll/coll_lines.h \
    %D%/coll/coll_mail.c \
    %D%/coll/coll_net.c \
    %D%/coll/coll_net.h \
    %D%/coll/coll_node.c \
    %D%/coll/coll_reduce.c \
    %D%/coll/coll_spread.c \
    %D%/coll/coll_world.c \
    %D%/coll/coll_world.h
