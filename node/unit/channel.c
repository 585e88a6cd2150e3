#include "node/unit/channel.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "text/show.h"

enum { RECEIVE_FD_MAX = 4 }; // of one message; the kernel closes the rest

// What is sent has one descriptor; what comes may have more, whatever is allowed.
union ancillary {
    struct cmsghdr header;
    char octets[CMSG_SPACE(RECEIVE_FD_MAX * sizeof(int))];
};

int channel_pair(int ret_fds[2])
{
    int type = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
    return socketpair(AF_UNIX, type, 0, ret_fds) == 0 ? 0 : -errno;
}

int channel_send(int fd, const struct unit_message *message, int keepsake)
{
    union ancillary ancillary = {.octets = {0}};
    struct iovec iov = {.iov_base = (void *)message, .iov_len = sizeof *message};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
    if (keepsake >= 0) {
        header.msg_control = ancillary.octets;
        header.msg_controllen = CMSG_SPACE(sizeof keepsake);
        struct cmsghdr *c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof keepsake);
        memcpy(CMSG_DATA(c), &keepsake, sizeof keepsake);
    }
    ssize_t sent = sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
        return errno == ECONNRESET ? -EPIPE : -errno; // it went, and had not read all
    }
    return (size_t)sent == sizeof *message ? 0 : -EMSGSIZE;
}

void channel_drop(int fd)
{
    // The close of a socket that lingers would last as long as its sender likes.
    struct linger none = {0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close(fd);
}

// All descriptors that came. One is given back; more are one too many, and closed.
static int descriptors_in(struct msghdr *header, int *ret)
{
    int fds[RECEIVE_FD_MAX];
    size_t count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c != NULL; c = CMSG_NXTHDR(header, c)) {
        bool is_fds = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS;
        size_t here = is_fds ? (c->cmsg_len - CMSG_LEN(0)) / sizeof fds[0] : 0;
        for (size_t i = 0; i < here && count < RECEIVE_FD_MAX; i++) {
            memcpy(&fds[count++], CMSG_DATA(c) + i * sizeof fds[0], sizeof fds[0]);
        }
    }
    *ret = count == 1 ? fds[0] : -1;
    for (size_t i = 0; i < count && count > 1; i++) {
        channel_drop(fds[i]);
    }
    return count > 1 ? -EPROTO : 0;
}

int channel_receive(int fd, struct unit_message *ret, int *ret_keepsake)
{
    union ancillary ancillary;
    struct iovec iov = {.iov_base = ret, .iov_len = sizeof *ret};
    struct msghdr header = {.msg_iov = &iov,
                            .msg_iovlen = 1,
                            .msg_control = ancillary.octets,
                            .msg_controllen = sizeof ancillary.octets};
    *ret_keepsake = -1;
    ssize_t got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0) {
        return errno == ECONNRESET ? 0 : -errno;
    }
    int error = descriptors_in(&header, ret_keepsake);
    if (got == 0 && error == 0 && *ret_keepsake < 0) {
        return 0;
    }
    bool is_message = (size_t)got == sizeof *ret &&
                      (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 &&
                      (*ret_keepsake < 0 || ret->kind == UNIT_OPEN);
    if (error != 0 || !is_message) {
        if (*ret_keepsake >= 0) {
            channel_drop(*ret_keepsake);
            *ret_keepsake = -1;
        }
        return -EPROTO;
    }
    // A text of another process ends within the message, and steers no terminal.
    text_tame(ret->why, sizeof ret->why);
    if (ret->kind == UNIT_OPEN) {
        ret->uri[sizeof ret->uri - 1] = '\0';
        ret->pin[sizeof ret->pin - 1] = '\0';
    }
    return 1;
}
