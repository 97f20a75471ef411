/* SPDX-License-Identifier: BSD-3-Clause */
#include "bare_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PORT = 7471,
    TRIES = 400, /* of 50 ms: the other one may start later */
    TRY_NS = 50000000
};

static int link_fd = -1;
static pid_t child;
static char own_address[INET_ADDRSTRLEN];
static bool is_local;

static const char *setting(const char *name, const char *otherwise)
{
    const char *text = getenv(name);

    return text != NULL && *text != '\0' ? text : otherwise;
}

static bool complain(const char *what)
{
    fprintf(stderr, "bare_ofi: %s: %s\n", what, strerror(errno));
    return false;
}

/* By launcher, else as two processes of our own making, which end together. */
static bool find_rank(int *rank)
{
    const char *text = setting("BARE_RANK", setting("PMIX_RANK", NULL));
    pid_t parent = getpid();

    if (text != NULL) {
        *rank = atoi(text);
        return *rank == 0 || *rank == 1 || complain("there are just two ranks");
    }
    child = fork();
    if (child < 0) {
        return complain("fork");
    }
    *rank = child == 0 ? 1 : 0;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
    }
    return true;
}

static int accept_one(const struct sockaddr_in *at)
{
    static const int yes = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = -1;

    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(listener, (const struct sockaddr *)at, sizeof(*at)) == 0 && listen(listener, 1) == 0) {
        fd = accept(listener, NULL, NULL);
    }
    close(listener);
    return fd;
}

static int connect_to(const struct sockaddr_in *at)
{
    struct timespec pause = { .tv_nsec = TRY_NS };

    for (int i = 0; i < TRIES; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (connect(fd, (const struct sockaddr *)at, sizeof(*at)) == 0) {
            return fd;
        }
        close(fd);
        nanosleep(&pause, NULL);
    }
    return -1;
}

static bool know_addresses(void)
{
    struct sockaddr_in mine;
    struct sockaddr_in theirs;
    socklen_t bytes = sizeof(mine);

    if (getsockname(link_fd, (struct sockaddr *)&mine, &bytes) != 0 ||
        getpeername(link_fd, (struct sockaddr *)&theirs, &bytes) != 0) {
        return complain("addresses");
    }
    is_local = mine.sin_addr.s_addr == theirs.sin_addr.s_addr;
    return inet_ntop(AF_INET, &mine.sin_addr, own_address, sizeof(own_address)) != NULL;
}

bool bare_link_open(int *rank)
{
    static const int yes = 1;
    struct sockaddr_in at = { .sin_family = AF_INET };
    const char *text = setting("BARE_AT", "127.0.0.1");

    at.sin_port = htons((uint16_t)atoi(setting("BARE_PORT", "0")));
    if (at.sin_port == 0) {
        at.sin_port = htons(PORT);
    }
    if (inet_pton(AF_INET, text, &at.sin_addr) != 1) {
        fprintf(stderr, "bare_ofi: BARE_AT=%s: must be an address in digits\n", text);
        return false;
    }
    if (!find_rank(rank)) {
        return false;
    }
    link_fd = *rank == 1 ? accept_one(&at) : connect_to(&at);
    if (link_fd < 0) {
        return complain(text);
    }
    setsockopt(link_fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    return know_addresses();
}

bool bare_link_close(void)
{
    int status = 0;

    close(link_fd);
    if (child > 0 && waitpid(child, &status, 0) == child) {
        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    return true;
}

const char *bare_link_address(void)
{
    return own_address;
}

bool bare_link_is_local(void)
{
    return is_local;
}

int bare_link_fd(void)
{
    return link_fd;
}

/* Whether a call that moved n bytes leaves the link as it should be. */
static bool is_well(ssize_t n)
{
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

bool bare_link_swap(const void *mine, void *theirs, size_t bytes, void (*idle)(void))
{
    size_t sent = 0;
    size_t received = 0;

    while (sent < bytes || received < bytes) {
        ssize_t n;

        if (sent < bytes) {
            n = send(link_fd, (const char *)mine + sent, bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (!is_well(n)) {
                return false;
            }
            sent += n > 0 ? (size_t)n : 0;
        }
        n = recv(link_fd, (char *)theirs + received, bytes - received, MSG_DONTWAIT);
        if (received < bytes && !is_well(n)) {
            return false;
        }
        received += n > 0 ? (size_t)n : 0;
        if (n <= 0) {
            idle();
        }
    }
    return true;
}
