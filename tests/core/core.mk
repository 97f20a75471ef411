# SPDX-License-Identifier: BSD-3-Clause
# Tests of the core layer, ranks forked in the test process.

# boot, mem, team, coll: the life of a process, tokens, collectives, deaths
criterion_tests += \
    %D%/test_boot_card \
    %D%/test_boot_end \
    %D%/test_boot_launcher \
    %D%/test_boot_pmix \
    %D%/test_boot_watch \
    %D%/test_coll \
    %D%/test_coll_across \
    %D%/test_coll_hosts \
    %D%/test_coll_large \
    %D%/test_coll_mishaps \
    %D%/test_death \
    %D%/test_errors \
    %D%/test_gone \
    %D%/test_hosts \
    %D%/test_info \
    %D%/test_init \
    %D%/test_leave \
    %D%/test_limits \
    %D%/test_network \
    %D%/test_soak \
    %D%/test_record \
    %D%/test_rows \
    %D%/test_rows_use \
    %D%/test_token

# several hosts in one process
coll_rig = %D%/coll_rig.c %D%/coll_rig.h %D%/coll_rig_data.c
%C%_test_coll_hosts_SOURCES = %D%/test_coll_hosts.c $(coll_rig)
%C%_test_coll_mishaps_SOURCES = %D%/test_coll_mishaps.c $(coll_rig)

# stands in for libpmix
fake_pmix = tests/fake/fake_pmix.c tests/fake/fake_pmix.h
%C%_test_boot_end_SOURCES = %D%/test_boot_end.c $(fake_pmix)
%C%_test_boot_pmix_SOURCES = %D%/test_boot_pmix.c $(fake_pmix)

# path and batch: waiting, requests, peers. A fake path holds what is posted until the test ends it.
criterion_tests += \
    %D%/test_agent \
    %D%/test_agent_ofi \
    %D%/test_batch \
    %D%/test_crc_pool \
    %D%/test_deadline \
    %D%/test_peer \
    %D%/test_ping \
    %D%/test_plan \
    %D%/test_posted \
    %D%/test_progress \
    %D%/test_rails \
    %D%/test_req \
    %D%/test_send
fake_path = %D%/fake_path.c %D%/fake_path.h
%C%_test_crc_pool_SOURCES = %D%/test_crc_pool.c $(fake_path)
%C%_test_deadline_SOURCES = %D%/test_deadline.c $(fake_path)
memories = %D%/memories.c %D%/memories.h
%C%_test_batch_SOURCES = %D%/test_batch.c $(memories)
%C%_test_posted_SOURCES = %D%/test_posted.c $(memories)
fake_net = %D%/fake_net.c %D%/fake_net.h $(fake_path)
%C%_test_agent_SOURCES = %D%/test_agent.c $(fake_net)
%C%_test_ping_SOURCES = %D%/test_ping.c $(fake_net)
%C%_test_progress_SOURCES = %D%/test_progress.c $(fake_path)
two_rails = %D%/two_rails.c %D%/two_rails.h
%C%_test_rails_SOURCES = %D%/test_rails.c $(two_rails)
soak_parts = %D%/soak.h %D%/soak_cell.c %D%/soak_cell.h %D%/soak_cells.c %D%/soak_guests.c
%C%_test_soak_SOURCES = %D%/test_soak.c $(soak_parts)
%C%_test_send_SOURCES = %D%/test_send.c $(two_rails)
%C%_test_req_SOURCES = %D%/test_req.c $(fake_path)
