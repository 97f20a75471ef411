/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared segments: making, filling with pages, mapping, attaching, and the locks that prove life.
 *
 * Called by the fabric's node segment. No state, no lock. Written for machines where memory files
 * are forbidden, /dev/shm is tiny, limits are set, and processes are killed: nothing here leaves a
 * name behind that the caller was not told, and no store to reserved pages can fail later. What
 * lies in a segment is not known here.
 */
#include "base/sys.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "base/strbuf.h"

/* Letters of the caller's hint that go into the name. */
#define HINT_LENGTH 24

/* Pages are reserved in pieces, so that a signal (a profiler's, say) undoes little. */
#define RESERVE_PIECE_BYTES (UINT64_C(16) << 20)

/* Below this, reserving does not look first whether the machine has the memory. */
#define RESERVE_CHECK_BYTES (UINT64_C(4) << 20)

/* Where a mapping begins, so that huge pages can lie in it. */
#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)

static const char *const directories[] = { "/dev/shm", "/tmp" };

/* ---- Making ---- */

static void add_hint(struct orl_strbuf *name, const char *hint)
{
    char word[HINT_LENGTH + 1];
    size_t length = 0;
    for (; *hint != '\0' && length < HINT_LENGTH; hint++) {
        word[length++] = isalnum((unsigned char)*hint) ? *hint : '_';
    }
    word[length] = '\0';
    orl_strbuf_addf(name, "oriel-%s", word);
}

/* Not below the limit, since the kernel answers a larger file with a signal that kills. */
static int check_file_limit(uint64_t bytes)
{
    char words[128];
    struct orl_strbuf sb;
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= (uint64_t)limit.rlim_cur) {
        return ORL_OK;
    }
    orl_strbuf_init(&sb, words, sizeof(words));
    orl_strbuf_add_bytes(&sb, bytes);
    orl_strbuf_add(&sb, " is needed, the limit is ");
    orl_strbuf_add_bytes(&sb, (uint64_t)limit.rlim_cur);
    return orl_fail(ORL_ERR_NOMEM,
                    "a shared segment is larger than files may be: %s; raise it with "
                    "'ulimit -f unlimited'",
                    words);
}

static int open_memfd(const char *hint, int *fd)
{
    char name[64];
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, name, sizeof(name));
    add_hint(&sb, hint);
    int opened = memfd_create(name, MFD_CLOEXEC);
    if (opened < 0) {
        return orl_fail(ORL_ERR_SYS,
                        "cannot make a memory file: %s; ORIEL_SHM_BACKING=file uses /dev/shm",
                        orl_os_text(errno));
    }
    *fd = opened;
    return ORL_OK;
}

/* What the user may try when a file cannot be made. */
static const char *remedy_of(int os_error)
{
    switch (os_error) {
    case EMFILE:
        return "this process may have more of them after 'ulimit -n'";
    case ENFILE:
        return "the whole system has too many; see /proc/sys/fs/file-max";
    default:
        return "let this user write there, or use memory files (ORIEL_SHM_BACKING=memfd)";
    }
}

static int open_file_in(const char *directory, const char *hint, struct orl_sys_segment *segment)
{
    uint64_t number[2];
    struct orl_strbuf path;
    int status = orl_sys_random(number, sizeof(number));
    if (status != ORL_OK) {
        return status;
    }
    orl_strbuf_init(&path, segment->path, sizeof(segment->path));
    orl_strbuf_addf(&path, "%s/", directory);
    add_hint(&path, hint);
    orl_strbuf_addf(&path, "-%016" PRIx64 "%016" PRIx64, number[0], number[1]);
    segment->fd = open(segment->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (segment->fd < 0) {
        int os_error = errno;
        return orl_fail(ORL_ERR_SYS, "cannot make the file %s: %s; %s", segment->path,
                        orl_os_text(os_error), remedy_of(os_error));
    }
    return ORL_OK;
}

static int open_file(const char *hint, struct orl_sys_segment *segment)
{
    int status = ORL_OK;
    for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
        status = open_file_in(directories[i], hint, segment);
        if (status == ORL_OK) {
            break;
        }
    }
    return status;
}

static int open_backing(enum orl_sys_backing backing, const char *hint,
                        struct orl_sys_segment *segment)
{
    segment->path[0] = '\0';
    if (backing == ORL_SYS_BACKING_FILE) {
        return open_file(hint, segment);
    }
    int status = open_memfd(hint, &segment->fd);
    if (status == ORL_OK || backing == ORL_SYS_BACKING_MEMFD) {
        return status;
    }
    /* An old kernel, a seccomp filter, a policy: the file does as well. */
    orl_log_info(ORL_CAT_BASE, "%s", orl_last_error());
    orl_last_error_clear();
    return open_file(hint, segment);
}

int orl_sys_segment_create(enum orl_sys_backing backing, const char *hint, uint64_t bytes,
                           struct orl_sys_segment *segment)
{
    struct orl_sys_segment made = { .fd = -1 };
    int status = check_file_limit(bytes);
    if (status != ORL_OK) {
        return status;
    }
    status = open_backing(backing, hint, &made);
    if (status != ORL_OK) {
        return status;
    }
    /* By descriptor: the umask has had its say at open. */
    if (fchmod(made.fd, 0600) != 0 || ftruncate(made.fd, (off_t)bytes) != 0) {
        status = orl_fail(ORL_ERR_SYS, "cannot make a shared segment of %" PRIu64 " bytes: %s",
                          bytes, orl_os_text(errno));
        goto err_discard;
    }
    *segment = made;
    return ORL_OK;

err_discard:
    if (made.path[0] != '\0') {
        unlink(made.path);
    }
    close(made.fd);
    return status;
}

/* ---- Pages ---- */

/* How much the file system below the descriptor has left; UINT64_MAX when it has no limit. */
static uint64_t file_system_free(int fd)
{
    struct statvfs stat;
    if (fstatvfs(fd, &stat) != 0 || stat.f_blocks == 0) {
        return UINT64_MAX;
    }
    return (uint64_t)stat.f_bavail * stat.f_frsize;
}

static int fail_room(int fd, uint64_t bytes, int os_error)
{
    char words[128];
    struct orl_strbuf sb;
    uint64_t room = file_system_free(fd);
    uint64_t memory = orl_sys_mem_available_bytes();
    bool is_file_system = room < memory;

    orl_strbuf_init(&sb, words, sizeof(words));
    orl_strbuf_add_bytes(&sb, bytes);
    orl_strbuf_add(&sb, " more needed, ");
    orl_strbuf_add_bytes(&sb, is_file_system ? room : memory);
    orl_strbuf_add(&sb, is_file_system ? " free in its file system" : " of memory free");
    return orl_fail(
        ORL_ERR_NOMEM, "no room for shared memory: %s (%s); %s", words, orl_os_text(os_error),
        is_file_system ? "enlarge it ('mount -o remount,size=... /dev/shm', for containers "
                         "'--shm-size'), or use memory files (ORIEL_SHM_BACKING=memfd)"
                       : "use fewer ranks or smaller windows, or raise the memory limit of the "
                         "container or job");
}

/* Reserves one piece; interrupted calls begin again. Returns an errno value or 0. */
static int reserve_piece(int fd, uint64_t offset, uint64_t bytes)
{
    int result;
    do {
        result = fallocate(fd, 0, (off_t)offset, (off_t)bytes);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

int orl_sys_reserve(int fd, uint64_t offset, uint64_t bytes)
{
    uint64_t end;
    if (__builtin_add_overflow(offset, bytes, &end) || end > INT64_MAX) {
        return orl_fail(ORL_ERR_INVAL, "no segment has a range of %" PRIu64 " bytes at %" PRIu64,
                        bytes, offset);
    }
    struct stat stat;
    if (fstat(fd, &stat) == 0 && end > (uint64_t)stat.st_size) {
        int status = check_file_limit(end);
        if (status != ORL_OK) {
            return status;
        }
    }
    /* A memory file has no limit of its own: the kernel would take all there is, then kill. */
    if (bytes > RESERVE_CHECK_BYTES && bytes > orl_sys_mem_available_bytes()) {
        return fail_room(fd, bytes, ENOMEM);
    }
    while (offset < end) {
        uint64_t piece = end - offset < RESERVE_PIECE_BYTES ? end - offset : RESERVE_PIECE_BYTES;
        int os_error = reserve_piece(fd, offset, piece);
        if (os_error == ENOSPC || os_error == ENOMEM || os_error == EFBIG || os_error == EDQUOT) {
            return fail_room(fd, end - offset, os_error);
        }
        if (os_error != 0) {
            return orl_fail(ORL_ERR_SYS, "cannot reserve %" PRIu64 " bytes of shared memory: %s",
                            piece, orl_os_text(os_error));
        }
        offset += piece;
    }
    return ORL_OK;
}

int orl_sys_release(int fd, uint64_t offset, uint64_t bytes)
{
    /* Only whole pages: the kernel would zero the rest of a page that is still in use. */
    uint64_t page = orl_sys_page_bytes();
    uint64_t first = (offset + page - 1) / page * page;
    uint64_t end = (offset + bytes) / page * page;
    if (first >= end) {
        return ORL_OK;
    }
    int result;
    do {
        result = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first,
                           (off_t)(end - first));
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
        return orl_fail(ORL_ERR_SYS, "cannot give back %" PRIu64 " bytes of shared memory: %s",
                        end - first, orl_os_text(errno));
    }
    return ORL_OK;
}

/* ---- Mapping ---- */

static int fail_map(uint64_t bytes, int os_error)
{
    char words[128];
    struct orl_strbuf sb;
    struct rlimit limit;
    orl_strbuf_init(&sb, words, sizeof(words));
    orl_strbuf_add_bytes(&sb, bytes);
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        orl_strbuf_add(&sb, "; address space is limited to ");
        orl_strbuf_add_bytes(&sb, (uint64_t)limit.rlim_cur);
        orl_strbuf_add(&sb, ", raise it with 'ulimit -v unlimited'");
    }
    return orl_fail(os_error == ENOMEM ? ORL_ERR_NOMEM : ORL_ERR_SYS,
                    "cannot map a shared segment (%s) of %s; ORIEL_SHM_SIZE makes it smaller",
                    orl_os_text(os_error), words);
}

/* Maps over address space that is held already; head and tail of that go back. */
static void *map_inside(int fd, uint64_t bytes, unsigned char *room, uint64_t room_bytes)
{
    uint64_t head = (HUGE_PAGE_BYTES - (uintptr_t)room % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    uint64_t tail = room_bytes - head - bytes;
    void *mapped = mmap(room + head, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
    if (mapped == MAP_FAILED) {
        return mapped;
    }
    if (head > 0) {
        munmap(room, head);
    }
    if (tail > 0) {
        munmap(room + head + bytes, tail);
    }
    return mapped;
}

int orl_sys_map(int fd, uint64_t bytes, void **base)
{
    /* The kernel uses huge pages only where address and offset agree about where one begins. */
    uint64_t page = orl_sys_page_bytes();
    uint64_t whole = (bytes + page - 1) / page * page;
    uint64_t room_bytes = whole + HUGE_PAGE_BYTES;
    void *room =
        mmap(NULL, room_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) {
        return fail_map(bytes, errno);
    }
    void *mapped = map_inside(fd, whole, room, room_bytes);
    if (mapped == MAP_FAILED) {
        int os_error = errno;
        munmap(room, room_bytes);
        return fail_map(bytes, os_error);
    }
    /* A core file of every rank would hold the memory of all; a refusal costs only disk. */
    madvise(mapped, whole, MADV_DONTDUMP);
    *base = mapped;
    return ORL_OK;
}

void orl_sys_unmap(void *base, uint64_t bytes)
{
    if (base != NULL && munmap(base, bytes) != 0) {
        orl_log_warn(ORL_CAT_BASE, "cannot unmap %" PRIu64 " bytes at %p: %s", bytes, base,
                     orl_os_text(errno));
    }
}

bool orl_sys_huge_pages(void *base, uint64_t bytes)
{
    return madvise(base, bytes, MADV_HUGEPAGE) == 0;
}

/* ---- Attaching ---- */

/* What another process names is opened only if it is a plain file of this user alone. */
static int check_segment(int fd, const char *path)
{
    struct stat stat;
    if (fstat(fd, &stat) != 0) {
        return orl_fail(ORL_ERR_SYS, "cannot look at %s: %s", path, orl_os_text(errno));
    }
    if (!S_ISREG(stat.st_mode) || stat.st_uid != geteuid() || (stat.st_mode & 0077) != 0) {
        return orl_fail(ORL_ERR_SYS,
                        "%s is no segment of ours: mode %o, user %u, expected a file of mode 600 "
                        "of user %u",
                        path, (unsigned)stat.st_mode, (unsigned)stat.st_uid, (unsigned)geteuid());
    }
    return ORL_OK;
}

static int attach(const char *path, int flags, const char *remedy, int *my_fd)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags);
    if (fd < 0) {
        int os_error = errno;
        bool is_forbidden = os_error == EACCES || os_error == EPERM;
        return orl_fail(ORL_ERR_SYS, "cannot attach the shared segment %s: %s%s", path,
                        orl_os_text(os_error), is_forbidden ? remedy : "");
    }
    int status = check_segment(fd, path);
    if (status != ORL_OK) {
        close(fd);
        return status;
    }
    *my_fd = fd;
    return ORL_OK;
}

int orl_sys_attach(pid_t pid, int fd, int *my_fd)
{
    char path[64];
    struct orl_strbuf sb;
    orl_strbuf_init(&sb, path, sizeof(path));
    orl_strbuf_addf(&sb, "/proc/%d/fd/%d", (int)pid, fd);
    return attach(path, 0,
                  "; ranks of one host that are in user namespaces or containers apart need "
                  "ORIEL_SHM_BACKING=file",
                  my_fd);
}

int orl_sys_attach_path(const char *path, int *my_fd)
{
    return attach(path, O_NOFOLLOW, "", my_fd);
}

/* ---- Proof of life ---- */

static struct flock one_byte(uint64_t index)
{
    return (struct flock){
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)index, .l_len = 1
    };
}

int orl_sys_lock_byte(int fd, uint64_t index)
{
    struct flock lock = one_byte(index);
    if (fcntl(fd, F_SETLK, &lock) == 0) {
        return ORL_OK;
    }
    if (errno == EAGAIN || errno == EACCES) {
        return orl_fail(ORL_ERR_BUSY, "byte %" PRIu64 " of the shared segment is another process's",
                        index);
    }
    return orl_fail(ORL_ERR_SYS, "cannot lock byte %" PRIu64 " of the shared segment: %s", index,
                    orl_os_text(errno));
}

bool orl_sys_byte_is_locked(int fd, uint64_t index)
{
    struct flock lock = one_byte(index);
    return fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}
