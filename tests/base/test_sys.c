/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Facts about machine and process against what the system says elsewhere, control groups against
 * trees made here, and the futex between processes.
 */
#include "base/sys.h"

#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/strbuf.h"

#define MIB (UINT64_C(1) << 20)

/* ---- Control groups ---- */

static char root[] = "/tmp/oriel-test-XXXXXX";

static void put(const char *directory, const char *file, const char *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", root, directory);
    for (char *slash = path + strlen(root) + 1; *slash != '\0'; slash++) {
        if (*slash == '/') {
            *slash = '\0';
            mkdir(path, 0700);
            *slash = '/';
        }
    }
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/%s/%s", root, directory, file);
    FILE *out = fopen(path, "w");
    cr_assert_not_null(out, "%s", path);
    fputs(text, out);
    fclose(out);
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *where)
{
    (void)stat;
    (void)type;
    (void)where;
    return remove(path);
}

static void make_root(void)
{
    cr_assert_not_null(mkdtemp(root));
}

static void remove_root(void)
{
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(cgroup, .init = make_root, .fini = remove_root);

Test(cgroup, no_tree_is_no_limit)
{
    cr_assert_eq(orl_sys_cgroup_memory_limit(root), UINT64_MAX);
    cr_assert_eq(orl_sys_cgroup_cpu_limit(root), UINT64_MAX);
}

Test(cgroup, version_2_takes_the_smallest_level)
{
    put("proc/self", "cgroup", "0::/slice/job\n");
    put("sys/fs/cgroup/slice/job", "memory.max", "max\n");
    put("sys/fs/cgroup/slice", "memory.max", "104857600\n");
    put("sys/fs/cgroup/slice/job", "cpu.max", "150000 100000\n");
    put("sys/fs/cgroup/slice", "cpu.max", "max 100000\n");
    cr_assert_eq(orl_sys_cgroup_memory_limit(root), 100 * MIB);
    cr_assert_eq(orl_sys_cgroup_cpu_limit(root), 1500);
}

Test(cgroup, version_2_in_a_namespace_reads_the_root)
{
    put("proc/self", "cgroup", "0::/\n");
    put("sys/fs/cgroup", "memory.max", "1048576\n");
    put("sys/fs/cgroup", "cpu.max", "50000 100000\n");
    cr_assert_eq(orl_sys_cgroup_memory_limit(root), MIB);
    cr_assert_eq(orl_sys_cgroup_cpu_limit(root), 500);
}

Test(cgroup, version_1_finds_its_controllers)
{
    put("proc/self", "cgroup",
        "9:name=systemd:/x\n5:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/\n");
    put("sys/fs/cgroup/memory", "memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/docker/abc", "memory.limit_in_bytes", "2097152\n");
    put("sys/fs/cgroup/cpu/docker/abc", "cpu.cfs_quota_us", "200000\n");
    put("sys/fs/cgroup/cpu/docker/abc", "cpu.cfs_period_us", "100000\n");
    cr_assert_eq(orl_sys_cgroup_memory_limit(root), 2 * MIB);
    cr_assert_eq(orl_sys_cgroup_cpu_limit(root), 2000);
}

Test(cgroup, version_1_without_quota)
{
    put("proc/self", "cgroup", "3:cpuacct,cpu:/\n");
    put("sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu", "cpu.cfs_period_us", "100000\n");
    cr_assert_eq(orl_sys_cgroup_cpu_limit(root), UINT64_MAX);
}

Test(cgroup, nonsense_is_no_limit)
{
    put("proc/self", "cgroup", "no colons\n::\n7\n0::/a");
    put("sys/fs/cgroup/a", "memory.max", "\n");
    put("sys/fs/cgroup/a", "cpu.max", "fish\n");
    cr_assert_eq(orl_sys_cgroup_memory_limit(root), UINT64_MAX);
    cr_assert_eq(orl_sys_cgroup_cpu_limit(root), UINT64_MAX);
}

/* ---- Machine and process ---- */

Test(sys, memory_and_pages)
{
    uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    cr_assert_eq(orl_sys_page_bytes(), (size_t)sysconf(_SC_PAGESIZE));
    cr_assert_leq(orl_sys_mem_total_bytes(), physical);
    cr_assert_geq(orl_sys_mem_total_bytes(), MIB);
    cr_assert_leq(orl_sys_mem_available_bytes(), orl_sys_mem_total_bytes());
    cr_assert_gt(orl_sys_mem_available_bytes(), 0);
}

Test(sys, cpus_are_those_of_the_mask)
{
    cpu_set_t set;
    cr_assert_eq(sched_getaffinity(0, sizeof(set), &set), 0);
    cr_assert_eq(orl_sys_cpus_allowed(), CPU_COUNT(&set));
    int first = 0;
    while (!CPU_ISSET(first, &set)) {
        first++;
    }
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    cr_assert_eq(sched_setaffinity(0, sizeof(set), &set), 0);
    cr_assert_eq(orl_sys_cpus_allowed(), 1);
    cr_assert_geq(orl_sys_cgroup_cpus(), 0);
}

static void check_list(const cpu_set_t *set, const char *want)
{
    char text[64];
    struct orl_strbuf sb;

    cr_assert_eq(sched_setaffinity(0, sizeof(*set), set), 0);
    orl_strbuf_init(&sb, text, sizeof(text));
    orl_sys_cpu_list(&sb);
    cr_assert_str_eq(text, want);
}

Test(sys, cpus_are_listed_in_ranges)
{
    cpu_set_t all;
    cpu_set_t set;
    char want[64] = "";
    int first = -1;

    cr_assert_eq(sched_getaffinity(0, sizeof(all), &all), 0);
    for (int cpu = 0; cpu + 1 < CPU_SETSIZE && first < 0; cpu++) {
        first = CPU_ISSET(cpu, &all) && CPU_ISSET(cpu + 1, &all) ? cpu : -1;
    }
    if (first < 0) {
        cr_skip("no two CPUs in a row here");
    }
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    snprintf(want, sizeof(want), "%d", first);
    check_list(&set, want);
    CPU_SET(first + 1, &set);
    snprintf(want, sizeof(want), "%d-%d", first, first + 1);
    check_list(&set, want);
    if (CPU_ISSET(first + 3, &all)) {
        CPU_SET(first + 3, &set);
        snprintf(want, sizeof(want), "%d-%d,%d", first, first + 1, first + 3);
        check_list(&set, want);
    }
}

Test(sys, small_files_are_read_or_refused)
{
    char text[8];

    cr_assert(orl_sys_read_text("/proc/self/comm", text, sizeof(text)));
    cr_assert_eq(strlen(text), 7, "cut, and ended");
    cr_assert(!orl_sys_read_text("/proc/self/no-such-file", text, sizeof(text)));
}

Test(sys, host_name_has_no_domain_and_is_cut)
{
    char full[256];
    char name[256];
    char cut[3];
    cr_assert_eq(gethostname(full, sizeof(full)), 0);
    orl_sys_hostname(name, sizeof(name));
    cr_assert_null(strchr(name, '.'));
    cr_assert_eq(strncmp(full, name, strlen(name)), 0);
    orl_sys_hostname(cut, sizeof(cut));
    cr_assert_leq(strlen(cut), 2);
}

Test(sys, host_id_is_steady_and_differs_by_host_name)
{
    uint8_t first[16];
    uint8_t second[16];
    const uint8_t zero[16] = { 0 };
    orl_sys_host_id(first);
    orl_sys_host_id(second);
    cr_assert_arr_eq(first, second, 16);
    cr_assert_neq(memcmp(first, zero, 16), 0);
    if (unshare(CLONE_NEWUTS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWUTS) != 0) {
        cr_skip_test("no namespace for another host name");
    }
    cr_assert_eq(sethostname("other-host", 10), 0);
    orl_sys_host_id(second);
    cr_assert_neq(memcmp(first, second, 16), 0);
}

Test(sys, start_times_tell_processes_apart)
{
    uint64_t mine = orl_sys_pid_starttime(getpid());
    cr_assert_gt(mine, 0);
    cr_assert_eq(orl_sys_pid_starttime(getpid()), mine);
    cr_assert_geq(mine, orl_sys_pid_starttime(1));
    /* Parentheses and spaces in the name must not confuse. */
    cr_assert_eq(prctl(PR_SET_NAME, "a) b (c) 1 2", 0, 0, 0), 0);
    cr_assert_eq(orl_sys_pid_starttime(getpid()), mine);
    cr_assert_eq(orl_sys_pid_starttime(-5), 0);
}

Test(sys, thread_names_are_cut)
{
    char name[32] = "";
    orl_sys_thread_name("oriel-agent-of-rank-7");
    cr_assert_eq(prctl(PR_GET_NAME, name, 0, 0, 0), 0);
    cr_assert_str_eq(name, "oriel-agent-of-");
}

Test(sys, random_bytes_differ)
{
    uint8_t a[64] = { 0 };
    uint8_t b[64] = { 0 };
    cr_assert_eq(orl_sys_random(a, sizeof(a)), ORL_OK);
    cr_assert_eq(orl_sys_random(b, sizeof(b)), ORL_OK);
    cr_assert_neq(memcmp(a, b, sizeof(a)), 0);
    cr_assert_eq(orl_sys_random(NULL, 0), ORL_OK);
}

/* ---- Futex ---- */

static uint32_t *shared_word(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(page, MAP_FAILED);
    return page;
}

Test(futex, another_value_returns_at_once)
{
    uint32_t word = 5;
    cr_assert_eq(orl_sys_futex_wait(&word, 4, ORL_NEVER), ORL_OK);
    cr_assert_eq(orl_sys_futex_wake(&word, 1), 0);
}

Test(futex, time_outs_come_without_a_text)
{
    uint32_t word = 5;
    cr_assert_eq(orl_sys_futex_wait(&word, 5, 1000000), ORL_ERR_TIMEOUT);
    cr_assert_eq(orl_sys_futex_wait(&word, 5, 0), ORL_ERR_TIMEOUT);
    cr_assert_str_eq(orl_last_error(), "");
}

Test(futex, a_bad_word_is_an_error)
{
    cr_assert_eq(orl_sys_futex_wait((const void *)1, 5, 1000), ORL_ERR_SYS);
}

Test(futex, wakes_another_process, .timeout = 60)
{
    uint32_t *word = shared_word();
    pid_t child = fork();
    if (child == 0) {
        while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0) {
            if (orl_sys_futex_wait(word, 0, ORL_NEVER) != ORL_OK) {
                _exit(1);
            }
        }
        _exit(0);
    }
    /* Until the child sleeps nobody is woken; only then store. */
    while (orl_sys_futex_wake(word, 1) == 0) {
        sched_yield();
    }
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    orl_sys_futex_wake(word, 1);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void ignore_signal(int number)
{
    (void)number;
}

Test(futex, a_signal_ends_the_sleep_without_an_error, .timeout = 60)
{
    uint32_t word = 0;
    const struct sigaction action = { .sa_handler = ignore_signal };
    const struct itimerval timer = { .it_value = { .tv_usec = 20000 },
                                     .it_interval = { .tv_usec = 20000 } };
    cr_assert_eq(sigaction(SIGALRM, &action, NULL), 0);
    cr_assert_eq(setitimer(ITIMER_REAL, &timer, NULL), 0);
    cr_assert_eq(orl_sys_futex_wait(&word, 0, ORL_NEVER), ORL_OK);
}
