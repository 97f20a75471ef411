/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Facts about machine and process, and the futex.
 *
 * Called at start by whoever decides by them, and by every wait that parks. No state, no lock.
 * Limits of containers are read from the control groups, both versions, from the process's own
 * group up to the root, because any level may hold the smallest. Segments are in sys_segment.c.
 */
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/strbuf.h"

/* Largest affinity mask asked for. */
#define CPUS_MAX 65536

/* Longest path of a control group looked at. Longer ones read as "no limit". */
#define PATH_BYTES 512

/* Reads the limit that the group in `directory` sets itself; UINT64_MAX when none. */
typedef uint64_t (*read_limit_fn)(const char *directory);

/* ---- Small files ---- */

bool orl_sys_read_text(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    size_t length = 0;
    ssize_t n = 1;
    while (n > 0 && length < capacity - 1) {
        n = read(fd, text + length, capacity - 1 - length);
        length += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    text[length] = '\0';
    return n >= 0;
}

static bool read_group_text(const char *directory, const char *file, char *text, size_t capacity)
{
    char path[PATH_BYTES];
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, path, sizeof(path));
    orl_strbuf_addf(&sb, "%s/%s", directory, file);
    return orl_sys_read_text(path, text, capacity);
}

/* ---- Control groups ---- */

/* True when the comma-separated controllers of a line have this one. */
static bool has_controller(const char *controllers, size_t length, const char *controller)
{
    const char *end = controllers + length;
    size_t wanted = strlen(controller);
    for (;;) {
        size_t n = strcspn(controllers, ",:");
        if (n == wanted && memcmp(controllers, controller, n) == 0) {
            return true;
        }
        controllers += n + 1;
        if (controllers >= end) {
            return false;
        }
    }
}

/*
 * The process's group in the hierarchy of a controller; "" is that of version 2. Lines are
 * "number:controllers:path".
 */
static bool find_group(const char *root, const char *controller, struct orl_strbuf *group)
{
    char text[2048];
    if (!read_group_text(root, "proc/self/cgroup", text, sizeof(text))) {
        return false;
    }
    const char *line = text;
    while (*line != '\0') {
        size_t length = strcspn(line, "\n");
        const char *controllers = memchr(line, ':', length);
        const char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path != NULL && path < line + length &&
            has_controller(controllers + 1, (size_t)(path - controllers - 1), controller)) {
            path++;
            orl_strbuf_addf(group, "%.*s", (int)(line + length - path), path);
            return true;
        }
        line += length + (line[length] == '\n');
    }
    return false;
}

/* Smallest limit from the process's own group up to the root of the hierarchy. */
static uint64_t smallest_limit(const char *root, const char *controller, const char *mount,
                               read_limit_fn read_limit)
{
    char directory[PATH_BYTES];
    struct orl_strbuf sb;
    uint64_t smallest = UINT64_MAX;

    orl_strbuf_init(&sb, directory, sizeof(directory));
    orl_strbuf_addf(&sb, "%s%s", root, mount);
    size_t mount_length = sb.length;
    if (!find_group(root, controller, &sb)) {
        return UINT64_MAX;
    }
    for (;;) {
        uint64_t limit = read_limit(directory);
        smallest = limit < smallest ? limit : smallest;
        char *slash = strrchr(directory, '/');
        if (slash == NULL || slash < directory + mount_length) {
            return smallest;
        }
        *slash = '\0';
    }
}

/* "max", or a number. */
static uint64_t parse_limit(const char *text)
{
    char *end;
    uint64_t limit = strtoull(text, &end, 10);
    return end == text ? UINT64_MAX : limit;
}

static uint64_t read_memory_v1(const char *directory)
{
    char text[32];
    bool is_read = read_group_text(directory, "memory.limit_in_bytes", text, sizeof(text));
    return is_read ? parse_limit(text) : UINT64_MAX;
}

static uint64_t read_memory_v2(const char *directory)
{
    char text[32];
    bool is_read = read_group_text(directory, "memory.max", text, sizeof(text));
    return is_read ? parse_limit(text) : UINT64_MAX;
}

/* Quota and period in microseconds as thousandths of a CPU; a quota of -1 is none. */
static uint64_t cpu_share(const char *quota_text, const char *period_text)
{
    long long quota = strtoll(quota_text, NULL, 10);
    long long period = strtoll(period_text, NULL, 10);
    if (quota <= 0 || period <= 0 || quota > INT64_MAX / 1000) {
        return UINT64_MAX;
    }
    return (uint64_t)quota * 1000 / (uint64_t)period;
}

static uint64_t read_cpu_v1(const char *directory)
{
    char quota[32];
    char period[32];
    bool is_read = read_group_text(directory, "cpu.cfs_quota_us", quota, sizeof(quota)) &&
                   read_group_text(directory, "cpu.cfs_period_us", period, sizeof(period));
    return is_read ? cpu_share(quota, period) : UINT64_MAX;
}

/* "quota period", or "max period". */
static uint64_t read_cpu_v2(const char *directory)
{
    char text[64];
    if (!read_group_text(directory, "cpu.max", text, sizeof(text))) {
        return UINT64_MAX;
    }
    return cpu_share(text, text + strcspn(text, " "));
}

uint64_t orl_sys_cgroup_memory_limit(const char *root)
{
    uint64_t v2 = smallest_limit(root, "", "/sys/fs/cgroup", read_memory_v2);
    uint64_t v1 = smallest_limit(root, "memory", "/sys/fs/cgroup/memory", read_memory_v1);
    return v1 < v2 ? v1 : v2;
}

uint64_t orl_sys_cgroup_cpu_limit(const char *root)
{
    uint64_t v2 = smallest_limit(root, "", "/sys/fs/cgroup", read_cpu_v2);
    uint64_t v1 = smallest_limit(root, "cpu", "/sys/fs/cgroup/cpu", read_cpu_v1);
    return v1 < v2 ? v1 : v2;
}

/* ---- Machine and process ---- */

size_t orl_sys_page_bytes(void)
{
    long bytes = sysconf(_SC_PAGESIZE);
    return bytes > 0 ? (size_t)bytes : 4096;
}

uint64_t orl_sys_mem_total_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    uint64_t physical = pages > 0 ? (uint64_t)pages * orl_sys_page_bytes() : UINT64_MAX;
    uint64_t limit = orl_sys_cgroup_memory_limit("");
    return limit < physical ? limit : physical;
}

uint64_t orl_sys_mem_available_bytes(void)
{
    static const char key[] = "MemAvailable:";
    char text[2048];
    uint64_t total = orl_sys_mem_total_bytes();
    const char *line =
        orl_sys_read_text("/proc/meminfo", text, sizeof(text)) ? strstr(text, key) : NULL;
    if (line == NULL) {
        return total;
    }
    uint64_t available = strtoull(line + sizeof(key) - 1, NULL, 10) * 1024;
    return available < total ? available : total;
}

int orl_sys_cpus_allowed(void)
{
    int count = 1;
    for (int cpus = 1024; cpus <= CPUS_MAX; cpus *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (set == NULL) {
            break;
        }
        size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        bool is_done = sched_getaffinity(0, bytes, set) == 0;
        count = is_done ? CPU_COUNT_S(bytes, set) : count;
        CPU_FREE(set);
        /* EINVAL says that the kernel's mask is larger. */
        if (is_done || errno != EINVAL) {
            break;
        }
    }
    return count > 0 ? count : 1;
}

int orl_sys_cgroup_cpus(void)
{
    uint64_t thousandths = orl_sys_cgroup_cpu_limit("");
    uint64_t cpus = thousandths / 1000 + (thousandths % 1000 != 0);
    if (thousandths == UINT64_MAX || cpus > INT_MAX) {
        return 0;
    }
    return cpus > 0 ? (int)cpus : 1;
}

void orl_sys_cpu_list(struct orl_strbuf *out)
{
    cpu_set_t set;
    size_t before = out->length;
    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        orl_strbuf_add(out, "more than can be listed");
        return;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        int last = cpu;
        while (CPU_ISSET(cpu, &set) && last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) {
            last++;
        }
        if (CPU_ISSET(cpu, &set)) {
            orl_strbuf_addf(out, "%s%d", out->length > before ? "," : "", cpu);
        }
        if (last > cpu) {
            orl_strbuf_addf(out, "-%d", last);
        }
        cpu = last;
    }
}

void orl_sys_hostname(char *name, size_t capacity)
{
    char full[HOST_NAME_MAX + 1] = "";
    struct orl_strbuf sb;
    if (gethostname(full, sizeof(full) - 1) != 0 || full[0] == '\0') {
        memcpy(full, "unknown", sizeof("unknown"));
    }
    full[strcspn(full, ".")] = '\0';
    orl_strbuf_init(&sb, name, capacity);
    orl_strbuf_add(&sb, full);
}

/* FNV-1a, 64 bits (Fowler, Noll, Vo), with a final mix that spreads the last bytes. */
static uint64_t hash_text(const char *text, uint64_t hash)
{
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    hash ^= hash >> 32;
    hash *= UINT64_C(0xd6e8feb86659fd93);
    return hash ^ (hash >> 32);
}

void orl_sys_host_id(uint8_t id[16])
{
    char text[256];
    char name[HOST_NAME_MAX + 1] = "";
    struct orl_strbuf sb;

    /* Without a boot id the machine's own will do; with neither, the name has to. */
    if (!orl_sys_read_text("/proc/sys/kernel/random/boot_id", text, 64) &&
        !orl_sys_read_text("/etc/machine-id", text, 64)) {
        text[0] = '\0';
    }
    sb = (struct orl_strbuf){ .text = text, .capacity = sizeof(text), .length = strlen(text) };
    if (gethostname(name, sizeof(name) - 1) == 0) {
        orl_strbuf_add(&sb, name);
    }
    const uint64_t halves[2] = { hash_text(text, UINT64_C(0xcbf29ce484222325)),
                                 hash_text(text, UINT64_C(0x9ae16a3b2f90404f)) };
    memcpy(id, halves, sizeof(halves));
}

uint64_t orl_sys_pid_starttime(pid_t pid)
{
    char path[64];
    char text[1024];
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, path, sizeof(path));
    orl_strbuf_addf(&sb, "/proc/%d/stat", (int)pid);
    if (!orl_sys_read_text(path, text, sizeof(text))) {
        return 0;
    }
    /* The name in parentheses may hold anything; field 22 is the 20th after it (proc(5)). */
    const char *field = strrchr(text, ')');
    for (int i = 0; i < 20 && field != NULL; i++) {
        field = strchr(field + 1, ' ');
    }
    return field != NULL ? strtoull(field, NULL, 10) : 0;
}

void orl_sys_thread_name(const char *name)
{
    char cut[16];
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, cut, sizeof(cut));
    orl_strbuf_add(&sb, name);
    prctl(PR_SET_NAME, cut, 0, 0, 0);
}

int orl_sys_random(void *bytes, size_t n)
{
    char *next = bytes;
    while (n > 0) {
        ssize_t got = getrandom(next, n, 0);
        if (got < 0 && errno != EINTR) {
            return orl_fail(ORL_ERR_SYS, "the kernel gives no random bytes: %s",
                            orl_os_text(errno));
        }
        if (got > 0) {
            next += got;
            n -= (size_t)got;
        }
    }
    return ORL_OK;
}

/* ---- Futex ---- */

int orl_sys_futex_wait(const void *word, uint32_t expect, uint64_t timeout_ns)
{
    struct timespec timeout = { .tv_sec = (time_t)(timeout_ns / ORL_NS_PER_S),
                                .tv_nsec = (long)(timeout_ns % ORL_NS_PER_S) };
    const struct timespec *limit = timeout_ns == ORL_NEVER ? NULL : &timeout;
    if (syscall(SYS_futex, word, FUTEX_WAIT, expect, limit, NULL, 0) == 0) {
        return ORL_OK;
    }
    switch (errno) {
    case EAGAIN:
    case EINTR:
        return ORL_OK;
    case ETIMEDOUT:
        return ORL_ERR_TIMEOUT;
    default:
        return orl_fail(ORL_ERR_SYS, "cannot sleep on the word at %p: %s", word,
                        orl_os_text(errno));
    }
}

int orl_sys_futex_wake(void *word, int n)
{
    long woken = syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);
    return woken > 0 ? (int)woken : 0;
}
