#include "node/host/announcement.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

// Standard output's own description is shared with whoever started the node, and stays as it is: a
// pipe or a terminal is opened once more, and a socket takes a flag. A file never waits, and a pipe
// that may not be opened does.
static int output_open(void)
{
    struct stat status;
    bool may_wait =
        fstat(STDOUT_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode));
    int flags = O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
    int fd = may_wait ? open("/proc/self/fd/1", flags) : -1;
    return fd >= 0 ? fd : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
}

static ssize_t put(int fd, const char *text, size_t len)
{
    ssize_t sent = send(fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent < 0 && errno == ENOTSOCK ? write(fd, text, len) : sent;
}

// False: the rest when there is room again.
static bool say_more(struct announcement *a)
{
    while (a->at < a->len) {
        ssize_t sent = put(a->fd, a->text + a->at, a->len - a->at);
        if (sent < 0 && errno == EAGAIN) {
            return false;
        }
        if (sent < 0 && errno != EINTR) {
            return true; // nobody will read it
        }
        a->at += sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

static void on_room(void *ctx, uint32_t events)
{
    if (say_more(ctx)) {
        announcement_end(ctx);
    }
}

void announcement_begin(struct announcement *a, struct loop *loop, char *text, size_t len)
{
    *a = (struct announcement){.fd = output_open(), .text = text, .len = len};
    if (a->fd < 0 || say_more(a)) {
        announcement_end(a);
        return;
    }
    a->watch = loop_watch(loop, a->fd, EPOLLOUT, on_room, a);
}

void announcement_end(struct announcement *a)
{
    loop_unwatch(a->watch);
    if (a->fd > 0) {
        close(a->fd);
    }
    free(a->text);
    *a = (struct announcement){.fd = -1};
}
