#include "listen/passed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "text/quantity.h"

enum { PASSED_FIRST = 3, PASSED_MAX = 1024 };

static const char prefix[] = "fd:", unnamed[] = "unknown";

// How many; 0 also where they are another process's, as a child's environment says of its parent.
static int count(void)
{
    uint64_t pid, n;
    const char *of = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    if (of == NULL || fds == NULL || !text_number_parse(of, 1, INT32_MAX, &pid) ||
        !text_number_parse(fds, 0, PASSED_MAX, &n) || (pid_t)pid != getpid()) {
        return 0;
    }
    return (int)n;
}

// The descriptors of this name: how many there are, and the first of them.
static int find(const char *name, int *ret_fd)
{
    const char *at = getenv("LISTEN_FDNAMES");
    const int end = PASSED_FIRST + count();
    int found = 0;
    if (at == NULL && strcmp(name, unnamed) == 0) {
        *ret_fd = PASSED_FIRST;
        return count();
    }
    for (int fd = PASSED_FIRST; fd < end && at != NULL; fd++) {
        const size_t len = strcspn(at, ":");
        if (len == strlen(name) && memcmp(at, name, len) == 0 && found++ == 0) {
            *ret_fd = fd;
        }
        at = at[len] == ':' ? at + len + 1 : NULL;
    }
    return found;
}

static bool is_listening_stream(int fd)
{
    int type, listens;
    socklen_t type_len = sizeof type, listens_len = sizeof listens;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) == 0 && type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_len) == 0 && listens != 0;
}

bool passed_is(const char *address)
{
    return strncmp(address, prefix, sizeof prefix - 1) == 0;
}

int passed_open(const char *address, struct why *ret_why)
{
    int fd = -1;
    const int found = find(address + sizeof prefix - 1, &fd);
    if (found != 1) {
        why_say(ret_why, "%.64s: %d sockets of this name were passed to this process", address,
                found);
        return found == 0 ? -ENOENT : -EINVAL;
    }
    if (!is_listening_stream(fd)) {
        why_say(ret_why, "%.64s: what was passed is no stream socket that listens", address);
        return -ENOTSOCK;
    }
    const int own = fcntl(fd, F_DUPFD_CLOEXEC, PASSED_FIRST);
    if (own < 0 || fcntl(own, F_SETFL, O_NONBLOCK) != 0) {
        const int error = -errno;
        why_say(ret_why, "%.64s: %s", address, strerror(-error));
        if (own >= 0) {
            close(own);
        }
        return error;
    }
    return own;
}

void passed_keep(void)
{
    for (int fd = PASSED_FIRST; fd < PASSED_FIRST + count(); fd++) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}
