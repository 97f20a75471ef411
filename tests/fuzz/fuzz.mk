# SPDX-License-Identifier: BSD-3-Clause
# The readers of others' bytes on mutated input; make fuzz searches with libFuzzer (clang).

plain_tests += %D%/fuzz_bytes
%C%_fuzz_bytes_SOURCES  = %D%/fuzz.h %D%/fuzz_bytes.c %D%/fuzz_drive.c
%C%_fuzz_bytes_LDADD    = $(layers_libs)

FUZZ_SECONDS = 60
FUZZ_CFLAGS  = -g -O1 -fsanitize=fuzzer,address,undefined
fuzz: $(layers)
	clang -std=c11 $(AM_CPPFLAGS) -I$(top_srcdir) $(FUZZ_CFLAGS) \
	    $(srcdir)/%D%/fuzz_bytes.c -o %D%/fuzz_libfuzzer \
	    $(patsubst %.la,%.a,$(join $(dir $(layers)),$(addprefix .libs/,$(notdir $(layers))))) \
	    $(HWLOC_LIBS) $(PMIX_LIBS) $(LIBFABRIC_LIBS) -pthread
	%D%/fuzz_libfuzzer -max_total_time=$(FUZZ_SECONDS) -max_len=1024

.PHONY: fuzz
