/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts: 64 bytes of the user's that are the provider's from the post until the completion has
 * been read. It writes all over them, and looks later whether anyone else did.
 */
#include "strict.h"

#include <string.h>

static struct st_link lent = { &lent, &lent };

int st_context_take(struct st_context *context, void *user, const char *what)
{
    struct st_link *at;
    size_t i;

    if (user == NULL) {
        st_violation("%s without a context", what);
        return -FI_EINVAL;
    }
    for (at = lent.next; at != &lent; at = at->next) {
        const struct st_context *other = st_of(at, struct st_context, link);
        uintptr_t a = (uintptr_t)other->user;
        uintptr_t b = (uintptr_t)user;

        if ((a > b ? a - b : b - a) < ST_SEAL_BYTES) {
            st_violation("%s with a context that is in use already, or overlaps one", what);
            return -FI_EINVAL;
        }
    }
    for (i = 0; i < ST_SEAL_BYTES; i++) {
        context->seal[i] = (unsigned char)st_random(256);
    }
    context->user = user;
    memcpy(user, context->seal, ST_SEAL_BYTES);
    st_list_add(&lent, &context->link);
    st_counts.contexts++;
    return 0;
}

void st_context_give(struct st_context *context)
{
    if (context->user == NULL) {
        return;
    }
    if (memcmp(context->user, context->seal, ST_SEAL_BYTES) != 0) {
        st_violation("the context at %p was written to while it was the provider's", context->user);
    }
    context->user = NULL;
    st_list_del(&context->link);
    st_counts.contexts--;
}
