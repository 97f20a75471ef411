/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared segments under limits, in poor containers, between processes, and after their death.
 */
#include "base/sys.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/status.h"

#define MIB (UINT64_C(1) << 20)

static struct orl_sys_segment make(enum orl_sys_backing backing, uint64_t bytes)
{
    struct orl_sys_segment segment;
    cr_assert_eq(orl_sys_segment_create(backing, "te st/1", bytes, &segment), ORL_OK, "%s",
                 orl_last_error());
    return segment;
}

static struct stat look(int fd)
{
    struct stat stat;
    cr_assert_eq(fstat(fd, &stat), 0);
    return stat;
}

/* Makes the kernel refuse memory files in this process, as some containers do. */
static void forbid_memfd(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1 /* EPERM */),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };
    cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0) {
        cr_skip_test("no seccomp filters here");
    }
}

Test(segment, memory_file_has_no_name_and_mode_0600)
{
    umask(0);
    struct orl_sys_segment segment = make(ORL_SYS_BACKING_AUTO, 64 * MIB);
    struct stat stat = look(segment.fd);
    cr_assert_str_eq(segment.path, "");
    cr_assert_eq(stat.st_mode & 07777, 0600);
    cr_assert_eq(stat.st_size, 64 * MIB);
    cr_assert_eq(stat.st_blocks, 0, "no page exists yet");
    cr_assert_eq(fcntl(segment.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    close(segment.fd);
}

/* Names cannot be foreseen, so leftovers and foreign files cannot clash. */
Test(segment, files_have_unguessable_names_and_mode_0600)
{
    umask(0777);
    struct orl_sys_segment a = make(ORL_SYS_BACKING_FILE, MIB);
    struct orl_sys_segment b = make(ORL_SYS_BACKING_FILE, MIB);
    cr_assert_eq(look(a.fd).st_mode & 07777, 0600);
    cr_assert_str_neq(a.path, b.path);
    cr_assert_eq(strncmp(a.path, "/dev/shm/oriel-te_st_1-", 23), 0, "%s", a.path);
    cr_assert_eq(strlen(a.path), 23 + 32);
    int fd;
    cr_assert_eq(orl_sys_attach_path(a.path, &fd), ORL_OK);
    cr_assert_eq(look(fd).st_ino, look(a.fd).st_ino);
    cr_assert_eq(unlink(a.path), 0);
    cr_assert_eq(unlink(b.path), 0);
    cr_assert_eq(orl_sys_attach_path(a.path, &fd), ORL_ERR_SYS);
}

Test(segment, falls_back_to_a_file_where_memory_files_are_forbidden)
{
    struct orl_sys_segment segment;
    forbid_memfd();
    cr_assert_eq(orl_sys_segment_create(ORL_SYS_BACKING_MEMFD, "x", MIB, &segment), ORL_ERR_SYS);
    cr_assert_not_null(strstr(orl_last_error(), "ORIEL_SHM_BACKING=file"));
    orl_last_error_clear();
    segment = make(ORL_SYS_BACKING_AUTO, MIB);
    cr_assert_neq(segment.path[0], '\0');
    cr_assert_str_eq(orl_last_error(), "");
    cr_assert_eq(unlink(segment.path), 0);
}

Test(segment, a_limit_on_file_sizes_is_an_error_and_no_signal)
{
    struct orl_sys_segment segment;
    const struct rlimit limit = { .rlim_cur = MIB, .rlim_max = MIB };
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert_eq(orl_sys_segment_create(ORL_SYS_BACKING_AUTO, "x", 2 * MIB, &segment),
                 ORL_ERR_NOMEM);
    cr_assert_not_null(strstr(orl_last_error(), "2 MiB is needed, the limit is 1 MiB"));
    cr_assert_not_null(strstr(orl_last_error(), "ulimit -f"));
    segment = make(ORL_SYS_BACKING_AUTO, MIB);
    cr_assert_eq(orl_sys_reserve(segment.fd, MIB, MIB), ORL_ERR_NOMEM);
}

Test(segment, reserve_and_release_keep_what_is_outside)
{
    void *base;
    size_t page = orl_sys_page_bytes();
    struct orl_sys_segment segment = make(ORL_SYS_BACKING_AUTO, 8 * MIB);
    cr_assert_eq(orl_sys_map(segment.fd, 8 * MIB, &base), ORL_OK);
    unsigned char *bytes = base;
    bytes[0] = 1;
    cr_assert_eq(orl_sys_reserve(segment.fd, 0, 4 * MIB), ORL_OK);
    cr_assert_eq((uint64_t)look(segment.fd).st_blocks * 512, 4 * MIB);
    cr_assert_eq(bytes[0], 1, "reserving keeps the contents");

    memset(bytes, 7, 4 * page);
    cr_assert_eq(orl_sys_release(segment.fd, 1, 3 * page), ORL_OK);
    cr_assert_eq(bytes[1], 7, "the first page is not whole");
    cr_assert_eq(bytes[page], 0);
    cr_assert_eq(bytes[3 * page - 1], 0);
    cr_assert_eq(bytes[3 * page], 7, "nor is the last");
    cr_assert_eq(orl_sys_release(segment.fd, 1, 10), ORL_OK);
    cr_assert_eq(bytes[1], 7, "nothing there is whole");
    /* Kernels with large pages keep a page that is partly in use, so ask about large ranges. */
    cr_assert_eq(orl_sys_release(segment.fd, 2 * MIB, 2 * MIB), ORL_OK);
    cr_assert_leq((uint64_t)look(segment.fd).st_blocks * 512, 2 * MIB);
    orl_sys_unmap(base, 8 * MIB);
}

Test(segment, impossible_sizes_are_errors_before_anything_is_taken)
{
    uint64_t huge = orl_sys_mem_total_bytes() + 64 * MIB;
    struct orl_sys_segment segment = make(ORL_SYS_BACKING_MEMFD, huge);
    cr_assert_eq(orl_sys_reserve(segment.fd, 0, huge), ORL_ERR_NOMEM);
    cr_assert_not_null(strstr(orl_last_error(), "of memory free"));
    cr_assert_eq(look(segment.fd).st_blocks, 0);
    cr_assert_eq(orl_sys_reserve(segment.fd, UINT64_MAX, 2), ORL_ERR_INVAL);
    cr_assert_eq(orl_sys_reserve(segment.fd, 0, UINT64_MAX / 2 + 2), ORL_ERR_INVAL);
}

/* A container's small /dev/shm: an error with numbers instead of a bus error. */
Test(segment, small_dev_shm_is_an_error_with_numbers)
{
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
        cr_skip_test("no mount namespace here");
    }
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/dev/shm", "tmpfs", 0, "size=1m") != 0) {
        cr_skip_test("no mounts here");
    }
    struct orl_sys_segment segment = make(ORL_SYS_BACKING_FILE, 64 * MIB);
    cr_assert_eq(orl_sys_reserve(segment.fd, 0, MIB / 2), ORL_OK);
    cr_assert_eq(orl_sys_reserve(segment.fd, MIB, 2 * MIB), ORL_ERR_NOMEM);
    cr_assert_not_null(strstr(orl_last_error(), "2 MiB more needed"), "%s", orl_last_error());
    cr_assert_not_null(strstr(orl_last_error(), "free in its file system"));
    cr_assert_not_null(strstr(orl_last_error(), "--shm-size"));
    cr_assert_eq(orl_sys_reserve(segment.fd, 0, MIB / 2), ORL_OK, "what is reserved stays usable");
}

Test(segment, errors_of_mapping_name_the_limit)
{
    void *base = NULL;
    struct orl_sys_segment segment = make(ORL_SYS_BACKING_AUTO, UINT64_C(1) << 40);
    const struct rlimit limit = { .rlim_cur = UINT64_C(1) << 36, .rlim_max = RLIM_INFINITY };
    struct rlimit before;
    cr_assert_eq(getrlimit(RLIMIT_AS, &before), 0);
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    int status = orl_sys_map(segment.fd, UINT64_C(1) << 40, &base);
    /* Back at once: sanitizers need address space for what follows. */
    cr_assert_eq(setrlimit(RLIMIT_AS, &before), 0);
    cr_assert_eq(status, ORL_ERR_NOMEM);
    cr_assert_not_null(strstr(orl_last_error(), "limited to 64 GiB"), "%s", orl_last_error());
    cr_assert_null(base);
    cr_assert_eq(orl_sys_map(-1, 4096, &base), ORL_ERR_SYS);
    orl_sys_unmap(NULL, 0);
}

/* ---- Between processes ---- */

/* Runs in a child that then sleeps until it is killed; `ready` tells the parent it is done. */
static pid_t spawn(const struct orl_sys_segment *segment, int64_t lock_index)
{
    int pipe_fds[2];
    char byte = 0;
    cr_assert_eq(pipe(pipe_fds), 0);
    pid_t child = fork();
    if (child == 0) {
        bool is_done = lock_index < 0 || orl_sys_lock_byte(segment->fd, (uint64_t)lock_index) == 0;
        byte = is_done ? 1 : 2;
        (void)!write(pipe_fds[1], &byte, 1);
        for (;;) {
            pause();
        }
    }
    cr_assert_eq(read(pipe_fds[0], &byte, 1), 1);
    cr_assert_eq(byte, 1);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    return child;
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, NULL, 0), child);
}

Test(segment, attach_by_process, .timeout = 60)
{
    int fd;
    void *mine;
    void *theirs;
    struct orl_sys_segment segment = make(ORL_SYS_BACKING_FILE, MIB);
    pid_t child = spawn(&segment, -1);
    cr_assert_eq(unlink(segment.path), 0);
    cr_assert_eq(orl_sys_attach(child, segment.fd, &fd), ORL_OK, "%s", orl_last_error());
    cr_assert_neq(fd, segment.fd);
    cr_assert_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    cr_assert_eq(orl_sys_map(segment.fd, MIB, &mine), ORL_OK);
    cr_assert_eq(orl_sys_map(fd, MIB, &theirs), ORL_OK);
    memcpy(mine, "hello", 6);
    cr_assert_str_eq((const char *)theirs, "hello");
    end(child);
    cr_assert_eq(orl_sys_attach(child, segment.fd, &fd), ORL_ERR_SYS);
}

Test(segment, what_is_not_a_private_file_is_not_attached)
{
    int fd = -1;
    char path[] = "/tmp/oriel-test-XXXXXX";
    int file = mkstemp(path);
    cr_assert_geq(file, 0);
    cr_assert_eq(fchmod(file, 0644), 0);
    cr_assert_eq(orl_sys_attach_path(path, &fd), ORL_ERR_SYS);
    cr_assert_not_null(strstr(orl_last_error(), "no segment of ours"));
    cr_assert_eq(fchmod(file, 0600), 0);
    cr_assert_eq(orl_sys_attach_path(path, &fd), ORL_OK);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(symlink("/dev/null", path), 0);
    cr_assert_eq(orl_sys_attach_path(path, &fd), ORL_ERR_SYS, "links are not followed");
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(orl_sys_attach_path("/dev/zero", &fd), ORL_ERR_SYS);
}

Test(segment, a_lock_proves_life_until_death_as_zombie, .timeout = 60)
{
    struct orl_sys_segment segment = make(ORL_SYS_BACKING_AUTO, 4096);
    cr_assert_not(orl_sys_byte_is_locked(segment.fd, 70000));
    pid_t child = spawn(&segment, 70000);
    cr_assert(orl_sys_byte_is_locked(segment.fd, 70000));
    cr_assert_not(orl_sys_byte_is_locked(segment.fd, 69999));
    cr_assert_eq(orl_sys_lock_byte(segment.fd, 70000), ORL_ERR_BUSY);
    cr_assert_eq(kill(child, SIGSTOP), 0);
    cr_assert(orl_sys_byte_is_locked(segment.fd, 70000), "stopped is not dead");
    kill(child, SIGKILL);
    /* Not waited for, so that it stays a zombie. */
    while (orl_sys_byte_is_locked(segment.fd, 70000)) {
        sched_yield();
    }
    cr_assert_eq(kill(child, 0), 0, "the pid still exists");
    cr_assert_eq(waitpid(child, NULL, 0), child);
    cr_assert_eq(orl_sys_lock_byte(segment.fd, 70000), ORL_OK);
    cr_assert_not(orl_sys_byte_is_locked(segment.fd, 70000), "one's own is not seen");
    cr_assert(orl_sys_byte_is_locked(-1, 0), "doubt is life");
}

/* Memory and names go with the last process, however it ends. */
Test(segment, nothing_is_left_after_kill, .timeout = 60)
{
    pid_t child = fork();
    if (child == 0) {
        struct orl_sys_segment segment;
        if (orl_sys_segment_create(ORL_SYS_BACKING_AUTO, "kill", MIB, &segment) != ORL_OK ||
            orl_sys_reserve(segment.fd, 0, MIB) != ORL_OK || segment.path[0] != '\0') {
            _exit(1);
        }
        raise(SIGKILL);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status));
    DIR *shm = opendir("/dev/shm");
    cr_assert_not_null(shm);
    for (const struct dirent *entry = readdir(shm); entry != NULL; entry = readdir(shm)) {
        cr_expect_neq(strncmp(entry->d_name, "oriel-kill-", 11), 0, "%s", entry->d_name);
    }
    closedir(shm);
}
