/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choice of the bootstrap, and the bytes of a record. Records come from other processes, so
 * decoding trusts nothing: version, length and checksum first, then each field's range.
 */
#include "core/boot/boot.h"

#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/crc.h"
#include "base/log.h"
#include "base/status.h"

/* ---------------------------------------------------------------- record */

/* Cursor over a record being written or read; reads past the end turn `bad`. */
struct cursor {
    unsigned char *out;
    const unsigned char *in;
    size_t at, end;
    bool bad;
};

static void put_bytes(struct cursor *c, const void *bytes, size_t n)
{
    if (n > c->end - c->at) {
        c->bad = true;
        return;
    }
    memcpy(c->out + c->at, bytes, n);
    c->at += n;
}

static void put_number(struct cursor *c, uint64_t value)
{
    unsigned char le[8];
    for (unsigned i = 0; i < 8; i++) {
        le[i] = (unsigned char)(value >> (8 * i));
    }
    put_bytes(c, le, sizeof(le));
}

static void take_bytes(struct cursor *c, void *bytes, size_t n)
{
    if (n > c->end - c->at) {
        c->bad = true;
        memset(bytes, 0, n);
        return;
    }
    memcpy(bytes, c->in + c->at, n);
    c->at += n;
}

static uint64_t take_number(struct cursor *c)
{
    unsigned char le[8];
    uint64_t value = 0;
    take_bytes(c, le, sizeof(le));
    for (unsigned i = 0; i < 8; i++) {
        value |= (uint64_t)le[i] << (8 * i);
    }
    return value;
}

#define RECORD_HEAD 16 /* version, length, checksum of the rest */

static void put_topo(struct cursor *c, const struct core_topo *topo)
{
    put_number(c, (uint64_t)topo->cores);
    put_number(c, (uint64_t)topo->cpus);
    put_number(c, (uint64_t)topo->numa_nodes);
    put_number(c, topo->l2_bytes);
    put_number(c, topo->l3_bytes);
    put_number(c, topo->memory_bytes);
}

static void take_topo(struct cursor *c, struct core_topo *topo)
{
    topo->cores = (int)take_number(c);
    topo->cpus = (int)take_number(c);
    topo->numa_nodes = (int)take_number(c);
    topo->l2_bytes = take_number(c);
    topo->l3_bytes = take_number(c);
    topo->memory_bytes = take_number(c);
}

size_t core_record_encode(const struct core_record *record, void *bytes, size_t capacity)
{
    struct cursor c = { .out = bytes, .at = RECORD_HEAD, .end = capacity };
    if (capacity < RECORD_HEAD) {
        return 0;
    }
    put_number(&c, (uint64_t)record->rank);
    put_bytes(&c, record->host, sizeof(record->host));
    put_bytes(&c, record->hostname, sizeof(record->hostname));
    put_number(&c, record->nonce);
    put_bytes(&c, record->cpus, sizeof(record->cpus));
    put_topo(&c, &record->topo);
    put_number(&c, (uint64_t)record->node.pid);
    put_number(&c, (uint64_t)record->node.fd);
    put_number(&c, record->node.job);
    put_bytes(&c, record->node.host, sizeof(record->node.host));
    put_bytes(&c, record->node.path, sizeof(record->node.path));
    if (c.bad) {
        return 0;
    }
    size_t length = c.at;
    uint32_t crc = orl_crc32c(0, c.out + RECORD_HEAD, length - RECORD_HEAD);
    c.at = 0;
    put_number(&c, CORE_WIRE_VERSION | (uint64_t)length << 32);
    put_number(&c, crc);
    return length;
}

static int check_fields(const struct core_record *record)
{
    if (memchr(record->hostname, 0, sizeof(record->hostname)) == NULL ||
        memchr(record->node.path, 0, sizeof(record->node.path)) == NULL) {
        return orl_fail(ORL_ERR_BOOT, "record of rank %d: a name without end", record->rank);
    }
    return 0;
}

int core_record_decode(const void *bytes, size_t length, struct core_record *record)
{
    struct cursor c = { .in = bytes, .end = length };
    uint64_t head = take_number(&c);
    uint64_t crc = take_number(&c);
    if (c.bad) {
        return orl_fail(ORL_ERR_BOOT, "a bootstrap record of %zu bytes is truncated", length);
    }
    if ((uint32_t)head != CORE_WIRE_VERSION) {
        return orl_fail(ORL_ERR_BOOT,
                        "a rank of this job uses wire version %u, this one %u: all ranks must "
                        "load the same liboriel",
                        (unsigned)(uint32_t)head, CORE_WIRE_VERSION);
    }
    if (head >> 32 != length || crc != orl_crc32c(0, c.in + RECORD_HEAD, length - RECORD_HEAD)) {
        return orl_fail(ORL_ERR_BOOT, "a bootstrap record of %zu bytes is damaged", length);
    }
    memset(record, 0, sizeof(*record));
    record->version = CORE_WIRE_VERSION;
    record->rank = (int32_t)take_number(&c);
    take_bytes(&c, record->host, sizeof(record->host));
    take_bytes(&c, record->hostname, sizeof(record->hostname));
    record->nonce = take_number(&c);
    take_bytes(&c, record->cpus, sizeof(record->cpus));
    take_topo(&c, &record->topo);
    record->node.pid = (int32_t)take_number(&c);
    record->node.fd = (int32_t)take_number(&c);
    record->node.job = take_number(&c);
    take_bytes(&c, record->node.host, sizeof(record->node.host));
    take_bytes(&c, record->node.path, sizeof(record->node.path));
    if (c.bad || c.at != length) {
        return orl_fail(ORL_ERR_BOOT, "a bootstrap record of %zu bytes has the wrong length",
                        length);
    }
    return check_fields(record);
}

int core_record_of(const struct core_boot *boot, int rank, struct core_record *record)
{
    unsigned char bytes[CORE_RECORD_BYTES];
    size_t length = sizeof(bytes);
    int st = boot->get(rank, bytes, &length);
    if (st == 0) {
        st = core_record_decode(bytes, length, record);
    }
    if (st == 0 && record->rank != rank) {
        st = orl_fail(ORL_ERR_BOOT, "the record of rank %d says it is of rank %d", rank,
                      record->rank);
    }
    return st;
}

uint64_t core_boot_hash(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name != 0; name++) {
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* ---------------------------------------------------------------- choice */

/* What launchers leave in the environment that start ranks without PMIx. */
static const struct launcher {
    const char *variable; /* holds the number of ranks */
    const char *name;
    const char *remedy;
} launchers[] = {
    { "SLURM_STEP_NUM_TASKS", "srun", "start the job with srun --mpi=pmix" },
    { "OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun", "its PMIx server did not answer" },
    { "PMI_SIZE", "a PMI-1 launcher (hydra)", "use Open MPI's mpirun or srun --mpi=pmix" },
    { "PALS_SIZE", "PALS", "use a launcher with PMIx" },
};

/* A job of one must not come from a launcher that thinks it started several. */
static int check_alone(void)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        const char *text = orl_conf_launcher_variable(launchers[i].variable);
        long n = text != NULL ? strtol(text, NULL, 10) : 1;
        if (n > 1) {
            return orl_fail(ORL_ERR_BOOT,
                            "%s started %ld ranks (%s) but offers no PMIx here: %s, or set "
                            "ORIEL_BOOT=single to run each as a job of its own",
                            launchers[i].name, n, launchers[i].variable, launchers[i].remedy);
        }
    }
    return 0;
}

/* The sizes that launcher and PMIx tell must agree. */
static int check_promise(const struct core_boot_id *id)
{
    const char *text = orl_conf_launcher_variable("OMPI_COMM_WORLD_SIZE");
    long n = text != NULL ? strtol(text, NULL, 10) : id->size;
    if (n != id->size) {
        return orl_fail(ORL_ERR_BOOT,
                        "mpirun started %ld ranks, PMIx tells of %d: two launchers are mixed; "
                        "unset PMIX_* before starting a job inside a job",
                        n, id->size);
    }
    return 0;
}

static int open_auto(const struct core_boot **boot, struct core_boot_id *id)
{
    *boot = &core_boot_local;
    int st = core_boot_local.open(id);
    if (st != ORL_ERR_UNSUPP) {
        return st;
    }
    *boot = &core_boot_pmix;
    st = core_boot_pmix.open(id);
    if (st == 0) {
        st = check_promise(id);
        if (st != 0) {
            core_boot_pmix.close();
        }
    }
    if (st != ORL_ERR_UNSUPP) {
        return st;
    }
    orl_last_error_clear();
    st = check_alone();
    *boot = &core_boot_single;
    return st != 0 ? st : core_boot_single.open(id);
}

int core_boot_open(const struct core_boot **boot, struct core_boot_id *id)
{
    static const struct core_boot *const forced[] = {
        [ORL_CONF_BOOT_PMIX] = &core_boot_pmix,
        [ORL_CONF_BOOT_LOCAL] = &core_boot_local,
        [ORL_CONF_BOOT_SINGLE] = &core_boot_single,
    };
    memset(id, 0, sizeof(*id));
    if (orl_conf.boot == ORL_CONF_BOOT_AUTO) {
        return open_auto(boot, id);
    }
    *boot = forced[orl_conf.boot];
    int st = (*boot)->open(id);
    if (st == ORL_ERR_UNSUPP) {
        char why[256];
        strncpy(why, orl_last_error(), sizeof(why) - 1);
        why[sizeof(why) - 1] = 0;
        return orl_fail(ORL_ERR_BOOT, "ORIEL_BOOT=%s: %s", (*boot)->name, why);
    }
    return st;
}
