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
    %D%/test_coll_large \
    %D%/test_death \
    %D%/test_errors \
    %D%/test_gone \
    %D%/test_info \
    %D%/test_init \
    %D%/test_limits \
    %D%/test_rows \
    %D%/test_rows_use \
    %D%/test_token

# stands in for libpmix
fake_pmix = tests/fake/fake_pmix.c tests/fake/fake_pmix.h
%C%_test_boot_end_SOURCES = %D%/test_boot_end.c $(fake_pmix)
%C%_test_boot_pmix_SOURCES = %D%/test_boot_pmix.c $(fake_pmix)

# path and batch: waiting, requests, peers. A fake path holds what is posted until the test ends it.
criterion_tests += \
    %D%/test_batch \
    %D%/test_crc_pool \
    %D%/test_deadline \
    %D%/test_peer \
    %D%/test_posted \
    %D%/test_progress \
    %D%/test_req
fake_path = %D%/fake_path.c %D%/fake_path.h
%C%_test_crc_pool_SOURCES = %D%/test_crc_pool.c $(fake_path)
%C%_test_deadline_SOURCES = %D%/test_deadline.c $(fake_path)
memories = %D%/memories.c %D%/memories.h
%C%_test_batch_SOURCES = %D%/test_batch.c $(memories)
%C%_test_posted_SOURCES = %D%/test_posted.c $(memories)
%C%_test_progress_SOURCES = %D%/test_progress.c $(fake_path)
%C%_test_req_SOURCES = %D%/test_req.c $(fake_path)
