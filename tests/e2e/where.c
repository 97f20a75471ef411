/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a launcher has put this rank, in the words of its PMIx server: what test_rigs.sh starts.
 * Prints "rank R of N on HOST with PEERS, nodes LIST"; knows nothing of Oriel.
 */
#include <pmix.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

static pmix_proc_t self;

/* A key of the job that the server has told already; false when it has not. */
static bool ask(const char *key, pmix_value_t **value)
{
    pmix_proc_t job = self;
    pmix_info_t optional;
    PMIX_INFO_LOAD(&optional, PMIX_OPTIONAL, NULL, PMIX_BOOL);
    job.rank = PMIX_RANK_WILDCARD;
    return PMIx_Get(&job, key, &optional, 1, value) == PMIX_SUCCESS;
}

static void ask_text(const char *key, char *text, size_t capacity)
{
    pmix_value_t *value = NULL;
    bool is_there = ask(key, &value) && value->type == PMIX_STRING;
    snprintf(text, capacity, "%s", is_there ? value->data.string : "?");
    if (value != NULL) {
        PMIX_VALUE_RELEASE(value);
    }
}

static unsigned job_size(void)
{
    pmix_value_t *value = NULL;
    unsigned size = ask(PMIX_JOB_SIZE, &value) ? value->data.uint32 : 0;
    if (value != NULL) {
        PMIX_VALUE_RELEASE(value);
    }
    return size;
}

int main(void)
{
    char host[256] = "?";
    char peers[256];
    char nodes[256];
    pmix_status_t status = PMIx_Init(&self, NULL, 0);
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "PMIx_Init: %s\n", PMIx_Error_string(status));
        return 1;
    }
    gethostname(host, sizeof(host) - 1);
    ask_text(PMIX_LOCAL_PEERS, peers, sizeof(peers));
    ask_text(PMIX_NODE_LIST, nodes, sizeof(nodes));
    printf("rank %u of %u on %s with %s, nodes %s\n", self.rank, job_size(), host, peers, nodes);
    PMIx_Finalize(NULL, 0);
    return 0;
}
