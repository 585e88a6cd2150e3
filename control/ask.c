#include "control/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MAX_LEN = 64 << 20, ANSWER_SECONDS = 5 };

static int connect_to(const struct process *process)
{
    struct sockaddr_un addr;
    socklen_t addr_len = process_address(process, &addr);
    struct timeval limit = {.tv_sec = ANSWER_SECONDS};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
        connect(fd, (struct sockaddr *)&addr, addr_len) != 0) {
        int error = errno == EAGAIN ? ETIMEDOUT : errno;
        close(fd);
        return -error;
    }
    return fd;
}

// Anybody may take an abstract name, and a path may lead elsewhere. In a user namespace a process
// may know its user by another number than we do; it is believed if it is our own.
static bool is_genuine(int fd, const struct process *process)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == process->uid || (process->path[0] == '\0' && peer.uid == geteuid()));
}

static int answer_read(int fd, char **ret_text, size_t *ret_len)
{
    char *text = NULL;
    size_t len = 0, capacity = 0;
    int error = 0;
    time_t deadline = time(NULL) + ANSWER_SECONDS;
    for (;;) {
        if (len == capacity) {
            capacity = capacity == 0 ? 64 << 10 : 2 * capacity;
            char *larger = capacity <= ANSWER_MAX_LEN ? realloc(text, capacity) : NULL;
            if (larger == NULL) {
                error = capacity <= ANSWER_MAX_LEN ? -ENOMEM : -EMSGSIZE;
                break;
            }
            text = larger;
        }
        ssize_t got = read(fd, text + len, capacity - len);
        if (got <= 0) {
            error = got == 0 ? 0 : (errno == EAGAIN ? -ETIMEDOUT : -errno);
            break;
        }
        len += (size_t)got;
        if (time(NULL) > deadline) {
            error = -ETIMEDOUT;
            break;
        }
    }
    if (error == 0 && len == 0) {
        error = -EACCES; // how a device shows strangers the door
    }
    if (error != 0) {
        free(text);
        return error;
    }
    *ret_text = text;
    *ret_len = len;
    return 0;
}

int process_ask(const struct process *process, const char *request, char **ret_text,
                size_t *ret_len)
{
    ssize_t request_len = (ssize_t)strlen(request);
    int fd = connect_to(process);
    if (fd < 0) {
        return fd;
    }
    int error = 0;
    if (!is_genuine(fd, process)) {
        error = -EACCES;
    } else if (send(fd, request, (size_t)request_len, MSG_NOSIGNAL) != request_len) {
        error = errno == EPIPE ? -EACCES : -errno;
    } else {
        error = answer_read(fd, ret_text, ret_len);
    }
    close(fd);
    return error == -ECONNRESET ? -EACCES : error;
}
