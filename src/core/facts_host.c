/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Facts of the machine this process runs on, and of the limits it meets there. Read from the
 * system at each question; nothing here decides anything.
 */
#include "core/facts.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "base/conf.h"
#include "base/copy.h"
#include "base/crc.h"
#include "base/sys.h"
#include "core/boot/boot.h"
#include "core/core.h"
#include "core/topo/topo.h"

/* ---------------------------------------------------------------- topology */

static void tell_host(struct core_fact *fact)
{
    char name[64];
    orl_sys_hostname(name, sizeof(name));
    orl_strbuf_add(&fact->value, name);
}

static void tell_cpus_allowed(struct core_fact *fact)
{
    fact->number = (uint64_t)orl_sys_cpus_allowed();
    orl_strbuf_addf(&fact->value, "%llu (", (unsigned long long)fact->number);
    orl_sys_cpu_list(&fact->value);
    orl_strbuf_add(&fact->value, ")");
}

static void tell_cpu_quota(struct core_fact *fact)
{
    fact->number = orl_sys_cgroup_cpu_limit("");
    if (fact->number != UINT64_MAX) {
        orl_strbuf_addf(&fact->value, "%.2f CPUs", (double)fact->number / 1000);
    }
}

/* The machine, read on first use: hwloc takes tens of milliseconds that no start should have to
 * spend. NULL: not readable. */
static const struct core_topo *topo(void)
{
    static _Thread_local struct core_topo mine;
    return mine.cpus > 0 || core_topo_load(&mine) == 0 ? &mine : NULL;
}

static void tell_topo(struct core_fact *fact, uint64_t number)
{
    fact->number = number;
    if (number == 0) {
        orl_strbuf_add(&fact->value, "unknown");
        orl_strbuf_add(&fact->text, "; hwloc does not tell");
    }
}

static void tell_cpus(struct core_fact *fact)
{
    const struct core_topo *machine = topo();
    tell_topo(fact, machine != NULL ? (uint64_t)machine->cpus : 0);
}

static void tell_cores(struct core_fact *fact)
{
    const struct core_topo *machine = topo();
    tell_topo(fact, machine != NULL ? (uint64_t)machine->cores : 0);
}

static void tell_numa_nodes(struct core_fact *fact)
{
    const struct core_topo *machine = topo();
    tell_topo(fact, machine != NULL ? (uint64_t)machine->numa_nodes : 0);
}

static void tell_l2_cache(struct core_fact *fact)
{
    const struct core_topo *machine = topo();
    tell_topo(fact, machine != NULL ? machine->l2_bytes : 0);
}

static void tell_l3_cache(struct core_fact *fact)
{
    const struct core_topo *machine = topo();
    tell_topo(fact, machine != NULL ? machine->l3_bytes : 0);
}

static void tell_memory(struct core_fact *fact)
{
    fact->number = orl_sys_mem_total_bytes();
}

static void tell_memory_free(struct core_fact *fact)
{
    fact->number = orl_sys_mem_available_bytes();
}

static void tell_memory_quota(struct core_fact *fact)
{
    fact->number = orl_sys_cgroup_memory_limit("");
    if (fact->number >= UINT64_C(1) << 60) {
        fact->number = UINT64_MAX; /* version 1 writes "none" as a huge number */
    }
}

static void tell_copy_kernel(struct core_fact *fact)
{
    orl_strbuf_add(&fact->value, orl_copy_kernel());
}

static void tell_copy_stream(struct core_fact *fact)
{
    fact->number = orl_copy_stream_min();
}

static void tell_crc_method(struct core_fact *fact)
{
    orl_strbuf_add(&fact->value, orl_crc_method());
}

static void tell_waiting(struct core_fact *fact)
{
    if (!core_is_open()) {
        orl_strbuf_add(&fact->value, "unknown");
        orl_strbuf_add(&fact->text, "; no job is running");
        return;
    }
    if (core.oversubscribed) {
        orl_strbuf_add(&fact->value, "no spinning");
        orl_strbuf_addf(&fact->text, "; %d ranks share fewer CPUs", core.nlocal);
        return;
    }
    orl_strbuf_add(&fact->value, "spin for ");
    orl_strbuf_add_time(&fact->value, orl_conf.spin_time);
    orl_strbuf_addf(&fact->text, "; a CPU for each of %d rank%s", core.nlocal,
                    core.nlocal == 1 ? "" : "s");
}

/* ---------------------------------------------------------------- limits */

static void tell_ranks(struct core_fact *fact)
{
    fact->number = FAB_NODE_RANKS_MAX;
}

static void tell_registrations(struct core_fact *fact)
{
    fact->number = FAB_REGS_MAX;
}

static void tell_token(struct core_fact *fact)
{
    fact->number = ORIEL_TOKEN_BYTES_MAX;
}

static void tell_record(struct core_fact *fact)
{
    fact->number = CORE_RECORD_BYTES;
}

static void tell_rank_memory(struct core_fact *fact)
{
    if (core.node == NULL) {
        orl_strbuf_add(&fact->value, "unknown");
        orl_strbuf_add(&fact->text, "; no job is running");
        return;
    }
    fact->number = core.node->arena_stride;
}

static void tell_rlimit(struct core_fact *fact, __rlimit_resource_t resource)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0) {
        orl_strbuf_add(&fact->value, "unknown");
        return;
    }
    fact->number = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : (uint64_t)limit.rlim_cur;
}

static void tell_memlock(struct core_fact *fact)
{
    tell_rlimit(fact, RLIMIT_MEMLOCK);
}

static void tell_open_files(struct core_fact *fact)
{
    tell_rlimit(fact, RLIMIT_NOFILE);
}

static void tell_address_space(struct core_fact *fact)
{
    tell_rlimit(fact, RLIMIT_AS);
}

static void tell_file_size(struct core_fact *fact)
{
    tell_rlimit(fact, RLIMIT_FSIZE);
}

static void tell_dev_shm(struct core_fact *fact, bool is_free)
{
    struct statvfs fs;
    if (statvfs("/dev/shm", &fs) != 0) {
        orl_strbuf_add(&fact->value, "none");
        orl_strbuf_add(&fact->text, "; there is no /dev/shm");
        return;
    }
    fact->number = (uint64_t)fs.f_frsize * (is_free ? fs.f_bavail : fs.f_blocks);
}

static void tell_dev_shm_size(struct core_fact *fact)
{
    tell_dev_shm(fact, false);
}

static void tell_dev_shm_free(struct core_fact *fact)
{
    tell_dev_shm(fact, true);
}

static void tell_ptrace(struct core_fact *fact)
{
    static const char *const meanings[] = { "0 (processes of one user may)",
                                            "1 (only a parent may, or whom a process allows)",
                                            "2 (only the administrator may)", "3 (nobody may)" };
    char text[16];
    bool is_there = orl_sys_read_text("/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text));
    if (is_there && text[0] >= '0' && text[0] <= '3') {
        orl_strbuf_add(&fact->value, meanings[text[0] - '0']);
    } else {
        orl_strbuf_add(&fact->value, "no such restriction");
    }
}

/* The kernel marks the choice in force: "always [never] advise". */
static void tell_huge(struct core_fact *fact, const char *path)
{
    char text[128];
    const char *begin = orl_sys_read_text(path, text, sizeof(text)) ? strchr(text, '[') : NULL;
    if (begin == NULL) {
        orl_strbuf_add(&fact->value, "not offered by this kernel");
        return;
    }
    orl_strbuf_addf(&fact->value, "%.*s", (int)strcspn(begin + 1, "]"), begin + 1);
}

static void tell_huge_shared(struct core_fact *fact)
{
    tell_huge(fact, "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    if (core_is_open() && orl_conf.shm_huge == ORL_CONF_SHM_HUGE_NEVER) {
        orl_strbuf_add(&fact->text, "; ORIEL_SHM_HUGE forbids them");
    }
}

static void tell_huge_private(struct core_fact *fact)
{
    tell_huge(fact, "/sys/kernel/mm/transparent_hugepage/enabled");
}

/* ---------------------------------------------------------------- the table */

static const struct core_fact_row rows[] = {
    { "topology", "host", NULL, "this host's name", tell_host },
    { "topology", "cpus_allowed", "CPUs", "hardware threads this process may use",
      tell_cpus_allowed },
    { "topology", "cpus", "CPUs", "hardware threads of the host", tell_cpus },
    { "topology", "cores", "cores", "physical cores of the host", tell_cores },
    { "topology", "numa_nodes", "nodes", "memory domains of the host", tell_numa_nodes },
    { "topology", "cpu_quota", "thousandths of a CPU", "CPU time that the control group allows",
      tell_cpu_quota },
    { "topology", "l2_cache", "bytes", "second-level cache of a core", tell_l2_cache },
    { "topology", "l3_cache", "bytes", "third-level cache", tell_l3_cache },
    { "topology", "memory", "bytes", "memory this process may use", tell_memory },
    { "topology", "memory_available", "bytes", "of it, free now", tell_memory_free },
    { "topology", "memory_quota", "bytes", "memory that the control group allows",
      tell_memory_quota },
    { "topology", "copy_kernel", NULL, "how memory is copied, the best that this CPU has",
      tell_copy_kernel },
    { "topology", "copy_bypass", "bytes", "copies from this size on bypass the caches",
      tell_copy_stream },
    { "topology", "crc_method", NULL, "how checksums are computed, the best that this CPU has",
      tell_crc_method },
    { "topology", "waiting", NULL, "what a rank does before it sleeps", tell_waiting },
    { "limits", "ranks_per_host", "ranks", "of this library", tell_ranks },
    { "limits", "registrations_per_rank", "registrations", "alive at once, of this library",
      tell_registrations },
    { "limits", "token", "bytes", "no token is longer", tell_token },
    { "limits", "bootstrap_record", "bytes", "what a rank tells the others at start", tell_record },
    { "limits", "shared_memory_per_rank", "bytes",
      "address space for oriel_mem_alloc (ORIEL_SHM_SIZE)", tell_rank_memory },
    { "limits", "address_space", "bytes", "of this process (ulimit -v)", tell_address_space },
    { "limits", "file_size", "bytes", "of this process, for shared memory too (ulimit -f)",
      tell_file_size },
    { "limits", "locked_memory", "bytes", "of this process (ulimit -l); NICs need it",
      tell_memlock },
    { "limits", "open_files", "files", "of this process (ulimit -n)", tell_open_files },
    { "limits", "dev_shm", "bytes", "size of /dev/shm, used where memory files are forbidden",
      tell_dev_shm_size },
    { "limits", "dev_shm_free", "bytes", "of it, free now", tell_dev_shm_free },
    { "limits", "ptrace_scope", NULL, "who may read another process's memory", tell_ptrace },
    { "limits", "huge_pages_shared", NULL, "of shared memory, system-wide", tell_huge_shared },
    { "limits", "huge_pages_private", NULL, "of private memory, system-wide", tell_huge_private },
};

const struct core_fact_table core_facts_host = { rows, sizeof(rows) / sizeof(rows[0]) };
