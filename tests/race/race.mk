# SPDX-License-Identifier: BSD-3-Clause
# Plain programs with main, run under thread sanitizer (Criterion cannot be).

plain_tests +=
plain_tests += %D%/race_agent
plain_tests += %D%/race_bell
plain_tests += %D%/race_coll
plain_tests += %D%/race_coll_hosts
plain_tests += %D%/race_hazard
plain_tests += %D%/race_lock
plain_tests += %D%/race_mpsc
plain_tests += %D%/race_park
plain_tests += %D%/race_pool
plain_tests += %D%/race_req
plain_tests += %D%/race_ring
plain_tests += %D%/race_side
%C%_race_req_SOURCES = %D%/race_req.c tests/core/fake_path.c tests/core/fake_path.h
%C%_race_agent_SOURCES = %D%/race_agent.c tests/core/fake_path.c tests/core/fake_path.h \
    tests/core/fake_net.c tests/core/fake_net.h
%C%_race_coll_hosts_SOURCES = %D%/race_coll_hosts.c tests/core/coll_rig.c tests/core/coll_rig.h \
    tests/core/coll_rig_data.c
