# SPDX-License-Identifier: BSD-3-Clause
# Contract and unit tests of the fabric layer.

long_tests   += %D%/test_contract
mutant_tests += %D%/test_mutants
criterion_tests += \
    %D%/test_engine \
    %D%/test_fabric \
    %D%/test_fabric_steps \
    %D%/test_nics \
    %D%/test_node \
    %D%/test_node_arena \
    %D%/test_node_bell \
    %D%/test_node_hazard \
    %D%/test_node_park \
    %D%/test_node_reg \
    %D%/test_region \
    %D%/test_shm_copy \
    %D%/test_shm_ring

if HAVE_LIBFABRIC
criterion_tests += \
    %D%/test_ofi \
    %D%/test_ofi_bundle \
    %D%/test_ofi_netns \
    %D%/test_ofi_pick \
    %D%/test_ofi_large \
    %D%/test_ofi_queue \
    %D%/test_ofi_strict \
    %D%/test_ofi_wire \
    %D%/test_strict \
    %D%/test_strict_offer \
    %D%/test_strict_shape

# two engines and bad weather between one of them and its provider
%C%_test_ofi_bundle_SOURCES = %D%/test_ofi_bundle.c %D%/ofi_pair.c %D%/ofi_pair.h
EXTRA_%C%_test_ofi_bundle_DEPENDENCIES = tests/fake/strict/libstrict-fi.la
%C%_test_ofi_large_SOURCES = %D%/test_ofi_large.c %D%/ofi_pair.c %D%/ofi_pair.h
EXTRA_%C%_test_ofi_large_DEPENDENCIES = tests/fake/strict/libstrict-fi.la
%C%_test_ofi_queue_SOURCES = %D%/test_ofi_queue.c %D%/ofi_pair.c %D%/ofi_pair.h
%C%_test_ofi_strict_SOURCES = %D%/test_ofi_strict.c %D%/ofi_pair.c %D%/ofi_pair.h
EXTRA_%C%_test_ofi_strict_DEPENDENCIES = tests/fake/strict/libstrict-fi.la

# the provider `strict`, loaded by libfabric
strict_module = tests/fake/strict/libstrict-fi.la
strict_rig    = %D%/strict_rig.c %D%/strict_rig.h
%C%_test_strict_SOURCES       = %D%/test_strict.c $(strict_rig)
%C%_test_strict_offer_SOURCES = %D%/test_strict_offer.c $(strict_rig)
%C%_test_strict_shape_SOURCES = %D%/test_strict_shape.c $(strict_rig)
%C%_test_strict_LDADD       = $(LIBFABRIC_LIBS) $(CRITERION_LIBS)
%C%_test_strict_offer_LDADD = $(LIBFABRIC_LIBS) $(CRITERION_LIBS)
%C%_test_strict_shape_LDADD = $(LIBFABRIC_LIBS) $(CRITERION_LIBS)
EXTRA_%C%_test_strict_DEPENDENCIES       = $(strict_module)
EXTRA_%C%_test_strict_offer_DEPENDENCIES = $(strict_module)
EXTRA_%C%_test_strict_shape_DEPENDENCIES = $(strict_module)
endif

# The contract's rig and cases, shared by the test of transports and the test of the contract.
contract_sources = \
    %D%/contract.h \
    %D%/contract_amo.c \
    %D%/contract_cases.c \
    %D%/contract_close.c \
    %D%/contract_exhaust.c \
    %D%/contract_fail.c \
    %D%/contract_flush.c \
    %D%/contract_get.c \
    %D%/contract_gone.c \
    %D%/contract_hold.c \
    %D%/contract_list.h \
    %D%/contract_mem.c \
    %D%/contract_notify.c \
    %D%/contract_op.c \
    %D%/contract_order.c \
    %D%/contract_peer.c \
    %D%/contract_put.c \
    %D%/contract_rig.c \
    %D%/contract_run.c \
    %D%/contract_send.c \
    %D%/contract_stop.c \
    %D%/contract_threads.c

%C%_test_contract_SOURCES = %D%/test_contract.c $(contract_sources)
if HAVE_LIBFABRIC
long_tests += %D%/test_contract_net
%C%_test_contract_net_SOURCES  = %D%/test_contract.c $(contract_sources)
%C%_test_contract_net_CPPFLAGS = $(AM_CPPFLAGS) -DCONTRACT_NET
EXTRA_%C%_test_contract_net_DEPENDENCIES = $(strict_module)
endif
%C%_test_mutants_SOURCES  = %D%/test_mutants.c $(contract_sources) \
    %D%/mutant.c \
    %D%/mutant.h \
    %D%/mutant_call.c \
    %D%/mutant_data.c \
    %D%/mutant_memory.c

# Ranks that share a node and nothing else.
node_rig = %D%/node_rig.c %D%/node_rig.h
%C%_test_node_SOURCES        = %D%/test_node.c $(node_rig)
%C%_test_node_arena_SOURCES  = %D%/test_node_arena.c $(node_rig)
%C%_test_node_bell_SOURCES   = %D%/test_node_bell.c $(node_rig)
%C%_test_node_hazard_SOURCES = %D%/test_node_hazard.c $(node_rig)
%C%_test_node_park_SOURCES   = %D%/test_node_park.c $(node_rig)
%C%_test_node_reg_SOURCES    = %D%/test_node_reg.c $(node_rig)
