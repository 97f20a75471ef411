/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known of providers and cannot be asked of them. Nothing else in this folder looks at a
 * provider's name.
 */
#include <string.h>

#include "fabric/ofi/ofi.h"

/* EFA: the peer's queue pair is gone, and the peer does not answer although the card has tried for
 * long. Both come with an error that means a broken link elsewhere. */
#define EFA_BAD_DEST_QP  9
#define EFA_UNRESPONSIVE 13

static const struct ofi_facts facts[] = {
    { .provider = "net",
      .message_bytes = 98304 + 128,
      .is_ordered = true,
      .bulk_from = 262144,
      .bulk_chunk = 131072,
      .bulk_depth = 4 },
    { .provider = "tcp",
      .message_bytes = 98304 + 128,
      .is_ordered = true,
      .bulk_from = 262144,
      .bulk_chunk = 131072,
      .bulk_depth = 4 },
    { .provider = "tcp;ofi_rxm",
      .message_bytes = 16384 - 128,
      .is_ordered = true,
      .bulk_from = UINT64_MAX },
    { .provider = "efa",
      .message_bytes = 8192,
      .is_ordered = false,
      .gone = { EFA_BAD_DEST_QP, EFA_UNRESPONSIVE },
      .bulk_from = 16384,
      .bulk_chunk = 1 << 20,
      .bulk_depth = 4 },
    { .provider = "efa-direct",
      .message_bytes = 8192,
      .is_ordered = false,
      .gone = { EFA_BAD_DEST_QP, EFA_UNRESPONSIVE },
      .bulk_from = 16384,
      .bulk_chunk = 1 << 20,
      .bulk_depth = 4 },
    /* Last: whatever else a user asks for. */
    { .provider = "",
      .message_bytes = 8192,
      .is_ordered = false,
      .bulk_from = 16384,
      .bulk_chunk = 1 << 20,
      .bulk_depth = 4 },
};

const struct ofi_facts *ofi_facts_of(const char *provider)
{
    size_t i = 0;

    while (facts[i].provider[0] != '\0' && strcmp(facts[i].provider, provider) != 0) {
        i++;
    }
    return &facts[i];
}

bool ofi_facts_say_gone(const struct ofi_facts *fact, int native)
{
    for (size_t i = 0; i < OFI_GONE && native != 0; i++) {
        if (fact->gone[i] == native) {
            return true;
        }
    }
    return false;
}
