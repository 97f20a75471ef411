/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known of providers and cannot be asked of them. Nothing else in this folder looks at a
 * provider's name.
 */
#include <string.h>

#include "fabric/ofi/ofi.h"

static const struct ofi_facts facts[] = {
    { .provider = "net", .message_bytes = 49152 + 128, .is_ordered = true },
    { .provider = "tcp", .message_bytes = 49152 + 128, .is_ordered = true },
    { .provider = "tcp;ofi_rxm", .message_bytes = 16384 - 128, .is_ordered = true },
    { .provider = "efa", .message_bytes = 8192, .is_ordered = false },
    { .provider = "efa-direct", .message_bytes = 8192, .is_ordered = false },
    /* Last: whatever else a user asks for. */
    { .provider = "", .message_bytes = 8192, .is_ordered = false },
};

const struct ofi_facts *ofi_facts_of(const char *provider)
{
    size_t i = 0;

    while (facts[i].provider[0] != '\0' && strcmp(facts[i].provider, provider) != 0) {
        i++;
    }
    return &facts[i];
}
